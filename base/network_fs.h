/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File systems that several hosts mount: by the magic number of statfs(2), and by the type that a mount table has. Pure.
 */
#pragma once

#include "base/util.h"

/* What the source of a mount is worth on another host. */
enum network_fs_source {
    NETWORK_FS_PATH, /* "server:/exported/path", "//server/share": the same directory from every host */
    NETWORK_FS_CLUSTER, /* a name that all hosts of a cluster have for the same file system: "gpfs0", "JuiceFS:data" */
    NETWORK_FS_UNNAMED, /* does not name the file system ("s3fs"), or only on its own host */
};

struct network_fs {
    const char *type; /* in a mount table: "nfs4", "fuse.sshfs" */
    const char *name; /* for people, and the same for all types of one file system: "NFS", "SSHFS" */
    enum network_fs_source source;
};

/* NULL for a file system of this host, and for what is not known to be one of a network. */
const struct network_fs *network_fs_find(const char *type);
/* "NFS"; NULL for a file system of this host. For FUSE see network_fuse_name(). */
const char *network_fs_name(unsigned long f_type);
/* "SSHFS" for "fuse.sshfs"; NULL where nothing is known against it. */
const char *network_fuse_name(const char *fs_type);
