/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "client/text/table.h"
#include "client/text/text.h"
#include "tests/unit/cmocka-all.h"
#include <locale.h>

static void assert_clean(const char *dirty, bool keep_lines, const char *clean)
{
    _cleanup_(freep) char *got = text_clean(dirty, keep_lines);
    assert_string_equal(got, clean);
}

static void test_clean(void **state)
{
    assert_clean("plain · text", false, "plain · text");
    assert_clean("\033[31mred\a", false, "?[31mred?");
    assert_clean("a\nb\rc\td", false, "a?b?c?d");
    assert_clean("a\nb\rc", true, "a\nb?c");
    assert_clean("csi \xc2\x9b"
                 "31m",
                 false, "csi ?31m");
    assert_clean("evil \xe2\x80\xae"
                 "gpj.exe",
                 false, "evil ?gpj.exe");
    assert_clean("broken \xff\xc3", false, "broken ??");
    assert_clean("cut \xe2\x82", false, "cut ??");
    assert_null(text_clean(NULL, true));
}

static void test_fit(void **state)
{
    assert_int_equal(text_fit("abcdef", 3), 3);
    assert_int_equal(text_fit("abc", 10), 3);
    assert_int_equal(text_fit("ä·öabc", 3), 6);
    assert_int_equal(text_fit("日本語", 5), 6); /* two columns each: the third does not fit */
    assert_int_equal(text_fit("\033[31mab\033[0mcd", 3), strlen("\033[31mab\033[0mc"));
    assert_int_equal(text_columns("\033[1mab·\033[0m"), 3);
    assert_int_equal(text_fit("", 0), 0);
}

static void assert_wrapped(const char *text, unsigned indent, unsigned width, const char *wrapped)
{
    _cleanup_(freep) char *got = text_wrap(text, indent, width);
    assert_string_equal(got, wrapped);
}

static void test_wrap(void **state)
{
    assert_wrapped("one two three", 2, 9, "one two\n  three");
    assert_wrapped("one", 2, 9, "one");
    assert_wrapped("", 2, 9, "");
    assert_wrapped("a-word-that-is-never-split by", 0, 8, "a-word-that-is-never-split\nby");
    assert_wrapped("say:\n  --config '{\"a\": 1, \"b\": 2}'", 2, 12,
                   "say:\n    --config '{\"a\": 1, \"b\": 2}'");
    assert_wrapped("one\ntwo\n", 1, 80, "one\n two");
}

static void assert_number(int64_t n, const char *text)
{
    char buf[32];
    assert_string_equal(text_number(buf, n), text);
}

static void test_numbers(void **state)
{
    _cleanup_(freep) char *one = text_count(1, "trace"), *many = text_count(1200, "trace"),
                          *none = text_count(0, "trace");

    assert_number(0, "0");
    assert_number(999, "999");
    assert_number(1000, "1,000");
    assert_number(1234567, "1,234,567");
    assert_number(-123456, "-123,456");
    assert_number(INT64_MIN, "-9,223,372,036,854,775,808");
    assert_string_equal(one, "1 trace");
    assert_string_equal(many, "1,200 traces");
    assert_string_equal(none, "0 traces");
}

static void test_table(void **state)
{
    static const struct table_column columns[] = {
        {"NAME", 0}, {"SIZE", COLUMN_RIGHT}, {"STATE", COLUMN_SHORTEN}};
    const struct screen plain = {.file = stdout};
    _cleanup_(table_freep) struct table *t = table_new(columns, ARRAY_SIZE(columns), true);

    table_add(t, (const char *[]){"a", "1", "all \033[2Jwell"});
    table_add(t, (const char *[]){"bcd·", NULL, ""});
    _cleanup_(freep) char *text = table_text(t, &plain, 2);
    assert_string_equal(text, "  NAME  SIZE  STATE\n"
                              "  a        1  all ?[2Jwell\n"
                              "  bcd·     -  -\n");
}

static void test_table_without_heading(void **state)
{
    static const struct table_column columns[] = {{"NAME", 0}};
    const struct screen plain = {.file = stdout};
    _cleanup_(table_freep) struct table *t = table_new(columns, 1, false);
    _cleanup_(freep) char *empty = table_text(t, &plain, 0);

    assert_string_equal(empty, "");
    table_add(t, (const char *[]){"x"});
    _cleanup_(freep) char *text = table_text(t, &plain, 0);
    assert_string_equal(text, "x\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean), cmocka_unit_test(test_fit),
        cmocka_unit_test(test_wrap),  cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_table), cmocka_unit_test(test_table_without_heading),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
