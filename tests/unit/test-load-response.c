/* SPDX-License-Identifier: Apache-2.0 */
/* What is learned of answers, however they are cut into pieces, and of answers that are not what they should
 * be. */
#include "base/alloc.h"
#include "daemon/load/request.h"
#include "tests/unit/cmocka-all.h"

#define EVENT(text) "data: {\"choices\":[{\"index\":0,\"text\":\"" text "\",\"finish_reason\":null}]}\n\n"
#define LAST(text)  "data: {\"choices\":[{\"text\":\"" text "\",\"finish_reason\":\"length\"}]}\n\n"
#define USAGE                                                                                                \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10}}\n\n"
#define DONE "data: [DONE]\n\n"

static const struct workload plain;

/* Pieces of so many bytes, one a millisecond. */
static void feed(struct response *a, const char *text, size_t piece)
{
    size_t size = strlen(text);
    int64_t now_ns = 1000000;

    for (size_t i = 0; i < size; i += piece, now_ns += 1000000)
        if (!response_feed(a, text + i, MIN(piece, size - i), now_ns))
            return;
    response_end(a);
}

static struct response response_of(const struct server_api *api, const char *type, int status,
                                   const char *text, size_t piece)
{
    struct response a = {.api = api, .workload = &plain, .keep_text = true};

    response_head(&a, status, type);
    feed(&a, text, piece);
    return a;
}

static void test_stream(void **state)
{
    static const char text[] = EVENT("a\\u00e9\\n") EVENT("") EVENT(" b") LAST("c") USAGE DONE;

    for (size_t piece = 1; piece <= sizeof(text); piece++) {
        enum token_source source;
        struct response a =
            response_of(&api_completions, "text/event-stream; charset=utf-8", 200, text, piece);
        assert_int_equal(response_outcome(&a), OUTCOME_SUCCESS);
        assert_int_equal(a.n_gaps, 2);
        assert_int_equal(a.input_tokens, 7);
        assert_int_equal(response_output_tokens(&a, &source), 3);
        assert_int_equal(source, TOKENS_USAGE);
        assert_int_equal(a.text_size, strlen("a\\u00e9\\n bc"));
        assert_memory_equal(a.text, "a\\u00e9\\n bc", a.text_size);
        response_done(&a);
    }
}

static void test_moments(void **state)
{
    struct response a = {.api = &api_completions, .workload = &plain};

    response_head(&a, 200, "text/event-stream");
    assert_true(response_feed(&a, EVENT("x"), strlen(EVENT("x")), 5000000));
    assert_true(response_feed(&a, EVENT("y"), strlen(EVENT("y")), 7000600));
    assert_true(response_feed(&a, LAST(""), strlen(LAST("")), 9000000)); /* no token for anybody */
    response_end(&a);
    assert_int_equal(a.first_ns, 5000000);
    assert_int_equal(a.last_ns, 7000600);
    assert_int_equal(a.n_gaps, 1);
    assert_int_equal(a.gaps_us[0], 2001);
    response_done(&a);
}

