/* SPDX-License-Identifier: Apache-2.0 */
/* Delays between attempts: they double up to the maximum, and the random share only shortens them. */
#include "tests/unit/cmocka-all.h"

#include "base/backoff.h"
#include "base/clock.h"

static void delays_double_up_to_the_maximum(void **state)
{
    static const struct backoff b = {.first_ns = NS_PER_S, .max_ns = 30 * NS_PER_S};
    static const int64_t seconds[] = {1, 1, 2, 4, 8, 16, 30, 30};

    for (unsigned i = 0; i < sizeof(seconds) / sizeof(*seconds); i++) {
        assert_int_equal(backoff_ns(&b, i, 0), seconds[i] * NS_PER_S);
        assert_int_equal(backoff_ns(&b, i, UINT32_MAX), seconds[i] * NS_PER_S);
    }
    assert_int_equal(backoff_ns(&b, UINT32_MAX, 0), 30 * NS_PER_S);
}

static void random_bits_shorten_by_their_share(void **state)
{
    static const struct backoff b = {
        .first_ns = 2 * NS_PER_S, .max_ns = 300 * NS_PER_S, .random_percent = 50};

    assert_int_equal(backoff_ns(&b, 1, 0), NS_PER_S);
    assert_int_equal(backoff_ns(&b, 1, UINT32_MAX), 2 * NS_PER_S);
    for (unsigned i = 0; i < 100; i++) {
        int64_t least = backoff_ns(&b, i, 0), most = backoff_ns(&b, i, UINT32_MAX);
        assert_int_equal(most, 2 * least);
        assert_true(backoff_ns(&b, i, UINT32_MAX / 3) > least);
        assert_true(backoff_ns(&b, i, UINT32_MAX / 3) < most);
        assert_true(most <= b.max_ns);
    }
}

static void limits_hold_for_any_numbers(void **state)
{
    static const struct backoff large = {.first_ns = INT64_MAX / 3, .max_ns = INT64_MAX},
                                first_is_larger = {.first_ns = 5 * NS_PER_S, .max_ns = NS_PER_S},
                                all = {.first_ns = NS_PER_S, .max_ns = NS_PER_S, .random_percent = 100};

    assert_int_equal(backoff_ns(&large, 1000, 0), INT64_MAX);
    assert_int_equal(backoff_ns(&first_is_larger, 3, 0), NS_PER_S);
    assert_int_equal(backoff_ns(&all, 1, 0), 0);
    assert_int_equal(backoff_ns(&all, 1, UINT32_MAX), NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_double_up_to_the_maximum),
        cmocka_unit_test(random_bits_shorten_by_their_share),
        cmocka_unit_test(limits_hold_for_any_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
