/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to workers in addition to the load: the name of their model, and the number of tokens of texts. Calls go
 * over the same loop and network policy, and belong to the caller: caller_free() comes before the _free() of what
 * they serve.
 */
#pragma once

#include "daemon/load/request.h"

/* The first model that a worker names, in done(); NULL and the reason where it names none. */
void model_ask(struct caller *c, const struct load_spec *spec, const char *url,
               void (*done)(const char *model, const char *error, void *arg), void *arg);

/* The worker whose tokenizer is asked; all borrowed. */
struct tokenizer {
    struct caller *caller;
    struct load_spec *spec;
    const struct load_target *target;
    const char *model;
};

/*
 * Calibration: measures what each word of synthetic prompts costs, so that prompts have exactly as many tokens as
 * requested. One complete prompt is counted in the end: where the sum is off, tokens of this tokenizer do not add
 * up, and lengths stay estimates. done(exact) comes once, never before it returns.
 */
struct calibration;
struct calibration *calibration_start(const struct tokenizer *t, struct prompts *prompts,
                                      void (*done)(bool exact, void *arg), void *arg);
struct calibration *calibration_free(struct calibration *c);

/*
 * Output lengths of prompts that have an answer (ShareGPT): the number of tokens in the answer, as vLLM's client
 * has them. Sets osl of the workload's prompts before the run. done(counted) comes once, after at most
 * OUTPUT_LENGTHS_NS; false: the tokenizer did not respond in time.
 */
#define OUTPUT_LENGTHS_NS (120 * NS_PER_S)
struct token_counts;
struct token_counts *output_lengths_count(const struct tokenizer *t, void (*done)(bool counted, void *arg),
                                          void *arg);

/*
 * Counts after the run what no server counted: outputs from the texts that the records kept, inputs of given prompts,
 * by the worker of each. After at most RECORD_TOKENS_NS the rest stays as it is marked. Releases the kept texts;
 * done() comes once, perhaps before it returns. t->target is not used.
 */
#define RECORD_TOKENS_NS (30 * NS_PER_S)
struct token_counts *record_tokens_count(const struct tokenizer *t, struct load_records *records,
                                         const struct load_target *targets,
                                         void (*done)(bool counted, void *arg), void *arg);
struct token_counts *token_counts_free(struct token_counts *c);
