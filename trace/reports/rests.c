/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/rests.h"

#include "trace/columns/schema.h"

/* A shorter rest may be between two requests. */
#define REST_MIN_NS 100000000

/* What lies between the latest end so far and the begin of the next activity. */
static int rests_add(struct intervals *ret, int64_t *at, int64_t from, int64_t to)
{
    int64_t length;
    int r = 0;

    if (!__builtin_sub_overflow(from, *at, &length) && length >= REST_MIN_NS)
        r = intervals_add(ret, *at, from);
    *at = MAX(*at, to);
    return r;
}

/* Recorded host activity, without Python frames, which a waiting thread has too; what ends before `at` lies in what
 * was seen already. */
static bool rests_is_doing(const struct slice_table *t, uint64_t slice, int64_t at)
{
    static const unsigned kinds = 1u << HOST_OP | 1u << HOST_RUNTIME | 1u << HOST_ANNOTATION;

    return kinds >> t->kind[slice] & 1 && t->dur[slice] > 0 && add_time(t->ts[slice], t->dur[slice]) > at;
}

int rests_read(const struct columns *c, const struct slice_table *t, const struct gpu_work *work,
               struct intervals *ret)
{
    int64_t at = columns_meta(c, META_first_ns), to = columns_meta(c, META_last_ns);
    size_t next = 0;
    int r = 0;

    if (at == COLUMN_NULL || to == COLUMN_NULL)
        return 0;
    /* Both are in order of their begin. */
    for (uint64_t i = 0; i <= t->n && r >= 0; i++) {
        if (i < t->n && !rests_is_doing(t, i, at))
            continue;
        for (; next < work->n && r >= 0 && (i == t->n || work->events[next].ts < t->ts[i]); next++)
            if (work->events[next].end > work->events[next].ts)
                r = rests_add(ret, &at, MIN(work->events[next].ts, to), work->events[next].end);
        if (i < t->n && r >= 0)
            r = rests_add(ret, &at, MIN(t->ts[i], to), add_time(t->ts[i], t->dur[i]));
    }
    if (r >= 0)
        r = rests_add(ret, &at, to, to);
    intervals_unite(ret);
    return r;
}
