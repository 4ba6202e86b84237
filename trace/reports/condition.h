/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a comparison fail: "step.p50 > +5%", "gpu.idle > +1ms", "comm.exposed > 3ms". With a sign it is
 * the change that is looked at, without one the second's own figure. A pure parser.
 */
#pragma once

#include "base/util.h"

#define CONDITION_NAME_MAX 64

struct condition {
    char measure[CONDITION_NAME_MAX];
    bool is_below;  /* <, else > */
    bool is_change; /* of the change, else of what is after */
    bool is_share;  /* in parts of what was before, else in nanoseconds */
    double bound;   /* of a share: 0.05 for 5 % */
};

/* -EINVAL for what is none. */
int condition_parse(const char *text, struct condition *ret);
/* Whether it is met, and so the comparison fails. */
bool condition_is_met(const struct condition *c, int64_t before_ns, int64_t after_ns);
