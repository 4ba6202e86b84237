/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who showed wrong tokens, and how long he has to wait before the next is answered. Pure: time is given.
 *
 * An address may fail GUARD_BURST times at once, and once in GUARD_INTERVAL_NS for ever. Addresses
 * are compared as networks (address_network()). The table is of fixed size; beyond it the address that has
 * failed least is forgotten, so that many addresses can win a few more tries and no memory.
 */
#pragma once

#include "base/clock.h"
#include <netinet/in.h>

#define GUARD_SLOTS       512
#define GUARD_BURST       10
#define GUARD_INTERVAL_NS (6 * NS_PER_S)

/* A zeroed struct knows nobody. */
struct guard {
    struct guard_slot {
        struct in6_addr network;
        int64_t clear_at; /* all its failures are forgiven then */
    } slots[GUARD_SLOTS];
};

/* 0, or for how long no wrong token from there is answered as one. */
int64_t guard_wait_ns(const struct guard *g, const struct in6_addr *address, int64_t now_ns);
void guard_failed(struct guard *g, const struct in6_addr *address, int64_t now_ns);
