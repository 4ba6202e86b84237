/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "base/util.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
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

static size_t encode(uint32_t c, char *out)
{
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[n == 1 ? 0 : n] | c);
    out[n] = '\0';
    return n;
}

/* By the database of Unicode 15: Cc, Zl, Zp, Cf and Default_Ignorable_Code_Point without what scripts are
 * written with. */
static bool may_not_be_shown(uint32_t c)
{
    static const uint32_t formats[] = {0x00ad, 0x034f, 0x061c, 0x115f, 0x1160, 0x17b4, 0x17b5,
                                       0x180e, 0x200b, 0x200e, 0x200f, 0x3164, 0xfeff, 0xffa0};

    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (c == formats[i])
            return true;
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || (c >= 0xfff0 && c <= 0xfffb) || (c >= 0x1bca0 && c <= 0x1bca3) ||
           (c >= 0x1d173 && c <= 0x1d17a) || (c >= 0xe0000 && c <= 0xe0fff);
}

static void test_every_character_of_unicode(void **state)
{
    char dirty[8], blank[8];

    for (uint32_t c = 1; c <= 0x10ffff; c++) {
        size_t n = encode(c, dirty);
        bool is_surrogate = c >= 0xd800 && c <= 0xdfff, stays = !is_surrogate && !may_not_be_shown(c);
        const char *expected = stays ? dirty : is_surrogate ? "???" : "?";
        _cleanup_(freep) char *clean = text_clean(dirty, false);
        memcpy(blank, dirty, n + 1);
        text_blank(blank);
        bool is_blank = strspn(blank, " ") == n;
        if (strcmp(clean, expected) != 0 || (stays ? strcmp(blank, dirty) != 0 : !is_blank))
            fail_msg("U+%04X becomes %s", c, clean);
    }
}

static void test_no_character_of_unicode(void **state)
{
    static const char *const texts[] = {"\xc0\x9b",     "\xe0\x80\x9b",     "\xf0\x80\x80\x9b",
                                        "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80",
                                        "\x80",         "\xfe\xff"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        _cleanup_(freep) char *clean = text_clean(texts[i], true);
        assert_int_equal(strlen(clean), strlen(texts[i]));
        assert_int_equal(strspn(clean, "?"), strlen(clean));
    }
}

static void test_json(void **state)
{
    _cleanup_json_ value = json_string("a\x1b\x7f\xc2\x9b\xd8\x9c\xe2\x80\xae\u00e9\\");
    _cleanup_(freep) char *text = text_json(value, 0);
    assert_string_equal(text, "\"a\\u001B\\u007f\\u009B\\u061C\\u202E\\u00E9\\\\\"");
    _cleanup_json_ again = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_true(json_equal(again, value));
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
    /* A number keeps its unit; a word that only begins like one does not. */
    assert_wrapped("idle (12 %) of 107 ms, 3 some", 0, 9, "idle\n(12 %) of\n107 ms, 3\nsome");
    assert_wrapped("12 % ms of", 0, 5, "12 %\nms of");
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
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_every_character_of_unicode),
        cmocka_unit_test(test_no_character_of_unicode),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_without_heading),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
