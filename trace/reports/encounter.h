/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where ranks meet: the same collective on every rank, found by what it is (process group and operation, or
 * the kernel's name where the trace tells no more) and its place among those. Recordings do not begin at the
 * same one, so each rank's are moved by the few places by which they end most nearly together.
 */
#pragma once

#include "trace/reports/analysis.h"

struct encounter {
    struct text name;                /* of the kernel */
    const struct gpu_event **events; /* one for each rank of the analysis */
};

struct encounters {
    struct encounter *items; /* by when the first rank enters */
    size_t n, cap;
    const struct gpu_event **events; /* private */
};

/* Only what all ranks have; none of a single rank. -ENOMEM. */
int encounters_find(struct analysis *a, struct encounters *ret);
void encounters_done(struct encounters *e);

/* When a rank enters and leaves, on the clock that all ranks share. */
int64_t encounter_start(const struct analysis *a, const struct encounter *e, size_t rank);
int64_t encounter_end(const struct analysis *a, const struct encounter *e, size_t rank);
/* The rank that enters last. */
size_t encounter_last(const struct analysis *a, const struct encounter *e);
