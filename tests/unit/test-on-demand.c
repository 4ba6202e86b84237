/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that load a library first pass every argument on, and return what the function returns. */
#include "tests/unit/cmocka-all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_numbers_of_both_kinds_beyond_the_registers(void **state)
{
    char text[200];

    /* The first call looks the function up, the second one jumps to it. */
    for (int i = 0; i < 2; i++) {
        int n =
            snprintf(text, sizeof(text), "%d %d %d %d %d %d %d, %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f",
                     i, 2, 3, 4, 5, 6, 7, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5);
        text[0] = 'n';
        assert_string_equal(text, "n 2 3 4 5 6 7, 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 9.5");
        assert_int_equal(n, strlen(text));
    }
}

static void test_result_of_two_words(void **state)
{
    for (long long i = 100; i < 102; i++) {
        lldiv_t d = lldiv(i, 7);
        assert_int_equal(d.quot, 14);
        assert_int_equal(d.rem, i - 98);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_both_kinds_beyond_the_registers),
        cmocka_unit_test(test_result_of_two_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
