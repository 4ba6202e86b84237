/* SPDX-License-Identifier: Apache-2.0 */
/* What profctl makes of profd's answers: problems, sessions. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/transport/connection.h"
#include "client/transport/endpoint.h"
#include "client/views/session.h"
#include "tests/unit/cmocka-all.h"

static void assert_problem(long status, const char *body, enum problem_kind kind, const char *what,
                           const char *remedy)
{
    struct problem p = {0};

    assert_true(problem_from_answer(status, body, strlen(body), &p) < 0);
    assert_int_equal(p.kind, kind);
    assert_string_equal(p.what, what);
    if (remedy)
        assert_string_equal(p.remedy, remedy);
    else
        assert_null(p.remedy);
    problem_done(&p);
}

static void test_problems(void **state)
{
    assert_problem(409, "{\"code\":\"busy\",\"detail\":\"s3 holds it\",\"remedy\":\"--queue waits\"}",
                   PROBLEM_BUSY, "s3 holds it", "--queue waits");
    assert_problem(404, "{\"code\":\"not-found\",\"detail\":\"no session s9\"}", PROBLEM_NOT_FOUND,
                   "no session s9", NULL);
    assert_problem(500, "{\"code\":\"from-the-future\",\"detail\":\"x\"}", PROBLEM_INTERNAL, "x", NULL);
}

static void test_problem_of_another_server(void **state)
{
    static const char *const bodies[] = {"<html>502</html>", "", "[1]", "{\"code\":5,\"detail\":null}"};
    for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
        struct problem p = {0};
        assert_true(problem_from_answer(502, bodies[i], strlen(bodies[i]), &p) < 0);
        assert_non_null(strstr(p.what, "unexpected response 502 from profd"));
        assert_non_null(p.remedy);
        problem_done(&p);
    }
}

/* Beside the first refusal, which is the problem's own line, the others are told too; what is no refusal is
 * not. */
static void test_remarks_of_a_refusal(void **state)
{
    assert_problem(
        422,
        "{\"code\":\"unsupported\",\"detail\":\"by_stage on http://a: decode only\",\"remedy\":\"leave it "
        "out\",\"remarks\":["
        "{\"refuses\":true,\"worker\":\"http://a\",\"text\":\"decode only\"},"
        "{\"refuses\":true,\"worker\":\"http://b\",\"text\":\"speculative\",\"remedy\":\"leave b out\"},"
        "{\"refuses\":false,\"text\":\"stacks are set at launch\"}]}",
        PROBLEM_UNSUPPORTED, "by_stage on http://a: decode only",
        "leave it out\nhttp://b: speculative\n  leave b out");
}

static void test_urls(void **state)
{
    char *path = xstrdup("/v1/traces");

    url_add(&path, "worker", NULL);
    assert_string_equal(path, "/v1/traces");
    url_add(&path, "worker", "http://10.0.0.1:80/?a&b");
    url_add_int(&path, "limit", 50);
    assert_string_equal(path, "/v1/traces?worker=http%3A%2F%2F10.0.0.1%3A80%2F%3Fa%26b&limit=50");
    free(path);
}

static void test_places(void **state)
{
    struct endpoint endpoint;
    struct problem p = {0};

    setenv("PROFD_SOCKET", "/run/other.sock", 1);
    assert_int_equal(endpoint_find("/tmp/given.sock", NULL, &endpoint, NULL), 0);
    assert_string_equal(endpoint.socket, "/tmp/given.sock");
    endpoint_done(&endpoint);
    assert_int_equal(endpoint_find(NULL, NULL, &endpoint, NULL), 0);
    assert_string_equal(endpoint.socket, "/run/other.sock");
    endpoint_done(&endpoint);
    assert_int_equal(endpoint_find(NULL, "gpu7:7070/", &endpoint, NULL), 0);
    assert_null(endpoint.socket);
    assert_string_equal(endpoint.url, "http://gpu7:7070");
    endpoint_done(&endpoint);
    assert_int_equal(endpoint_find(NULL, "ftp://gpu7", &endpoint, &p), -EINVAL);
    problem_done(&p);
    assert_int_equal(endpoint_find("/a", "b", &endpoint, &p), -EINVAL);
    problem_done(&p);
}

#define S "000000000"

static json_t *a_session(void)
{
    static const char text[] =
        "{\"session\":\"s7\",\"state\":\"stopping\",\"router\":\"http://"
        "r:1\",\"dialect\":\"smg\",\"skew_ns\":3100000,\"targets\":["
        "{\"worker\":\"http://"
        "a:1\",\"engine\":\"vllm\",\"version\":\"0.19.1\",\"role\":\"prefill\",\"state\":\"collecting\","
        "\"start_sent_at\":100" S ",\"stop_sent_at\":105" S ",\"stop_answered_at\":108" S
        ",\"traces\":[\"t1\",\"t2\"],\"bytes\":1048576},"
        "{\"worker\":\"http://"
        "b:1\",\"engine\":\"sglang\",\"role\":\"decode\",\"state\":\"stopping\",\"start_sent_at\":100" S ","
        "\"stop_sent_at\":105" S ",\"bytes_seen\":2097152},"
        "{\"worker\":\"http://"
        "c:1\",\"engine\":\"sglang\",\"role\":\"decode\",\"state\":\"failed\",\"failure\":\"start: "
        "404\\nmore\"}]}";
    return json_loads(text, 0, NULL);
}

