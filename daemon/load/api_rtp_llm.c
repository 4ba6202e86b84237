/* SPDX-License-Identifier: Apache-2.0 */
/* RTP-LLM's own API, at the root of its server: each event has the whole text so far. What it says of a
 * prompt may be a list of one, as for several prompts. */
#include "daemon/load/api.h"

#include <errno.h>

static json_t *body_of(const struct api_request *q)
{
    json_t *config = json_object(), *body = json_object();

    json_put_bool(config, "is_streaming", q->workload->stream);
    json_put_bool(config, "yield_generator", q->workload->stream);
    if (q->osl > 0) {
        json_put_int(config, "max_new_tokens", q->osl);
        json_put_int(config, "min_new_tokens", q->osl);
        json_put_bool(config, "ignore_eos", true);
    }
    json_put_str(body, "prompt", q->prompt);
    json_object_set_new(body, "generate_config", config);
    return body;
}

enum place {
    TEXT,
    FIRST_TEXT,
    FINISHED,
    INPUT,
    FIRST_INPUT,
    OUTPUT,
    FIRST_OUTPUT,
    ERROR,
    MESSAGE,
    _PLACE_MAX,
};

static const struct json_wanted places[_PLACE_MAX] = {
    [TEXT] = {{"response"}},
    [FIRST_TEXT] = {{"response", "0"}},
    [FINISHED] = {{"finished"}},
    [INPUT] = {{"aux_info", "input_len"}},
    [FIRST_INPUT] = {{"aux_info", "0", "input_len"}},
    [OUTPUT] = {{"aux_info", "output_len"}},
    [FIRST_OUTPUT] = {{"aux_info", "0", "output_len"}},
    [ERROR] = {{"error"}},
    [MESSAGE] = {{"message"}},
};

static int event_of(const struct workload *w, const char *text, size_t size, struct api_event *ret)
{
    struct json_found found[_PLACE_MAX];

    api_event_init(ret);
    if (json_scan(text, size, places, _PLACE_MAX, found) < 0)
        return -EINVAL;
    ret->text = found[found[TEXT].kind == JSON_SCAN_ARRAY ? FIRST_TEXT : TEXT];
    ret->whole_text = true;
    ret->finished = found[FINISHED].kind == JSON_SCAN_BOOL && *found[FINISHED].at == 't';
    ret->input_tokens = json_found_count(&found[found[INPUT].kind == JSON_ABSENT ? FIRST_INPUT : INPUT]);
    ret->output_tokens = json_found_count(&found[found[OUTPUT].kind == JSON_ABSENT ? FIRST_OUTPUT : OUTPUT]);
    /* {"error_code": 514, "message": ...} */
    api_put_error(ret, &found[ERROR], found[TEXT].kind == JSON_ABSENT ? &found[MESSAGE] : &found[ERROR]);
    return 0;
}

const struct api api_rtp_llm = {
    .name = "rtp-llm",
    .path = "/",
    .tokenize_path = "/tokenizer/encode",
    .body = body_of,
    .tokenize_body = api_tokenize_prompt,
    .event = event_of,
};
