/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/period.h"

#include "base/statistics.h"

#include <errno.h>

/* Candidates that are compared stretch by stretch, the fewest stretches first. */
#define CANDIDATES_MAX 64

struct period_search {
    const uint32_t *names;
    const int64_t *pauses;
    size_t n;
    uint32_t n_names;
    size_t *first;     /* of each name its part of positions, and where the last one ends */
    size_t *positions; /* of each name's occurrences */
    uint32_t *by_rank; /* names, the rarest first, then the earliest */
    uint32_t *amounts; /* private to alike(): of each name */
    int64_t *values;   /* private to medians */
};

static size_t period_count_of(const struct period_search *s, uint32_t name)
{
    return s->first[name + 1] - s->first[name];
}

static const size_t *places_of(const struct period_search *s, uint32_t name)
{
    return &s->positions[s->first[name]];
}

/* Of the first n of s->values, which are sorted. */
static int64_t period_median(struct period_search *s, size_t n)
{
    sort_ns(s->values, n);
    return percentile(s->values, n, 50);
}

static int period_compare_names(const void *x, const void *y, void *arg)
{
    const struct period_search *s = arg;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    size_t n_a = period_count_of(s, a), n_b = period_count_of(s, b);

    if (n_a != n_b)
        return n_a < n_b ? -1 : 1;
    if (n_a == 0)
        return (a > b) - (a < b);
    return places_of(s, a)[0] < places_of(s, b)[0] ? -1 : 1;
}

static int period_prepare(struct period_search *s)
{
    s->first = calloc((size_t)s->n_names + 2, sizeof(*s->first));
    s->positions = calloc(s->n + 1, sizeof(*s->positions));
    s->by_rank = calloc((size_t)s->n_names + 1, sizeof(*s->by_rank));
    s->amounts = calloc((size_t)s->n_names + 1, sizeof(*s->amounts));
    s->values = calloc(s->n + 1, sizeof(*s->values));
    if (!s->first || !s->positions || !s->by_rank || !s->amounts || !s->values)
        return -ENOMEM;
    /* One further on, so that filling the positions moves each to where its name begins. */
    for (size_t i = 0; i < s->n; i++)
        s->first[s->names[i] + 2]++;
    for (uint32_t name = 0; name < s->n_names; name++)
        s->first[name + 2] += s->first[name + 1];
    for (size_t i = 0; i < s->n; i++)
        s->positions[s->first[s->names[i] + 1]++] = i;
    for (uint32_t name = 0; name < s->n_names; name++)
        s->by_rank[name] = name;
    qsort_r(s->by_rank, s->n_names, sizeof(*s->by_rank), period_compare_names, s);
    return 0;
}

static void period_search_done(struct period_search *s)
{
    free(s->first);
    free(s->positions);
    free(s->by_rank);
    free(s->amounts);
    free(s->values);
}

/* One of each in every stretch between two of the other, which begins first. */
static bool period_alternate(const struct period_search *s, uint32_t begin, uint32_t other)
{
    const size_t *a = places_of(s, begin), *b = places_of(s, other);
    size_t n = period_count_of(s, begin);

    for (size_t i = 0; i < n; i++)
        if (b[i] < a[i] || (i + 1 < n && b[i] > a[i + 1]))
            return false;
    return true;
}

/* Parts in a million, so that they can be sorted with everything else. */
#define PER_MILLION 1000000

/* What two stretches that follow each other have in common. */
static int64_t in_common(struct period_search *s, size_t from, size_t middle, size_t to)
{
    size_t common = 0, larger = MAX(middle - from, to - middle);

    for (size_t i = from; i < middle; i++)
        s->amounts[s->names[i]]++;
    for (size_t i = middle; i < to; i++)
        if (s->amounts[s->names[i]] > 0) {
            s->amounts[s->names[i]]--;
            common++;
        }
    for (size_t i = from; i < middle; i++)
        s->amounts[s->names[i]] = 0;
    return larger ? (int64_t)((double)common / (double)larger * PER_MILLION) : 0;
}

static size_t end_of_last(struct period_search *s, const size_t *starts, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        s->values[i] = (int64_t)(starts[i + 1] - starts[i]);
    return MIN(s->n, starts[n - 1] + (size_t)period_median(s, n - 1));
}

