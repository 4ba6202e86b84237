/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/api.h"

#include <strings.h>

static const struct api *const apis[_LOAD_API_MAX] = {
    [LOAD_API_COMPLETIONS] = &api_completions, [LOAD_API_CHAT] = &api_chat,
    [LOAD_API_GENERATE] = &api_generate,       [LOAD_API_RTP_LLM] = &api_rtp_llm,
    [LOAD_API_TEMPLATE] = &api_template,
};

/* Every other engine and router speaks completions. */
static const struct {
    const char *engine;
    const struct api *api;
} engines[] = {
    {"rtp-llm", &api_rtp_llm},
};

const struct api *api_of(enum load_api api, const char *engine)
{
    if (api != LOAD_API_AUTO)
        return apis[api];
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
        if (streq(engines[i].engine, engine))
            return engines[i].api;
    return &api_completions;
}

bool api_is_last(const char *data)
{
    return strcasecmp(data, "[done]") == 0;
}

void api_event_init(struct api_event *e)
{
    *e = (struct api_event){.input_tokens = -1, .output_tokens = -1};
}

void api_put_error(struct api_event *e, const struct json_found *text,
                   const struct json_found *object_message)
{
    if (json_found_text(object_message))
        e->error = *object_message;
    else if (json_found_text(text) || text->kind == JSON_SCAN_OBJECT)
        e->error = *text;
}

json_t *api_tokenize_prompt(const struct api_request *q)
{
    json_t *body = json_object();

    json_put_str(body, "model", q->model);
    json_put_str(body, "prompt", q->prompt);
    return body;
}

/* vLLM and SGLang count; RTP-LLM lists. */
int64_t api_token_count(const char *text, size_t size)
{
    static const struct json_wanted wanted[] = {{{"count"}}, {{"token_ids"}}};
    struct json_found found[ARRAY_SIZE(wanted)];
    int64_t n = 0;

    if (json_scan(text, size, wanted, ARRAY_SIZE(wanted), found) < 0)
        return -1;
    if (found[1].kind != JSON_SCAN_ARRAY)
        return json_found_count(&found[0]);
    for (size_t i = 0; i < found[1].size; i++)
        n += found[1].at[i] == ',';
    return found[1].size > strlen("[]") ? n + 1 : 0;
}
