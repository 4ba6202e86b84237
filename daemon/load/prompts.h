/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prompts of requests: the workload's in turn, or synthetic ones of an exact number of tokens. Pure.
 *
 * A synthetic prompt consists of words whose tokens add up: each costs the same everywhere, because tokenizers do not
 * merge over the space before a word. The cost of a word is measured with the worker's tokenizer (tokenizer.h);
 * until then each is one token, and the length an estimate. Prompts differ from each other from their first word on
 * (after shared_prefix tokens), so that no prefix cache serves them.
 */
#pragma once

#include "daemon/load/records.h"
#include "daemon/load/workload.h"

#define PROMPT_WORDS 24

struct prompts {
    const struct workload *workload; /* borrowed */
    uint64_t seed;
    bool exact;
    int64_t extra;              /* tokens that belong to no word: begin of text, a chat's template */
    int64_t cost[PROMPT_WORDS]; /* 0: not usable */
};

/* nonce: the seed of a workload that has none; its prompts differ from run to run. */
void prompts_init(struct prompts *p, const struct workload *w, uint64_t nonce);
const char *prompts_word(size_t i); /* with the space before it */
/* The tokens of one word, and of the word repeated PROMPT_REPEATS times. */
#define PROMPT_REPEATS 9
void prompts_calibrate(struct prompts *p, size_t word, int64_t once, int64_t repeated);

/* The prompt of a request, whose index is negative in warm-up; the caller frees the text. Its tokens are -1 where
 * they are not counted. */
int64_t prompts_of_request(const struct prompts *p, int64_t request);
char *prompts_text(const struct prompts *p, int64_t prompt, int64_t *ret_tokens,
                   enum token_source *ret_source);
/* The messages that the API chat sends instead of the text, borrowed; NULL: none. */
const json_t *prompts_messages(const struct prompts *p, int64_t prompt);
int64_t prompts_osl(const struct prompts *p, int64_t prompt);
/* The estimate for English text: four bytes a token. */
int64_t estimated_tokens(size_t bytes);
