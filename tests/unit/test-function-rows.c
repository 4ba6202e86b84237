/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "extras/nemo_gym/functions.h"
#include "tests/unit/cmocka-all.h"

#define MS    INT64_C(1000000)
#define OWN   "/app/app.py"
#define PLACE "/usr/lib/python3.11/asyncio/events.py"

static json_t *answer(const struct function_row *rows, size_t n)
{
    json_t *list = json_array(), *j = json_object();

    for (size_t i = 0; i < n; i++) {
        const struct function_row *f = &rows[i];
        int64_t tavg = f->calls > 0 ? f->ttot_ns / f->calls : 0;
        json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I}", "worker",
                                              f->worker ? f->worker : "w", "name", f->name, "file", f->file,
                                              "line", (json_int_t)f->line, "calls", (json_int_t)f->calls,
                                              "tsub_ns", (json_int_t)f->tsub_ns, "ttot_ns",
                                              (json_int_t)f->ttot_ns, "tavg_ns", (json_int_t)tavg));
    }
    json_object_set_new(j, "functions", list);
    return j;
}

/* The loop takes all, solve() half in its own code, check() is called often and is dear, run() passes on. */
static const struct function_row scene[] = {
    {.name = "Handle._run", .file = PLACE, .line = 78, .calls = 9, .tsub_ns = MS, .ttot_ns = 1000 * MS},
    {.name = "run", .file = OWN, .line = 3, .calls = 2, .tsub_ns = 2 * MS, .ttot_ns = 990 * MS},
    {.name = "solve", .file = OWN, .line = 9, .calls = 2, .tsub_ns = 500 * MS, .ttot_ns = 600 * MS},
    {.name = "check", .file = OWN, .line = 20, .calls = 200, .tsub_ns = 60 * MS, .ttot_ns = 300 * MS},
    {.name = "cheap", .file = OWN, .line = 30, .calls = 90000, .tsub_ns = 40 * MS, .ttot_ns = 40 * MS},
    {.name = "Profiler.dump",
     .file = "/gym/nemo_gym/profiling.py",
     .line = 1,
     .calls = 1,
     .tsub_ns = 400 * MS,
     .ttot_ns = 400 * MS},
};

static bool holds(const struct function_findings *f, const char *reading, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (streq(f->items[i].rule->name, reading) && streq(f->items[i].function->name, name))
            return true;
    return false;
}

static void test_readings(void **state)
{
    _cleanup_json_ j = answer(scene, ARRAY_SIZE(scene));
    _cleanup_(function_rows_done) struct function_rows rows = {0};
    _cleanup_(function_findings_done) struct function_findings f = {0};

    function_rows_take(j, &rows);
    function_findings_make(&rows, &f);
    assert_true(holds(&f, "high-ttot", "solve"));
    assert_true(holds(&f, "high-ttot", "check"));
    assert_true(holds(&f, "high-tsub", "solve"));
    assert_true(holds(&f, "high-tavg", "check"));
    assert_true(holds(&f, "high-ttot-low-tsub", "run"));
    assert_int_equal(f.n, 5);
    assert_int_equal((int)(f.items[2].share * 100), 49); /* 500 of the 1003 ms that all cost themselves */
    _cleanup_(freep) char *text = function_finding_text(&f.items[2]);
    assert_string_equal(text, "solve 50 %: ttot 600 ms, tsub 500 ms, 2 calls of 300 ms");
}

static void test_nothing_is_found_where_nothing_ran(void **state)
{
    static const struct function_row idle[] = {{.name = "f", .file = OWN, .line = 1, .calls = 5}};
    _cleanup_json_ j = answer(idle, 1);
    _cleanup_(function_rows_done) struct function_rows rows = {0};
    _cleanup_(function_findings_done) struct function_findings f = {0};

    function_rows_take(j, &rows);
    function_findings_make(&rows, &f);
    assert_int_equal(rows.n, 1);
    assert_int_equal(f.n, 0);
}

static void test_sorting(void **state)
{
    static const struct {
        const char *key, *first;
    } cases[] = {{"ttot", "Handle._run"}, {"tsub", "solve"}, {"ncall", "cheap"}, {"tavg", "run"}};
    _cleanup_json_ j = answer(scene, ARRAY_SIZE(scene));
    _cleanup_(function_rows_done) struct function_rows rows = {0};

    function_rows_take(j, &rows);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(function_rows_sort(&rows, cases[i].key), 0);
        assert_string_equal(rows.items[0].name, cases[i].first);
    }
    assert_int_equal(function_rows_sort(&rows, "cost"), -EINVAL);
}

/* A line that moved and a port that changed are no other function; workers of one function add up. */
static void test_changes(void **state)
{
    static const struct function_row before[] = {
        {.worker = "a", .name = "f", .file = OWN, .line = 3, .calls = 2, .tsub_ns = MS, .ttot_ns = 10 * MS},
        {.worker = "b", .name = "f", .file = OWN, .line = 3, .calls = 4, .tsub_ns = MS, .ttot_ns = 20 * MS},
        {.worker = "a", .name = "gone", .file = OWN, .line = 9, .calls = 1, .tsub_ns = MS, .ttot_ns = MS},
    };
    static const struct function_row after[] = {
        {.worker = "c", .name = "f", .file = OWN, .line = 5, .calls = 6, .tsub_ns = MS, .ttot_ns = 12 * MS},
        {.worker = "c", .name = "new", .file = OWN, .line = 9, .calls = 1, .tsub_ns = MS, .ttot_ns = 2 * MS},
    };
    _cleanup_json_ a = answer(before, ARRAY_SIZE(before));
    _cleanup_json_ b = answer(after, ARRAY_SIZE(after));
    _cleanup_(function_rows_done) struct function_rows old = {0};
    _cleanup_(function_rows_done) struct function_rows young = {0};
    _cleanup_(function_changes_done) struct function_changes c = {0};

    function_rows_take(a, &old);
    function_rows_take(b, &young);
    function_changes_make(&old, &young, &c);
    assert_int_equal(c.n, 3);
    assert_string_equal(c.items[0].after.name, "f");
    assert_int_equal(c.items[0].before.calls, 6);
    assert_int_equal(c.items[0].before.tavg_ns, 5 * MS);
    assert_int_equal(function_change_ns(&c.items[0]), -18 * MS);
    assert_string_equal(c.items[1].after.name, "new");
    assert_int_equal(c.items[1].before.calls, 0);
    assert_string_equal(c.items[2].after.name, "gone");
    assert_int_equal(function_change_ns(&c.items[2]), -MS);
}

static void test_a_profile_against_itself_has_not_changed(void **state)
{
    _cleanup_json_ j = answer(scene, ARRAY_SIZE(scene));
    _cleanup_(function_rows_done) struct function_rows rows = {0};
    _cleanup_(function_changes_done) struct function_changes c = {0};

    function_rows_take(j, &rows);
    function_changes_make(&rows, &rows, &c);
    assert_int_equal(c.n, ARRAY_SIZE(scene));
    for (size_t i = 0; i < c.n; i++)
        assert_int_equal(function_change_ns(&c.items[i]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readings),
        cmocka_unit_test(test_nothing_is_found_where_nothing_ran),
        cmocka_unit_test(test_sorting),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_a_profile_against_itself_has_not_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
