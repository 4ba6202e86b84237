/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way to a file as a worker's process goes it: one component after the other, beneath its root, with
 * links as it follows them.
 *
 * profd may go where the process may not, and lends it nothing: a directory that its user may not search ends
 * the way. So does one that everybody may write to, where what is in it could be anybody's: what stands in
 * such a file says nothing of the worker.
 */
#pragma once

#include "base/process_info.h"
#include <sys/stat.h>

/* Whether the user may do all of what is asked (bits of one class: 4 read, 2 write, 1 search) with what lies
 * at path: 1, 0, or -1 where that is not known. */
int process_user_may(const struct process_status *user, const char *path, const struct stat *st,
                     unsigned bits);

/* An O_PATH descriptor of what lies at the end of the absolute path. -EACCES and -EPERM with the reason,
 * which the caller frees. */
int process_walk(int root_fd, const char *path, const struct process_status *user, char **ret_reason);
