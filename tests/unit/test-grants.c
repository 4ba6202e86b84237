/* SPDX-License-Identifier: Apache-2.0 */
/* Codes, tokens of pages and tickets: found while they hold, taken once, bounded. */
#include "base/alloc.h"
#include "daemon/api/grants.h"
#include "tests/unit/cmocka-all.h"

#define LIFE_NS (60 * NS_PER_S)

struct secret {
    char text[GRANT_SECRET_SIZE];
};

static struct secret add(struct grants *t, const char *user, int64_t now_ns)
{
    const struct grant of = {
        .ends_ns = now_ns + LIFE_NS, .right = RIGHT_READ, .user = (char *)user, .target = (char *)"/v1/x"};
    struct secret ret;

    assert_int_equal(grants_add(t, &of, "", now_ns, ret.text, NULL), 0);
    return ret;
}

static void test_time(void **state)
{
    _cleanup_(grants_done) struct grants t = {.max = 10, .user_max = 10};
    struct secret one = add(&t, "anna", 1000);

    assert_int_equal(strlen(one.text), 2 * TOKEN_RANDOM_BYTES);
    const struct grant *found = grants_find(&t, one.text, 1000);
    assert_string_equal(found->user, "anna");
    assert_string_equal(found->target, "/v1/x");
    assert_int_equal(found->number, 1);
    assert_non_null(grants_find(&t, one.text, 1000 + LIFE_NS - 1));
    assert_null(grants_find(&t, one.text, 1000 + LIFE_NS));
    struct grant taken;
    assert_int_equal(grants_take(&t, one.text, 1000 + LIFE_NS, &taken), -ENOENT);
    add(&t, "bert", 1000 + LIFE_NS); /* which forgets those that ended */
    assert_int_equal(t.n, 1);
}

static void test_once(void **state)
{
    _cleanup_(grants_done) struct grants t = {.max = 10, .user_max = 10};
    struct secret one = add(&t, "anna", 0), two = add(&t, "anna", 0);
    _cleanup_(grant_done) struct grant taken = {0};
    struct grant none;

    assert_string_not_equal(one.text, two.text);
    assert_int_equal(grants_take(&t, one.text, 1, &taken), 0);
    assert_string_equal(taken.user, "anna");
    assert_int_equal(grants_take(&t, one.text, 1, &none), -ENOENT);
    assert_null(grants_find(&t, one.text, 1));
    assert_non_null(grants_find(&t, two.text, 1));
}

static void test_others(void **state)
{
    _cleanup_(grants_done) struct grants t = {.max = 10, .user_max = 10};
    struct secret one = add(&t, "anna", 0);
    char long_text[TOKEN_TEXT_MAX + 2];

    memset(long_text, '0', sizeof(long_text));
    long_text[sizeof(long_text) - 1] = '\0';
    one.text[5] = one.text[5] == '0' ? '1' : '0';
    const char *const others[] = {"", "0", one.text, long_text};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_null(grants_find(&t, others[i], 0));
}

static void test_bounds(void **state)
{
    _cleanup_(grants_done) struct grants t = {.max = 5, .user_max = 2};
    struct secret anna[3];

    for (size_t i = 0; i < ARRAY_SIZE(anna); i++)
        anna[i] = add(&t, "anna", (int64_t)i);
    assert_null(grants_find(&t, anna[0].text, 3)); /* the oldest makes room */
    assert_non_null(grants_find(&t, anna[1].text, 3));
    assert_non_null(grants_find(&t, anna[2].text, 3));
    add(&t, "bert", 3);
    add(&t, "bert", 3);
    add(&t, "cleo", 3);
    _cleanup_(problem_done) struct problem p = {0};
    char secret[GRANT_SECRET_SIZE];
    const struct grant of = {.ends_ns = 100, .user = (char *)"dora"};
    assert_int_equal(grants_add(&t, &of, "", 3, secret, &p), -EAGAIN);
    assert_int_equal(p.kind, PROBLEM_TOO_MANY);
    assert_int_equal(t.n, 5);
    add(&t, "dora", 3 + LIFE_NS);
    assert_int_equal(t.n, 1);
}

static bool is_of_anna(const struct grant *g, const void *arg)
{
    return streq(g->user, arg);
}

static void test_removal(void **state)
{
    _cleanup_(grants_done) struct grants t = {.max = 10, .user_max = 10};
    struct secret anna = add(&t, "anna", 0), bert = add(&t, "bert", 0);

    add(&t, "anna", 0);
    grants_remove_if(&t, is_of_anna, "anna");
    assert_int_equal(t.n, 1);
    assert_null(grants_find(&t, anna.text, 1));
    assert_int_equal(grants_find(&t, bert.text, 1)->number, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time),   cmocka_unit_test(test_once),    cmocka_unit_test(test_others),
        cmocka_unit_test(test_bounds), cmocka_unit_test(test_removal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
