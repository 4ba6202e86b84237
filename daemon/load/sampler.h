/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks every second at the memory of workers on this host and at its GPUs, on a thread of its own: the loop
 * that sends requests does not wait for the kernel or a driver. A look that takes longer than a second makes
 * the next one later; what PSS costs is kept below a twentieth of the time.
 *
 * All of a sampler is called from the loop's thread. The first look, the baseline, is taken at once, before
 * sampler_new() returns; a library for GPUs is loaded then too. In profd-load it has a process of its own
 * (sampling.h).
 */
#pragma once

#include "base/json.h"
#include <event2/event.h>
#include <sys/types.h>

struct sampler_target {
    const char *url; /* copied */
    pid_t pid;       /* 0: not on this host */
};

struct sampler;

int sampler_new(struct event_base *base, const struct sampler_target *targets, size_t n,
                struct sampler **ret);
/*
 * Looks once more, the last time, and says what was seen; the caller's:
 *     samples          how many looks
 *     workers          [{url, pid, rss_bytes, pss_bytes, reason}], the reason where one is null
 *     gpus             [{index, name, memory_bytes, memory_total_bytes, utilisation_percent, sm_clock_mhz,
 *                      memory_clock_mhz}]: those that the workers use, all where that is not known; null with
 *                      gpus_reason where there are none
 *     timeline         [[moment, RSS of all workers, memory of all GPUs, SM clock of the slowest]], as
 * timeline.h has them, thinned out as it grows Quantities are objects of series_json().
 */
json_t *sampler_result(struct sampler *s);
/* Waits for a look that is under way. */
struct sampler *sampler_free(struct sampler *s);
DEFINE_CLEANUP(struct sampler *, sampler_free)
