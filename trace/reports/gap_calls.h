/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread did during gaps, as self time: each nanosecond of a gap belongs to the innermost slice that
 * is open on the thread then, or to none. The self times of a gap add up to its length.
 */
#pragma once

#include "trace/reports/gap.h"

/* A part of a gap: the time in one slice itself. */
struct gap_call {
    size_t gap;     /* its place in the list of gaps */
    uint64_t slice; /* SLICE_NONE: no slice was open on the thread */
    int64_t ns;
};

struct gap_call_list {
    struct gap_call *items; /* by gap */
    size_t n, cap;
};

/* Of the threads that launched what ends each gap; gaps without a launch have no calls, and neither have the
 * last ones of a trace that would take more than 64 looks at each of its slices (thousands of streams). ends:
 * of each gap, until when it is looked at. -ENOMEM. */
int gap_calls_read(const struct columns *c, const struct gaps *gaps, const int64_t *ends,
                   struct gap_call_list *ret);
/* The same of complete gaps. */
int gap_calls_of_all(const struct columns *c, const struct gaps *gaps, struct gap_call_list *ret);
void gap_calls_done(struct gap_call_list *list);

/* The call with the most self time of some parts, by name. */
struct top_call {
    int64_t name; /* COLUMN_NULL: no slice was open for longer than in any call, or nothing is known */
    int64_t ns;
};

/* Sums by name, for many lists of parts one after the other. */
struct call_sums {
    const struct columns *c;
    uint32_t n_texts;
    int64_t *ns; /* by number of the text; all 0 between two lists */
};

int call_sums_begin(struct call_sums *sums, const struct columns *c); /* -ENOMEM */
struct top_call call_sums_top(struct call_sums *sums, const struct gap_call *parts, size_t n);
void call_sums_done(struct call_sums *sums);
