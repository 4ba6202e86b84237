/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is opened again by the path that a row has, long after somebody first looked at it. What lies
 * in the store is profd's own. What was left where its worker wrote it must still be its owner's; and where
 * the path leads through a process (/proc/PID/root/...), that process, and the very file that was read: a
 * number of a process is given to the next one, whose files are others'.
 */
#pragma once

#include "daemon/catalog/records.h"
#include <sys/stat.h>

struct reference {
    char *path;
    bool own; /* profd's: a file of the store, or columns */
    int64_t owner_uid, process_started, device, inode, size, recorded_at;
};

/* Copies what is needed for opening it on a thread. */
void reference_of(const struct trace_record *t, struct reference *ret);
void reference_of_own(const char *path, struct reference *ret);
void reference_done(struct reference *r);
/* Blocks. A descriptor; -ESTALE where it is another file than the row's by now; -ENOENT, -ELOOP, ... */
int reference_open(const struct reference *r, struct stat *ret_st);

/* Blocks. The same of a path that no row has yet: any regular file, and since when the process runs through
 * which it was opened, RECORD_NONE for none. */
int reference_open_new(const char *path, struct stat *ret_st, int64_t *ret_process_started);
