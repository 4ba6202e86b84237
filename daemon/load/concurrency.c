/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/concurrency.h"

#include "base/alloc.h"
#include "base/statistics.h"

void concurrency_of(const struct request_record *records, size_t n, struct concurrency *ret)
{
    *ret = (struct concurrency){
        .starts = xcalloc(n, sizeof(*ret->starts)),
        .ends = xcalloc(n, sizeof(*ret->ends)),
    };
    for (size_t i = 0; i < n; i++)
        if (records[i].sent_ns >= 0 && records[i].end_ns > records[i].sent_ns) {
            ret->starts[ret->n] = records[i].sent_ns;
            ret->ends[ret->n++] = records[i].end_ns;
        }
    sort_ns(ret->starts, ret->n);
    sort_ns(ret->ends, ret->n);
}

void concurrency_done(struct concurrency *c)
{
    free(c->starts);
    free(c->ends);
    *c = (struct concurrency){0};
}

size_t concurrency_peak(const struct concurrency *c)
{
    size_t peak = 0, ended = 0;

    for (size_t started = 0; started < c->n; started++) {
        while (c->ends[ended] <= c->starts[started])
            ended++;
        peak = MAX(peak, started + 1 - ended);
    }
    return peak;
}

/* How many of n sorted moments have come. */
static size_t come(const int64_t *moments, size_t n, int64_t now_ns)
{
    size_t from = 0;

    while (n > 0) {
        size_t half = n / 2;
        if (moments[from + half] <= now_ns) {
            from += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return from;
}

size_t concurrency_at(const struct concurrency *c, int64_t moment_ns)
{
    return come(c->starts, c->n, moment_ns) - come(c->ends, c->n, moment_ns);
}
