/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle times of streams, their cause, and the host activity during them.
 *
 * A gap lies between the latest end of a stream's events so far and the beginning of its next event. Its
 * blamed call is the innermost slice that covers most of it, on the thread that launched the next event; if
 * none covers half, the one that covers most, unless the thread was outside any slice for longer.
 */
#pragma once

#include "trace/reports/analysis.h"
#include "trace/reports/gpu.h"

/* C(identifier, name): after Holistic Trace Analysis. */
#define GAP_CAUSES(C)                                                                                        \
    C(HOST_WAIT, "host_wait")     /* the next event was launched only after the stream had become idle */    \
    C(KERNEL_WAIT, "kernel_wait") /* it was launched before, and began soon */                               \
    C(OTHER, "other")             /* it was launched before: it waited for something else */

enum hta_gap_class {
#define C(identifier, name) GAP_##identifier,
    GAP_CAUSES(C)
#undef C
        _GAP_CAUSE_MAX,
};

/* Limit for "soon": HTA's consecutive_kernel_delay, as applied by its code. */
#define GAP_KERNEL_WAIT_NS 30000

struct gap {
    int64_t from, to;
    int64_t idle;    /* part of it without activity on any stream */
    uint64_t before; /* slices of the events before and after it */
    uint64_t after;
    uint64_t launch; /* of the event after it, SLICE_NONE */
    uint32_t stream; /* number in gaps.streams */
    enum hta_gap_class cause;
    enum host_kind blamed_kind;
    uint64_t blamed; /* slice, SLICE_NONE */
    int64_t covered; /* part of it that the blamed call covers */
};

struct gaps {
    struct gap *items; /* by their end */
    size_t n, cap;
    struct gpu_stream *streams;
};

const char *hta_gap_class_name(enum hta_gap_class cause);
/* Those that end within the view. -ENOMEM. */
int gaps_find(struct analysis *a, size_t rank, struct gaps *ret);
void gaps_done(struct gaps *gaps);

/* Host activity during gaps. */
/* Sets blamed, blamed_kind and covered of all. -ENOMEM. */
int gap_blame_calls(const struct columns *c, const struct slice_table *slices, struct gaps *gaps);

/*
 * Self time of a thread during gaps (self_time.h): each nanosecond of a gap belongs to the innermost open slice of
 * the thread, or to none. The self times of a gap add up to its length.
 */
/* A part of a gap: the time in one slice itself. */
struct gap_call {
    uint64_t slice; /* SLICE_NONE: no slice was open on the thread */
    int64_t ns;
};

/* Asked for one gap after the other: fastest in order of time. */
struct gap_walk {
    struct gap_call *calls; /* of the gap that was asked last: by begin, SLICE_NONE at the end */
    size_t n;
    /* Private. */
    const struct slice_table *slices;
    const struct self_times *times;
    size_t *near;      /* by thread: the piece that was looked at last */
    int64_t *self;     /* by position: self time in one gap, all 0 between two */
    uint32_t *touched; /* positions in it, and their number */
    size_t n_touched, touched_cap, calls_cap;
    uint64_t visits_left;
};

/* Call gap_walk_done() after any result. -ENOMEM. */
int gap_walk_begin(struct analysis *a, size_t rank, struct gap_walk *ret);
/* The calls of the thread that launched the event after the gap, until `end` (gap.to: in all of it). There are none
 * without a launch, and none once the gaps that were asked have taken more than 128 looks at each slice of the
 * trace (thousands of streams). -ENOMEM. */
int gap_walk_next(struct gap_walk *walk, const struct gap *gap, int64_t end);
void gap_walk_done(struct gap_walk *walk);

/* The call with the most self time among some parts, by name. */
struct top_call {
    int64_t name; /* COLUMN_NULL: no slice was open for longer than in any call, or nothing is known */
    int64_t ns;
};

/* Sums by name, for the gaps of many rows one after the other. */
struct call_sums {
    const struct slice_table *slices;
    uint32_t n_texts;
    int64_t *ns;     /* by number of the text; all 0 between two rows */
    uint32_t *names; /* those that are not, in order of appearance */
    size_t n, cap;
};

/* -ENOMEM. */
int call_sums_begin(struct call_sums *sums, const struct columns *c, const struct slice_table *slices);
/* -ENOMEM. */
int call_sums_add(struct call_sums *sums, const struct gap_call *calls, size_t n);
/* The largest sum, the first of equal ones; none of them is left. */
struct top_call call_sums_take(struct call_sums *sums);
void call_sums_done(struct call_sums *sums);
