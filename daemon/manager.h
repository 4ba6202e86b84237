/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of profd: builds the rooms in the order of the data's way, opens the API, runs the loop, and takes
 * everything down in the opposite order.
 *
 * A transient one serves whoever started it, for as long as that keeps its stdin open: it takes files and
 * answers questions, and leaves to the next ordinary one what only that should do (recovering sessions,
 * watching directories, comparing store and catalog).
 *
 * One in the background is an ordinary one that says on stdout when it serves, and then has let go of what it
 * inherited: it logs to a file. One that ends when idle (idle.h) leaves to the next what comes later.
 *
 * The manager owns the configuration. Rooms borrow the parts of it that are theirs, for their life; a reload
 * exchanges what those parts hold, between two turns of the loop (reload.h).
 */
#pragma once

#include "base/clock.h"
#include "base/heap.h"
#include "daemon/api/api.h"
#include "daemon/collect/collector.h"
#include "daemon/config.h"
#include "daemon/idle.h"
#include "daemon/ingest/cgroup.h"
#include "daemon/notify.h"
#include "daemon/runs/runs.h"

#define IDLE_MIN (100 * NS_PER_MS)
#define IDLE_MAX (365 * 86400 * NS_PER_S)

/* How it lives, which is its starter's to say. */
struct manner {
    bool transient;
    bool background; /* has nobody to talk to once it serves */
    int64_t idle_ns; /* after which it ends; 0: it stays */
};

struct manager {
    struct config config;
    const struct config_overrides *overrides;
    struct manner manner;
    struct event_base *base;
    struct loop_lag *lag;
    struct heap_keeper heap;
    struct event *signals[3];
    struct event *starter; /* the end of a transient one's stdin */
    struct offload *offload;
    struct caller *caller;
    struct catalog *catalog;
    struct fleet_finder *finder;
    struct sessions *sessions;
    struct runs *runs;
    struct store *store;
    struct ingest_group *ingest_group; /* NULL where profd's cgroup is not its own */
    struct ingest *ingest;
    struct collector *collector;
    struct api *api;
    struct notifier *notifier;
    struct idle *idle; /* NULL: it stays */
    bool stopping;
    int failed;        /* why it ends, where nobody asked it to: a negative errno value */
    unsigned n_ending; /* modules that have something to stop first */
};

/* What the children that read traces may need together. */
struct ingest_limits manager_ingest_limits(const struct config *c);

/* Returns when profd is told to end. Takes the configuration, which was read from the file (NULL: none);
 * the overrides are for reloads. */
int manager_run(struct config *config, const struct config_overrides *overrides, const struct manner *manner,
                const char *file);
