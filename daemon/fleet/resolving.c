/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/resolving.h"

#include "base/clock.h"
#include "base/util.h"
#include <errno.h>

/* Three servers of resolv.conf, two tries of five seconds each. */
#define PATIENCE_NS (30 * NS_PER_S)
/* Of one that is not left. */
#define WAITED_FOR INT64_MAX

/* FNV-1a. */
uint64_t resolving_origin(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash ? hash : 1;
}

int resolving_begin(struct resolving *r, uint64_t origin, int64_t now_ns)
{
    size_t n = 0;
    int slot = -1;

    for (int i = 0; i < RESOLVING_MAX; i++) {
        struct resolving_slot *s = &r->slots[i];
        if (s->origin && s->left_until_ns <= now_ns)
            resolving_end(r, i);
        n += s->origin == origin;
        if (!s->origin)
            slot = i;
    }
    if (slot < 0 || n >= RESOLVING_EACH_MAX)
        return -EAGAIN;
    r->slots[slot] = (struct resolving_slot){origin, WAITED_FOR};
    return slot;
}

void resolving_end(struct resolving *r, int slot)
{
    r->slots[slot] = (struct resolving_slot){0};
}

void resolving_leave(struct resolving *r, int slot, int64_t now_ns)
{
    r->slots[slot].left_until_ns = now_ns + PATIENCE_NS;
}

int64_t resolving_next_ns(const struct resolving *r)
{
    int64_t next_ns = INT64_MAX;

    for (size_t i = 0; i < RESOLVING_MAX; i++)
        if (r->slots[i].origin)
            next_ns = MIN(next_ns, r->slots[i].left_until_ns);
    return next_ns;
}
