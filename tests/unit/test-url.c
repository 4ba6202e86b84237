/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/url.h"
#include "tests/unit/cmocka-all.h"

static void test_normal_forms(void **state)
{
    static const struct {
        const char *text, *normal;
        int rank;
    } cases[] = {
        {"http://10.0.0.1:8000", "http://10.0.0.1:8000", -1},
        {"http://10.0.0.1:8000/", "http://10.0.0.1:8000", -1},
        {"HTTP://Node-7.Cluster_A:8000///", "http://node-7.cluster_a:8000", -1},
        {"http://host", "http://host:80", -1},
        {"https://host/", "https://host:443", -1},
        {"host:3000", "http://host:3000", -1},
        {"http://host:8000@3", "http://host:8000", 3},
        {"http://10.0.0.1@11", "http://10.0.0.1:80", 11},
        {"http://host:8000/base/@2", "http://host:8000/base", 2},
        {"http://host:8000@1/base/@2@3/", "http://host:8000/base", 2},
        {"http://host:8000/base/", "http://host:8000/base", -1},
        {"http://[2001:DB8::0:1]:8000@0", "http://[2001:db8::1]:8000", 0},
        {"http://[::1]", "http://[::1]:80", -1},
        {"grpc://10.0.0.1:9000", "grpc://10.0.0.1:9000", -1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct url u;
        const char *reason = NULL;
        assert_int_equal(url_parse(cases[i].text, &u, &reason), 0);
        _cleanup_(freep) char *normal = url_format(&u);
        assert_string_equal(normal, cases[i].normal);
        assert_int_equal(u.rank, cases[i].rank);
        _cleanup_(freep) char *again = NULL;
        assert_int_equal(url_normalise(normal, &again, &reason), 0);
        assert_string_equal(again, normal);
    }
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "http://",
        "http://:80",
        "ftp://host:21",
        "file:///etc/passwd",
        "unix://run/x",
        "http://user:secret@host:80",
        "http://user@host",
        "http://host:80@rank",
        "http://host:0",
        "http://host:65536",
        "http://host:99999999999",
        "http://host:8o",
        "http://host:",
        "http://[::1",
        "http://[::1]x",
        "http://[:::1]:80",
        "http://[fe80::1%25eth0]:80",
        "http://ho st:80",
        "http://host:80/a b",
        "http://host:80\r\nX: y",
        "http://host:80/?q=1",
        "http://host:80/#x",
        "http://h\xc3\xb6st:80",
        "http://ho%73t:80",
        "grpc://host",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct url u;
        const char *reason = NULL;
        assert_int_equal(url_parse(bad[i], &u, &reason), -EINVAL);
        assert_non_null(reason);
    }
}

static void test_too_long(void **state)
{
    struct url u;
    const char *reason;
    char text[URL_SIZE_MAX + 1] = "http://host/";

    memset(text + strlen(text), 'a', URL_SIZE_MAX - strlen(text));
    text[URL_SIZE_MAX] = '\0';
    assert_int_equal(url_parse(text, &u, &reason), -EINVAL);
    text[URL_SIZE_MAX - 1] = '\0';
    assert_int_equal(url_parse(text, &u, &reason), 0);
    memset(text + 7, 'a', 254);
    text[7 + 254] = '\0';
    assert_int_equal(url_parse(text, &u, &reason), -EINVAL);
    text[7 + 253] = '\0';
    assert_int_equal(url_parse(text, &u, &reason), 0);
}

static void test_loopback(void **state)
{
    assert_true(url_is_loopback("http://127.0.0.1:1"));
    assert_true(url_is_loopback("http://127.9.9.9:1"));
    assert_true(url_is_loopback("http://localhost:1"));
    assert_true(url_is_loopback("http://[::1]:1"));
    assert_true(url_is_loopback("http://0.0.0.0:1"));
    assert_false(url_is_loopback("http://10.0.0.1:1"));
    assert_false(url_is_loopback("http://127.0.0.1.example.org:1"));
    assert_false(url_is_loopback("http://[2001:db8::1]:1"));
}

static void test_joins(void **state)
{
    _cleanup_(freep) char *joined = url_join("http://h:1/base/", "/workers");
    _cleanup_(freep) char *moved = url_with_host_of("http://127.0.0.1:15000/x", "https://[2001:db8::1]:3000");

    assert_string_equal(joined, "http://h:1/base/workers");
    assert_string_equal(moved, "http://[2001:db8::1]:15000/x");
}

static void test_plain_paths(void **state)
{
    static const char *const plain[] = {"/", "/v1/models", "/x?a=b%20c&d=~"};
    static const char *const others[] = {"",        "x",    "?a=b",  "/a b",      "/a\tb",
                                         "/a\r\nb", "/a#b", "/\x7f", "/h\xc3\xb6"};

    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        assert_true(url_path_is_plain(plain[i]));
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (url_path_is_plain(others[i]))
            fail_msg("%s was taken for a plain path", others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normal_forms), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_long),     cmocka_unit_test(test_loopback),
        cmocka_unit_test(test_joins),        cmocka_unit_test(test_plain_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
