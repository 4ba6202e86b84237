/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of the fault worker: a fleet of workers with one engine, their faults and journals, and a
 * router that lists them. One process, one thread; the fleet owns everything below it.
 *
 *   fault-worker.c   the command line
 *   fault-fleet.c    the fleet's life, a worker's dispatch, journal and /fault
 *   fault-vllm.c     an engine each: routes, texts, file names
 *   fault-sglang.c
 *   fault-rtp.c
 *   fault-dynamo.c
 *   fault-profile.c  starts and stops, whatever the engine
 *   fault-trace.c    the bytes of traces
 *   fault-router.c   the router's port
 */
#pragma once

#include "proto/names.h"
#include "tests/fleet/fault-http.h"
#include "tests/fleet/fault-table.h"
#include <jansson.h>
#include <sys/queue.h>

struct fleet;
struct later;
struct worker;

/* What one start asked for, and so where a stop writes what. */
struct recording {
    char *dir;
    char *profile_id;     /* vLLM has none */
    bool first_rank_only; /* RTP-LLM's */
    char *prefix;         /* the rest is SGLang's */
    bool by_stage;
    int64_t began_ns; /* wall */
    int64_t since_ns; /* monotonic */
};

struct journal_entry {
    char *path;
    char *body;
    int64_t at_ns; /* wall */
};

#define JOURNAL_MAX      256 /* the latest entries of a worker */
#define JOURNAL_BODY_MAX 4096

struct worker {
    struct fleet *fleet;
    unsigned index;
    char *dir;
    enum role role;
    struct http_port *port;
    struct fault_set faults;
    bool dead;                   /* crashed: its port stays closed */
    struct recording *recording; /* NULL where the profiler does not run */
    unsigned n_starts, n_stops;  /* requests that arrived */
    unsigned n_failed_stops;     /* by FAULT_STOP_ERROR_IN_BODY */
    unsigned n_recordings;       /* starts that took effect */
    int64_t longest_ns;          /* recording, of those that ended since it was told */
    unsigned n_flushes;          /* under way: the engine writes traces and makes no steps */
    int64_t busy_until_ns;       /* monotonic: until when, as far as it is known */
    double iterations;           /* of the engine, up to iterations_at_ns */
    int64_t iterations_at_ns;    /* monotonic */
    struct event *auto_stop;
    struct journal_entry *journal;
    size_t n_journal, cap_journal;
};

/* One path of an engine's HTTP server. */
struct route {
    const char *path;
    const char *methods; /* "GET", "POST", or "GET POST" */
    void (*handle)(struct worker *w, struct http_conn *c, const struct http_request *q);
};

struct engine_ops {
    const char *name;
    const struct route *routes;
    size_t n_routes;
    const char *type; /* of the answers below */
    const char *started, *stopped, *failed, *not_found;
    /* Answers what no route has; NULL: not_found. */
    void (*missing)(struct worker *w, struct http_conn *c, const struct http_request *q);
    const char *component; /* Dynamo's name of a worker that does more than prefill */
    /* The name of a rank's trace, without a suffix; stage may be NULL, copy sets the second of two apart. */
    char *(*trace_name)(struct fleet *f, const struct recording *r, unsigned rank, const char *stage,
                        bool copy);
    const char *trace_suffix; /* of plain JSON; ".gz" follows it where compressed */
    bool plain_traces;        /* they are not compressed */
    bool health_waits;        /* /health is answered by the engine, so not while it writes traces */
};

extern const struct engine_ops vllm_engine, sglang_engine, rtp_llm_engine, dynamo_engine, dynamo_vllm_engine,
    dynamo_trtllm_engine;

enum router_dialect {
    ROUTER_VLLM,
    ROUTER_SGLANG,
    ROUTER_DYNAMO, /* a frontend */
    ROUTER_DYNAMO_RL,
    ROUTER_DYNAMO_NATS,
};

struct router_fault_info;

