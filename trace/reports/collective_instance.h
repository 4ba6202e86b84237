/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where ranks meet: the same collective on every rank, found by what it is (process group and operation, or
 * the kernel's name if the trace contains no more) and its position among those. Recordings do not begin at the
 * same one, so each rank's are moved by the few places by which they end most nearly together.
 */
#pragma once

#include "trace/reports/analysis.h"

struct collective_instance {
    struct text name;                /* of the kernel */
    const struct gpu_event **events; /* one for each rank of the analysis */
};

struct collective_instances {
    struct collective_instance *items; /* by when the first rank enters */
    size_t n, cap;
    const struct gpu_event **events; /* private */
};

/* Only what all ranks have; none of a single rank. -ENOMEM. */
int collective_instances_find(struct analysis *a, struct collective_instances *ret);
void collective_instances_done(struct collective_instances *e);

/* When a rank enters and leaves, on the clock that all ranks share. */
int64_t collective_instance_start(const struct analysis *a, const struct collective_instance *e, size_t rank);
int64_t collective_instance_end(const struct analysis *a, const struct collective_instance *e, size_t rank);
/* The rank that enters last. */
size_t collective_instance_last(const struct analysis *a, const struct collective_instance *e);