static double part_of_all(struct period_search *s, const size_t *starts, size_t n)
{
    return (double)(end_of_last(s, starts, n) - starts[0]) / (double)s->n;
}

/* The last one may be cut. Of two, there is nothing else to compare. */
static double period_alike(struct period_search *s, const size_t *starts, size_t n)
{
    size_t pairs = n > 2 ? n - 2 : 1, until = end_of_last(s, starts, n);

    for (size_t i = 0; i < pairs; i++)
        s->values[i] = in_common(s, starts[i], starts[i + 1], i + 2 < n ? starts[i + 2] : until);
    return (double)period_median(s, pairs) / PER_MILLION;
}

/* Names that occur equally often: those that alternate with the first of them. */
struct period_candidate {
    uint32_t begin;
    size_t n_names;
    double part, alike;
};

static struct period_candidate try_names(struct period_search *s, size_t from, size_t to)
{
    struct period_candidate c = {.begin = s->by_rank[from]};

    for (size_t i = from; i < to; i++)
        c.n_names += period_alternate(s, c.begin, s->by_rank[i]);
    if (c.n_names < PERIOD_NAMES_MIN)
        return c;
    const size_t *starts = places_of(s, c.begin);
    size_t n = period_count_of(s, c.begin);
    c.part = part_of_all(s, starts, n);
    if (c.part >= PERIOD_PART_MIN)
        c.alike = period_alike(s, starts, n);
    return c;
}

/* How far ahead of the positions a stretch begins. */
static size_t find_lead(struct period_search *s, const size_t *starts, size_t n)
{
    size_t best = 0, lead_max = PERIOD_LEAD_MAX;
    int64_t longest = -1;

    for (size_t i = 0; i + 1 < n; i++)
        lead_max = MIN(lead_max, (starts[i + 1] - starts[i]) / 2);
    for (size_t lead = 0; s->pauses && lead <= lead_max; lead++) {
        for (size_t i = 1; i < n; i++)
            s->values[i - 1] = s->pauses[starts[i] - lead];
        int64_t pause = period_median(s, n - 1);
        if (pause > longest) {
            longest = pause;
            best = lead;
        }
    }
    return best;
}

static int period_keep(struct period_search *s, uint32_t begin, struct period *ret)
{
    const size_t *starts = places_of(s, begin);
    size_t n = period_count_of(s, begin), lead = find_lead(s, starts, n);

    ret->starts = malloc(n * sizeof(*ret->starts));
    if (!ret->starts)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        ret->starts[i] = starts[i] - MIN(starts[i], lead);
    ret->n = n;
    ret->until = end_of_last(s, ret->starts, n);
    return 0;
}

static int period_choose(struct period_search *s, enum period_goal goal, struct period *ret)
{
    struct period_candidate best = {0};
    size_t tried = 0;

    for (size_t i = 0, to; i < s->n_names && tried < CANDIDATES_MAX; i = to) {
        size_t count = period_count_of(s, s->by_rank[i]);
        for (to = i + 1; to < s->n_names && period_count_of(s, s->by_rank[to]) == count;)
            to++;
        if (count < 2 || to - i < PERIOD_NAMES_MIN)
            continue;
        tried++;
        struct period_candidate c = try_names(s, i, to);
        if (c.alike < PERIOD_ALIKE_MIN)
            continue;
        if (c.part * c.alike > best.part * best.alike)
            best = c;
        if (goal == PERIOD_LONGEST)
            break;
    }
    return best.n_names > 0 ? period_keep(s, best.begin, ret) : 0;
}

int period_find(const uint32_t *names, const int64_t *pauses, size_t n, uint32_t n_names,
                enum period_goal goal, struct period *ret)
{
    _cleanup_(period_search_done) struct period_search s = {
        .names = names, .pauses = pauses, .n = n, .n_names = n_names};

    *ret = (struct period){0};
    int r = period_prepare(&s);
    return r < 0 ? r : period_choose(&s, goal, ret);
}

void period_done(struct period *p)
{
    free(p->starts);
    *p = (struct period){0};
}
