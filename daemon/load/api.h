/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The APIs that a workload can speak: one file for each, one table of them. Pure: a request's body out of
 * plain data, and what one event or answer says.
 */
#pragma once

#include "daemon/load/json_scan.h"
#include "daemon/load/workload.h"

struct api_request {
    const struct workload *workload;
    const char *model; /* NULL where the server names none */
    const char *prompt;
    const json_t *messages; /* of a chat, instead of the prompt; NULL: none */
    int64_t osl;            /* 0: as the server likes */
};

/* Of one event of a stream, or of a whole answer. Texts are of the event, as JSON has them escaped. */
struct api_event {
    struct json_found text;              /* absent or empty: no token for the user */
    bool whole_text;                     /* all of it so far, not what is new */
    bool finished;                       /* the generation's last event that may carry text */
    int64_t input_tokens, output_tokens; /* as far as the server counted; -1 */
    struct json_found error;             /* a message, where the event says that the generation failed */
};

struct api {
    const char *name;
    const char *path;
    const char *tokenize_path;                             /* NULL: none that is known */
    json_t *(*body)(const struct api_request *q);          /* the caller's */
    json_t *(*tokenize_body)(const struct api_request *q); /* the caller's */
    /* -EINVAL where it is no JSON object. */
    int (*event)(const struct workload *w, const char *text, size_t size, struct api_event *ret);
};

extern const struct api api_completions, api_chat, api_generate, api_rtp_llm, api_template;

/* LOAD_API_AUTO by the engine of the target, which may be NULL. */
const struct api *api_of(enum load_api api, const char *engine);
/* The words behind the last event of a stream, where an API has them: "[DONE]". */
bool api_is_last(const char *data);
/* How many tokens an answer of `tokenize_path` counts; -1. */
int64_t api_token_count(const char *text, size_t size);

/* For the files of APIs. */
void api_event_init(struct api_event *e);
void api_put_error(struct api_event *e, const struct json_found *text,
                   const struct json_found *object_message);
json_t *api_tokenize_prompt(const struct api_request *q); /* {"model", "prompt"} */
