/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories and files whose names come from workers, opened without being led elsewhere. Blocks: for the
 * offload's threads.
 *
 * The way to a directory may lead over links of root and of profd's own user. Another user's link is followed
 * to what belongs to that user, no further. Where the way led at first is where it must lead as long as the
 * directory is used; it is then walked again by openat2() without any link. Below the directory nothing but
 * regular files is opened: what else lies there is looked at, not touched.
 */
#pragma once

#include "daemon/catalog/records.h"
#include <sys/stat.h>

/* Of holes in one file: what is mostly holes is no trace, and takes as long to read as if it were one. */
#define PLACE_HOLES_MAX (INT64_C(256) << 20)

/* Where a directory lay when its use began. */
struct place {
    char *real;              /* without links; NULL: it was not opened yet */
    int64_t process_started; /* of the process in whose view it is, RECORD_NONE: in profd's own */
};
void place_copy(const struct place *from, struct place *to);
void place_done(struct place *p);

/*
 * Opens a directory for listing, where it lay before; `at` is filled where that is not known. -ENOENT,
 * -ENOTDIR, -EACCES, ...; -ELOOP with *ret_refusal, a sentence that the caller frees, where the way to it is
 * not to be trusted.
 */
int place_open(const char *path, struct place *at, char **ret_refusal);
/* Since when the process runs through whose root (/proc/PID/root) a path leads; RECORD_NONE where through
 * none. -ENOENT, -ESRCH: it is gone. */
int place_process_started(const char *path, int64_t *ret);
/* What is no regular file: "a symbolic link", "a named pipe"; NULL where it is one. */
const char *place_describe(mode_t mode);
/* A regular file in it. -ELOOP for a link, -EINVAL for what else is no file; *ret_what is then
 * place_describe(). */
int place_open_file(int dir_fd, const char *name, struct stat *ret_st, const char **ret_what);
/* How many bytes of an open file were never written. Not counted to the end where they are more than
 * PLACE_HOLES_MAX. */
int64_t place_holes(int fd, const struct stat *st);
