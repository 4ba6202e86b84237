/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of workers beside the load: their model, how many tokens a text has, their metrics. Small
 * calls, over the same loop, under the same policy.
 */
#pragma once

#include "daemon/fleet/call.h"
#include "daemon/load/order.h"
#include "daemon/load/prompts.h"
#include "daemon/load/request.h"

/* The model that a worker names first, in done(); NULL, with what it said instead, where it names none. */
void ask_model(struct caller *c, const struct order *o, const char *url,
               void (*done)(const char *model, const char *error, void *arg), void *arg);

/* How many tokens the target counts in a text; -1 where it does not say. */
struct count_order {
    const struct target *target;
    const struct workload *workload;
    const char *model, *text;
    const json_t *messages; /* instead of the text; NULL: none */
    bool is_plain;          /* the text alone, without what a chat puts around it */
};
void ask_tokens(struct caller *c, const struct order *o, const struct count_order *count,
                void (*done)(int64_t tokens, void *arg), void *arg);
