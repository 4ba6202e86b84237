/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which slices of a trace are exported: those of some categories in some time.
 */
#pragma once

#include "trace/columns/columns.h"

struct selection {
    const struct columns *c;
    int64_t from, to; /* of the trace's stamps */
    uint64_t end;     /* slices from this row on begin too late */
    int64_t last;     /* where slices that never ended end */
    bool everything;  /* of every category */
    int64_t *categories;
    size_t n_categories;
};

int selection_init(struct selection *s, const struct columns *c, int64_t from, int64_t to, const char *only);
void selection_done(struct selection *s);

bool selection_has(const struct selection *s, uint64_t row);
bool selection_has_time(const struct selection *s, int64_t ts);
/* Where a slice ends, be it that of the trace. */
int64_t selection_slice_end(const struct selection *s, uint64_t row);

/* Both stop at the ends of the range of numbers. */
static inline int64_t add_ns(int64_t a, int64_t b)
{
    int64_t sum;

    return !__builtin_add_overflow(a, b, &sum) ? sum : b < 0 ? -INT64_MAX : INT64_MAX;
}

/* A bound of a time, moved; one that is none stays so. */
static inline int64_t selection_bound(int64_t bound, int64_t by)
{
    return bound == INT64_MIN || bound == INT64_MAX ? bound : add_ns(bound, by);
}

static inline int64_t sub_ns(int64_t a, int64_t b)
{
    int64_t rest;

    return !__builtin_sub_overflow(a, b, &rest) ? rest : b > 0 ? -INT64_MAX : INT64_MAX;
}
