/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warm-up, and the load itself: keeps a number of requests in flight (closed loop), or sends each at its moment (open
 * loop), until all were sent, the duration is over or load_stop(), and then waits for those in flight.
 *
 * A request of a closed loop is due when the previous one of its slot ended, one of an open loop by the schedule: the
 * delay beyond that is lateness of the sender. A target that responds 429 gets nothing for as long as it asks for;
 * its requests go to other targets, or wait.
 */
#pragma once

#include "daemon/load/request.h"
#include "daemon/load/schedule.h"

struct messages;

struct load_setup {
    struct event_base *base;
    struct http_pool *pool;
    struct messages *messages;
    const struct prompts *prompts; /* and so the workload */
    const char *model;
    struct load_target *targets;
    size_t n_targets;
    struct load_records *records; /* of the load, which adds each request that ended; not of warm-up */
    int64_t in_flight_max;        /* of this process; not of warm-up */
    /* Of warm-up: once, may come before warmup_start() returns. Of a load: in a later iteration of the loop, once
     * nothing is in flight. */
    void (*done)(void *arg);
    void *arg;
};

/* -- Warm-up: a few requests to each worker, one after another, all workers in parallel. They are no part of the run,
 * and their result is sent once for each worker. -- */

struct warmup_worker;

/* A zeroed one is none. */
struct warmup {
    struct load_setup setup;
    struct warmup_worker *workers;
    size_t busy;
    int64_t succeeded; /* requests to all workers together */
    char *error;       /* of the last request that failed; NULL */
};

void warmup_start(struct warmup *w, const struct load_setup *setup);
/* After http_pool_free(): nothing of it may be in flight. */
void warmup_done(struct warmup *w);

/* -- The load ----------------------------------------------------------------------------------------- */

struct load;

/* Borrows the members of setup. The schedule is computed here: -ENOMEM. */
int load_new(const struct load_setup *setup, struct load **ret);
struct load *load_free(struct load *l);
/* Makes the first requests, and opens connections for those of a closed loop; opened() is called in a later iteration of
 * the loop. */
void load_open(struct load *l, void (*opened)(void *arg), void *arg);
void load_start(struct load *l);
/* Sends nothing more. */
void load_stop(struct load *l);
json_t *load_progress(struct load *l);
