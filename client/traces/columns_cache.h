/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columnar files that were made here, kept for the next question: in $XDG_CACHE_HOME/profd/columns, bounded
 * in bytes, the one that was not used for longest goes first.
 *
 * A key identifies the source of the columns: a file's device, inode, size and time of change, or the SHA-256
 * of a trace of profd. A file appears under its key only when it is complete. Where there is no cache (a home
 * that cannot be written to) columns go into a nameless file and are made anew each time. Whether a file is
 * sound is for its reader to check; one that is not is dropped.
 */
#pragma once

#include "base/problem.h"
#include <sys/stat.h>

/* Beyond this many bytes the oldest go; the newest stays, whatever its size. */
#define COLUMNS_CACHE_BYTES (INT64_C(8) << 30)

/* Both are to be freed. */
char *columns_key_of_file(const struct stat *st);
char *columns_key_of_trace(const char *sha256, int64_t size);

/* The descriptor of the columns with that key, or -ENOENT. */
int columns_cache_open(const char *key);
void columns_cache_drop(const char *key);

/* Columns that are being written. */
struct columns_draft {
    int fd;
    char *path; /* NULL where it has no name and will be lost with its descriptor */
};

int columns_draft_new(struct columns_draft *ret, struct problem *p);
/* Gives the file its name, and lets the oldest go. */
void columns_draft_keep(struct columns_draft *d, const char *key);
/* Removes what was not kept, and closes the descriptor unless it was taken (-1). */
void columns_draft_done(struct columns_draft *d);
/* A file without a name, on the disk of $TMPDIR; a descriptor or -errno. */
int nameless_file(void);
