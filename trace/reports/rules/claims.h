/* SPDX-License-Identifier: Apache-2.0 */
/* What one rule takes of a time that others would report otherwise: decided once, before rules are asked. */
#pragma once

#include "trace/reports/rules/scene.h"

/* Which exposed communication is waiting for other ranks. -ENOMEM. */
int waits_read(struct scene *scene);
/* Which idle time is the profiler's own: parts of gaps become IDLE_PROFILER where it is worth a finding.
 * -ENOMEM. */
int profiler_read(struct scene *scene);
/* Compute time of kernels in chains that a fused kernel would not need, where it is worth a finding. -ENOMEM.
 */
int chains_read(struct scene *scene);
