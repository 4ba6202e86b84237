/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "tests/unit/cmocka-all.h"
#include "trace/read/number.h"

static enum number_kind scaled(const char *text, int decimals, int64_t *ret)
{
    return number_scaled(text, text + strlen(text), decimals, ret);
}

static void test_scaled(void **state)
{
    static const struct {
        const char *text;
        int decimals;
        enum number_kind kind;
        int64_t value;
    } cases[] = {
        {"0", 3, NUMBER_EXACT, 0},
        {"-0.000", 3, NUMBER_EXACT, 0},
        {"1", 3, NUMBER_EXACT, 1000},
        {"007", 0, NUMBER_EXACT, 7},
        {"1712195495505582.988", 3, NUMBER_EXACT, 1712195495505582988},
        {"9223372036854775.807", 3, NUMBER_EXACT, INT64_MAX},
        {"9223372036854775.808", 3, NUMBER_TOO_LARGE, 0},
        {"-9223372036854775.807", 3, NUMBER_EXACT, -INT64_MAX},
        {"9223372036854775.8074", 3, NUMBER_ROUNDED, INT64_MAX},
        {"9223372036854775.8075", 3, NUMBER_TOO_LARGE, 0},
        {"18446744073709551616", 0, NUMBER_TOO_LARGE, 0},
        {"18446744073709551615.9", 0, NUMBER_TOO_LARGE, 0},
        {"0.0004", 3, NUMBER_ROUNDED, 0},
        {"0.0005", 3, NUMBER_ROUNDED, 1},
        {"-0.0005", 3, NUMBER_ROUNDED, -1},
        {"0.00049999999999999999999999", 3, NUMBER_ROUNDED, 0},
        {"2.5000000", 3, NUMBER_EXACT, 2500},
        {"1.0", 0, NUMBER_EXACT, 1},
        {"1.5", 0, NUMBER_ROUNDED, 2},
        {"1e3", 0, NUMBER_EXACT, 1000},
        {"1.25E+2", 0, NUMBER_EXACT, 125},
        {"12345e-5", 3, NUMBER_ROUNDED, 123},
        {"5e-4", 3, NUMBER_ROUNDED, 1},
        {"5e-5", 3, NUMBER_ROUNDED, 0},
        {"0e999999999999", 3, NUMBER_EXACT, 0},
        {"1e999999999999", 3, NUMBER_TOO_LARGE, 0},
        {"1e-999999999999", 3, NUMBER_ROUNDED, 0},
        {"", 3, NUMBER_NONE, 0},
        {"-", 3, NUMBER_NONE, 0},
        {"NaN", 3, NUMBER_NONE, 0},
        {"inf", 3, NUMBER_NONE, 0},
        {"-Infinity", 3, NUMBER_NONE, 0},
        {"-1.-500", 3, NUMBER_NONE, 0},
        {"1.", 3, NUMBER_NONE, 0},
        {".5", 3, NUMBER_NONE, 0},
        {"1e", 3, NUMBER_NONE, 0},
        {"1e+", 3, NUMBER_NONE, 0},
        {"+1", 3, NUMBER_NONE, 0},
        {"0x10", 3, NUMBER_NONE, 0},
        {"1 ", 3, NUMBER_NONE, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t value = 0;
        print_message("%s\n", cases[i].text);
        assert_int_equal(scaled(cases[i].text, cases[i].decimals, &value), cases[i].kind);
        if (cases[i].kind != NUMBER_NONE && cases[i].kind != NUMBER_TOO_LARGE)
            assert_int_equal(value, cases[i].value);
    }
}

/* What the quick readers take, they take as number_scaled() does; behind the number stands what they must not
 * look at. */
static void assert_same(const char *number, const char *behind)
{
    char text[64 + NUMBER_AHEAD];
    int64_t quick = 0, exact = 0;
    const char *end = text + strlen(number), *got;
    enum number_kind kind = scaled(number, 3, &exact);

    memset(text, '7', sizeof(text));
    memcpy(text, number, strlen(number));
    memcpy(text + strlen(number), behind, strlen(behind));
    got = number_ns(text, &quick);
    if (got) {
        assert_ptr_equal(got, end);
        assert_int_equal(kind, NUMBER_EXACT);
        assert_int_equal(quick, exact);
    }
    kind = scaled(number, 0, &exact);
    got = number_int(text, &quick);
    if (got) {
        assert_ptr_equal(got, end);
        assert_int_equal(kind, NUMBER_EXACT);
        assert_int_equal(quick, exact);
    }
    got = number_plain(text);
    if (got) {
        assert_ptr_equal(got, end);
        assert_int_not_equal(kind, NUMBER_NONE);
    }
}

static void test_quick_readers_agree(void **state)
{
    static const char *const behinds[] = {",", "}", "]", " ", "\n", "\r", "\t"};
    static const char *const odd[] = {"",
                                      "-",
                                      "NaN",
                                      "-1.-500",
                                      "1e5",
                                      "1.",
                                      "-.5",
                                      "1.5e3",
                                      "true",
                                      "1.5.5",
                                      "--1",
                                      "\"1\"",
                                      "1-2",
                                      "- 1",
                                      "1.2345678901234567",
                                      "-1.5",
                                      "\x81",
                                      "1\x81",
                                      "1:",
                                      "1/",
                                      "1.5x",
                                      "0.123456789012345678901234567890"};
    char number[64];

    for (size_t b = 0; b < ARRAY_SIZE(behinds); b++) {
        for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
            assert_same(odd[i], behinds[b]);
        for (int whole = 1; whole <= 20; whole++) {
            for (int decimals = 0; decimals <= 6; decimals++) {
                int n = snprintf(number, sizeof(number), "%.*s", whole, "98765432109876543210");
                if (decimals > 0)
                    snprintf(number + n, sizeof(number) - (size_t)n, ".%.*s", decimals, "908172");
                assert_same(number, behinds[b]);
            }
        }
    }
}

static void test_quick_readers_take_what_traces_have(void **state)
{
    int64_t value;

    assert_non_null(number_ns("4026150069145.028,                                          ", &value));
    assert_int_equal(value, 4026150069145028);
    assert_non_null(number_ns("1712195495505582.98,                                        ", &value));
    assert_int_equal(value, 1712195495505582980);
    assert_non_null(number_ns("1661203462672776}                                           ", &value));
    assert_int_equal(value, 1661203462672776000);
    assert_non_null(number_ns("0\n                                                           ", &value));
    assert_int_equal(value, 0);
    assert_non_null(number_int("-14680064,                                                 ", &value));
    assert_int_equal(value, -14680064);
    assert_non_null(number_int("139924565131264 ,                                          ", &value));
    assert_int_equal(value, 139924565131264);
    assert_null(number_ns("9999999999999999,                                               ", &value));
    assert_null(number_int("12345678901234567,                                             ", &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_quick_readers_agree),
        cmocka_unit_test(test_quick_readers_take_what_traces_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
