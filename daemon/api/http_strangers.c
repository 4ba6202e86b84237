/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_strangers.h"

#include "base/address.h"
#include "base/alloc.h"

struct stranger_group {
    LIST_ENTRY(stranger_group) link;
    struct in6_addr network;
    TAILQ_HEAD(, stranger) members; /* the one that was added first is at the head */
    unsigned n;
};

static struct stranger_group *find(const struct strangers *all, const struct in6_addr *address)
{
    const struct in6_addr network = address_network(address);
    struct stranger_group *g;

    LIST_FOREACH(g, &all->groups, link)
        if (IN6_ARE_ADDR_EQUAL(&g->network, &network))
            return g;
    return NULL;
}

void strangers_add(struct strangers *all, struct stranger *s, const struct in6_addr *address)
{
    if (s->group)
        return;
    struct stranger_group *g = find(all, address);
    if (!g) {
        g = xcalloc(1, sizeof(*g));
        g->network = address_network(address);
        TAILQ_INIT(&g->members);
        LIST_INSERT_HEAD(&all->groups, g, link);
    }
    TAILQ_INSERT_TAIL(&g->members, s, next);
    g->n++;
    s->group = g;
    s->number = all->n_added++;
}

void strangers_remove(struct strangers *all, struct stranger *s)
{
    struct stranger_group *g = TAKE_PTR(s->group);

    if (!g)
        return;
    TAILQ_REMOVE(&g->members, s, next);
    if (--g->n > 0)
        return;
    LIST_REMOVE(g, link);
    free(g);
}

/* Whether a gives up a member before b does. */
static bool goes_before(const struct stranger_group *a, const struct stranger_group *b)
{
    if (a->n != b->n)
        return a->n > b->n;
    return TAILQ_FIRST(&a->members)->number < TAILQ_FIRST(&b->members)->number;
}

struct stranger *strangers_first(const struct strangers *all)
{
    const struct stranger_group *g, *largest = NULL;

    LIST_FOREACH(g, &all->groups, link)
        if (!largest || goes_before(g, largest))
            largest = g;
    return largest ? TAILQ_FIRST(&largest->members) : NULL;
}

struct stranger *strangers_over_share(const struct strangers *all, const struct in6_addr *address,
                                      unsigned share)
{
    const struct stranger_group *g = address_is_loopback(address) ? NULL : find(all, address);

    return g && g->n >= share ? TAILQ_FIRST(&g->members) : NULL;
}
