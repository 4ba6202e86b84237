/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and directories: bounded reads, complete writes, directories created as needed. All descriptors are
 * close-on-exec.
 */
#pragma once

#include "base/util.h"
#include <errno.h>
#include <sys/stat.h>
#include <sys/types.h>

/* The unit of st_blocks. */
#define STAT_BLOCK_BYTES 512

/* Reads at most max bytes until the end of the file, NUL-terminated; -EFBIG for more. The caller frees *ret. */
int read_fd(int fd, size_t max, char **ret, size_t *ret_size);
int read_file(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_size);
int write_all(int fd, const void *data, size_t size);
/* Makes a directory and its missing parents; an existing directory is fine. */
int make_dirs(const char *path, mode_t mode);
int fsync_path(const char *directory);
/* Opens a regular file for reading; never follows a link in the last component, never blocks on a FIFO.
 * -ELOOP, -EINVAL. */
int open_regular(int dir_fd, const char *path, struct stat *ret_st);
/* True on file systems where inotify does not see other hosts' changes (NFS, Lustre, FUSE, 9p, CIFS, ...). */
bool is_remote_fs(const char *path);
/* A file name safe to store under: no slash, no control byte, not "." or "..", at most 255 bytes. */
bool is_plain_name(const char *name);
/* Removes the first component from a path, with the slashes around it: into name, NAME_MAX + 1 bytes, which is
 * empty at the path's end. 0 or -ENAMETOOLONG. */
int path_take_component(char *path, char *name);
/* The directory for large temporary files: $TMPDIR if it is absolute, else /var/tmp, which is on a disk.
 * Borrowed. */
const char *temp_dir(void);

/* Complete reads and writes of a range of a file, with as many system calls as needed. */

/* Returns the number of bytes read, fewer than size only at the end of the file; or -errno. */
ssize_t pread_full(int fd, void *data, size_t size, uint64_t offset);
/* 0 or -errno. */
int pwrite_full(int fd, const void *data, size_t size, uint64_t offset);
