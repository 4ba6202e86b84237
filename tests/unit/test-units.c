/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/units.h"
#include "tests/unit/cmocka-all.h"

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"5", 5 * NS_PER_S},
        {"5s", 5 * NS_PER_S},
        {"250ms", 250 * NS_PER_MS},
        {"1.5 s", 1500 * NS_PER_MS},
        {"1h30min", 5400 * NS_PER_S},
        {"2d", 172800 * NS_PER_S},
        {"0", 0},
        {"infinity", INT64_MAX},
    };
    static const char *const bad[] = {"",    "s",   "5 parsecs",       "-1s", "0x10",
                                      "nan", "1e5", "99999999999999d", "5s!"};
    int64_t ns;

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_int_equal(parse_duration(good[i].text, &ns), 0);
        assert_int_equal(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(parse_duration(bad[i], &ns), -EINVAL);
}

static void test_sizes(void **state)
{
    int64_t bytes;
    char buf[UNIT_TEXT_MAX];

    assert_int_equal(parse_size("20G", &bytes), 0);
    assert_int_equal(bytes, INT64_C(20) << 30);
    assert_int_equal(parse_size("1.5MiB", &bytes), 0);
    assert_int_equal(bytes, 3 << 19);
    assert_int_equal(parse_size("77", &bytes), 0);
    assert_int_equal(bytes, 77);
    assert_int_equal(parse_size("0", &bytes), 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(parse_size("G", &bytes), -EINVAL);
    assert_int_equal(parse_size("-1", &bytes), -EINVAL);
    assert_int_equal(parse_size("5X", &bytes), -EINVAL);
    assert_int_equal(parse_size("9999999P", &bytes), -EINVAL);
    assert_string_equal(format_size(buf, 64277708), "61.3 MiB");
    assert_string_equal(format_size(buf, 1023), "1023 B");
    assert_string_equal(format_size(buf, 1024 * 1024 - 1), "1.0 MiB");
}

static void test_times(void **state)
{
    const int64_t now = INT64_C(1763647331) * NS_PER_S; /* 2025-11-20 14:02:11 UTC */
    int64_t t;

    assert_int_equal(parse_time("now", now, 1, &t), 0);
    assert_int_equal(t, now);
    assert_int_equal(parse_time("1h", now, 1, &t), 0);
    assert_int_equal(t, now - 3600 * NS_PER_S);
    assert_int_equal(parse_time("+10s", now, 1, &t), 0);
    assert_int_equal(t, now + 10 * NS_PER_S);
    assert_int_equal(parse_time("@1763647331.5", now, 1, &t), 0);
    assert_int_equal(t, now + NS_PER_S / 2);
    assert_int_equal(parse_time("2025-11-20T14:02:11Z", 0, 1, &t), 0);
    assert_int_equal(t, now);
    assert_int_equal(parse_time("2025-11-20T14:02:11.250Z", 0, 1, &t), 0);
    assert_int_equal(t, now + NS_PER_S / 4);
    assert_int_equal(parse_time("yesterday-ish", now, 1, &t), -EINVAL);
    assert_int_equal(parse_time("2025-11-20T14:02:11X", now, 1, &t), -EINVAL);
}

static void test_duration_text(void **state)
{
    char buf[UNIT_TEXT_MAX];

    assert_string_equal(format_duration(buf, 8200 * NS_PER_MS), "8.2s");
    assert_string_equal(format_duration(buf, 3100 * NS_PER_US), "3.1 ms");
    assert_string_equal(format_duration(buf, 437 * NS_PER_US), "437 us");
    assert_string_equal(format_duration(buf, NS_PER_MS - 1), "1.0 ms");
    assert_string_equal(format_duration(buf, NS_PER_S - 1), "1.0s");
    assert_string_equal(format_duration(buf, 0), "0s");
    assert_string_equal(format_duration(buf, INT64_MAX - 1), "106751d 23h");
    assert_string_equal(format_duration(buf, 724 * NS_PER_S), "12min 4s");
    assert_string_equal(format_duration(buf, 5400 * NS_PER_S), "1h 30min");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_duration_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
