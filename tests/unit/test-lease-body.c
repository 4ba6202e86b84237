/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a coordinator: what they must have, and that nothing else is in them. */
#include "daemon/hosts/lease_body.h"
#include "tests/unit/cmocka-all.h"

#include <errno.h>

#define SESSION "\"session\": \"0190b0a8-7f00-4abc-8def-0123456789ab\""
#define OTHER   "0190b0a8-7f00-4abc-8def-ba9876543210"

#define GRANT                                                                                                \
    SESSION ", \"coordinator\": {\"catalog\": \"" OTHER "\", \"host\": \"gpu1\"}, \"actor\": \"anna\", "     \
            "\"lease_ns\": 30000000000, \"workers\": [\"http://127.0.0.1:8000\", \"http://127.0.0.1:8001\"]"
#define PREPARE                                                                                              \
    SESSION ", \"request\": {\"duration_ns\": 5000000000, \"labels\": {\"a\": \"b\"}}, "                     \
            "\"workers\": [{\"url\": \"http://127.0.0.1:8000\", \"profile_id\": \"s7-w0-1\", "               \
            "\"shares_dir\": true, \"role\": \"decode\"}, "                                                  \
            "{\"url\": \"http://127.0.0.1:8001\", \"profile_id\": \"s7-w1-1\"}]"
#define START                                                                                                \
    SESSION ", \"at_mono_ns\": 5, \"boot_id\": \"b\", \"deadline_ns\": 30000000000, "                        \
            "\"clock\": {\"offset_ns\": -7, \"error_ns\": 2}, \"workers\": [{\"url\": \"http://h:1\"}, "     \
            "{\"url\": \"http://h:2\", \"start_step\": 4}]"

static int parse(enum lease_route route, const char *members, struct lease_body *ret, struct problem *p)
{
    char error[200], text[4096];

    snprintf(text, sizeof(text), "{%s}", members);
    _cleanup_json_ j = json_parse(text, strlen(text), error);
    assert_non_null(j);
    return lease_body_parse(route, j, ret, p);
}

static void test_each_route(void **state)
{
    struct lease_body b;

    assert_int_equal(parse(LEASE_ROUTE_GRANT, GRANT, &b, NULL), 0);
    assert_int_equal(b.n_workers, 2);
    assert_string_equal(b.workers[1].url, "http://127.0.0.1:8001");
    assert_string_equal(b.coordinator, OTHER);
    assert_string_equal(b.coordinator_name, "gpu1");
    assert_string_equal(b.actor, "anna");
    assert_int_equal(b.lease_ns, 30000000000);
    lease_body_done(&b);

    assert_int_equal(parse(LEASE_ROUTE_PREPARE, PREPARE, &b, NULL), 0);
    assert_string_equal(b.workers[0].profile_id, "s7-w0-1");
    assert_true(b.workers[0].shares_dir);
    assert_false(b.workers[1].shares_dir);
    assert_int_equal(b.workers[0].role, ROLE_DECODE);
    assert_int_equal(b.workers[1].role, ROLE_UNKNOWN);
    assert_int_equal(json_get_int(b.request, "duration_ns", 0), 5000000000);
    lease_body_done(&b);

    assert_int_equal(parse(LEASE_ROUTE_START, START, &b, NULL), 0);
    assert_int_equal(b.at_mono_ns, 5);
    assert_true(b.has_clock);
    assert_int_equal(b.clock_offset_ns, -7);
    assert_int_equal(b.workers[0].start_step, 0);
    assert_int_equal(b.workers[1].start_step, 4);
    lease_body_done(&b);

    assert_int_equal(parse(LEASE_ROUTE_RENEW, SESSION ", \"deadline_ns\": 1000000000", &b, NULL), 0);
    lease_body_done(&b);
    assert_int_equal(parse(LEASE_ROUTE_STOP, SESSION, &b, NULL), 0);
    assert_int_equal(b.n_workers, 0);
    lease_body_done(&b);
    assert_int_equal(
        parse(LEASE_ROUTE_STOP, SESSION ", \"workers\": [\"http://h:1\"], \"rolled_back\": true", &b, NULL),
        0);
    assert_true(b.rolled_back);
    lease_body_done(&b);
    assert_int_equal(parse(LEASE_ROUTE_RELEASE, SESSION, &b, NULL), 0);
    lease_body_done(&b);
}

