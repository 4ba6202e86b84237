/* SPDX-License-Identifier: Apache-2.0 */
/* The one line of `systemctl status`. Pure. */
#pragma once

#include "base/util.h"

struct status {
    int64_t fleets, workers, sessions;
    int64_t used, budget; /* bytes of the store; budget 0: not known */
    const char *broken;   /* why the catalog cannot be written, NULL */
    const char *remark;   /* what else an operator should know, NULL */
};

/* "2 fleets, 12 workers, 1 session running, 40.0 GiB of 200 GiB". The caller frees it. */
char *status_line(const struct status *s);
