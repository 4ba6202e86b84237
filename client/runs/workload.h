/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workload as people give it: a file in YAML or JSON (docs/workload.md), and options that replace its members, read
 * into the object that profd takes. Pure but for the files.
 *
 * Errors of a single member are reported here, with its line; profd checks whether members fit together.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "client/cli/options.h"

#define WORKLOAD_FILE_MAX (16 << 20)

/* name is printed in errors. *ret may have prompts_file. */
int workload_parse_text(const char *data, size_t size, const char *name, json_t **ret, struct problem *p);
/* A file, with the prompts of its prompts_file, which is relative to it. */
int workload_read(const char *path, json_t **ret, struct problem *p);

/* --goodput ttft:200ms,tpot:30ms,e2e:2s, as the "goodput" of a workload in *ret. */
int goals_parse(const char *text, json_t **ret, struct problem *p);

struct workload_options {
    const char *file, *model, *api, *path, *prompts, *template, *template_text, *arrival, *goodput;
    double rate, ramp, burstiness;
    int64_t isl, osl, shared_prefix, requests, duration, repeat, concurrency, warmup, seed, timeout;
};

/* Lines of an option table, for a member of that name in the verb's options. */
/* clang-format off */
#define WORKLOAD_OPTIONS(type, m)                                                                                     \
    {"workload", 0, "FILE", OPTION_TEXT, offsetof(type, m.file), "Workload file in YAML or JSON; other options replace its members"}, \
    {"model", 0, "NAME", OPTION_TEXT, offsetof(type, m.model), "Model name to send (default: the first of /v1/models)"},            \
    {"api", 0, "API", OPTION_TEXT, offsetof(type, m.api), "API to use: completions, chat, generate (SGLang), rtp-llm or template (default: by the engine)"}, \
    {"path", 0, "PATH", OPTION_TEXT, offsetof(type, m.path), "URL path of the API, if it is not the usual one"},     \
    {"isl", 0, "N", OPTION_NUMBER, offsetof(type, m.isl), "Length of synthetic prompts in tokens"},                      \
    {"osl", 0, "N", OPTION_NUMBER, offsetof(type, m.osl), "Output length in tokens, enforced with ignore_eos (default: up to the model)"}, \
    {"prompts", 0, "FILE", OPTION_TEXT, offsetof(type, m.prompts), "File of prompts: lines of text, .jsonl, or .json (ShareGPT); - is standard input"}, \
    {"shared-prefix", 0, "N", OPTION_NUMBER, offsetof(type, m.shared_prefix), "Number of tokens that all synthetic prompts begin with, for a prefix cache"}, \
    {"requests", 'n', "N", OPTION_COUNT, offsetof(type, m.requests), "Number of requests to send (default: one per prompt)"},    \
    {"duration", 0, "DURATION", OPTION_DURATION, offsetof(type, m.duration), "Time to send requests for: 60s"},                     \
    {"repeat", 0, "N", OPTION_COUNT, offsetof(type, m.repeat), "Number of times to send each prompt"},                           \
    {"concurrency", 'c', "N", OPTION_COUNT, offsetof(type, m.concurrency), "Maximum requests in flight (default without --rate: 1)"}, \
    {"rate", 0, "N", OPTION_REAL, offsetof(type, m.rate), "Requests per second, sent without waiting for responses"},    \
    {"arrival", 0, "PROCESS", OPTION_TEXT, offsetof(type, m.arrival), "Arrival process: poisson (default with --rate), constant, gamma, or timestamps of --prompts"}, \
    {"burstiness", 0, "N", OPTION_REAL, offsetof(type, m.burstiness), "Shape of gamma arrivals: 1 is poisson, less is burstier"},      \
    {"ramp", 0, "N", OPTION_REAL, offsetof(type, m.ramp), "Requests per second at the end of the run, from --rate at its start"},     \
    {"warmup", 0, "N", OPTION_NUMBER, offsetof(type, m.warmup), "Number of warm-up requests to each worker, reported separately (default: 2)"}, \
    {"timeout", 0, "DURATION", OPTION_DURATION, offsetof(type, m.timeout), "Per-request timeout (default: 10min)"},               \
    {"seed", 0, "N", OPTION_NUMBER, offsetof(type, m.seed), "Seed of synthetic prompts and arrivals (default: 0, prompts differ from run to run)"},           \
    {"goodput", 0, "GOALS", OPTION_TEXT, offsetof(type, m.goodput), "Latency goals of a good request: ttft:200ms,tpot:30ms,e2e:2s"}, \
    {"template", 0, "FILE", OPTION_TEXT, offsetof(type, m.template), "Request body in JSON for any other API: {prompt}, {model} and {max_tokens} in it are replaced"}, \
    {"template-text", 0, "POINTER", OPTION_TEXT, offsetof(type, m.template_text), "JSON pointer to the text in responses or events of --template: /text"}
/* clang-format on */

/* The workload that the options make; profd fills in defaults. 0 or the problem. */
int workload_of_options(const struct workload_options *o, json_t **ret, struct problem *p);
