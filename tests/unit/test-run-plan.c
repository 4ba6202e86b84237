/* SPDX-License-Identifier: Apache-2.0 */
/* Who is sent requests, who is warmed up, and who is watched. */
#include "base/alloc.h"
#include "daemon/runs/internal.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

#define ROUTER "http://r:1"

/* Of workers w0, w1, ... with these roles. */
static struct fleet *fleet_of(const char *router, const enum role *roles, size_t n)
{
    struct fleet *f = xcalloc(1, sizeof(*f));

    f->router = xstrdup(router);
    f->dialect = xstrdup("static");
    for (size_t i = 0; i < n; i++) {
        struct worker *w = fleet_add_worker(f);
        w->url = xasprintf("http://w%zu:1", i);
        w->listed_url = xstrdup(w->url);
        w->role = roles[i];
        w->health = HEALTH_HEALTHY;
        w->engine = ENGINE_SGLANG;
        w->local = i == 0;
        w->pid = (pid_t)(100 + i);
    }
    return f;
}

/* "w0 w1 r" of an array of {url}. */
static void expect(const json_t *list, const char *wanted)
{
    _cleanup_(freep) char *text = xstrdup("");
    size_t i;
    json_t *item;

    json_array_foreach((json_t *)list, i, item) {
        char *longer = xasprintf("%s%s%s", text, i ? " " : "", json_get_str(item, "url"));
        free(text);
        text = longer;
    }
    assert_string_equal(text, wanted);
}

static int make(const struct fleet *f, struct job_request request, struct load_plan *plan, struct problem *p)
{
    _cleanup_(freep) size_t *chosen = NULL;
    size_t n;

    int r = run_choose(f, &request, &chosen, &n, p);
    return r < 0 ? r : load_plan_make(f, &request, chosen, n, plan, p);
}

static void refused(const struct fleet *f, struct job_request request, const char *what)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct load_plan plan;

    assert_int_equal(make(f, request, &plan, &p), -EINVAL);
    assert_non_null(strstr(p.what, what));
    assert_non_null(p.remedy);
}

static void test_regular_workers(void **state)
{
    static const enum role roles[] = {ROLE_REGULAR, ROLE_UNKNOWN};
    _cleanup_(fleet_freep) struct fleet *f = fleet_of(ROUTER, roles, 2);
    _cleanup_(problem_done) struct problem p = {0};
    struct load_plan plan;

    assert_int_equal(make(f, (struct job_request){.role = -1}, &plan, &p), 0);
    expect(plan.targets, ROUTER);
    expect(plan.warm, "http://w0:1 http://w1:1");
    expect(plan.workers, "http://w0:1 http://w1:1");
    assert_string_equal(plan.first, ROUTER);
    assert_string_equal(json_get_str(json_array_get(plan.targets, 0), "engine"), "sglang");
    /* The process of one on another host is none of this one. */
    assert_int_equal(json_get_int(json_array_get(plan.workers, 0), "pid", 0), 100);
    assert_int_equal(json_get_int(json_array_get(plan.workers, 1), "pid", 0), 0);
    load_plan_done(&plan);

    const struct job_request first = {.role = -1, .count = 1, .through = LOAD_THROUGH_WORKERS};
    assert_int_equal(make(f, first, &plan, &p), 0);
    expect(plan.targets, "http://w0:1");
    expect(plan.warm, "http://w0:1");
    load_plan_done(&plan);
}

static void test_a_list_has_no_router(void **state)
{
    static const enum role roles[] = {ROLE_REGULAR};
    _cleanup_(fleet_freep) struct fleet *f = fleet_of(NULL, roles, 1);
    _cleanup_(problem_done) struct problem p = {0};
    struct load_plan plan;

    assert_int_equal(make(f, (struct job_request){.role = -1}, &plan, &p), 0);
    expect(plan.targets, "http://w0:1");
    load_plan_done(&plan);
    refused(f, (struct job_request){.role = -1, .through = LOAD_THROUGH_ROUTER}, "there is no router");
}

static void test_parts_are_warmed_up_through_their_router(void **state)
{
    static const enum role roles[] = {ROLE_PREFILL, ROLE_DECODE, ROLE_DECODE};
    _cleanup_(fleet_freep) struct fleet *f = fleet_of(ROUTER, roles, 3);
    _cleanup_(problem_done) struct problem p = {0};
    struct load_plan plan;

    assert_int_equal(make(f, (struct job_request){.role = ROLE_DECODE}, &plan, &p), 0);
    expect(plan.targets, ROUTER);
    expect(plan.warm, ROUTER " " ROUTER);
    expect(plan.workers, "http://w1:1 http://w2:1");
    load_plan_done(&plan);
    refused(f, (struct job_request){.role = ROLE_DECODE, .through = LOAD_THROUGH_WORKERS},
            "http://w1:1 is a decode worker, which answers no request by itself");
}

/* Their URLs are those of system status servers. */
static void test_workers_of_dynamo_take_no_requests(void **state)
{
    static const enum role roles[] = {ROLE_PREFILL, ROLE_UNKNOWN, ROLE_REGULAR};
    _cleanup_(fleet_freep) struct fleet *f = fleet_of(ROUTER, roles, 3);
    _cleanup_(problem_done) struct problem p = {0};
    struct load_plan plan;

    for (size_t i = 0; i < f->n_workers; i++)
        f->workers[i].engine = ENGINE_DYNAMO;
    assert_int_equal(make(f, (struct job_request){.role = -1}, &plan, &p), 0);
    expect(plan.targets, ROUTER);
    expect(plan.warm, ROUTER " " ROUTER);
    expect(plan.workers, "http://w0:1 http://w1:1 http://w2:1");
    load_plan_done(&plan);
    refused(f, (struct job_request){.role = ROLE_REGULAR, .through = LOAD_THROUGH_WORKERS},
            "http://w2:1 takes no requests: it controls the profiler of a worker of dynamo");
}

static void test_health(void **state)
{
    static const enum role roles[] = {ROLE_REGULAR, ROLE_REGULAR};
    _cleanup_(fleet_freep) struct fleet *f = fleet_of(NULL, roles, 2);
    _cleanup_(problem_done) struct problem p = {0};
    struct load_plan plan;

    f->workers[0].health = HEALTH_UNHEALTHY;
    assert_int_equal(make(f, (struct job_request){.role = -1}, &plan, &p), 0);
    expect(plan.targets, "http://w1:1");
    load_plan_done(&plan);
    assert_int_equal(make(f, (struct job_request){.role = -1, .include_unhealthy = true}, &plan, &p), 0);
    expect(plan.targets, "http://w0:1 http://w1:1");
    load_plan_done(&plan);
    f->workers[1].health = HEALTH_UNHEALTHY;
    refused(f, (struct job_request){.role = -1}, "none of the 2 workers of the list");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regular_workers),
        cmocka_unit_test(test_a_list_has_no_router),
        cmocka_unit_test(test_parts_are_warmed_up_through_their_router),
        cmocka_unit_test(test_workers_of_dynamo_take_no_requests),
        cmocka_unit_test(test_health),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
