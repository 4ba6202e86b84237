/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/sse.h"
#include "tests/unit/cmocka-all.h"

/* What came out, one event a line: "id|kind|data" with line feeds of the data as '/'. */
struct heard {
    char text[4096];
};

static void on_event(const struct sse_event *event, void *arg)
{
    struct heard *h = arg;
    size_t n = strlen(h->text);
    char *line = h->text + n;

    snprintf(line, sizeof(h->text) - n, "%s|%s|%s", event->id, event->kind, event->data);
    for (char *p = line; *p; p++)
        if (*p == '\n')
            *p = '/';
    strcat(line, "\n");
}

/* The same events whatever the pieces are that the stream arrives in. */
static void assert_events(const char *stream, const char *expected)
{
    size_t size = strlen(stream);

    for (size_t piece = 1; piece <= size; piece++) {
        struct sse s = {0};
        struct heard h = {0};
        for (size_t i = 0; i < size; i += piece)
            assert_int_equal(sse_feed(&s, stream + i, MIN(piece, size - i), on_event, &h), 0);
        assert_string_equal(h.text, expected);
        sse_done(&s);
    }
}

static void test_events(void **state)
{
    assert_events("id: 5\nevent: session-state\ndata: {\"a\": 1}\n\n", "5|session-state|{\"a\": 1}\n");
    assert_events("data: x\n\ndata: y\n\n", "|message|x\n|message|y\n");
    assert_events("data: one\ndata: two\ndata\n\n", "|message|one/two/\n");
    assert_events("id: 1\ndata: a\n\ndata: b\n\n", "1|message|a\n1|message|b\n");
    assert_events("event: lost\n\ndata: a\n\n", "|message|a\n");
}

static void test_line_ends(void **state)
{
    assert_events("data: a\r\n\r\ndata: b\r\rdata: c\n\n", "|message|a\n|message|b\n|message|c\n");
    assert_events("\xef\xbb\xbf"
                  "data: a\n\n",
                  "|message|a\n");
}

static void test_ignored(void **state)
{
    assert_events(": comment\n\n", "");
    assert_events(": comment\ndata:a\nretry: 5\nunknown: x\n\n", "|message|a\n");
    assert_events("data: never ended\n", "");
    assert_events("data:  two spaces\n\n", "|message| two spaces\n");
}

static void test_limits(void **state)
{
    struct sse s = {0};
    struct heard h = {0};
    _cleanup_(freep) char *block = xcalloc(SSE_LINE_MAX + 1, 1);
    int r = 0;

    memset(block, 'x', SSE_LINE_MAX);
    assert_int_equal(sse_feed(&s, block, SSE_LINE_MAX, on_event, &h), 0);
    assert_int_equal(sse_feed(&s, "x", 1, on_event, &h), -EMSGSIZE);
    sse_done(&s);
    memcpy(block, "data:", 5);
    block[SSE_LINE_MAX - 1] = '\n';
    for (size_t i = 0; i <= SSE_DATA_MAX / SSE_LINE_MAX + 1 && r == 0; i++)
        r = sse_feed(&s, block, SSE_LINE_MAX, on_event, &h);
    assert_int_equal(r, -EMSGSIZE);
    sse_done(&s);
    assert_string_equal(h.text, "");
}

static void test_restart(void **state)
{
    struct sse s = {0};
    struct heard h = {0};
    const char *before = "id: 9\ndata: a\n\nevent: x\ndata: half", *after = "data: b\n\n";

    assert_int_equal(sse_feed(&s, before, strlen(before), on_event, &h), 0);
    sse_restart(&s);
    assert_string_equal(s.id, "9");
    assert_int_equal(sse_feed(&s, after, strlen(after), on_event, &h), 0);
    assert_string_equal(h.text, "9|message|a\n9|message|b\n");
    sse_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events), cmocka_unit_test(test_line_ends), cmocka_unit_test(test_ignored),
        cmocka_unit_test(test_limits), cmocka_unit_test(test_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
