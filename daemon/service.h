/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes profd a service.
 *
 * The notifier informs the service manager (sd_notify(3)): ready, reloading, stopping, one line of status,
 * and, with a watchdog, that the loop runs, its threads answer and the catalog commits. The line is made
 * after an event of the catalog, at most once a second, and sent when it differs. Without $NOTIFY_SOCKET none
 * of this costs anything.
 *
 * A profd that no service manager supervises ends when idle: nothing is active, and for some time nothing
 * was. Active are sessions that are not over (also with a stop pending), benchmark runs, files that are read
 * or wait for it, connected clients, and a catalog that cannot be written.
 */
#pragma once

#include "base/offload.h"
#include "daemon/api/api.h"

struct notifier;
struct idle;

struct service_modules {
    struct event_base *base;
    struct offload *offload;
    struct catalog *catalog;
    struct sessions *sessions;
    struct runs *runs;
    struct store *store;
    struct ingest *ingest;
    struct api *api; /* of idle_new() only */
    const struct fleet_settings *fleet_settings;
};

/* Copies the pointers. Reads and unsets $WATCHDOG_USEC. */
struct notifier *notifier_new(const struct service_modules *modules);
void notifier_ready(struct notifier *n);
void notifier_reloading(struct notifier *n);
/* The remark (may be NULL) stays in the status line until the next reload. */
void notifier_reloaded(struct notifier *n, const char *remark);
/* Extends the time limit of the shutdown to duration_ns, even beyond TimeoutStopSec= of the unit. */
void notifier_stopping(struct notifier *n, int64_t duration_ns);
/* No module is used from here on. The offload is drained before notifier_free(), and the catalog closed. */
void notifier_close(struct notifier *n);
struct notifier *notifier_free(struct notifier *n);

/* Copies the pointers. Calls done() once, when nothing was active for the duration. */
struct idle *idle_new(const struct service_modules *modules, int64_t duration_ns, void (*done)(void *arg),
                      void *arg);
struct idle *idle_free(struct idle *idle);
