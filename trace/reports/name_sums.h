/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of GPU events by name, over ranks: each trace numbers its texts separately, so names are compared by
 * their text. Largest sum first.
 */
#pragma once

#include "trace/reports/analysis.h"

struct name_sum {
    struct text name; /* of the first trace that has it */
    enum kernel_class class;
    enum gpu_kind kind;
    uint64_t count;
    int64_t sum, mean, min, max, std, p50, p99;
    size_t min_rank, max_rank;
    uint64_t min_slice, max_slice;
    const int64_t *durations; /* `count` of them, shortest first */
};

struct name_sums {
    struct name_sum *items;
    size_t n;
    int64_t total;
    int64_t *durations; /* private: of all names */
};

/* -ENOMEM. */
int name_sums_of_gpu(struct analysis *a, struct name_sums *ret);
/* Of what begins within some times of each rank, one set for each of the analysis' ranks; NULL: nothing of
 * the rank. */
int name_sums_within(struct analysis *a, const struct intervals *const *times, struct name_sums *ret);
void name_sums_done(struct name_sums *sums);
