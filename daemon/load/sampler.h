/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples the memory of workers on this host and its GPUs every second, on a thread of its own: the loop that sends
 * requests never waits for the kernel or a driver. A sample that takes longer than a second delays the next one; the
 * cost of PSS is kept below a twentieth of the time.
 *
 * In profd-load the sampler is a process of its own: it inspects other processes and calls the driver of GPUs, which
 * the process that reads responses of servers may not. The two share a socket, on which one byte asks and JSON
 * answers: no byte of a server reaches the process that may inspect others. It ends with its parent.
 */
#pragma once

#include "base/json.h"
#include <event2/event.h>
#include <sys/types.h>

struct sampler_target {
    const char *url; /* copied */
    pid_t pid;       /* 0: not on this host */
};

/* -- The sampler, called from the loop's thread ------------------------------------------------------- */

struct sampler;

/* Loads the library for GPUs, and takes the first sample, the baseline, before it returns. */
int sampler_new(struct event_base *base, const struct sampler_target *targets, size_t n,
                struct sampler **ret);
/*
 * Takes the last sample, and returns what was measured; the caller's:
 *     samples          number of samples
 *     workers          [{url, pid, rss_bytes, pss_bytes, reason}], the reason where one is null
 *     gpus             [{index, name, memory_bytes, memory_total_bytes, utilisation_percent, sm_clock_mhz,
 *                      memory_clock_mhz}]: those that the workers use, all where that is not known; null with
 *                      gpus_reason where there are none
 *     timeline         [[moment, RSS of all workers, memory of all GPUs, SM clock of the slowest]], see struct
 *                      moment; thinned out as it grows
 * Quantities are objects of series_json().
 */
json_t *sampler_result(struct sampler *s);
/* Waits for a sample in progress. */
struct sampler *sampler_free(struct sampler *s);
DEFINE_CLEANUP(struct sampler *, sampler_free)

/* One line of the timeline; -1: not measured. */
struct moment {
    int64_t at_ns;        /* of CLOCK_MONOTONIC */
    int64_t rss_bytes;    /* of all workers */
    int64_t gpu_bytes;    /* of all GPUs, of all processes */
    int64_t sm_clock_mhz; /* of the slowest GPU */
};

json_t *timeline_json(const struct moment *moments, size_t n);
/* The timeline of sampler_result(), which may be NULL. Returns how many; the caller frees them. */
size_t timeline_read(const json_t *memory, struct moment **ret);

/* -- The sampler in a process of its own -------------------------------------------------------------- */

struct sampler_process;

/* From a process with one thread, before it has secrets. The first sample is taken when it returns; -EIO where that
 * takes longer than 30 s. */
int sampler_process_new(const struct sampler_target *targets, size_t n, struct sampler_process **ret);
/* As sampler_result(), once; NULL where the process does not answer. */
json_t *sampler_process_result(struct sampler_process *s);
struct sampler_process *sampler_process_free(struct sampler_process *s);
