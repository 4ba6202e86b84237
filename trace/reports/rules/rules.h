/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that there are. A new one is a struct in a file here, and a line. */
#pragma once

#include "trace/reports/rules/rule.h"

/* clang-format off */
#define RULES(R)                                                                                             \
    R(exposed_expert_parallel)                                                                               \
    R(exposed_all_reduce)                                                                                    \
    R(exposed_communication)                                                                                 \
    R(step_outlier)                                                                                          \
    R(straggler)                                                                                             \
    R(uneven_ranks)                                                                                          \
    R(missing_graph)                                                                                         \
    R(launch_bound)                                                                                          \
    R(sync_in_step)                                                                                          \
    R(pageable_copy)                                                                                         \
    R(exposed_copy)                                                                                          \
    R(allocation_in_step)                                                                                    \
    R(recompilation)                                                                                         \
    R(starved_by_tokenizer)                                                                                  \
    R(starved_by_scheduler)                                                                                  \
    R(starved_by_data)                                                                                       \
    R(starved_by_collector)                                                                                  \
    R(host_bound)                                                                                            \
    R(tiny_kernels)                                                                                          \
    R(unfused_elementwise)                                                                                   \
    R(prefill_steals_decode)                                                                                 \
    R(profiler_overhead)                                                                                     \
    R(idle_worker)

/* Asked once all others have been: scene.unclaimed is what these leave. */
#define LAST_RULES(R)                                                                                        \
    R(unexplained_idle)                                                                                      \
    R(gpu_bound)                                                                                             \
    R(recording_edge)                                                                                        \
    R(not_evaluated)

/* clang-format on */

#define R(name) extern const struct rule rule_##name;
RULES(R)
LAST_RULES(R)
#undef R
