/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/openapi.h"

#include <errno.h>

#define KEY_MAX 128

struct scan {
    const char *p, *end;
    char key[KEY_MAX]; /* of the last string, cut */
};

static void skip_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
        s->p++;
}

/* At an opening quote; leaves the scan behind the closing one. Escapes lose their backslash: "\/" is all
 * that matters here. */
static int read_string(struct scan *s)
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

/* At the first byte of a value; leaves the scan behind it. */
static int skip_value(struct scan *s)
{
    int depth = 0;

    while (s->p < s->end) {
        char c = *s->p;
        if (c == '"') {
            int r = read_string(s);
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

static int expect(struct scan *s, char c)
{
    skip_space(s);
    if (s->p == s->end || *s->p != c)
        return -EPROTO;
    s->p++;
    return 0;
}

/*
 * Goes to the next key of the object that the scan is in: 1 with s->key and the scan before the value, 0 at
 * the object's end.
 */
static int next_key(struct scan *s, bool first)
{
    skip_space(s);
    if (s->p < s->end && *s->p == '}') {
        s->p++;
        return 0;
    }
    if (!first && expect(s, ',') < 0)
        return -EPROTO;
    skip_space(s);
    if (s->p == s->end || *s->p != '"')
        return -EPROTO;
    int r = read_string(s);
    if (r == 0)
        r = expect(s, ':');
    skip_space(s);
    return r < 0 ? r : 1;
}

static int scan_paths(struct scan *s, const char *const *paths, size_t n, unsigned *found)
{
    int r = expect(s, '{');

    for (bool first = true; r == 0; first = false) {
        int more = next_key(s, first);
        if (more <= 0)
            return more;
        for (size_t i = 0; i < n; i++)
            if (streq(s->key, paths[i]))
                *found |= 1u << i;
        r = skip_value(s);
    }
    return r;
}

int openapi_find_paths(const char *data, size_t size, const char *const *paths, size_t n, unsigned *ret)
{
    struct scan s = {.p = data, .end = data + size};
    unsigned found = 0;
    bool has_paths = false;
    int r = expect(&s, '{');

    for (bool first = true; r == 0; first = false) {
        int more = next_key(&s, first);
        if (more < 0)
            return more;
        if (more == 0)
            break;
        if (!has_paths && streq(s.key, "paths")) {
            has_paths = true;
            r = scan_paths(&s, paths, n, &found);
        } else {
            r = skip_value(&s);
        }
    }
    if (r < 0 || !has_paths)
        return -EPROTO;
    *ret = found;
    return 0;
}
