/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "daemon/api/http_file.h"
#include "tests/unit/cmocka-all.h"

static void test_ranges(void **state)
{
    static const struct {
        const char *text;
        int64_t file_size;
        enum http_range_kind kind;
        struct http_range range;
    } cases[] = {
        {NULL, 100, HTTP_RANGE_NONE},
        {"", 100, HTTP_RANGE_NONE},
        {"bytes", 100, HTTP_RANGE_NONE},
        {"bytes=", 100, HTTP_RANGE_NONE},
        {"bytes=-", 100, HTTP_RANGE_NONE},
        {"bytes=1", 100, HTTP_RANGE_NONE},
        {"bytes=3-2", 100, HTTP_RANGE_NONE},
        {"bytes=0-1,5-6", 100, HTTP_RANGE_NONE},
        {"bytes= 0-1", 100, HTTP_RANGE_NONE},
        {"bytes=0-1x", 100, HTTP_RANGE_NONE},
        {"bytes=+0-1", 100, HTTP_RANGE_NONE},
        {"bytes=--1", 100, HTTP_RANGE_NONE},
        {"seconds=0-1", 100, HTTP_RANGE_NONE},
        {"bytes=0-0", 100, HTTP_RANGE_PART, {0, 1}},
        {"BYTES=0-99", 100, HTTP_RANGE_PART, {0, 100}},
        {"bytes=99-", 100, HTTP_RANGE_PART, {99, 1}},
        {"bytes=10-1000", 100, HTTP_RANGE_PART, {10, 90}},
        {"bytes=0-99999999999999999999999", 100, HTTP_RANGE_PART, {0, 100}},
        {"bytes=-1", 100, HTTP_RANGE_PART, {99, 1}},
        {"bytes=-1000", 100, HTTP_RANGE_PART, {0, 100}},
        {"bytes=-99999999999999999999999", 100, HTTP_RANGE_PART, {0, 100}},
        {"bytes=9223372036854775806-", INT64_MAX, HTTP_RANGE_PART, {INT64_MAX - 1, 1}},
        {"bytes=100-", 100, HTTP_RANGE_UNSATISFIABLE},
        {"bytes=99999999999999999999999-", 100, HTTP_RANGE_UNSATISFIABLE},
        {"bytes=-0", 100, HTTP_RANGE_UNSATISFIABLE},
        {"bytes=0-", 0, HTTP_RANGE_UNSATISFIABLE},
        {"bytes=-5", 0, HTTP_RANGE_UNSATISFIABLE},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct http_range range = {0};
        assert_int_equal(http_range_parse(cases[i].text, cases[i].file_size, &range), cases[i].kind);
        assert_int_equal(range.offset, cases[i].range.offset);
        assert_int_equal(range.size, cases[i].range.size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
