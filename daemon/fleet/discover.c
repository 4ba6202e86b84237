/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One discovery after another step: list (by discover_plan.c's decision), identify and meanwhile search for processes, inspect
 * these, ask other hosts. Owns the finder and its discoveries, and what they have in flight. What may block runs on threads
 * (discover_looks.c).
 */
#include "daemon/fleet/discover_internal.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/process_net.h"
#include "base/routerlog.h"
#include "daemon/fleet/ask_router.h"
#include "daemon/fleet/ask_source.h"
#include "daemon/fleet/identify.h"
#include "daemon/fleet/kineto_workers.h"
#include "daemon/fleet/last_list.h"
#include "daemon/fleet/owners.h"
#include "daemon/fleet/process.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/fleet/router.h"
#include "daemon/fleet/url.h"
#include <errno.h>
#include <event2/event.h>
#include <strings.h>
#include <sys/queue.h>

#define HOST_NAME_SIZE 256
/* A count of local workers holds for this long, because some discoveries are about few of them. */
#define LOCAL_COUNT_AGE_NS (600 * NS_PER_S)

void discovery_free(struct discovery *d)
{
    event_free(d->kick);
    event_free(d->timeout);
    fleet_query_done(&d->query);
    fleet_settings_done(&d->settings);
    inspection_free(d->inspection);
    fleet_free(d->fleet);
    free(d->router);
    problem_done(&d->problem);
    for (size_t i = 0; i < d->n_rank_urls; i++)
        free(d->rank_urls[i]);
    free(d->rank_urls);
    free(d);
}

static void finder_count_local(struct fleet_finder *finder, const struct fleet *fleet)
{
    const int64_t now_ns = mono_ns();
    int64_t n = 0;

    for (size_t i = 0; i < fleet->n_workers; i++)
        n += fleet->workers[i].local;
    bool is_stale = now_ns - finder->local_counted_ns > LOCAL_COUNT_AGE_NS;
    if (finder->local_counted_ns > 0 && !is_stale && n < finder->local_workers)
        return;
    finder->local_workers = n;
    finder->local_counted_ns = now_ns;
}

int64_t fleet_local_workers(const struct fleet_finder *f)
{
    return f->local_counted_ns > 0 ? f->local_workers : -1;
}

/* With d->fleet, or with d->problem. */
static void discovery_finish(struct discovery *d)
{
    bool failed = d->problem.kind != PROBLEM_NONE;

    LIST_REMOVE(d, link);
    if (!failed)
        finder_count_local(d->finder, d->fleet);
    d->done(failed ? NULL : TAKE_PTR(d->fleet), failed ? &d->problem : NULL, d->arg);
    discovery_free(d);
}

static void discovery_on_ranks(void *arg)
{
    struct discovery *d = arg;

    d->ranks = NULL;
    discovery_finish(d);
}

static void find_ranks_work(void *arg)
{
    struct discovery *d = arg;
    processes_find_ranks(d->fleet, &d->settings, d->rank_urls, d->n_rank_urls);
}

static void fleet_join_ranks(struct fleet *fleet, size_t from)
{
    for (size_t i = from; i < fleet->n_workers; i++)
        for (size_t k = 0; k < from; k++)
            if (worker_may_have_ranks(&fleet->workers[k]) &&
                streq(fleet->workers[k].group, fleet->workers[i].group)) {
                worker_join_server(&fleet->workers[i], &fleet->workers[k]);
                break;
            }
}

static void find_ranks_done(void *arg)
{
    struct discovery *d = arg;

    if (!discovery_back(d))
        return;
    const struct fleet_finder *f = d->finder;
    fleet_join_ranks(d->fleet, d->n_before_ranks);
    if (f->owners && f->owners->find_ranks)
        d->ranks = f->owners->find_ranks(d->fleet, discovery_on_ranks, d, f->owners_arg);
    if (!d->ranks)
        discovery_finish(d);
}

/* Engines over several nodes: their other nodes have no server that a list could name. */
static void discovery_find_ranks(struct discovery *d)
{
    struct fleet *f = d->fleet;

    for (size_t i = 0; i < f->n_workers && !d->query.here_only; i++)
        if (worker_may_have_ranks(&f->workers[i])) {
            d->rank_urls = xrealloc(d->rank_urls, d->n_rank_urls + 1, sizeof(*d->rank_urls));
            d->rank_urls[d->n_rank_urls++] = xasprintf(RANKS_SCHEME "%s", f->workers[i].group);
        }
    d->n_before_ranks = f->n_workers;
    if (d->n_rank_urls > 0)
        discovery_offload(d, find_ranks_work, find_ranks_done);
    else
        discovery_finish(d);
}

static void discovery_on_described(void *arg)
{
    struct discovery *d = arg;

    d->description = NULL;
    discovery_find_ranks(d);
}

/* The last step: what other hosts know of their workers. */
static void discovery_describe(struct discovery *d)
{
    const struct fleet_finder *f = d->finder;

    if (d->query.processes.wanted && !d->query.here_only && f->owners && f->owners->has_others(f->owners_arg))
        fleet_add_note(d->fleet,
                       "processes that registered for Kineto are of this host only: list and record "
                       "those of another host by profctl there (--kineto)");
    if (f->owners && !d->query.here_only)
        d->description = f->owners->describe(d->fleet, discovery_on_described, d, f->owners_arg);
    if (!d->description)
        discovery_find_ranks(d);
}

static void inspect_work(void *arg)
{
    struct discovery *d = arg;
    processes_inspect(d->fleet, &d->settings, TAKE_PTR(d->inspection));
    if (d->query.here_only)
        processes_find_ranks(d->fleet, &d->settings, d->query.workers, d->query.n_workers);
}

static void inspect_done(void *arg)
{
    if (discovery_back(arg))
        discovery_describe(arg);
}

/* --trace-dir is a path in profd's own mount namespace: it is dir and local_dir. */
static void take_trace_dir(struct discovery *d)
{
    for (size_t i = 0; d->query.trace_dir && i < d->fleet->n_workers; i++) {
        struct trace_location *location = &d->fleet->workers[i].location;
        replace_str(&location->dir, d->query.trace_dir);
        replace_str(&location->local_dir, d->query.trace_dir);
        replace_str(&location->found_by, "--trace-dir");
    }
}

/* Of workers that did not show what they are. */
static void note_hints(struct fleet *f)
{
    for (size_t i = 0; i < f->n_workers; i++)
        if (f->workers[i].engine == ENGINE_UNKNOWN && f->workers[i].hint)
            worker_add_note(&f->workers[i],
                            "its label %s names an engine, which profd does not take as proof",
                            f->workers[i].hint);
}

/* After both the identification and the search. */
static void discovery_inspect(struct discovery *d)
{
    note_hints(d->fleet);
    if (d->query.processes.wanted &&
        fleet_add_registered(d->fleet, d->finder->kineto, &d->query.processes, &d->problem) < 0) {
        discovery_finish(d);
        return;
    }
    take_trace_dir(d);
    discovery_offload(d, inspect_work, inspect_done);
}

static void discovery_on_identified(void *arg)
{
    struct discovery *d = arg;

    d->identification = NULL;
    if (!d->offloaded)
        discovery_inspect(d);
}

static void search_work(void *arg)
{
    struct discovery *d = arg;
    inspection_search(d->inspection);
}

static void search_done(void *arg)
{
    struct discovery *d = arg;

    if (discovery_back(d) && !d->identification)
        discovery_inspect(d);
}

/* Whether a host is this machine, by its addresses and its name. */
static bool host_is_here(const char *host)
{
    char name[HOST_NAME_SIZE] = "";
    struct in6_addr wanted;

    gethostname(name, sizeof(name) - 1);
    if (host_is_loopback(host) || strcasecmp(name, host) == 0)
        return true;
    return address_of_host(host, &wanted) && net_address_is_own(&wanted);
}

/* Goes on with a listed fleet. */
static void discovery_identify(struct discovery *d)
{
    struct url u;
    const char *reason;
    bool here = !d->router || (url_parse(d->router, &u, &reason) == 0 && host_is_here(u.host));

    replace_str(&d->fleet->name, d->config ? d->config->name : NULL);
    listing_settle(d->fleet, here);
    d->identification = identify_start(d->finder->base, d->finder->caller, &d->settings, d->fleet,
                                       &d->finder->answers_kept, discovery_on_identified, d);
    if (!d->identification) {
        discovery_inspect(d);
        return;
    }
    d->inspection = inspection_new(d->fleet);
    discovery_offload(d, search_work, search_done);
}

static void discovery_on_listed(struct fleet *f, const struct problem *p, void *arg)
{
    struct discovery *d = arg;

    d->ask = NULL;
    d->source = NULL;
    d->fleet = f;
    if (f) {
        discovery_identify(d);
        return;
    }
    problem_copy(&d->problem, 0, p->kind, p);
    discovery_finish(d);
}

static int discovery_system_port(const struct discovery *d)
{
    return (int)(d->query.system_port > 0 ? d->query.system_port : d->config ? d->config->system_port : 0);
}

static void discovery_ask_router(struct discovery *d)
{
    const struct fleet_settings *s = &d->settings;
    const struct router_question q = {
        .url = d->router,
        .dialect = d->dialect,
        .credentials = d->config ? &d->config->credentials : NULL,
        .connect_timeout_ns = s->connect_timeout_ns,
        .timeout_ns = s->identify_timeout_ns,
        .bounds = {.workers_max = s->workers_max, .system_port = discovery_system_port(d)},
    };
    d->ask = router_ask_start(d->finder->caller, &q, discovery_on_listed, d);
}

static void discovery_on_found(struct fleet *f, const struct problem *p, void *arg)
{
    struct discovery *d = arg;
    struct last_lists *last = &d->finder->last;

    if (d->config && d->by->source->keeps_last) {
        if (f)
            last_lists_store(last, d->config->name, d->by, f);
        else if (p->kind == PROBLEM_UPSTREAM)
            f = last_lists_get(last, d->config->name, d->by, p);
    }
    discovery_on_listed(f, p, d);
}

static void discovery_ask_source(struct discovery *d)
{
    const struct fleet_settings *s = &d->settings;
    const struct source_question q = {
        .config = d->by,
        .connect_timeout_ns = s->connect_timeout_ns,
        .timeout_ns = s->identify_timeout_ns,
        .workers_max = s->workers_max,
    };
    d->source =
        source_ask_start(d->finder->base, d->finder->caller, d->finder->offload, &q, discovery_on_found, d);
}

static void read_log_work(void *arg)
{
    struct discovery *d = arg;
    routerlog_read(d->config->router_log, &d->router, &d->problem);
}

static void read_log_done(void *arg)
{
    struct discovery *d = arg;

    if (!discovery_back(d))
        return;
    if (d->problem.kind == PROBLEM_NONE)
        discovery_ask_router(d);
    else
        discovery_finish(d);
}

/* The first step: from what the query names to a list of workers. */
static void discovery_on_kick(evutil_socket_t fd, short what, void *arg)
{
    struct discovery *d = arg;

    if (discovery_plan(d) < 0)
        discovery_finish(d);
    else if (d->by)
        discovery_ask_source(d);
    else if (d->fleet)
        discovery_identify(d);
    else if (d->router)
        discovery_ask_router(d);
    else
        discovery_offload(d, read_log_work, read_log_done);
}

int fleet_finder_new(struct event_base *base, struct caller *caller, struct offload *offload_threads,
                     const struct fleet_settings *settings, struct fleet_finder **ret)
{
    struct fleet_finder *f = xcalloc(1, sizeof(*f));

    *f = (struct fleet_finder){
        .base = base, .caller = caller, .offload = offload_threads, .settings = settings};
    LIST_INIT(&f->discoveries);
    *ret = f;
    return 0;
}

void fleet_finder_set_kineto(struct fleet_finder *f, const struct kineto *kineto)
{
    f->kineto = kineto;
}

void fleet_finder_set_owners(struct fleet_finder *f, const struct owner_ops *ops, void *arg)
{
    f->owners = ops;
    f->owners_arg = arg;
}

uint64_t fleet_refused_calls(const struct fleet_finder *f)
{
    return caller_refusals(f->caller);
}

struct fleet_finder *fleet_finder_free(struct fleet_finder *f)
{
    struct discovery *d;

    if (!f)
        return NULL;
    while ((d = LIST_FIRST(&f->discoveries)))
        discovery_cancel(d);
    last_lists_done(&f->last);
    free(f);
    return NULL;
}

struct discovery *fleet_discover(struct fleet_finder *f, const struct fleet_query *q,
                                 void (*done)(struct fleet *fleet, const struct problem *p, void *arg),
                                 void *arg)
{
    struct discovery *d = xcalloc(1, sizeof(*d));

    d->finder = f;
    fleet_settings_copy(f->settings, &d->settings);
    fleet_query_copy(q, &d->query);
    d->query.by.asked = true;
    d->done = done;
    d->arg = arg;
    d->kick = evtimer_new(f->base, discovery_on_kick, d);
    d->timeout = evtimer_new(f->base, discovery_on_looked_too_long, d);
    LIST_INSERT_HEAD(&f->discoveries, d, link);
    event_active(d->kick, EV_TIMEOUT, 0);
    return d;
}

void discovery_cancel(struct discovery *d)
{
    if (!d)
        return;
    LIST_REMOVE(d, link);
    router_ask_cancel(d->ask);
    source_ask_cancel(d->source);
    identify_cancel(d->identification);
    if (d->description)
        d->finder->owners->cancel(d->description, d->finder->owners_arg);
    if (d->ranks)
        d->finder->owners->cancel_ranks(d->ranks, d->finder->owners_arg);
    event_del(d->timeout);
    d->finder = NULL;
    if (!d->offloaded)
        discovery_free(d);
}
