/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end of a connection, and which connection without a valid token is closed in favor of a
 * new one.
 *
 * A member of the list is a connection that waits for its client: it is idle, its request is incomplete, or
 * its reply is being read. The one that has waited longest at the address with most members goes first, so
 * that a client that opens many connections displaces its own, and an address with few keeps them. Beyond
 * loopback an address has a share and no more. Many users of one host come from 127.0.0.1: loopback has no
 * share. Addresses are compared as networks (address_network()). The list is pure.
 */
#pragma once

#include "daemon/api/http.h"
#include <sys/queue.h>

void http_peer_read(int fd, struct http_peer *ret);
bool http_socket_is_tcp(int fd);

struct anonymous_group;

/* Part of a connection; zeroed, it is no member. */
struct anonymous {
    TAILQ_ENTRY(anonymous) next;
    struct anonymous_group *group;
    uint64_t number; /* grows from one addition to the next */
};

struct anonymous_list {
    LIST_HEAD(, anonymous_group) groups;
    uint64_t n_added;
};

/* Does nothing where a is a member. */
void anonymous_add(struct anonymous_list *list, struct anonymous *a, const struct in6_addr *address);
/* Does nothing where a is no member. */
void anonymous_remove(struct anonymous_list *list, struct anonymous *a);
/* The member that goes first; NULL where there is none. */
struct anonymous *anonymous_first(const struct anonymous_list *list);
/* The member that goes before one more of address is added; NULL while the address is below its share. */
struct anonymous *anonymous_over_share(const struct anonymous_list *list, const struct in6_addr *address,
                                       unsigned share);
