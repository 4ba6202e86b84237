/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that the API listens on: a Unix socket for the users of this host, and TCP. Who may do what there is
 * access.h.
 */
#pragma once

#include "base/problem.h"
#include "daemon/api/settings.h"

int listen_tcp(const struct listen_address *address, int *ret_fd, struct problem *p);
/*
 * Makes the socket's directory, removes a socket that nobody listens on, and leaves the socket usable for its
 * owner and the group (NULL or an unknown group: the process's own). Says in the problem who is in the way.
 */
int listen_unix(const char *path, const char *group, int *ret_fd, struct problem *p);
/* Removes the socket of that descriptor, unless the path is somebody else's by then. */
void listen_unix_remove(const char *path, dev_t device, ino_t inode);
