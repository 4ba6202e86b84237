/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http1_response.h"

#include "base/array.h"
#include <ctype.h>
#include <strings.h>

#define LENGTH_DIGITS_MAX 18 /* fits 64 bits, in decimal and in hexadecimal */
#define STATUS_LINE_MIN   (sizeof("HTTP/1.1 200") - 1)

enum http1_state {
    STATE_STATUS_LINE,
    STATE_FIELDS,
    STATE_LENGTH, /* body of Content-Length */
    STATE_CHUNK_LINE,
    STATE_CHUNK,
    STATE_CHUNK_END,
    STATE_TRAILERS,
    STATE_UNTIL_CLOSE,
    STATE_EMPTY, /* no body: ends without a further byte */
    STATE_ENDED,
};

static const char too_long_text[] = "head and trailers of the response are longer than 64 KiB";

static enum http1_step http1_fail(struct http1_response *r, const char *error)
{
    r->error = error;
    r->state = STATE_ENDED;
    return HTTP1_BAD;
}

/* -- Lines -------------------------------------------------------------------------------------------- */

/* A complete line without its CRLF; NULL with r->error where there is none, or none yet. It lies in the piece, or in
 * r->line until the next call. */
static const char *http1_take_line(struct http1_response *r, const char **bytes, size_t *size, size_t max,
                                   const char *too_long, size_t *ret_size)
{
    const char *end = memchr(*bytes, '\n', *size), *line = *bytes;
    size_t n = end ? (size_t)(end - *bytes) + 1 : *size;

    if (r->line_size + n > max) {
        http1_fail(r, too_long);
        return NULL;
    }
    *bytes += n;
    *size -= n;
    if (r->line_size > 0 || !end) {
        if (!ARRAY_RESERVE(r->line, r->line_cap, r->line_size + n))
            out_of_memory();
        memcpy(r->line + r->line_size, line, n);
        r->line_size += n;
        line = r->line;
        n = r->line_size;
    }
    if (!end)
        return NULL;
    r->line_size = 0;
    if (n < 2 || line[n - 2] != '\r') {
        http1_fail(r, "a line of the response's head does not end with CRLF");
        return NULL;
    }
    *ret_size = n - 2;
    return line;
}

static bool http1_is_word(const char *text, size_t size, const char *word)
{
    return size == strlen(word) && strncasecmp(text, word, size) == 0;
}

/* -- Status line and fields --------------------------------------------------------------------------- */

/* "HTTP/1.1 200 OK"; the reason may be missing. */
static bool http1_read_status(struct http1_response *r, const char *line, size_t size)
{
    const char *digits = line + STATUS_LINE_MIN - 3;

    if (size < STATUS_LINE_MIN || (line[7] != '0' && line[7] != '1') || line[8] != ' ' ||
        (size > STATUS_LINE_MIN && line[STATUS_LINE_MIN] != ' '))
        return false;
    r->status = 0;
    for (size_t i = 0; i < 3; i++) {
        if (!isdigit((unsigned char)digits[i]))
            return false;
        r->status = 10 * r->status + (digits[i] - '0');
    }
    r->is_old = line[7] == '0';
    r->keep_alive = !r->is_old;
    return r->status >= 100;
}

static bool http1_read_length(struct http1_response *r, const char *value, size_t size)
{
    uint64_t length = 0;

    if (size == 0 || size > LENGTH_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (!isdigit((unsigned char)value[i]))
            return false;
        length = 10 * length + (uint64_t)(value[i] - '0');
    }
    if (r->has_length && length != r->left)
        return false;
    r->has_length = true;
    r->left = length;
    return true;
}

static bool http1_read_encoding(struct http1_response *r, const char *value, size_t size)
{
    bool is_first = !r->is_chunked;

    r->is_chunked = true;
    return is_first && http1_is_word(value, size, "chunked");
}

/* A list of words. */
static bool http1_read_connection(struct http1_response *r, const char *value, size_t size)
{
    for (const char *p = value, *end = value + size, *comma; p < end; p = comma + 1) {
        comma = memchr(p, ',', (size_t)(end - p));
        comma = comma ? comma : end;
        size_t n = (size_t)(comma - p);
        while (n > 0 && (*p == ' ' || *p == '\t'))
            p++, n--;
        while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
            n--;
        if (http1_is_word(p, n, "close"))
            r->closes = true;
        else if (http1_is_word(p, n, "keep-alive"))
            r->keep_alive = true;
    }
    return true;
}

