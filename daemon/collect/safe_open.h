/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories and files whose paths come from workers, opened without being led elsewhere. Blocks: for the
 * offload's threads.
 *
 * The path of a directory may contain links of root and of profd's own user. Another user's link is followed
 * to a directory of that user, no further. Where the path led at first is where it must lead as long as the
 * directory is used; it is then opened again by openat2() without any link. Below the directory only regular
 * files are opened: anything else is looked at by fstatat(), and not touched.
 *
 * A file_reference opens a file again by the path in its row, long after the file was read. A file in the
 * store is profd's own. One that was left in place must still belong to its owner; and where the path leads
 * through a process (/proc/PID/root/...), it must be that process, and the same file: a process number is
 * given to the next process, whose files are another user's.
 */
#pragma once

#include "daemon/catalog/records.h"
#include <sys/stat.h>

/* Bytes of holes in one file: a file with more is no trace, and takes as long to read as one of its length. */
#define FILE_HOLES_MAX (INT64_C(256) << 20)

/* Where a directory was when its use began. */
struct dir_location {
    char *real;              /* without links; NULL: it was not opened yet */
    int64_t process_started; /* of the process through whose root it is reached; RECORD_NONE: none */
    bool on_network;         /* it must be on a network file system whenever it is opened */
};
void location_copy(const struct dir_location *from, struct dir_location *to);
void location_done(struct dir_location *l);
/* That of a directory below, which is reached without links. below: "rank_0", "decode/rank_0". */
void location_below(const struct dir_location *from, const char *below, struct dir_location *to);

/*
 * Opens a directory for listing, at its previous location; `location` is filled where it is empty. -ENOENT,
 * -ENOTDIR, -EACCES, ...; -ELOOP with *ret_refusal, a sentence that the caller frees, where the path is not
 * to be trusted.
 */
int safe_open_dir(const char *path, struct dir_location *location, char **ret_refusal);
/* A directory in it, for listing; -ELOOP, -EXDEV for a link. */
int safe_open_dir_beneath(int dir_fd, const char *name);
/* A regular file in it. -ELOOP for a link, -EINVAL for other kinds; *ret_kind is then file_kind(). */
int safe_open_file(int dir_fd, const char *name, struct stat *ret_st, const char **ret_kind);
/* "a symbolic link", "a named pipe", ... with the error of opening one; NULL for a regular file. */
const char *file_kind(mode_t mode, int *ret_error);
/* Bytes of an open file that were never written. Counting stops beyond FILE_HOLES_MAX. */
int64_t file_holes(int fd, const struct stat *st);
/* Start time of the process through whose root (/proc/PID/root) a path leads; RECORD_NONE: through none.
 * -ENOENT, -ESRCH: the process has ended. */
int path_process_started(const char *path, int64_t *ret);

struct file_reference {
    char *path;
    bool in_store; /* profd's own: a copy, or columns */
    int64_t owner_uid, process_started, device, inode, size, recorded_at;
};

/* Copies the fields that opening needs, for a thread. */
void reference_of(const struct trace_record *t, struct file_reference *ret);
void reference_of_stored(const char *path, struct file_reference *ret);
void reference_done(struct file_reference *r);
/* Blocks. A descriptor; -ESTALE where the path now names another file; -ENOENT, -ELOOP, ... */
int reference_open(const struct file_reference *r, struct stat *ret_st);
/* Blocks. The same for a path without a row: any regular file, with path_process_started(). */
int reference_open_new(const char *path, struct stat *ret_st, int64_t *ret_process_started);
