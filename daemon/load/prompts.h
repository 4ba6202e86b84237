/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked: the workload's prompts in turn, or synthetic ones of an exact number of tokens. Pure.
 *
 * A synthetic prompt is made of words whose tokens add up: each costs what it costs wherever it stands, for
 * tokenizers do not merge over the space before a word. What a word costs is measured with the worker's
 * tokenizer (calibrate.h); until then each is one token, and the length an estimate. Prompts differ from each
 * other from their first word on (after shared_prefix tokens), so that no prefix cache answers them.
 */
#pragma once

#include "daemon/load/record.h"
#include "daemon/load/workload.h"

#define PROMPT_WORDS 24

struct prompts {
    const struct workload *workload; /* borrowed */
    uint64_t seed;
    bool exact;
    int64_t beside;             /* tokens that are no word's: begin of text, a chat's template */
    int64_t cost[PROMPT_WORDS]; /* 0: not usable */
};

/* nonce: of prompts that differ from run to run, where the workload has no seed. */
void prompts_init(struct prompts *p, const struct workload *w, uint64_t nonce);
const char *prompts_word(size_t i); /* with the space before it */
/* What the tokenizer said of a word alone and of PROMPT_REPEATS of it. */
#define PROMPT_REPEATS 9
void prompts_calibrate(struct prompts *p, size_t word, int64_t once, int64_t repeated);

/* Which prompt a request has; the caller frees the text. Its tokens are -1 where nobody counted them. Warm-up
 * has numbers below 0. */
int64_t prompts_of_request(const struct prompts *p, int64_t request);
char *prompts_text(const struct prompts *p, int64_t prompt, int64_t *ret_tokens,
                   enum token_source *ret_source);
/* What the API chat sends in place of the text, borrowed; NULL: nothing else. */
const json_t *prompts_messages(const struct prompts *p, int64_t prompt);
int64_t prompts_osl(const struct prompts *p, int64_t prompt);
/* Of a text that nobody counts: four bytes a token, as English has them. */
int64_t estimated_tokens(size_t bytes);
