/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml_json.h"

#include "base/alloc.h"
#include "tests/unit/cmocka-all.h"

static void test_values(void **state)
{
    static const struct {
        const char *yaml, *json; /* NULL: an error */
    } cases[] = {
        {"a: 1\nb: [true, no, ~, 'true', 1.5, 1.2.3, -, 0x10]",
         "{\"a\":1,\"b\":[true,false,null,\"true\",1.5,\"1.2.3\",\"-\",\"0x10\"]}"},
        {"{a: {b: c}}", "{\"a\":{\"b\":\"c\"}}"},
        {"--- x\n--- y\n", "\"x\""},
        {"a: &x 1\nb: *x\n", NULL},
        {"a: [1", NULL},
        {"? [a]\n: b", NULL},
        {"", NULL},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char error[200];
        _cleanup_json_ root = yaml_parse(cases[i].yaml, strlen(cases[i].yaml), error);
        _cleanup_(freep) char *text = root ? json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        assert_true(streq(text, cases[i].json));
        assert_int_equal(error[0] != '\0', cases[i].json == NULL);
    }
}

static void test_lines(void **state)
{
    static const char yaml[] = "model: m\n"
                               "# a remark\n"
                               "goodput:\n"
                               "  ttft: 200ms\n"
                               "prompts:\n"
                               "- plain\n"
                               "- prompt: x\n"
                               "  osl: 3\n";
    static const struct {
        const char *place;
        int line;
    } expected[] = {{"/model", 1},   {"/goodput", 3},          {"/goodput/ttft", 4},
                    {"/prompts", 5}, {"/prompts/1/prompt", 7}, {"/prompts/1/osl", 8}};
    char error[200];
    _cleanup_json_ lines = NULL;
    _cleanup_json_ root = yaml_parse_with_lines(yaml, strlen(yaml), error, &lines, NULL);

    assert_non_null(root);
    assert_int_equal(json_object_size(lines), ARRAY_SIZE(expected));
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
        assert_int_equal(json_get_int(lines, expected[i].place, 0), expected[i].line);
}

static void test_errors_name_the_line(void **state)
{
    static const struct {
        const char *yaml, *error;
    } cases[] = {
        {"a: 1\nb: 2\na: 3\n", "duplicate key a (line 3)"},
        {"a:\n  b: 1\n  b: 1\n", "duplicate key b (line 3)"},
        {"a: 1\n\tb: 2\n", "(line 2)"},
        {"a: &x 1\nb: *x\n", "aliases are not supported (line 2)"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char error[200];
        _cleanup_json_ lines = NULL;
        _cleanup_json_ root =
            yaml_parse_with_lines(cases[i].yaml, strlen(cases[i].yaml), error, &lines, NULL);
        assert_null(root);
        assert_null(lines);
        assert_non_null(strstr(error, cases[i].error));
    }
}

static void test_a_key_is_bounded(void **state)
{
    char key[YAML_POINTER_MAX / 2 + 1] = "", error[200];
    _cleanup_json_ lines = NULL;

    memset(key, 'k', sizeof(key) - 1);
    _cleanup_(freep) char *yaml = xasprintf("%s:\n  %s: 1\n", key, key);
    _cleanup_json_ root = yaml_parse_with_lines(yaml, strlen(yaml), error, &lines, NULL);
    assert_null(root);
    assert_string_equal(error, "a key is too long (line 2)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_errors_name_the_line),
        cmocka_unit_test(test_a_key_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
