/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct api *const apis[] = {&api_completions, &api_chat, &api_generate, &api_rtp_llm,
                                         &api_template};
static const char *const types[] = {"text/event-stream", "application/x-ndjson", "application/json", NULL};

static struct answer read_answer(const struct api *api, const char *type, const char *text, size_t size,
                                 size_t at)
{
    static const struct workload w;
    struct answer a = {.api = api, .workload = &w, .keep_text = true};

    answer_head(&a, 200, type);
    if (answer_feed(&a, text, at, 1000) && answer_feed(&a, text + at, size - at, 1000))
        answer_end(&a);
    return a;
}

/* However an answer is cut, the same is learned of it. The first byte says of which API and type it is, the
 * second where it is cut. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const struct api *api = apis[data[0] % ARRAY_SIZE(apis)];
    const char *type = types[data[0] / ARRAY_SIZE(apis) % ARRAY_SIZE(types)], *text = (const char *)data + 2;
    size_t n = size - 2, at = n ? data[1] % n : 0;
    struct answer a = read_answer(api, type, text, n, 0), b = read_answer(api, type, text, n, at);
    enum token_source sources[2];

    if (answer_outcome(&a) != answer_outcome(&b) || a.n_gaps != b.n_gaps || a.text_size != b.text_size ||
        answer_output_tokens(&a, &sources[0]) != answer_output_tokens(&b, &sources[1]) ||
        sources[0] != sources[1] || strcmp(a.error, b.error) != 0)
        abort();
    api_token_count(text, n);
    answer_done(&a);
    answer_done(&b);
    return 0;
}
