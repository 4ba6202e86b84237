/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a benchmark run as a Parquet file (docs/parquet.md): the view `requests`, with what identifies the run. */
#pragma once

#include "daemon/catalog/records.h"
#include <stdio.h>

struct request_table;

/* Texts are borrowed. */
struct request_origin {
    const char *catalog, *host;
    const char *model;                      /* NULL: not known */
    int64_t run_id, session_id, started_at; /* RECORD_NONE: none */
};

/* The FILE and the origin are borrowed. 0, -ENOMEM, or the error of the FILE. */
int request_table_new(const struct request_origin *origin, FILE *out, struct request_table **ret);
struct request_table *request_table_free(struct request_table *t);
int request_table_add(struct request_table *t, const struct request_row *r);
/* Writes the end of the file. */
int request_table_finish(struct request_table *t);

DEFINE_CLEANUP(struct request_table *, request_table_free)
