/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is among those that wait. */
#include "daemon/report/turns.h"
#include "tests/unit/cmocka-all.h"

#include <errno.h>

static const struct turn_limits limits = {
    .all = 5, .user = 3, .traces = 10, .what = "reports", .items = "traces", .remedy = "Try again later."};

static void add(struct turns *t, struct turn *turn, const char *user)
{
    *turn = (struct turn){.user = user, .n_traces = 1};
    turns_add(t, turn);
}

static void test_users_take_turns(void **state)
{
    struct turns t;
    struct turn a[3], b, c;

    turns_init(&t, &limits);
    for (size_t i = 0; i < 3; i++)
        add(&t, &a[i], "a");
    add(&t, &b, "b");
    assert_ptr_equal(turns_next(&t, NULL), &a[0]);
    turns_take(&t, &a[0]);
    /* The second of a was there before; c comes last, and goes before the third. */
    add(&t, &c, "c");
    struct turn *const expected[] = {&b, &a[1], &c, &a[2]};
    const struct turn *turn = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        turn = turns_next(&t, turn);
        assert_ptr_equal(turn, expected[i]);
    }
    assert_null(turns_next(&t, turn));
    turns_drop(&t, &b);
    assert_ptr_equal(turns_next(&t, NULL), &a[1]);
}

static void test_limits(void **state)
{
    struct problem p = {0};
    struct turns t;
    struct turn a[3], b[2];

    turns_init(&t, &limits);
    /* Alone, any number of traces is fine. */
    assert_int_equal(turns_check(&t, "a", 100, NULL), 0);
    for (size_t i = 0; i < 3; i++)
        add(&t, &a[i], "a");
    assert_int_equal(turns_check(&t, "a", 1, &p), -EAGAIN);
    assert_non_null(strstr(p.what, "of this user"));
    problem_done(&p);
    assert_int_equal(turns_check(&t, "b", 8, NULL), -EAGAIN);
    assert_int_equal(turns_check(&t, "b", 7, NULL), 0);
    add(&t, &b[0], "b");
    add(&t, &b[1], "b");
    assert_int_equal(turns_check(&t, "c", 1, NULL), -EAGAIN);
    turns_take(&t, &a[0]);
    assert_int_equal(turns_check(&t, "c", 1, NULL), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_users_take_turns),
                                              cmocka_unit_test(test_limits)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
