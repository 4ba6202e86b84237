/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that take much longer than the others of their phase: warm-up, or a stall. A mean that includes them
 * describes neither kind of step.
 */
#pragma once

#include "trace/reports/step_name.h"
#include <stdint.h>

struct timed_step {
    enum step_phase phase;
    int64_t dur;
    int64_t median; /* of its phase, for an outlier; else 0 */
};

/* Sets the medians of some steps of one rank, or of one instance. An outlier takes more than twice the median of its phase, and
 * is_outlier() (base/statistics.h). The time of prefill and mixed steps depends on their prompts: they are none. -ENOMEM. */
int step_outliers_mark(struct timed_step *steps, size_t n);
