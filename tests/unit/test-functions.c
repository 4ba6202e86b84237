/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/fs.h"
#include "extras/nemo_gym/snapshot.h"
#include "tests/unit/cmocka-all.h"
#include <fcntl.h>

#define HEADING "\nClock type: CPU\nOrdered by: totaltime, desc\n\nname  ncall  tsub  ttot  tavg  \n"
#define MS      INT64_C(1000000)

static struct function_list *table(const char *text)
{
    struct function_list *l;
    assert_int_equal(yappi_table_parse(text, strlen(text), &l), 0);
    return l;
}

static struct function_list *profile(const char *text)
{
    struct function_list *l;
    assert_int_equal(yappi_callgrind_parse(text, strlen(text), &l), 0);
    return l;
}

static void check(const struct function *f, const char *name, const char *file, int64_t line, int64_t calls,
                  int64_t tsub_ns, int64_t ttot_ns)
{
    assert_string_equal(f->name, name);
    assert_string_equal(f->file, file);
    assert_int_equal(f->line, line);
    assert_int_equal(f->calls, calls);
    assert_int_equal(f->tsub_ns, tsub_ns);
    assert_int_equal(f->ttot_ns, ttot_ns);
}

static void test_table(void **state)
{
    _cleanup_(function_list_freep) struct function_list *l =
        table(HEADING "/app/my app.py:12 Server.verify   20          0.010000  1.500000  0.075000\n"
                      "../lib/python3.11/x.py:3 fib  2325/5  0.001712  0.001712  0.000001\n"
                      "<frozen importlib._bootstrap>:1022 _find  1  0.5  12.34567  12.34567  \r\n"
                      "\n"
                      "builtins.sorted  7  0.1  0.1  0.014\n"
                      "half a row  0.1  0.1\n"
                      "/a.py:1 f  12345678..  0.1  0.1  0.1\n");

    assert_int_equal(l->clock, FUNCTION_CLOCK_CPU);
    assert_int_equal(l->n, 4);
    assert_int_equal(l->n_unreadable, 2);
    check(&l->items[0], "Server.verify", "/app/my app.py", 12, 20, 10 * MS, 1500 * MS);
    check(&l->items[1], "fib", "../lib/python3.11/x.py", 3, 2325, 1712000, 1712000);
    check(&l->items[2], "_find", "<frozen importlib._bootstrap>", 1022, 1, 500 * MS, 12345670000);
    check(&l->items[3], "builtins.sorted", "", 0, 7, 100 * MS, 100 * MS);
}

/* What has not returned yet has its callees' time taken off already: it may be negative, and fall. */
static void test_functions_under_way(void **state)
{
    static const char *const texts[] = {
        HEADING "/a.py:1 loop  1  -0.10000  0.000000  0.0\n",
        HEADING "/a.py:1 loop  1  -0.25000  0.000000  0.0\n",
        HEADING "/a.py:1 loop  1  0.500000  1.000000  1.0\n",
    };
    _cleanup_(function_list_freep) struct function_list *a = table(texts[0]);
    _cleanup_(function_list_freep) struct function_list *b = table(texts[1]);
    _cleanup_(function_list_freep) struct function_list *c = table(texts[2]);
    bool restarted;

    assert_int_equal(a->items[0].tsub_ns, -100 * MS);
    _cleanup_(function_list_freep) struct function_list *first = function_list_difference(a, b, &restarted);
    assert_false(restarted);
    assert_int_equal(first->n, 0);
    _cleanup_(function_list_freep) struct function_list *second = function_list_difference(a, c, &restarted);
    assert_false(restarted);
    check(&second->items[0], "loop", "/a.py", 1, 0, 600 * MS, 1000 * MS);
    _cleanup_(function_list_freep) struct function_list *own =
        profile("creator: yappi\nfl=(1) a\nfn=(1) f a:3\nfn=(1)\n3 -40\ncfn=(1)\ncalls=1 0\n0 -7\n");
    check(&own->items[0], "f", "a", 3, 0, -40000, 0);
    assert_int_equal(own->n_unreadable, 1);
}

