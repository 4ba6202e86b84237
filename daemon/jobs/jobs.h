/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sessions and benchmark runs have in common: a user's request becomes a row of the catalog, is stopped, and
 * ends before profd does. Each of the two is a description (struct job_ops) of this life cycle.
 *
 * Creation: limits are checked, the fleet is discovered, workers are chosen, asked where the kind needs that, and
 * checked again, the rows are written and committed; only then the requester is answered and the job begins.
 * Until the commit the requester may leave, and nothing remains.
 *
 * The object of the kind (struct sessions, struct runs) embeds struct jobs as its first member and owns its
 * jobs, each of which embeds struct live_job as its first member. Nothing in here calls a worker.
 */
#pragma once

#include "daemon/catalog/catalog.h"
#include "daemon/jobs/request.h"
#include <event2/event.h>
#include <sys/queue.h>

struct jobs;

/* A session or a benchmark run: from its creation until the catalog has its last state. */
struct live_job {
    TAILQ_ENTRY(live_job) next;
    int64_t id;   /* 0: its row is not written yet */
    bool created; /* its row is committed, and its requester was answered */
    bool begins;  /* in the next iteration of the event loop */
    bool is_over; /* it is in its last state */
};
TAILQ_HEAD(job_list, live_job);

/* The workers that a job is about. */
struct job_plan {
    size_t *chosen; /* indexes into fleet->workers, in fleet order */
    size_t n_chosen;
    json_t *skipped; /* array of {worker, reason, remedy}; NULL: none */
    json_t *remarks; /* array of {refuses, option, worker, text, remedy}; NULL: none */
};
void job_plan_done(struct job_plan *plan);

struct job_created {
    int64_t id;                    /* 0: refused, see problem */
    const struct problem *problem; /* NULL when it was created */
    const json_t *remarks, *skipped;
};

/* A request that has not been answered yet. */
struct job_creation {
    struct jobs *jobs;
    struct job_request request;
    json_t *options; /* the request as its author wrote it */
    char *actor;
    struct fleet *fleet;
    struct job_plan plan;
    void *inquiry; /* the kind's, from inquire() to job_creation_continue() */
    /* Private: */
    void (*done)(const struct job_created *created, void *arg);
    void *arg;
    struct event *refusal; /* in the next iteration of the event loop */
    struct discovery *discovery;
    int64_t id;
    bool cancelled; /* too late to forget it: the rows are being committed */
};

struct job_ops {
    const char *noun;         /* "session" */
    const char *limit_remedy; /* where the limit of jobs is configured, and what lists the jobs */
    unsigned (*maximum)(const struct jobs *jobs); /* of jobs in progress */
    /* Refuses a request for a reason that does not depend on the fleet. NULL: never. */
    int (*check_request)(const struct jobs *jobs, const struct job_request *request, struct problem *p);
    /* Fills c->plan from c->fleet, or refuses with a problem. */
    int (*choose)(struct job_creation *c, struct problem *p);
    /* Asks the chosen workers: true where job_creation_continue() comes later. NULL: nobody is asked. */
    bool (*inquire)(struct job_creation *c);
    void (*inquire_cancel)(struct job_creation *c);
    /* Immediately before the rows are written: somebody else may have been faster. */
    int (*check)(struct job_creation *c, struct problem *p);
    /* Writes the rows into the open transaction; may take the request. The job's id, or -errno and no job. */
    int64_t (*add)(struct job_creation *c);
    /* The catalog did not take the rows: frees the job. */
    void (*drop)(struct live_job *job);
    /* The rows are committed, and the requester was answered. */
    void (*begin)(struct live_job *job);
    /* Somebody wants it to end. */
    void (*stop)(struct live_job *job, const char *actor);
    /* As jobs_read(). */
    int (*read)(struct jobs *jobs, int64_t id, bool full, json_t **ret);
    /* profd ends: stops it, where that matters. */
    void (*shutdown)(struct live_job *job);
    bool (*delays_shutdown)(const struct live_job *job);
    /* The shutdown is over, and jobs may still be in progress. NULL: nothing is done about them. */
    void (*shutdown_over)(struct jobs *jobs);
};

struct jobs {
    const struct job_ops *ops;
    struct event_base *base;
    struct catalog *catalog;
    struct fleet_finder *finder;
    struct job_list list;
    bool closing; /* profd is stopping: nothing is created any more */
    struct event *begin;
    void (*shutdown_done)(void *arg);
    void *shutdown_arg;
    struct event *shutdown_timer;
};

/* Takes the request's content, copies what else it needs. done() comes later, once; its pointers are borrowed. */
struct job_creation *job_create(struct jobs *jobs, struct job_request *take_request, json_t *options,
                                const char *actor, void (*done)(const struct job_created *created, void *arg),
                                void *arg);
/* The requester left before the answer: nothing is created, and done() does not come. */
void job_creation_cancel(struct job_creation *c);
/* The answer to inquire(): problem NULL where the job can be created. */
void job_creation_continue(struct job_creation *c, const struct problem *problem);

/* Whether one more job may be created now. -ESHUTDOWN, -EAGAIN, -EINVAL or the catalog's error with a problem. */
int job_check_limits(const struct jobs *jobs, const struct job_request *request, struct problem *p);
/* Records why a job did not end well; the first reason stays. Texts of a record, owned by it. */
void job_explain(char **reason, char **remedy, const char *new_remedy, const char *format, va_list ap);

/* NULL: none that is in memory. */
struct live_job *jobs_find(const struct jobs *jobs, int64_t id);
/* Of jobs that are not over. */
unsigned jobs_count(const struct jobs *jobs);
/* -ENOENT: there is none that can be stopped. */
int jobs_stop(struct jobs *jobs, int64_t id, const char *actor);

/* One as catalog and memory know it, full: with its targets. The caller owns the JSON. -ENOENT or the catalog's error.
 */
int jobs_read(struct jobs *jobs, int64_t id, bool full, json_t **ret);

/* Ends all jobs: done() once, when none delays the shutdown any more or the deadline (monotonic) has passed.
 * Nothing is created from here on. */
void jobs_shutdown(struct jobs *jobs, int64_t deadline_ns, void (*done)(void *arg), void *arg);
/* To be called where a job may have ceased to delay it. */
void jobs_check_shutdown(struct jobs *jobs);
/* As if the deadline had passed. */
void jobs_shutdown_finish(struct jobs *jobs);
/* Frees what is in it; done() of a shutdown does not come any more. */
void jobs_done(struct jobs *jobs);
