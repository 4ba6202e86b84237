/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "daemon/api/routes.h"
#include "tests/unit/cmocka-all.h"

static int find(enum http_method method, const char *path, struct route_match *ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    int r = route_find(method, path, ret, &p);
    assert_int_equal(p.kind != PROBLEM_NONE, r < 0);
    return r;
}

static void test_found(void **state)
{
    static const struct {
        enum http_method method;
        const char *path, *pattern;
        int64_t id;
    } cases[] = {
        {HTTP_GET, "/", "/", 0},
        {HTTP_GET, "/web/app-0a1b.js", "/web/{asset}", 0},
        {HTTP_GET, "/healthz", "/healthz", 0},
        {HTTP_GET, "/readyz", "/readyz", 0},
        {HTTP_GET, "/metrics", "/metrics", 0},
        {HTTP_HEAD, "/v1/version", "/v1/version", 0},
        {HTTP_GET, "/v1/sessions", "/v1/sessions", 0},
        {HTTP_POST, "/v1/sessions", "/v1/sessions", 0},
        {HTTP_GET, "/v1/sessions/s7", "/v1/sessions/{session}", 7},
        {HTTP_DELETE, "/v1/sessions/12", "/v1/sessions/{session}", 12},
        {HTTP_POST, "/v1/sessions/s7/stop", "/v1/sessions/{session}/stop", 7},
        {HTTP_PUT, "/v1/traces/t123456789/pin", "/v1/traces/{trace}/pin", 123456789},
        {HTTP_HEAD, "/v1/traces/t1/file", "/v1/traces/{trace}/file", 1},
        {HTTP_GET, "/v1/traces/t1/columns", "/v1/traces/{trace}/columns", 1},
        {HTTP_GET, "/v1/traces/t12/reports/kernels", "/v1/traces/{trace}/reports/{report}", 12},
        {HTTP_POST, "/v1/traces", "/v1/traces", 0},
    };
    struct route_match m;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(find(cases[i].method, cases[i].path, &m), 0);
        assert_string_equal(m.route->pattern, cases[i].pattern);
        assert_int_equal(m.route->method, cases[i].method == HTTP_HEAD ? HTTP_GET : cases[i].method);
        assert_int_equal(m.id, cases[i].id);
        assert_string_equal(m.uuid, "");
    }
}

/* A UUID, or enough of its beginning, in place of an id; a number stays one, however long it is. */
static void test_uuids(void **state)
{
    static const struct {
        const char *path, *uuid;
        int64_t id;
    } cases[] = {
        {"/v1/sessions/6b1f0000-0000-4000-8000-00000000001f", "6b1f0000-0000-4000-8000-00000000001f", 0},
        {"/v1/traces/6b1f0000/file", "6b1f0000", 0},
        {"/v1/runs/6b1f0000-0", "6b1f0000-0", 0},
        {"/v1/runs/12345678-", "12345678-", 0},
        {"/v1/runs/12345678", "", 12345678},
        {"/v1/traces/t12345678/file", "", 12345678},
    };
    static const char *const refused[] = {"/v1/sessions/6b1f000", "/v1/sessions/6B1F0000",
                                          "/v1/sessions/6b1f0000-0000-4000-8000-00000000001f0",
                                          "/v1/sessions/6b1f00000000400080000000000000000000000000001f"};
    struct route_match m;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(find(HTTP_GET, cases[i].path, &m), 0);
        assert_string_equal(m.uuid, cases[i].uuid);
        assert_int_equal(m.id, cases[i].id);
    }
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        assert_int_equal(find(HTTP_GET, refused[i], &m), -EINVAL);
}

static void test_nothing_there(void **state)
{
    static const char *const paths[] = {"/v1",
                                        "/v1/",
                                        "/v2/sessions",
                                        "/healthz/",
                                        "/healthz/x",
                                        "/v1/session",
                                        "/v1/sessionss",
                                        "/v1/sessions/",
                                        "/v1/sessions/s7/",
                                        "/v1/sessions/s7/stop/now",
                                        "/v1/sessions/s7/file",
                                        ""};
    struct route_match m;

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        int r = find(HTTP_GET, paths[i], &m);
        if (r != -ENOENT && !(r == -EINVAL && streq(paths[i], "/v1/sessions/")))
            fail_msg("%s gave %d", paths[i], r);
    }
}

