/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of events, sorted by time and packed: what a reading keeps of them until the end.
 *
 * run_pack() writes columns of blocks into a spill. A cursor reads a run back from its beginning, event by
 * event with its rows of arguments.
 *
 * Events at one time come as trace_processor takes them: as soon as there are complete events, ends first,
 * then the longer complete events before the shorter, so that what is around comes before what is in it, then
 * the rest; otherwise, and where that leaves a choice, in order of import.
 */
#pragma once

#include "trace/read/intake.h"
#include "trace/read/spill.h"

struct run;
struct run_cursor;

/* The batch may be reset afterwards. */
int run_pack(const struct batch *b, struct spill *spill, struct run **ret);
struct run *run_free(struct run *r);
size_t run_events(const struct run *r);
bool run_has_complete(const struct run *r);

int run_cursor_new(const struct run *r, struct spill *spill, struct run_cursor **ret);
struct run_cursor *run_cursor_free(struct run_cursor *c);
/* The event the cursor is at, NULL at the end or after an error (run_cursor_error). */
const struct event *run_cursor_event(struct run_cursor *c);
/* The piece of rows that has its arguments in a group that it is in, and which row they are; NULL after an
 * error. Valid until the first call for a later piece, which comes when none is loaded. */
const struct packed_rows *run_cursor_args(struct run_cursor *c, unsigned group, size_t *ret_at);
bool run_cursor_args_loaded(const struct run_cursor *c, unsigned group);
void run_cursor_next(struct run_cursor *c);
int run_cursor_error(const struct run_cursor *c);

/* Orders events at one time, of traces with complete events. */
static inline int64_t event_rank(const struct event *e)
{
    if (e->phase == EVENT_END)
        return INT64_MIN;
    return e->phase == EVENT_COMPLETE && e->dur > 0 ? INT64_MAX - e->dur : INT64_MAX;
}

DEFINE_CLEANUP(struct run *, run_free)
DEFINE_CLEANUP(struct run_cursor *, run_cursor_free)

/* The events of all runs in order of time; those at one time as run.h says. */

struct merge_input {
    struct intake *intake; /* with its strings, threads, categories, defects, meta */
    struct run **runs;     /* in order of import */
    size_t n_runs;
};

struct queue;

int queue_new(const struct merge_input *inputs, size_t n_inputs, struct spill *spill, struct queue **ret);
struct queue *queue_free(struct queue *q);
/* A cursor at the next event, NULL after the last. Cursors live as long as the queue. */
struct run_cursor *queue_head(const struct queue *q);
/* Which input the head comes from. */
size_t queue_input(const struct queue *q);
int queue_next(struct queue *q);

DEFINE_CLEANUP(struct queue *, queue_free)
