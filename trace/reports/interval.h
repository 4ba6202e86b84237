/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of times: half-open intervals [from, to) that are sorted, separated from each other and not empty.
 *
 * A set is collected in any order (intervals_add) and then normalised once (intervals_unite): intervals
 * that touch become one. All other functions expect and return normalised sets.
 */
#pragma once

#include "base/array.h"
#include <errno.h>

struct interval {
    int64_t from, to;
};

struct intervals {
    struct interval *items;
    size_t n, cap;
};

/* Sums of times, which an untrusted trace defines: they saturate at the largest number. */
static inline int64_t add_time(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

/* One that is empty or reversed is left out. -ENOMEM. */
static inline int intervals_add(struct intervals *set, int64_t from, int64_t to)
{
    if (from >= to)
        return 0;
    if (!ARRAY_RESERVE(set->items, set->cap, set->n + 1))
        return -ENOMEM;
    set->items[set->n++] = (struct interval){from, to};
    return 0;
}

void intervals_unite(struct intervals *set);
void intervals_done(struct intervals *set);

/* Sum of the lengths. */
int64_t intervals_length(const struct intervals *set);
/* Length of what both have. */
int64_t intervals_common(const struct intervals *a, const struct intervals *b);
/* Both -ENOMEM; ret must be empty. */
int intervals_intersect(const struct intervals *a, const struct intervals *b, struct intervals *ret);
int intervals_subtract(const struct intervals *a, const struct intervals *b, struct intervals *ret);
const struct interval *intervals_search(const struct intervals *set, int64_t at);
/* The interval that holds `at`, or NULL. Most sets have a single one, the entire trace: that is not searched. */
static inline const struct interval *intervals_find(const struct intervals *set, int64_t at)
{
    const struct interval *first = set->items;

    return set->n != 1 ? intervals_search(set, at) : at >= first->from && at < first->to ? first : NULL;
}

/* Which share of each of n equal parts of [from, to) the set covers. */
void intervals_shares(const struct intervals *set, int64_t from, int64_t to, double *ret, size_t n);

/* How much of a time a set of times covers, asked for again and again. */
struct cover {
    const struct intervals *times; /* the caller's */
    int64_t *before;               /* private: length of all before each of them */
    size_t near;                   /* private: where it was asked last */
};

/* times: normalised. -ENOMEM. */
int cover_new(const struct intervals *times, struct cover *ret);
void cover_done(struct cover *cover);
/* Of [from, to). Fastest where the next question is about a time soon after. */
int64_t cover_length(struct cover *cover, int64_t from, int64_t to);