struct fleet {
    struct event_base *base;
    const struct engine_ops *engine;
    enum router_dialect router_dialect;
    bool shared_dir;
    char *dir;
    unsigned n_ranks, n_nodes;
    const char *meet;
    char *template; /* the bytes of --trace, or NULL */
    size_t template_size;
    struct worker *workers;
    unsigned n_workers;
    struct http_port *router;
    struct http_port *control; /* the API of the tests again, also while the router does not listen */
    const struct router_fault_info *router_fault; /* NULL: none */
    unsigned n_redirected;                        /* requests that followed a redirect */
    int64_t last_stamp_ns;
    LIST_HEAD(, later) laters;
};

struct fleet_options {
    const struct engine_ops *engine;
    const char *dir;
    const char *trace;
    struct in_addr address; /* of all ports */
    enum router_dialect router_dialect;
    bool shared_dir;
    unsigned n_workers, n_ranks, n_prefill, n_decode;
    unsigned n_nodes; /* each with n_ranks, of which the first has the server */
    const char *meet; /* where they meet: "HOST:PORT" */
};

/* -EMFILE where the workers need more descriptors than the process may have. */
int fleet_new(struct event_base *base, const struct fleet_options *o, struct fleet **ret);
struct fleet *fleet_free(struct fleet *f);
DEFINE_CLEANUP(struct fleet *, fleet_free)
char *worker_url(const struct worker *w);
/* Applies one fault to the workers that it names. */
int fleet_add_fault(struct fleet *f, const struct fault_spec *spec);
/* {"fault":NAME,"arg":...,"workers":INDEXES}; indexes given here come before those of the body. */
int fleet_change_faults(struct fleet *f, const char *indexes, const struct http_request *q);
/* Increasing and near wall time: names that carry it are unique in the process. */
int64_t fleet_stamp_ns(struct fleet *f);

static inline bool worker_has(const struct worker *w, enum fault f)
{
    return fault_set_has(&w->faults, f);
}

/* An answer as the worker's faults let it be. type may be NULL. */
void worker_answer(struct worker *w, struct http_conn *c, int status, const char *type, const char *text);
/* Takes the reference. */
void worker_answer_json(struct worker *w, struct http_conn *c, json_t *body);
/* Answers as a router's port does: no worker's faults apply. Takes the reference. */
void plain_answer_json(struct http_conn *c, int status, json_t *body);
json_t *worker_journal(const struct worker *w);
/* How many steps the engine has made. Called before whatever changes its pace. */
double worker_iterations(struct worker *w);
double worker_busy_seconds(const struct worker *w);
/* Closes the worker's port for good. */
void worker_die(struct worker *w);
void worker_health(struct worker *w, struct http_conn *c, const struct http_request *q);

typedef void (*later_fn)(struct worker *w, struct http_conn *c, void *arg);
/*
 * Runs fn once after the delay, also where the client has gone by then: c is NULL then, as it is where none
 * was given. drop (may be NULL) frees arg where the fleet ends first.
 */
void later(struct worker *w, struct http_conn *c, double seconds, later_fn fn, void *arg,
           void (*drop)(void *arg));

/* Runs fn once the fault is taken away, at once where the worker does not have it; else as later(). (fault-hold.c) */
void hold(struct worker *w, struct http_conn *c, enum fault fault, later_fn fn, void *arg,
          void (*drop)(void *arg));

/* Begins to record and answers. Takes the recording. */
void profile_start(struct worker *w, struct http_conn *c, struct recording *r);
/* Ends the recording, writes its traces and answers. Where nothing is recorded, it is answered with
 * idle_status. */
void profile_stop(struct worker *w, struct http_conn *c, int idle_status);
/* Ends the recording by itself after that long. */
void profile_stop_after(struct worker *w, double seconds);
struct recording *recording_free(struct recording *r);

void control_handle(struct http_conn *c, const struct http_request *q, void *fleet);
void router_handle(struct http_conn *c, const struct http_request *q, void *fleet);
void dynamo_frontend_health(struct fleet *f, struct http_conn *c, const struct http_request *q);
void dynamo_frontend_workers(struct fleet *f, struct http_conn *c, const struct http_request *q);
/* NULL takes the fault away; -EINVAL for an unknown name. */
int router_set_fault(struct fleet *f, const char *name);
void router_fault_table_print(FILE *out);
