/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the requests of an open loop should leave: fixed before the first of them does, and the same for the
 * same workload. Nothing that a server does can move a moment. Pure.
 *
 * Arrivals are a renewal process of mean 1 (constant: 1; Poisson: exponential; gamma: of shape and scale
 * burstiness and its inverse) whose time is stretched by the rate: arrival k is where the expected number of
 * requests, rate * t, or rate * t + (rate_to - rate) * t^2 / 2T for a ramp, reaches the k-th sum. T is the
 * duration, or how long the requests take. Prompts that name their moments leave at these.
 */
#pragma once

#include "daemon/load/workload.h"

struct schedule {
    int64_t *at_ns; /* ascending, the first 0 */
    size_t n;
};

/* -ENOMEM. */
int schedule_make(const struct workload *w, struct schedule *ret);
void schedule_done(struct schedule *s);
