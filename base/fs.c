/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"

#include "base/alloc.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/vfs.h>

/* Not in linux/magic.h: Lustre, CIFS and GPFS name their own. */
#define MAGIC_LUSTRE 0x0BD00BD0
#define MAGIC_CIFS   0xFF534D42
#define MAGIC_SMB2   0xFE534D42
#define MAGIC_GPFS   0x47504653
#define MAGIC_FUSE   0x65735546
#define MAGIC_9P     0x01021997

int read_fd(int fd, size_t max, char **ret, size_t *ret_size)
{
    size_t size = 0, capacity = 4096;
    _cleanup_(freep) char *data = xcalloc(capacity, 1);
    for (;;) {
        if (capacity - size < 2) {
            capacity *= 2;
            data = xrealloc(data, capacity, 1);
        }
        ssize_t n = TEMP_FAILURE_RETRY(read(fd, data + size, capacity - size - 1));
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        size += (size_t)n;
        if (size > max)
            return -EFBIG;
    }
    data[size] = '\0';
    *ret = TAKE_PTR(data);
    if (ret_size)
        *ret_size = size;
    return 0;
}

int read_file(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_size)
{
    _cleanup_(closep) int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : read_fd(fd, max, ret, ret_size);
}

int write_all(int fd, const void *data, size_t size)
{
    ssize_t n;

    for (size_t done = 0; done < size; done += (size_t)n) {
        n = TEMP_FAILURE_RETRY(write(fd, (const char *)data + done, size - done));
        if (n < 0)
            return -errno;
    }
    return 0;
}

ssize_t pread_full(int fd, void *data, size_t size, uint64_t offset)
{
    size_t done = 0;
    ssize_t n = 1;

    for (; done < size && n > 0; done += (size_t)n) {
        n = TEMP_FAILURE_RETRY(pread(fd, (char *)data + done, size - done, (off_t)(offset + done)));
        if (n < 0)
            return -errno;
    }
    return (ssize_t)done;
}

int pwrite_full(int fd, const void *data, size_t size, uint64_t offset)
{
    ssize_t n;

    for (size_t done = 0; done < size; done += (size_t)n) {
        n = TEMP_FAILURE_RETRY(pwrite(fd, (const char *)data + done, size - done, (off_t)(offset + done)));
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
    }
    return 0;
}

int make_dirs(const char *path, mode_t mode)
{
    _cleanup_(freep) char *copy = xstrdup(path);
    struct stat st;

    for (char *p = copy + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(copy, mode) < 0 && errno != EEXIST)
            return -errno;
        *p = '/';
    }
    if (mkdir(copy, mode) < 0 && errno != EEXIST)
        return -errno;
    if (stat(copy, &st) < 0)
        return -errno;
    return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int fsync_path(const char *directory)
{
    _cleanup_(closep) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return -errno;
    return 0;
}

int open_regular(int dir_fd, const char *path, struct stat *ret_st)
{
    struct stat st;
    _cleanup_(closep) int fd =
        openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if (ret_st)
        *ret_st = st;
    return TAKE_FD(fd);
}

bool is_remote_fs(const char *path)
{
    static const unsigned long remote[] = {NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, MAGIC_CIFS, MAGIC_SMB2,
                                           MAGIC_LUSTRE,    MAGIC_GPFS,      MAGIC_FUSE, MAGIC_9P,
                                           AFS_SUPER_MAGIC, CEPH_SUPER_MAGIC};
    struct statfs fs;
    if (statfs(path, &fs) < 0)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(remote); i++)
        if ((unsigned long)(unsigned int)fs.f_type == remote[i])
            return true;
    return false;
}

int path_take_component(char *path, char *name)
{
    const char *begin = path + strspn(path, "/");
    size_t n = strcspn(begin, "/");

    if (n > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, begin, n);
    name[n] = '\0';
    const char *rest = begin + n + strspn(begin + n, "/");
    memmove(path, rest, strlen(rest) + 1);
    return 0;
}

bool is_plain_name(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > NAME_MAX || streq(name, ".") || streq(name, ".."))
        return false;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        if (*c < ' ' || *c == 0x7f || *c == '/')
            return false;
    return true;
}

const char *temp_dir(void)
{
    const char *named = getenv("TMPDIR");
    return named && *named == '/' ? named : "/var/tmp";
}
