/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/doctor.h"
#include "tests/unit/cmocka-all.h"

static struct fleet *a_fleet(size_t n)
{
    struct fleet *f = xcalloc(1, sizeof(*f));
    f->router = xstrdup("http://router:1");
    f->dialect = xstrdup("vllm-router");
    f->latency_ns = 900 * NS_PER_US;
    for (size_t i = 0; i < n; i++) {
        struct worker *w = fleet_add_worker(f);
        w->url = xasprintf("http://worker:%zu", i + 1);
        w->engine = ENGINE_VLLM;
        w->version = xstrdup("0.19.1");
        w->health = HEALTH_HEALTHY;
        w->profilable = w->local = w->clock_known = true;
        w->location.dir = xstrdup("/traces");
        w->location.local_dir = xstrdup("/traces");
    }
    return f;
}

static json_t *examine(const struct fleet *f, int64_t free_bytes, int err)
{
    struct directory_spaces spaces = {0};
    struct checks checks = {0};

    directory_spaces_of(f, &spaces);
    for (size_t i = 0; i < spaces.n; i++) {
        spaces.items[i].free = free_bytes;
        spaces.items[i].err = err;
    }
    fleet_check(f, &spaces, &checks);
    json_t *j = checks_to_json(&checks);
    checks_done(&checks);
    directory_spaces_done(&spaces);
    return j;
}

/* The check with that text in it, NULL where there is none. */
static const json_t *check_of(const json_t *answer, const char *text)
{
    size_t i;
    json_t *check;
    json_array_foreach(json_object_get(answer, "checks"), i, check)
        if (strstr(json_get_str(check, "text"), text))
            return check;
    return NULL;
}

static void assert_check(const json_t *answer, const char *result, const char *text, const char *remedy)
{
    const json_t *check = check_of(answer, text);
    if (!check) {
        _cleanup_(freep) char *all = json_dumps(answer, JSON_INDENT(1));
        fail_msg("no check says \"%s\": %s", text, all);
    }
    assert_string_equal(json_get_str(check, "result"), result);
    if (remedy)
        assert_non_null(strstr(json_get_str(check, "remedy"), remedy));
    else
        assert_null(json_get_str(check, "remedy"));
}

static void test_healthy(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = a_fleet(3);
    _cleanup_json_ answer = examine(f, INT64_C(100) << 30, 0);

    assert_int_equal(json_get_int(answer, "problems", -1), 0);
    assert_int_equal(json_get_int(answer, "warnings", -1), 0);
    assert_check(answer, "ok", "http://router:1 answers as vllm-router (900 us), 3 workers", NULL);
    assert_check(answer, "ok", "3 of 3 healthy", NULL);
    assert_check(answer, "ok", "3 of 3 run vllm 0.19.1", NULL);
    assert_check(answer, "ok", "3 of 3 can be profiled", NULL);
    assert_check(answer, "ok", "/traces (trace directory of http://worker:1 and 2 others): 100 GiB free",
                 NULL);
}

static void test_ill(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = a_fleet(5);
    struct worker *w = f->workers;

    w[0].profilable = false;
    w[0].reason = xstrdup("has no /start_profile");
    w[0].remedy = xstrdup("--profiler-config");
    w[1].health = HEALTH_UNHEALTHY;
    w[1].setup.with_stack = w[2].setup.with_stack = 1;
    w[2].setup.wait_iterations = 4;
    w[3].clock_offset_ns = -90 * NS_PER_S;
    w[3].sleeping = 1;
    w[3].setup.each_request = 1;
    replace_str(&w[4].location.local_dir, NULL);
    w[4].location.note = xstrdup("its process belongs to root");
    w[4].location.remedy = xstrdup("run profd as root");
    _cleanup_json_ answer = examine(f, INT64_C(1) << 30, 0);

    assert_check(answer, "fail", "http://worker:1: has no /start_profile", "--profiler-config");
    assert_check(answer, "fail", "http://worker:2: is unhealthy", "--include-unhealthy");
    assert_check(answer, "warn", "each of 2 workers: profiles with Python stacks",
                 "\"torch_profiler_with_stack\":false");
    assert_check(answer, "warn", "http://worker:3: was started with wait_iterations", "before each session");
    assert_check(answer, "warn", "http://worker:4: has a clock that is 1min 30s behind ours", "timedatectl");
    assert_check(answer, "warn", "http://worker:4: sleeps", "wake");
    assert_check(answer, "warn", "http://worker:4: records every request unasked", "profctl timeline");
    assert_check(answer, "warn", "http://worker:5: traces cannot be collected", "run profd as root");
    assert_check(answer, "ok", "traces of 3 of 4 workers can be collected", NULL);
    assert_check(answer, "warn", "only 1.0 GiB free", "Free space");
    assert_check(answer, "ok", "4 of 5 can be profiled", NULL);
    assert_int_equal(json_get_int(answer, "problems", -1), 2);
    assert_int_equal(json_get_int(answer, "warnings", -1), 7);
}

