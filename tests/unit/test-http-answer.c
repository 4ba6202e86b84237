/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/http_answer.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

#define OK "HTTP/1.1 200 OK\r\n"

static void test_heads(void **state)
{
    static const struct {
        const char *text, *link;
        int status;
        int64_t content_length;
    } good[] = {
        {OK "\r\n", NULL, 200, -1},
        {"HTTP/1.0 404\r\n\r\n", NULL, 404, -1},
        {"HTTP/1.1 200 \r\n\r\n", NULL, 200, -1},
        {OK "content-LENGTH:17\r\nContent-Length: 17 \t\r\n\r\n{}", NULL, 200, 17},
        {OK "X:\r\nLink: </v1/runs?before=r3>; rel=\"next\"\r\n\r\n", "</v1/runs?before=r3>; rel=\"next\"",
         200, -1},
        {OK "Link: a\r\nLink: b\r\n\r\n", "b", 200, -1},
        {OK "Link:\r\n\r\n", "", 200, -1},
    };
    struct http_answer a;

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        const char *text = good[i].text;
        size_t head = (size_t)(strstr(text, "\r\n\r\n") + 4 - text);
        assert_int_equal(http_answer_parse(text, strlen(text), &a), head);
        assert_int_equal(a.status, good[i].status);
        assert_int_equal(a.content_length, good[i].content_length);
        assert_int_equal(a.link != NULL, good[i].link != NULL);
        if (a.link) {
            assert_int_equal(a.link_size, strlen(good[i].link));
            assert_memory_equal(a.link, good[i].link, a.link_size);
        }
        for (size_t size = 0; size < head; size++)
            assert_int_equal(http_answer_parse(text, size, &a), 0);
    }
}

static void test_not_http(void **state)
{
    static const char *const bad[] = {
        "\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 20\r\n\r\n",
        "HTTP/1.1 2000\r\n\r\n",
        "HTTP/1.1 099 x\r\n\r\n",
        "HTTP/1.1 600 x\r\n\r\n",
        OK "no colon\r\n\r\n",
        OK ": no name\r\n\r\n",
        OK "Content-Length:\r\n\r\n",
        OK "Content-Length: -1\r\n\r\n",
        OK "Content-Length: 1x\r\n\r\n",
        OK "Content-Length: 99999999999999999999\r\n\r\n",
        OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n",
    };
    struct http_answer a;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(http_answer_parse(bad[i], strlen(bad[i]), &a), -EPROTO);
}

static void test_too_large(void **state)
{
    static char text[HTTP_ANSWER_HEAD_MAX + 8] = OK "X: ";
    struct http_answer a;

    memset(text + strlen(text), 'x', sizeof(text) - strlen(text));
    assert_int_equal(http_answer_parse(text, HTTP_ANSWER_HEAD_MAX - 1, &a), 0);
    assert_int_equal(http_answer_parse(text, HTTP_ANSWER_HEAD_MAX, &a), -EPROTO);
    memcpy(text + sizeof(text) - 4, "\r\n\r\n", 4);
    assert_int_equal(http_answer_parse(text, sizeof(text), &a), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_not_http),
        cmocka_unit_test(test_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
