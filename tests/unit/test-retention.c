/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/store_internal.h"
#include "tests/unit/cmocka-all.h"

static void test_shares(void **state)
{
    assert_int_equal(retention_share(1000, 1, 0), 1000);
    assert_int_equal(retention_share(1000, 3, 0), 333);
    assert_int_equal(retention_share(1000, 3, 100), 100);
    /* Shares never add up to more than there is. */
    assert_int_equal(retention_share(1000, 3, 900), 333);
    assert_int_equal(retention_share(-5, 2, 900), 0);
    assert_int_equal(retention_share(1000, 0, 0), 1000);
}

static void test_who_goes_next(void **state)
{
    static const struct {
        struct retention_holder holders[3];
        ssize_t next;
    } cases[] = {
        {{{100, true}, {100, true}, {100, true}}, -1}, /* nobody exceeds the share */
        {{{101, true}, {100, true}, {99, true}}, 0},     {{{101, true}, {300, true}, {200, true}}, 1},
        {{{101, true}, {300, false}, {200, true}}, 2}, /* what the largest has is pinned */
        {{{101, false}, {300, false}, {100, true}}, -1}, {{{0, false}, {0, true}, {101, true}}, 2},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(retention_next(cases[i].holders, 3, 100), cases[i].next);
}

/* -- A store of random holders ------------------------------------------------------------------------ */

#define HOLDERS_MAX 6
#define TRACES_MAX  60

struct model {
    uint64_t random;
    int64_t capacity, per_user;
    size_t n_holders;
    struct model_trace {
        size_t holder;
        int64_t size;
        bool pinned;
    } traces[TRACES_MAX]; /* the oldest first */
    size_t n;
};

static uint64_t next_random(struct model *m, uint64_t below)
{
    m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (m->random >> 33) % below;
}

static int64_t total_of(const struct model *m)
{
    int64_t sum = 0;
    for (size_t i = 0; i < m->n; i++)
        sum += m->traces[i].size;
    return sum;
}

static ssize_t oldest_removable(const struct model *m, size_t holder)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->traces[i].holder == holder && !m->traces[i].pinned)
            return (ssize_t)i;
    return -1;
}

static void look(const struct model *m, size_t incoming, int64_t size, struct retention_holder *ret)
{
    memset(ret, 0, m->n_holders * sizeof(*ret));
    for (size_t i = 0; i < m->n; i++)
        ret[m->traces[i].holder].used += m->traces[i].size;
    ret[incoming].used += size;
    for (size_t i = 0; i < m->n_holders; i++)
        ret[i].removable = oldest_removable(m, i) >= 0;
}

static size_t count_present(const struct model *m, const struct retention_holder *holders)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_holders; i++)
        n += holders[i].used > 0;
    return n;
}

/* As the store does it. False where the file is refused. */
static bool take(struct model *m, size_t incoming, int64_t size)
{
    struct retention_holder holders[HOLDERS_MAX];

    look(m, incoming, size, holders);
    int64_t share = retention_share(m->capacity, count_present(m, holders), m->per_user);
    bool within = holders[incoming].used <= share, pins = false;
    for (size_t i = 0; i < m->n; i++)
        pins = pins || m->traces[i].pinned;
    while (total_of(m) + size > m->capacity) {
        look(m, incoming, size, holders);
        ssize_t next = retention_next(holders, m->n_holders, share);
        if (next < 0) {
            /* Refused is only who exceeds his share, or where pins keep what others have above theirs. */
            assert_true(!within || pins);
            for (size_t i = 0; i < m->n_holders; i++)
                assert_true(!holders[i].removable || holders[i].used <= share);
            return false;
        }
        /* The promise: whoever does not exceed his share loses nothing. */
        assert_true(holders[next].used > share);
        if (within)
            assert_int_not_equal(next, incoming);
        size_t victim = (size_t)oldest_removable(m, (size_t)next);
        memmove(m->traces + victim, m->traces + victim + 1, (m->n - victim - 1) * sizeof(*m->traces));
        m->n--;
    }
    return true;
}

static void run_model(uint64_t seed)
{
    struct model m = {.random = seed};

    m.n_holders = 1 + next_random(&m, HOLDERS_MAX);
    m.capacity = 100 + (int64_t)next_random(&m, 1000);
    m.per_user = next_random(&m, 2) ? 0 : 1 + (int64_t)next_random(&m, 600);
    for (int i = 0; i < 200 && m.n < TRACES_MAX; i++) {
        /* Mostly one of them, who writes far more than the others. */
        size_t holder = next_random(&m, 3) ? 0 : next_random(&m, m.n_holders);
        int64_t size = 1 + (int64_t)next_random(&m, next_random(&m, 10) ? 100 : 1500);
        bool pinned = next_random(&m, 20) == 0;
        if (take(&m, holder, size))
            m.traces[m.n++] = (struct model_trace){holder, size, pinned};
        assert_true(total_of(&m) <= m.capacity);
    }
}

static void test_random_stores(void **state)
{
    for (uint64_t seed = 1; seed <= 20000; seed++)
        run_model(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_who_goes_next),
        cmocka_unit_test(test_random_stores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
