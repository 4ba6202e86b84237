/* SPDX-License-Identifier: Apache-2.0 */
/* When profd counts as stuck, so that whoever watches it had better start it anew. Pure. */
#pragma once

#include "base/clock.h"

/* A turn of the loop that takes longer keeps everybody waiting. */
#define LOOP_LAG_MAX (5 * NS_PER_S)
/* Commits run on the loop; they wait for another process that writes, see CATALOG_BUSY_TIMEOUT_MS. */
#define CATALOG_PATIENCE (30 * NS_PER_S)
/* A directory on a server that is down holds a thread for minutes, which a restart would not help. */
#define THREADS_PATIENCE (10 * 60 * NS_PER_S)

struct pulse {
    int64_t lag_ns;            /* by which the loop was late */
    int64_t catalog_waited_ns; /* for its commit; 0: it has answered */
    int64_t threads_waited_ns; /* for one of them; 0: they have answered */
};

/* What is wrong, as "the loop ..." goes on; NULL where nothing is. */
const char *health_trouble(const struct pulse *p);
