/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/answer_text.h"

#include "base/metrics.h"
#include <errno.h>

/* Length of buf without an incomplete UTF-8 sequence at its end. */
static size_t complete_characters(const char *buf, size_t n)
{
    size_t i = n;

    while (i > 0 && n - i < 3 && ((unsigned char)buf[i - 1] & 0xc0) == 0x80)
        i--;
    if (i == 0 || (unsigned char)buf[i - 1] < 0xc0)
        return n;
    unsigned char lead = (unsigned char)buf[i - 1];
    size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    return n - (i - 1) < wanted ? i - 1 : n;
}

char *excerpt(const char *text, size_t size, char *buf, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < size && n + 1 < max; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c > ' ' && c != 0x7f)
            buf[n++] = (char)c;
        else if (n > 0 && buf[n - 1] != ' ')
            buf[n++] = ' ';
    }
    n = complete_characters(buf, n);
    while (n > 0 && buf[n - 1] == ' ')
        n--;
    buf[n] = '\0';
    return buf;
}

bool looks_like_html(const char *data, size_t size)
{
    while (size > 0 && (*data == ' ' || *data == '\n' || *data == '\r' || *data == '\t')) {
        data++;
        size--;
    }
    return size > 0 && *data == '<';
}

const char *answer_kind(const char *text, size_t size)
{
    return looks_like_html(text, size) ? "HTML instead of JSON" : size == 0 ? "empty" : "not JSON";
}

/* -- Prometheus text -- */

bool metrics_sum(const char *text, size_t size, const char *metric, double *ret)
{
    struct prometheus_text samples = prometheus_text(text, size);
    struct prometheus_sample sample;
    double sum = 0;
    bool found = false;

    while (prometheus_next(&samples, &sample)) {
        if (!prometheus_is(&sample, metric))
            continue;
        sum += sample.value;
        found = true;
    }
    if (found)
        *ret = sum;
    return found;
}

bool metrics_has_prefix(const char *text, size_t size, const char *prefix)
{
    const char *end = text + size;
    size_t n = strlen(prefix);

    for (const char *line = text; line < end;) {
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        if (!eol)
            eol = end;
        if ((size_t)(eol - line) >= n && memcmp(line, prefix, n) == 0)
            return true;
        line = eol + 1;
    }
    return false;
}

/* -- OpenAPI -- */

#define KEY_MAX 128

struct openapi_scan {
    const char *p, *end;
    char key[KEY_MAX]; /* of the last string, cut */
};

static void openapi_skip_space(struct openapi_scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
        s->p++;
}

/* At an opening quote; leaves the scan after the closing one. Escapes lose their backslash: "\/" is all
 * that matters here. */
static int openapi_read_string(struct openapi_scan *s)
{
    size_t n = 0;

    for (s->p++; s->p < s->end && *s->p != '"'; s->p++) {
        if (*s->p == '\\' && ++s->p == s->end)
            return -EPROTO;
        if (n + 1 < sizeof(s->key))
            s->key[n++] = *s->p;
    }
    if (s->p == s->end)
        return -EPROTO;
    s->p++;
    s->key[n] = '\0';
    return 0;
}

/* At the first byte of a value; leaves the scan after it. */
static int openapi_skip_value(struct openapi_scan *s)
{
    int depth = 0;

    while (s->p < s->end) {
        char c = *s->p;
        if (c == '"') {
            int r = openapi_read_string(s);
            if (r < 0)
                return r;
            if (depth == 0)
                return 0;
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return 0;
        s->p++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return 0;
    }
    return -EPROTO;
}

static int openapi_expect(struct openapi_scan *s, char c)
{
    openapi_skip_space(s);
    if (s->p == s->end || *s->p != c)
        return -EPROTO;
    s->p++;
    return 0;
}

/*
 * Goes to the next key of the object that the scan is in: 1 with s->key and the scan before the value, 0 at
 * the object's end.
 */
static int openapi_next_key(struct openapi_scan *s, bool first)
{
    openapi_skip_space(s);
    if (s->p < s->end && *s->p == '}') {
        s->p++;
        return 0;
    }
    if (!first && openapi_expect(s, ',') < 0)
        return -EPROTO;
    openapi_skip_space(s);
    if (s->p == s->end || *s->p != '"')
        return -EPROTO;
    int r = openapi_read_string(s);
    if (r == 0)
        r = openapi_expect(s, ':');
    openapi_skip_space(s);
    return r < 0 ? r : 1;
}

static int openapi_scan_paths(struct openapi_scan *s, const char *const *paths, size_t n, unsigned *found)
{
    int r = openapi_expect(s, '{');

    for (bool first = true; r == 0; first = false) {
        int more = openapi_next_key(s, first);
        if (more <= 0)
            return more;
        for (size_t i = 0; i < n; i++)
            if (streq(s->key, paths[i]))
                *found |= 1u << i;
        r = openapi_skip_value(s);
    }
    return r;
}

int openapi_find_paths(const char *data, size_t size, const char *const *paths, size_t n, unsigned *ret)
{
    struct openapi_scan s = {.p = data, .end = data + size};
    unsigned found = 0;
    bool has_paths = false;
    int r = openapi_expect(&s, '{');

    for (bool first = true; r == 0; first = false) {
        int more = openapi_next_key(&s, first);
        if (more < 0)
            return more;
        if (more == 0)
            break;
        if (!has_paths && streq(s.key, "paths")) {
            has_paths = true;
            r = openapi_scan_paths(&s, paths, n, &found);
        } else {
            r = openapi_skip_value(&s);
        }
    }
    if (r < 0 || !has_paths)
        return -EPROTO;
    *ret = found;
    return 0;
}
