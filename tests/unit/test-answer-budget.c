/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for answers: who gets it, in which order, and who has to give it back. */
#include "daemon/fleet/answer_budget.h"

#include "base/clock.h"
#include "tests/unit/cmocka-all.h"
#include <sys/syscall.h>
#include <time.h>

#define ALL    100
#define EACH   50
#define TURN_S 10

static int64_t clock_ahead_s;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    long r = syscall(SYS_clock_gettime, clock, ret);
    ret->tv_sec += clock_ahead_s;
    return (int)r;
}

struct answer {
    struct answer_share *share;
    char name;
};

struct catalog_fixture {
    struct event_base *base;
    struct answer_budget *budget;
};

/* What the ops were called for, in order: a letter for each that was granted, a capital for each that
 * expired. */
static char told[64];

static void tell(char c)
{
    size_t n = strlen(told);
    told[n] = c;
    told[n + 1] = '\0';
}

static void on_granted(void *arg)
{
    const struct answer *a = arg;
    tell(a->name);
}

static void on_expired(void *arg)
{
    struct answer *a = arg;
    tell((char)(a->name - 'a' + 'A'));
    a->share = answer_share_free(a->share);
}

static int setup(void **state)
{
    static const struct answer_limits limits = {ALL, EACH, TURN_S * NS_PER_S};
    static const struct answer_budget_ops ops = {on_granted, on_expired};
    static struct catalog_fixture r;

    told[0] = '\0';
    r.base = event_base_new();
    assert_int_equal(answer_budget_new(r.base, &limits, &ops, &r.budget), 0);
    *state = &r;
    return 0;
}

static int teardown(void **state)
{
    struct catalog_fixture *r = *state;

    answer_budget_free(r->budget);
    event_base_free(r->base);
    return 0;
}

static void turn(struct catalog_fixture *r)
{
    event_base_loop(r->base, EVLOOP_NONBLOCK);
    event_base_loop(r->base, EVLOOP_NONBLOCK);
}

static void ask(struct catalog_fixture *r, struct answer *a, char name, uint64_t account, size_t bytes)
{
    a->name = name;
    a->share = answer_budget_ask(r->budget, account, bytes, a);
}

static void give_back(struct answer *a)
{
    a->share = answer_share_free(a->share);
}

static void check_usage(struct catalog_fixture *r, size_t held, unsigned waiting)
{
    const struct answer_usage usage = answer_budget_usage(r->budget);

    assert_int_equal(usage.held, held);
    assert_int_equal(usage.waiting, waiting);
}

static void test_first_come_first_served(void **state)
{
    struct catalog_fixture *r = *state;
    struct answer a, b, c, d;

    ask(r, &a, 'a', 1, 30);
    assert_true(answer_share_is_granted(a.share));
    ask(r, &b, 'b', 1, 30);
    ask(r, &c, 'c', 1, 10); /* would fit, and does not overtake */
    ask(r, &d, 'd', 1, 10);
    assert_false(answer_share_is_granted(b.share));
    assert_false(answer_share_is_granted(c.share));
    check_usage(r, 30, 3);
    turn(r);
    assert_string_equal(told, "");
    give_back(&a);
    assert_string_equal(told, ""); /* never from within */
    turn(r);
    assert_string_equal(told, "bcd");
    check_usage(r, 50, 0);
    give_back(&b);
    give_back(&c);
    give_back(&d);
    check_usage(r, 0, 0);
}

/* An account with a crowd of answers takes its share and its turns, no more. */
static void test_accounts_take_turns(void **state)
{
    struct catalog_fixture *r = *state;
    struct answer crowd[6], other[2], late;

    for (size_t i = 0; i < ARRAY_SIZE(crowd); i++)
        ask(r, &crowd[i], (char)('a' + i), 1, EACH);
    ask(r, &other[0], 'x', 2, EACH);
    assert_true(answer_share_is_granted(crowd[0].share));
    assert_true(answer_share_is_granted(other[0].share));
    ask(r, &other[1], 'y', 2, EACH);
    ask(r, &late, 'z', 3, EACH);
    give_back(&crowd[0]);
    turn(r);
    assert_string_equal(told, "b");
    give_back(&crowd[1]);
    turn(r);
    assert_string_equal(told, "bz");
    give_back(&late);
    turn(r);
    assert_string_equal(told, "bzc");
    give_back(&other[0]);
    turn(r);
    assert_string_equal(told, "bzcy");
    for (size_t i = 2; i < ARRAY_SIZE(crowd); i++)
        give_back(&crowd[i]);
    give_back(&other[1]);
    check_usage(r, 0, 0);
}

