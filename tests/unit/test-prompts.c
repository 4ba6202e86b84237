/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/prompts.h"

#include "base/alloc.h"
#include "tests/unit/cmocka-all.h"

#include <errno.h>

static json_t *parse(enum prompts_format format, const char *text, size_t size, int64_t limit,
                     struct problem *p)
{
    _cleanup_(fclosep) FILE *in = tmpfile();
    json_t *prompts = NULL;

    assert_non_null(in);
    assert_int_equal(fwrite(text, 1, size, in), size);
    rewind(in);
    int r = prompts_parse(in, format, "p.txt", limit, &prompts, p);
    assert_int_equal(r == 0, prompts != NULL);
    return prompts;
}

static void test_what_is_a_prompt(void **state)
{
    static const struct {
        enum prompts_format format;
        const char *text, *json;
        int64_t limit;
    } cases[] = {
        {PROMPTS_TEXT, "one\r\n\n  \ntwo {}", "[\"one\",\"two {}\"]", 0},
        {PROMPTS_TEXT, "one\ntwo\nthree\n", "[\"one\",\"two\"]", 2},
        {PROMPTS_JSONL, "\"a\"\n{\"prompt\":\"b\",\"osl\":3}\n\n{\"text\":\"c\"}\n",
         "[\"a\",{\"prompt\":\"b\",\"osl\":3},\"c\"]", 0},
        {PROMPTS_JSONL,
         "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"},"
         "{\"role\":\"assistant\",\"content\":\"a\"}]}",
         "[{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"}]}]",
         0},
        /* A history is kept with the model's own turns in it; a conversation in which nobody asks is left
           out. */
        {PROMPTS_JSONL,
         "{\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"1\"},{\"role\":\"assistant\",\"content\":"
         "\"2\"},"
         "{\"role\":\"user\",\"content\":\"3\"}]}}\n{\"messages\":[]}\n",
         "[{\"messages\":[{\"role\":\"user\",\"content\":\"1\"},{\"role\":\"assistant\",\"content\":\"2\"},"
         "{\"role\":\"user\",\"content\":\"3\"}]}]",
         0},
        {PROMPTS_JSONL,
         "{\"prompt\":\"a\",\"output_tokens\":7}\n{\"text\":\"b\",\"output_length\":8,\"image\":null}\n",
         "[{\"prompt\":\"a\",\"osl\":7},{\"prompt\":\"b\",\"osl\":8}]", 0},
        {PROMPTS_JSONL, "{\"prompt\":\"late\",\"timestamp\":1500}\n{\"prompt\":\"soon\",\"timestamp\":0.5}\n",
         "[{\"prompt\":\"soon\",\"at_ms\":0.5},{\"prompt\":\"late\",\"at_ms\":1500}]", 0},
        {PROMPTS_JSON,
         "[{\"conversations\":[{\"from\":\"system\",\"value\":\"s\"},{\"from\":\"human\",\"value\":\"q\"}]}]",
         "[{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"q\"}]}]",
         0},
        /* The length that is given counts, not the answer's. */
        {PROMPTS_JSON,
         "[{\"conversations\":[{\"from\":\"human\",\"value\":\"q\"},{\"from\":\"gpt\",\"value\":\"a\"}],"
         "\"osl\":3}]",
         "[{\"prompt\":\"q\",\"osl\":3}]", 0},
        {PROMPTS_JSON,
         " [ {\"id\":\"x\",\"conversations\":[{\"from\":\"human\",\"value\":\"q \\\"],\"},"
         "{\"from\":\"gpt\",\"value\":\"a\"}]} , {\"conversations\":[]},\n"
         "{\"conversations\":[{\"from\":\"gpt\",\"value\":\"a\"},{\"from\":\"human\",\"value\":\"r\"}]}, "
         "\"t\" ]",
         "[{\"prompt\":\"q \\\"],\",\"answer\":\"a\"},\"r\",\"t\"]", 0},
        /* What lies behind the limit is not even looked at. */
        {PROMPTS_JSON, "[\"a\", {broken", "[\"a\"]", 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_json_ prompts =
            parse(cases[i].format, cases[i].text, strlen(cases[i].text), cases[i].limit, &p);
        _cleanup_(freep) char *json = prompts ? json_dumps(prompts, JSON_COMPACT) : NULL;
        assert_non_null(json);
        assert_string_equal(json, cases[i].json);
    }
}