/* What exports no rows is no error here; what has no heading is no table. */
static void test_table_without_rows(void **state)
{
    _cleanup_(function_list_freep) struct function_list *l = table(HEADING);
    struct function_list *none;

    assert_int_equal(l->n, 0);
    assert_int_equal(yappi_table_parse("", 0, &none), -EBADMSG);
    assert_int_equal(yappi_table_parse("<html>", 6, &none), -EBADMSG);
}

#define PROFILE                                                                                              \
    "version: 1\ncreator: yappi\npid: 12\ncmd:  app.py\npart: 1\n\nevents: Ticks\n\n"                        \
    "fl=(0) /my app/a.py\nfl=(7) b.py\n\nfn=(0) S.run /my app/a.py:3\nfn=(7) fib b.py:9\n\n"                 \
    "fl=(0)\nfn=(0)\n3 1500\ncfl=(7)\ncfn=(7)\ncalls=5 0\n0 2500\n\n"                                        \
    "fl=(7)\nfn=(7)\n9 2500\ncfl=(7)\ncfn=(7)\ncalls=2320 0\n0 9999\n"

static void test_callgrind(void **state)
{
    _cleanup_(function_list_freep) struct function_list *l = profile(PROFILE);
    struct function_list *none;

    assert_int_equal(l->pid, 12);
    assert_int_equal(l->n, 2);
    assert_int_equal(l->n_unreadable, 0);
    check(&l->items[0], "S.run", "/my app/a.py", 3, 0, 1500000, 4 * MS);
    check(&l->items[1], "fib", "b.py", 9, 2325, 2500000, 2500000);
    assert_int_equal(yappi_callgrind_parse("creator: valgrind\nfn=(0) f a:1\n", 31, &none), -EBADMSG);
    assert_int_equal(yappi_callgrind_parse("creator: yappi\n", 15, &none), -EBADMSG);
}

/* As yappi 1.4 wrote it of functions that call each other. Its own figures of them, in microseconds: is_even
 * and is_odd were open for 35313 and 34612 of the 35371 that both took together. */
