/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses profd may call: routers and workers are named by people, by routers and by name servers,
 * and profd stands where not all of them do. Pure functions over addresses.
 *
 * The decision is about the very address that is connected to, after its name was resolved. An IPv4 address
 * that is embedded in an IPv6 one is checked as an IPv4 address; 0.0.0.0 and ::, by which Linux reaches
 * loopback, as loopback.
 */
#pragma once

#include "base/address.h"

#define NETWORK_RANGES_MAX 1000
/* Of [network] allow=. */
#define NETWORK_DEFAULT "loopback private"

struct network_policy {
    struct address_range *ranges;
    size_t n, cap;
    bool replaceable; /* by the first list that is added: these are defaults */
};

/* Adds a list: networks (10.0.0.0/8, fd00::/8), addresses, "loopback" and "private", with spaces or commas
 * between. -EINVAL with the reason, and nothing added, where one of them is none. */
int network_add(struct network_policy *p, const char *list, char **ret_reason);
/* As network_add() reads it. The caller frees it. */
char *network_format(const struct network_policy *p);
void network_copy(const struct network_policy *from, struct network_policy *ret);
void network_done(struct network_policy *p);

struct network_refusal {
    const char *why; /* follows the address */
    const char *remedy;
};

/* NULL where it may be called. Some addresses never may, even if the policy contains them: those where clouds hand out
 * credentials, and what is no single machine. Nor may one that is of neither IP: address is NULL. */
const struct network_refusal *network_refuses(const struct network_policy *p, const struct in6_addr *address);
/* The same without a policy, for addresses that profd.conf names itself: only what may never be called is refused. */
const struct network_refusal *network_refuses_ever(const struct in6_addr *address);
bool network_allows(const struct network_policy *p, const struct in6_addr *address);
