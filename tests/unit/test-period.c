/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "trace/reports/period.h"

#define SEQUENCE_MAX 100000
#define NAMES        26

struct sequence {
    uint32_t names[SEQUENCE_MAX];
    int64_t pauses[SEQUENCE_MAX];
    size_t n;
};

static struct sequence sequence;

/* Letters are names; a blank before one is a pause. */
static void add(const char *letters, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        int64_t pause = 0;
        for (const char *l = letters; *l; l++) {
            if (*l == ' ') {
                pause = 100;
                continue;
            }
            sequence.pauses[sequence.n] = pause;
            sequence.names[sequence.n++] = (uint32_t)(*l - 'a');
            pause = 0;
        }
    }
}

static struct period find(enum period_goal goal)
{
    struct period p;

    assert_int_equal(period_find(sequence.names, sequence.pauses, sequence.n, NAMES, goal, &p), 0);
    return p;
}

static int clear(void **state)
{
    sequence.n = 0;
    return 0;
}

/* A step is layers between others; the layers are not taken for steps. */
static void steps_not_layers(void **state)
{
    for (int i = 0; i < 5; i++) {
        add(" abc", 1);
        add("defgh", 32);
        add("xyz", 1);
    }
    struct period p = find(PERIOD_LONGEST);
    assert_int_equal(p.n, 5);
    for (size_t i = 0; i < p.n; i++)
        assert_int_equal(p.starts[i], i * (3 + 5 * 32 + 3));
    assert_int_equal(p.until, sequence.n);
    period_done(&p);
}

static void layers_within_a_step(void **state)
{
    add("abc", 1);
    add("defgh", 32);
    add("xyz", 1);
    struct period p = find(PERIOD_FULLEST);
    assert_int_equal(p.n, 32);
    assert_int_equal(p.starts[0], 3);
    assert_int_equal(p.until, 3 + 5 * 32);
    period_done(&p);
}

/* As of DeepSeek: some first layers lack what the others have. */
static void layers_of_two_kinds(void **state)
{
    add("ab", 1);
    add("defghijk", 3);
    add("defghijlmnopqrs", 58);
    add("z", 1);
    struct period p = find(PERIOD_FULLEST);
    assert_int_equal(p.n, 61);
    assert_int_equal(p.starts[0], 2);
    period_done(&p);
}

/* What is done only now and then does not disturb. */
static void uneven_steps(void **state)
{
    add(" abcdefghij", 3);
    add(" ajbjcdefghij", 1);
    add(" abcdefghij", 3);
    struct period p = find(PERIOD_LONGEST);
    assert_int_equal(p.n, 7);
    assert_int_equal(p.starts[4] - p.starts[3], 12);
    period_done(&p);
}

/* Names that recur come after copies that others make too: a step begins at the pause ahead of them. */
static void begins_at_the_pause(void **state)
{
    add(" mmabcdefmgh", 6);
    struct period p = find(PERIOD_LONGEST);
    assert_int_equal(p.n, 6);
    for (size_t i = 0; i < p.n; i++)
        assert_int_equal(p.starts[i], i * 11);
    period_done(&p);
}

static void nothing_recurs(void **state)
{
    struct period p = find(PERIOD_LONGEST);
    assert_int_equal(p.n, 0);
    period_done(&p);
    add("abcdefghijklm", 1);
    p = find(PERIOD_FULLEST);
    assert_int_equal(p.n, 0);
    period_done(&p);
    /* Only two names take turns. */
    add("ab", 100);
    p = find(PERIOD_LONGEST);
    assert_int_equal(p.n, 0);
    period_done(&p);
}

/* A little that recurs does not make a period of the rest. */
static void only_a_part(void **state)
{
    add("abcdefg", 4);
    for (uint32_t i = 0; i < 200; i++) {
        sequence.names[sequence.n++] = 7 + i * i % 17;
    }
    struct period p = find(PERIOD_LONGEST);
    assert_int_equal(p.n, 0);
    period_done(&p);
}

static void many(void **state)
{
    add("abcdefghijklmnopqrst", 5000);
    struct period p = find(PERIOD_LONGEST);
    assert_int_equal(p.n, 5000);
    period_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(steps_not_layers, clear),
        cmocka_unit_test_setup(layers_within_a_step, clear),
        cmocka_unit_test_setup(layers_of_two_kinds, clear),
        cmocka_unit_test_setup(uneven_steps, clear),
        cmocka_unit_test_setup(begins_at_the_pause, clear),
        cmocka_unit_test_setup(nothing_recurs, clear),
        cmocka_unit_test_setup(only_a_part, clear),
        cmocka_unit_test_setup(many, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
