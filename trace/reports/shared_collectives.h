/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether two traces ran the same collectives: those of one process group with the same sequence number are
 * on the GPUs at the same time, and all ranks leave them together. Evidence for trace/read/instance.h.
 */
#pragma once

#include "trace/read/instance.h"
#include "trace/reports/analysis.h"

struct collective_moments;

struct shared_collectives {
    struct analysis *analysis;
    const int64_t *wall_shifts;       /* of each rank: added to its stamps they are wall clock; COLUMN_NULL */
    struct collective_moments *known; /* private: of each rank, once it was asked for */
    int error;                        /* -ENOMEM */
};

/* Both are the caller's and outlive it. -ENOMEM. */
int shared_collectives_init(struct shared_collectives *m, struct analysis *analysis,
                            const int64_t *wall_shifts);
void shared_collectives_done(struct shared_collectives *m);
/* An instance_events_fn; arg: struct shared_collectives. Undecided where the traces have no clock in common,
 * or too few collectives. */
enum instance_belief shared_collectives_compare(void *arg, size_t one, size_t other);
