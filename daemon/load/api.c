/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/api.h"

#include "base/alloc.h"
#include <errno.h>
#include <inttypes.h>
#include <strings.h>

#define POINTER_MAX 256

/* An output of exactly osl tokens is an extension that all engines have. */
static void api_put_output_length(json_t *j, const char *most, const char *least, int64_t osl)
{
    if (osl == 0)
        return;
    json_put_int(j, most, osl);
    json_put_int(j, least, osl);
    json_put_bool(j, "ignore_eos", true);
}

json_t *api_tokenize_prompt(const struct api_request *q)
{
    json_t *body = json_object();

    json_put_str(body, "model", q->model);
    json_put_str(body, "prompt", q->prompt);
    return body;
}

/* -- Events, by the paths of an API -- */

/* Of alternative numbers, the one that is there; -1. */
static int64_t api_count_of(const struct json_found *found, size_t n)
{
    int64_t count = -1;

    for (size_t i = 0; i < n; i++)
        count = MAX(count, json_found_count(&found[i]));
    return count;
}

/* A text, an object with the reason (SGLang), or true. */
static bool api_is_finished(const struct json_found *f)
{
    return json_found_text(f) || f->kind == JSON_SCAN_OBJECT || (f->kind == JSON_SCAN_BOOL && *f->at == 't');
}

/* An error is a text, or an object that may have a message. */
static void api_take_error(struct api_event *e, const struct json_found *error,
                           const struct json_found *message)
{
    if (json_found_text(message) && e->text.kind == JSON_ABSENT)
        e->error = *message;
    else if (json_found_text(error) || error->kind == JSON_SCAN_OBJECT)
        e->error = *error;
}

static int api_read_paths(const struct api_paths *p, const char *text, size_t size, struct api_event *ret)
{
    size_t counts = p->n_texts + 1, error = counts + 2 * p->n_counts;
    struct json_found found[JSON_SCAN_WANTED_MAX];

    if (json_scan(text, size, p->paths, error + 2, found) < 0)
        return -EINVAL;
    for (size_t i = 0; i < p->n_texts && !json_found_text(&ret->text); i++)
        if (json_found_text(&found[i]) || ret->text.kind == JSON_ABSENT)
            ret->text = found[i];
    ret->is_cumulative = p->is_cumulative;
    ret->finished = api_is_finished(&found[p->n_texts]);
    ret->input_tokens = api_count_of(&found[counts], p->n_counts);
    ret->output_tokens = api_count_of(&found[counts + p->n_counts], p->n_counts);
    api_take_error(ret, &found[error], &found[error + 1]);
    return 0;
}

/* -- OpenAI's completions and chat, as vLLM, SGLang, TensorRT-LLM, ATOM, TokenSpeed and routers serve them --
 *
 * TensorRT-LLM refuses a body with a member that it does not know (tensorrt_llm/serve/openai_protocol.py,
 * OpenAIBaseModel), and knows all of these. ATOM ignores min_tokens and stream_options, takes ignore_eos, and ends each
 * stream with the usage (ROCm/ATOM atom/entrypoints/openai/protocol.py, serving_completion.py).
 */

static json_t *openai_body(const struct api_request *q)
{
    json_t *body = json_object();

    json_put_str(body, "model", q->model);
    json_object_set_new(body, "temperature", json_integer(0));
    api_put_output_length(body, "max_tokens", "min_tokens", q->osl);
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
    json_t *body = openai_body(q);
    json_put_str(body, "prompt", q->prompt);
    return body;
}

static json_t *chat_body(const struct api_request *q)
{
    json_t *body = openai_body(q);
    json_object_set_new(body, "messages", messages_of(q));
    return body;
}

/* Counted with the chat's template applied. */
static json_t *chat_tokenize_body(const struct api_request *q)
{
    json_t *body = json_object();

    json_put_str(body, "model", q->model);
    json_object_set_new(body, "messages", messages_of(q));
    return body;
}

