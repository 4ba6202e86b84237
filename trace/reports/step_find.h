/* SPDX-License-Identifier: Apache-2.0 */
/* The ways in which steps are found, for step.c. Each leaves ret->n 0 where it finds none. All -ENOMEM. */
#pragma once

#include "trace/reports/step.h"

/* A step of which nothing is known; NULL where there is no memory. */
struct step *steps_add(struct steps *steps);

/* By their names, on the host's side or on the GPU's; their times are those of the host. */
int steps_find_named(const struct columns *c, bool on_gpu, struct steps *ret);
/* By kernels that recur, then by launches of graphs; owners are set, times are not. */
int steps_find_recurring(const struct columns *c, const struct gpu_work *work, struct steps *ret);
