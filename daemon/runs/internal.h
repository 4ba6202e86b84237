/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this module: the runs object, a run, and the steps of its lifecycle. */
#pragma once

#include "daemon/runs/child.h"
#include "daemon/runs/line.h"
#include "daemon/runs/runs.h"

struct benchmark_run {
    struct live_job job; /* first: struct live_job is cast to this */
    struct runs *all;
    struct run_record record;
    char *load_spec; /* for profd-load, until it has it */
    int64_t drain_ns;
    json_t *notes, *warmed;
    json_t *live;    /* the latest figures that the child sent */
    json_t *summary; /* sent by the child at its end; NULL: not yet */
    struct load_child *child;
    struct event *timer;                  /* of its limit, then of its end, then of saving it again */
    bool loads;                           /* the command to start sending was given */
    char *stopped_by;                     /* who stopped it; NULL: nobody */
    bool lasted;                          /* it was to last until its session had recorded, and did */
    int64_t n_kept, n_dropped, n_unsaved; /* requests, by what became of their rows */
    int64_t n_in_batch;                   /* rows of the commit batch in progress */
};

struct runs {
    struct jobs jobs; /* first: struct jobs is cast to this */
    struct runs_modules modules;
    char *program;
    struct runs_metrics metrics;
};

extern const struct job_ops run_job_ops;

/* -- create.c: before it begins -- */

/* Arrays of {url, engine, pid}, as the specification for profd-load has them. */
struct load_plan {
    json_t *targets;
    json_t *warm;
    json_t *workers;
    char *first; /* URL of a worker, or of the router: whose credentials are shown */
};

/*
 * The fleet's workers that a run is about: those of the request's role, URLs and count that are healthy.
 * Indexes into fleet->workers; the caller frees them. -EINVAL with a problem where there is none.
 */
int run_choose(const struct fleet *fleet, const struct job_request *request, size_t **ret, size_t *ret_n,
               struct problem *p);
/* -EINVAL with a problem where they cannot be sent requests as the request wants it. */
int load_plan_make(const struct fleet *fleet, const struct job_request *request, const size_t *chosen,
                   size_t n_chosen, struct load_plan *ret, struct problem *p);
void load_plan_done(struct load_plan *plan);

int run_check(struct runs *all, const struct job_request *request, const struct fleet *fleet,
              const size_t *chosen, size_t n_chosen, struct problem *p);
/* Writes the row and keeps the job; run_check() was asked before. NULL with *ret_err where the catalog
 * cannot take it. */
struct benchmark_run *run_create(struct runs *all, const struct job_request *request,
                                 const struct fleet *fleet, const size_t *chosen, size_t n_chosen,
                                 const char *actor, int64_t session_id, int *ret_err);

/* life.c: from the start of profd-load to the last state. */
void run_begin(struct benchmark_run *run);
void run_go(struct benchmark_run *run);
void run_stop(struct benchmark_run *run, const char *actor);
/* Ends it as it is, at once; its child with it. */
void run_cut(struct benchmark_run *run, const char *remedy, const char *reason);
void run_explain(struct benchmark_run *run, const char *remedy, const char *format, ...) _printf_(3, 4);
void run_note(struct benchmark_run *run, const char *text, const char *remedy);
void run_change_state(struct benchmark_run *run, enum run_state to);
/* Adds the event of its current state. */
void run_report_state(struct benchmark_run *run);

/* Its row in the catalog. */
void run_save(struct benchmark_run *run);

/* runs.c */
void run_stop_by(struct live_job *job, const char *actor);
int run_read(struct jobs *jobs, int64_t id, bool full, json_t **ret);
struct benchmark_run *runs_find(struct runs *all, int64_t run_id);
struct benchmark_run *run_alloc(struct runs *all);
void benchmark_run_free(struct benchmark_run *run);
void run_timer(struct benchmark_run *run, int64_t duration_ns,
               void (*fn)(evutil_socket_t fd, short what, void *arg));