static void http1_keep_text(char ret[static HTTP1_CONTENT_TYPE_MAX], const char *value, size_t size)
{
    snprintf(ret, HTTP1_CONTENT_TYPE_MAX, "%.*s", (int)MIN(size, (size_t)HTTP1_CONTENT_TYPE_MAX), value);
}

static bool http1_read_content_type(struct http1_response *r, const char *value, size_t size)
{
    http1_keep_text(r->content_type, value, size);
    return true;
}

static bool http1_read_retry_after(struct http1_response *r, const char *value, size_t size)
{
    http1_keep_text(r->retry_after, value, size);
    return true;
}

static bool http1_read_date(struct http1_response *r, const char *value, size_t size)
{
    http1_keep_text(r->date, value, size);
    return true;
}

/* A part of a link would be another one. */
static bool http1_read_link(struct http1_response *r, const char *value, size_t size)
{
    size_t n = size < sizeof(r->link) ? size : 0;

    memcpy(r->link, value, n);
    r->link[n] = '\0';
    return true;
}

/* Those that matter here. */
static const struct {
    const char *name;
    bool (*read)(struct http1_response *r, const char *value, size_t size);
} http1_fields[] = {
    {"content-length", http1_read_length},
    {"transfer-encoding", http1_read_encoding},
    {"connection", http1_read_connection},
    {"content-type", http1_read_content_type},
    {"retry-after", http1_read_retry_after},
    {"date", http1_read_date},
    {"link", http1_read_link},
};

static bool http1_is_name(const char *name, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)name[i]) && !(name[i] && strchr("!#$%&'*+-.^_`|~", name[i])))
            return false;
    return size > 0;
}

/* Trailers are checked and ignored. */
static bool http1_read_field(struct http1_response *r, const char *line, size_t size)
{
    const char *colon = memchr(line, ':', size), *value = colon ? colon + 1 : NULL, *end = line + size;

    if (!colon || !http1_is_name(line, (size_t)(colon - line)))
        return false;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    for (const char *p = value; p < end; p++)
        if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f)
            return false;
    for (size_t i = 0; i < ARRAY_SIZE(http1_fields) && r->state == STATE_FIELDS; i++)
        if (http1_is_word(line, (size_t)(colon - line), http1_fields[i].name))
            return http1_fields[i].read(r, value, (size_t)(end - value));
    return true;
}

static enum http1_step http1_end_head(struct http1_response *r)
{
    if (r->is_chunked && r->has_length)
        return http1_fail(r, "the response has both Content-Length and Transfer-Encoding");
    if (r->status == 101)
        return http1_fail(r, "the server changes to a protocol that was not offered");
    if (r->status < 200) {
        r->state = STATE_STATUS_LINE;
        r->has_length = r->is_chunked = r->closes = false;
        *r->content_type = *r->retry_after = *r->date = *r->link = '\0';
        return HTTP1_MORE;
    }
    if (r->head_only || r->status == 204 || r->status == 304 || (r->has_length && r->left == 0))
        r->state = STATE_EMPTY;
    else if (r->is_chunked)
        r->state = STATE_CHUNK_LINE;
    else
        r->state = r->has_length ? STATE_LENGTH : STATE_UNTIL_CLOSE;
    /* HTTP/1.0 has no chunks: whoever sends them there may be mistaken about the end. */
    r->keep_alive =
        r->keep_alive && !r->closes && r->state != STATE_UNTIL_CLOSE && !(r->is_old && r->is_chunked);
    return HTTP1_HEAD;
}

/* A line of the head or of the trailers. HTTP1_MORE: there are more. */
static enum http1_step http1_take_head(struct http1_response *r, const char **bytes, size_t *size)
{
    static const char begin[] = "HTTP/1.";
    size_t n, at = MIN(r->line_size, strlen(begin));

    /* Other protocols may have other ends of lines, or none. */
    if (r->state == STATE_STATUS_LINE && memcmp(*bytes, begin + at, MIN(*size, strlen(begin) - at)) != 0)
        return http1_fail(r, "Received HTTP/0.9 when not allowed");
    const char *line = http1_take_line(r, bytes, size, HTTP1_HEAD_MAX - MIN(r->head_size, HTTP1_HEAD_MAX),
                                       too_long_text, &n);
    if (!line)
        return r->error ? HTTP1_BAD : HTTP1_MORE;
    r->head_size += n + 2;
    if (r->state == STATE_STATUS_LINE) {
        if (!http1_read_status(r, line, n))
            return http1_fail(r, "the status line of the response is malformed");
        r->state = STATE_FIELDS;
        return HTTP1_MORE;
    }
    if (n > 0)
        return http1_read_field(r, line, n) ? HTTP1_MORE
                                            : http1_fail(r, "a field of the response's head is malformed");
    if (r->state == STATE_FIELDS)
        return http1_end_head(r);
    r->state = STATE_ENDED;
    return HTTP1_END;
}

