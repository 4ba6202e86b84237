/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/cover.h"

#include "trace/reports/search.h"

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
    size_t place = FIRST_THAT(i, 0, c->times.n, c->times.items[i].to > at);

    return c->before[place] + (place < c->times.n ? MAX(at - c->times.items[place].from, 0) : 0);
}

int64_t cover_length(const struct cover *cover, int64_t from, int64_t to)
{
    return from < to ? length_until(cover, to) - length_until(cover, from) : 0;
}