static const struct api_paths openai_paths = {
    .n_texts = 10,
    .n_counts = 1,
    .paths = {{{"choices", "0", "text"}},
              {{"choices", "0", "delta", "content"}},
              {{"choices", "0", "delta", "reasoning"}},
              {{"choices", "0", "delta", "reasoning_content"}},
              /* The tokens of a response that only calls tools. */
              {{"choices", "0", "delta", "tool_calls", "0", "function", "arguments"}},
              {{"choices", "0", "delta", "tool_calls", "0", "function", "name"}},
              {{"choices", "0", "message", "content"}},
              {{"choices", "0", "message", "reasoning_content"}},
              {{"choices", "0", "message", "tool_calls", "0", "function", "arguments"}},
              {{"choices", "0", "message", "tool_calls", "0", "function", "name"}},
              {{"choices", "0", "finish_reason"}},
              {{"usage", "prompt_tokens"}},
              {{"usage", "completion_tokens"}},
              {{"error"}},
              {{"error", "message"}}},
};

const struct server_api api_completions = {
    .name = "completions",
    .path = "/v1/completions",
    .tokenize_path = "/tokenize",
    .body = completions_body,
    .tokenize_body = api_tokenize_prompt,
    .paths = &openai_paths,
};

const struct server_api api_chat = {
    .name = "chat",
    .path = "/v1/chat/completions",
    .tokenize_path = "/tokenize",
    .body = chat_body,
    .tokenize_body = chat_tokenize_body,
    .paths = &openai_paths,
};

/* -- SGLang's /generate: each event has the text so far, and its number of tokens --------------------- */

static json_t *sglang_body(const struct api_request *q)
{
    json_t *sampling = json_pack("{si}", "temperature", 0), *body = json_object();

    api_put_output_length(sampling, "max_new_tokens", "min_new_tokens", q->osl);
    json_put_str(body, "text", q->prompt);
    json_object_set_new(body, "sampling_params", sampling);
    json_put_bool(body, "stream", q->workload->stream);
    return body;
}

/* finish_reason is an object; in older versions a text. */
static const struct api_paths sglang_paths = {
    .n_texts = 1,
    .n_counts = 1,
    .is_cumulative = true,
    .paths = {{{"text"}},
              {{"meta_info", "finish_reason"}},
              {{"meta_info", "prompt_tokens"}},
              {{"meta_info", "completion_tokens"}},
              {{"error"}},
              {{"error", "message"}}},
};

const struct server_api api_generate = {
    .name = "generate",
    .path = "/generate",
    .tokenize_path = "/tokenize",
    .body = sglang_body,
    .tokenize_body = api_tokenize_prompt,
    .paths = &sglang_paths,
};

/* -- RTP-LLM, at the root of its server: each event has the text so far. A value of a prompt may be a list of one,
 * as for several prompts. ----------------------------------------------------------------------------- */

static json_t *rtp_llm_body(const struct api_request *q)
{
    json_t *config = json_object(), *body = json_object();

    json_put_bool(config, "is_streaming", q->workload->stream);
    json_put_bool(config, "yield_generator", q->workload->stream);
    api_put_output_length(config, "max_new_tokens", "min_new_tokens", q->osl);
    json_put_str(body, "prompt", q->prompt);
    json_object_set_new(body, "generate_config", config);
    return body;
}

/* An error is {"error_code": 514, "message": ...}. */
static const struct api_paths rtp_llm_paths = {
    .n_texts = 2,
    .n_counts = 2,
    .is_cumulative = true,
    .paths = {{{"response"}},
              {{"response", "0"}},
              {{"finished"}},
              {{"aux_info", "input_len"}},
              {{"aux_info", "0", "input_len"}},
              {{"aux_info", "output_len"}},
              {{"aux_info", "0", "output_len"}},
              {{"error"}},
              {{"message"}}},
};

const struct server_api api_rtp_llm = {
    .name = "rtp-llm",
    .path = "/",
    .tokenize_path = "/tokenizer/encode",
    .body = rtp_llm_body,
    .tokenize_body = api_tokenize_prompt,
    .paths = &rtp_llm_paths,
};

/* -- Any API that takes a JSON object and responds with texts ------------------------------------------
 *
 * The body is the workload's template, in whose strings {prompt}, {model} and {max_tokens} are replaced. A string
 * that is only "{max_tokens}" becomes a number.
 */

