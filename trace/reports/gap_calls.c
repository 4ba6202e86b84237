/* SPDX-License-Identifier: Apache-2.0 */
/* The self times of a thread, cut into the gaps that they lie in. */
#include "trace/reports/gap.h"

#include "base/array.h"
#include "base/statistics.h"
#include <errno.h>

/*
 * Pieces of self time that are looked at in all gaps together, for each slice of the trace, which has up to two. A
 * gap of every GPU or stream looks at what its thread did then: a file that names thousands of streams would take
 * the product of both, in time and in memory.
 */
#define VISITS_PER_SLICE_MAX 128
#define VISITS_MIN           131072

struct gap_walk {
    const struct slice_table *slices;
    const struct self_times *times;
    size_t *near;      /* by thread: the piece that was looked at last */
    int64_t *self;     /* by position: self time in one gap, all 0 between two */
    uint32_t *touched; /* positions in it, and their number */
    size_t n, cap;
    uint64_t visits_left;
};

static void gap_walk_done(struct gap_walk *w)
{
    free(w->near);
    free(w->self);
    free(w->touched);
}

static int gap_walk_begin(struct gap_walk *w)
{
    size_t n = 0;

    for (size_t i = 0; i < w->times->n_threads; i++)
        n = MAX(n, w->times->threads[i].n_slices);
    w->near = calloc(w->times->n_threads + 1, sizeof(*w->near));
    w->self = calloc(n + 1, sizeof(*w->self));
    w->visits_left = MAX(VISITS_PER_SLICE_MAX * w->slices->n, (uint64_t)VISITS_MIN);
    return w->near && w->self ? 0 : -ENOMEM;
}

static int gap_walk_touch(struct gap_walk *w, uint32_t at, int64_t ns)
{
    if (w->self[at] == 0) {
        if (!ARRAY_RESERVE(w->touched, w->cap, w->n + 1))
            return -ENOMEM;
        w->touched[w->n++] = at;
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

    if (w->n > INSERTION_SORT_MAX) {
        for (size_t i = 0; i < w->n; i++) {
            first = MIN(first, w->touched[i]);
            last = MAX(last, w->touched[i]);
        }
        if (last - first < w->n * UNTOUCHED_PART)
            gap_walk_collect(w, first, last);
        else
            qsort(w->touched, w->n, sizeof(*w->touched), gap_walk_compare);
        return;
    }
    for (size_t i = 1; i < w->n; i++) {
        uint32_t one = w->touched[i];
        size_t k = i;
        for (; k > 0 && w->touched[k - 1] > one; k--)
            w->touched[k] = w->touched[k - 1];
        w->touched[k] = one;
    }
}

static int gap_call_add(struct gap_call_list *list, size_t gap, uint64_t slice, int64_t ns)
{
    if (ns <= 0)
        return 0;
    if (!ARRAY_RESERVE(list->items, list->cap, list->n + 1))
        return -ENOMEM;
    list->items[list->n++] = (struct gap_call){gap, slice, ns};
    return 0;
}

static int gap_walk_one(struct gap_walk *w, size_t i, const struct gap *gap, int64_t end,
                        struct gap_call_list *ret)
{
    int64_t thread = slice_thread(w->slices, gap->launch), none = 0;

    if (end <= gap->from || thread == COLUMN_NULL)
        return 0;
    const struct thread_time *t = &w->times->threads[thread];
    int r = gap_walk_share(w, t, &w->near[thread], gap->from, end, &none);
    gap_walk_order(w);
    for (size_t k = 0; k < w->n; k++) {
        int64_t *self = &w->self[w->touched[k]];
        /* Half of what a thread did would be wrong. */
        if (r >= 0 && w->visits_left > 0)
            r = gap_call_add(ret, i, t->slices[w->touched[k]], *self);
        *self = 0;
    }
    w->n = 0;
    return r < 0 || w->visits_left == 0 ? r : gap_call_add(ret, i, SLICE_NONE, none);
}

int gap_calls_read(struct analysis *a, size_t rank, const struct gaps *gaps, const int64_t *ends,
                   struct gap_call_list *ret)
{
    _cleanup_(gap_walk_done) struct gap_walk w = {0};
    int r = analysis_slices(a, rank, &w.slices);

    *ret = (struct gap_call_list){0};
    if (r >= 0)
        r = analysis_self_times(a, rank, &w.times);
    if (r >= 0)
        r = gap_walk_begin(&w);
    for (size_t i = 0; i < gaps->n && r >= 0 && w.visits_left > 0; i++)
        r = gap_walk_one(&w, i, &gaps->items[i], ends ? ends[i] : gaps->items[i].to, ret);
    if (r < 0)
        gap_calls_done(ret);
    return r;
}

void gap_calls_done(struct gap_call_list *list)
{
    free(list->items);
    *list = (struct gap_call_list){0};
}

int call_sums_begin(struct call_sums *sums, const struct columns *c, const struct slice_table *slices)
{
    *sums = (struct call_sums){.slices = slices, .n_texts = columns_texts(c)};
    sums->ns = calloc((size_t)sums->n_texts + 1, sizeof(*sums->ns));
    return sums->ns ? 0 : -ENOMEM;
}

/* The last position is that of what has no name. */
static int64_t *call_sum_of(struct call_sums *sums, const struct gap_call *part)
{
    int64_t name = slice_name(sums->slices, part->slice);

    return &sums->ns[name >= 0 && name < sums->n_texts ? name : sums->n_texts];
}

void call_sums_add(struct call_sums *sums, const struct gap_call *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *call_sum_of(sums, &parts[i]) += parts[i].ns;
}

void call_sums_take(struct call_sums *sums, const struct gap_call *parts, size_t n, struct top_call *top)
{
    for (size_t i = 0; i < n; i++) {
        int64_t *sum = call_sum_of(sums, &parts[i]);
        if (*sum > top->ns)
            *top = (struct top_call){sum == &sums->ns[sums->n_texts] ? COLUMN_NULL : sum - sums->ns, *sum};
        *sum = 0;
    }
}

struct top_call call_sums_top(struct call_sums *sums, const struct gap_call *parts, size_t n)
{
    struct top_call top = {COLUMN_NULL, 0};

    call_sums_add(sums, parts, n);
    call_sums_take(sums, parts, n, &top);
    return top;
}

void call_sums_done(struct call_sums *sums)
{
    free(sums->ns);
}
