/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace in words, and lists of traces that are longer than one answer. From the JSON of /v1/traces; the
 * caller frees what is returned.
 */
#pragma once

#include "client/transport/connection.h"

/* "dp1 tp3", "rank 5", "tp0 decode"; NULL where nothing is known. In short only tp and what is not 0. */
char *trace_rank(const json_t *trace, bool in_short);
/* "complete, 3 events lost, unclaimed", "truncated: gzip ends after 1,234 events" */
char *trace_state(const json_t *trace);
/* Of its defects, those that cost data: "3 events lost"; NULL where there is none. */
char *trace_losses(const json_t *trace);
enum colour trace_colour(const json_t *trace);

/* What "path" lists, page after page, until limit (INT64_MAX: all) in one object as a single answer would be.
 * Returns an exit status. */
int traces_fetch(struct client *c, const char *path, int64_t limit, json_t **ret);

/* The names that took most time: of the GPU's work, or, where there is none, of all. Nothing where the trace
 * was not read. */
void trace_print_names(struct client *c, const json_t *trace);
