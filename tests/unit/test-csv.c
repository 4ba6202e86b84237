/* SPDX-License-Identifier: Apache-2.0 */
#include "base/csv.h"
#include "base/util.h"
#include "tests/unit/cmocka-all.h"

static void check(void (*write)(FILE *out, const char *text), const char *text, const char *expected)
{
    char *written = NULL;
    size_t size;
    FILE *out = open_memstream(&written, &size);

    write(out, text);
    fclose(out);
    assert_string_equal(written, expected);
    free(written);
}

static void test_texts(void **state)
{
    static const struct {
        const char *text, *written;
    } cases[] = {
        {"gemm", "gemm"},
        {"", "\"\""},
        {"a,b", "\"a,b\""},
        {"say \"x\"", "\"say \"\"x\"\"\""},
        {"two\r\nlines", "\"two\r\nlines\""},
        {"a=b+c-d@e", "a=b+c-d@e"},
        {"'quoted'", "'quoted'"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check(csv_write, cases[i].text, cases[i].written);
    check(csv_write_quoted, "gemm", "\"gemm\"");
    check(csv_write_quoted, "", "\"\"");
}

static void test_formulas(void **state)
{
    static const char *const formulas[] = {
        "=1+1", "+1+1",     "-2+3",       "@SUM(A1)", "\tx", "\rx",  "\nx",  "=",    "+",
        "-",    "@",        "--cpu",      "-x",       "+.",  "-.e1", "-1e",  "-1e+", "-1 ",
        "-1,5", "+1.2.3",   "-0x10",      "-1e5+A1",  "＝1", "＋A1", "－A1", "＠A1", "=cmd|' /C calc'!A0",
        " =1",  "\ufeff=1", "\ufeff +A1",
    };

    for (size_t i = 0; i < ARRAY_SIZE(formulas); i++) {
        _cleanup_(freep) char *expected = NULL;
        assert_true(asprintf(&expected, "\"'%s\"", formulas[i]) > 0);
        check(csv_write, formulas[i], expected);
        check(csv_write_quoted, formulas[i], expected);
    }
    check(csv_write, "=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\"");
}

/* Programs of many countries separate by semicolons, and some by tabs. */
static void test_formulas_inside(void **state)
{
    static const struct {
        const char *text, *written;
    } cases[] = {
        {"a;=1+1", "\"a;'=1+1\""},  {"a\t@x", "\"a\t'@x\""},        {"a\n=1", "\"a\n'=1\""},
        {"-1\n=1", "\"'-1\n'=1\""}, {"a; =1;+b", "\"a;' =1;'+b\""}, {"a;-5", "\"a;-5\""},
        {"a;b", "\"a;b\""},         {"a\tb", "\"a\tb\""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check(csv_write, cases[i].text, cases[i].written);
}

static void test_numbers(void **state)
{
    static const char *const numbers[] = {"0",   "-5",     "+5",        "-0.25", "-.5",
                                          "+5.", "-1e-07", "-1.5E+300", "1e5",   "-9223372036854775808"};

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        check(csv_write, numbers[i], numbers[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_formulas_inside),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
