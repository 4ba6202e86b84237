/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all handlers of requests: the API object, parameters and bodies as values, problems as replies, the
 * fleet that a request names. A handler replies to each request once, see http.h.
 */
#pragma once

#include "base/json.h"
#include "daemon/api/access.h"
#include "daemon/api/api.h"
#include "daemon/api/catalog_reads.h"
#include "daemon/api/http.h"
#include "daemon/api/remote_kept.h"
#include "daemon/api/remote_room.h"
#include "daemon/api/routes.h"
#include "daemon/catalog/listing.h"
#include "daemon/fleet/fleet.h"

struct bus;
struct event_hub;
struct fleet_streams;
struct peer_traces;

struct api {
    struct api_modules modules;
    struct http_server *server;
    struct access *access; /* NULL before it is opened */
    struct event_hub *hub; /* event streams */
    struct fleet_streams *fleet_streams;
    struct bus *bus;            /* NULL: none */
    struct http_counts *counts; /* of each route; after them, of requests without one */
    struct http_durations durations[_ROUTE_CLASS_MAX];
    uint64_t requests;               /* so far, by HTTP and D-Bus */
    struct peer_traces *peer_traces; /* what was asked of other hosts about their traces */
    struct remote_room remote_room;  /* that copies of other hosts' traces take of the disk */
    struct remote_kept remote_kept;  /* of them, those from the archive that may be read again */
    struct catalog_reads catalog_reads;
    int64_t started_at; /* wall */
    char *socket;       /* NULL while there is none; with its device and inode */
    dev_t socket_device;
    ino_t socket_inode;
    gid_t socket_gid; /* whom the socket's mode admits, (gid_t)-1 unknown */
};

/* api.c: finds the handler of an admitted request by its target, and has it reply. */
void api_dispatch(struct api *api, struct http_request *r);
/* api.c: ends the streams of clients that are no longer permitted. */
void api_recheck_streams(struct api *api);

/* The client, for the audit log: "uid 1000 (anna)", "127.0.0.1". The caller frees it. */
char *request_actor(const struct http_request *r);

/* The reply to an error of the catalog or the store, "cannot DOING: WHY". */
void reply_error(struct api *api, struct http_request *r, int err, const char *doing, ...) _printf_(4, 5);
/* The noun of a kind of ids: "session", "trace", "run" for 's', 't', 'r'. */
const char *record_noun(char kind);
/* "there is no session s7" */
void reply_missing(struct http_request *r, char kind, int64_t id);
/* Replies to err of a call about one session, trace or run: -ENOENT as reply_missing(), others as "cannot DOING
 * session s7: WHY". False, without a reply, where err is none. */
bool reply_failure(struct api *api, struct http_request *r, int err, char kind, int64_t id,
                   const char *doing);
/* Sets and replies a problem in one call. */
void reply_refused(struct http_request *r, enum problem_kind kind, const char *remedy, const char *format,
                   ...) _printf_(4, 5);
/* A problem with a status of its own (0: its kind's), or with one more member (NULL: none). */
void reply_problem(struct http_request *r, int status, const struct problem *p, const char *member,
                   const json_t *value);
/* The problem of a computation; with Retry-After where it may succeed soon (429). */
void reply_computation_problem(struct http_request *r, const struct problem *p);
/* {name: take_list} */
void reply_list(struct http_request *r, const char *name, json_t *take_list);

/* A reply that another module completes later. A client that leaves does not stop that module's work, unless
 * cancel is set: then it is called with the work, which does not end the reply any more. */
struct later_reply {
    struct api *api;
    struct http_request *request; /* NULL: the client left */
    struct route_match match;
    void (*cancel)(void *work);
    void *work;
};
struct later_reply *later_reply_new(struct api *api, struct http_request *r, const struct route_match *match);
/* Ends and frees arg, copying it to *ret. False where the client left: then no reply is due. */
bool later_reply_end(void *arg, struct later_reply *ret);

/* Parameters of the query: *ret stays where absent; -EINVAL with the problem where wrong. */
int query_number(const struct http_request *r, const char *name, int64_t min, int64_t max, int64_t *ret,
                 struct problem *p);
int query_bool(const struct http_request *r, const char *name, bool *ret, struct problem *p);
int query_ref(struct catalog *c, const struct http_request *r, const char *name, char kind, int64_t *ret,
              struct problem *p);
/* route_refs.c: the id of a session, trace, run or lease (kind) that word names: "s7", "7", or a UUID or its beginning, if it
 * stands for one only. -EINVAL, -ENOENT or -ENOTUNIQ with the problem, which names the candidates. */
