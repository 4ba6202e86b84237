/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/gpu_parts.h"

#include "base/array.h"
#include "trace/reports/stream_set.h"
#include <errno.h>

/* Parts in order of appearance, and how much work each has. */
static int find_parts(const struct gpu_work *work, enum gpu_parting by, struct gpu_parts *s)
{
    _cleanup_(stream_set_done) struct stream_set streams = {0};
    size_t cap = 0;

    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        int64_t number = stream_set_number(&streams, e->device, by == BY_DEVICE ? COLUMN_NULL : e->stream);
        if (number < 0)
            return (int)number;
        if (!ARRAY_RESERVE(s->items, cap, streams.n))
            return -ENOMEM;
        struct gpu_part *part = &s->items[number];
        if (streams.n > s->n) {
            const struct gpu_stream *stream = &streams.items[number];
            *part = (struct gpu_part){.device = stream->device, .stream = stream->id};
            s->n = streams.n;
        }
        s->of[i] = (uint32_t)number;
        part->work.n++;
    }
    return 0;
}

static int compare(const void *x, const void *y, void *arg)
{
    const uint32_t *i = x, *k = y;
    const struct gpu_part *items = arg, *a = &items[*i], *b = &items[*k];

    if (a->device != b->device)
        return (a->device > b->device) - (a->device < b->device);
    return (a->stream > b->stream) - (a->stream < b->stream);
}

/* Puts them in order and gives each its part of the events. */
static int order(const struct gpu_work *work, struct gpu_parts *s)
{
    _cleanup_(freep) uint32_t *by_number = calloc(s->n + 1, sizeof(*by_number)),
                              *place = calloc(s->n + 1, sizeof(*place));
    struct gpu_part *items = calloc(s->n + 1, sizeof(*items));
    size_t first = 0;

    if (!by_number || !place || !items) {
        free(items);
        return -ENOMEM;
    }
    for (size_t i = 0; i < s->n; i++)
        by_number[i] = (uint32_t)i;
    qsort_r(by_number, s->n, sizeof(*by_number), compare, s->items);
    for (size_t i = 0; i < s->n; i++) {
        items[i] = s->items[by_number[i]];
        place[by_number[i]] = (uint32_t)i;
        items[i].work.events = s->events + first;
        first += items[i].work.n;
        items[i].work.n = 0;
    }
    free(s->items);
    s->items = items;
    for (size_t i = 0; i < work->n; i++) {
        s->of[i] = place[s->of[i]];
        struct gpu_work *part = &items[s->of[i]].work;
        part->events[part->n++] = work->events[i];
    }
    return 0;
}

int gpu_parts_read(const struct gpu_work *work, enum gpu_parting by, struct gpu_parts *ret)
{
    *ret = (struct gpu_parts){.events = malloc((work->n + 1) * sizeof(*ret->events)),
                              .of = malloc((work->n + 1) * sizeof(*ret->of))};
    int r = ret->events && ret->of ? find_parts(work, by, ret) : -ENOMEM;
    if (r >= 0)
        r = order(work, ret);
    if (r < 0)
        gpu_parts_done(ret);
    return r;
}

void gpu_parts_done(struct gpu_parts *parts)
{
    free(parts->items);
    free(parts->events);
    free(parts->of);
    *parts = (struct gpu_parts){0};
}
