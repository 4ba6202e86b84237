/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenAI's /v1/completions and /v1/chat/completions, as vLLM, SGLang and routers serve them. That an answer
 * has so many tokens and no fewer is an extension that both engines have: min_tokens and ignore_eos.
 */
#include "daemon/load/api.h"

#include <errno.h>

static json_t *body_of(const struct api_request *q)
{
    json_t *body = json_object();

    json_put_str(body, "model", q->model);
    json_object_set_new(body, "temperature", json_integer(0));
    if (q->osl > 0) {
        json_put_int(body, "max_tokens", q->osl);
        json_put_int(body, "min_tokens", q->osl);
        json_put_bool(body, "ignore_eos", true);
    }
    json_put_bool(body, "stream", q->workload->stream);
    if (q->workload->stream)
        json_object_set_new(body, "stream_options", json_pack("{sb}", "include_usage", 1));
    return body;
}

static json_t *messages_of(const struct api_request *q)
{
    return q->messages ? json_incref((json_t *)q->messages)
                       : json_pack("[{ssso}]", "role", "user", "content", json_text(q->prompt));
}

static json_t *completions_body(const struct api_request *q)
{
    json_t *body = body_of(q);
    json_put_str(body, "prompt", q->prompt);
    return body;
}

static json_t *chat_body(const struct api_request *q)
{
    json_t *body = body_of(q);
    json_object_set_new(body, "messages", messages_of(q));
    return body;
}

/* Counted with the chat's template around it. */
static json_t *chat_tokenize_body(const struct api_request *q)
{
    json_t *body = json_object();

    json_put_str(body, "model", q->model);
    json_object_set_new(body, "messages", messages_of(q));
    return body;
}

enum place {
    TEXT,
    DELTA,
    DELTA_REASONING,
    DELTA_REASONING_CONTENT,
    DELTA_ARGUMENTS,
    DELTA_FUNCTION,
    MESSAGE,
    MESSAGE_REASONING_CONTENT,
    MESSAGE_ARGUMENTS,
    MESSAGE_FUNCTION,
    REASON,
    INPUT,
    OUTPUT,
    ERROR,
    ERROR_MESSAGE,
    _PLACE_MAX,
};

static const struct json_wanted places[_PLACE_MAX] = {
    [TEXT] = {{"choices", "0", "text"}},
    [DELTA] = {{"choices", "0", "delta", "content"}},
    [DELTA_REASONING] = {{"choices", "0", "delta", "reasoning"}},
    [DELTA_REASONING_CONTENT] = {{"choices", "0", "delta", "reasoning_content"}},
    /* The tokens of an answer that only calls tools. */
    [DELTA_ARGUMENTS] = {{"choices", "0", "delta", "tool_calls", "0", "function", "arguments"}},
    [DELTA_FUNCTION] = {{"choices", "0", "delta", "tool_calls", "0", "function", "name"}},
    [MESSAGE] = {{"choices", "0", "message", "content"}},
    [MESSAGE_REASONING_CONTENT] = {{"choices", "0", "message", "reasoning_content"}},
    [MESSAGE_ARGUMENTS] = {{"choices", "0", "message", "tool_calls", "0", "function", "arguments"}},
    [MESSAGE_FUNCTION] = {{"choices", "0", "message", "tool_calls", "0", "function", "name"}},
    [REASON] = {{"choices", "0", "finish_reason"}},
    [INPUT] = {{"usage", "prompt_tokens"}},
    [OUTPUT] = {{"usage", "completion_tokens"}},
    [ERROR] = {{"error"}},
    [ERROR_MESSAGE] = {{"error", "message"}},
};

static int event_of(const struct workload *w, const char *text, size_t size, struct api_event *ret)
{
    struct json_found found[_PLACE_MAX];

    api_event_init(ret);
    if (json_scan(text, size, places, _PLACE_MAX, found) < 0)
        return -EINVAL;
    for (int i = TEXT; i <= MESSAGE_FUNCTION && !json_found_text(&ret->text); i++)
        ret->text = found[i];
    ret->finished = json_found_text(&found[REASON]);
    ret->input_tokens = json_found_count(&found[INPUT]);
    ret->output_tokens = json_found_count(&found[OUTPUT]);
    api_put_error(ret, &found[ERROR], &found[ERROR_MESSAGE]);
    return 0;
}

const struct api api_completions = {
    .name = "completions",
    .path = "/v1/completions",
    .tokenize_path = "/tokenize",
    .body = completions_body,
    .tokenize_body = api_tokenize_prompt,
    .event = event_of,
};

const struct api api_chat = {
    .name = "chat",
    .path = "/v1/chat/completions",
    .tokenize_path = "/tokenize",
    .body = chat_body,
    .tokenize_body = chat_tokenize_body,
    .event = event_of,
};
