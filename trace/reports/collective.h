/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies collective operations by name, and computes their size and bus bandwidth as defined by NCCL's
 * own tests (NVIDIA/nccl-tests, PERFORMANCE.md). Pure functions.
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
/* The row of TABLE_collective with the arguments of a slice; UINT64_MAX, which reads as COLUMN_NULL, without any. */
uint64_t collective_row(const struct columns *c, uint64_t slice);
/* By the name of the collective in the trace, or by that of its kernel. */
enum collective_kind collective_kind_of(struct text name);

/* Of an element; COLUMN_NULL for an unknown type. */
int64_t dtype_bytes(struct text dtype);
/* The size for bandwidths: the reduced data, or the result on every rank. COLUMN_NULL if a part of it is
 * unknown. */
int64_t collective_bytes(enum collective_kind kind, int64_t in_elements, int64_t out_elements,
                         int64_t element_bytes, int64_t group_size);
/* Ratio of bus bandwidth to algorithm bandwidth; NaN if unknown. */
double collective_bus_factor(enum collective_kind kind, int64_t group_size);
