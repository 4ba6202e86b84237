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

#include "base/util.h"
#include <sys/stat.h>

/*
 * Opens a directory for listing. *real is where it truly lies: filled where it is NULL, compared where it is
 * not. -ENOENT, -ENOTDIR, -EACCES, ...; -ELOOP with *ret_refusal, a sentence that the caller frees, where the
 * way to it is not to be trusted.
 */
int place_open(const char *path, char **real, char **ret_refusal);
/* A regular file in it. -ELOOP for a link, -EINVAL for what else is no file; *ret_what then names it: "a
 * symbolic link", "a named pipe". */
int place_open_file(int dir_fd, const char *name, struct stat *ret_st, const char **ret_what);
