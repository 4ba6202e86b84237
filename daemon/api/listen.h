/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that a door listens on: a Unix socket for the users of this host, and TCP. Who may do what there is
 * access.h.
 */
#pragma once

#include "base/problem.h"
#include <netinet/in.h>
#include <sys/socket.h>

struct listen_address {
    struct sockaddr_storage address;
    socklen_t size;
    struct in6_addr ip; /* the same; IPv4 as ::ffff:a.b.c.d */
    char text[64];
};

/* Of one profd. */
#define LISTEN_MAX 16

/* "127.0.0.1:9460", "[::1]:9460", "localhost:9460", separated by spaces or commas. -EINVAL with the reason
 * for anything else. Pure. */
int listen_addresses_parse(const char *text, struct listen_address *ret, size_t max, size_t *ret_n,
                           const char **reason);

/* Of a listening TCP socket. */
int listen_address_of(int fd, struct listen_address *ret);
int listen_tcp(const struct listen_address *address, int *ret_fd, struct problem *p);
/*
 * Makes the socket's directory, removes a socket that nobody listens on, and leaves the socket usable for its
 * owner and the group (NULL or an unknown group: the process's own). Says in the problem who is in the way.
 */
int listen_unix(const char *path, const char *group, int *ret_fd, struct problem *p);
/* Removes the socket of that descriptor, unless the path is somebody else's by then. */
void listen_unix_remove(const char *path, dev_t device, ino_t inode);
