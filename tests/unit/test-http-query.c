/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_head.h"
#include "tests/unit/cmocka-all.h"

static void test_paths(void **state)
{
    static const char *const good[][2] = {
        {"/", "/"},       {"/v1/sessions", "/v1/sessions"},    {"/a%20b/%C3%A9", "/a b/é"}, {"/...", "/..."},
        {"/a+b", "/a+b"}, {"/%e2%82%ac/%F0%9F%98%80", "/€/😀"},
    };
    static const char *const bad[] = {
        "",           "a",      "//",      "/a/",  "/a//b", "/.",    "/a/..",      "/%2e%2e",
        "/.%2E/x",    "/a%2fb", "/%2F",    "/%",   "/%4",   "/%4g",  "/%00",       "/%1f",
        "/%7f",       "/%80",   "/%c0%af", "/%ff", "/%c3",  "/%c3(", "/%ed%a0%80", "/%f4%90%80%80",
        "/%e0%80%af",
    };
    char *path;

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_int_equal(http_path_decode(good[i][0], strlen(good[i][0]), &path), 0);
        assert_string_equal(path, good[i][1]);
        free(path);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(http_path_decode(bad[i], strlen(bad[i]), &path), -EINVAL);
}

static void test_queries(void **state)
{
    static const char text[] = "a=1&b=x+y%26z&&=v&flag&a=2&c=d=e";
    static const char *const expected[][2] = {
        {"a", "1"}, {"b", "x y&z"}, {"", "v"}, {"flag", ""}, {"a", "2"}, {"c", "d=e"},
    };
    struct http_query q;

    assert_int_equal(http_query_parse(text, strlen(text), &q), 0);
    assert_int_equal(q.n, ARRAY_SIZE(expected));
    for (size_t i = 0; i < q.n; i++) {
        assert_string_equal(q.params[i].key, expected[i][0]);
        assert_string_equal(q.params[i].value, expected[i][1]);
    }
    http_query_done(&q);
    assert_int_equal(http_query_parse("", 0, &q), 0);
    assert_int_equal(q.n, 0);
    http_query_done(&q);
}

static void test_bad_queries(void **state)
{
    static const char *const bad[] = {"a=%", "a=%1", "%zz=1", "a=%00", "a=b&c=%ff", "%c3=1"};
    char many[HTTP_QUERY_PARAMS_MAX + 1];
    struct http_query q;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(http_query_parse(bad[i], strlen(bad[i]), &q), -EINVAL);
    memset(many, '&', sizeof(many));
    assert_int_equal(http_query_parse(many, HTTP_QUERY_PARAMS_MAX, &q), -E2BIG);
    assert_int_equal(http_query_parse(many, HTTP_QUERY_PARAMS_MAX - 1, &q), 0);
    http_query_done(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_queries),
        cmocka_unit_test(test_bad_queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
