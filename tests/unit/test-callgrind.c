/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/intake-fixture.h"
#include "trace/read/callgrind.h"

struct reading {
    struct intake *in;
    int r;
    char reason[256];
};

static struct reading read_text(const char *text)
{
    struct reading reading = {.in = fixture_new()};

    reading.r = callgrind_read(text, strlen(text), reading.in, reading.reason, sizeof(reading.reason));
    return reading;
}

static void reading_done(struct reading *reading)
{
    intake_free(reading->in);
}

static void check_slice(const struct intake *in, size_t i, const char *name, int64_t ts, int64_t dur)
{
    assert_true(i < in->batch->n);
    assert_string_equal(fixture_text(in, in->batch->events[i].name), name);
    assert_int_equal(in->batch->events[i].ts, ts);
    assert_int_equal(in->batch->events[i].dur, dur);
}

static uint64_t defects(const struct intake *in)
{
    uint64_t n = 0;

    for (size_t i = 0; i < _DEFECT_MAX; i++)
        n += in->defects.count[i];
    return n;
}

/* The example of the format's description: main calls func1 twice and func2; func1 calls func2. */
static void test_example(void **state)
{
    _cleanup_(reading_done) struct reading reading =
        read_text("# callgrind format\n"
                  "version: 1\npid: 4711\ncmd: ./program -x\n"
                  "positions: line\nevents: Instructions\n\n"
                  "fl=(1) file1.c\nfn=(1) main\n16 20\n"
                  "cfn=(2) func1\ncalls=1 50\n16 400\n"
                  "cfi=(2) file2.c\ncfn=(3) func2\ncalls=3 20\n16 400\n\n"
                  "fn=(2)\n51 100\ncfi=(2)\ncfn=(3)\ncalls=2 20\n51 300\n\n"
                  "fl=(2)\nfn=(3)\n20 700\n\ntotals: 1220\n");
    const struct intake *in = reading.in;

    assert_int_equal(reading.r, 0);
    assert_int_equal(defects(in), 0);
    check_slice(in, 0, "main", 0, 820);
    check_slice(in, 1, "func1", 0, 400);
    check_slice(in, 2, "func2", 0, 300);
    check_slice(in, 3, "func2", 400, 400);
    assert_int_equal(fixture_sum(in, "callgrind").count, 4);

    check_slice(in, 4, "func2", 0, 700);
    check_slice(in, 5, "func1", 700, 100);
    check_slice(in, 6, "main", 800, 20);
    assert_int_equal(fixture_sum(in, "callgrind_self").ns, 820);
    assert_int_equal(in->batch->n, 7);

    assert_int_equal(in->n_threads, 2);
    assert_string_equal(fixture_text(in, in->threads[in->batch->events[0].thread].name), "calls");
    assert_string_equal(fixture_text(in, in->threads[in->batch->events[6].thread].name), "self");
    assert_int_equal(in->processes[0].pid, 4711);
    assert_string_equal(fixture_text(in, in->processes[0].name), "./program -x");
    assert_int_equal(in->meta[META_pid], 4711);
    assert_non_null(strstr(reading.reason, "one unit of Instructions"));
}

/* As yappi writes: names first, then functions by number; times in microseconds. */
static void test_yappi(void **state)
{
    _cleanup_(reading_done) struct reading reading =
        read_text("version: 1\ncreator: yappi\npid: 12\ncmd:  app.py --x\npart: 1\n\nevents: Ticks\n\n"
                  "fl=(0) /srv/app.py\nfl=(1) /usr/lib/json.py\n\nfn=(0) handle /srv/app.py:3\nfn=(1) loads "
                  "/usr/lib/json.py:9\n\n"
                  "fl=(0)\nfn=(0)\n3 1500\ncfl=(1)\ncfn=(1)\ncalls=4 0\n0 2500\n\n"
                  "fl=(1)\nfn=(1)\n9 2500");

    assert_int_equal(reading.r, 0);
    assert_int_equal(defects(reading.in), 0);
    check_slice(reading.in, 0, "handle /srv/app.py:3", 0, 4000000);
    check_slice(reading.in, 1, "loads /usr/lib/json.py:9", 0, 2500000);
    assert_int_equal(fixture_sum(reading.in, "callgrind").count, 2);
    assert_null(strstr(reading.reason, "one unit"));
}

static void test_units(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"events: ns\nfn=a\n1 7\n", 7},
        {"events: us\nfn=a\n1 7\n", 7000},
        {"events: ms Other\nfn=a\n1 7 99\n", 7000000},
        {"events: Time_(10ns) Memory_(bytes)\nfn=a\n1 7 99\n", 70},
        {"creator: xdebug\nevents: Ticks\nfn=a\n1 7\n", 7},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(reading_done) struct reading reading = read_text(cases[i].text);
        assert_int_equal(reading.r, 0);
        check_slice(reading.in, 0, "a", 0, cases[i].ns);
    }
}