static void test_refusals(void **state)
{
    static const struct {
        enum lease_route route;
        const char *members, *what;
    } cases[] = {
        /* What a stolen token would like to name. */
        {LEASE_ROUTE_GRANT, GRANT ", \"trace_dir\": \"/etc\"", "\"trace_dir\" is not a member"},
        {LEASE_ROUTE_GRANT, GRANT ", \"router\": \"http://h\"", "\"router\" is not a member"},
        {LEASE_ROUTE_PREPARE, PREPARE ", \"output_dir\": \"/etc\"", "\"output_dir\" is not a member"},
        {LEASE_ROUTE_PREPARE,
         SESSION ", \"request\": {}, \"workers\": "
                 "[{\"url\": \"http://h:1\", \"profile_id\": \"a\", \"output_dir\": \"/etc\"}]",
         "each of workers must be"},
        {LEASE_ROUTE_PREPARE,
         SESSION ", \"request\": {}, \"workers\": [{\"url\": \"http://h:1\", \"profile_id\": 7}]",
         "profile_id must be"},
        {LEASE_ROUTE_PREPARE,
         SESSION ", \"request\": {}, \"workers\": [{\"url\": \"http://h:1\", \"profile_id\": \"a\", "
                 "\"shares_dir\": 1}]",
         "shares_dir must be"},
        {LEASE_ROUTE_PREPARE,
         SESSION ", \"request\": {}, \"workers\": [{\"url\": \"http://h:1\", \"profile_id\": \"a\", "
                 "\"role\": \"god\"}]",
         "role must be"},
        {LEASE_ROUTE_PREPARE, SESSION ", \"request\": \"steps\"", "request must be"},
        {LEASE_ROUTE_START, START ", \"start_at\": 5", "\"start_at\" is not a member"},
        {LEASE_ROUTE_STOP, SESSION ", \"path\": \"/etc\"", "\"path\" is not a member"},
        {LEASE_ROUTE_RELEASE, SESSION ", \"workers\": [\"http://h:1\"]", "\"workers\" is not a member"},
        /* What is missing. */
        {LEASE_ROUTE_GRANT, SESSION, "\"coordinator\" is missing"},
        {LEASE_ROUTE_PREPARE, SESSION ", \"request\": {}", "\"workers\" is missing"},
        {LEASE_ROUTE_START, SESSION, "\"workers\" is missing"},
        {LEASE_ROUTE_RENEW, SESSION, "\"deadline_ns\" is missing"},
        {LEASE_ROUTE_STOP, "\"rolled_back\": true", "\"session\" is missing"},
        /* Wrong values. */
        {LEASE_ROUTE_STOP, "\"session\": \"s7\"", "session must be a UUID"},
        {LEASE_ROUTE_STOP, SESSION ", \"workers\": []", "workers must be a list"},
        {LEASE_ROUTE_STOP, SESSION ", \"workers\": [\"kineto://4711.5\"]", "a worker must be"},
        {LEASE_ROUTE_STOP, SESSION ", \"workers\": [\"file:///etc/passwd\"]", "a worker must be"},
        {LEASE_ROUTE_STOP, SESSION ", \"workers\": [\"http://h:1\", \"http://h:1\"]",
         "http://h:1 is named twice"},
        {LEASE_ROUTE_STOP, SESSION ", \"workers\": [\"http://h:1 x\"]", "a worker must be"},
        {LEASE_ROUTE_RENEW, SESSION ", \"deadline_ns\": 0", "deadline_ns must be"},
        {LEASE_ROUTE_RENEW, SESSION ", \"deadline_ns\": 9000000000000000000", "deadline_ns must be"},
        {LEASE_ROUTE_RENEW, SESSION ", \"deadline_ns\": 1.5", "deadline_ns must be"},
        {LEASE_ROUTE_START, SESSION ", \"clock\": {\"offset_ns\": 1, \"error_ns\": -1}", "clock must be"},
        {LEASE_ROUTE_START, SESSION ", \"clock\": {\"offset_ns\": 1}", "clock must be"},
        {LEASE_ROUTE_START, SESSION ", \"boot_id\": \"a\\nb\"", "boot_id must be"},
        {LEASE_ROUTE_START, SESSION ", \"workers\": [{\"url\": \"http://h:1\", \"start_step\": 0}]",
         "start_step must be"},
        {LEASE_ROUTE_GRANT, SESSION ", \"coordinator\": {\"catalog\": \"x\", \"host\": \"h\"}",
         "catalog must be a UUID"},
        {LEASE_ROUTE_GRANT, SESSION ", \"actor\": \"\"", "actor must be"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct lease_body b;
        struct problem p = {0};
        assert_int_equal(parse(cases[i].route, cases[i].members, &b, &p), -EINVAL);
        assert_int_equal(p.kind, PROBLEM_BAD_REQUEST);
        if (!strstr(p.what, cases[i].what))
            fail_msg("%s: %s", cases[i].members, p.what);
        problem_done(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_route),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
