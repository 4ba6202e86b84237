/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/session/internal.h"
#include "tests/unit/cmocka-all.h"

static int parse(const char *text, struct job_request *ret, struct problem *p)
{
    char error[200];
    _cleanup_json_ j = json_parse(text, strlen(text), error);
    return session_request_parse(j, ret, p);
}

static void test_defaults(void **state)
{
    struct job_request r;
    struct problem p = {0};

    assert_int_equal(parse("{}", &r, &p), 0);
    assert_int_equal(r.recording.duration_ns, 5 * NS_PER_S);
    assert_int_equal(r.recording.steps, 0);
    assert_false(r.recording.with_stack);
    assert_int_equal(r.role, -1);
    job_request_done(&r);

    assert_int_equal(parse("{\"steps\": 7}", &r, &p), 0);
    assert_int_equal(r.recording.steps, 7);
    assert_int_equal(r.recording.duration_ns, 0);
    job_request_done(&r);
}

static void test_workers_choose_or_list(void **state)
{
    struct job_request r;
    struct problem p = {0};

    assert_int_equal(parse("{\"workers\": [\"http://a:1\", \"http://b:2\"]}", &r, &p), 0);
    assert_int_equal(r.source.n_workers, 2);
    assert_int_equal(r.n_only, 0);
    job_request_done(&r);
    assert_int_equal(parse("{\"router\": \"http://r\", \"workers\": [\"http://a:1\"]}", &r, &p), 0);
    assert_int_equal(r.source.n_workers, 0);
    assert_int_equal(r.n_only, 1);
    job_request_done(&r);
}

static void test_cuda_profiler_requires_all(void **state)
{
    struct job_request r;
    struct problem p = {0};

    assert_int_equal(parse("{\"activities\": [\"cuda-profiler\"]}", &r, &p), 0);
    assert_true(r.require_all);
    assert_int_equal(r.recording.activities, ACTIVITY_CUDA_PROFILER);
    job_request_done(&r);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"load\": {\"until\": \"never\"}}", "until must be"},
        {"{\"job\": \"1_1P\"}", "job"}, /* also without extras */
        {"[]", "object"},
        {"{\"step\": 5}", "\"step\""},
        {"{\"steps\": 0}", "steps"},
        {"{\"steps\": -3}", "steps"},
        {"{\"steps\": \"5\"}", "steps"},
        {"{\"steps\": 100001}", "steps"},
        {"{\"by_stage\": true}", "by_stage needs steps"},
        {"{\"activities\": [\"gpu\"]}", "activities"},
        {"{\"role\": \"leader\"}", "role"},
        {"{\"labels\": {\"a\": 1}}", "labels"},
        {"{\"router\": \"\"}", "router"},
        {"{\"router\": \"http://r\", \"fleet\": \"f\"}", "exclude"},
        {"{\"workers\": \"http://a\"}", "workers"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct job_request r;
        struct problem p = {0};
        assert_int_equal(parse(cases[i].text, &r, &p), -EINVAL);
        assert_int_equal(p.kind, PROBLEM_BAD_REQUEST);
        assert_non_null(strstr(p.what, cases[i].says));
        problem_done(&p);
    }
}

/* -- Plans
 * ---------------------------------------------------------------------------------------------------------
 */

static struct fleet *fleet_of_four(void)
{
    static const enum role roles[] = {ROLE_PREFILL, ROLE_DECODE, ROLE_DECODE, ROLE_PREFILL};
    struct fleet *f = xcalloc(1, sizeof(*f));

    f->router = xstrdup("http://r");
    for (int i = 0; i < 4; i++) {
        struct worker *w = fleet_add_worker(f);
        w->url = xasprintf("http://w%d:1", i);
        w->role = roles[i];
        w->engine = ENGINE_SGLANG;
        w->health = HEALTH_HEALTHY;
        w->profilable = true;
        w->location.local_dir = xstrdup("/traces");
    }
    return f;
}

static size_t planned(struct fleet *f, const char *options, struct job_plan *plan, struct problem *p)
{
    struct job_request r;

    assert_int_equal(parse(options, &r, p), 0);
    int err = session_plan_make(f, &r, plan, p);
    job_request_done(&r);
    if (err == 0)
        return plan->n_chosen;
    job_plan_done(plan);
    return 0;
}

static void test_choice(void **state)
{
    static const struct {
        const char *options;
        size_t n;
    } cases[] = {
        {"{\"router\": \"http://r\"}", 4},
        {"{\"router\": \"http://r\", \"role\": \"decode\"}", 2},
        {"{\"router\": \"http://r\", \"count\": 3}", 3},
        {"{\"router\": \"http://r\", \"one_per_role\": true}", 2},
        {"{\"router\": \"http://r\", \"workers\": [\"http://w3:1/\"]}", 1},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(fleet_freep) struct fleet *f = fleet_of_four();
        struct problem p = {0};
        struct job_plan plan = {0};
        assert_int_equal(planned(f, cases[i].options, &plan, &p), cases[i].n);
        job_plan_done(&plan);
    }
}