static json_t *template_fill_text(const char *text, const struct api_request *q)
{
    char max_tokens[24] = "";

    if (q->osl > 0)
        snprintf(max_tokens, sizeof(max_tokens), "%" PRId64, q->osl);
    if (streq(text, "{max_tokens}"))
        return q->osl > 0 ? json_integer(q->osl) : json_null();
    const struct {
        const char *name, *value;
    } fields[] = {
        {"{prompt}", q->prompt}, {"{model}", q->model ? q->model : ""}, {"{max_tokens}", max_tokens}};
    char *out = NULL;
    size_t size, i;
    FILE *f = xmemstream(&out, &size);

    while (*text) {
        for (i = 0; i < ARRAY_SIZE(fields) && !starts_with(text, fields[i].name); i++)
            ;
        if (i < ARRAY_SIZE(fields)) {
            fputs(fields[i].value, f);
            text += strlen(fields[i].name);
        } else {
            fputc(*text++, f);
        }
    }
    fclose(f);
    json_t *value = json_text(out);
    free(out);
    return value;
}

/* jansson bounds the depth of a parsed workload. */
static json_t *template_fill(const json_t *v, const struct api_request *q)
{
    const char *key;
    json_t *value, *copy;
    size_t i;

    if (json_is_string(v))
        return template_fill_text(json_string_value(v), q);
    if (json_is_object(v)) {
        copy = json_object();
        json_object_foreach((json_t *)v, key, value)
            json_object_set_new(copy, key, template_fill(value, q));
        return copy;
    }
    if (json_is_array(v)) {
        copy = json_array();
        json_array_foreach((json_t *)v, i, value)
            json_array_append_new(copy, template_fill(value, q));
        return copy;
    }
    return json_deep_copy(v);
}

static json_t *template_body(const struct api_request *q)
{
    return template_fill(q->workload->template, q);
}

/* The steps of a JSON pointer like "/choices/0/text", stored in buf. False where they are too many. */
static bool template_split_pointer(const char *pointer, char buf[static POINTER_MAX], struct json_wanted *ret)
{
    size_t n = 0;

    if (strlen(pointer) >= POINTER_MAX)
        return false;
    strcpy(buf, pointer);
    *ret = (struct json_wanted){0};
    for (char *p = buf; *p == '/'; n++) {
        if (n == JSON_SCAN_STEPS_MAX)
            return false;
        *p++ = '\0';
        ret->steps[n] = p;
        p += strcspn(p, "/");
    }
    return true;
}

static int template_event(const struct workload *w, const char *text, size_t size, struct api_event *ret)
{
    static const struct json_wanted errors[] = {{{"error"}}, {{"error", "message"}}};
    struct json_found found[ARRAY_SIZE(errors)];
    char steps[POINTER_MAX];
    struct json_wanted wanted;

    if (json_scan(text, size, errors, ARRAY_SIZE(errors), found) < 0)
        return -EINVAL;
    api_take_error(ret, &found[0], &found[1]);
    if (!w->template_text)
        json_scan_any_string(text, size, &ret->text);
    else if (template_split_pointer(w->template_text, steps, &wanted))
        json_scan(text, size, &wanted, 1, &ret->text);
    return 0;
}

const struct server_api api_template = {
    .name = "template",
    .path = "/",
    .body = template_body,
};

/* -- The table ---------------------------------------------------------------------------------------- */

static const struct server_api *const apis[_LOAD_API_MAX] = {
    [LOAD_API_COMPLETIONS] = &api_completions, [LOAD_API_CHAT] = &api_chat,
    [LOAD_API_GENERATE] = &api_generate,       [LOAD_API_RTP_LLM] = &api_rtp_llm,
    [LOAD_API_TEMPLATE] = &api_template,
};

/* All other engines and routers serve completions. */
static const struct {
    const char *engine;
    const struct server_api *api;
} engines[] = {
    {"rtp-llm", &api_rtp_llm},
};

const struct server_api *api_of(enum load_api api, const char *engine)
{
    if (api != LOAD_API_AUTO)
        return apis[api];
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
        if (streq(engines[i].engine, engine))
            return engines[i].api;
    return &api_completions;
}

int api_read_event(const struct server_api *api, const struct workload *w, const char *text, size_t size,
                   struct api_event *ret)
{
    *ret = (struct api_event){.input_tokens = -1, .output_tokens = -1};
    return api->paths ? api_read_paths(api->paths, text, size, ret) : template_event(w, text, size, ret);
}

bool api_is_last(const char *data, size_t size)
{
    static const char last[] = "[done]";
    return size == strlen(last) && strncasecmp(data, last, size) == 0;
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