static void test_session_text(void **state)
{
    _cleanup_json_ session = a_session();
    const struct screen plain = {.file = stdout};
    _cleanup_(freep) char *title = session_title(session);
    _cleanup_(freep) char *block = session_block(session, &plain, 0, 110 * NS_PER_S);

    assert_string_equal(title, "Session s7 on http://r:1 (smg, 3 workers: 1 prefill, 2 decode)");
    assert_string_equal(
        block,
        "  WORKER      ENGINE       ROLE     STATE        FOR  TRACE\n"
        "  http://a:1  vllm 0.19.1  prefill  collecting  5.0s  2 traces  1.0 MiB\n"
        "  http://b:1  sglang       decode   stopping    5.0s  2.0 MiB so far\n"
        "  http://c:1  sglang       decode   failed         -  start: 404\n"
        "  stopping · starts sent within 3.1 ms of each other · 1 of 2 stopped · 1 failed · 3.0 MiB\n");
}

/* Which worker failed, and that the others were cancelled because of it: once. */
static void test_outcome_of_all_or_none(void **state)
{
    static const char text[] =
        "{\"session\":\"s7\",\"state\":\"failed\",\"reason\":\"all workers are required, and http://b:1: no "
        "answer; the "
        "others were rolled back\",\"targets\":[{\"worker\":\"http://a:1\",\"state\":\"cancelled\"},"
        "{\"worker\":\"http://b:1\",\"state\":\"failed\",\"failure\":\"no answer\"}]}";
    _cleanup_json_ session = json_loads(text, 0, NULL);
    char *shown = NULL;
    size_t size;
    const struct screen plain = {.file = open_memstream(&shown, &size)};

    session_print_outcome(session, &plain);
    fclose(plain.file);
    assert_non_null(strstr(shown, "Session s7 is failed: 0 of 2 workers"));
    char *reason =
        strstr(shown, "all workers are required, and http://b:1: no answer; the others were rolled back");
    assert_non_null(reason);
    assert_null(strstr(reason + 1, "no answer\n"));
    reason[0] = '\0';
    assert_null(strstr(shown, "no answer"));
    free(shown);
}

static void test_silent_hosts_are_named(void **state)
{
    _cleanup_json_ session = a_session();
    const json_t *targets = json_object_get(session, "targets");

    for (size_t i = 0; i < json_array_size(targets); i++) {
        json_t *target = json_array_get(targets, i);
        json_put_str(target, "host", i < 2 ? "gpu2" : "gpu3");
        json_put_str(target, "silence", i < 2 ? "connection refused" : NULL);
        json_put_int(target, "silent_since", 98 * NS_PER_S);
    }
    _cleanup_(freep) char *line = session_progress(session, 110 * NS_PER_S);
    assert_non_null(strstr(line, " · 1 failed · gpu2 has not answered for 12.0s · 3.0 MiB"));
    /* While the session waits for it, the line has the end of that. */
    char at[UNIT_TEXT_MAX];
    for (size_t i = 0; i < 2; i++)
        json_put_int(json_array_get(targets, i), "silent_until", 150 * NS_PER_S);
    _cleanup_(freep) char *waiting = session_progress(session, 110 * NS_PER_S);
    _cleanup_(freep) char *expected =
        xasprintf(" · waiting for gpu2: no answer for 12.0s, until %s · 3.0 MiB",
                  strchr(format_time(at, 150 * NS_PER_S), ' ') + 1);
    assert_non_null(strstr(waiting, expected));
}

static void test_trouble_is_shown_first(void **state)
{
    _cleanup_json_ session = a_session();
    const struct screen plain = {.file = stdout};
    _cleanup_(freep) char *block = session_block(session, &plain, 1, 110 * NS_PER_S);

    assert_non_null(strstr(block, "http://c:1"));
    assert_null(strstr(block, "http://a:1"));
    assert_non_null(strstr(block, "... and 2 more\n"));
}

static void test_exit_status(void **state)
{
    static const struct {
        const char *state;
        int status;
    } cases[] = {{"complete", EXIT_DONE},
                 {"partial", EXIT_PARTIAL},
                 {"failed", EXIT_FAILED},
                 {"cancelled", EXIT_FAILED}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_json_ session = json_pack("{ss}", "state", cases[i].state);
        assert_true(session_is_over(session));
        assert_int_equal(session_exit_status(session), cases[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_problem_of_another_server),
        cmocka_unit_test(test_remarks_of_a_refusal),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_session_text),
        cmocka_unit_test(test_outcome_of_all_or_none),
        cmocka_unit_test(test_silent_hosts_are_named),
        cmocka_unit_test(test_trouble_is_shown_first),
        cmocka_unit_test(test_exit_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