static void test_unfit_workers_are_named(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = fleet_of_four();
    struct problem p = {0};
    struct job_plan plan = {0};

    f->workers[0].profilable = false;
    f->workers[0].reason = xstrdup("has no /start_profile");
    f->workers[1].health = HEALTH_UNHEALTHY;
    assert_int_equal(planned(f, "{\"router\": \"http://r\"}", &plan, &p), 2);
    assert_int_equal(json_array_size(plan.skipped), 2);
    assert_string_equal(json_get_str(json_array_get(plan.skipped, 0), "reason"), "has no /start_profile");
    job_plan_done(&plan);
    assert_int_equal(planned(f, "{\"router\": \"http://r\", \"include_unhealthy\": true}", &plan, &p), 3);
    job_plan_done(&plan);
    assert_int_equal(planned(f, "{\"router\": \"http://r\", \"require_all\": true}", &plan, &p), 0);
    assert_int_equal(p.kind, PROBLEM_NO_WORKERS);
    problem_done(&p);
}

static void block(struct worker *w, bool here, const char *note)
{
    replace_str(&w->location.local_dir, NULL);
    replace_str(&w->location.note, note);
    w->location.blocked_here = here;
}

static void test_nothing_is_collected(void **state)
{
    static const char some[] = "{\"router\": \"http://r\"}",
                      allowed[] = "{\"router\": \"http://r\", \"allow_uncollected\": true}";
    _cleanup_(fleet_freep) struct fleet *f = fleet_of_four();
    struct problem p = {0};
    struct job_plan plan = {0};

    /* Of a part of the workers it is a warning, wherever the reason lies. */
    for (int i = 0; i < 3; i++)
        block(&f->workers[i], true, "/traces cannot be read");
    assert_int_equal(planned(f, some, &plan, &p), 4);
    assert_int_equal(json_array_size(plan.remarks), 3);
    assert_false(json_get_bool(json_array_get(plan.remarks, 0), "refuses", true));
    job_plan_done(&plan);
    block(&f->workers[3], true, "/traces cannot be read");
    assert_int_equal(planned(f, some, &plan, &p), 0);
    assert_int_equal(p.kind, PROBLEM_UNCOLLECTED);
    assert_non_null(
        strstr(p.what, "no traces could be collected: each of 4 workers: /traces cannot be read"));
    assert_true(starts_with(p.remedy, "--trace-dir DIR"));
    assert_non_null(strstr(p.remedy, "--allow-uncollected"));
    problem_done(&p);
    assert_int_equal(planned(f, allowed, &plan, &p), 4);
    assert_int_equal(json_array_size(plan.remarks), 4);
    job_plan_done(&plan);
    /* What lies on other hosts is known to whoever starts it there. */
    for (int i = 0; i < 4; i++)
        block(&f->workers[i], false, "traces are on another host");
    assert_int_equal(planned(f, some, &plan, &p), 4);
    assert_int_equal(json_array_size(plan.remarks), 4);
    job_plan_done(&plan);
    /* A profiler that writes no trace for profd has none to collect. */
    for (int i = 0; i < 4; i++) {
        block(&f->workers[i], true, "it only marks a range");
        f->workers[i].setup.kind = xstrdup("cuda");
    }
    assert_int_equal(planned(f, some, &plan, &p), 4);
    job_plan_done(&plan);
}

static void test_engine_refusals(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = fleet_of_four();
    struct problem p = {0};
    struct job_plan plan = {0};

    /* SGLang's decode workers crash when recorded by stage. */
    assert_int_equal(planned(f, "{\"router\": \"http://r\", \"steps\": 5, \"by_stage\": true}", &plan, &p),
                     0);
    assert_int_equal(p.kind, PROBLEM_UNSUPPORTED);
    assert_non_null(strstr(p.what, "http://w1:1"));
    problem_done(&p);
    assert_int_equal(
        planned(f, "{\"router\": \"http://r\", \"steps\": 5, \"by_stage\": true, \"role\": \"prefill\"}",
                &plan, &p),
        2);
    job_plan_done(&plan);
}

static void test_nobody_left(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = fleet_of_four();
    struct problem p = {0};
    struct job_plan plan = {0};

    assert_int_equal(planned(f, "{\"router\": \"http://r\", \"role\": \"encode\"}", &plan, &p), 0);
    assert_non_null(strstr(p.what, "none of the 4 workers"));
    problem_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_workers_choose_or_list),
        cmocka_unit_test(test_cuda_profiler_requires_all),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_unfit_workers_are_named),
        cmocka_unit_test(test_nothing_is_collected),
        cmocka_unit_test(test_engine_refusals),
        cmocka_unit_test(test_nobody_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
