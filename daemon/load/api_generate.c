/* SPDX-License-Identifier: Apache-2.0 */
/* SGLang's own /generate: each event has the whole text so far, and how many tokens that is. */
#include "daemon/load/api.h"

#include <errno.h>

static json_t *body_of(const struct api_request *q)
{
    json_t *sampling = json_pack("{si}", "temperature", 0), *body = json_object();

    if (q->osl > 0) {
        json_put_int(sampling, "max_new_tokens", q->osl);
        json_put_int(sampling, "min_new_tokens", q->osl);
        json_put_bool(sampling, "ignore_eos", true);
    }
    json_put_str(body, "text", q->prompt);
    json_object_set_new(body, "sampling_params", sampling);
    json_put_bool(body, "stream", q->workload->stream);
    return body;
}

enum place {
    TEXT,
    REASON,
    INPUT,
    OUTPUT,
    ERROR,
    ERROR_MESSAGE,
    _PLACE_MAX,
};

static const struct json_wanted places[_PLACE_MAX] = {
    [TEXT] = {{"text"}},
    [REASON] = {{"meta_info", "finish_reason"}},
    [INPUT] = {{"meta_info", "prompt_tokens"}},
    [OUTPUT] = {{"meta_info", "completion_tokens"}},
    [ERROR] = {{"error"}},
    [ERROR_MESSAGE] = {{"error", "message"}},
};

static int event_of(const struct workload *w, const char *text, size_t size, struct api_event *ret)
{
    struct json_found found[_PLACE_MAX];

    api_event_init(ret);
    if (json_scan(text, size, places, _PLACE_MAX, found) < 0)
        return -EINVAL;
    ret->text = found[TEXT];
    ret->whole_text = true;
    /* An object that says why; older versions have a text. */
    ret->finished = found[REASON].kind == JSON_SCAN_OBJECT || json_found_text(&found[REASON]);
    ret->input_tokens = json_found_count(&found[INPUT]);
    ret->output_tokens = json_found_count(&found[OUTPUT]);
    api_put_error(ret, &found[ERROR], &found[ERROR_MESSAGE]);
    return 0;
}

const struct api api_generate = {
    .name = "generate",
    .path = "/generate",
    .tokenize_path = "/tokenize",
    .body = body_of,
    .tokenize_body = api_tokenize_prompt,
    .event = event_of,
};
