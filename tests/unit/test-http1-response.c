/* SPDX-License-Identifier: Apache-2.0 */
/* Responses of HTTP/1.1, cut at every place, and what is none. */
#include "base/alloc.h"
#include "base/http1_response.h"
#include "tests/unit/cmocka-all.h"

#define TEXT_MAX 4096

struct outcome_of_text {
    struct http1_response r;
    char body[TEXT_MAX];
    size_t body_size, left;
    bool has_head;
    enum http1_step end; /* HTTP1_MORE: it goes on */
};

/* In pieces of that size; each has an allocation of its own, so that a sanitizer sees what is read beyond it. */
static struct outcome_of_text read_text(const char *text, size_t text_size, size_t piece, bool close)
{
    struct outcome_of_text o = {.end = HTTP1_MORE};

    for (size_t at = 0; at < text_size && o.end == HTTP1_MORE; at += piece) {
        size_t size = MIN(piece, text_size - at);
        char *copy = malloc(size);
        const char *p = memcpy(copy, text + at, size), *body;
        size_t body_size;
        enum http1_step step;

        while ((step = http1_response_next(&o.r, &p, &size, &body, &body_size)) != HTTP1_MORE) {
            o.has_head |= step == HTTP1_HEAD;
            if (step == HTTP1_BODY) {
                assert_true(o.has_head && o.body_size + body_size < TEXT_MAX);
                memcpy(o.body + o.body_size, body, body_size);
                o.body_size += body_size;
            }
            if (step == HTTP1_END || step == HTTP1_BAD) {
                o.end = step;
                break;
            }
        }
        o.left = text_size - at - MIN(piece, text_size - at) + size;
        free(copy);
    }
    if (close && o.end == HTTP1_MORE)
        o.end = http1_response_close(&o.r);
    return o;
}

#define OK    "HTTP/1.1 200 OK\r\n"
#define LONG  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define LONG4 LONG LONG LONG LONG

static const struct {
    const char *text, *body;
    int status;
    bool keep_alive;
    size_t left;
} good[] = {
    {OK "Content-Length: 2\r\n\r\nab", "ab", 200, true, 0},
    {OK "content-length:\t2 \r\nX:\r\n\r\nabHTTP", "ab", 200, true, 4},
    {OK "Content-Length: 2\r\nContent-Length: 02\r\n\r\nab", "ab", 200, true, 0},
    {OK "Content-Length: 0\r\n\r\n", "", 200, true, 0},
    {OK "\r\nuntil it is closed", "until it is closed", 200, false, 0},
    {"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", "a", 200, true, 0},
    {"HTTP/1.1 204 No Content\r\n\r\n", "", 204, true, 0},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "", 304, true, 0},
    {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "a", 200, false, 0},
    {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", "a", 200, true, 0},
    {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", 200,
     false, 0},
    {OK "Connection: x ,close\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na", "a", 200, false, 0},
    {OK "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0a;x=\"y\"\r\n0123456789\r\n000\r\n\r\n",
     "abc0123456789", 200, true, 0},
    {OK "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\nContent-Length: 7\r\n\r\nrest", "a",
     200, true, 4},
    {"HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" OK
     "Content-Length: 1\r\n\r\na",
     "a", 200, true, 0},
};

static void test_head(void **state)
{
    const char *bytes = OK "Date: Thu, 20 Nov 2025 14:02:11 GMT\r\nContent-Length: 5\r\n\r\n", *body;
    struct http1_response r = {.head_only = true};
    size_t size = strlen(bytes), n;

    assert_int_equal(http1_response_next(&r, &bytes, &size, &body, &n), HTTP1_HEAD);
    assert_string_equal(r.date, "Thu, 20 Nov 2025 14:02:11 GMT");
    assert_int_equal(http1_response_next(&r, &bytes, &size, &body, &n), HTTP1_END);
    assert_true(r.keep_alive);
    http1_response_done(&r);
}

static void test_good(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        for (size_t piece = 1; piece <= strlen(good[i].text); piece++) {
            struct outcome_of_text o = read_text(good[i].text, strlen(good[i].text), piece, true);
            if (o.end != HTTP1_END || o.r.status != good[i].status || o.r.keep_alive != good[i].keep_alive ||
                o.left != good[i].left || o.body_size != strlen(good[i].body) ||
                memcmp(o.body, good[i].body, o.body_size) != 0)
                fail_msg("response %zu in pieces of %zu: %s", i, piece, o.r.error ? o.r.error : "differs");
            http1_response_done(&o.r);
        }
    }
}

