/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of profd-ingest: reads a file once, from its beginning to its end, and on the way copies, hashes,
 * unpacks and parses it; where columns are requested and it is a trace, reads it into them. Everything that
 * needs a file, the random source or the number of processors is done by check_new(), before the sandbox;
 * check_run() reads and writes its descriptors, starts threads, and nothing else.
 */
#pragma once

#include "base/json.h"
#include "trace/columns/columns.h"
#include "trace/read/intake.h"

struct ingest_check;

struct check_request {
    int source_fd;
    int dest_fd, columns_fd, spill_fd, progress_fd; /* -1: none */
    int64_t size_max;
    int64_t memory_max; /* of reading into columns; 0: the reader's own */
    struct merged_part part;
};

/* The descriptors stay the caller's. */
int check_new(const struct check_request *request, struct ingest_check **ret);
struct ingest_check *check_free(struct ingest_check *c);
/* The result as proto/ingest.h describes it; the caller owns it. */
json_t *check_run(struct ingest_check *c);

/* columns_facts.c: adds the facts, defects, categories and longest names of a columnar file. Bounded, whatever is
 * in the file. -EBADMSG where it turns out to be damaged. */
int columns_facts_add(const struct columns *c, json_t *facts);

DEFINE_CLEANUP(struct ingest_check *, check_free)
