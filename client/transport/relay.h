/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay: a port of loopback on which a browser reaches a profd that it could not reach itself, because that has only a
 * Unix socket, or needs TLS, a client certificate, or an authority that the browser does not know.
 *
 * It decides by relay_head.h what may pass, and adds no rights: a request has those of the token that the page sends. Each
 * connection of the browser has a thread and a tunnel to profd; bytes pass in both directions as fast as the receiver
 * takes them, and none are kept, so that event streams and downloads of any size pass.
 */
#pragma once

#include "client/transport/connection.h"

struct relay;

/* Listens on 127.0.0.1; port 0: any that is free. Borrows the connection, which is not on a bus. */
int relay_new(const struct connection *d, int port, struct relay **ret, struct problem *p);
struct relay *relay_free(struct relay *r);
DEFINE_CLEANUP(struct relay *, relay_free)
int relay_port(const struct relay *r);
/* Serves until SIGINT or SIGTERM, which the caller blocked (client_hold_signals()); then ends all connections. */
void relay_run(struct relay *r);
