/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of times: each operation against the same on a bitmap. */
#include "tests/unit/cmocka-all.h"
#include "trace/reports/interval.h"

#define BITS   96
#define ROUNDS 2000

struct pair {
    struct intervals a, b;
    bool bits_a[BITS], bits_b[BITS];
};

static uint64_t state_of = 88172645463325252u;

static unsigned random_below(unsigned n)
{
    state_of ^= state_of << 13;
    state_of ^= state_of >> 7;
    state_of ^= state_of << 17;
    return (unsigned)(state_of % n);
}

static void fill(struct intervals *set, bool *bits)
{
    for (unsigned n = random_below(12); n > 0; n--) {
        unsigned from = random_below(BITS), to = random_below(BITS + 1), length = random_below(6);
        if (random_below(3) > 0)
            to = MIN(from + length, BITS);
        assert_int_equal(intervals_add(set, from, to), 0);
        for (unsigned i = from; i < to; i++)
            bits[i] = true;
    }
    intervals_unite(set);
}

static void assert_is(const struct intervals *set, const bool *bits)
{
    int64_t length = 0;

    for (int i = 0; i < BITS; i++) {
        assert_int_equal(intervals_find(set, i) != NULL, bits[i]);
        length += bits[i];
    }
    assert_int_equal(intervals_length(set), length);
    for (size_t i = 0; i < set->n; i++) {
        assert_true(set->items[i].from < set->items[i].to);
        assert_true(i == 0 || set->items[i - 1].to < set->items[i].from);
    }
}

static void check_pair(struct pair *p)
{
    _cleanup_(intervals_done) struct intervals both = {0}, only_a = {0}, either = {0};
    bool bits_both[BITS], bits_only[BITS], bits_either[BITS];

    for (int i = 0; i < BITS; i++) {
        bits_both[i] = p->bits_a[i] && p->bits_b[i];
        bits_only[i] = p->bits_a[i] && !p->bits_b[i];
        bits_either[i] = p->bits_a[i] || p->bits_b[i];
    }
    assert_is(&p->a, p->bits_a);
    assert_is(&p->b, p->bits_b);
    assert_int_equal(intervals_intersect(&p->a, &p->b, &both), 0);
    assert_is(&both, bits_both);
    assert_int_equal(intervals_subtract(&p->a, &p->b, &only_a), 0);
    assert_is(&only_a, bits_only);
    for (size_t i = 0; i < p->a.n; i++)
        intervals_add(&either, p->a.items[i].from, p->a.items[i].to);
    for (size_t i = 0; i < p->b.n; i++)
        intervals_add(&either, p->b.items[i].from, p->b.items[i].to);
    intervals_unite(&either);
    assert_is(&either, bits_either);

    int64_t common = intervals_common(&p->a, &p->b);
    assert_int_equal(common, intervals_common(&p->b, &p->a));
    assert_int_equal(common, intervals_length(&both));
    assert_int_equal(intervals_length(&either), intervals_length(&p->a) + intervals_length(&p->b) - common);
    assert_int_equal(intervals_common(&p->a, &p->a), intervals_length(&p->a));
}

static void test_as_bitmaps(void **state)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct pair p = {0};
        fill(&p.a, p.bits_a);
        fill(&p.b, p.bits_b);
        check_pair(&p);
        intervals_done(&p.a);
        intervals_done(&p.b);
    }
}

static void test_touching_are_one(void **state)
{
    _cleanup_(intervals_done) struct intervals set = {0};

    intervals_add(&set, 5, 7);
    intervals_add(&set, 1, 5);
    intervals_add(&set, 9, 9);
    intervals_add(&set, 12, 11);
    intervals_unite(&set);
    assert_int_equal(set.n, 1);
    assert_int_equal(intervals_length(&set), 6);
    assert_null(intervals_find(&set, 7));
}

static void test_times_stop_at_the_largest(void **state)
{
    assert_int_equal(add_time(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(add_time(INT64_MIN, -1), INT64_MIN);
    assert_int_equal(add_time(INT64_MAX, -1), INT64_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_bitmaps),
        cmocka_unit_test(test_touching_are_one),
        cmocka_unit_test(test_times_stop_at_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
