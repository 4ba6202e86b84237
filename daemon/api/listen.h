/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that a door listens on: a Unix socket for the users of this host, TCP on loopback only. Other
 * addresses are refused, because whoever reaches the door may do everything.
 */
#pragma once

#include "base/problem.h"
#include <sys/socket.h>

struct listen_address {
    struct sockaddr_storage address;
    socklen_t size;
};

/* "127.0.0.1:9460", "[::1]:9460", "localhost:9460". -EINVAL with the reason for anything else. Pure. */
int listen_address_parse(const char *text, struct listen_address *ret, const char **reason);

int listen_tcp(const char *text, int *ret_fd, struct problem *p);
/*
 * Makes the socket's directory, removes a socket that nobody listens on, and leaves the socket usable for its
 * owner and the group (NULL or an unknown group: the process's own). Says in the problem who is in the way.
 */
int listen_unix(const char *path, const char *group, int *ret_fd, struct problem *p);
/* Removes the socket of that descriptor, unless the path is somebody else's by then. */
void listen_unix_remove(const char *path, dev_t device, ino_t inode);
