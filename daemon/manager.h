/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of profd: builds the modules in the order in which data flows, opens the API, runs the loop, and takes
 * everything down in the opposite order.
 *
 * A transient profd serves the process that started it, until that closes its stdin: it imports files and
 * answers queries, and leaves to the next ordinary profd what only that should do (recovering sessions,
 * watching directories, comparing store and catalog).
 *
 * A background profd is an ordinary one that reports on stdout when it serves, and then releases the
 * descriptors it inherited: it logs to a file. One that ends when idle leaves later work to the next.
 *
 * The manager owns the configuration. Modules borrow their settings for their life; a reload exchanges the
 * values in them, between two iterations of the loop (reload.c).
 */
#pragma once

#include "base/clock.h"
#include "base/loop_lag.h"
#include "daemon/api/api.h"
#include "daemon/collect/collector.h"
#include "daemon/config.h"
#include "daemon/ingest/cgroup.h"
#include "daemon/runs/runs.h"
#include "daemon/service.h"

#define IDLE_MIN (100 * NS_PER_MS)
#define IDLE_MAX (365 * 86400 * NS_PER_S)

/* How profd runs, by its command line. */
struct run_mode {
    bool transient;
    bool background; /* detaches from its starter once it serves */
    int64_t idle_ns; /* after which it ends; 0: never */
};

struct manager {
    struct config config;
    const struct config_overrides *overrides;
    struct run_mode mode;
    struct api_modules modules; /* filled one after the other by manager_run() */
    struct heap_keeper heap;
    struct event *signals[3];
    struct event *starter;             /* end of stdin of a transient profd */
    struct ingest_group *ingest_group; /* NULL where profd's cgroup is not its own */
    struct sums *sums;                 /* of traces, computed in the background */
    struct session_slices *slices;
    struct requests *requests;
    struct api *api;
    struct notifier *notifier;
    struct idle *idle; /* NULL: profd never ends by itself */
    bool stopping;
    int failed;        /* why profd ends without a request: a negative errno value */
    unsigned n_ending; /* modules that still stop something */
};

/* Limits of all children that read traces together. */
struct ingest_limits manager_ingest_limits(const struct config *c);

/* Returns after a request to end. Takes the configuration, which was read from the file (NULL: none); the
 * overrides are for reloads. */
int manager_run(struct config *config, const struct config_overrides *overrides, const struct run_mode *mode,
                const char *file);

/*
 * `systemctl reload` (reload.c): reads profd.conf again while sessions continue. A file with an error, a changed
 * key that needs a restart, or a module that rejects its settings changes nothing, and the log and the status
 * line report why. A running session keeps its limit, workers and directories; later calls use the new
 * timeouts. Blocks for the time to read a small file.
 */
void manager_reload(struct manager *m);