int ref_find(struct catalog *c, const char *word, char kind, int64_t *ret, struct problem *p);
/* Replaces the UUID of a path by the id that it stands for; errors as above. */
int route_resolve(struct catalog *c, struct route_match *match, struct problem *p);
/* The body as a JSON object. The caller drops it. */
int body_object(const struct http_request *r, json_t **ret, struct problem *p);

#define LIST_LIMIT_DEFAULT 50
#define LIST_LIMIT_MAX     1000

/*
 * Whose processes the author of a request may record on demand (docs/security.md). On the Unix socket, which its mode
 * opens to members of its group only, and with a token of an administrator: everybody's. On the bus: root and profd's
 * user everybody's, others their own. Otherwise nobody's.
 */
void request_take_author(const struct http_request *r, struct process_query *q);

/* What a request names of a fleet, and its author; nothing where it names none. */
int request_fleet_query(const struct http_request *r, struct fleet_query *ret, struct problem *p);
/* Where nothing is named: the one configured fleet, else the router that a session used last. -EDESTADDRREQ: neither. */
int source_complete(struct api *api, struct fleet_query *q, struct problem *p);

/* One discovery for one request, cancelled when the client leaves. done() replies; unnamed() does in its place where the
 * request names no workers and none are known, NULL: that is an error. */
void discover_for(struct api *api, struct http_request *r,
                  void (*done)(struct api *api, struct http_request *r, struct fleet *fleet,
                               const struct problem *p),
                  void (*unnamed)(struct api *api, struct http_request *r, const struct problem *p));

/* A check of readiness: 0, or why profd cannot do its work (route_health.c). */
struct ready_check {
    const char *name;
    int (*run)(struct api *api, struct problem *p);
};
extern const struct ready_check ready_checks[]; /* ends with an empty one */
int ready_check_store(struct api *api, struct problem *p);

/* route_hosts.c: what is wrong with peers and their clocks, after a survey of them. */
struct checks;
void hosts_check(struct api *api, struct checks *c);

/* route_store.c */
json_t *usage_to_json(const struct store_usage *u);

/* route_archive.c */
struct trace_record;
/* If only the archive has the trace's file (and with `columns`, there are none of it): fetches it, then calls the handler again
 * for the same request, or replies with a problem. False, and nothing is done, where it needs no fetching. */
bool trace_fetch_then(struct api *api, struct http_request *r, const struct route_match *match,
                      const struct trace_record *t, bool columns,
                      void (*handler)(struct api *api, struct http_request *r,
                                      const struct route_match *match));
/* Checks of the doctor; done() runs later, once. */
struct checks;
void archive_check_add(struct api *api, struct checks *c, void (*done)(void *arg), void *arg);
/* route_reports.c: 0 with a record that has columns; -EREMOTE with that of a trace on another host; else the reply was given, or
 * the handler is called again when the archive gave the file. */
struct remote_trace_record;
int trace_find_columns(struct api *api, struct http_request *r, const struct route_match *match,
                       void (*handler)(struct api *api, struct http_request *r,
                                       const struct route_match *match),
                       struct trace_record *ret, struct remote_trace_record *ret_remote);
/* route_mirror.c */
void doctor_check_mirror(struct api *api, struct checks *c);

/* route_leases.c */
struct lease_holder;
/* {"session": UUID, "host": of its coordinator, "until_at"} */
json_t *lease_holder_to_json(const struct lease_holder *h);
/* What the doctor finds about leases. */
void doctor_check_leases(struct api *api, struct checks *c);

/* route_remote.c: the reply is the file of a trace that another host keeps; what: "file" or "columns". */
struct remote_trace_record;
void remote_download_start(struct api *api, struct http_request *r, const struct route_match *match,
                           const struct remote_trace_record *t, const char *what);

/* route_traces.c: of a trace that another host keeps: only that host changes it. False, without a reply, where there is none. */
bool trace_refuse_remote(struct api *api, struct http_request *r, int64_t id);

/* trace_json.c: the JSON of a trace of this host, of one that another host keeps, and of a row of either; errors of the catalog. */
json_t *own_trace_to_json(struct api *api, const struct trace_record *t);
int remote_trace_to_json(struct api *api, const struct remote_trace_record *t, json_t **ret);
int trace_read_json(struct api *api, int64_t id, json_t **ret);

/*
 * elsewhere.c: what only other hosts know. True where their profds are asked first: the request is dispatched again when they have
 * answered. False, and nothing is done: they were asked, or need not be. Never for the profd of another host.
 */
bool elsewhere_ask_session(struct api *api, struct http_request *r, const struct route_match *match,
                           int64_t session_id);
bool elsewhere_ask_ref(struct api *api, struct http_request *r, const struct route_match *match,
                       const char *word);
