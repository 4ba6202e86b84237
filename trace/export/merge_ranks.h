/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences between the clocks of ranks, measured by collectives: no rank leaves a collective before the last
 * one has entered it, so a collective ends at almost the same time on every rank. Pure functions
 * over columns. The merged trace itself is export_merge() of export.h.
 */
#pragma once

#include "trace/columns/columns.h"

/* Fewer collectives in common prove nothing. */
#define ALIGN_MATCHES_MIN 3
/* Smaller differences are not corrected: ranks do not leave a collective at the same nanosecond. */
#define ALIGN_TOLERANCE_NS 1000000

struct alignment {
    uint64_t matches;  /* collectives that both have */
    int64_t shift_ns;  /* to be added to the clock of `other`: the median over the matches */
    int64_t spread_ns; /* median distance from that: how well they agree on it */
};

/*
 * Compares ends of GPU collectives with the same process group, name and number in it. The two shifts are
 * already added to their timestamps. 0, also with too few matches (shift_ns is 0 then); -ENOMEM.
 */
int align_collectives(const struct columns *reference, int64_t reference_shift_ns,
                      const struct columns *other, int64_t other_shift_ns, struct alignment *ret);
/* Whether the alignment is large enough to move a clock for. */
bool alignment_is_needed(const struct alignment *a);
/* Nanoseconds to add to the timestamps of a trace for wall-clock time; COLUMN_NULL: unknown. */
int64_t align_wall_shift(const struct columns *c);
