/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which workers a verb is about: the options that list-workers, start, doctor and bench share, and their form
 * in a request to profd.
 *
 * A training log and files of targets are read here, and systemd units are resolved here: profd gets URLs and lists.
 */
#pragma once

#include "client/cli/client.h"
#include "client/local/process_options.h"
#include "proto/sources.h"

#define SOURCE_OPTION_FIELD(key, value, help, arg)                       const char *key;
#define SOURCE_MEMBER_OPTION_FIELD(member, option, value, help, of, arg) const char *member;

struct source {
    const char *router, *router_log, *fleet, *dialect, *trace_dir;
    FLEET_SOURCES(SOURCE_OPTION_FIELD, )
    SOURCE_MEMBERS(SOURCE_MEMBER_OPTION_FIELD, )
    int64_t system_port;
    struct option_list workers, units, user_units;
    struct process_options processes;
};

/* Lines of an option table; type has a member `struct source source`. */
/* clang-format off */
#define SOURCE_OPTION(key, value, help, type) \
    {#key, 0, value, OPTION_TEXT, offsetof(type, source.key), help},
#define SOURCE_MEMBER_OPTION(member, option, value, help, of, type) \
    {option, 0, value, OPTION_TEXT, offsetof(type, source.member), help},
#define WORKER_OPTIONS(type) \
    OPTION_GROUP("Workers"), \
    {"router", 0, "URL", OPTION_TEXT, offsetof(type, source.router), "Router of the workers (default: $PROFD_ROUTER, else the only configured fleet, else the router used last)"}, \
    {"worker", 0, "URL", OPTION_LIST, offsetof(type, source.workers), "Worker; with --router, only this one of its workers (repeatable)"}, \
    {"fleet", 0, "NAME", OPTION_TEXT, offsetof(type, source.fleet), "Section [fleet NAME] of profd.conf"}, \
    {"unit", 0, "UNIT", OPTION_LIST, offsetof(type, source.units), "Workers of a systemd unit, or of units matching a pattern: 'vllm@*.service' (repeatable)"}, \
    {"user-unit", 0, "UNIT", OPTION_LIST, offsetof(type, source.user_units), "Workers of a unit of your own systemd (repeatable)"}, \
    {"router-log", 0, "FILE", OPTION_TEXT, offsetof(type, source.router_log), "Training log; its newest line \"Router launched at\" names the router"}, \
    FLEET_SOURCES(SOURCE_OPTION, type) \
    SOURCE_MEMBERS(SOURCE_MEMBER_OPTION, type) \
    {"dialect", 0, "NAME", OPTION_TEXT, offsetof(type, source.dialect), "Protocol by which the router lists workers (default: auto)"}, \
    {"system-port", 0, "PORT", OPTION_COUNT, offsetof(type, source.system_port), "DYN_SYSTEM_PORT of the workers of a Dynamo frontend"}

/* The same for verbs that record. */
#define SOURCE_OPTIONS(type) \
    WORKER_OPTIONS(type), \
    {"trace-dir", 0, "DIR", OPTION_TEXT, offsetof(type, source.trace_dir), "Directory on profd's host to which the workers write traces"}

/* Options that select from these workers, and the destination of a load; type has the members role, count and
 * through. */
#define SELECTION_OPTIONS(type) \
    {"role", 0, "ROLE", OPTION_TEXT, offsetof(type, role), "Only workers of this role: prefill, decode, encode, regular", "role"}, \
    {"count", 0, "N", OPTION_COUNT, offsetof(type, count), "Maximum number of workers: the first N", "count"}
#define THROUGH_OPTION(type) \
    {"through", 0, "WHERE", OPTION_TEXT, offsetof(type, through), "Where to send requests: router (default, if there is one) or workers, to each directly"}
/* clang-format on */

/* --through, which may be NULL: 0 or the problem. */
int through_check(const char *through, struct problem *p);

/* Adds the workers to a path as a query, or to a StartRequest. 0 or a problem. */
int source_to_query(struct client *c, const struct source *s, char **path, struct problem *p);
int source_to_json(struct client *c, const struct source *s, json_t *request, struct problem *p);
/* GET of a resource about the workers; the same as a POST where they are too many for a query. As client_get(). */
int source_get(struct client *c, const struct source *s, const char *resource, const char *doing,
               json_t **ret);
/* Whether any option names workers that are servers. */
bool source_names_servers(const struct source *s);
/* Whether any option names workers. */
bool source_is_named(const struct source *s);
/* For messages: "http://10.0.0.1:3521", "fleet big", "2 workers". The caller frees it. */
char *source_name(const struct source *s);