/* Instruction addresses, compressed positions, inlined files, jumps: valgrind with everything on. */
static void test_positions(void **state)
{
    _cleanup_(reading_done) struct reading reading = read_text(
        "positions: instr line\nevents: Ir sysCount\n\nob=(1) /bin/p\nfl=(1) p.c\nfn=(1) main\n"
        "0x10c0 5 10\n+4 +1 3 1\nfi=(2) inline.h\n+4 * 2\nfe=(1)\n* -1\n"
        "jcnd=1/2 +23 0\n* *\njump=1 0x1080 0\n* *\njfi=(3) other.c\njfn=(7) elsewhere\njump=1 -50 -5\n* *\n"
        "cob=(2) libc.so\ncfi=(3)\ncfn=(7)\ncalls=1 0x99 0\n+8 +1 40 6\n+2 * 1\n");

    assert_int_equal(reading.r, 0);
    assert_int_equal(defects(reading.in), 0);
    check_slice(reading.in, 0, "main", 0, 56);
    check_slice(reading.in, 1, "elsewhere", 0, 40);
    assert_int_equal(fixture_sum(reading.in, "callgrind_self").ns, 16);
}

/* The same name in two files is two functions. */
static void test_files_distinguished(void **state)
{
    _cleanup_(reading_done) struct reading reading =
        read_text("events: ns\nfl=a.py\nfn=__init__\n1 10\nfl=b.py\nfn=__init__\n1 "
                  "30\ncfi=a.py\ncfn=__init__\ncalls=1 1\n1 10\n");

    assert_int_equal(reading.r, 0);
    check_slice(reading.in, 0, "__init__", 0, 40);
    check_slice(reading.in, 1, "__init__", 0, 10);
    assert_int_equal(fixture_sum(reading.in, "callgrind_self").count, 2);
}

/* main 10, even 20, odd 25, even 30, odd 15, one within the other; sums of inclusive costs count the inner
 * ones twice. */
static void test_recursion(void **state)
{
    _cleanup_(reading_done) struct reading reading =
        read_text("events: ns\nfn=main\n1 10\ncfn=even\ncalls=1 1\n1 90\n"
                  "fn=even\n1 50\ncfn=odd\ncalls=2 1\n1 85\ncfn=even\ncalls=9 1\n1 1000\n"
                  "fn=odd\n1 40\ncfn=even\ncalls=1 1\n1 45\n");

    assert_int_equal(reading.r, 0);
    check_slice(reading.in, 0, "main", 0, 100);
    check_slice(reading.in, 1, "even", 0, 90);
    /* The circle of both takes 90 once; of odd no more is known than its own 40. */
    check_slice(reading.in, 2, "odd", 0, 40);
    assert_int_equal(fixture_sum(reading.in, "callgrind").count, 2);
    assert_int_equal(fixture_sum(reading.in, CALLGRAPH_CIRCLE).count, 1);
    assert_non_null(strstr(reading.reason, "2 calls that recur"));
    assert_int_equal(fixture_sum(reading.in, "callgrind_self").ns, 100);
}

/* What functions of a circle call outside of it counts once, through whomever the circle was entered. */
static void test_calls_out_of_a_circle(void **state)
{
    _cleanup_(reading_done) struct reading reading =
        read_text("events: ns\nfn=main\n1 10\ncfn=even\ncalls=1 1\n1 600\ncfn=odd\ncalls=1 1\n1 300\n"
                  "fn=even\n1 50\ncfn=odd\ncalls=9 1\n1 800\ncfn=work\ncalls=9 1\n1 450\n"
                  "fn=odd\n1 40\ncfn=even\ncalls=9 1\n1 790\ncfn=work\ncalls=9 1\n1 360\n"
                  "fn=work\n1 810\n");

    assert_int_equal(reading.r, 0);
    check_slice(reading.in, 0, "main", 0, 910);
    check_slice(reading.in, 1, "even", 0, 600);
    int64_t work_ns = 0;
    for (size_t i = 0; i < reading.in->batch->n; i++) {
        const struct event *e = &reading.in->batch->events[i];
        if (streq(fixture_text(reading.in, e->name), "work") &&
            e->thread == reading.in->batch->events[0].thread)
            work_ns += e->dur;
    }
    assert_int_equal(work_ns, 810);
}

/* Callers that account for more than the function does: the rest is its own. */
static void test_inconsistent(void **state)
{
    _cleanup_(reading_done) struct reading reading =
        read_text("events: ns\nfn=a\n1 10\ncfn=b\ncalls=1 1\n1 90\nfn=b\n1 0\ncfn=c\ncalls=1 1\n1 30\n"
                  "cfn=d\ncalls=1 1\n1 0\nfn=d\n1 0\ncfn=a\ncalls=1 1\n1 0\n");

    assert_int_equal(reading.r, 0);
    check_slice(reading.in, 0, "a", 0, 100);
    check_slice(reading.in, 1, "b", 0, 90);
    check_slice(reading.in, 2, "c", 0, 30);
    assert_int_equal(fixture_sum(reading.in, "callgrind").count, 3);
}

