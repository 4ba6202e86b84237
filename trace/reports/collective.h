/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective operations: which one it is by its name, and what NCCL's own tests (NVIDIA/nccl-tests,
 * PERFORMANCE.md) take for its size and its bus bandwidth. Pure functions.
 */
#pragma once

#include "trace/columns/columns.h"

enum collective_kind {
    COLLECTIVE_OTHER,
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_REDUCE,
    COLLECTIVE_GATHER,
    COLLECTIVE_SCATTER,
    COLLECTIVE_SEND,
    COLLECTIVE_RECV,
    COLLECTIVE_SEND_RECV,
    COLLECTIVE_BARRIER,
    COLLECTIVE_DISPATCH, /* of experts: DeepEP and the like */
    COLLECTIVE_COMBINE,
    _COLLECTIVE_KIND_MAX,
};

/* "all_reduce", ... */
const char *collective_kind_name(enum collective_kind kind);
/* By the name that the trace gives the collective, or that of its kernel. */
enum collective_kind collective_kind_of(struct text name);

/* Of an element; COLUMN_NULL for an unknown type. */
int64_t dtype_bytes(struct text dtype);
/* The size that bandwidths are of: all that is reduced, or all that every rank has in the end. COLUMN_NULL
 * where something of it is unknown. */
int64_t collective_bytes(enum collective_kind kind, int64_t in_elements, int64_t out_elements,
                         int64_t element_bytes, int64_t group_size);
/* Bus bandwidth of one of algorithm bandwidth; NaN where it is unknown. */
double collective_bus_factor(enum collective_kind kind, int64_t group_size);
