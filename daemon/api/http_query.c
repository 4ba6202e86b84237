/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_query.h"

#include "base/alloc.h"
#include <errno.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

/* The length of the well-formed UTF-8 sequence at s (RFC 3629: shortest form, no surrogates), 0 for none. */
static size_t utf8_sequence(const unsigned char *s, size_t size)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

    if (n == 0 || n > size)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))
        return 0;
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

static bool is_text(const char *s, size_t size)
{
    for (size_t i = 0; i < size;) {
        size_t n = utf8_sequence((const unsigned char *)s + i, size - i);
        if (n == 0 || s[i] == '\0')
            return false;
        i += n;
    }
    return true;
}

/* Decodes escapes to out, which has room for size + 1 bytes, and ends it. Returns the length or -EINVAL. */
static ssize_t decode(const char *data, size_t size, bool plus_is_space, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < size; i++) {
        char c = data[i];
        if (c == '+' && plus_is_space) {
            c = ' ';
        } else if (c == '%') {
            if (size - i < 3)
                return -EINVAL;
            int high = hex_digit(data[i + 1]), low = hex_digit(data[i + 2]);
            if (high < 0 || low < 0)
                return -EINVAL;
            c = (char)(high << 4 | low);
            i += 2;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return is_text(out, n) ? (ssize_t)n : -EINVAL;
}

static bool has_encoded_slash(const char *data, size_t size)
{
    for (size_t i = 0; i + 2 < size; i++)
        if (data[i] == '%' && data[i + 1] == '2' && (data[i + 2] | 0x20) == 'f')
            return true;
    return false;
}

static bool is_segment(const char *s, size_t size)
{
    if (size == 0 || (size == 1 && s[0] == '.') || (size == 2 && s[0] == '.' && s[1] == '.'))
        return false;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return false;
    return true;
}

int http_path_decode(const char *data, size_t size, char **ret)
{
    if (size == 0 || data[0] != '/' || has_encoded_slash(data, size))
        return -EINVAL;

    _cleanup_(freep) char *path = xcalloc(size + 1, 1);
    ssize_t n = decode(data, size, false, path);
    if (n < 0)
        return (int)n;

    for (const char *s = path + 1, *end; n > 1; s = end + 1) {
        end = strchrnul(s, '/');
        if (!is_segment(s, (size_t)(end - s)))
            return -EINVAL;
        if (*end == '\0')
            break;
    }
    *ret = TAKE_PTR(path);
    return 0;
}

static size_t count_params(const char *data, size_t size)
{
    size_t n = 1;
    for (size_t i = 0; i < size; i++)
        n += data[i] == '&';
    return n;
}

/* Decodes one "key=value" to *out, and moves *out behind it. */
static int decode_param(const char *data, size_t size, char **out, struct http_param *ret)
{
    const char *equals = memchr(data, '=', size);
    size_t key_size = equals ? (size_t)(equals - data) : size;
    char *key = *out;
    ssize_t n = decode(data, key_size, true, key);
    if (n < 0)
        return (int)n;

    char *value = key + n + 1;
    n = equals ? decode(equals + 1, size - key_size - 1, true, value) : decode("", 0, true, value);
    if (n < 0)
        return (int)n;
    *out = value + n + 1;
    *ret = (struct http_param){key, value};
    return 0;
}

int http_query_parse(const char *data, size_t size, struct http_query *ret)
{
    size_t n_max = count_params(data, size);
    if (n_max > HTTP_QUERY_PARAMS_MAX)
        return -E2BIG;

    /* Every parameter needs two ends; its '=' and '&' pay for one of them. */
    struct http_query q = {.text = xcalloc(size + n_max + 2, 1), .params = xcalloc(n_max, sizeof(*q.params))};
    char *out = q.text;
    for (size_t from = 0, to; from < size; from = to + 1) {
        const char *ampersand = memchr(data + from, '&', size - from);
        to = ampersand ? (size_t)(ampersand - data) : size;
        if (to == from)
            continue;
        int r = decode_param(data + from, to - from, &out, &q.params[q.n]);
        if (r < 0) {
            http_query_done(&q);
            return r;
        }
        q.n++;
    }
    *ret = q;
    return 0;
}

void http_query_done(struct http_query *q)
{
    free(q->text);
    free(q->params);
    *q = (struct http_query){0};
}