static const struct {
    const char *text;
    const char *error; /* a part of it */
} bad[] = {
    {"", "Empty reply"},
    {"hello\r\n", "HTTP/0.9"},
    {"{\"error\": \"no HTTP\"}\n", "HTTP/0.9"},
    {"\x15\x03\x01 and no line", "HTTP/0.9"},
    {"HTTP/2 200\r\n\r\n", "HTTP/0.9"},
    {"HTTP/1.2 200 OK\r\n\r\n", "status line"},
    {"HTTP/1.1 2000 OK\r\n\r\n", "status line"},
    {"HTTP/1.1 20 OK\r\n\r\n", "status line"},
    {"HTTP/1.1  200 OK\r\n\r\n", "status line"},
    {"HTTP/1.1 099 OK\r\n\r\n", "status line"},
    {"HTTP/1.1 101 Switching Protocols\r\n\r\n", "not offered"},
    {"HTTP/1.1 200 OK\n\n", "CRLF"},
    {OK "Content-Length: 1\n\r\na", "CRLF"},
    {OK "Content-Le", "within the head"},
    {OK " folded: 1\r\n\r\n", "field"},
    {OK "A: 1\r\n folded\r\n\r\n", "field"},
    {OK "A : 1\r\n\r\n", "field"},
    {OK ": 1\r\n\r\n", "field"},
    {OK "no colon\r\n\r\n", "field"},
    {OK "A: b\rc\r\n\r\n", "field"},
    {OK "Content-Length: 1, 1\r\n\r\na", "field"},
    {OK "Content-Length: +1\r\n\r\na", "field"},
    {OK "Content-Length: \r\n\r\na", "field"},
    {OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "field"},
    {OK "Content-Length: 99999999999999999999\r\n\r\n", "field"},
    {OK "Transfer-Encoding: gzip\r\n\r\n", "field"},
    {OK "Transfer-Encoding: gzip, chunked\r\n\r\n", "field"},
    {OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "field"},
    {OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "both"},
    {OK "Content-Length: 2\r\n\r\na", "bytes remaining"},
    {OK "Transfer-Encoding: chunked\r\n\r\n1\r\na", "outstanding"},
    {OK "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", "outstanding"},
    {OK "Transfer-Encoding: chunked\r\n\r\n\r\n", "length of a chunk"},
    {OK "Transfer-Encoding: chunked\r\n\r\nx\r\n", "length of a chunk"},
    {OK "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "length of a chunk"},
    {OK "Transfer-Encoding: chunked\r\n\r\n0x1\r\n", "length of a chunk"},
    {OK "Transfer-Encoding: chunked\r\n\r\n1\n", "CRLF"},
    {OK "Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\na", "length of a chunk"},
    {OK "Transfer-Encoding: chunked\r\n\r\n1;" LONG4 "\r\na", "length of a chunk"},
    {OK "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "longer than its length"},
    {OK "Transfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n", "longer than its length"},
};

static void test_bad(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        for (size_t piece = 1; piece <= strlen(bad[i].text) + 1; piece++) {
            struct outcome_of_text o = read_text(bad[i].text, strlen(bad[i].text), piece, true);
            if (o.end != HTTP1_BAD || !strstr(o.r.error, bad[i].error))
                fail_msg("response %zu in pieces of %zu: %s", i, piece, o.r.error ? o.r.error : "accepted");
            http1_response_done(&o.r);
        }
    }
}

static void test_nul(void **state)
{
    static const char text[] = OK "Transfer-Encoding: chunked\r\n\r\n1\0\r\na\r\n0\r\n\r\n";
    struct outcome_of_text o = read_text(text, sizeof(text) - 1, sizeof(text), true);

    assert_int_equal(o.end, HTTP1_BAD);
    http1_response_done(&o.r);
}

static void test_texts_of_fields(void **state)
{
    static const char text[] = "HTTP/1.1 103 Early Hints\r\nLink: </hint>\r\nDate: now\r\n\r\n" OK
                               "Content-Type: text/event-stream; charset=utf-8\r\nRetry-After: 120\r\n\r\n";
    struct outcome_of_text o = read_text(text, strlen(text), 7, false);

    assert_string_equal(o.r.content_type, "text/event-stream; charset=utf-8");
    assert_string_equal(o.r.retry_after, "120");
    assert_string_equal(o.r.link, "");
    assert_string_equal(o.r.date, "");
    http1_response_done(&o.r);

    static const char interim[] = "HTTP/1.1 103 Early Hints\r\nContent-Type: text/event-stream\r\n"
                                  "Retry-After: 120\r\n\r\n" OK "\r\n";
    o = read_text(interim, strlen(interim), 7, false);
    assert_string_equal(o.r.content_type, "");
    assert_string_equal(o.r.retry_after, "");
    http1_response_done(&o.r);

    static const char linked[] = OK "Link: </v1/runs?before=r3>; rel=\"next\"\r\n\r\n";
    o = read_text(linked, strlen(linked), 7, false);
    assert_string_equal(o.r.link, "</v1/runs?before=r3>; rel=\"next\"");
    http1_response_done(&o.r);

    static const char longer[] = OK "Content-Type: " LONG4 "\r\nLink: " LONG4 LONG4 "\r\n\r\n";
    o = read_text(longer, strlen(longer), strlen(longer), false);
    assert_int_equal(strlen(o.r.content_type), HTTP1_CONTENT_TYPE_MAX - 1);
    assert_string_equal(o.r.link, "");
    http1_response_done(&o.r);
}

/* Head, interim responses and trailers are bounded together, and so is a line that does not end. */
static void test_bounds(void **state)
{
    static const struct {
        const char *first, *more;
    } endless[] = {
        {OK, "X: 1\r\n"},
        {OK, "Content-Length: 1\r\n"},
        {OK, "x"},
        {OK "Transfer-Encoding: chunked\r\n\r\n0\r\n", "X: 1\r\n"},
        {OK "Transfer-Encoding: chunked\r\n\r\n0\r\n", "x"},
        {"HTTP/1.1 100 Continue\r\n", "\r\nHTTP/1.1 100 Continue\r\nX: 1\r\n"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(endless); i++) {
        const char *more = endless[i].more, *first = endless[i].first;
        struct http1_response r = {0};
        const char *p = first, *body;
        size_t size = strlen(first), body_size, sent = size;
        enum http1_step step = http1_response_next(&r, &p, &size, &body, &body_size);

        while (step != HTTP1_BAD && sent < 2 * HTTP1_HEAD_MAX) {
            if (step == HTTP1_MORE) {
                p = more;
                size = strlen(more);
                sent += size;
            }
            step = http1_response_next(&r, &p, &size, &body, &body_size);
        }
        assert_int_equal(step, HTTP1_BAD);
        assert_true(r.line_cap <= 2 * HTTP1_HEAD_MAX);
        http1_response_done(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_texts_of_fields),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
