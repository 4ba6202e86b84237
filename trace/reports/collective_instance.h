/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches the same collective on every rank, by its identity (process group and operation, or the kernel's
 * name if the trace contains no more) and its position among those. Recordings do not begin at the same
 * collective, so that the positions of each rank are shifted by the number with the best agreement of the
 * ends.
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

/* Only collectives that all ranks have; none for a single rank. -ENOMEM. */
int collective_instances_find(struct analysis *a, struct collective_instances *ret);
void collective_instances_done(struct collective_instances *e);

/* Start and end on a rank, on the clock that all ranks share. */
int64_t collective_instance_start(const struct analysis *a, const struct collective_instance *e, size_t rank);
int64_t collective_instance_end(const struct analysis *a, const struct collective_instance *e, size_t rank);
/* How nearly each rank leaves collectives together with the first rank: the median distance of their ends, for
 * each rank of the analysis; COLUMN_NULL without collectives. -ENOMEM. */
int collective_instances_clock_errors(const struct analysis *a,
                                      const struct collective_instances *collectives, int64_t *ret);
/* The rank with the latest start. */
size_t collective_instance_last(const struct analysis *a, const struct collective_instance *e);