/* A function without a cost of its own that somebody says took time. */
static void test_cost_from_nowhere(void **state)
{
    _cleanup_(reading_done) struct reading reading =
        read_text("events: ns\nfn=a\n1 10\ncfn=b\ncalls=1 1\n1 90\nfn=b\ncfn=c\ncalls=1 1\n1 0\n");

    assert_int_equal(reading.r, 0);
    check_slice(reading.in, 1, "b", 0, 90);
    assert_int_equal(fixture_sum(reading.in, "callgrind").count, 2);
}

static struct batch *count_events(struct intake *in, struct batch *full, void *arg)
{
    (void)in;
    *(size_t *)arg += full->n;
    batch_reset(full);
    return full;
}

/* A graph with 2^60 paths is cut by what they cost. */
static void test_many_paths(void **state)
{
    char text[16384];
    int n = snprintf(text, sizeof(text), "events: ns\n");

    for (int i = 0; i < 60; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      "fn=f%d\n1 0\ncfn=f%d\ncalls=1 1\n1 500000\ncfn=g%d\ncalls=1 1\n1 500000\n"
                      "fn=g%d\n1 0\ncfn=f%d\ncalls=1 1\n1 500000\n",
                      i, i + 1, i, i, i + 1);
    snprintf(text + n, sizeof(text) - (size_t)n, "fn=f60\n1 1000000\n");

    struct reading reading = {.in = fixture_new()};
    size_t slices = 0;
    reading.in->flush = count_events;
    reading.in->flush_arg = &slices;
    reading.r = callgrind_read(text, strlen(text), reading.in, reading.reason, sizeof(reading.reason));
    slices += reading.in->batch->n;
    reading_done(&reading);
    assert_int_equal(reading.r, 0);
    assert_in_range(slices, CALLGRAPH_PARTS, CALLGRAPH_SLICES_MAX);
    assert_null(strstr(reading.reason, " and 0 that are too small"));
}

static void test_deep(void **state)
{
    char text[65536];
    int n = snprintf(text, sizeof(text), "events: ns\n");

    for (int i = 0; i < 1000; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "fn=f%d\n1 1\ncfn=f%d\ncalls=1 1\n1 %d\n", i, i + 1,
                      1000 - i);
    _cleanup_(reading_done) struct reading reading = read_text(text);
    assert_int_equal(reading.r, 0);
    assert_int_equal(fixture_sum(reading.in, "callgrind").count, CALLGRAPH_DEPTH_MAX);
    assert_int_equal(fixture_sum(reading.in, "callgrind_self").count, 1000);
}

static void test_defects(void **state)
{
    static const struct {
        const char *text;
        enum defect_kind kind;
        uint64_t place;
    } cases[] = {
        {"events: ns\nfn=a\n1 5\nwhat is this\n", DEFECT_unreadable_event, 20},
        {"events: ns\nfn=a\n1 5\nfn=(9)\n", DEFECT_unreadable_event, 20},
        {"events: ns\nfn=a\n1 5\n1 12x\n", DEFECT_bad_number, 20},
        {"events: ns\nfn=a\n1 5\n1 -7\n", DEFECT_bad_number, 20},
        {"events: ns\nfn=a\n1 5\n1 9223372036854775807\n", DEFECT_bad_number, 20},
        {"events: ms\nfn=a\n1 5\n1 9223372036854775807\n", DEFECT_bad_number, 20},
        {"events: ns\nfn=a\n1 5\ncfn=b\ncalls=1 1\n", DEFECT_truncated, 36},
        {"events: ns\nfn=a\n1 5\nfn=\xFF\n", DEFECT_bad_utf8, 20},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(reading_done) struct reading reading = read_text(cases[i].text);
        assert_int_equal(reading.r, 0);
        assert_int_equal(reading.in->defects.count[cases[i].kind], 1);
        assert_int_equal(reading.in->defects.first[cases[i].kind], cases[i].place);
        assert_int_equal(defects(reading.in), 1);
        assert_string_equal(fixture_text(reading.in, reading.in->batch->events[0].name), "a");
    }
}

static void test_refused(void **state)
{
    static const char *const texts[] = {"", "events: ns\n", "fn=a\n1 5\n", "# callgrind format\n"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        _cleanup_(reading_done) struct reading reading = read_text(texts[i]);
        assert_int_equal(reading.r, -EBADMSG);
        assert_string_not_equal(reading.reason, "");
        assert_int_equal(reading.in->batch->n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_yappi),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_files_distinguished),
        cmocka_unit_test(test_recursion),
        cmocka_unit_test(test_calls_out_of_a_circle),
        cmocka_unit_test(test_inconsistent),
        cmocka_unit_test(test_cost_from_nowhere),
        cmocka_unit_test(test_many_paths),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_defects),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
