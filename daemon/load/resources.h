/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of process trees, by /proc, and memory, utilisation and clocks of this host's NVIDIA GPUs, by NVML, which is
 * loaded where it is installed and never linked. Both may take long (the kernel walks every page for PSS, a call of
 * NVML takes milliseconds): never call them on an event loop, and from one thread at a time.
 */
#pragma once

#include "base/util.h"
#include <sys/types.h>

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
