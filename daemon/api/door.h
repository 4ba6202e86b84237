/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations door: profd's operations over HTTP, on a Unix socket and, where configured, on TCP and D-Bus
 * (bus.h).
 *
 * It translates: parse, call a room, render. It owns its server, its sockets and the requests that wait for
 * an answer; everything else is borrowed. What it knows of HTTP is daemon/api/http.h.
 */
#pragma once

#include "base/loop_lag.h"
#include "base/offload.h"
#include "base/problem.h"
#include "daemon/collect/store.h"
#include "daemon/config.h"
#include "daemon/runs/runs.h"
#include "daemon/session/sessions.h"

struct door;

struct door_rooms {
    struct event_base *base;
    struct offload *offload;
    struct caller *caller;
    struct catalog *catalog;
    struct fleet_finder *finder;
    struct sessions *sessions;
    struct runs *runs;
    struct store *store;
    struct ingest *ingest;
    struct collector *collector;
    struct loop_lag *lag;
    const struct config *config;
};

/* Copies the pointers. Answers nobody yet. */
int door_new(const struct door_rooms *rooms, struct door **ret);
int door_open(struct door *d, struct problem *p);
/* Whether door_open() would take the tokens, certificates and addresses of c. Opens nothing. */
int door_check_config(const struct config *c, struct problem *p);
/* Who is there: connections that are open, and requests so far, over D-Bus too. */
struct door_traffic {
    unsigned connections;
    uint64_t requests;
};
void door_traffic(const struct door *d, struct door_traffic *ret);
/* The limits of its configuration have changed. */
void door_renew_limits(struct door *d);
/* Reads tokens and certificates again, as c says. Where anything is wrong the former ones stay. */
int door_reload(struct door *d, const struct config *c, struct problem *p);
/* No new connections; requests under way are still answered. */
void door_stop_accepting(struct door *d);
/* Ends every connection and removes the socket. The rooms are not used from here on. */
void door_close(struct door *d);
/* After catalog_close(), whose last commit may still announce events to the door. */
struct door *door_free(struct door *d);
