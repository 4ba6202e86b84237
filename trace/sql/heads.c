/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/heads.h"

#include "trace/read/checkpoint.h"

#include <errno.h>

/* The head that is closest before a place, or else the one that was used longest ago. */
static size_t choose(const struct heads *h, uint64_t place)
{
    size_t oldest = 0, closest = HEADS_MAX;

    for (size_t i = 0; i < HEADS_MAX; i++) {
        uint64_t ahead = place - h->items[i].place;

        if (h->items[i].last_used < h->items[oldest].last_used)
            oldest = i;
        if (h->items[i].source && place >= h->items[i].place && ahead <= CHECKPOINT_SPACING &&
            (closest == HEADS_MAX || ahead < place - h->items[closest].place))
            closest = i;
    }
    return closest < HEADS_MAX ? closest : oldest;
}

int heads_text(struct heads *h, uint64_t place, struct text *ret)
{
    size_t i = choose(h, place);
    int r = 0;

    if (h->fd < 0)
        return -ENOENT;
    if (!h->items[i].source)
        r = event_source_new(h->fd, h->columns, &h->items[i].source);
    if (r == 0)
        r = event_source_text(h->items[i].source, place, ret);
    if (r == -ESTALE)
        return -ENOENT;
    h->items[i].place = place;
    h->items[i].last_used = ++h->clock;
    return r;
}

void heads_done(struct heads *h)
{
    for (size_t i = 0; i < HEADS_MAX; i++)
        event_source_free(h->items[i].source);
}
