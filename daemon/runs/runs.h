/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All benchmark runs that are not over, and the operations on them that the APIs offer.
 *
 * The runs object owns every run and its child, profd-load (proto/load.h), which sends the requests and
 * measures them. A run exists here from its request to its last state transition; afterwards it is only in
 * the catalog. Everything that the child sends is validated first. A run that is cut short keeps its results
 * so far.
 */
#pragma once

#include "daemon/catalog/records.h"
#include "daemon/fleet/fleet.h"
#include "daemon/fleet/network.h"
#include "daemon/session/sessions.h"

struct runs;

struct load_settings {
    int64_t runs_max;     /* at a time */
    int64_t requests_max; /* of one run, that are kept */
    int64_t memory_max;   /* of profd-load */
    int64_t run_limit_ns; /* a run never lasts longer */
};

struct runs_modules {
    struct event_base *base;
    struct catalog *catalog;
    struct fleet_finder *finder;
    struct sessions *sessions;
    const struct fleet_settings *fleet_settings;
    const struct network_policy *network;
    const struct load_settings *settings;
    const char *program; /* profd-load */
};

/* Copies the modules, borrows what they point to but the program's path. */
int runs_new(const struct runs_modules *modules, struct runs **ret);
/* What a profd before left unfinished has ended with it. */
int runs_recover(struct runs *all);
/* Ends what is still there at once, with what it has. Before catalog_close(). */
void runs_close(struct runs *all);
struct runs *runs_free(struct runs *all);

/* What sessions ask for (daemon/session/sessions.h); its argument is the runs object. */
extern const struct loader_ops runs_loader;

/* For job_create(), and for all that runs have in common with sessions. */
struct jobs *runs_jobs(struct runs *all);
/* -ENOENT; -EINPROGRESS: it is not over. */
int runs_remove(struct runs *all, int64_t run_id, const char *actor);
/* Replaces the states in the catalog's list of runs by those that runs are in, which it may not have been able to
 * store. */
void runs_describe_list(struct runs *all, json_t *list);
/* Labels of a run were changed in the catalog: one that is not over keeps them when it is saved. */
void runs_take_labels(struct runs *all, int64_t run_id, const char *labels);

/* For profd's operator. */
struct runs_metrics {
    uint64_t running;
    uint64_t ended[_RUN_STATE_MAX];
    uint64_t requests[3]; /* success, incomplete, error */
    uint64_t unsaved;     /* requests that the catalog could not take */
};
void runs_metrics(const struct runs *all, struct runs_metrics *ret);

DEFINE_CLEANUP(struct runs *, runs_free)