#define CIRCLE                                                                                               \
    "version: 1\n"                                                                                           \
    "creator: yappi\n"                                                                                       \
    "pid: 22141\n"                                                                                           \
    "cmd:  mut.py \n"                                                                                        \
    "part: 1\n"                                                                                              \
    "\n"                                                                                                     \
    "events: Ticks\n"                                                                                        \
    "\n"                                                                                                     \
    "fl=(0) /app/mut.py\n"                                                                                   \
    "fl=(1) /app/mut.py\n"                                                                                   \
    "fl=(3) /app/mut.py\n"                                                                                   \
    "fl=(2) /app/mut.py\n"                                                                                   \
    "fl=(5) /app/mut.py\n"                                                                                   \
    "fl=(4) /app/mut.py\n"                                                                                   \
    "\n"                                                                                                     \
    "fn=(0) main /app/mut.py:18\n"                                                                           \
    "fn=(1) is_even /app/mut.py:6\n"                                                                         \
    "fn=(3) is_odd /app/mut.py:9\n"                                                                          \
    "fn=(2) work /app/mut.py:2\n"                                                                            \
    "fn=(5) fib /app/mut.py:16\n"                                                                            \
    "fn=(4) third /app/mut.py:12\n"                                                                          \
    "\n"                                                                                                     \
    "fl=(0)\n"                                                                                               \
    "fn=(0)\n"                                                                                               \
    "18 51\n"                                                                                                \
    "cfl=(2)\n"                                                                                              \
    "cfn=(2)\n"                                                                                              \
    "calls=1 0\n"                                                                                            \
    "0 58\n"                                                                                                 \
    "cfl=(5)\n"                                                                                              \
    "cfn=(5)\n"                                                                                              \
    "calls=1 0\n"                                                                                            \
    "0 2015\n"                                                                                               \
    "cfl=(4)\n"                                                                                              \
    "cfn=(4)\n"                                                                                              \
    "calls=1 0\n"                                                                                            \
    "0 447\n"                                                                                                \
    "cfl=(3)\n"                                                                                              \
    "cfn=(3)\n"                                                                                              \
    "calls=1 0\n"                                                                                            \
    "0 1806\n"                                                                                               \
    "cfl=(1)\n"                                                                                              \
    "cfn=(1)\n"                                                                                              \
    "calls=20 0\n"                                                                                           \
    "0 33223\n"                                                                                              \
    "\n"                                                                                                     \
    "fl=(1)\n"                                                                                               \
    "fn=(1)\n"                                                                                               \
    "6 1173\n"                                                                                               \
    "cfl=(3)\n"                                                                                              \
    "cfn=(3)\n"                                                                                              \
    "calls=422 0\n"                                                                                          \
    "0 34518\n"                                                                                              \
    "cfl=(2)\n"                                                                                              \
    "cfn=(2)\n"                                                                                              \
    "calls=446 0\n"                                                                                          \
    "0 12469\n"                                                                                              \
    "\n"                                                                                                     \
    "fl=(3)\n"                                                                                               \
    "fn=(3)\n"                                                                                               \
    "9 1380\n"                                                                                               \
    "cfl=(1)\n"                                                                                              \
    "cfn=(1)\n"                                                                                              \
    "calls=420 0\n"                                                                                          \
    "0 33359\n"                                                                                              \
    "cfl=(2)\n"                                                                                              \
    "cfn=(2)\n"                                                                                              \
    "calls=423 0\n"                                                                                          \
    "0 20350\n"                                                                                              \
    "\n"                                                                                                     \
    "fl=(2)\n"                                                                                               \
    "fn=(2)\n"                                                                                               \
    "2 32967\n"                                                                                              \
    "\n"                                                                                                     \
    "fl=(5)\n"                                                                                               \
    "fn=(5)\n"                                                                                               \
    "16 2015\n"                                                                                              \
    "cfl=(5)\n"                                                                                              \
    "cfn=(5)\n"                                                                                              \
    "calls=1972 0\n"                                                                                         \
    "0 2012\n"                                                                                               \
    "\n"                                                                                                     \
    "fl=(4)\n"                                                                                               \
    "fn=(4)\n"                                                                                               \
    "12 15\n"                                                                                                \
    "cfl=(4)\n"                                                                                              \
    "cfn=(4)\n"                                                                                              \
    "calls=6 0\n"                                                                                            \
    "0 337\n"                                                                                                \
    "cfl=(1)\n"                                                                                              \
    "cfn=(1)\n"                                                                                              \
    "calls=6 0\n"                                                                                            \
    "0 342\n"                                                                                                \
    "cfl=(2)\n"                                                                                              \
    "cfn=(2)\n"                                                                                              \
    "calls=7 0\n"                                                                                            \
    "0 89\n"

static void test_a_circle_counts_once(void **state)
{
    static const struct {
        const char *name;
        int64_t least_us, most_us;
    } expected[] = {{"main", 37604, 37604}, {"is_even", 35313, 35373}, {"is_odd", 34612, 35373},
                    {"work", 32967, 32967}, {"fib", 2016, 2016},       {"third", 448, 448}};
    _cleanup_(function_list_freep) struct function_list *l = profile(CIRCLE);

    assert_int_equal(l->n, ARRAY_SIZE(expected));
    for (size_t k = 0; k < ARRAY_SIZE(expected); k++) {
        size_t i = 0;
        while (i < l->n && !streq(l->items[i].name, expected[k].name))
            i++;
        assert_true(i < l->n);
        /* yappi cuts each figure to microseconds. */
        int64_t us = l->items[i].ttot_ns / 1000;
        if (us < expected[k].least_us - 5 || us > expected[k].most_us)
            fail_msg("%s: %lld us", l->items[i].name, (long long)us);
    }
}

/* Entered at each of both: neither says how much of the other's 9 or 8 ms it was open for, but it was for no
 * more than was spent in calls of it. */
