/* SPDX-License-Identifier: Apache-2.0 */
/* What is put in order digit by digit is in the order in which comparing puts it. */
#include "base/statistics.h"
#include "tests/unit/cmocka-all.h"
#include "trace/reports/search.h"

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int64_t any(uint64_t r)
{
    return (int64_t)r;
}

static int64_t few(uint64_t r)
{
    return (int64_t)(r % 7) - 3;
}

static int64_t stamp(uint64_t r)
{
    return 1700000000000000000 + (int64_t)(r % 100000000000);
}

static int64_t at_the_ends(uint64_t r)
{
    return r % 3 == 0 ? INT64_MIN : r % 3 == 1 ? INT64_MAX : (int64_t)(r % 5);
}

static int64_t same(uint64_t r)
{
    return 42;
}

static int64_t (*const kinds[])(uint64_t r) = {any, few, stamp, at_the_ends, same};
/* Few are compared, many are not. */
static const size_t sizes[] = {0, 1, 2, 511, 512, 513, 20000};

static void keys_are_in_order(void **state)
{
    uint64_t random = 88172645463325252;

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
        for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
            size_t n = sizes[s];
            _cleanup_(freep) struct sort_item *keys = calloc(n + 1, sizeof(*keys));
            _cleanup_(freep) int64_t *numbers = calloc(n + 1, sizeof(*numbers));
            for (size_t i = 0; i < n; i++) {
                numbers[i] = kinds[k](next_random(&random));
                keys[i] = (struct sort_item){numbers[i], i};
            }
            sort_items(keys, n);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(keys[i].number, numbers[keys[i].item]);
                if (i > 0)
                    assert_true(keys[i - 1].number < keys[i].number ||
                                (keys[i - 1].number == keys[i].number && keys[i - 1].item < keys[i].item));
            }
            sort_ns(numbers, n);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(numbers[i], keys[i].number);
        }
}

static void halving_finds_the_first(void **state)
{
    static const int values[] = {1, 3, 3, 3, 8};

    assert_int_equal(FIRST_THAT(i, 0, 5, values[i] >= 3), 1);
    assert_int_equal(FIRST_THAT(i, 0, 5, values[i] > 3), 4);
    assert_int_equal(FIRST_THAT(i, 0, 5, values[i] > 8), 5);
    assert_int_equal(FIRST_THAT(i, 2, 5, values[i] >= 1), 2);
    assert_int_equal(FIRST_THAT(i, 0, 0, values[i] >= 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_in_order),
        cmocka_unit_test(halving_finds_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
