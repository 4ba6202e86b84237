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

/* -- resources.c: what is sampled -- */

/*
 * Memory of process trees, by /proc, and memory, utilisation and clocks of this host's NVIDIA GPUs, by NVML, which is
 * loaded where it is installed and never linked. Both may take long (the kernel walks every page for PSS, a call of
 * NVML takes milliseconds): never call them on an event loop, and from one thread at a time.
 */

#define PROCESS_TREE_MAX 1024

/* RSS is the sum over processes, and counts shared pages once for each; PSS divides them, but only the worker's own
 * user or root may read it. */
struct process_memory {
    size_t processes;
    int64_t rss_bytes;
    int64_t pss_bytes; /* -1: not asked for, or not readable of one of them */
};

/* Of n processes, PROCESS_TREE_MAX at most; `with_pss` asks for the expensive part. -ESRCH where none is left. */
int process_memory_read(const pid_t *pids, size_t n, bool with_pss, struct process_memory *ret);

/* Pure: bytes of a line like "Pss:   1234 kB" of smaps_rollup, and of the second number of statm; -1 where it is
 * missing. */
int64_t smaps_rollup_bytes(const char *text, const char *name);
int64_t statm_rss_bytes(const char *text);

#define GPU_LIBRARY    "libnvidia-ml.so.1"
#define GPUS_MAX       64
#define GPU_NAME_MAX   96
#define GPU_REASON_MAX 160

/* -1: not reported by this GPU. */
struct gpu_sample {
    int64_t memory_bytes, memory_total_bytes; /* of the entire device, of all processes */
    int64_t utilisation_percent;              /* share of the last sample period in which a kernel ran */
    int64_t sm_clock_mhz, memory_clock_mhz;
};

struct gpus;

/* Without library, driver or GPU: negative errno, and the reason in one line. */
int gpus_open(const char *library, struct gpus **ret, char reason[static GPU_REASON_MAX]);
struct gpus *gpus_close(struct gpus *g);
DEFINE_CLEANUP(struct gpus *, gpus_close)

size_t gpus_count(const struct gpus *g);
const char *gpu_name(const struct gpus *g, size_t index);
void gpu_read(const struct gpus *g, size_t index, struct gpu_sample *ret);
/* Whether one of the processes computes on it; false too where NVML does not report it (in a container). */
bool gpu_is_used_by(const struct gpus *g, size_t index, const pid_t *pids, size_t n);
