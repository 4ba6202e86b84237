/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of events, sorted by time and packed: the form in which a reading keeps them until the end.
 *
 * run_pack() writes columns of blocks into a spill. A cursor reads a run back from its beginning, event by
 * event, and the rows of arguments of each group, row by row.
 *
 * Events at one time have trace_processor's order: if a trace has complete events, ends come first, then
 * longer complete events before shorter ones, so that a slice comes before the slices in it, then the rest.
 * Otherwise, and among equals, events are in order of import.
 */
#pragma once

#include "trace/read/intake.h"
#include "trace/read/spill.h"

struct event_run;
struct run_cursor;

/* The batch may be reset afterwards. */
int run_pack(const struct batch *b, struct spill *spill, struct event_run **ret);
struct event_run *run_free(struct event_run *r);
size_t run_events(const struct event_run *r);

int run_cursor_new(const struct event_run *r, struct spill *spill, struct run_cursor **ret);
struct run_cursor *run_cursor_free(struct run_cursor *c);
/* Returns the current event of the cursor, NULL at the end or after an error (run_cursor_error). */
const struct event *run_cursor_event(struct run_cursor *c);
void run_cursor_next(struct run_cursor *c);
int run_cursor_error(const struct run_cursor *c);

/* The rows of arguments are read apart from the events, maybe by another thread. Sets the piece with the next row
 * of a group, and its place there; 0 or an error. The piece is valid until the first call for a later piece, which
 * comes when none is loaded. */
int run_cursor_args(struct run_cursor *c, unsigned group, const struct packed_rows **ret, size_t *ret_at);
void run_cursor_args_next(struct run_cursor *c, unsigned group);
bool run_cursor_args_loaded(const struct run_cursor *c, unsigned group);

/* Order of events at one time, for traces with complete events. */
static inline int64_t event_rank(const struct event *e)
{
    if (e->phase == EVENT_END)
        return INT64_MIN;
    return e->phase == EVENT_COMPLETE && e->dur > 0 ? INT64_MAX - e->dur : INT64_MAX;
}

DEFINE_CLEANUP(struct event_run *, run_free)
DEFINE_CLEANUP(struct run_cursor *, run_cursor_free)

/* The events of all runs in order of time; events at one time in the order described above. */

struct merge_input {
    struct intake *intake;   /* with its strings, threads, categories, defects, meta */
    struct event_run **runs; /* in order of import */
    size_t n_runs;
};

struct event_queue;

int queue_new(const struct merge_input *inputs, size_t n_inputs, struct spill *spill,
              struct event_queue **ret);
struct event_queue *queue_free(struct event_queue *q);
/* Returns a cursor at the next event, NULL after the last. Cursors live as long as the queue. */
struct run_cursor *queue_head(const struct event_queue *q);
/* Returns the index of the input that the head comes from. */
size_t queue_input(const struct event_queue *q);
int queue_next(struct event_queue *q);

DEFINE_CLEANUP(struct event_queue *, queue_free)
