/* SPDX-License-Identifier: Apache-2.0 */
/* The member "job" of a session's request: phases of a job of srtctl. */
#include "base/alloc.h"
#include "daemon/session/internal.h"
#include "tests/unit/cmocka-all.h"

static int parse(const char *text, struct job_request *ret, struct problem *p)
{
    char error[200];
    _cleanup_json_ j = json_parse(text, strlen(text), error);
    return session_request_parse(j, ret, p);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"{\"job\": {\"folder\": \"../x_y\", \"phases\": {\"decode\": {\"steps\": 1}}}}", "job must be"},
        {"{\"job\": {\"folder\": \"a/b_c\", \"phases\": {\"decode\": {\"steps\": 1}}}}", "job must be"},
        {"{\"job\": {\"folder\": \"s7\", \"phases\": {\"decode\": {\"steps\": 1}}}}", "job must be"},
        {"{\"job\": {\"folder\": \"1_1P\", \"phases\": {\"..\": {\"steps\": 1}}}}", "phases of job"},
        {"{\"job\": {\"folder\": \"1_1P\", \"phases\": {}}}", "phases of job"},
        {"{\"job\": {\"folder\": \"1_1P\", \"phases\": {\"decode\": {\"steps\": 0}}}}", "a phase of job"},
        {"{\"job\": \"1_1P\"}", "job must be"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct job_request r;
        struct problem p = {0};
        assert_int_equal(parse(cases[i].text, &r, &p), -EINVAL);
        assert_int_equal(p.kind, PROBLEM_BAD_REQUEST);
        assert_non_null(strstr(p.what, cases[i].what));
        problem_done(&p);
    }
}

static void test_job(void **state)
{
    struct job_request r;

    assert_int_equal(parse("{\"workload\": {}, \"load\": {\"until\": \"recorded\"}, \"job\": {\"folder\": "
                           "\"3667_1P_1D_2025.1\", \"phases\": {\"prefill\": {\"steps\": 30}, "
                           "\"decode\": {\"start_step\": 200, \"steps\": 50}}}}",
                           &r, NULL),
                     0);
    assert_string_equal(r.job.folder, "3667_1P_1D_2025.1");
    assert_true(r.load_ends_with_recording);
    assert_int_equal(r.recording.steps, 50);
    const struct recording prefill = job_request_recording(&r, ROLE_PREFILL),
                           decode = job_request_recording(&r, ROLE_DECODE),
                           regular = job_request_recording(&r, ROLE_REGULAR);
    assert_int_equal(prefill.steps, 30);
    assert_int_equal(prefill.start_step, 0);
    assert_int_equal(decode.steps, 50);
    assert_int_equal(decode.start_step, 200);
    assert_true(decode.from_load);
    assert_int_equal(regular.steps, 0);
    job_request_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
