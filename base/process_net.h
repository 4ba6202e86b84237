/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that listen on the ports of this host, in every network namespace that has a process profd can see.
 *
 * A survey is a snapshot: namespaces with their addresses, listening sockets, processes by age. It is taken
 * once for a whole fleet, so that a thousand ports cost one walk through /proc. The parsers are pure.
 */
#pragma once

#include "base/util.h"
#include <netinet/in.h>
#include <sys/types.h>

#define NET_TABLE_MAX     (64 << 20) /* of one /proc/PID/net/tcp */
#define NET_LISTENERS_MAX 200000     /* of all namespaces together */
#define NET_SPACES_MAX    4096
#define NET_ADDRESSES_MAX 65536 /* of one namespace */

/* All addresses are IPv6; IPv4 is mapped (::ffff:a.b.c.d). */
struct net_listener {
    struct in6_addr address;
    uint16_t port;
    uid_t uid;
    ino_t inode;
    unsigned space;   /* index of its namespace */
    pid_t pid;        /* set by net_survey_find_owners(); 0 unknown */
    uint64_t started; /* when that process did, in ticks since boot */
};

struct net_space {
    ino_t id;
    pid_t member; /* whose /proc entry shows it */
    struct in6_addr *addresses;
    size_t n_addresses, cap_addresses;
};

struct net_process {
    pid_t pid;
    uid_t uid;
    uint64_t started;
    unsigned space;
};

struct net_survey {
    struct net_space *spaces; /* the first is profd's own */
    size_t n_spaces, cap_spaces;
    struct net_listener *listeners; /* by port */
    size_t n_listeners, cap_listeners;
    struct net_process *processes; /* the oldest first, but process 1 last: it may hold sockets for others */
    size_t n_processes, cap_processes;
};

/*
 * Adds the listening sockets of the complete lines of a tcp (or tcp6) table. Returns the number of bytes
 * consumed; *ret_ended: the listening sockets, which the kernel lists first, have ended.
 */
size_t net_table_parse(const char *data, size_t size, unsigned space, struct net_survey *survey,
                       bool *ret_ended);
/* Add a namespace's own addresses, from fib_trie (IPv4) and if_inet6. */
void net_fib_trie_parse(const char *data, size_t size, struct net_space *space);
void net_if_inet6_parse(const char *data, size_t size, struct net_space *space);

/* Of an interface of this host, in profd's own network namespace; loopback is. */
bool net_address_is_own(const struct in6_addr *wanted);

void net_survey_read(struct net_survey *ret);
void net_survey_done(struct net_survey *s);

bool net_space_has(const struct net_space *space, const struct in6_addr *address);
/* What a connection to the address reaches inside the namespace: its own listener before the wildcard's. */
struct net_listener *net_survey_find(const struct net_survey *s, unsigned space,
                                     const struct in6_addr *address, uint16_t port);
/* A listener on the port outside profd's own namespace; NULL where there is none, or in several namespaces.
 */
struct net_listener *net_survey_elsewhere(const struct net_survey *s, uint16_t port);
/*
 * Sets pid and started of the given listeners: the oldest process that holds the socket, since children inherit it.
 * Returns the number of listeners whose process stays unknown.
 */
size_t net_survey_find_owners(const struct net_survey *s, struct net_listener **wanted, size_t n);
