/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/self_time.h"

#include "base/array.h"
#include "trace/reports/parallel.h"
#include "trace/reports/search.h"
#include <errno.h>

/* -- Slices of each thread ---------------------------------------------------------------------------- */

struct self_time_reading {
    const struct slice_table *slices;
    struct self_times *times;
    uint32_t *thread_of; /* by track: the thread, COLUMN_NO_CODE where it is of no interest */
};

static int64_t self_time_end(const struct slice_table *t, uint64_t slice)
{
    return add_time(t->ts[slice], MAX(t->dur[slice], INT64_C(0)));
}

/* The tracks of threads that launched something. */
static int self_time_find_tracks(struct self_time_reading *r, const struct gpu_work *work)
{
    const struct slice_table *t = r->slices;
    _cleanup_(freep) uint8_t *tracks = calloc(t->n_threads + 1, 1); /* of each thread, how many are left */

    r->thread_of = malloc((t->n_tracks + 1) * sizeof(*r->thread_of));
    if (!tracks || !r->thread_of)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++) {
        int64_t thread = slice_thread(t, gpu_event_launch(&work->events[i]));
        if (thread != COLUMN_NULL)
            tracks[thread] = THREAD_TRACKS_MAX;
    }
    for (uint64_t i = 0; i < t->n_tracks; i++) {
        r->thread_of[i] = COLUMN_NO_CODE;
        if (t->thread_of[i] != COLUMN_NO_CODE && tracks[t->thread_of[i]] > 0) {
            r->thread_of[i] = t->thread_of[i];
            tracks[t->thread_of[i]]--;
        }
    }
    return 0;
}

/* What has no duration is never the innermost one. */
static uint32_t self_time_thread(const struct self_time_reading *r, uint64_t slice)
{
    const struct slice_table *t = r->slices;

    return t->track[slice] == COLUMN_NO_CODE || t->dur[slice] <= 0 || t->ts[slice] == COLUMN_NULL
               ? COLUMN_NO_CODE
               : r->thread_of[t->track[slice]];
}

/* Sorts the slices by thread. */
static int self_time_divide(struct self_time_reading *r)
{
    const struct slice_table *t = r->slices;
    struct self_times *ret = r->times;
    size_t n = 0, n_pieces = 0;

    for (uint64_t i = 0; i < t->n; i++) {
        uint32_t thread = self_time_thread(r, i);
        if (thread != COLUMN_NO_CODE)
            ret->threads[thread].n_slices++;
    }
    for (size_t i = 0; i < ret->n_threads; i++)
        n += ret->threads[i].n_slices;
    /* Each piece begins where a slice does, or where one ends. */
    ret->slices = array_alloc_pages((n + 1) * sizeof(*ret->slices));
    ret->from = array_alloc_pages((2 * n + ret->n_threads + 1) * sizeof(*ret->from));
    ret->at = array_alloc_pages((2 * n + ret->n_threads + 1) * sizeof(*ret->at));
    if (!ret->slices || !ret->from || !ret->at)
        return -ENOMEM;
    n = 0;
    for (size_t i = 0; i < ret->n_threads; i++) {
        struct thread_time *one = &ret->threads[i];
        one->slices = ret->slices + n;
        one->from = ret->from + n_pieces;
        one->at = ret->at + n_pieces;
        n += one->n_slices;
        n_pieces += 2 * one->n_slices + 1;
        one->n_slices = 0;
    }
    for (uint64_t i = 0; i < t->n; i++) {
        uint32_t thread = self_time_thread(r, i);
        if (thread != COLUMN_NO_CODE) {
            struct thread_time *one = &ret->threads[thread];
            one->slices[one->n_slices++] = (uint32_t)i;
        }
    }
    return 0;
}

/* -- Pieces ------------------------------------------------------------------------------------------- */

/* By when they begin; of those that begin at once the longer is the outer one. */
static int self_time_compare(const void *x, const void *y, void *arg)
{
    const struct slice_table *t = arg;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    if (t->ts[a] != t->ts[b])
        return t->ts[a] < t->ts[b] ? -1 : 1;
    int64_t a_end = self_time_end(t, a), b_end = self_time_end(t, b);
    return a_end != b_end ? (a_end < b_end) - (a_end > b_end) : (a > b) - (a < b);
}

