/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session in words: title, a line for each worker, progress and outcome, from the JSON of /v1/sessions/ID. The
 * caller frees results.
 */
#pragma once

#include "base/json.h"
#include "client/cli/table.h"
#include "proto/names.h"

/* "Session s7 on http://10.0.0.1:3521 (vllm-router, 8 workers: 2 prefill, 6 decode)" */
char *session_title(const json_t *session);

/* The table of workers and the line below it. Not more than max_rows workers (0: all), those that need
 * attention first. For what is drawn again. */
char *session_block(const json_t *session, const struct screen *s, unsigned max_rows, int64_t now_wall_ns);

/* The table alone, with all workers: its columns, and its rows. */
#define N_SESSION_COLUMNS 8
const struct table_column *session_columns(const json_t *session);
void session_add_workers(struct table *table, const json_t *session, int64_t now_wall_ns);

/* "recording 2.1s of 5.0s · starts sent within 3.1 ms of each other · 412 MiB" */
char *session_progress(const json_t *session, int64_t now_wall_ns);

/* "waiting for gpu2: no answer for 12s, until 10:42:07", of a target whose host is silent. */
char *session_silence_text(const json_t *target, int64_t now_wall_ns);

/* What became of it: one line, and why not all of it was recorded. */
void session_print_outcome(const json_t *session, const struct screen *s);
/* Remarks from before it began: options that an engine does not honour, workers that are left out. */
void session_print_remarks(const json_t *session, const struct screen *s);

/* -1 for an unknown word. */
int session_state(const json_t *session);
bool session_is_over(const json_t *session);
/* Exit status of having waited for it. */
int session_exit_status(const json_t *session);
