/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows (arrows) between slices, bound in the same way as by trace_processor's flow tracker. A flow is
 * identified by its id, name and category.
 */
#pragma once

#include "trace/read/budget.h"
#include "trace/read/intake.h"
#include "trace/read/table_builder.h"
#include "trace/read/tracks.h"

struct flow_kind {
    int64_t category; /* string; COLUMN_NULL if absent */
    uint32_t name;
};

/* Start of a flow that was seen before. */
struct flow_start {
    int64_t ts;
    uint32_t row;
};

/* A flow end that waits for the next slice of its thread. */
struct flow_end {
    int64_t id;
    uint64_t offset;
    uint32_t kind;
    uint32_t next; /* of the thread, the first one after the last */
};

struct flows {
    struct budget *budget;
    struct defects *defects;
    struct number_map numbers; /* of kinds and of starts */
    struct flow_kind *kinds;
    struct flow_start *starts;
    struct flow_end *ends;
    uint32_t *waiting; /* for each thread: its last end + 1 */
    size_t n_kinds, n_starts, n_ends;
    size_t kinds_cap, starts_cap, ends_cap, waiting_cap;
    uint32_t free_end; /* the last one + 1, in a ring as well */
    struct table_builder out;
};

int flows_init(struct flows *f, struct budget *budget, struct columns_writer *w, struct defects *defects);
void flows_done(struct flows *f);
/* category: the string of the event's category. top: the innermost open slice at the event, or NULL. */
int flows_event(struct flows *f, const struct event *e, int64_t category, const struct open_slice *top);
/* Called when a slice begins on the thread's own track. */
void flows_arrive(struct flows *f, uint32_t thread, const struct open_slice *s);
/* Called when there are no more events. */
void flows_finish(struct flows *f);

static inline bool flows_awaited(const struct flows *f, uint32_t thread)
{
    return thread < f->waiting_cap && f->waiting[thread] != 0;
}
