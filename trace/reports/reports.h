/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reports that there are, in the order in which people read them. A new one is its file and a line here;
 * its struct is named after it.
 */
#pragma once

#include "trace/reports/report.h"

/* clang-format off */
#define REPORTS(R)                                                                                           \
    R(summary)                                                                                               \
    R(instances)                                                                                             \
    R(findings)                                                                                              \
    R(evaluated)                                                                                             \
    R(temporal)                                                                                              \
    R(categories)                                                                                            \
    R(kernels)                                                                                               \
    R(streams)                                                                                               \
    R(overlap)                                                                                               \
    R(launches)                                                                                              \
    R(launch_bound)                                                                                          \
    R(queue)                                                                                                 \
    R(gaps)                                                                                                  \
    R(gap_list)                                                                                              \
    R(collectives)                                                                                           \
    R(memcpy)                                                                                                \
    R(syncs)                                                                                                 \
    R(graphs)                                                                                                \
    R(graph_list)                                                                                            \
    R(ops)                                                                                                   \
    R(op_shapes)                                                                                             \
    R(op_kernels)                                                                                            \
    R(op_tree)                                                                                               \
    R(stacks)                                                                                                \
    R(frames)                                                                                                \
    R(sequences)                                                                                             \
    R(steps)                                                                                                 \
    R(layers)                                                                                                \
    R(memory)                                                                                                \
    R(memory_holders)                                                                                        \
    R(memory_timeline)                                                                                       \
    R(roofline)                                                                                              \
    R(functions)                                                                                             \
    R(ort)                                                                                                   \
    R(nvtx)                                                                                                  \
    R(nvtx_sum)                                                                                              \
    R(cuda_api_sum)                                                                                          \
    R(cuda_gpu_kern_sum)                                                                                     \
    R(cuda_gpu_mem_size_sum)                                                                                 \
    R(cuda_gpu_mem_time_sum)                                                                                 \
    R(osrt_sum)                                                                                              \
    R(ranks)                                                                                                 \
    R(stragglers)                                                                                            \
    R(imbalance)                                                                                             \
    R(critical_path)                                                                                         \
    R(critical_path_list)

/* clang-format on */

#define R(name) extern const struct report report_##name;
REPORTS(R)
#undef R
