/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real traces for tests, by names relative to TRACES_DIR: the complete set where there is one, else those of
 * tests/traces, of which the largest are left out (tests/traces/README.md).
 */
#pragma once

#include "base/alloc.h"
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static inline bool has_real_trace(const char *name)
{
    _cleanup_(freep) char *path = xasprintf("%s/%s", TRACES_DIR, name);

    if (access(path, R_OK) == 0)
        return true;
    printf("%s is not in %s\n", name, TRACES_DIR);
    return false;
}
