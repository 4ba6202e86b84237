/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a test waits before it gives up: a deadline that is written for an idle machine, multiplied by
 * $PROFD_TEST_TIME_FACTOR or, where that is not set, by how many processes compete for each core. The same as
 * tests/patience.py.
 */
#pragma once

#include "base/util.h"
#include <sched.h>
#include <stdlib.h>

#define PATIENCE_FACTOR_MAX 20.0

static inline double patience_factor(void)
{
    const char *given = getenv("PROFD_TEST_TIME_FACTOR");
    double load = 0, factor;
    cpu_set_t cores;

    if (given && *given)
        factor = strtod(given, NULL);
    else
        factor = getloadavg(&load, 1) == 1 && sched_getaffinity(0, sizeof(cores), &cores) == 0
                     ? MIN(2 * load / CPU_COUNT(&cores), PATIENCE_FACTOR_MAX)
                     : 1;
    return MAX(factor, 1.0);
}

/* How often to look for what is there after so many looks on an idle machine. */
static inline int patience_tries(int tries)
{
    return (int)(tries * patience_factor());
}

/* At least ns. */
static inline int64_t patience_ns(int64_t ns)
{
    return (int64_t)((double)ns * patience_factor());
}