static void test_wrong_method(void **state)
{
    static const struct {
        enum http_method method;
        const char *path, *allow;
    } cases[] = {
        {HTTP_DELETE, "/healthz", "GET, HEAD"},
        {HTTP_PUT, "/v1/sessions", "GET, HEAD, POST"},
        {HTTP_GET, "/v1/sessions/s7/stop", "POST"},
        {HTTP_HEAD, "/v1/vacuum", "POST"},
        {HTTP_POST, "/v1/traces/t1/pin", "PUT, DELETE"},
        /* What is wrong with the method is said before what is wrong with the id. */
        {HTTP_POST, "/v1/traces/x", "GET, HEAD, DELETE"},
    };
    struct route_match m;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(find(cases[i].method, cases[i].path, &m), -EOPNOTSUPP);
        assert_string_equal(m.allow, cases[i].allow);
    }
}

static void test_ids(void **state)
{
    static const char *const wrong[] = {"/v1/sessions/t7",
                                        "/v1/sessions/0",
                                        "/v1/sessions/s-1",
                                        "/v1/sessions/7x",
                                        "/v1/sessions/seven",
                                        "/v1/traces/s7",
                                        "/v1/traces/99999999999999999999",
                                        "/v1/traces/t99999999999999999999999999999999999999999999",
                                        "/v1/traces/s7/file"};
    struct route_match m;

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        assert_int_equal(find(HTTP_GET, wrong[i], &m), -EINVAL);
}

static void test_parameters(void **state)
{
    struct route_match m;
    _cleanup_(problem_done) struct problem p = {0};

    assert_int_equal(find(HTTP_GET, "/v1/events", &m), 0);
    assert_int_equal(route_check_parameter(m.route, "session", &p), 0);
    assert_int_equal(route_check_parameter(m.route, "after", &p), 0);
    assert_int_equal(p.kind, PROBLEM_NONE);
    assert_int_equal(route_check_parameter(m.route, "sess", &p), -EINVAL);
    assert_int_equal(p.kind, PROBLEM_BAD_REQUEST);
    assert_string_equal(p.remedy, "It takes: session run after.");
    assert_int_equal(route_check_parameter(m.route, "", NULL), -EINVAL);
    assert_int_equal(route_check_parameter(m.route, "session after", NULL), -EINVAL);

    assert_int_equal(find(HTTP_GET, "/v1/usage", &m), 0);
    assert_int_equal(route_check_parameter(m.route, "x", NULL), -EINVAL);
}

static bool has_word(const char *list, const char *word, size_t size)
{
    const char *other;
    size_t n;

    while ((n = words_next(&list, &other)) > 0)
        if (n == size && strncmp(other, word, n) == 0)
            return true;
    return false;
}

/* A new parameter of a route for readers is one of these, or names something that only operators may name. */
static void test_readers_name_nothing_outside_of_the_catalog(void **state)
{
    static const char filters[] = "after at before columns dialect fleet format from lane lanes limit name "
                                  "phase points ref run session since "
                                  "slice state step to top unclaimed until v wait within "
                                  "by label offset search sort thread total";

    for (size_t i = 0; i < routes_count(); i++) {
        const struct route *route = route_at(i);
        const char *rest = route->query ? route->query : "", *word;
        bool discovers = has_word(rest, "router", strlen("router"));
        size_t size;
        while ((size = words_next(&rest, &word)) > 0) {
            bool is_filter =
                has_word(filters, word, size) || (!discovers && strncmp(word, "worker", size) == 0);
            if (!is_filter && !has_word(route->operate ? route->operate : "", word, size))
                fail_msg("%s: %.*s", route->pattern, (int)size, word);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_uuids),
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_wrong_method),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_readers_name_nothing_outside_of_the_catalog),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
