/* SPDX-License-Identifier: Apache-2.0 */
/* What the relay of profctl web passes on of a request, and what it refuses. */
#include "base/alloc.h"
#include "client/transport/relay_head.h"
#include "tests/unit/cmocka-all.h"

#define HOST "Host: 127.0.0.1:4711\r\n"

static const struct relay_rules remote = {
    .port = 4711, .host = "gpu7.example:9460", .origin = "https://gpu7.example:9460", .prefix = ""};
static const struct relay_rules local = {
    .port = 4711, .host = "localhost", .origin = "http://localhost", .prefix = "", .to_socket = true};
static const struct relay_rules nested = {
    .port = 4711, .host = "proxy.example", .origin = "https://proxy.example", .prefix = "/profd"};

static void check(const struct relay_rules *rules, const char *request, const char *expected,
                  int64_t body_size)
{
    struct relay_head head;
    ssize_t n = relay_head_read(request, strlen(request), rules, &head);

    if (n < 0)
        fail_msg("%s: %d %s", request, head.status, head.detail);
    _cleanup_(freep) char *text = head.text;
    assert_int_equal(n, strstr(request, "\r\n\r\n") + 4 - request);
    assert_string_equal(text, expected);
    assert_int_equal(head.size, strlen(expected));
    assert_int_equal(head.body_size, body_size);
}

static void test_passed(void **state)
{
    check(&remote, "GET / HTTP/1.1\r\n" HOST "\r\n", "GET / HTTP/1.1\r\nHost: gpu7.example:9460\r\n\r\n", 0);
    check(&nested, "GET /v1/x?a=b%20c HTTP/1.1\r\n" HOST "\r\n",
          "GET /profd/v1/x?a=b%20c HTTP/1.1\r\nHost: proxy.example\r\n\r\n", 0);
    check(&local,
          "GET / HTTP/1.1\r\nhOST: LOCALHOST:4711\r\nAuthorization: Bearer x\r\nAccept:*/*  \r\n\r\nrest",
          "GET / HTTP/1.1\r\nHost: localhost\r\nProfd-Relay: 1\r\nAuthorization: Bearer x\r\nAccept: "
          "*/*\r\n\r\n",
          0);
    check(
        &remote,
        "POST /v1/sessions HTTP/1.1\r\nOrigin: http://127.0.0.1:4711\r\nSec-Fetch-Site: same-origin\r\n" HOST
        "Content-Type: application/json\r\nContent-Length: 12\r\n\r\n{",
        "POST /v1/sessions HTTP/1.1\r\nHost: gpu7.example:9460\r\nOrigin: https://gpu7.example:9460\r\n"
        "Sec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n",
        12);
    check(&remote,
          "GET / HTTP/1.1\r\n" HOST
          "Connection: Close\r\nCookie: a=b\r\nReferer: x\r\nTE: trailers\r\nUpgrade: h2c\r\n"
          "Proxy-Authorization: x\r\nForwarded: for=x\r\nprofd-relay: 0\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: gpu7.example:9460\r\nConnection: Close\r\n\r\n", 0);
    check(&remote, "GET / HTTP/1.1\r\n" HOST "Connection: keep-alive, Authorization\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: gpu7.example:9460\r\n\r\n", 0);
}

static void test_incomplete(void **state)
{
    static const char request[] = "GET / HTTP/1.1\r\n" HOST "\r\n";
    struct relay_head head;

    for (size_t n = 0; n < strlen(request); n++)
        assert_int_equal(relay_head_read(request, n, &remote, &head), 0);
}

static void test_refused(void **state)
{
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"\r\n\r\n", 400},
        {"GET\r\n\r\n", 400},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.0\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1 \r\n" HOST "\r\n", 400},
        {"G(T / HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET * HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET http://x/ HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /#x HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /\x80 HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "x\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "x : y\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST " x: y\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST ": y\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "x: a\nb: c\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "x: a\rb: c\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "x: \x1b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "Origin: http://127.0.0.1:4711\r\nOrigin: http://127.0.0.1:4711\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1000000000000000000\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n", 501},
        {"GET / HTTP/1.1\r\n\r\n", 403},
        {"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 403},
        {"GET / HTTP/1.1\r\nHost: 127.0.0.1:4712\r\n\r\n", 403},
        {"GET / HTTP/1.1\r\nHost: 127.0.0.1:47110\r\n\r\n", 403},
        {"GET / HTTP/1.1\r\nHost: gpu7.example:9460\r\n\r\n", 403},
        {"GET / HTTP/1.1\r\nHost: evil.example:4711\r\n\r\n", 403},
        {"GET / HTTP/1.1\r\n" HOST "Origin: https://gpu7.example:9460\r\n\r\n", 403},
        {"GET / HTTP/1.1\r\n" HOST "Origin: http://127.0.0.1:4712\r\n\r\n", 403},
        {"GET / HTTP/1.1\r\n" HOST "Sec-Fetch-Site: same-site\r\n\r\n", 403},
        {"POST / HTTP/1.1\r\n" HOST "Sec-Fetch-Site: same-origin\r\nContent-Length: 2\r\n\r\n", 403},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct relay_head head;
        assert_int_equal(relay_head_read(cases[i].request, strlen(cases[i].request), &remote, &head),
                         -EBADMSG);
        if (head.status != cases[i].status || head.text)
            fail_msg("%s: %d %s", cases[i].request, head.status, head.detail);
    }
}

static void test_bounds(void **state)
{
    struct relay_head head;
    _cleanup_(freep) char *many = xstrdup("GET / HTTP/1.1\r\n" HOST),
                          *long_text = xcalloc(RELAY_HEAD_MAX + 1, 1);

    memset(long_text, 'x', RELAY_HEAD_MAX);
    assert_int_equal(relay_head_read(long_text, RELAY_HEAD_MAX - 1, &remote, &head), 0);
    assert_int_equal(relay_head_read(long_text, RELAY_HEAD_MAX, &remote, &head), -EBADMSG);
    assert_int_equal(head.status, 431);
    for (size_t i = 0; i < 100; i++)
        append_str(&many, "x: y\r\n");
    append_str(&many, "\r\n");
    assert_int_equal(relay_head_read(many, strlen(many), &remote, &head), -EBADMSG);
    assert_int_equal(head.status, 431);
    static const char with_nul[] = "GET / HTTP/1.1\r\n" HOST "x: \0y\r\n\r\n";
    assert_int_equal(relay_head_read(with_nul, sizeof(with_nul) - 1, &remote, &head), -EBADMSG);
    assert_int_equal(head.status, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passed),
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
