/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of profd-ingest: reads a file once, from its beginning to its end, and on the way copies, hashes,
 * unpacks and looks at it; where columns are wanted and it is a trace, reads it into them. Everything that
 * needs a file, the random source or the number of processors is done by check_new(), before the sandbox;
 * check_run() reads and writes its descriptors, begins threads, and nothing else.
 */
#pragma once

#include "base/json.h"
#include "trace/read/events.h"

struct check;

struct check_order {
    int source_fd;
    int dest_fd, columns_fd, spill_fd, progress_fd; /* -1 where not wanted */
    int64_t size_max;
    int64_t memory_max; /* of reading into columns; 0: the reader's own */
    struct merged_part part;
};

/* The descriptors stay the caller's. */
int check_new(const struct check_order *order, struct check **ret);
struct check *check_free(struct check *c);
/* The result as proto/ingest.h describes it; the caller owns it. */
json_t *check_run(struct check *c);

DEFINE_CLEANUP(struct check *, check_free)