/* API, content type, status, text; what comes of it. */
static const struct {
    const struct server_api *api;
    const char *type;
    int status;
    const char *text;
    enum outcome outcome;
    int64_t output_tokens;
    enum token_source source;
    const char *error; /* a part of it */
} answers[] = {
    {&api_completions, "text/event-stream", 200, EVENT("a") EVENT("b") DONE, OUTCOME_SUCCESS, 2,
     TOKENS_CHUNKS, NULL},
    {&api_completions, "text/event-stream", 200, EVENT("a") LAST("b"), OUTCOME_SUCCESS, 2, TOKENS_CHUNKS,
     NULL},
    {&api_completions, "text/event-stream", 200, EVENT("a") EVENT("b"), OUTCOME_INCOMPLETE, 2, TOKENS_CHUNKS,
     "before the generation did"},
    {&api_completions, "text/event-stream", 200, EVENT("a") "data: {\"choi", OUTCOME_INCOMPLETE, 1,
     TOKENS_CHUNKS, "before the generation did"},
    {&api_completions, "text/event-stream", 200, DONE, OUTCOME_ERROR, 0, TOKENS_UNKNOWN, "no tokens"},
    {&api_completions, "text/event-stream", 200, "", OUTCOME_ERROR, 0, TOKENS_UNKNOWN, "no tokens"},
    {&api_completions, "text/event-stream", 200, LAST("") USAGE DONE, OUTCOME_ERROR, 3, TOKENS_USAGE,
     "no tokens"},
    {&api_completions, "text/event-stream", 200, EVENT("a") "data: nonsense\n\n" DONE, OUTCOME_INCOMPLETE, 1,
     TOKENS_CHUNKS, "not JSON: nonsense"},
    {&api_completions, "text/event-stream", 200,
     EVENT("a") "data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n" DONE, OUTCOME_INCOMPLETE,
     1, TOKENS_CHUNKS, "the server reports an error: out of memory"},
    {&api_completions, "text/event-stream", 200, "data: {\"error\":\"no\"}\n\n", OUTCOME_ERROR, 0,
     TOKENS_UNKNOWN, "error: no"},
    {&api_completions, "text/event-stream", 200, EVENT("\xc3") EVENT("\xa9") DONE, OUTCOME_SUCCESS, 2,
     TOKENS_CHUNKS, NULL},
    {&api_completions, "application/json", 200,
     "{\"choices\":[{\"text\":\"all of "
     "it\",\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":4}}",
     OUTCOME_SUCCESS, 4, TOKENS_USAGE, NULL},
    {&api_completions, NULL, 200, "{\"choices\":[{\"text\":\"all of it\"}]}", OUTCOME_SUCCESS, 3,
     TOKENS_ESTIMATED, NULL},
    {&api_completions, "application/json", 400, "{\"error\":{\"message\":\"too long\"}}", OUTCOME_ERROR, 0,
     TOKENS_UNKNOWN, "400 Bad Request: {\"error\""},
    {&api_completions, "text/event-stream", 429, "", OUTCOME_ERROR, 0, TOKENS_UNKNOWN,
     "429 Too Many Requests"},
    {&api_completions, "text/html", 200, "<html>", OUTCOME_ERROR, 0, TOKENS_UNKNOWN, "not JSON: <html>"},
    {&api_chat, "text/event-stream", 200,
     "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
     "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"
     "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"}}]}\n\n" DONE,
     OUTCOME_SUCCESS, 2, TOKENS_CHUNKS, NULL},
    {&api_chat, "application/json", 200,
     "{\"choices\":[{\"message\":{\"content\":\"yes\"}}],\"usage\":{\"completion_tokens\":1}}",
     OUTCOME_SUCCESS, 1, TOKENS_USAGE, NULL},
    {&api_generate, "text/event-stream", 200,
     "data: "
     "{\"text\":\"a\",\"meta_info\":{\"prompt_tokens\":5,\"completion_tokens\":1,\"finish_reason\":null}}\n\n"
     "data: "
     "{\"text\":\"a\",\"meta_info\":{\"prompt_tokens\":5,\"completion_tokens\":1,\"finish_reason\":null}}\n\n"
     "data: {\"text\":\"a "
     "b\",\"meta_info\":{\"prompt_tokens\":5,\"completion_tokens\":9,\"finish_reason\":{\"type\":\"length\"}}"
     "}\n\n",
     OUTCOME_SUCCESS, 9, TOKENS_USAGE, NULL},
    {&api_rtp_llm, "text/event-stream", 200,
     "data:{\"response\":[\"a\"],\"finished\":false,\"aux_info\":{\"input_len\":3,\"output_len\":1}}\r\n\r\n"
     "data:{\"response\":\"ab\",\"finished\":true,\"aux_info\":{\"input_len\":3,\"output_len\":2}}"
     "\r\n\r\ndata:[done]\r\n\r\n",
     OUTCOME_SUCCESS, 2, TOKENS_USAGE, NULL},
    {&api_rtp_llm, "application/json", 200,
     "{\"response\":[\"abc\"],\"finished\":true,\"aux_info\":[{\"input_len\":3,\"output_len\":7}]}",
     OUTCOME_SUCCESS, 7, TOKENS_USAGE, NULL},
    {&api_rtp_llm, "application/json", 200, "{\"error_code\":514,\"message\":\"concurrency limit\"}",
     OUTCOME_ERROR, 0, TOKENS_UNKNOWN, "concurrency limit"},
    {&api_template, "application/x-ndjson", 200,
     "{\"response\":\"a\"}\n{\"response\":\"b\"}\n{\"response\":\"\",\"done\":true}\n", OUTCOME_SUCCESS, 2,
     TOKENS_CHUNKS, NULL},
};

static void test_answers(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
        for (size_t piece = 1; piece < 40; piece += 19) {
            enum token_source source;
            struct response a =
                response_of(answers[i].api, answers[i].type, answers[i].status, answers[i].text, piece);
            enum outcome outcome = response_outcome(&a);
            int64_t tokens = response_output_tokens(&a, &source);
            bool ok = outcome == answers[i].outcome && tokens == answers[i].output_tokens &&
                      source == answers[i].source &&
                      (answers[i].error ? strstr(a.error, answers[i].error) != NULL : !a.error[0]);
            if (!ok)
                fail_msg("answer %zu, pieces of %zu: outcome %d, %d tokens of source %d, \"%s\"", i, piece,
                         (int)outcome, (int)tokens, (int)source, a.error);
            response_done(&a);
        }
    }
}

