/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workload: the requests to send, and when (proto/workload.schema.json); and the specification of a benchmark run
 * (proto/load.h), which has one. Parsed and checked. Pure: JSON in, plain structs out, which borrow nothing from it.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "daemon/fleet/call.h"
#include <sys/types.h>

#define WORKLOAD_REQUESTS_MAX    10000000
#define WORKLOAD_CONCURRENCY_MAX 20000
#define WORKLOAD_TOKENS_MAX      (1 << 20)
#define WORKLOAD_PROMPTS_MAX     1000000

enum load_api {
    LOAD_API_AUTO, /* by the target's engine */
    LOAD_API_COMPLETIONS,
    LOAD_API_CHAT,
    LOAD_API_GENERATE, /* SGLang */
    LOAD_API_RTP_LLM,
    LOAD_API_TEMPLATE,
    _LOAD_API_MAX,
};

enum arrival {
    ARRIVAL_CLOSED, /* `concurrency` requests in flight */
    ARRIVAL_CONSTANT,
    ARRIVAL_POISSON,
    ARRIVAL_GAMMA,      /* of `burstiness`: 1 is Poisson, less is burstier */
    ARRIVAL_TIMESTAMPS, /* each prompt at its at_ms */
    _ARRIVAL_MAX,
};

struct workload_goal {
    int64_t ttft_ns, tpot_ns, e2e_ns; /* 0: none */
};

struct workload_prompt {
    char *text;             /* of messages: their texts, a line each, for estimates */
    const json_t *messages; /* of the API chat, instead of text; NULL: none */
    char *answer;           /* its tokens are the output length; NULL: none */
    int64_t osl;            /* 0: the workload's */
    int64_t at_ns;          /* of ARRIVAL_TIMESTAMPS; counted from any moment, never descending; -1: none */
};

struct workload {
    char *model; /* NULL: the first that /v1/models names */
    enum load_api api;
    char *path;          /* NULL: the API's */
    json_t *template;    /* body of LOAD_API_TEMPLATE: "{prompt}", "{model}", "{max_tokens}" are filled in */
    char *template_text; /* JSON pointer to the text in a response or event, NULL: the first string */
    /* NULL: synthetic ones of isl tokens */
    struct workload_prompt *prompts;
    size_t n_prompts;
    bool has_answers, has_messages; /* of any prompt */
    int64_t isl, osl;               /* osl 0: up to the model */
    int64_t shared_prefix;          /* tokens that synthetic prompts have in common */
    int64_t requests;               /* 0: until duration_ns has passed */
    int64_t duration_ns;            /* 0: until all requests ended */
    int64_t repeat;                 /* times that each prompt is sent, 1 */
    int64_t concurrency; /* of ARRIVAL_CLOSED; the most in flight otherwise, 0: no bound but the limit */
    enum arrival arrival;
    double rate, rate_to; /* requests a second; rate_to != 0: a ramp over the run */
    double burstiness;    /* 1 */
    int64_t warmup;       /* requests for each worker, 2 */
    int64_t seed;         /* 0: synthetic prompts differ from run to run; the schedule is that of 0 */
    bool stream;          /* true */
    int64_t timeout_ns;   /* of one request, 10 min */
    int64_t drain_ns;     /* of requests in flight after the last was sent, 30 s with a duration */
    struct workload_goal goal;
};

/* Unknown members, wrong types and impossible combinations are problems that name the member. */
int workload_parse(const json_t *j, struct workload *ret, struct problem *p);
void workload_done(struct workload *w);

/* -- The specification of a run -- */

#define LOAD_WORKERS_MAX 10000

struct load_worker {
    char *url;    /* normalised, http or https */
    char *engine; /* NULL: unknown */
    pid_t pid;    /* 0: not on this host, or unknown */
};

struct load_workers {
    struct load_worker *items;
    size_t n; /* at least 1 */
};

/* The task of profd-load (proto/load.h). */
struct load_spec {
    struct workload workload;
    struct load_workers targets, warm, watched; /* see proto/load.h */
    struct network_policy policy;
    struct call_credentials credentials;
};

int load_spec_parse(const char *text, size_t size, struct load_spec *ret, struct problem *p);
void load_spec_done(struct load_spec *spec);
