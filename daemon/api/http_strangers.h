/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections whose client has shown no right token yet, and which of them makes room for a new one. Pure.
 *
 * A member is a connection that waits for its client: it is idle, its request is incomplete, or its reply is
 * being read. The one that has waited longest at the address with most members goes first, so that a client
 * that opens many connections displaces its own, and an address with few keeps them. Beyond loopback an
 * address has a share and no more. Many users of one host come from 127.0.0.1: loopback has no share.
 *
 * Addresses are compared as networks (address_network()).
 */
#pragma once

#include "base/util.h"
#include <netinet/in.h>
#include <stdint.h>
#include <sys/queue.h>

struct stranger_group;

/* Part of a connection; zeroed, it is no member. */
struct stranger {
    TAILQ_ENTRY(stranger) next;
    struct stranger_group *group;
    uint64_t number; /* grows from one addition to the next */
};

struct strangers {
    LIST_HEAD(, stranger_group) groups;
    uint64_t n_added;
};

/* Does nothing where s is a member. */
void strangers_add(struct strangers *all, struct stranger *s, const struct in6_addr *address);
/* Does nothing where s is no member. */
void strangers_remove(struct strangers *all, struct stranger *s);

/* The member that goes first; NULL where there is none. */
struct stranger *strangers_first(const struct strangers *all);
/* The member that goes before one more of address is added; NULL while the address is below its share. */
struct stranger *strangers_over_share(const struct strangers *all, const struct in6_addr *address,
                                      unsigned share);
