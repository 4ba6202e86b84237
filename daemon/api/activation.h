/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that systemd opened for profd (sd_listen_fds(3)): one named "http", of profd.socket, and those on
 * TCP. Their paths, rights and life are systemd's.
 */
#pragma once

#include "base/problem.h"
#include "daemon/api/settings.h"

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

/* Takes what there is, and leaves none of it to a later call or a child. What is no listening stream socket
 * is a problem. */
int activation_take(struct activation *ret, struct problem *p);
void activation_done(struct activation *a);
