/* SPDX-License-Identifier: Apache-2.0 */
/* Counts a defect that was found out of the order of the text: the smallest place is kept. */
#pragma once

#include "trace/read/events.h"

static inline void count_defect(struct defects *d, enum defect_kind kind, uint64_t n, uint64_t place)
{
    if (n > 0 && (d->count[kind] == 0 || place < d->first[kind]))
        d->first[kind] = place;
    d->count[kind] += n;
}
