/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "trace/read/span.h"

static struct span scan(const char *text, size_t size, size_t step)
{
    struct span s = {0};
    for (size_t at = 0; at < size; at += step)
        span_feed(&s, text + at, MIN(step, size - at));
    span_finish(&s);
    return s;
}

static struct span scan_text(const char *text)
{
    return scan(text, strlen(text), strlen(text));
}

static void test_numbers(void **state)
{
    static const struct {
        const char *text;
        int64_t first, last;
    } good[] = {
        {"{\"ts\": 5, \"dur\": 7}", 5000, 12000},
        {"{\"ts\":5,\"dur\":7,", 5000, 12000},
        {"\"ts\": 1712195495519689.047, \"dur\": 63.813,", 1712195495519689047, 1712195495519752860},
        {"\"ts\": 1365627862757.064,\n            \"dur\": 87412.863,\n", 1365627862757064, 1365627950169927},
        {"\"ts\": 1.5 , \"dur\" : 2.25 }", 1500, 3750},
        {"\"ts\": \"10.001\", \"dur\": 1,", 10001, 11001},
        {"\"ts\": 7, \"dur\": 68.0, ", 7000, 75000},
        {"\"ts\": 0.1239, \"dur\": 0,", 123, 123},
        {"\"ts\": 9223372036854775.807, \"dur\": 0,", INT64_MAX, INT64_MAX},
    };
    static const char *const bad[] = {
        "\"ts\": 5, \"dur\": NaN,",
        "\"ts\": 5, \"dur\": -1.-500,",
        "\"ts\": -5, \"dur\": 1,",
        "\"ts\": 5, \"dur\": 1e3,",
        "\"ts\": 5e1, \"dur\": 1,",
        "\"ts\": 5, \"dur\": ,",
        "\"ts\": 5, \"dur\": 7",
        "\"ts\": 5, \"pid\": 3, \"dur\": 7,",
        "\"ats\": 5, \"dur\": 7,",
        "\"ts\": 5, \"duration\": 7,",
        "\"ts\": 5. \"dur\": 7,",
        "\\\"ts\\\": 5, \\\"dur\\\": 7,",
        "\"ts\": 9223372036854775.807, \"dur\": 0.001,",
        "\"ts\": 9999999999999999, \"dur\": 1,",
        "\"ts\": 12345678901234567, \"dur\": 1,",
        "\"dur\"",
        "\"du",
        "",
    };
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        struct span s = scan_text(good[i].text);
        assert_int_equal(s.events, 1);
        assert_int_equal(s.first_ns, good[i].first);
        assert_int_equal(s.last_ns, good[i].last);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(scan(bad[i], strlen(bad[i]), 1).events, 0);
}

/* Events of many lengths, so that pairs lie across pieces and blocks at every offset. */
static void test_pieces_of_any_size(void **state)
{
    char text[20000];
    size_t n = 0;
    int events = 0;

    for (; n < sizeof(text) - 400; events++)
        n += (size_t)snprintf(
            text + n, sizeof(text) - n,
            "{\"ph\": \"X\", \"name\": \"%*s\", \"ts\": %d.%03d, \"dur\": %d, \"x\": \"dur\"},\n",
            events * 7 % 150, "module dur \\\"dur\\\"", 90000 - events * 11, events % 1000, events);
    struct span whole = scan(text, n, n);
    assert_int_equal(whole.events, events);
    assert_int_equal(whole.last_ns, 90000000);
    assert_int_equal(whole.first_ns, (90000 - (events - 1) * 11) * 1000 + (events - 1) % 1000);
    for (size_t step = 1; step < 700; step++) {
        struct span s = scan(text, n, step);
        assert_int_equal(s.events, events);
        assert_int_equal(s.first_ns, whole.first_ns);
        assert_int_equal(s.last_ns, whole.last_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_pieces_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
