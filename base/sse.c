/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sse.h"

#include "base/alloc.h"
#include <errno.h>

void sse_done(struct sse *s)
{
    free(s->line);
    free(s->data);
    free(s->kind);
    free(s->id);
    *s = (struct sse){0};
}

void sse_restart(struct sse *s)
{
    s->line_size = s->data_size = 0;
    s->after_cr = s->began = false;
    replace_str(&s->kind, NULL);
}

static int sse_append(char **buf, size_t *size, size_t *capacity, size_t max, const char *bytes, size_t n)
{
    if (*size + n > max)
        return -EMSGSIZE;
    if (*size + n + 1 > *capacity) {
        *capacity = MAX(2 * *capacity, *size + n + 1);
        *buf = xrealloc(*buf, *capacity, 1);
    }
    memcpy(*buf + *size, bytes, n);
    *size += n;
    (*buf)[*size] = '\0';
    return 0;
}

static void sse_dispatch(struct sse *s, void (*fn)(const struct sse_event *event, void *arg), void *arg)
{
    if (s->data_size > 0) {
        s->data[s->data_size - 1] = '\0'; /* the line feed after the last line of data */
        fn(&(struct sse_event){.id = s->id ? s->id : "",
                               .kind = s->kind && *s->kind ? s->kind : "message",
                               .data = s->data},
           arg);
    }
    s->data_size = 0;
    replace_str(&s->kind, NULL);
}

static int sse_take_line(struct sse *s, void (*fn)(const struct sse_event *event, void *arg), void *arg)
{
    const char *line = s->line_size ? s->line : "";
    bool first = !s->began;

    s->began = true;
    if (first && starts_with(line, "\xef\xbb\xbf"))
        line += 3;
    if (!*line) {
        sse_dispatch(s, fn, arg);
        return 0;
    }
    size_t n = strcspn(line, ":");
    const char *value = line + n + (line[n] == ':');
    value += *value == ' ';
    if (n == 4 && starts_with(line, "data")) {
        size_t max = s->max ? s->max : SSE_DATA_MAX;
        int r = sse_append(&s->data, &s->data_size, &s->data_room, max, value, strlen(value));
        return r < 0 ? r : sse_append(&s->data, &s->data_size, &s->data_room, max, "\n", 1);
    }
    if (n == 5 && starts_with(line, "event"))
        replace_str(&s->kind, value);
    else if (n == 2 && starts_with(line, "id"))
        replace_str(&s->id, value);
    return 0;
}

int sse_feed(struct sse *s, const char *bytes, size_t size,
             void (*fn)(const struct sse_event *event, void *arg), void *arg)
{
    size_t max = s->max ? s->max : SSE_LINE_MAX;

    for (size_t i = 0; i < size;) {
        size_t n = 0;
        if (s->after_cr && bytes[i] == '\n')
            i++;
        s->after_cr = false;
        while (i + n < size && bytes[i + n] != '\n' && bytes[i + n] != '\r' && bytes[i + n] != '\0')
            n++;
        if (sse_append(&s->line, &s->line_size, &s->line_room, max, bytes + i, n) < 0)
            return -EMSGSIZE;
        i += n;
        if (i == size)
            break;
        s->after_cr = bytes[i] == '\r';
        if (bytes[i++] == '\0')
            continue; /* NUL is dropped, so that lines are C strings */
        int r = sse_take_line(s, fn, arg);
        s->line_size = 0;
        if (r < 0)
            return r;
    }
    return 0;
}

const char *sse_take(struct sse *s, const char **bytes, size_t *size, size_t *ret_size)
{
    static const char field[] = "data:";
    const char *line = *bytes, *end;
    size_t n, name = strlen(field);

    if (*size <= name || memcmp(line, field, name) != 0 || s->line_size > 0 || s->data_size > 0 || s->kind ||
        s->after_cr)
        return NULL;
    /* The line before the last byte, which is that of the blank line at the least. */
    end = memchr(line, '\n', *size - 1);
    if (!end)
        return NULL;
    n = (size_t)(end - line);
    if (end[1] != '\n' || n > (s->max ? s->max : SSE_LINE_MAX) || memchr(line, '\r', n) ||
        memchr(line, '\0', n))
        return NULL;
    s->began = true;
    *bytes += n + 2;
    *size -= n + 2;
    name += line[name] == ' ';
    *ret_size = n - name;
    return line + name;
}
