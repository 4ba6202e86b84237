/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/interval.h"

#include "trace/reports/search.h"

/* -- Interval -------------------------------------------------------------------------------------------- */

static int interval_compare(const void *x, const void *y)
{
    const struct interval *a = x, *b = y;

    return (a->from > b->from) - (a->from < b->from);
}

static bool interval_is_ordered(const struct intervals *set)
{
    for (size_t i = 1; i < set->n; i++)
        if (set->items[i].from < set->items[i - 1].from)
            return false;
    return true;
}

void intervals_unite(struct intervals *set)
{
    size_t kept = 0;

    if (!interval_is_ordered(set))
        qsort(set->items, set->n, sizeof(set->items[0]), interval_compare);
    for (size_t i = 0; i < set->n; i++) {
        struct interval next = set->items[i];
        if (kept > 0 && next.from <= set->items[kept - 1].to)
            set->items[kept - 1].to = MAX(set->items[kept - 1].to, next.to);
        else
            set->items[kept++] = next;
    }
    set->n = kept;
}

void intervals_done(struct intervals *set)
{
    free(set->items);
    *set = (struct intervals){0};
}

int64_t intervals_length(const struct intervals *set)
{
    int64_t sum = 0;

    for (size_t i = 0; i < set->n; i++)
        sum += set->items[i].to - set->items[i].from;
    return sum;
}

/* Walks through what both have; either result may be NULL. */
static int walk_common(const struct intervals *a, const struct intervals *b, struct intervals *ret,
                       int64_t *ret_length)
{
    size_t i = 0, k = 0;
    int r = 0;

    while (i < a->n && k < b->n && r >= 0) {
        int64_t from = MAX(a->items[i].from, b->items[k].from), to = MIN(a->items[i].to, b->items[k].to);
        if (from < to && ret_length)
            *ret_length += to - from;
        if (ret)
            r = intervals_add(ret, from, to);
        if (a->items[i].to < b->items[k].to)
            i++;
        else
            k++;
    }
    return r;
}

int64_t intervals_common(const struct intervals *a, const struct intervals *b)
{
    int64_t length = 0;

    walk_common(a, b, NULL, &length);
    return length;
}

int intervals_intersect(const struct intervals *a, const struct intervals *b, struct intervals *ret)
{
    return walk_common(a, b, ret, NULL);
}

int intervals_subtract(const struct intervals *a, const struct intervals *b, struct intervals *ret)
{
    size_t k = 0;
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        int64_t from = a->items[i].from;
        while (k < b->n && b->items[k].to <= from)
            k++;
        for (size_t j = k; j < b->n && b->items[j].from < a->items[i].to && r >= 0; j++) {
            r = intervals_add(ret, from, b->items[j].from);
            from = MAX(from, b->items[j].to);
        }
        if (r >= 0)
            r = intervals_add(ret, from, a->items[i].to);
    }
    return r;
}

const struct interval *intervals_search(const struct intervals *set, int64_t at)
{
    size_t position = FIRST_THAT(i, 0, set->n, set->items[i].to > at);

    return position < set->n && set->items[position].from <= at ? &set->items[position] : NULL;
}

void intervals_shares(const struct intervals *set, int64_t from, int64_t to, double *ret, size_t n)
{
    double part = n > 0 ? ((double)to - (double)from) / (double)n : 0;
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        double begin = (double)from + part * (double)i, end = begin + part, covered = 0;
        while (k < set->n && (double)set->items[k].to <= begin)
            k++;
        for (size_t j = k; j < set->n && (double)set->items[j].from < end; j++)
            covered += MIN((double)set->items[j].to, end) - MAX((double)set->items[j].from, begin);
        ret[i] = part > 0 ? MAX(0.0, MIN(covered / part, 1.0)) : 0;
    }
}

/* -- Cover ----------------------------------------------------------------------------------------------- */

int cover_new(const struct intervals *times, struct cover *ret)
{
    *ret = (struct cover){.times = times, .before = calloc(times->n + 1, sizeof(*ret->before))};
    if (!ret->before)
        return -ENOMEM;
    for (size_t i = 0; i < times->n; i++)
        ret->before[i + 1] = ret->before[i] + (times->items[i].to - times->items[i].from);
    return 0;
}

void cover_done(struct cover *cover)
{
    free(cover->before);
    cover->before = NULL;
}

/* Steps forward before all are halved. */
#define COVER_STEPS 16

static int64_t length_until(struct cover *c, int64_t at)
{
    const struct interval *items = c->times->items;
    size_t n = c->times->n, near = c->near, last;

    if (near > 0 && items[near - 1].to > at)
        near = 0;
    for (last = MIN(near + COVER_STEPS, n); near < last && items[near].to <= at;)
        near++;
    if (near == last)
        near = FIRST_THAT(i, near, n, items[i].to > at);
    c->near = near;
    return c->before[near] + (near < n ? MAX(at - items[near].from, 0) : 0);
}

int64_t cover_length(struct cover *cover, int64_t from, int64_t to)
{
    if (from >= to)
        return 0;
    int64_t before = length_until(cover, from);
    return length_until(cover, to) - before;
}
