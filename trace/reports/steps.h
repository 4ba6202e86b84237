/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What steps spent their time on, which of them are outliers among those of their phase, and in what they
 * differ from the median.
 */
#pragma once

#include "trace/reports/step.h"

/* A step's time by classes of kernels, as sums over its own work, and without any work at all. */
enum step_part {
    STEP_PART_IDLE = _KERNEL_CLASS_MAX,
    _STEP_PART_MAX,
    STEP_PART_NONE = _STEP_PART_MAX,
};

/* Share of the median by which an outlier differs from it at least, however regular the other steps are. */
#define STEP_OUTLIER_PART 0.05

struct step_cost {
    int64_t busy; /* with anybody's work */
    int64_t parts[_STEP_PART_MAX];
    double deviations;      /* of an outlier; below 0 where it is shorter */
    enum step_part differs; /* STEP_PART_NONE where it is none */
    int64_t differs_ns;
};

struct step_costs {
    struct step_cost *items; /* as the steps */
    size_t n;
};

/* -ENOMEM. */
int step_costs_read(const struct gpu_work *work, const struct steps *steps, struct step_costs *ret);
void step_costs_done(struct step_costs *costs);
/* "gemm", ..., "idle" */
const char *step_part_name(enum step_part part);
