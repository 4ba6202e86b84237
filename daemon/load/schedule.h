/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moments at which the requests of an open loop are due: fixed before the first is sent, and the same for the same
 * workload. No server can influence them. Pure.
 *
 * Arrivals are a renewal process of mean 1 (constant: 1; Poisson: exponential; gamma: of shape and scale
 * burstiness and its inverse) whose time is stretched by the rate: arrival k is where the expected number of
 * requests, rate * t, or rate * t + (rate_to - rate) * t^2 / 2T for a ramp, reaches the k-th sum. T is the
 * duration, or the time that the requests take. Prompts with timestamps are sent at these.
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
