/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output lengths of prompts that come with an answer (ShareGPT): as many tokens as the worker's tokenizer
 * counts in the answer, which is how vLLM's client has them. Counted before the run begins; each answer once.
 */
#pragma once

#include "base/clock.h"
#include "daemon/load/ask.h"

struct answer_lengths;

/*
 * done(counted) comes once, never before it returns; false: the tokenizer did not answer, or not within
 * ANSWER_LENGTHS_NS. Sets osl of the workload's prompts. Calls are the caller's: caller_free() comes before
 * answer_lengths_free().
 */
#define ANSWER_LENGTHS_NS (120 * NS_PER_S)
struct answer_lengths *answer_lengths_start(struct caller *caller, struct order *order,
                                            const struct target *target, const char *model,
                                            void (*done)(bool counted, void *arg), void *arg);
struct answer_lengths *answer_lengths_free(struct answer_lengths *a);
