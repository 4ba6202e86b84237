/* SPDX-License-Identifier: Apache-2.0 */
/* The finder and a discovery, for the files that implement them only. */
#pragma once

#include "daemon/fleet/fleet.h"
#include "daemon/fleet/last_list.h"
#include <event2/event.h>
#include <sys/queue.h>

/* Fleets with a dead mount that are remembered. */
#define HELD_UP_MAX 16

struct fleet_finder {
    struct event_base *base;
    struct caller *caller;
    struct offload *offload;
    const struct fleet_settings *settings;
    const struct kineto *kineto; /* NULL: none */
    const struct owner_ops *owners;
    void *owners_arg;
    uint64_t held_up[HELD_UP_MAX]; /* queues; the oldest is overwritten */
    size_t n_held_up;
    size_t answers_kept; /* bytes */
    struct last_lists last;
    int64_t local_workers, local_counted_ns; /* fleet_local_workers(); monotonic, 0 never */
    LIST_HEAD(discovery_list, discovery) discoveries;
};

/* One discovery: plan, (read the router's log), list, identify and meanwhile search for processes, inspect these. */
struct discovery {
    LIST_ENTRY(discovery) link;
    struct fleet_finder *finder;    /* NULL: cancelled while a thread has it */
    struct fleet_settings settings; /* its own: a thread reads them, and a reload replaces the finder's */
    struct fleet_query query;
    const struct fleet_config *config; /* the section of profd.conf that it is about, NULL */
    const struct router_dialect *dialect;
    struct event *kick, *timeout;
    const struct source_config *by; /* NULL: no source */
    struct router_ask *ask;
    struct source_ask *source;
    struct identification *identification;
    void *description; /* of the workers by their hosts, while that is asked */
    void *ranks;       /* a search for ranks without a server, on other hosts */
    char **rank_urls;  /* of groups whose ranks may be on this host */
    size_t n_rank_urls, n_before_ranks;
    struct inspection *inspection; /* NULL: taken by the inspection, or none */
    struct fleet *fleet;
    char *router;
    struct problem problem;
    bool offloaded;
    size_t seen_at; /* which worker the thread was at when the timeout passed last */
    int64_t look_until_ns;
    void (*done)(struct fleet *fleet, const struct problem *p, void *arg);
    void *arg;
};

/*
 * discover_plan.c: what the query is about, by the settings: config, and one of by (a source), fleet (workers that are named, not asked
 * yet) and router; none of them where the router's log names it. 0, or the error whose problem is set.
 */
int discovery_plan(struct discovery *d);

/* discover.c: it is in no list, and no thread has it. */
void discovery_free(struct discovery *d);

/* discover_looks.c: runs work on a thread, then done on the loop unless the discovery was cancelled meanwhile. */
void discovery_offload(struct discovery *d, void (*work)(void *arg), void (*done)(void *arg));
/* What done() calls first. False: the discovery was cancelled, and is freed. */
bool discovery_back(struct discovery *d);
/* Of its timeout: ends it with a problem, unless the look goes on. */
void discovery_on_looked_too_long(evutil_socket_t fd, short what, void *arg);
