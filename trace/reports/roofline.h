/* SPDX-License-Identifier: Apache-2.0 */
/* What known GPUs can do at most, by their makers' data sheets, keyed by the name that traces have. */
#pragma once

#include "trace/reports/op_cost.h"

struct gpu_peak {
    const char *glob;
    double bytes_per_s;
    double flops[_PRECISION_MAX]; /* a second, dense; 0 if unsupported or unknown */
};

/* NULL for a GPU that is not known. */
const struct gpu_peak *gpu_peak_find(struct text device);