static void test_two_ways_into_a_circle(void **state)
{
    _cleanup_(function_list_freep) struct function_list *l = profile(
        "creator: yappi\nevents: Ticks\nfl=(0) a.py\nfl=(1) a.py\nfl=(2) a.py\nfn=(0) main a.py:1\nfn=(1) a "
        "a.py:2\n"
        "fn=(2) b a.py:3\nfl=(0)\nfn=(0)\n1 1000\ncfn=(1)\ncalls=1 0\n0 9000\ncfn=(2)\ncalls=1 0\n0 8000\n"
        "fl=(1)\nfn=(1)\n2 12000\ncfn=(2)\ncalls=3 0\n0 4000\nfl=(2)\nfn=(2)\n3 5000\ncfn=(1)\ncalls=3 0\n0 "
        "3000\n");

    assert_int_equal(l->n, 3);
    check(&l->items[0], "main", "a.py", 1, 0, 1 * MS, 18 * MS);
    check(&l->items[1], "a", "a.py", 2, 4, 12 * MS, 12 * MS);
    check(&l->items[2], "b", "a.py", 3, 4, 5 * MS, 12 * MS);
}

static void test_difference(void **state)
{
    _cleanup_(function_list_freep) struct function_list *before =
        table(HEADING "/a.py:1 slow  10  0.100000  1.000000  0.1\n"
                      "/a.py:5 same  3  0.010000  0.010000  0.003\n");
    _cleanup_(function_list_freep) struct function_list *after =
        table(HEADING "/a.py:9 new  1  2.000000  2.000000  2.0\n"
                      "/a.py:1 slow  15  0.150000  1.500000  0.1\n"
                      "/a.py:5 same  3  0.010000  0.010000  0.003\n");
    bool restarted;
    _cleanup_(function_list_freep) struct function_list *d =
        function_list_difference(before, after, &restarted);

    assert_false(restarted);
    assert_int_equal(d->n, 2);
    assert_int_equal(d->clock, FUNCTION_CLOCK_CPU);
    check(&d->items[0], "new", "/a.py", 9, 1, 2000 * MS, 2000 * MS);
    check(&d->items[1], "slow", "/a.py", 1, 5, 50 * MS, 500 * MS);
}

static void test_difference_of_equals_is_empty(void **state)
{
    static const char *const twins = HEADING "/a.py:1 <lambda>  10  0.1  1.0  0.1\n"
                                             "/a.py:1 <lambda>  4  0.2  0.2  0.1\n";
    static const char *const swapped = HEADING "/a.py:1 <lambda>  4  0.2  0.2  0.1\n"
                                               "/a.py:1 <lambda>  10  0.1  1.0  0.1\n";
    _cleanup_(function_list_freep) struct function_list *a = table(twins);
    _cleanup_(function_list_freep) struct function_list *b = table(swapped);
    bool restarted;
    _cleanup_(function_list_freep) struct function_list *d = function_list_difference(a, b, &restarted);

    assert_false(restarted);
    assert_int_equal(d->n, 0);
}

/* A count that fell, a function that is gone, another process: each is a server that began anew. */
static void test_difference_after_restart(void **state)
{
    static const struct {
        const char *after;
        int64_t pid;
        size_t n;
    } cases[] = {
        {HEADING "/a.py:1 f  2  0.1  0.2  0.1\n/a.py:5 g  9  1.0  1.0  0.1\n", 0, 2},
        {HEADING "/a.py:1 f  12  1.1  2.2  0.1\n", 0, 1},
        {HEADING "/a.py:1 f  12  1.1  2.2  0.1\n/a.py:5 g  9  1.0  1.0  0.1\n", 8, 2},
        {HEADING "/a.py:1 f  12  1.1  1.9  0.1\n/a.py:5 g  9  1.0  1.0  0.1\n", 0, 2},
    };
    _cleanup_(function_list_freep) struct function_list *before =
        table(HEADING "/a.py:1 f  10  1.0  2.0  0.1\n/a.py:5 g  5  0.5  0.5  0.1\n");

    before->pid = 7;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(function_list_freep) struct function_list *after = table(cases[i].after);
        bool restarted;
        after->pid = cases[i].pid;
        _cleanup_(function_list_freep) struct function_list *d =
            function_list_difference(before, after, &restarted);
        assert_true(restarted);
        assert_int_equal(d->n, cases[i].n);
        for (size_t k = 0; k < d->n; k++)
            if (streq(d->items[k].name, "f"))
                assert_int_equal(d->items[k].calls, after->items[0].calls);
    }
}