/* As the slices of a trace mostly are. */
static void self_time_order(const struct slice_table *t, uint32_t *slices, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (self_time_compare(&slices[i - 1], &slices[i], (void *)t) > 0) {
            qsort_r(slices, n, sizeof(*slices), self_time_compare, (void *)t);
            return;
        }
}

struct self_time_open {
    int64_t end;
    uint32_t at; /* its position */
};

/* Open slices, the one that began last on top. */
struct self_time_stack {
    struct self_time_open *items;
    size_t n;
};

/* What is open at a time, the one that began last; NULL. */
static const struct self_time_open *self_time_open_at(struct self_time_stack *stack, int64_t at)
{
    while (stack->n > 0 && stack->items[stack->n - 1].end <= at)
        stack->n--;
    return stack->n > 0 ? &stack->items[stack->n - 1] : NULL;
}

static void thread_time_add(struct thread_time *one, int64_t from, uint32_t at)
{
    if (one->n > 0 && one->at[one->n - 1] == at)
        return;
    one->from[one->n] = from;
    one->at[one->n++] = at;
}

static int self_time_read_thread(void *arg, size_t thread)
{
    const struct self_time_reading *r = arg;
    const struct slice_table *t = r->slices;
    struct thread_time *one = &r->times->threads[thread];
    size_t n = one->n_slices, next = 0;

    if (n == 0)
        return 0;
    _cleanup_(freep) struct self_time_open *items = malloc(2 * n * sizeof(*items));
    if (!items)
        return -ENOMEM;
    struct self_time_stack runtime = {items, 0}, others = {items + n, 0};
    self_time_order(t, one->slices, n);
    for (int64_t begin = t->ts[one->slices[0]], at = begin;;) {
        for (; next < n && begin <= at; next++, begin = next < n ? t->ts[one->slices[next]] : INT64_MAX) {
            uint32_t slice = one->slices[next];
            struct self_time_stack *stack = t->kind[slice] == HOST_RUNTIME ? &runtime : &others;
            stack->items[stack->n++] = (struct self_time_open){self_time_end(t, slice), (uint32_t)next};
        }
        const struct self_time_open *open = self_time_open_at(&runtime, at);
        if (!open)
            open = self_time_open_at(&others, at);
        thread_time_add(one, at, open ? open->at : SELF_TIME_NONE);
        if (!open && next == n)
            return 0;
        at = open ? MIN(begin, open->end) : begin;
    }
}

int self_times_read(const struct slice_table *slices, const struct gpu_work *work, struct self_times *ret)
{
    struct self_time_reading reading = {.slices = slices, .times = ret};

    *ret = (struct self_times){.threads = calloc(slices->n_threads + 1, sizeof(*ret->threads)),
                               .n_threads = slices->n_threads};
    int r = ret->threads ? self_time_find_tracks(&reading, work) : -ENOMEM;
    if (r >= 0)
        r = self_time_divide(&reading);
    if (r >= 0)
        r = parallel_each(ret->n_threads, self_time_read_thread, &reading);
    free(reading.thread_of);
    if (r < 0)
        self_times_done(ret);
    return r;
}

void self_times_done(struct self_times *times)
{
    free(times->threads);
    free(times->slices);
    free(times->from);
    free(times->at);
    *times = (struct self_times){0};
}

size_t thread_time_find(const struct thread_time *t, int64_t time, size_t near)
{
    size_t low = MIN(near, t->n), high = low, step = 1;

    /* Away from where it is near, in steps that double. */
    if (low < t->n && t->from[low] <= time) {
        for (; high < t->n && t->from[high] <= time; high += step, step *= 2)
            low = high + 1;
        high = MIN(high, t->n);
    } else {
        for (; low > 0 && t->from[low - 1] > time; step *= 2)
            low = low > step ? low - step : 0, high = MIN(high, low + step);
    }
    size_t after = FIRST_THAT(i, low, high, t->from[i] > time);
    return after > 0 ? after - 1 : t->n;
}
