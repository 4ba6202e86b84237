/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What whoever started profd is told (sd_notify(3)): ready, reloading, stopping, one line of status, and,
 * where a watchdog is asked for, that the loop turns, its threads answer and the catalog commits.
 *
 * The line is made when the catalog tells of an event, at most once a second, and sent when it differs.
 * Without $NOTIFY_SOCKET nothing of this costs anything.
 */
#pragma once

#include "base/offload.h"

struct event_base;
struct fleet_settings;
struct notifier;

struct notifier_modules {
    struct event_base *base;
    struct offload *offload;
    struct catalog *catalog;
    struct sessions *sessions;
    struct store *store;
    const struct fleet_settings *fleet_settings;
};

/* Copies the pointers. Reads and unsets $WATCHDOG_USEC. */
struct notifier *notifier_new(const struct notifier_modules *modules);
void notifier_ready(struct notifier *n);
void notifier_reloading(struct notifier *n);
/* The remark (may be NULL) stays in the status line until the next reload. */
void notifier_reloaded(struct notifier *n, const char *remark);
/* It may take so long, whatever the unit says. */
void notifier_stopping(struct notifier *n, int64_t duration_ns);
/* No room is asked from here on. The offload is drained before notifier_free(), and the catalog closed. */
void notifier_close(struct notifier *n);
struct notifier *notifier_free(struct notifier *n);
