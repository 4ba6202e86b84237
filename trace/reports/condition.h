/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions that make a comparison fail: "step.p50 > +5%", "gpu.idle > +1ms", "comm.exposed > 3ms". With a
 * sign, the bound is of the change; without one, of the second side's own figure. Pure.
 */
#pragma once

#include "base/estimate.h"
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
enum condition_result { CONDITION_NOT_MET, CONDITION_MET, CONDITION_UNDECIDED };

struct condition_decision {
    enum condition_result result;
    /* What is compared with the bound, and its 95 % interval: a share (0.05), or in the estimates' unit; NAN
     * where unknown. */
    double value, low, high;
    size_t units_needed; /* of each side, to decide; 0: unknown or very many */
    bool has_values;     /* both sides have a value; without, the condition is undecided */
};

/*
 * Whether the condition is met of two estimates whose unit is ns_of_unit nanoseconds: the 95 % interval must
 * lie beyond the bound. CONDITION_UNDECIDED where the interval includes the bound, or is unknown. With
 * by_estimate the interval is ignored; a value that is missing (not finite) decides nothing then, either.
 */
struct condition_decision condition_decide(const struct condition *c, const struct estimate *before,
                                           const struct estimate *after, double ns_of_unit, bool by_estimate);
/* "-1.0 %, 95 % interval -7.0 % to +6.0 %", or in milliseconds. The caller's. */
char *condition_decision_text(const struct condition *c, const struct condition_decision *d,
                              double ns_of_unit);
