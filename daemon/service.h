/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd as a service: its status and watchdog, and its end when idle.
 *
 * The notifier informs the service manager (sd_notify(3)): ready, reloading, stopping, one line of status,
 * and, with a watchdog, that the loop runs, its threads answer and the catalog commits. The line is made
 * after an event of the catalog, at most once a second, and sent when it differs. Without $NOTIFY_SOCKET none
 * of this costs anything.
 *
 * A profd that no service manager supervises ends when idle: nothing is active, and for some time nothing
 * was. Active are sessions that are not over (also with a stop pending), benchmark runs, files that are read
 * or wait for it, connected clients, and a catalog that cannot be written. With an empty catalog, as after a
 * request that was refused, it ends sooner.
 */
#pragma once

#include "daemon/api/api.h"

struct notifier;
struct idle;

/* Borrows the modules. Reads and unsets $WATCHDOG_USEC. */
struct notifier *notifier_new(const struct api_modules *modules);
void notifier_ready(struct notifier *n);
void notifier_reloading(struct notifier *n);
/* The remark (may be NULL) stays in the status line until the next reload. */
void notifier_reloaded(struct notifier *n, const char *remark);
/* Extends the time limit of the shutdown to duration_ns, even beyond TimeoutStopSec= of the unit. */
void notifier_stopping(struct notifier *n, int64_t duration_ns);
/* No module is used from here on. The offload is drained before notifier_free(), and the catalog closed. */
void notifier_close(struct notifier *n);
struct notifier *notifier_free(struct notifier *n);

/* Borrows the modules. Calls done() once, when nothing was active for the duration, which it gets; with an empty
 * catalog for a sixtieth of it, at least a second. */
struct idle *idle_new(const struct api_modules *modules, const struct api *api, int64_t duration_ns,
                      void (*done)(int64_t idle_ns, void *arg), void *arg);
struct idle *idle_free(struct idle *idle);
