/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that make a workload: of a verb that sends one. A file (--workload) may give it, the other
 * options then replace its members.
 */
#pragma once

#include "base/json.h"
#include "client/cli/options.h"

struct workload_options {
    const char *file, *model, *api, *path, *prompts, *template, *template_text, *arrival, *goodput;
    double rate, ramp, burstiness;
    int64_t isl, osl, shared_prefix, requests, duration, repeat, concurrency, warmup, seed, timeout;
};

/* Lines of an option table, for a member of that name in the verb's options. */
/* clang-format off */
#define WORKLOAD_OPTIONS(type, m)                                                                                     \
    {"workload", 0, "FILE", OPTION_TEXT, offsetof(type, m.file), "workload in YAML or JSON; other options replace its members"}, \
    {"model", 0, "NAME", OPTION_TEXT, offsetof(type, m.model), "default: the first that /v1/models names"},            \
    {"api", 0, "API", OPTION_TEXT, offsetof(type, m.api), "completions, chat, generate (SGLang), rtp-llm or template; default: auto, by the engine"}, \
    {"path", 0, "PATH", OPTION_TEXT, offsetof(type, m.path), "where the API is, if it is not at its usual place"},     \
    {"isl", 0, "N", OPTION_NUMBER, offsetof(type, m.isl), "Length of synthetic prompts in tokens"},                      \
    {"osl", 0, "N", OPTION_NUMBER, offsetof(type, m.osl), "Output length in tokens, enforced with ignore_eos (default: up to the model)"}, \
    {"prompts", 0, "FILE", OPTION_TEXT, offsetof(type, m.prompts), "prompts: lines of text, .jsonl, or .json (ShareGPT); - is standard input"}, \
    {"shared-prefix", 0, "N", OPTION_NUMBER, offsetof(type, m.shared_prefix), "tokens that synthetic prompts have in common, for a prefix cache"}, \
    {"requests", 'n', "N", OPTION_COUNT, offsetof(type, m.requests), "Number of requests to send (default: one per prompt)"},    \
    {"duration", 0, "TIME", OPTION_DURATION, offsetof(type, m.duration), "Time to send requests for: 60s"},                     \
    {"repeat", 0, "N", OPTION_COUNT, offsetof(type, m.repeat), "Number of times to send each prompt"},                           \
    {"concurrency", 'c', "N", OPTION_COUNT, offsetof(type, m.concurrency), "Maximum requests in flight (default without --rate: 1)"}, \
    {"rate", 0, "N", OPTION_REAL, offsetof(type, m.rate), "Requests per second, sent whether answers come or not"},    \
    {"arrival", 0, "HOW", OPTION_TEXT, offsetof(type, m.arrival), "poisson (default with --rate), constant, gamma, or timestamps of --prompts"}, \
    {"burstiness", 0, "N", OPTION_REAL, offsetof(type, m.burstiness), "of gamma: 1 is poisson, less is burstier"},      \
    {"ramp", 0, "N", OPTION_REAL, offsetof(type, m.ramp), "Requests per second at the end of the run, from --rate at its start"},     \
    {"warmup", 0, "N", OPTION_NUMBER, offsetof(type, m.warmup), "requests to each worker before, reported apart; default 2"}, \
    {"timeout", 0, "TIME", OPTION_DURATION, offsetof(type, m.timeout), "Per-request timeout (default: 10min)"},               \
    {"seed", 0, "N", OPTION_NUMBER, offsetof(type, m.seed), "of synthetic prompts and arrivals; default 0: prompts differ from run to run"},           \
    {"goodput", 0, "GOALS", OPTION_TEXT, offsetof(type, m.goodput), "what a good request keeps: ttft:200ms,tpot:30ms,e2e:2s"}, \
    {"template", 0, "FILE", OPTION_TEXT, offsetof(type, m.template), "body of a request in JSON, for any other API: {prompt}, {model} and {max_tokens} in it are filled in"}, \
    {"template-text", 0, "POINTER", OPTION_TEXT, offsetof(type, m.template_text), "JSON pointer to the text in its answer or events: /text"}
/* clang-format on */

/* The workload, complete as far as profctl knows. 0 or the problem. */
int workload_of_options(const struct workload_options *o, json_t **ret, struct problem *p);