/* -- Files -- */

struct testbed {
    char dir[64];
};

static int setup(void **state)
{
    struct testbed *h = xcalloc(1, sizeof(*h));
    strcpy(h->dir, "/tmp/test-functions-XXXXXX");
    assert_non_null(mkdtemp(h->dir));
    *state = h;
    return 0;
}

static int teardown(void **state)
{
    struct testbed *h = *state;
    _cleanup_(freep) char *command = xasprintf("rm -r %s", h->dir);
    assert_int_equal(system(command), 0);
    free(h);
    return 0;
}

static void put(const struct testbed *h, const char *directory, const char *name, const char *text)
{
    _cleanup_(freep) char *dir = xasprintf("%s/%s", h->dir, directory);
    _cleanup_(freep) char *path = xasprintf("%s/%s", dir, name);
    assert_int_equal(make_dirs(dir, 0755), 0);
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_int_equal(write_all(fd, text, strlen(text)), 0);
}

static int read_place(const struct testbed *h, const char *server, int64_t not_before, const char *says,
                      const char *source)
{
    const struct profile_source place = {
        .dir = h->dir, .server = server, .uid = UID_UNKNOWN, .not_before = not_before};
    _cleanup_(function_list_freep) struct function_list *l = NULL;
    _cleanup_(freep) char *path = NULL;
    _cleanup_(problem_done) struct problem p = {0};
    int r = profile_files_read(&place, &l, &path, &p);

    assert_int_equal(r == 0, says == NULL);
    if (says && !strstr(p.what, says))
        fail_msg("\"%s\" does not say \"%s\"", p.what, says);
    if (source && !ends_with(path, source))
        fail_msg("%s is not %s", path, source);
    return r;
}

static void test_files(void **state)
{
    const struct testbed *h = *state;

    read_place(h, "one", 0, "no profile of one", NULL);
    put(h, "Math___one", "one.log", HEADING);
    assert_int_equal(read_place(h, "one", 0, "heading and no rows", NULL), -ENODATA);
    put(h, "Math___one", "one.callgrind", PROFILE);
    read_place(h, "one", 0, NULL, "Math___one/one.callgrind");
    read_place(h, NULL, 0, NULL, "Math___one/one.callgrind");
    read_place(h, "one", INT64_MAX / 2, "older than the request", NULL);
    put(h, ".", "Code___two.log", HEADING "/a.py:1 f  2  0.1  0.2  0.1\n");
    read_place(h, "two", 0, NULL, "/Code___two.log");
    read_place(h, NULL, 0, "profiles of 2 servers", NULL);
}

/* Nothing leads out of the directory. */
static void test_links_are_not_followed(void **state)
{
    const struct testbed *h = *state;
    _cleanup_(freep) char *elsewhere = xasprintf("%s/elsewhere", h->dir);
    _cleanup_(freep) char *link_dir = xasprintf("%s/Math___one", h->dir);
    _cleanup_(freep) char *file = xasprintf("%s/elsewhere/one.callgrind", h->dir);
    _cleanup_(freep) char *link_file = xasprintf("%s/Math___two/two.callgrind", h->dir);

    put(h, "elsewhere", "one.callgrind", PROFILE);
    put(h, "Math___two", "two.log", HEADING);
    assert_int_equal(symlink(elsewhere, link_dir), 0);
    assert_int_equal(symlink(file, link_file), 0);
    read_place(h, "one", 0, "cannot open Math___one", NULL);
    read_place(h, "two", 0, "cannot open two.callgrind", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_functions_under_way),
        cmocka_unit_test(test_table_without_rows),
        cmocka_unit_test(test_callgrind),
        cmocka_unit_test(test_a_circle_counts_once),
        cmocka_unit_test(test_two_ways_into_a_circle),
        cmocka_unit_test(test_difference),
        cmocka_unit_test(test_difference_of_equals_is_empty),
        cmocka_unit_test(test_difference_after_restart),
        cmocka_unit_test_setup_teardown(test_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_are_not_followed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