/* -- What never ends ---------------------------------------------------------------------------------- */

static void test_endless_line(void **state)
{
    struct response a = {.api = &api_completions, .workload = &plain};
    char *zeros = xcalloc(1 << 16, 1);
    size_t n = 0;

    memset(zeros, 'x', 1 << 16);
    response_head(&a, 200, "text/event-stream");
    while (n < 1000 && response_feed(&a, zeros, 1 << 16, 1))
        n++;
    assert_in_range(n, 15, 17);
    assert_int_equal(response_outcome(&a), OUTCOME_ERROR);
    assert_non_null(strstr(a.error, "1 MiB"));
    response_done(&a);
    free(zeros);
}

static void test_endless_events(void **state)
{
    struct response a = {.api = &api_completions, .workload = &plain};
    char text[8192];
    size_t size = 0, n = 0;

    while (size + strlen(EVENT("x")) < sizeof(text))
        size += (size_t)sprintf(text + size, "%s", EVENT("x"));
    response_head(&a, 200, "text/event-stream");
    while (n < 10000 && response_feed(&a, text, size, 1))
        n++;
    assert_in_range(n, 8000, 8500);
    assert_int_equal(response_outcome(&a), OUTCOME_INCOMPLETE);
    response_done(&a);
}

/* -- Bodies ------------------------------------------------------------------------------------------- */

static void assert_body(const struct server_api *api, const struct workload *w, int64_t osl,
                        const char *expected)
{
    _cleanup_json_ body =
        api->body(&(struct api_request){.workload = w, .model = "m", .prompt = "hi \"you\"", .osl = osl});
    _cleanup_json_ wanted = json_loads(expected, 0, NULL);

    assert_non_null(wanted);
    if (!json_equal(body, wanted))
        fail_msg("%s: %s", api->name, json_dumps(body, 0));
}

static void test_bodies(void **state)
{
    struct workload stream = {.stream = true}, whole = {0};

    assert_body(
        &api_completions, &stream, 5,
        "{\"model\":\"m\",\"prompt\":\"hi \\\"you\\\"\",\"temperature\":0,\"stream\":true,\"stream_options\":"
        "{\"include_usage\":true},\"max_tokens\":5,\"min_tokens\":5,\"ignore_eos\":true}");
    assert_body(&api_chat, &whole, 0,
                "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi "
                "\\\"you\\\"\"}],\"temperature\":0,\"stream\":false}");
    assert_body(&api_generate, &stream, 5,
                "{\"text\":\"hi "
                "\\\"you\\\"\",\"stream\":true,\"sampling_params\":{\"temperature\":0,\"max_new_tokens\":5,"
                "\"min_new_tokens\":5,\"ignore_eos\":true}}");
    whole.template =
        json_loads("{\"q\":[\"say {prompt}!\"],\"n\":\"{max_tokens}\",\"of\":\"{model}\",\"k\":3}", 0, NULL);
    assert_body(&api_template, &whole, 5, "{\"q\":[\"say hi \\\"you\\\"!\"],\"n\":5,\"of\":\"m\",\"k\":3}");
    json_decref(whole.template);
}

static void test_template_text(void **state)
{
    struct workload w = {.template_text = (char *)"/a/1/b"};
    static const char text[] = "{\"id\":\"no\",\"a\":[{\"b\":\"neither\"},{\"b\":\"this\"}]}";
    struct api_event e;

    assert_int_equal(api_read_event(&api_template, &w, text, strlen(text), &e), 0);
    assert_int_equal(e.text.size, 4);
    assert_memory_equal(e.text.at, "this", 4);
    w.template_text = NULL;
    assert_int_equal(api_read_event(&api_template, &w, text, strlen(text), &e), 0);
    assert_memory_equal(e.text.at, "no", 2);
}

static void test_token_counts(void **state)
{
    static const struct {
        const char *text;
        int64_t n;
    } cases[] = {
        {"{\"count\": 12, \"tokens\": [1, 2]}", 12},
        {"{\"token_ids\": [5, 6, 7], \"tokens\": []}", 3},
        {"{\"token_ids\": []}", 0},
        {"{\"count\": \"12\"}", -1},
        {"{\"count\": -1}", -1},
        {"{\"count\": 999999999}", 999999999},
        {"{\"count\": 1000000000}", -1},
        {"{\"count\": 1e3}", -1},
        {"nonsense", -1},
        {"{\"detail\": \"Not Found\"}", -1},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(api_token_count(cases[i].text, strlen(cases[i].text)), cases[i].n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream),         cmocka_unit_test(test_moments),
        cmocka_unit_test(test_answers),        cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_endless_events), cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_template_text),  cmocka_unit_test(test_token_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
