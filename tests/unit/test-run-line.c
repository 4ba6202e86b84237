/* SPDX-License-Identifier: Apache-2.0 */
/* What profd-load says, believed or not. */
#include "base/alloc.h"
#include "daemon/runs/line.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

#define REQUEST                                                                                              \
    "\"t\":\"request\",\"index\":3,\"prompt\":1,\"target\":\"http://"                                        \
    "w:1\",\"intended_ns\":50,\"outcome\":\"success\""

static struct load_line parsed(const char *text)
{
    struct load_line l;
    char *reason = NULL;

    int r = load_line_parse(text, strlen(text), &l, &reason);
    if (r < 0)
        print_error("%s\n", reason);
    assert_int_equal(r, 0);
    assert_null(reason);
    return l;
}

static void test_request(void **state)
{
    _cleanup_(load_line_done) struct load_line l =
        parsed("{" REQUEST ",\"cold\":true,\"sent_ns\":60,\"first_ns\":-1,\"last_ns\":null,\"ttft_ns\":null,"
               "\"input_tokens\":7,\"input_source\":\"usage\",\"status\":200,\"gaps_us\":[5,0,4294967295],"
               "\"more\":{}}");
    const struct request_row *q = &l.request;

    assert_int_equal(l.kind, LOAD_LINE_REQUEST);
    assert_int_equal(q->number, 3);
    assert_int_equal(q->intended_ns, 50);
    assert_int_equal(q->sent_ns, 60);
    assert_true(q->cold);
    assert_int_equal(q->first_ns, RECORD_NONE);
    assert_int_equal(q->last_ns, RECORD_NONE);
    assert_int_equal(q->ttft_ns, RECORD_NONE);
    assert_int_equal(q->output_tokens, RECORD_NONE);
    assert_int_equal(q->status, 200);
    assert_string_equal(q->input_source, "usage");
    assert_null(q->output_source);
    assert_string_equal(q->gaps_us, "[5,0,4294967295]");
}

static void test_texts_are_cut_between_characters(void **state)
{
    /* So that a character of two bytes lies across the limit. */
    _cleanup_(freep) char *error = xcalloc(2 * LOAD_TEXT_MAX, 1), *text = NULL;
    strcpy(error, "x");
    for (int i = 0; i < LOAD_TEXT_MAX / 2; i++)
        strcat(error, "\xc3\xa4");
    text = xasprintf("{" REQUEST ",\"error\":\"%s\"}", error);
    _cleanup_(load_line_done) struct load_line l = parsed(text);

    assert_int_equal(strlen(l.request.error), LOAD_TEXT_MAX - 1);
    assert_memory_equal(l.request.error, error, LOAD_TEXT_MAX - 1);
}

static void test_other_kinds(void **state)
{
    struct load_line l =
        parsed("{\"t\":\"warmed\",\"url\":\"http://w:1\",\"sent\":2,\"failed\":0,\"mean_ms\":1.5,\"x\":[]}");
    assert_int_equal(l.kind, LOAD_LINE_WARMED);
    assert_int_equal(json_object_size(l.object), 4);
    load_line_done(&l);

    l = parsed("{\"t\":\"ready\",\"model\":\"m\"}");
    assert_int_equal(l.kind, LOAD_LINE_READY);
    assert_string_equal(l.text, "m");
    load_line_done(&l);

    l = parsed("{\"t\":\"live\",\"sent\":5,\"ttft_p50_ms\":null,\"e2e_p50_ms\":\"fast\",\"kind\":\"trace-"
               "removed\"}");
    assert_int_equal(l.kind, LOAD_LINE_LIVE);
    assert_int_equal(json_object_size(l.object), 2);
    load_line_done(&l);

    l = parsed("{\"t\":\"note\",\"text\":\"n\"}");
    assert_int_equal(l.kind, LOAD_LINE_NOTE);
    assert_null(l.remedy);
    load_line_done(&l);

    l = parsed("{\"t\":\"failed\",\"text\":\"f\",\"remedy\":\"r\"}");
    assert_string_equal(l.remedy, "r");
    load_line_done(&l);

    l = parsed("{\"t\":\"end\",\"summary\":{\"a\":1}}");
    assert_int_equal(l.kind, LOAD_LINE_END);
    assert_int_equal(json_get_int(l.object, "a", 0), 1);
    load_line_done(&l);
}

static void test_wrong_lines(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "no JSON object"},
        {"[]", "no JSON object: another value"},
        {"{\"t\":\"request\"", "no JSON object"},
        {"{}", "a line of no kind"},
        {"{\"t\":5}", "a line of no kind"},
        {"{\"t\":\"requests\"}", "a line of no kind"},
        {"{\"t\":\"request\"}", "\"index\""},
        {"{" REQUEST ",\"index\":-1}", "\"index\""},
        {"{" REQUEST ",\"index\":10000000}", "\"index\""},
        {"{" REQUEST ",\"index\":\"3\"}", "\"index\""},
        {"{" REQUEST ",\"prompt\":null}", "\"prompt\""},
        {"{" REQUEST ",\"intended_ns\":-5}", "\"intended_ns\""},
        {"{" REQUEST ",\"intended_ns\":9007199254740993}", "\"intended_ns\""},
        {"{" REQUEST ",\"output_tokens\":9223372036854775807}", "\"output_tokens\""},
        {"{" REQUEST ",\"target\":null}", "\"target\""},
        {"{" REQUEST ",\"outcome\":\"fine\"}", "\"outcome\""},
        {"{" REQUEST ",\"e2e_ns\":1.5}", "\"e2e_ns\""},
        {"{" REQUEST ",\"error\":{}}", "\"error\""},
        {"{" REQUEST ",\"gaps_us\":{}}", "\"gaps_us\""},
        {"{" REQUEST ",\"gaps_us\":[1,-1]}", "\"gaps_us\""},
        {"{" REQUEST ",\"gaps_us\":[1,4294967296]}", "\"gaps_us\""},
        {"{" REQUEST ",\"gaps_us\":[\"1\"]}", "\"gaps_us\""},
        {"{\"t\":\"warmed\"}", "\"url\""},
        {"{\"t\":\"ready\",\"model\":7}", "\"model\""},
        {"{\"t\":\"note\",\"remedy\":\"r\"}", "\"text\""},
        {"{\"t\":\"failed\",\"text\":\"f\",\"remedy\":1}", "\"remedy\""},
        {"{\"t\":\"end\"}", "\"summary\""},
        {"{\"t\":\"end\",\"summary\":[]}", "\"summary\""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct load_line l;
        _cleanup_(freep) char *reason = NULL;
        if (load_line_parse(cases[i].text, strlen(cases[i].text), &l, &reason) != -EINVAL ||
            !strstr(reason, cases[i].reason))
            fail_msg("%s: %s", cases[i].text, reason ? reason : "is taken");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_texts_are_cut_between_characters),
        cmocka_unit_test(test_other_kinds),
        cmocka_unit_test(test_wrong_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
