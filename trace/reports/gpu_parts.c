/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/gpu_parts.h"

#include <errno.h>

struct table {
    uint32_t *slots; /* place of a part + 1, 0: free */
    size_t n_slots;
};

static uint64_t hash(int64_t device, int64_t stream)
{
    uint64_t h = ((uint64_t)device * 0x9e3779b97f4a7c15 ^ (uint64_t)stream) * 0xff51afd7ed558ccd;

    return h ^ h >> 32;
}

static uint32_t *find_slot(const struct table *t, const struct gpu_part *items, int64_t device,
                           int64_t stream)
{
    size_t at = hash(device, stream) & (t->n_slots - 1);

    while (t->slots[at] &&
           (items[t->slots[at] - 1].device != device || items[t->slots[at] - 1].stream != stream))
        at = (at + 1) & (t->n_slots - 1);
    return &t->slots[at];
}

static int grow(struct table *t, struct gpu_parts *s)
{
    size_t n_slots = t->n_slots ? t->n_slots * 2 : 64;
    uint32_t *slots = calloc(n_slots, sizeof(*slots));
    struct gpu_part *items = reallocarray(s->items, n_slots / 2, sizeof(*items));

    if (items)
        s->items = items;
    if (!slots || !items) {
        free(slots);
        return -ENOMEM;
    }
    free(t->slots);
    *t = (struct table){slots, n_slots};
    for (size_t i = 0; i < s->n; i++)
        *find_slot(t, s->items, s->items[i].device, s->items[i].stream) = (uint32_t)i + 1;
    return 0;
}

/* Parts in order of appearance, and how much work each has. */
static int find_parts(const struct gpu_work *work, enum gpu_parting by, struct table *t, struct gpu_parts *s)
{
    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        int64_t stream = by == BY_DEVICE ? COLUMN_NULL : e->stream;
        if (s->n == t->n_slots / 2 && grow(t, s) < 0)
            return -ENOMEM;
        uint32_t *slot = find_slot(t, s->items, e->device, stream);
        if (*slot == 0) {
            s->items[s->n++] = (struct gpu_part){.device = e->device, .stream = stream};
            *slot = (uint32_t)s->n;
        }
        s->of[i] = *slot - 1;
        s->items[s->of[i]].work.n++;
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
    struct table table = {0};

    *ret = (struct gpu_parts){.events = malloc((work->n + 1) * sizeof(*ret->events)),
                              .of = malloc((work->n + 1) * sizeof(*ret->of))};
    int r = ret->events && ret->of ? find_parts(work, by, &table, ret) : -ENOMEM;
    free(table.slots);
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
