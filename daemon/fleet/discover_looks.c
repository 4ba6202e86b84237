/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a discovery may block: looks at processes, directories and the router's log. They run on a thread, in turn with others of
 * a fleet that was slow before; a discovery whose look hangs ends without it, and the thread keeps what it looks at until it is
 * let go.
 */
#include "daemon/fleet/discover_internal.h"

#include "base/clock.h"
#include "daemon/fleet/process.h"
#include <errno.h>

/* Of what blocks, at one thing: longer than names may take (processes.c) and disks under load; a mount whose
 * server is gone never answers. And of all of them. */
#define LOOK_PATIENCE_S 10
#define LOOK_LONGEST_NS (60 * NS_PER_S)

static uint64_t discovery_queue(const struct discovery *d)
{
    bool has_workers = d->fleet && d->fleet->n_workers > 0;

    return offload_queue_of_dir(d->router     ? d->router
                                : has_workers ? d->fleet->workers[0].url
                                : d->config   ? d->config->name
                                              : "");
}

/* Inspections of a fleet that was slow before are serialised, so that they occupy only one thread. */
static uint64_t queue_to_take(const struct discovery *d)
{
    uint64_t queue = discovery_queue(d);

    for (size_t i = 0; i < HELD_UP_MAX; i++)
        if (d->finder->held_up[i] == queue)
            return queue;
    return OFFLOAD_NO_QUEUE;
}

static void remember_held_up(const struct discovery *d)
{
    struct fleet_finder *f = d->finder;

    if (queue_to_take(d) == OFFLOAD_NO_QUEUE)
        f->held_up[f->n_held_up++ % HELD_UP_MAX] = discovery_queue(d);
}

static void discovery_arm_timeout(struct discovery *d)
{
    const struct timeval tv = {.tv_sec = LOOK_PATIENCE_S};
    event_add(d->timeout, &tv);
}

static size_t looking_at(const struct discovery *d)
{
    return d->fleet ? atomic_load(&d->fleet->looking_at) : 0;
}

void discovery_offload(struct discovery *d, void (*work)(void *arg), void (*done)(void *arg))
{
    d->offloaded = true;
    d->look_until_ns = mono_ns() + LOOK_LONGEST_NS;
    discovery_arm_timeout(d);
    offload_run_in(d->finder->offload, queue_to_take(d), work, done, d);
}

static void explain_hanging(const struct discovery *d, struct problem *p)
{
    size_t at = looking_at(d);

    if (at > 0)
        problem_set(
            p, -ETIMEDOUT, PROBLEM_UPSTREAM,
            "the trace directory of %s cannot be looked at: its file system gave no answer within %d s",
            d->fleet->workers[at - 1].url, LOOK_PATIENCE_S);
    else if (d->fleet)
        problem_set(p, -ETIMEDOUT, PROBLEM_UPSTREAM,
                    "the processes of the workers cannot be looked at: neither name servers nor the looks "
                    "before this one were done within %d s",
                    LOOK_PATIENCE_S);
    else
        problem_set(p, -ETIMEDOUT, PROBLEM_UPSTREAM,
                    "the router's log %s cannot be read: its file system gave no answer within %d s",
                    d->config->router_log, LOOK_PATIENCE_S);
    problem_remedy(p,
                   "Is a mount dead? findmnt shows them, df hangs on it. What does not need it can be started"
                   " by --worker or --router.");
}

void discovery_on_looked_too_long(evutil_socket_t fd, short what, void *arg)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct discovery *d = arg;
    size_t at = looking_at(d);

    if (at != d->seen_at && mono_ns() < d->look_until_ns) {
        d->seen_at = at;
        discovery_arm_timeout(d);
        return;
    }
    explain_hanging(d, &p);
    remember_held_up(d);
    void (*done)(struct fleet *, const struct problem *, void *) = d->done;
    void *done_arg = d->arg;
    discovery_cancel(d);
    done(NULL, &p, done_arg);
}

bool discovery_back(struct discovery *d)
{
    d->offloaded = false;
    event_del(d->timeout);
    if (d->finder)
        return true;
    discovery_free(d);
    return false;
}
