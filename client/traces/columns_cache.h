/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of columnar files that profctl has made, in $XDG_CACHE_HOME/profd/columns, with a limit in bytes: the least
 * recently used file is deleted first.
 *
 * A key identifies the source of the columns: device, inode, size and time of change of a file, or the SHA-256 of a
 * trace of profd. A file appears under its key only when it is complete. Without a cache (a home that is not writable),
 * columns are written to a file without a name, each time again. The reader checks whether a file is valid, and drops
 * it if not.
 */
#pragma once

#include "base/problem.h"
#include <sys/stat.h>

/* Above this size the oldest files are deleted; the newest stays, whatever its size. */
#define COLUMNS_CACHE_BYTES (INT64_C(8) << 30)

/* Both are to be freed. */
char *columns_key_of_file(const struct stat *st);
char *columns_key_of_trace(const char *sha256, int64_t size);

/* The descriptor of the columns with that key, or -ENOENT. */
int columns_cache_open(const char *key);
void columns_cache_drop(const char *key);
/* Columns of which a part may be there, to be read and written by this process alone: of the cache, or where another
 * process uses them or there is no cache, without a name. A descriptor or -errno. */
int columns_cache_open_partial(const char *key);
/* They are complete or damaged: another process begins anew. */
void columns_cache_drop_partial(const char *key);

/* Columns that are being written. */
struct columns_draft {
    int fd;
    char *path; /* NULL: it has no name, and is lost with its descriptor */
};

int columns_draft_new(struct columns_draft *ret, struct problem *p);
/* Gives the file its name, and deletes the oldest files. */
void columns_draft_keep(struct columns_draft *d, const char *key);
/* Removes a draft that was not kept, and closes the descriptor unless it was taken (-1). */
void columns_draft_done(struct columns_draft *d);
/* A file without a name, on the disk of $TMPDIR; a descriptor or -errno. */
int nameless_file(void);
