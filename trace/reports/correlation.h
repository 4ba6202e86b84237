/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the GPU's runtime by their correlation, which is also that of the work they launched. */
#pragma once

#include "base/order.h"
#include "trace/columns/columns.h"

struct correlations {
    struct order_key *items; /* number: the correlation; item: the call's slice */
    size_t n;
};

/* Of calls that begin before a time. -ENOMEM. */
int correlations_read(const struct columns *c, int64_t before, struct correlations *ret);
void correlations_done(struct correlations *correlations);
/* The first of those with a correlation; n where there is none. */
size_t correlations_find(const struct correlations *correlations, int64_t correlation);
