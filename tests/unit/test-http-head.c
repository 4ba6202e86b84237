/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_head.h"
#include "tests/unit/cmocka-all.h"

static int status_of(const char *text)
{
    struct http_head h;
    struct http_refusal why = {0};

    if (http_head_parse(text, strlen(text), &http_limits_default, &h, &why) < 0)
        return why.status;
    http_head_done(&h);
    return 200;
}

static struct http_head parsed(const char *text)
{
    struct http_head h = {0};
    struct http_refusal why;

    assert_int_equal(http_head_parse(text, strlen(text), &http_limits_default, &h, &why), 0);
    return h;
}

static void test_reads_a_complete_head(void **state)
{
    struct http_head h = parsed("POST /v1/a%2Db?k=v&k=w HTTP/1.1\r\nhOST: x:80\r\nX-A:  b c \t\r\nX-E:\r\n"
                                "Content-Length: 0012\r\n\r\n");

    assert_int_equal(h.method, HTTP_POST);
    assert_int_equal(h.minor, 1);
    assert_string_equal(h.path, "/v1/a-b");
    assert_int_equal(h.query.n, 2);
    assert_string_equal(http_head_field(&h, "x-a"), "b c");
    assert_string_equal(http_head_field(&h, "X-E"), "");
    assert_null(http_head_field(&h, "X"));
    assert_int_equal(h.content_length, 12);
    assert_true(h.keep_alive);
    assert_false(h.expects_continue);
    http_head_done(&h);
    assert_null(h.text);
}

static void test_keep_alive(void **state)
{
    static const struct {
        const char *text;
        bool keep_alive;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade,\tCLOSE\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: closed\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct http_head h = parsed(cases[i].text);
        assert_int_equal(h.keep_alive, cases[i].keep_alive);
        http_head_done(&h);
    }
}

static void test_expectations(void **state)
{
    static const struct {
        const char *text;
        bool expects;
    } cases[] = {
        {"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n", true},
        {"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n", false},
        {"PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct http_head h = parsed(cases[i].text);
        assert_int_equal(h.expects_continue, cases[i].expects);
        http_head_done(&h);
    }
    assert_int_equal(status_of("PUT / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n"), 417);
}

static void test_limits_to_the_byte(void **state)
{
    char text[20000];
    int n = snprintf(text, sizeof(text), "GET /%0*d HTTP/1.1\r\nHost: x\r\n\r\n", HTTP_TARGET_MAX - 1, 0);
    assert_true(n > 0);
    assert_int_equal(status_of(text), 200);
    snprintf(text, sizeof(text), "GET /%0*d HTTP/1.1\r\nHost: x\r\n\r\n", HTTP_TARGET_MAX, 0);
    assert_int_equal(status_of(text), 414);
    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: x\r\nX:%0*d\r\n\r\n", HTTP_HEADER_LINE_MAX - 2, 0);
    assert_int_equal(status_of(text), 200);
    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: x\r\nX:%0*d\r\n\r\n", HTTP_HEADER_LINE_MAX - 1, 0);
    assert_int_equal(status_of(text), 431);

    for (int over = 0; over <= 1; over++) {
        char *end = stpcpy(text, "GET / HTTP/1.1\r\nHost: x\r\n");
        for (size_t i = 1; i < http_limits_default.headers_max + (size_t)over; i++)
            end = stpcpy(end, "X: y\r\n");
        strcpy(end, "\r\n");
        assert_int_equal(status_of(text), over ? 431 : 200);
    }
    assert_int_equal(status_of("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n"), 200);
    assert_int_equal(status_of("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n"), 413);
    assert_int_equal(status_of("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999999999999999\r\n\r\n"),
                     413);
}

static void test_refuses_what_does_not_end(void **state)
{
    assert_int_equal(status_of(""), 400);
    assert_int_equal(status_of("GET / HTTP/1.1"), 400);
    assert_int_equal(status_of("GET / HTTP/1.1\r\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.1\r\nHost: x\r\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.1\r\nHost: x\r\n\r\nX: y\r\n\r\n"), 400);
}

/* However a head is cut, its end is found at the same place. */
static void test_finds_the_end_in_pieces(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\nbody\r\n\r\n";
    const ssize_t end = strstr(text, "body") - text;
    struct http_refusal why;

    for (size_t cut = 0; cut < sizeof(text) - 1; cut++) {
        size_t scanned = 0;
        ssize_t n = http_head_find(text, cut, 1000, &scanned, &why);
        assert_int_equal(n, (ssize_t)cut < end ? 0 : end);
        assert_int_equal(http_head_find(text, sizeof(text) - 1, 1000, &scanned, &why), end);
    }
}

static void test_gives_up_on_what_has_no_end(void **state)
{
    static char text[20000];
    struct http_refusal why;
    size_t scanned = 0;

    memset(text, 'a', sizeof(text));
    assert_int_equal(http_head_find(text, 8000, sizeof(text), &scanned, &why), 0);
    assert_int_equal(http_head_find(text, 9000, sizeof(text), &scanned, &why), -EBADMSG);
    assert_int_equal(why.status, 414);
    memcpy(text + 10, "\r\n", 2);
    scanned = 0;
    assert_int_equal(http_head_find(text, sizeof(text) - 1, sizeof(text), &scanned, &why), 0);
    assert_int_equal(http_head_find(text, sizeof(text), sizeof(text), &scanned, &why), -EBADMSG);
    assert_int_equal(why.status, 431);
    scanned = 0;
    assert_int_equal(http_head_find("\x16\x03", 2, 1000, &scanned, &why), -EBADMSG);
    assert_int_equal(why.status, 400);
    assert_int_equal(http_head_find("GET /\n", 6, 1000, &scanned, &why), -EBADMSG);
    assert_int_equal(why.status, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_a_complete_head),
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_expectations),
        cmocka_unit_test(test_limits_to_the_byte),
        cmocka_unit_test(test_refuses_what_does_not_end),
        cmocka_unit_test(test_finds_the_end_in_pieces),
        cmocka_unit_test(test_gives_up_on_what_has_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
