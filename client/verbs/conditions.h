/* SPDX-License-Identifier: Apache-2.0 */
/* --fail-if of compare and diff: parsing its conditions, and printing which of them are met or undecided. */
#pragma once

#include "client/cli/client.h"
#include "trace/reports/condition.h"

struct condition_options {
    struct option_list list;
    bool by_estimate;
};

/* clang-format off */
#define CONDITION_OPTIONS(type, member, units, examples) \
    {"fail-if", 0, "CONDITION", OPTION_LIST, offsetof(type, member.list), "Exit with 5 if the 95 % interval meets the condition, with 6 if more " units " are needed to decide (repeatable): " examples}, \
    {"fail-if-estimate", 0, NULL, OPTION_FLAG, offsetof(type, member.by_estimate), "Decide --fail-if by the measured values, without their intervals"}
/* clang-format on */

/* An array of list.n conditions, the caller's to free. Returns an exit status. */
int conditions_parse(struct client *c, const struct condition_options *o, const char *remedy,
                     struct condition **ret);
/* Prints the decision about condition i if it is met or undecided; needed names what would decide it, or,
 * without values, why there are none, with the remedy. ns is the unit of measured times. Returns the exit status of
 * all conditions, given that of the earlier ones in status. */
int condition_report(struct client *c, const struct condition_options *o, size_t i,
                     const struct condition *condition, const struct condition_decision *d, double ns,
                     const char *needed, int status);
