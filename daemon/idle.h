/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a profd that nobody looks after may end: nothing goes on in it, and for some time nothing did. What
 * goes on is a session that is not over (so a stop that is owed, too), a run, a file that is read or waits
 * for it, a client that is connected, and a catalog that cannot take what it is to keep.
 *
 * Looks at the modules from time to time, and at what they have counted in between.
 */
#pragma once

#include "daemon/api/api.h"

struct idle;

struct idle_modules {
    struct event_base *base;
    struct catalog *catalog;
    struct sessions *sessions;
    struct runs *runs;
    struct ingest *ingest;
    struct api *api;
};

/* Copies the pointers. Calls done() once, in a turn of the loop in which nothing went on. */
struct idle *idle_new(const struct idle_modules *modules, int64_t duration_ns, void (*done)(void *arg),
                      void *arg);
struct idle *idle_free(struct idle *idle);
