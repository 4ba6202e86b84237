/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of prompts as people have them: lines of text, lines of JSON, a list in JSON (ShareGPT's), as the
 * "prompts" of a workload. Read from their beginning and never further than is needed: a data set has more
 * conversations than a run sends.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"

/* A workload has to fit into one request to profd. */
#define PROMPTS_BYTES_MAX (12 << 20)
#define PROMPTS_MAX       1000000
/* One line of a file, or one element of its list. */
#define PROMPT_ENTRY_MAX (4 << 20)

enum prompts_format {
    PROMPTS_TEXT,  /* one a line; empty lines are none */
    PROMPTS_JSONL, /* one value a line */
    PROMPTS_JSON,  /* one list of values */
};

/* By the ending of the file's name: .jsonl and .ndjson, .json, text. */
enum prompts_format prompts_format_of(const char *path);

/*
 * The first limit prompts (0: all) of a stream into *ret, a list of what a workload takes. A value is a text,
 * {"prompt": TEXT, "osl": N}, {"text": TEXT}, {"messages": [{"role","content"}]} or {"conversations":
 * [{"from","value"}]}, of both of which what a person says first is the prompt. Lists of no message are
 * passed over, as data sets have them. name is said in errors, with the line, or the place in the list
 * from 1.
 */
int prompts_parse(FILE *in, enum prompts_format format, const char *name, int64_t limit, json_t **ret,
                  struct problem *p);
/* The same of a file; "-" is standard input, as text. */
int prompts_read(const char *path, int64_t limit, json_t **ret, struct problem *p);
