/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The APIs of servers that a workload can use: one table, with the body of a request and what an event or response
 * contains. Pure.
 */
#pragma once

#include "daemon/load/json_scan.h"
#include "daemon/load/workload.h"

struct api_request {
    const struct workload *workload;
    const char *model; /* NULL where the server names none */
    const char *prompt;
    const json_t *messages; /* of a chat, instead of the prompt; NULL: none */
    int64_t osl;            /* 0: up to the model */
};

/* Of one event of a stream, or of a complete response. Texts point into it, JSON-escaped. */
struct api_event {
    struct json_found text;              /* absent or empty: no token for the user */
    bool is_cumulative;                  /* the text is all of it so far, not only the new part */
    bool finished;                       /* the generation's last event that may carry text */
    int64_t input_tokens, output_tokens; /* as counted by the server; -1 */
    struct json_found error;             /* message of a failed generation */
};

/*
 * Where an event has what is learned of it: n_texts alternatives of the text, of which the first one that is not empty
 * counts; the end of the generation; n_counts alternatives of the number of input tokens, and of output tokens; the
 * error; its message, which counts where there is no text.
 */
struct api_paths {
    size_t n_texts, n_counts;
    bool is_cumulative;
    struct json_wanted paths[JSON_SCAN_WANTED_MAX];
};

struct server_api {
    const char *name; /* as in workloads */
    const char *path;
    const char *tokenize_path;                             /* NULL: none that is known */
    json_t *(*body)(const struct api_request *q);          /* the caller's */
    json_t *(*tokenize_body)(const struct api_request *q); /* the caller's */
    const struct api_paths *paths;                         /* NULL: the workload's template_text */
};

extern const struct server_api api_completions, api_chat, api_generate, api_rtp_llm, api_template;

/* -EINVAL where it is not a JSON object. */
int api_read_event(const struct server_api *api, const struct workload *w, const char *text, size_t size,
                   struct api_event *ret);
/* LOAD_API_AUTO by the engine of the target, which may be NULL. */
const struct server_api *api_of(enum load_api api, const char *engine);
/* Whether data is what ends a stream, where an API has that: "[DONE]". */
bool api_is_last(const char *data, size_t size);
/* The number of tokens in a response of `tokenize_path`; -1. */
int64_t api_token_count(const char *text, size_t size);
json_t *api_tokenize_prompt(const struct api_request *q); /* {"model", "prompt"} */
