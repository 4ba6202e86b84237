/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct server_api *const apis[] = {&api_completions, &api_chat, &api_generate, &api_rtp_llm,
                                                &api_template};
static const char *const types[] = {"text/event-stream", "application/x-ndjson", "application/json", NULL};

static struct response read_answer(const struct server_api *api, const char *type, const char *text,
                                   size_t size, size_t at)
{
    static const struct workload w;
    struct response a = {.api = api, .workload = &w, .keep_text = true};

    response_head(&a, 200, type);
    if (response_feed(&a, text, at, 1000) && response_feed(&a, text + at, size - at, 1000))
        response_end(&a);
    return a;
}

/* However an answer is cut, the same is learned of it. The first byte says of which API and type it is, the
 * second where it is cut. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const struct server_api *api = apis[data[0] % ARRAY_SIZE(apis)];
    const char *type = types[data[0] / ARRAY_SIZE(apis) % ARRAY_SIZE(types)], *text = (const char *)data + 2;
    size_t n = size - 2, at = n ? data[1] % n : 0;
    struct response a = read_answer(api, type, text, n, 0), b = read_answer(api, type, text, n, at);
    enum token_source sources[2];

    if (response_outcome(&a) != response_outcome(&b) || a.n_gaps != b.n_gaps || a.text_size != b.text_size ||
        response_output_tokens(&a, &sources[0]) != response_output_tokens(&b, &sources[1]) ||
        sources[0] != sources[1] || strcmp(a.error, b.error) != 0)
        abort();
    api_token_count(text, n);
    response_done(&a);
    response_done(&b);
    return 0;
}
