/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the API share. A handler owes its request one reply, see http.h. */
#pragma once

#include "base/json.h"
#include "daemon/api/access.h"
#include "daemon/api/api.h"
#include "daemon/api/http.h"
#include "daemon/api/routes.h"
#include "daemon/fleet/fleet.h"

struct bus;
struct event_hub;

struct api {
    struct api_modules modules;
    struct http_server *server;
    struct access *access;      /* NULL before it is opened */
    struct event_hub *hub;      /* who listens to events */
    struct bus *bus;            /* NULL: not on any */
    struct http_counts *counts; /* of each route; behind them of what is none */
    struct http_durations durations[_ROUTE_CLASS_MAX];
    uint64_t requests;  /* so far, by HTTP and D-Bus */
    int64_t started_at; /* wall */
    char *socket;       /* NULL while there is none; with what it is on the disk */
    dev_t socket_device;
    ino_t socket_inode;
};

/* Who asks, for the audit log: "uid 1000 (anna)", "127.0.0.1". The caller frees it. */
char *request_actor(const struct http_request *r);

/* Replies to an error of the catalog or the store. -ENOENT is "no such" id. */
void reply_missing(struct http_request *r, char kind, int64_t id);
void reply_error(struct api *api, struct http_request *r, int err, const char *doing);
/* Sets and replies a problem in one go. */
void reply_refused(struct http_request *r, enum problem_kind kind, const char *remedy, const char *format,
                   ...) _printf_(4, 5);
/* A problem with a status of its own (0: its kind's), or with one more member (NULL: none). */
void reply_problem(struct http_request *r, int status, const struct problem *p, const char *member,
                   const json_t *value);

/* Parameters of the query: fallback where absent, -EINVAL with the problem where wrong. */
int query_number(const struct http_request *r, const char *name, int64_t min, int64_t max, int64_t *ret,
                 struct problem *p);
int query_bool(const struct http_request *r, const char *name, bool *ret, struct problem *p);
int query_ref(const struct http_request *r, const char *name, char kind, int64_t *ret, struct problem *p);
/* The body as a JSON object. The caller drops it. */
int body_object(const struct http_request *r, json_t **ret, struct problem *p);

#define LIST_LIMIT_DEFAULT 50
#define LIST_LIMIT_MAX     1000

/* source.c: which fleet is meant. */
int source_from_query(const struct http_request *r, struct fleet_query *ret, struct problem *p);
/* Where nothing is named: the one configured fleet, else the router that a session used last. */
int source_complete(struct api *api, struct fleet_query *q, struct problem *p);

/* discovering.c: one discovery for one request, ended when the client leaves. done() owes the reply. */
void discover_for(struct api *api, struct http_request *r,
                  void (*done)(struct api *api, struct http_request *r, struct fleet *fleet,
                               const struct problem *p));

/* route_traces.c: one trace, with what was read out of it. */
void reply_trace(struct api *api, struct http_request *r, int status, int64_t id);

/* route_store.c */
json_t *usage_to_json(const struct store_usage *u);

/* route_events.c */
struct event_hub *event_hub_new(struct api *api);
/* Ends the streams of those who may not listen any more. */
void event_hub_recheck(struct event_hub *h);
void event_hub_close(struct event_hub *h);
struct event_hub *event_hub_free(struct event_hub *h);

/* Handlers, by file. */
void get_health(struct api *api, struct http_request *r, int64_t id);
void get_readiness(struct api *api, struct http_request *r, int64_t id);
void get_metrics(struct api *api, struct http_request *r, int64_t id);
void get_version(struct api *api, struct http_request *r, int64_t id);

void get_workers(struct api *api, struct http_request *r, int64_t id);
void get_routers(struct api *api, struct http_request *r, int64_t id);
void get_doctor(struct api *api, struct http_request *r, int64_t id);

void list_sessions(struct api *api, struct http_request *r, int64_t id);
void start_session(struct api *api, struct http_request *r, int64_t id);
void get_session(struct api *api, struct http_request *r, int64_t id);
void remove_session(struct api *api, struct http_request *r, int64_t id);
void stop_session(struct api *api, struct http_request *r, int64_t id);
void pin_session(struct api *api, struct http_request *r, int64_t id);
void unpin_session(struct api *api, struct http_request *r, int64_t id);

void get_functions(struct api *api, struct http_request *r, int64_t id);
void get_session_functions(struct api *api, struct http_request *r, int64_t id);

void list_traces(struct api *api, struct http_request *r, int64_t id);
void get_trace(struct api *api, struct http_request *r, int64_t id);
void remove_trace(struct api *api, struct http_request *r, int64_t id);
void import_trace(struct api *api, struct http_request *r, int64_t id);
void get_trace_file(struct api *api, struct http_request *r, int64_t id);
void get_trace_columns(struct api *api, struct http_request *r, int64_t id);
void pin_trace(struct api *api, struct http_request *r, int64_t id);
void unpin_trace(struct api *api, struct http_request *r, int64_t id);

void list_runs(struct api *api, struct http_request *r, int64_t id);
void start_run(struct api *api, struct http_request *r, int64_t id);
void get_run(struct api *api, struct http_request *r, int64_t id);
void remove_run(struct api *api, struct http_request *r, int64_t id);
void stop_run(struct api *api, struct http_request *r, int64_t id);
void get_requests(struct api *api, struct http_request *r, int64_t id);

void get_usage(struct api *api, struct http_request *r, int64_t id);
void vacuum_store(struct api *api, struct http_request *r, int64_t id);

void get_events(struct api *api, struct http_request *r, int64_t id);
