/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace in words, and lists of traces that are longer than one response, from the JSON of /v1/traces. The caller
 * frees results.
 */
#pragma once

#include "client/transport/connection.h"

/* "dp1 tp3", "rank 5", "tp0 decode"; NULL: unknown. in_short: only tp and numbers that are not 0. */
char *trace_rank(const json_t *trace, bool in_short);
/* "complete, 3 events lost, unclaimed", "truncated: gzip ends after 1,234 events" */
char *trace_state(const json_t *trace);
/* Its lost events: "3 events lost"; NULL: none. */
char *trace_losses(const json_t *trace);
enum colour trace_colour(const json_t *trace);

/* What "path" lists, page after page, until limit (INT64_MAX: all) in one object as a single answer would be.
 * Returns an exit status. */
int traces_fetch(struct client *c, const char *path, int64_t limit, json_t **ret);

/* Notes that the session is this host's part of one of several hosts, and where all of it is, unless other hosts were asked for
 * their traces: answer is the list of its traces. Of any other session nothing. */
void trace_note_part(struct client *c, const char *ref, const json_t *session, const json_t *answer);
/* The same of a session that is named alone. One that cannot be read is no failure. */
void trace_note_part_of(struct client *c, const char *ref, const json_t *answer);

/* Prints the names with the most time: of GPU events, or without any, of all. Nothing if the trace was not read. */
void trace_print_names(struct client *c, const json_t *trace);
