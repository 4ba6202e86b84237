/* SPDX-License-Identifier: Apache-2.0 */
/* The moment when bytes arrived lies between when they were sent and when they were read. */
#include "base/clock.h"
#include "daemon/load/arrival.h"
#include "tests/unit/cmocka-all.h"
#include <arpa/inet.h>
#include <sys/socket.h>

/* Clocks are compared with each other, by a process that may be stopped between two looks at them. */
#define SLACK_NS (60 * NS_PER_S)
#define HOUR_NS  (INT64_C(3600) * NS_PER_S)

static void connect_pair(int ret[static 2])
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(to);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listening, (struct sockaddr *)&to, size), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&to, &size), 0);
    ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(ret[0], (struct sockaddr *)&to, size), 0);
    ret[1] = accept(listening, NULL, NULL);
    assert_true(ret[1] >= 0);
    close(listening);
}

static void test_between(void **state)
{
    struct arrival_clock clock = {0};
    int pair[2];
    char byte;
    int64_t at_ns = 0, latest_ns = 0;

    connect_pair(pair);
    arrival_enable(pair[1]);
    for (int i = 0; i < 100; i++) {
        int64_t sent_ns = mono_ns();
        assert_int_equal(send(pair[0], "x", 1, 0), 1);
        assert_int_equal(arrival_receive(&clock, pair[1], &byte, 1, latest_ns, &at_ns), 1);
        assert_true(at_ns > sent_ns - SLACK_NS && at_ns <= mono_ns() && at_ns >= latest_ns);
        latest_ns = at_ns;
    }
    close(pair[0]);
    assert_int_equal(arrival_receive(&clock, pair[1], &byte, 1, 0, &at_ns), 0);
    close(pair[1]);
}

/* It is the kernel's moment, and not that of reading: what the clock is wrong by is in it. The kernel begins to note
 * moments a little after the first socket asked for them. */
static void test_of_the_kernel(void **state)
{
    struct arrival_clock clock = {.offset_ns = wall_ns() - mono_ns() + HOUR_NS,
                                  .checked_ns = mono_ns() + HOUR_NS};
    int pair[2];
    char byte;
    int64_t at_ns;

    connect_pair(pair);
    arrival_enable(pair[1]);
    int64_t begin_ns = mono_ns();
    do {
        assert_true(mono_ns() < begin_ns + SLACK_NS);
        assert_int_equal(send(pair[0], "x", 1, 0), 1);
        assert_int_equal(arrival_receive(&clock, pair[1], &byte, 1, INT64_MIN, &at_ns), 1);
    } while (at_ns > mono_ns() - HOUR_NS + SLACK_NS);
    assert_true(at_ns >= begin_ns - HOUR_NS - SLACK_NS);
    close(pair[0]);
    close(pair[1]);
}

/* Whatever the clocks say, it is not before what is known, nor in the future. */
static void test_bounds(void **state)
{
    const int64_t offsets_ns[] = {HOUR_NS, -HOUR_NS};

    for (size_t i = 0; i < ARRAY_SIZE(offsets_ns); i++) {
        struct arrival_clock clock = {.offset_ns = wall_ns() - mono_ns() + offsets_ns[i],
                                      .checked_ns = mono_ns() + HOUR_NS};
        int pair[2];
        char byte;
        int64_t at_ns;

        connect_pair(pair);
        arrival_enable(pair[1]);
        int64_t sent_ns = mono_ns();
        assert_int_equal(send(pair[0], "x", 1, 0), 1);
        assert_int_equal(arrival_receive(&clock, pair[1], &byte, 1, sent_ns, &at_ns), 1);
        assert_true(at_ns >= sent_ns && at_ns <= mono_ns());
        close(pair[0]);
        close(pair[1]);
    }
}

/* Without the kernel's moment the clock is read. */
static void test_without(void **state)
{
    struct arrival_clock clock = {0};
    int pair[2];
    char byte;
    int64_t at_ns;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    int64_t sent_ns = mono_ns();
    assert_int_equal(send(pair[0], "x", 1, 0), 1);
    assert_int_equal(arrival_receive(&clock, pair[1], &byte, 1, 0, &at_ns), 1);
    assert_true(at_ns >= sent_ns && at_ns <= mono_ns());
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between),
        cmocka_unit_test(test_of_the_kernel),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
