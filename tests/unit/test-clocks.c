/* SPDX-License-Identifier: Apache-2.0 */
/* The estimate of another host's clock: wrong clocks, jitter, ways that take unequally long, readings that lie. */
#include "base/clock.h"
#include "daemon/peers/peers.h"
#include "tests/unit/cmocka-all.h"

#define MS   NS_PER_MS
#define BOOT "0b0a0908-0706-0504-0302-010000000000"

/* One exchange at our monotonic time t0 with a host whose monotonic clock is ahead by `ahead`, whose wall clock by `wall`. */
static struct clock_sample exchange(int64_t t0, int64_t there, int64_t back, int64_t ahead, int64_t wall)
{
    const int64_t own_wall = INT64_C(1700000000) * NS_PER_S, work = 30000;
    struct clock_sample s = {.t0 = t0};

    s.t1 = t0 + there + ahead;
    s.t2 = s.t1 + work;
    s.t3 = t0 + there + work + back;
    s.own_wall_ns = own_wall;
    s.host_wall_ns = own_wall + wall - ahead;
    return s;
}

static void test_offsets(void **state)
{
    static const int64_t walls[] = {0, 90 * NS_PER_S, -90 * NS_PER_S, 2500 * MS, -1};
    static const int64_t aheads[] = {0, 1, -NS_PER_S, 86400 * NS_PER_S, -86400 * NS_PER_S};

    for (size_t i = 0; i < ARRAY_SIZE(walls); i++)
        for (size_t k = 0; k < ARRAY_SIZE(aheads); k++) {
            const struct clock_sample s = exchange(90000 * NS_PER_S, MS, MS, aheads[k], walls[i]);
            struct clock_estimate e = {0};
            assert_int_equal(clock_estimate(&s, 1, &e), 0);
            assert_int_equal(e.offset_ns, aheads[k]);
            assert_int_equal(e.wall_offset_ns, walls[i]);
            assert_int_equal(e.rtt_ns, 2 * MS);
            assert_int_equal(e.error_ns, MS);
            assert_int_equal(e.measured_mono_ns, s.t3);
        }
}

/* The shortest round trip is the best one, wherever it stands. */
static void test_jitter(void **state)
{
    static const int64_t waits[] = {39, 12, 1, 27, 3, 39, 8, 15};
    struct clock_sample samples[ARRAY_SIZE(waits)];
    struct clock_estimate e = {0};

    for (size_t i = 0; i < ARRAY_SIZE(waits); i++)
        samples[i] = exchange(1000 * NS_PER_S + (int64_t)i * 100 * MS, MS / 2, MS / 2 + waits[i] * MS,
                              7 * NS_PER_S, -90 * NS_PER_S);
    assert_int_equal(clock_estimate(samples, ARRAY_SIZE(samples), &e), 0);
    assert_int_equal(e.rtt_ns, 2 * MS);
    assert_true(llabs(e.offset_ns - 7 * NS_PER_S) <= e.error_ns);
    assert_true(llabs(e.wall_offset_ns + 90 * NS_PER_S) <= e.error_ns);
}

/* All of the round trip on one way is the worst case, and within the error. */
static void test_unequal_ways(void **state)
{
    for (int back = 0; back < 2; back++) {
        const struct clock_sample s =
            exchange(NS_PER_S, back ? 0 : 40 * MS, back ? 40 * MS : 0, 5 * NS_PER_S, 0);
        struct clock_estimate e = {0};
        assert_int_equal(clock_estimate(&s, 1, &e), 0);
        assert_int_equal(e.error_ns, 20 * MS);
        assert_int_equal(llabs(e.offset_ns - 5 * NS_PER_S), 20 * MS);
    }
}

static void test_readings_that_lie(void **state)
{
    const struct clock_sample good = exchange(NS_PER_S, MS, MS, 0, 0);
    struct clock_sample bad[6];
    struct clock_estimate e = {0};

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        bad[i] = good;
    bad[0].t2 = bad[0].t1 - 1;
    bad[1].t1 = INT64_MIN;
    bad[2].t2 = INT64_MAX;
    bad[3].t2 = bad[3].t1 + NS_PER_S; /* it worked for longer than the answer took */
    bad[4].host_wall_ns = INT64_MAX;
    bad[5].t3 = bad[5].t0 - 1;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(clock_estimate(&bad[i], 1, &e), -EINVAL);
        const struct clock_sample both[] = {bad[i], good};
        assert_int_equal(clock_estimate(both, 2, &e), 0);
        assert_int_equal(e.offset_ns, 0);
    }
    assert_int_equal(clock_estimate(NULL, 0, &e), -EINVAL);
}

static void test_answers(void **state)
{
    static const struct {
        const char *text;
        int result;
    } cases[] = {
        {"{\"received_mono_ns\":5,\"sent_mono_ns\":7,\"wall_ns\":100,\"boot_id\":\"" BOOT "\"}", 0},
        {"{\"received_mono_ns\":5,\"sent_mono_ns\":7,\"wall_ns\":100}", -EPROTO},
        {"{\"received_mono_ns\":-5,\"sent_mono_ns\":7,\"wall_ns\":100,\"boot_id\":\"" BOOT "\"}", -EPROTO},
        {"{\"received_mono_ns\":5.5,\"sent_mono_ns\":7,\"wall_ns\":100,\"boot_id\":\"" BOOT "\"}", -EPROTO},
        {"[]", -EPROTO},
        {"null", -EPROTO},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct clock_sample s = {0};
        struct clock_estimate e = {0};
        json_t *j = json_loads(cases[i].text, JSON_DECODE_ANY, NULL);
        assert_non_null(j);
        assert_int_equal(peer_clock_parse(j, &s, &e), cases[i].result);
        if (cases[i].result == 0) {
            assert_int_equal(s.t1, 5);
            assert_int_equal(s.t2, 7);
            assert_int_equal(s.host_wall_ns, 93);
            assert_int_equal(e.quality.maxerror_ns, -1);
            assert_string_equal(e.boot_id, BOOT);
        }
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets),      cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_unequal_ways), cmocka_unit_test(test_readings_that_lie),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