/* A large one is not passed by small ones for ever. */
static void test_a_large_answer_gets_through(void **state)
{
    struct catalog_fixture *r = *state;
    struct answer small[3], large;

    ask(r, &small[0], 'a', 1, 40);
    ask(r, &small[1], 'b', 2, 40);
    ask(r, &large, 'l', 3, EACH);
    ask(r, &small[2], 'c', 4, 10);
    assert_false(answer_share_is_granted(small[2].share));
    give_back(&small[0]);
    turn(r);
    assert_string_equal(told, "lc");
    give_back(&large);
    give_back(&small[1]);
    give_back(&small[2]);
}

static void test_more_than_there_is_for_one_alone(void **state)
{
    struct catalog_fixture *r = *state;
    struct answer huge, small;

    ask(r, &huge, 'h', 1, 10 * ALL);
    assert_true(answer_share_is_granted(huge.share));
    ask(r, &small, 's', 2, 1);
    assert_false(answer_share_is_granted(small.share));
    give_back(&huge);
    turn(r);
    assert_string_equal(told, "s");
    give_back(&small);
}

/* Who reads slowly has to end when others wait for what he holds, and only then. */
static void test_a_turn_ends(void **state)
{
    struct catalog_fixture *r = *state;
    struct answer slow, complete, waiting, other;

    ask(r, &slow, 'a', 1, 25);
    ask(r, &complete, 'b', 1, 25);
    answer_share_settle(complete.share);
    ask(r, &other, 'o', 2, EACH);
    clock_ahead_s += 2 * TURN_S;
    turn(r);
    assert_string_equal(told, ""); /* nobody waits */
    ask(r, &waiting, 'w', 1, 25);
    turn(r);
    turn(r);
    assert_string_equal(told, "Aw"); /* the other account is in nobody's way */
    check_usage(r, ALL, 0);
    give_back(&complete);
    give_back(&waiting);
    give_back(&other);
    check_usage(r, 0, 0);
}

static void test_who_waits_may_leave(void **state)
{
    struct catalog_fixture *r = *state;
    struct answer a, b, c;

    ask(r, &a, 'a', 1, EACH);
    ask(r, &b, 'b', 1, EACH);
    ask(r, &c, 'c', 1, EACH);
    answer_share_settle(b.share); /* its call is over */
    check_usage(r, EACH, 1);
    give_back(&a);
    turn(r);
    assert_string_equal(told, "c");
    give_back(&b);
    check_usage(r, EACH, 0);
    give_back(&c);
}

static void test_limits_change(void **state)
{
    struct catalog_fixture *r = *state;
    static const struct answer_limits more = {2 * ALL, 2 * EACH, TURN_S * NS_PER_S};
    struct answer a, b;

    ask(r, &a, 'a', 1, EACH);
    ask(r, &b, 'b', 1, EACH);
    assert_false(answer_share_is_granted(b.share));
    answer_budget_set_limits(r->budget, &more);
    turn(r);
    assert_string_equal(told, "b");
    give_back(&a);
    give_back(&b);
}

/* Whoever holds what came of an answer may outlive all calls. */
static void test_a_share_outlives_its_budget(void **state)
{
    struct event_base *base = event_base_new();
    static const struct answer_limits limits = {ALL, EACH, TURN_S * NS_PER_S};
    static const struct answer_budget_ops ops = {on_granted, on_expired};
    struct answer_budget *budget;
    struct answer a = {.name = 'a'}, b = {.name = 'b'};

    assert_int_equal(answer_budget_new(base, &limits, &ops, &budget), 0);
    a.share = answer_budget_ask(budget, 1, EACH, &a);
    b.share = answer_budget_ask(budget, 1, EACH, &b);
    answer_budget_free(budget);
    give_back(&a);
    give_back(&b);
    event_base_loop(base, EVLOOP_NONBLOCK);
    assert_string_equal(told, "");
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_first_come_first_served, setup, teardown),
        cmocka_unit_test_setup_teardown(test_accounts_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_large_answer_gets_through, setup, teardown),
        cmocka_unit_test_setup_teardown(test_more_than_there_is_for_one_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_turn_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_waits_may_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits_change, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_share_outlives_its_budget, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
