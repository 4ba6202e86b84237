/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/ask.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/url.h"

#define ASK_TIMEOUT_NS    (10 * NS_PER_S)
#define TOKENS_ANSWER_MAX (64u << 20) /* SGLang's has every token's number */
#define ERROR_TEXT_MAX    300
#define MODEL_MAX         1024 /* bytes; each request says it again */

struct model_asked {
    void (*done)(const char *model, const char *error, void *arg);
    void *arg;
};

static void on_model(const struct call_result *r, void *arg)
{
    static const struct json_wanted first = {{"data", "0", "id"}};
    _cleanup_(freep) struct model_asked *asked = arg;
    char text[ERROR_TEXT_MAX], error[200];
    struct json_found id;

    if (r->err != 0 || r->status != 200) {
        asked->done(NULL, call_result_text(r, text, sizeof(text)), asked->arg);
        return;
    }
    if (json_scan(r->body, r->body_size, &first, 1, &id) < 0 || !json_found_text(&id) ||
        id.size > MODEL_MAX) {
        asked->done(NULL, "its answer has no data[0].id of at most 1024 bytes", asked->arg);
        return;
    }
    _cleanup_json_ answer = json_parse(r->body, r->body_size, error);
    const char *model = json_get_str(json_array_get(json_object_get(answer, "data"), 0), "id");
    asked->done(model, model ? NULL : error, asked->arg);
}

void ask_model(struct caller *c, const struct order *o, const char *url,
               void (*done)(const char *model, const char *error, void *arg), void *arg)
{
    _cleanup_(freep) char *at = url_join(url, "/v1/models");
    struct model_asked *asked = xcalloc(1, sizeof(*asked));

    *asked = (struct model_asked){done, arg};
    call_start(c,
               &(struct call_request){.method = "GET",
                                      .url = at,
                                      .credentials = &o->credentials,
                                      .deadline_ns = mono_ns() + ASK_TIMEOUT_NS},
               on_model, asked);
}

struct tokens_asked {
    void (*done)(int64_t tokens, void *arg);
    void *arg;
};

static void on_tokens(const struct call_result *r, void *arg)
{
    _cleanup_(freep) struct tokens_asked *asked = arg;
    bool ok = r->err == 0 && r->status == 200 && !r->cut;

    asked->done(ok ? api_token_count(r->body, r->body_size) : -1, asked->arg);
}

void ask_tokens(struct caller *c, const struct order *o, const struct count_order *count,
                void (*done)(int64_t tokens, void *arg), void *arg)
{
    const struct api *api = count->target->api;
    _cleanup_(freep) char *at = url_join(count->target->url, api->tokenize_path);
    struct tokens_asked *asked = xcalloc(1, sizeof(*asked));
    const struct api_request request = {.workload = count->workload,
                                        .model = count->model,
                                        .prompt = count->text,
                                        .messages = count->messages};
    _cleanup_json_ body = count->is_plain ? api_tokenize_prompt(&request) : api->tokenize_body(&request);
    _cleanup_(freep) char *text = json_dumps(body, JSON_COMPACT);

    *asked = (struct tokens_asked){done, arg};
    call_start(c,
               &(struct call_request){.method = "POST",
                                      .url = at,
                                      .body = text ? text : "{}",
                                      .credentials = &o->credentials,
                                      .deadline_ns = mono_ns() + ASK_TIMEOUT_NS,
                                      .answer_max = TOKENS_ANSWER_MAX},
               on_tokens, asked);
}
