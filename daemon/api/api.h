/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API: profd's operations over HTTP, on a Unix socket and, where configured, on TCP and D-Bus
 * (bus.h).
 *
 * It translates: parse, call a module, render. It owns its server, its sockets and the requests that wait for
 * an answer; everything else is borrowed. What it knows of HTTP is daemon/api/http.h.
 */
#pragma once

#include "base/loop_lag.h"
#include "base/offload.h"
#include "base/problem.h"
#include "daemon/api/settings.h"
#include "daemon/collect/store.h"
#include "daemon/mirror/mirror.h"
#include "daemon/report/viewer.h"
#include "daemon/runs/runs.h"
#include "daemon/session/sessions.h"

struct api;

struct leases;
struct parts;
struct peers;

struct api_modules {
    struct event_base *base;
    struct offload *offload;
    struct caller *caller;
    struct catalog *catalog;
    struct fleet_finder *finder;
    struct kineto *kineto;
    struct peers *peers;
    struct sessions *sessions;
    struct leases *leases;
    struct parts *parts;
    struct runs *runs;
    struct store *store;
    struct ingest *ingest;
    struct collector *collector;
    struct reports *reports;
    struct viewers *viewers;
    struct archiver *archiver;
    struct mirror *mirror;
    struct loop_lag *lag;
    const struct api_settings *settings;
    const struct fleet_settings *fleet_settings;
    const struct session_settings *session_settings;
    const struct hosts_settings *hosts_settings;
    const char *state_dir;
};

/* Copies the pointers. Serves no client yet. */
int api_new(const struct api_modules *modules, struct api **ret);
int api_open(struct api *api, struct problem *p);
/* Whether api_open() would accept the tokens, certificates and addresses of s. Opens nothing. */
int api_check_settings(const struct api_settings *s, struct problem *p);
/* Open connections, and requests so far, D-Bus included. */
struct api_traffic {
    unsigned connections;
    uint64_t requests;
};
void api_traffic(const struct api *api, struct api_traffic *ret);
/* Reads tokens and certificates again, by the settings s, which are about to replace its own. On an error the previous
 * ones stay. */
int api_reload(struct api *api, const struct api_settings *s, struct problem *p);
/* Its settings were replaced: applies the limits, and ends streams of clients that are no longer permitted. */
void api_renew(struct api *api);
/* No new connections; requests in progress are still answered. */
void api_stop_accepting(struct api *api);
/* Ends every connection and removes the socket. The modules are not used from here on. */
void api_close(struct api *api);
/* After catalog_close(), whose last commit may still announce events to the API. */
struct api *api_free(struct api *api);
