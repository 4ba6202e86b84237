/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is there: from a router's URL, a static list or another source to a fleet of identified workers.
 *
 * Discovery has no side effects on a worker: it asks only GET endpoints that are known to be read-only. It
 * runs on the event loop; what may block (/proc, files) runs on the offload's threads.
 */
#pragma once

#include "base/offload.h"
#include "base/problem.h"
#include "daemon/fleet/call.h"
#include "daemon/fleet/process_query.h"
#include "daemon/fleet/source.h"
#include "daemon/fleet/worker.h"

#define FLEET_WORKERS_MAX_DEFAULT 10000

struct path_map {
    char *from, *to; /* a container's prefix and the host's */
};

/* A [fleet NAME] section of profd.conf. */
struct fleet_config {
    char *name;
    char *router;     /* URL; or */
    char *router_log; /* a training log that names it; or */
    char **workers;   /* a static list */
    size_t n_workers, cap_workers;
    struct source_config by; /* or a source of its table */
    char *dialect;           /* NULL: auto */
    int64_t system_port;     /* of the system status servers of a Dynamo frontend's workers; 0: not set */
    char *trace_dir, *output_dir;
    struct path_map *maps;
    size_t n_maps, cap_maps;
    struct call_credentials credentials;
};

/* A [worker URL] section. */
struct worker_config {
    char *url;
    char *trace_dir, *output_dir;
    enum role role;
    struct call_credentials credentials;
};

struct fleet_settings {
    struct fleet_config *fleets;
    size_t n_fleets, cap_fleets;
    struct worker_config *workers;
    size_t n_workers, cap_workers;
    int64_t connect_timeout_ns;  /* 3 s */
    int64_t identify_timeout_ns; /* of each identifying call, 5 s */
    size_t workers_max;
    int64_t response_memory_max; /* bytes for responses of routers and workers together, 64 MiB */
};
void fleet_settings_done(struct fleet_settings *s);
void fleet_settings_copy(const struct fleet_settings *s, struct fleet_settings *ret);

/* What a user asks for. All NULL: the one configured fleet. */
struct fleet_query {
    char *fleet;         /* name of a section */
    char *router;        /* URL */
    char *dialect;       /* NULL or "auto": try them all */
    int64_t system_port; /* as in struct fleet_config */
    char **workers;
    size_t n_workers;
    struct source_config by;        /* a source without a router */
    char *trace_dir;                /* overrides what is found, for all of them */
    struct process_query processes; /* in addition to the workers, or alone */
    bool here_only;                 /* other hosts are not asked about the workers */
};
/* Router, fleet and source exclude each other, and what belongs to a source needs one. -EINVAL with the problem. */
int fleet_query_check(const struct fleet_query *q, struct problem *p);
void fleet_query_done(struct fleet_query *q);
void fleet_query_copy(const struct fleet_query *q, struct fleet_query *ret);

struct fleet_finder;
struct discovery;

/* Borrows all arguments for its lifetime. The settings may be replaced between two iterations of the event
 * loop: a running discovery keeps the settings that it started with. */
int fleet_finder_new(struct event_base *base, struct caller *caller, struct offload *offload,
                     const struct fleet_settings *settings, struct fleet_finder **ret);
struct fleet_finder *fleet_finder_free(struct fleet_finder *f);
struct owner_ops;
/* Who knows the workers of other hosts; both are borrowed. NULL: nobody. */
void fleet_finder_set_owners(struct fleet_finder *f, const struct owner_ops *ops, void *arg);
struct kineto;
/* Where processes register; borrowed, NULL: nowhere. */
void fleet_finder_set_kineto(struct fleet_finder *f, const struct kineto *kineto);
/* Workers of this host in a recent discovery, the one with most of them; -1: there was none. */
int64_t fleet_local_workers(const struct fleet_finder *f);
/* How many calls of profd the network policy refused, a discovery's or a session's. */
uint64_t fleet_refused_calls(const struct fleet_finder *f);

/*
 * Copies q. done() comes later, once: with a fleet that it owns, or with NULL and the problem (borrowed). An
 * unknown dialect, fleet or malformed URL also arrives that way.
 */
struct discovery *fleet_discover(struct fleet_finder *f, const struct fleet_query *q,
                                 void (*done)(struct fleet *fleet, const struct problem *p, void *arg),
                                 void *arg);
void discovery_cancel(struct discovery *d);

/* The credentials and directories that profd.conf gives a worker: its own section first, then its fleet's
 * (may be NULL). */
const struct call_credentials *settings_credentials(const struct fleet_settings *s, const char *fleet_name,
                                                    const char *worker_url);
const struct fleet_config *settings_fleet(const struct fleet_settings *s, const char *name);
/* The section whose router this is (a normalised URL), or whose source. NULL: none. */
const struct fleet_config *settings_fleet_of_router(const struct fleet_settings *s, const char *router);
const struct fleet_config *settings_fleet_of_source(const struct fleet_settings *s,
                                                    const struct source_config *by);
/* A request names what it wants of a cluster; which cluster that is, and the credentials for it, profd.conf says: sets
 * them. -EINVAL with the problem where it has several. */
int settings_lend_cluster(const struct fleet_settings *s, struct source_config *by, struct problem *p);
const struct worker_config *settings_worker(const struct fleet_settings *s, const char *url);
