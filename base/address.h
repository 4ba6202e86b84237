/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses and ranges of them, as people write them and sockets have them. IPv4 is kept as
 * ::ffff:a.b.c.d. Pure. */
#pragma once

#include "base/util.h"
#include <netinet/in.h>
#include <sys/socket.h>

#define ADDRESS_TEXT_SIZE (INET6_ADDRSTRLEN + 2)

/* "10.0.0.7", "::1". -EINVAL for anything else. */
int address_parse(const char *text, struct in6_addr *ret);
/* The host of a URL, IPv6 with brackets or without. False for a name. */
bool address_of_host(const char *host, struct in6_addr *ret);
/* False for families without IP. */
bool address_of_socket(const struct sockaddr *address, struct in6_addr *ret);
/* The address of a socket, in the family of the IP address: ret has room for either. Returns its size. */
socklen_t address_to_socket(const struct in6_addr *address, int port, struct sockaddr_in6 *ret);
struct in6_addr address_v4(in_addr_t address);
/* As a URL has it: IPv6 in brackets. */
void address_format(const struct in6_addr *address, char ret[static ADDRESS_TEXT_SIZE]);

/* "8000", 1 to 65535; 0 for anything else, and for NULL. */
int port_parse(const char *text);

/* What one customer of a provider has: an IPv4 address as it is, of IPv6 the /64. */
struct in6_addr address_network(const struct in6_addr *address);

bool address_is_v4(const struct in6_addr *address);
/* 127/8 and ::1; 0.0.0.0 and ::. */
bool address_is_loopback(const struct in6_addr *address);
bool address_is_wildcard(const struct in6_addr *address);

/* Holds addresses of one family: no IPv4 lies in ::/0. */
struct address_range {
    struct in6_addr address;
    unsigned bits; /* of 128 */
};

/*
 * "10.0.0.0/8", "fd00::/8", or one address. -EINVAL for anything else; -ERANGE with the reason where only the
 * prefix is wrong. So is that of 10.0.0.1/8: whoever wrote it meant either the address or its network.
 */
int address_range_parse(const char *text, struct address_range *ret, const char **reason);
bool address_range_has(const struct address_range *r, const struct in6_addr *address);