static void test_what_is_wrong_names_its_location(void **state)
{
    static const struct {
        enum prompts_format format;
        const char *text, *what;
    } cases[] = {
        {PROMPTS_TEXT, "", "p.txt contains no prompt"},
        {PROMPTS_TEXT, "\n \n\r\n", "p.txt contains no prompt"},
        {PROMPTS_TEXT, "a\n\xc3\n", "p.txt, line 2: it is not UTF-8"},
        {PROMPTS_JSONL, "\"a\"\n\n{\"prompt\":", "p.txt, line 3: not JSON"},
        {PROMPTS_JSONL, "{\"question\":\"a\"}", "p.txt, line 1: it contains no prompt"},
        {PROMPTS_JSONL, "{\"prompt\":\"\"}", "p.txt, line 1: it contains no prompt"},
        {PROMPTS_JSONL, "{\"prompt\":\"a\",\"osl\":0}", "p.txt, line 1: osl is not a whole number"},
        {PROMPTS_JSON, "[]", "p.txt contains no prompt"},
        {PROMPTS_JSON, "", "p.txt contains no prompt"},
        {PROMPTS_JSON, "{\"prompt\":\"a\"}", "p.txt is not a list in JSON"},
        {PROMPTS_JSON, "[\"a\", {\"x\":1}]", "p.txt, element 2: it contains no prompt"},
        {PROMPTS_JSON, "[\"a\", \"b\"", "p.txt, element 2: the list does not end"},
        {PROMPTS_JSON, "[\"a\" \"b\"]", "p.txt, element 1: not JSON"},
        {PROMPTS_JSON, "[\"a\",]", "p.txt, element 2: not JSON"},
        /* What would change a request is not left out in silence. */
        {PROMPTS_JSONL, "{\"prompt\":\"a\",\"tools\":[{}]}", "p.txt, line 1: tools is not supported"},
        {PROMPTS_JSONL, "{\"prompt\":\"a\",\"max_tokens\":5}", "p.txt, line 1: max_tokens is not supported"},
        {PROMPTS_JSONL, "{\"session_id\":\"a\",\"turns\":[{\"text\":\"a\"}]}",
         "line 1: turns is not supported"},
        {PROMPTS_JSONL, "{\"timestamp\":0,\"input_length\":9,\"output_length\":5,\"hash_ids\":[1]}",
         "line 1: the trace has lengths and hashes"},
        {PROMPTS_JSONL, "{\"prompt\":\"a\",\"timestamp\":1}\n\"b\"\n",
         "line 2: some prompts have a timestamp"},
        {PROMPTS_JSONL, "{\"prompt\":\"a\"}\n{\"prompt\":\"b\",\"timestamp\":1}\n",
         "line 2: some prompts have a timestamp"},
        {PROMPTS_JSONL, "{\"prompt\":\"a\",\"timestamp\":-1}", "line 1: timestamp is not a number"},
        {PROMPTS_JSONL, "{\"prompt\":\"a\",\"output_tokens\":1.5}",
         "line 1: output_tokens is not a whole number"},
        {PROMPTS_JSONL, "{\"messages\":[{\"content\":\"a\"}]}", "line 1: message 1 has no role"},
        {PROMPTS_JSONL, "{\"conversations\":[{\"from\":\"robot\",\"value\":\"a\"}]}",
         "line 1: turn 1 of its conversation"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(problem_done) struct problem p = {0};
        assert_null(parse(cases[i].format, cases[i].text, strlen(cases[i].text), 0, &p));
        assert_int_equal(p.kind, PROBLEM_BAD_REQUEST);
        if (!strstr(p.what, cases[i].what))
            fail_msg("%s instead of %s", p.what, cases[i].what);
    }
}

static void test_a_byte_of_zero_is_no_text(void **state)
{
    _cleanup_(problem_done) struct problem p = {0};

    assert_null(parse(PROMPTS_TEXT, "a\0b", 3, 0, &p));
    assert_non_null(strstr(p.what, "line 1"));
}

static void test_bounds(void **state)
{
    size_t size = PROMPTS_BYTES_MAX + PROMPT_ENTRY_MAX;
    _cleanup_(freep) char *text = xcalloc(size, 1);
    _cleanup_(problem_done) struct problem one = {0}, all = {0};

    memset(text, 'x', size);
    assert_null(parse(PROMPTS_TEXT, text, PROMPT_ENTRY_MAX + 1, 0, &one));
    assert_non_null(strstr(one.what, "line 1: it is longer than 4 MiB"));
    for (size_t i = 1 << 20; i < size; i += 1 << 20)
        text[i] = '\n';
    assert_null(parse(PROMPTS_TEXT, text, size, 0, &all));
    assert_int_equal(all.kind, PROBLEM_TOO_LARGE);
    assert_non_null(strstr(all.remedy, "--requests"));
    _cleanup_json_ some = parse(PROMPTS_TEXT, text, size, 3, NULL);
    assert_int_equal(json_array_size(some), 3);
}

static void test_formats(void **state)
{
    assert_int_equal(prompts_format_of("a.jsonl"), PROMPTS_JSONL);
    assert_int_equal(prompts_format_of("a.ndjson"), PROMPTS_JSONL);
    assert_int_equal(prompts_format_of("ShareGPT_V3.json"), PROMPTS_JSON);
    assert_int_equal(prompts_format_of("json"), PROMPTS_TEXT);
    assert_int_equal(prompts_format_of("-"), PROMPTS_TEXT);
}

static void test_formats_that_are_no_prompts_name_the_conversion(void **state)
{
    static const char *const paths[] = {"a.csv", "b.parquet", "c.jsonl.gz"};

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        _cleanup_(problem_done) struct problem p = {0};
        json_t *prompts = NULL;
        assert_int_equal(prompts_read(paths[i], 0, &prompts, &p), -EINVAL);
        assert_non_null(strstr(p.what, paths[i]));
        assert_non_null(strstr(p.remedy, "FILE"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_a_prompt),
        cmocka_unit_test(test_what_is_wrong_names_its_location),
        cmocka_unit_test(test_a_byte_of_zero_is_no_text),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_formats_that_are_no_prompts_name_the_conversion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