/* "missing_hosts" of a list of a session's traces, where hosts were asked for them. */
void elsewhere_put_missing(struct api *api, int64_t session_id, json_t *body);
/* Of a UUID that was found nowhere: where it is instead, and which hosts did not answer. */
void elsewhere_explain(struct api *api, const char *word, struct problem *p);

/* route_lists.c: replies to a list that is searched, sorted or paged by position. False, and nothing is done: it is none. */
bool list_searched(struct api *api, struct http_request *r, const struct route_match *match,
                   enum listing_kind kind);

/* route_events.c */
struct event_hub *event_hub_new(struct api *api);
/* Ends the streams of clients that are no longer permitted. */
void event_hub_recheck(struct event_hub *h);
void event_hub_close(struct event_hub *h);
struct event_hub *event_hub_free(struct event_hub *h);

/* route_fleet_events.c */
struct fleet_streams *fleet_streams_new(struct api *api);
/* As event_hub_recheck(). */
void fleet_streams_recheck(struct fleet_streams *s);
/* After the last stream has left. */
struct fleet_streams *fleet_streams_free(struct fleet_streams *s);

/* Handlers, by file. */
#define ROUTE_HANDLER(name)                                                                                  \
    void name(struct api *api, struct http_request *r, const struct route_match *match)
ROUTE_HANDLER(get_health);
ROUTE_HANDLER(get_readiness);
ROUTE_HANDLER(get_version);

ROUTE_HANDLER(get_metrics);

ROUTE_HANDLER(get_mirror);

ROUTE_HANDLER(get_workers);
ROUTE_HANDLER(get_routers);
ROUTE_HANDLER(get_doctor);
ROUTE_HANDLER(get_fleet_events);

/* Of the route's kind of job. */
ROUTE_HANDLER(list_jobs);
ROUTE_HANDLER(start_job);
ROUTE_HANDLER(get_job);
ROUTE_HANDLER(stop_job);
ROUTE_HANDLER(remove_job);
ROUTE_HANDLER(set_session_pin);
extern const struct job_routes session_routes, run_routes;

ROUTE_HANDLER(set_labels);

ROUTE_HANDLER(get_ref);

ROUTE_HANDLER(get_requests);

ROUTE_HANDLER(list_traces);
ROUTE_HANDLER(get_trace);
ROUTE_HANDLER(remove_trace);
ROUTE_HANDLER(import_trace);
ROUTE_HANDLER(get_trace_file);
ROUTE_HANDLER(get_trace_columns);
ROUTE_HANDLER(set_trace_pin);

ROUTE_HANDLER(get_timeline);
ROUTE_HANDLER(get_timeline_steps);
ROUTE_HANDLER(get_timeline_names);
ROUTE_HANDLER(get_timeline_tile);
ROUTE_HANDLER(get_timeline_counter);
ROUTE_HANDLER(get_timeline_slice);
ROUTE_HANDLER(search_timeline);
ROUTE_HANDLER(get_timeline_selection);

ROUTE_HANDLER(get_trace_report);
ROUTE_HANDLER(query_trace);
ROUTE_HANDLER(make_reports);

ROUTE_HANDLER(get_trace_flame);
ROUTE_HANDLER(make_flame);
ROUTE_HANDLER(export_trace_window);
ROUTE_HANDLER(compare_sides);
/* route_compare_runs.c: of a body that names runs. */
void compare_runs(struct api *api, struct http_request *r, const struct route_match *match,
                  const json_t *body);

ROUTE_HANDLER(get_usage);
ROUTE_HANDLER(vacuum_store);

ROUTE_HANDLER(get_archive);
ROUTE_HANDLER(restore_archive);
ROUTE_HANDLER(fetch_trace);

ROUTE_HANDLER(get_events);

ROUTE_HANDLER(grant_lease);
ROUTE_HANDLER(find_lease);
ROUTE_HANDLER(poll_lease);
ROUTE_HANDLER(prepare_lease);
ROUTE_HANDLER(start_lease);
ROUTE_HANDLER(renew_lease);
ROUTE_HANDLER(stop_lease);
ROUTE_HANDLER(release_lease);

ROUTE_HANDLER(list_hosts);
ROUTE_HANDLER(get_host);
ROUTE_HANDLER(get_host_clock);
ROUTE_HANDLER(get_host_workers);

ROUTE_HANDLER(get_web_page);
ROUTE_HANDLER(get_web_asset);
ROUTE_HANDLER(create_web_code);
ROUTE_HANDLER(create_web_login);
ROUTE_HANDLER(remove_web_login);
ROUTE_HANDLER(get_web_user);
ROUTE_HANDLER(create_ticket);
ROUTE_HANDLER(get_ticket);