static void test_full_and_unreadable_disks(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = a_fleet(1);
    _cleanup_json_ full = examine(f, 1000, 0);
    _cleanup_json_ unreadable = examine(f, 0, -EACCES);

    assert_check(full, "fail", "only 1000 B free", "Free space");
    assert_check(unreadable, "fail", "cannot be read: Permission denied", "run it as a user");
}

static void test_no_workers(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = a_fleet(0);
    _cleanup_json_ answer = examine(f, 0, 0);

    assert_check(answer, "fail", "no workers are listed", "--worker URL");
    assert_int_equal(json_array_size(json_object_get(answer, "checks")), 2);
}

/* A thousand workers that are ill alike are one line. */
static void test_alike(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = a_fleet(1000);
    for (size_t i = 0; i < f->n_workers; i++)
        f->workers[i].sleeping = 1;
    _cleanup_json_ answer = examine(f, INT64_C(100) << 30, 0);

    assert_check(answer, "warn", "each of 1000 workers: sleeps", "wake");
    assert_int_equal(json_get_int(answer, "warnings", -1), 1);
    assert_true(json_array_size(json_object_get(answer, "checks")) < 10);
}

/* Nothing of what would be recorded can be had: a failure, and one block for the same trouble of many,
 * however much of each worker's own is in its text. */
static void test_nothing_can_be_collected(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = a_fleet(60);
    for (size_t i = 0; i < f->n_workers; i++) {
        struct worker *w = &f->workers[i];
        replace_str(&w->location.local_dir, NULL);
        free(w->location.dir);
        w->location.dir = xasprintf("/traces/w%zu", i);
        w->location.note =
            xasprintf("/traces/w%zu cannot be reached: process %zu on port %zu belongs to root", i,
                      4000 + 7 * i, i + 1);
        w->location.remedy = xasprintf("--trace-dir DIR\nor [worker http://worker:%zu]", i + 1);
        w->location.blocked_here = true;
    }
    _cleanup_json_ answer = examine(f, INT64_C(100) << 30, 0);

    assert_check(answer, "fail", "no traces can be collected: 0 of 60 workers", "--allow-uncollected");
    assert_check(answer, "fail",
                 "each of 60 workers: traces cannot be collected: DIR cannot be reached: process PID on port "
                 "PORT belongs to root",
                 "[worker URL]");
    assert_int_equal(json_get_int(answer, "problems", -1), 2);
    const json_t *check = check_of(answer, "60 workers:");
    assert_int_equal(json_get_int(check, "workers", 0), 60);
    assert_int_equal(json_array_size(json_object_get(check, "urls")), 60);

    for (size_t i = 0; i < f->n_workers; i++)
        f->workers[i].location.blocked_here = false;
    _cleanup_json_ remote = examine(f, INT64_C(100) << 30, 0);
    assert_check(remote, "fail", "no traces can be collected", "--trace-dir");
    assert_check(remote, "warn", "each of 60 workers: traces", "--trace-dir");
}

/* Clocks that are wrong by different amounts are one trouble. */
static void test_clocks_are_one_line(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = a_fleet(50);
    for (size_t i = 0; i < f->n_workers; i++)
        f->workers[i].clock_offset_ns = (int64_t)(i + 10) * NS_PER_S;
    _cleanup_json_ answer = examine(f, INT64_C(100) << 30, 0);

    assert_check(answer, "warn", "each of 50 workers: has a clock that is up to 59.0s ahead of ours",
                 "timedatectl");
    assert_int_equal(json_get_int(answer, "warnings", -1), 1);
}

static void test_disks_are_asked(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = a_fleet(4);
    struct directory_spaces spaces = {0};

    replace_str(&f->workers[0].location.local_dir, "/tmp/no-such-dir-of-test-doctor/a");
    replace_str(&f->workers[1].location.local_dir, "/tmp");
    replace_str(&f->workers[2].location.local_dir, "/dev/null");
    f->workers[3].location.temp_dir = xstrdup("/tmp/no-such-dir-of-test-doctor");
    replace_str(&f->workers[3].location.local_dir, "/tmp");
    directory_spaces_of(f, &spaces);
    assert_int_equal(spaces.n, 4);
    directory_spaces_look(&spaces);
    /* What is not there yet is on its parent's disk. */
    assert_int_equal(spaces.n, 3);
    assert_int_equal(spaces.items[0].err, 0);
    assert_int_equal(spaces.items[0].n_paths, 2);
    assert_int_equal(spaces.items[0].n_workers, 3);
    assert_true(spaces.items[0].free > 0);
    assert_int_equal(spaces.items[1].err, -ENOTDIR);
    assert_true(spaces.items[2].temporary);
    assert_int_equal(spaces.items[2].err, -ENOENT);
    directory_spaces_done(&spaces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy),
        cmocka_unit_test(test_ill),
        cmocka_unit_test(test_full_and_unreadable_disks),
        cmocka_unit_test(test_no_workers),
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_nothing_can_be_collected),
        cmocka_unit_test(test_clocks_are_one_line),
        cmocka_unit_test(test_disks_are_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
