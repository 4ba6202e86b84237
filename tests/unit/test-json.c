/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "base/json_read.h"
#include "tests/unit/cmocka-all.h"

static void check(const char *text, size_t values_max, bool is_taken)
{
    char error[200] = "";
    _cleanup_json_ j = json_parse_bounded(text, strlen(text), values_max, error);

    assert_int_equal(j != NULL, is_taken);
    if (!is_taken)
        assert_non_null(strstr(error, "values"));
}

static void test_bound(void **state)
{
    check("7", 1, true);
    check("[1,2,3]", 4, true);
    check("[1,2,3]", 3, false);
    check("{\"a\":{\"b\":[]},\"c\":1}", 5, true);
    check("{\"a\":{\"b\":[]},\"c\":1}", 4, false);
}

static void test_texts_are_not_values(void **state)
{
    check("[\",,,,[[[{{{\"]", 2, true);
    check("[\"\\\",,,,\\\\\",1]", 3, true);
    check("[\"\\\\\",[],[],[]]", 3, false);
}

static void test_read_as_jansson_reads(void **state)
{
    static const char *const texts[] = {
        " {\"a\" : [ 1, -2,\t\"x\" ], \"b\":{},\"c\":[]}\r\n ",
        "[true,false,null]",
        "[0,-0,7,123456789012345678,9223372036854775807,-9223372036854775808]",
        "[0.5,-1e3,1E+2,2.50]",
        "{\"k\\n\":\"\\u00e9\\\"\",\"\xc3\xa9\":\"\xe5\xbc\xb5\",\"\":\"\"}",
        "{\"a\":1,\"b\":2,\"a\":3}",
        "\"\"",
        "7",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        json_error_t error;
        _cleanup_json_ tree = json_read(texts[i], strlen(texts[i]));
        _cleanup_json_ expected = json_loads(texts[i], JSON_DECODE_ANY, &error);
        assert_non_null(tree);
        assert_true(json_equal(tree, expected));
    }
}

static void test_not_json(void **state)
{
    static const char *const texts[] = {
        "",           " ",           "{",
        "[1",         "[1,]",        "{\"a\"}",
        "{\"a\":1,}", "{a:1}",       "01",
        "-",          "1.",          "1e",
        "+1",         "\"a",         "\"\\",
        "\"\\\"",     "truex",       "nul",
        "[1 2]",      "1 2",         "{}}",
        "\"\xff\"",   "\"\\u0000\"", "\"\n\"",
        "1-2",        "1..2",        "9223372036854775808",
        "1e999",      "[\"a\":1]",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        char error[200] = "";
        assert_null(json_read(texts[i], strlen(texts[i])));
        assert_null(json_parse(texts[i], strlen(texts[i]), error));
        assert_true(*error != '\0');
    }
}

static void test_deep(void **state)
{
    char text[2 * (JSON_READ_DEPTH_MAX + 1)], error[200];

    memset(text, '[', sizeof(text) / 2);
    memset(text + sizeof(text) / 2, ']', sizeof(text) / 2);
    assert_null(json_read(text, sizeof(text)));
    _cleanup_json_ deep = json_parse(text, sizeof(text), error),
                   *less = json_read(text + 1, sizeof(text) - 2);
    assert_non_null(deep);
    assert_non_null(less);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_texts_are_not_values),
        cmocka_unit_test(test_read_as_jansson_reads),
        cmocka_unit_test(test_not_json),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
