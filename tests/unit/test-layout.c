/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/table_layout.h"
#include "tests/unit/cmocka-all.h"

#define GAP 2u

static unsigned line_width(const struct table_layout_column *columns, size_t n)
{
    unsigned width = 0, shown = 0;

    for (size_t i = 0; i < n; i++) {
        width += columns[i].width;
        shown += columns[i].width > 0;
    }
    return width + (shown ? (shown - 1) * GAP : 0);
}

static void test_everything_fits(void **state)
{
    struct table_layout_column columns[] = {{.natural = 10, .least = 10}, {.natural = 40, .least = 10}};

    assert_true(layout_columns(columns, 2, GAP, 52));
    assert_int_equal(columns[0].width, 10);
    assert_int_equal(columns[1].width, 40);
}

static void test_text_gives_way_before_a_column(void **state)
{
    struct table_layout_column columns[] = {{.natural = 10, .least = 10}, {.natural = 40, .least = 10}};

    assert_true(layout_columns(columns, 2, GAP, 30));
    assert_int_equal(columns[0].width, 10);
    assert_int_equal(columns[1].width, 18);
}

static void test_the_least_important_goes_first(void **state)
{
    struct table_layout_column columns[] = {{.natural = 10, .least = 10, .importance = IMPORTANCE_KEY},
                                            {.natural = 10, .least = 10},
                                            {.natural = 10, .least = 10, .importance = IMPORTANCE_LOW},
                                            {.natural = 10, .least = 10}};

    assert_true(layout_columns(columns, 4, GAP, 40));
    assert_int_equal(columns[2].width, 0);
    assert_true(layout_columns(columns, 4, GAP, 25));
    assert_int_equal(columns[3].width, 0);
    assert_int_equal(columns[1].width, 10);
    assert_true(layout_columns(columns, 4, GAP, 12));
    assert_int_equal(columns[1].width, 0);
    assert_false(layout_columns(columns, 4, GAP, 9));
    assert_int_equal(columns[0].width, 10);
}

static void test_of_nothing_nothing_is_shown(void **state)
{
    struct table_layout_column columns[] = {{.natural = 10, .least = 10}, {.natural = 0}};

    assert_true(layout_columns(columns, 2, GAP, 10));
    assert_int_equal(columns[1].width, 0);
}

static unsigned next(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % below;
}

/* Whatever the columns are: the line is kept, nothing is narrower than it may be, and what is shown is never
 * less important than what is not. */
static void test_any_columns(void **state)
{
    unsigned seed = 1;

    for (unsigned round = 0; round < 20000; round++) {
        struct table_layout_column columns[12];
        size_t n = 1 + next(&seed, ARRAY_SIZE(columns));
        unsigned line = 10 + next(&seed, 150);
        for (size_t i = 0; i < n; i++) {
            unsigned natural = 1 + next(&seed, 60);
            columns[i] = (struct table_layout_column){.natural = natural,
                                                      .least = next(&seed, 2) ? natural : MIN(natural, 10u),
                                                      .importance = (int)next(&seed, 5) - 2};
        }
        if (!layout_columns(columns, n, GAP, line))
            continue;
        assert_true(line_width(columns, n) <= line);
        for (size_t i = 0; i < n; i++) {
            assert_true(columns[i].width == 0 || columns[i].width >= columns[i].least);
            assert_true(columns[i].width <= columns[i].natural);
            assert_true(columns[i].width > 0 || columns[i].importance != IMPORTANCE_KEY);
            for (size_t k = 0; k < n; k++)
                assert_true(columns[i].width > 0 || columns[k].width == 0 ||
                            columns[k].importance >= columns[i].importance);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_fits),
        cmocka_unit_test(test_text_gives_way_before_a_column),
        cmocka_unit_test(test_the_least_important_goes_first),
        cmocka_unit_test(test_of_nothing_nothing_is_shown),
        cmocka_unit_test(test_any_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
