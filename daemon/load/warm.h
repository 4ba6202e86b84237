/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warm-up: a few requests to each worker, one after another, all workers side by side. They are no part of
 * the run, and what came of them is told once for each worker.
 */
#pragma once

#include "daemon/load/emit.h"
#include "daemon/load/request.h"

struct warm;

struct warm_setup {
    struct wires *wires;
    struct emit *emit;
    const struct prompts *prompts;
    const char *model;
    struct target *targets;
    size_t n_targets;
    void (*done)(void *arg); /* once; may come before warm_start() returns where there is nothing to do */
    void *arg;
};

struct warm *warm_start(const struct warm_setup *setup);
/* Nothing of it may be under way: wires_free() comes first. */
struct warm *warm_free(struct warm *w);
/* Of all workers together, after done(). */
int64_t warm_succeeded(const struct warm *w);
const char *warm_error(const struct warm *w); /* of the last that failed; NULL */
