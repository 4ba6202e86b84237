/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that the API listens on: a Unix socket for the users of this host, and TCP. Access control is
 * access.h.
 */
#pragma once

#include "base/problem.h"
#include "daemon/api/settings.h"

int listen_tcp(const struct listen_address *address, int *ret_fd, struct problem *p);
/*
 * Makes the socket's directory, removes a socket that nobody listens on, and leaves the socket usable for its
 * owner and the group (NULL or an unknown group: the process's own). The problem names what is in the way.
 */
int listen_unix(const char *path, const char *group, int *ret_fd, struct problem *p);
/* Removes the socket of that descriptor, unless another process owns the path by then. */
void listen_unix_remove(const char *path, dev_t device, ino_t inode);

/*
 * Sockets that systemd opened for profd (sd_listen_fds(3)): one named "http", of profd.socket, and those on
 * TCP. Their paths, modes and life are systemd's.
 */
#define ACTIVATION_MAX 8

struct activated {
    int fd;
    bool local;
    struct listen_address address; /* of one that is not local */
};

struct activation {
    struct activated sockets[ACTIVATION_MAX];
    size_t n, n_local;
};

/* Takes all of them, and leaves none to a later call or a child. A descriptor that is not a listening stream
 * socket is a problem. */
int activation_take(struct activation *ret, struct problem *p);
void activation_done(struct activation *a);
