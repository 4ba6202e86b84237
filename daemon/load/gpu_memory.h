/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory, use and clocks of this host's NVIDIA GPUs, by NVML, which is loaded where it is installed and never
 * linked. Calls may take milliseconds each, so never on an event loop; one thread at a time.
 */
#pragma once

#include "base/util.h"
#include <sys/types.h>

#define GPU_LIBRARY    "libnvidia-ml.so.1"
#define GPUS_MAX       64
#define GPU_NAME_MAX   96
#define GPU_REASON_MAX 160

/* -1: this GPU does not say. */
struct gpu_sample {
    int64_t memory_bytes, memory_total_bytes; /* of the whole device, whoever uses it */
    int64_t utilisation_percent;              /* how much of the last moment a kernel ran */
    int64_t sm_clock_mhz, memory_clock_mhz;
};

struct gpus;

/* Where there is no library, driver or GPU: negative errno, and why in a line. */
int gpus_open(const char *library, struct gpus **ret, char reason[static GPU_REASON_MAX]);
struct gpus *gpus_close(struct gpus *g);
DEFINE_CLEANUP(struct gpus *, gpus_close)

size_t gpus_count(const struct gpus *g);
const char *gpu_name(const struct gpus *g, size_t index);
void gpu_read(const struct gpus *g, size_t index, struct gpu_sample *ret);
/* Whether one of the processes computes on it; false too where NVML does not say (in a container). */
bool gpu_is_used_by(const struct gpus *g, size_t index, const pid_t *pids, size_t n);
