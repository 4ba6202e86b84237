/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/cover.h"

#include <errno.h>

int cover_new(struct intervals *times, struct cover *ret)
{
    *ret = (struct cover){*times, calloc(times->n + 1, sizeof(*ret->before))};
    *times = (struct intervals){0};
    if (!ret->before) {
        cover_done(ret);
        return -ENOMEM;
    }
    for (size_t i = 0; i < ret->times.n; i++)
        ret->before[i + 1] = ret->before[i] + (ret->times.items[i].to - ret->times.items[i].from);
    return 0;
}

void cover_done(struct cover *cover)
{
    intervals_done(&cover->times);
    free(cover->before);
    cover->before = NULL;
}

static int64_t length_until(const struct cover *c, int64_t at)
{
    size_t low = 0, high = c->times.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->times.items[middle].to <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return c->before[low] + (low < c->times.n ? MAX(at - c->times.items[low].from, 0) : 0);
}

int64_t cover_length(const struct cover *cover, int64_t from, int64_t to)
{
    return from < to ? length_until(cover, to) - length_until(cover, from) : 0;
}
