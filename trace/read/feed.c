/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/feed.h"

#include "trace/read/json_text.h"
#include <errno.h>
#include <stdatomic.h>

struct feed {
    struct scanner *scanner;
    uint64_t place; /* of the next byte that the scanner takes */
    _Atomic uint64_t events;
    /* What the scanner has left. Behind it are SCAN_PAD bytes, as behind every piece. */
    char *rest;
    size_t rest_size, rest_cap;
    size_t wanted; /* how much there should be before the scanner is asked again */
};

int feed_new(struct intake *in, enum feed_begin begin, uint64_t place, struct feed **ret)
{
    struct feed *f = calloc(1, sizeof(*f));

    if (!f)
        return -ENOMEM;
    int r = scan_new(in, SCAN_SIMD_BEST, &f->scanner);
    if (r < 0) {
        feed_free(f);
        return r;
    }
    if (begin == FEED_IN_EVENTS)
        scan_begin_in_events(f->scanner);
    else if (begin == FEED_IN_BARE_EVENTS)
        scan_begin_in_bare_events(f->scanner);
    f->place = place;
    *ret = f;
    return 0;
}

struct feed *feed_free(struct feed *f)
{
    if (!f)
        return NULL;
    scan_free(f->scanner);
    free(f->rest);
    free(f);
    return NULL;
}

static int reserve(struct feed *f, size_t size)
{
    if (size + SCAN_PAD <= f->rest_cap)
        return 0;
    size_t cap = MAX(2 * f->rest_cap, size + SCAN_PAD);
    char *grown = realloc(f->rest, cap);
    if (!grown)
        return -ENOMEM;
    memset(grown + f->rest_cap, 0, cap - f->rest_cap);
    f->rest = grown;
    f->rest_cap = cap;
    return 0;
}

static size_t scan(struct feed *f, const char *p, size_t size, bool last)
{
    size_t used = scan_some(f->scanner, p, size, f->place, last);

    f->place += used;
    atomic_store_explicit(&f->events, scan_events(f->scanner), memory_order_relaxed);
    return used;
}

/* Gives the scanner no more than an item may have, so that it does not depend on the pieces which are too
 * large. */
static void scan_rest(struct feed *f, bool last)
{
    size_t at = 0, used = 1;

    while (used > 0 && at < f->rest_size) {
        size_t left = f->rest_size - at, size = MIN(left, (size_t)SCAN_ITEM_MAX);
        used = scan(f, f->rest + at, size, last && size == left);
        at += used;
        if (size == left)
            break;
    }
    f->rest_size -= at;
    memmove(f->rest, f->rest + at, f->rest_size);
}

/* An item that does not fit into the margin: asks again each time that there is twice as much of it, so that
 * it is not looked at as often as it has pieces. */
static int gather(struct feed *f, const char *p, size_t size, bool last)
{
    int r = reserve(f, f->rest_size + size);

    if (r < 0)
        return r;
    memcpy(f->rest + f->rest_size, p, size);
    f->rest_size += size;
    if (last || f->rest_size >= f->wanted) {
        scan_rest(f, last);
        f->wanted = MIN(2 * f->rest_size, (size_t)SCAN_ITEM_MAX);
    }
    return 0;
}

int feed_piece(struct feed *f, char *p, size_t size, bool last)
{
    if (f->rest_size > FEED_MARGIN)
        return gather(f, p, size, last);
    p -= f->rest_size;
    size += f->rest_size;
    if (f->rest_size > 0)
        memcpy(p, f->rest, f->rest_size);
    size_t used = scan(f, p, size, last);
    f->rest_size = size - used;
    int r = reserve(f, f->rest_size);
    if (r < 0)
        return r;
    memcpy(f->rest, p + used, f->rest_size);
    f->wanted = MIN(2 * f->rest_size, (size_t)SCAN_ITEM_MAX);
    return 0;
}

bool feed_between_events(const struct feed *f)
{
    for (size_t i = 0; i < f->rest_size; i++)
        if (!json_is_space(f->rest[i]) && f->rest[i] != ',')
            return false;
    return scan_between_events(f->scanner);
}

enum scan_state feed_state(const struct feed *f)
{
    return scan_state(f->scanner);
}

uint64_t feed_events(const struct feed *f)
{
    return atomic_load_explicit(&f->events, memory_order_relaxed);
}
