/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of bytes to profd, for a relay: over its Unix socket, or over TCP with TLS and the client certificate of the
 * connection, but without its token. Each has a socket of its own; one thread uses a tunnel, several may open one of the
 * same connection.
 */
#pragma once

#include "client/transport/connection.h"

struct tunnel;

/* Blocks, for seconds at most. Not on a bus. */
int tunnel_open(const struct connection *d, struct tunnel **ret, struct problem *p);
struct tunnel *tunnel_close(struct tunnel *t);
DEFINE_CLEANUP(struct tunnel *, tunnel_close)

int tunnel_fd(const struct tunnel *t); /* to wait for, once a call returned -EAGAIN */
/* Neither blocks. 0 from reading: profd closed it; -EAGAIN; another error is its end. */
ssize_t tunnel_read(struct tunnel *t, void *data, size_t size);
ssize_t tunnel_write(struct tunnel *t, const void *data, size_t size);