/* -- Chunks ------------------------------------------------------------------------------------------- */

static int http1_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "1a;name=value": extensions are ignored. */
static enum http1_step http1_take_chunk_line(struct http1_response *r, const char **bytes, size_t *size)
{
    static const char malformed[] = "the length of a chunk is malformed";
    size_t n, digits = 0;
    const char *line = http1_take_line(r, bytes, size, HTTP1_CHUNK_LINE_MAX, malformed, &n);

    if (!line)
        return r->error ? HTTP1_BAD : HTTP1_MORE;
    for (r->left = 0; digits < n && digits <= LENGTH_DIGITS_MAX && http1_hex(line[digits]) >= 0; digits++)
        r->left = r->left << 4 | (uint64_t)http1_hex(line[digits]);
    char after = digits < n ? line[digits] : ';';
    if (digits == 0 || digits > LENGTH_DIGITS_MAX - 3 || (after != ';' && after != ' ' && after != '\t'))
        return http1_fail(r, malformed);
    r->state = r->left > 0 ? STATE_CHUNK : STATE_TRAILERS;
    return HTTP1_MORE;
}

static enum http1_step http1_take_chunk_end(struct http1_response *r, const char **bytes, size_t *size)
{
    for (; *size > 0 && r->left < 2; r->left++, ++*bytes, --*size)
        if (**bytes != "\r\n"[r->left])
            return http1_fail(r, "a chunk is longer than its length");
    if (r->left == 2)
        r->state = STATE_CHUNK_LINE;
    return HTTP1_MORE;
}

/* -- Steps -------------------------------------------------------------------------------------------- */

static enum http1_step http1_take_body(struct http1_response *r, const char **bytes, size_t *size,
                                       const char **ret_body, size_t *ret_size)
{
    bool is_bounded = r->state != STATE_UNTIL_CLOSE;
    size_t n = is_bounded ? (size_t)MIN(r->left, (uint64_t)*size) : *size;

    *ret_body = *bytes;
    *ret_size = n;
    *bytes += n;
    *size -= n;
    if (is_bounded && (r->left -= n) == 0)
        r->state = r->state == STATE_CHUNK ? STATE_CHUNK_END : STATE_EMPTY;
    return HTTP1_BODY;
}

static enum http1_step http1_step_of_state(struct http1_response *r, const char **bytes, size_t *size,
                                           const char **ret_body, size_t *ret_size)
{
    switch ((enum http1_state)r->state) {
    case STATE_CHUNK_LINE:
        return http1_take_chunk_line(r, bytes, size);
    case STATE_CHUNK_END:
        return http1_take_chunk_end(r, bytes, size);
    case STATE_CHUNK:
    case STATE_LENGTH:
    case STATE_UNTIL_CLOSE:
        return http1_take_body(r, bytes, size, ret_body, ret_size);
    default:
        return http1_take_head(r, bytes, size);
    }
}

enum http1_step http1_response_next(struct http1_response *r, const char **bytes, size_t *size,
                                    const char **ret_body, size_t *ret_size)
{
    enum http1_step step = HTTP1_MORE;

    while (step == HTTP1_MORE) {
        if (r->state == STATE_EMPTY) {
            r->state = STATE_ENDED;
            return HTTP1_END;
        }
        if (*size == 0 || r->state == STATE_ENDED)
            return HTTP1_MORE;
        r->began = true;
        step = http1_step_of_state(r, bytes, size, ret_body, ret_size);
    }
    return step;
}

enum http1_step http1_response_close(struct http1_response *r)
{
    switch ((enum http1_state)r->state) {
    case STATE_UNTIL_CLOSE:
    case STATE_EMPTY:
        r->state = STATE_ENDED;
        return HTTP1_END;
    case STATE_STATUS_LINE:
    case STATE_FIELDS:
        return http1_fail(r, r->began ? "the connection was closed within the head of the response"
                                      : "Empty reply from server");
    case STATE_LENGTH:
        return http1_fail(r, "transfer closed with bytes remaining to read");
    default:
        return http1_fail(r, "transfer closed with outstanding read data remaining");
    }
}

void http1_response_done(struct http1_response *r)
{
    free(r->line);
    *r = (struct http1_response){0};
}
