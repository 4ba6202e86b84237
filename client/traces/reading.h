/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads trace files of this machine into columns, each with one profd-ingest (proto/ingest.h): only that
 * process, which is sandboxed, parses a file. As many run at a time as there are
 * processors, and share the memory that one alone may use.
 *
 * Blocks until all are done; a terminal sees how far they are. Ctrl-C and SIGTERM end the children, and what
 * was not done has -EINTR.
 */
#pragma once

#include "client/transport/connection.h"
#include "trace/read/intake.h"

/* Below that, no trace fits. */
#define READING_MEMORY_MIN (INT64_C(1) << 20)

struct reading {
    int source_fd, columns_fd; /* stay the caller's; columns_fd is an empty file */
    const char *name;          /* of the source, for people */
    struct merged_part part;   /* of a merged trace, what to read */
    /* What came of it: 0 where there are columns, also those of a trace that is damaged, or the problem. */
    int result;
    struct problem problem; /* the caller's, when all are done */
};

/* memory_max: of all together; OPTION_ABSENT: the default of profd-ingest. */
void readings_run(struct client *c, struct reading *readings, size_t n, int64_t memory_max);
