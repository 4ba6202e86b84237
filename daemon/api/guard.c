/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/guard.h"

#include "base/address.h"
#include "base/util.h"

static const struct guard_slot *find(const struct guard *g, const struct in6_addr *network)
{
    for (size_t i = 0; i < GUARD_SLOTS; i++)
        if (IN6_ARE_ADDR_EQUAL(&g->slots[i].network, network))
            return &g->slots[i];
    return NULL;
}

int64_t guard_wait_ns(const struct guard *g, const struct in6_addr *address, int64_t now_ns)
{
    const struct in6_addr network = address_network(address);
    const struct guard_slot *slot = find(g, &network);
    return slot ? MAX(slot->clear_at - now_ns - (GUARD_BURST - 1) * GUARD_INTERVAL_NS, 0) : 0;
}

void guard_failed(struct guard *g, const struct in6_addr *address, int64_t now_ns)
{
    const struct in6_addr network = address_network(address);
    struct guard_slot *slot = (struct guard_slot *)find(g, &network);

    if (!slot) {
        slot = &g->slots[0];
        for (size_t i = 1; i < GUARD_SLOTS; i++)
            if (g->slots[i].clear_at < slot->clear_at)
                slot = &g->slots[i];
        *slot = (struct guard_slot){.network = network};
    }
    slot->clear_at = MAX(slot->clear_at, now_ns) + GUARD_INTERVAL_NS;
}
