/* SPDX-License-Identifier: Apache-2.0 */
#include "base/network_fs.h"

#include <linux/magic.h>

static const struct {
    unsigned long f_type;
    const char *name;
} network_magics[] = {
    {NFS_SUPER_MAGIC, "NFS"}, {0x0bd00bd0, "Lustre"},       {0xff534d42, "CIFS"},  {0xfe534d42, "SMB"},
    {SMB_SUPER_MAGIC, "SMB"}, {CEPH_SUPER_MAGIC, "CephFS"}, {0x47504653, "GPFS"},  {0x19830326, "BeeGFS"},
    {0xaad7aaea, "PanFS"},    {AFS_SUPER_MAGIC, "AFS"},     {AFS_FS_MAGIC, "AFS"}, {CODA_SUPER_MAGIC, "Coda"},
    {V9FS_MAGIC, "9P"},
};

/* A tag of 9P is of one virtual machine; remotes of rclone are of one user's configuration. */
static const struct network_fs network_types[] = {
    {"nfs", "NFS", NETWORK_FS_PATH},
    {"nfs4", "NFS", NETWORK_FS_PATH},
    {"cifs", "CIFS", NETWORK_FS_PATH},
    {"smb3", "CIFS", NETWORK_FS_PATH},
    {"lustre", "Lustre", NETWORK_FS_PATH},
    {"ceph", "CephFS", NETWORK_FS_PATH},
    {"panfs", "PanFS", NETWORK_FS_PATH},
    {"gpfs", "GPFS", NETWORK_FS_CLUSTER},
    {"beegfs", "BeeGFS", NETWORK_FS_CLUSTER},
    {"afs", "AFS", NETWORK_FS_CLUSTER},
    {"9p", "9P", NETWORK_FS_UNNAMED},
    {"fuse.sshfs", "SSHFS", NETWORK_FS_PATH},
    {"fuse.glusterfs", "GlusterFS", NETWORK_FS_PATH},
    {"fuse.seaweedfs", "SeaweedFS", NETWORK_FS_PATH},
    {"fuse.davfs", "davfs", NETWORK_FS_PATH},
    {"fuse.ceph", "CephFS", NETWORK_FS_CLUSTER},
    {"fuse.ceph-fuse", "CephFS", NETWORK_FS_CLUSTER},
    {"fuse.juicefs", "JuiceFS", NETWORK_FS_CLUSTER},
    {"fuse.JuiceFS", "JuiceFS", NETWORK_FS_CLUSTER},
    {"fuse.moosefs", "MooseFS", NETWORK_FS_CLUSTER},
    {"fuse.mfs", "MooseFS", NETWORK_FS_CLUSTER},
    {"fuse.s3fs", "S3FS", NETWORK_FS_UNNAMED},
    {"fuse.goofys", "goofys", NETWORK_FS_UNNAMED},
    {"fuse.mountpoint-s3", "Mountpoint for S3", NETWORK_FS_UNNAMED},
    {"fuse.gcsfuse", "gcsfuse", NETWORK_FS_UNNAMED},
    {"fuse.rclone", "rclone", NETWORK_FS_UNNAMED},
    {"fuse.blobfuse2", "blobfuse", NETWORK_FS_UNNAMED},
};

const struct network_fs *network_fs_find(const char *type)
{
    for (size_t i = 0; i < ARRAY_SIZE(network_types); i++)
        if (streq(network_types[i].type, type))
            return &network_types[i];
    return NULL;
}

const char *network_fs_name(unsigned long f_type)
{
    for (size_t i = 0; i < ARRAY_SIZE(network_magics); i++)
        if (network_magics[i].f_type == f_type)
            return network_magics[i].name;
    return NULL;
}

const char *network_fuse_name(const char *fs_type)
{
    const struct network_fs *fs = starts_with(fs_type, "fuse.") ? network_fs_find(fs_type) : NULL;

    return fs ? fs->name : NULL;
}
