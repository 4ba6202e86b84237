/* SPDX-License-Identifier: Apache-2.0 */
/* The self times of a thread, cut into the gaps that they lie in. */
#include "trace/reports/gap.h"

#include "base/array.h"
#include <errno.h>

/*
 * Pieces of self time that are looked at in all gaps together, for each slice of the trace, which has up to two. A
 * gap of every GPU or stream looks at what its thread did then: a file that names thousands of streams would take
 * the product of both, in time and in memory.
 */
#define VISITS_PER_SLICE_MAX 128
#define VISITS_MIN           131072

int gap_walk_begin(struct analysis *a, size_t rank, struct gap_walk *ret)
{
    size_t n = 0;
    *ret = (struct gap_walk){0};
    int r = analysis_slices(a, rank, &ret->slices);

    if (r >= 0)
        r = analysis_self_times(a, rank, &ret->times);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ret->times->n_threads; i++)
        n = MAX(n, ret->times->threads[i].n_slices);
    ret->near = calloc(ret->times->n_threads + 1, sizeof(*ret->near));
    ret->self = array_calloc_pages((n + 1) * sizeof(*ret->self));
    ret->visits_left = MAX(VISITS_PER_SLICE_MAX * ret->slices->n, (uint64_t)VISITS_MIN);
    return ret->near && ret->self ? 0 : -ENOMEM;
}

void gap_walk_done(struct gap_walk *w)
{
    free(w->calls);
    free(w->near);
    free(w->self);
    free(w->touched);
}

static int gap_walk_touch(struct gap_walk *w, uint32_t at, int64_t ns)
{
    if (w->self[at] == 0) {
        if (!ARRAY_RESERVE(w->touched, w->touched_cap, w->n_touched + 1))
            return -ENOMEM;
        w->touched[w->n_touched++] = at;
    }
    w->self[at] += ns;
    return 0;
}

/* Gives every nanosecond of [from, to) to a slice; *ret_none: what none has. */
static int gap_walk_share(struct gap_walk *w, const struct thread_time *t, size_t *near, int64_t from,
                          int64_t to, int64_t *ret_none)
{
    size_t i = thread_time_find(t, from, *near);
    int r = 0;

    *near = i;
    if (i == t->n) { /* before the first */
        *ret_none = (t->n > 0 ? MIN(t->from[0], to) : to) - from;
        from += *ret_none;
        i = 0;
    }
    for (; i < t->n && from < to && w->visits_left > 0 && r >= 0; i++, w->visits_left--) {
        int64_t until = i + 1 < t->n ? MIN(t->from[i + 1], to) : to;
        if (t->at[i] == SELF_TIME_NONE)
            *ret_none += until - from;
        else
            r = gap_walk_touch(w, t->at[i], until - from);
        from = until;
    }
    return r;
}

static int gap_walk_compare(const void *x, const void *y)
{
    const uint32_t *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

/* Fewer are sorted faster by moving each to its place. */
#define INSERTION_SORT_MAX 32
/* Where fewer than one in this number were touched, looking at each takes longer than sorting. */
#define UNTOUCHED_PART 16

/* All that were touched, found by looking at all between the first and the last. */
static void gap_walk_collect(struct gap_walk *w, uint32_t first, uint32_t last)
{
    size_t n = 0;

    for (uint32_t i = first; i <= last; i++)
        if (w->self[i] != 0)
            w->touched[n++] = i;
}

/* They come in order but for slices that were open before others, and go on after them. */
static void gap_walk_order(struct gap_walk *w)
{
    uint32_t first = UINT32_MAX, last = 0;

    if (w->n_touched > INSERTION_SORT_MAX) {
        for (size_t i = 0; i < w->n_touched; i++) {
            first = MIN(first, w->touched[i]);
            last = MAX(last, w->touched[i]);
        }
        if (last - first < w->n_touched * UNTOUCHED_PART)
            gap_walk_collect(w, first, last);
        else
            qsort(w->touched, w->n_touched, sizeof(*w->touched), gap_walk_compare);
        return;
    }
    for (size_t i = 1; i < w->n_touched; i++) {
        uint32_t one = w->touched[i];
        size_t k = i;
        for (; k > 0 && w->touched[k - 1] > one; k--)
            w->touched[k] = w->touched[k - 1];
        w->touched[k] = one;
    }
}

static void gap_walk_add(struct gap_walk *w, uint64_t slice, int64_t ns)
{
    if (ns > 0)
        w->calls[w->n++] = (struct gap_call){slice, ns};
}

int gap_walk_next(struct gap_walk *w, const struct gap *gap, int64_t end)
{
    int64_t thread = slice_thread(w->slices, gap->launch), none = 0;

    w->n = 0;
    if (end <= gap->from || thread == COLUMN_NULL || w->visits_left == 0)
        return 0;
    const struct thread_time *t = &w->times->threads[thread];
    int r = gap_walk_share(w, t, &w->near[thread], gap->from, end, &none);
    gap_walk_order(w);
    if (!ARRAY_RESERVE(w->calls, w->calls_cap, w->n_touched + 1))
        r = -ENOMEM;
    /* Half of what a thread did would be wrong. */
    bool is_complete = r >= 0 && w->visits_left > 0;
    for (size_t i = 0; i < w->n_touched; i++) {
        int64_t *self = &w->self[w->touched[i]];
        if (is_complete)
            gap_walk_add(w, t->slices[w->touched[i]], *self);
        *self = 0;
    }
    w->n_touched = 0;
    if (is_complete)
        gap_walk_add(w, SLICE_NONE, none);
    return r;
}

int call_sums_begin(struct call_sums *sums, const struct columns *c, const struct slice_table *slices)
{
    *sums = (struct call_sums){.slices = slices, .n_texts = columns_texts(c)};
    sums->ns = calloc((size_t)sums->n_texts + 1, sizeof(*sums->ns));
    return sums->ns ? 0 : -ENOMEM;
}

int call_sums_add(struct call_sums *sums, const struct gap_call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t name = slice_name(sums->slices, calls[i].slice);
        /* The last position is that of what has no name. */
        uint32_t at = name >= 0 && name < sums->n_texts ? (uint32_t)name : sums->n_texts;
        if (sums->ns[at] == 0) {
            if (!ARRAY_RESERVE(sums->names, sums->cap, sums->n + 1))
                return -ENOMEM;
            sums->names[sums->n++] = at;
        }
        sums->ns[at] += calls[i].ns;
    }
    return 0;
}

struct top_call call_sums_take(struct call_sums *sums)
{
    struct top_call top = {COLUMN_NULL, 0};

    for (size_t i = 0; i < sums->n; i++) {
        uint32_t at = sums->names[i];
        if (sums->ns[at] > top.ns)
            top = (struct top_call){at == sums->n_texts ? COLUMN_NULL : at, sums->ns[at]};
        sums->ns[at] = 0;
    }
    sums->n = 0;
    return top;
}

void call_sums_done(struct call_sums *sums)
{
    free(sums->ns);
    free(sums->names);
}
