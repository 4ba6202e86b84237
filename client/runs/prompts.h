/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of prompts: lines of text, lines of JSON, a list in JSON (ShareGPT's), as the "prompts" of a workload.
 * Only as many are read as a run sends: a data set has more conversations.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"

/* A workload has to fit into one request to profd. */
#define PROMPTS_BYTES_MAX (12 << 20)
#define PROMPTS_MAX       1000000
/* One line of a file, or one element of its list. */
#define PROMPT_ENTRY_MAX (4 << 20)
/* Of an output length, and of a timestamp: a week. */
#define PROMPT_TOKENS_MAX (1 << 20)
#define PROMPT_MS_MAX     (7 * 24 * 3600 * 1000.0)

enum prompts_format {
    PROMPTS_TEXT,  /* one a line; empty lines are none */
    PROMPTS_JSONL, /* one value a line */
    PROMPTS_JSON,  /* one list of values */
};

/* By the ending of the file's name: .jsonl and .ndjson, .json, text. */
enum prompts_format prompts_format_of(const char *path);

/*
 * The first limit prompts (0: all) of a stream into *ret, a list of what a workload takes. A value is a text
 * or an object with one of these members:
 * - prompt, text: the prompt
 * - messages: a chat (OpenAI), sent with system prompt and history up to its last user or tool message
 * - conversations: ShareGPT's; the first human turn, with the system prompt before it. The answer to it gives
 *   the output length ("answer", counted by the worker's tokenizer)
 *
 * In addition it may have an output length (osl, output_tokens, output_length, ...) and a timestamp in
 * milliseconds ("at_ms"), by which prompts are then sorted. Members that would change what is sent and are
 * not supported (images, tools, turns, max_tokens, ...) are refused by name; conversations without a question
 * are left out. name is printed in errors, with the line, or the position in the list from 1.
 */
int prompts_parse(FILE *in, enum prompts_format format, const char *name, int64_t limit, json_t **ret,
                  struct problem *p);
/* The same from a file; "-" is standard input, as text. Other formats are refused with a command
 * that converts them. */
int prompts_read(const char *path, int64_t limit, json_t **ret, struct problem *p);
