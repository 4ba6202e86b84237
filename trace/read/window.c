/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/window.h"

#include <errno.h>

#define RING_SIZE (WINDOW_END + WINDOW_ROOM)

struct window {
    uint64_t total;
    size_t at; /* where the next byte goes */
    uint8_t ring[RING_SIZE];
    char head[WINDOW_END];
    char tail[WINDOW_END];
};

int window_new(struct window **ret)
{
    struct window *w = malloc(sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->total = 0;
    w->at = 0;
    *ret = w;
    return 0;
}

struct window *window_free(struct window *w)
{
    free(w);
    return NULL;
}

uint8_t *window_room(struct window *w, size_t *ret_size)
{
    *ret_size = MIN((size_t)WINDOW_ROOM, RING_SIZE - w->at);
    return w->ring + w->at;
}

void window_filled(struct window *w, size_t size)
{
    if (w->total < WINDOW_END)
        memcpy(w->head + w->total, w->ring + w->at, MIN(size, WINDOW_END - (size_t)w->total));
    w->total += size;
    w->at = (w->at + size) % RING_SIZE;
}

uint64_t window_total(const struct window *w)
{
    return w->total;
}

const char *window_head(const struct window *w, size_t *ret_size)
{
    *ret_size = (size_t)MIN(w->total, (uint64_t)WINDOW_END);
    return w->head;
}

const char *window_tail(struct window *w, size_t *ret_size)
{
    size_t size = (size_t)MIN(w->total, (uint64_t)WINDOW_END);
    size_t start = (w->at + RING_SIZE - size) % RING_SIZE;
    size_t first = MIN(size, RING_SIZE - start);

    memcpy(w->tail, w->ring + start, first);
    memcpy(w->tail + first, w->ring, size - first);
    *ret_size = size;
    return w->tail;
}
