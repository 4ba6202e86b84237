/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a columnar file front to back: values of any column in any interleaving, strings, and at the end
 * the directory. Buffers one chunk for each column in use, and 16 bytes for each block.
 *
 * The file is worthless until columns_writer_finish() succeeded: the caller writes to an unnamed or
 * temporary file, and names it then. An error is kept: every later call does nothing, and
 * columns_writer_finish() returns it. Not safe for several threads.
 */
#pragma once

#include "base/util.h"
#include "trace/columns/schema.h"

struct columns_writer;

/* fd is an empty file, writable; the caller keeps ownership. */
int columns_writer_new(int fd, struct columns_writer **ret);
struct columns_writer *columns_writer_free(struct columns_writer *w);

/* Call it before the first value, if the file is synced at the end: the disk then begins to write pages as soon as they
 * are complete. */
void columns_write_early(struct columns_writer *w);

/* Adds the next value of a column. At the end, all columns of a table must have the same number of values. */
void columns_put(struct columns_writer *w, enum column column, int64_t value);
void columns_put_many(struct columns_writer *w, enum column column, const int64_t *values, size_t n);

/* Calls back in the writer's own thread, or at once if there is none: after the values that were put before,
 * and before those put later, so that the file does not depend on who is faster. The call may put values, into
 * columns that only calls put. Returns a number to wait for. */
size_t columns_call(struct columns_writer *w, void (*call)(void *arg), void *arg);
/* Waits until this call has returned. */
void columns_wait_for(struct columns_writer *w, size_t call);

/* The dictionary, string 0 first. Once it has n strings, their numbers 0 to n - 1 are valid values. */
void columns_put_text(struct columns_writer *w, const char *text, size_t size);
/* Bytes that a column refers to (checkpoint windows); returns their offset in the file. */
uint64_t columns_put_bytes(struct columns_writer *w, const void *data, size_t size);

/* Writes directory and trailer, and syncs the file if sync is set. 0 or the first error (-ENOSPC, -EFBIG,
 * -EINVAL for columns of unequal length). */
int columns_writer_finish(struct columns_writer *w, bool sync, uint64_t *ret_size);

DEFINE_CLEANUP(struct columns_writer *, columns_writer_free)
