/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rests of a worker: times of 100 ms and more with neither GPU events nor operators, annotations or calls of the
 * runtime on the host. They lie between what the host and the GPU did, also before the first and after the last.
 */
#pragma once

#include "trace/reports/gpu.h"

/* Normalised; none where the trace has no times. -ENOMEM. */
int rests_read(const struct columns *c, const struct slice_table *slices, const struct gpu_work *work,
               struct intervals *ret);
