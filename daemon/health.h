/* SPDX-License-Identifier: Apache-2.0 */
/* Health of profd: when it counts as stuck, and the status line of `systemctl status`. Pure. */
#pragma once

#include "base/clock.h"
#include "base/util.h"

/* A longer iteration of the loop delays every client. */
#define LOOP_LAG_MAX (5 * NS_PER_S)
/* Commits run on the loop; they wait for another process that writes, see CATALOG_BUSY_TIMEOUT_MS. */
#define CATALOG_PATIENCE (30 * NS_PER_S)
/* A directory on a server that is down holds a thread for minutes, which a restart would not help. */
#define THREADS_PATIENCE (10 * 60 * NS_PER_S)

struct pulse {
    int64_t lag_ns;            /* delay of the loop */
    int64_t catalog_waited_ns; /* for its commit; 0: it has answered */
    int64_t threads_waited_ns; /* for one of them; 0: they have answered */
};

/* The trouble, as a clause without a period; NULL where there is none. */
const char *health_trouble(const struct pulse *p);

struct status {
    int64_t fleets, workers, sessions;
    int64_t used, budget; /* bytes of the store; budget 0: not known */
    const char *broken;   /* why the catalog cannot be written, NULL */
    const char *remark;   /* of the last reload, NULL */
};

/* "2 fleets, 12 workers, 1 session running, 40.0 GiB of 200 GiB". The caller frees it. */
char *status_line(const struct status *s);
