/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which workers a verb is about: the options that list-workers, start, doctor and bench share, and what
 * becomes of them in a request.
 *
 * A training log is read here, and units are looked up here: profd gets the URLs that were found.
 */
#pragma once

#include "client/transport/connection.h"

struct source {
    const char *router, *router_log, *fleet, *dialect, *trace_dir;
    struct option_list workers, units, user_units;
};

/* Lines of an option table; type has a member `struct source source`. */
/* clang-format off */
#define WORKER_OPTIONS(type)                                                                                               \
    {"router", 0, "URL", OPTION_TEXT, offsetof(type, source.router), "router whose workers are meant; default: $PROFD_ROUTER, else the one configured fleet, else the router used last"}, \
    {"router-log", 0, "FILE", OPTION_TEXT, offsetof(type, source.router_log), "training log whose newest \"Router launched at\" line names the router"}, \
    {"fleet", 0, "NAME", OPTION_TEXT, offsetof(type, source.fleet), "[fleet NAME] of profd.conf"},                         \
    {"dialect", 0, "NAME", OPTION_TEXT, offsetof(type, source.dialect), "how the router lists its workers; default: auto, which tries all"}, \
    {"worker", 0, "URL", OPTION_LIST, offsetof(type, source.workers), "a worker, without or of a router (repeatable)"},    \
    {"unit", 0, "UNIT", OPTION_LIST, offsetof(type, source.units), "the workers of a systemd unit, or of all that a pattern fits: 'vllm@*.service' (repeatable)"}, \
    {"user-unit", 0, "UNIT", OPTION_LIST, offsetof(type, source.user_units), "the same for units of your own systemd (repeatable)"}

/* The same for what records. */
#define SOURCE_OPTIONS(type)                                                                                               \
    WORKER_OPTIONS(type),                                                                                                  \
    {"trace-dir", 0, "DIR", OPTION_TEXT, offsetof(type, source.trace_dir), "where, on profd's host, the workers write their traces"}
/* clang-format on */

/* Appends them to a path as a query, or puts them into a StartRequest. 0 or a problem. */
int source_to_query(struct client *c, const struct source *s, char **path, struct problem *p);
int source_to_json(struct client *c, const struct source *s, json_t *request, struct problem *p);
/* Where the workers come from, in words: "http://10.0.0.1:3521", "fleet big". The caller frees it. */
char *source_name(const struct source *s);
