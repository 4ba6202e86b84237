/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/http_answer.h"

#include <errno.h>

#define END_OF_HEAD "\r\n\r\n"
/* "HTTP/1.1 200" */
#define STATUS_AT  9
#define LENGTH_MAX (INT64_MAX / 10 - 1)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int take_status_line(const char *line, size_t size, struct http_answer *a)
{
    if (size < STATUS_AT + 3 ||
        (memcmp(line, "HTTP/1.1 ", STATUS_AT) != 0 && memcmp(line, "HTTP/1.0 ", STATUS_AT) != 0))
        return -EPROTO;
    for (size_t i = STATUS_AT; i < STATUS_AT + 3; i++) {
        if (!is_digit(line[i]))
            return -EPROTO;
        a->status = 10 * a->status + (line[i] - '0');
    }
    bool ends = size == STATUS_AT + 3 || line[STATUS_AT + 3] == ' ';
    return ends && a->status >= 100 && a->status < 600 ? 0 : -EPROTO;
}

static int take_length(const char *value, size_t size, struct http_answer *a)
{
    int64_t length = 0;

    for (size_t i = 0; i < size; i++) {
        if (!is_digit(value[i]) || length > LENGTH_MAX)
            return -EPROTO;
        length = 10 * length + (value[i] - '0');
    }
    if (size == 0 || (a->content_length >= 0 && a->content_length != length))
        return -EPROTO;
    a->content_length = length;
    return 0;
}

static bool is_field(const char *name, size_t size, const char *wanted)
{
    return size == strlen(wanted) && strncasecmp(name, wanted, size) == 0;
}

static int take_field(const char *line, size_t size, struct http_answer *a)
{
    const char *colon = memchr(line, ':', size), *end = line + size;

    if (!colon || colon == line)
        return -EPROTO;
    size_t name = (size_t)(colon - line);
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (is_field(line, name, "Content-Length"))
        return take_length(value, (size_t)(end - value), a);
    /* HTTP/1.0 does not know it. */
    if (is_field(line, name, "Transfer-Encoding"))
        return -EPROTO;
    if (is_field(line, name, "Link")) {
        a->link = value;
        a->link_size = (size_t)(end - value);
    }
    return 0;
}

ssize_t http_answer_parse(const char *data, size_t size, struct http_answer *ret)
{
    const char *end = memmem(data, MIN(size, (size_t)HTTP_ANSWER_HEAD_MAX), END_OF_HEAD, strlen(END_OF_HEAD));
    struct http_answer a = {.content_length = -1};

    if (!end)
        return size < HTTP_ANSWER_HEAD_MAX ? 0 : -EPROTO;
    for (const char *line = data, *next; line <= end; line = next) {
        const char *line_end = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
        next = line_end + 2;
        size_t line_size = (size_t)(line_end - line);
        int r = line == data ? take_status_line(line, line_size, &a) : take_field(line, line_size, &a);
        if (r < 0)
            return r;
    }
    *ret = a;
    return end + strlen(END_OF_HEAD) - data;
}
