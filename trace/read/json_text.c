/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/json_text.h"

static bool json_is_scalar(char c)
{
    return c && !json_is_space(c) && !strchr(",:{}[]\"", c);
}

bool slice_is(struct slice s, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(s.end - s.p) == n && memcmp(s.p, word, n) == 0;
}

struct slice slice_unquoted(struct slice s)
{
    if (s.end - s.p >= 2 && s.p[0] == '"' && s.end[-1] == '"')
        return (struct slice){s.p + 1, s.end - 1};
    return s;
}

bool slice_int(struct slice s, int64_t *ret)
{
    int64_t value = 0;

    s = slice_unquoted(s);
    bool negative = s.p < s.end && *s.p == '-';
    if (negative)
        s.p++;
    if (s.p == s.end)
        return false;
    for (; s.p < s.end; s.p++)
        if (*s.p < '0' || *s.p > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *s.p - '0', &value))
            return false;
    *ret = negative ? -value : value;
    return true;
}

void slice_copy(struct slice s, char *ret, size_t size)
{
    size_t n = 0;

    s = slice_unquoted(s);
    for (; s.p < s.end && n + 1 < size; s.p++) {
        if (*s.p == '\\' && s.p + 1 < s.end && strchr("\"\\/", s.p[1]) && s.p[1])
            s.p++;
        ret[n++] = *s.p ? *s.p : '?';
    }
    ret[n] = '\0';
}

/* Returns true if the byte at p follows an odd number of backslashes. */
static bool json_is_escaped(const char *start, const char *p)
{
    const char *q = p;
    while (q > start && q[-1] == '\\')
        q--;
    return (p - q) % 2 == 1;
}

/* p is at the opening quote; returns the position after the closing one. */
static const char *json_skip_string(const char *p, const char *end)
{
    const char *start = p + 1;

    for (const char *q = start; q < end; q++) {
        q = memchr(q, '"', (size_t)(end - q));
        if (!q)
            return end;
        if (!json_is_escaped(start, q))
            return q + 1;
    }
    return end;
}

static const char *json_skip_value(const char *p, const char *end)
{
    size_t depth = 0;

    while (p < end) {
        if (*p == '"') {
            p = json_skip_string(p, end);
        } else if (*p == '{' || *p == '[') {
            depth++;
            p++;
        } else if ((*p == '}' || *p == ']') && depth > 0) {
            depth--;
            p++;
        } else if (depth > 0) {
            p++;
            continue;
        } else {
            while (p < end && json_is_scalar(*p))
                p++;
        }
        if (depth == 0)
            return p;
    }
    return end;
}

static const char *json_skip_separators(const char *p, const char *end)
{
    while (p < end && (json_is_space(*p) || *p == ','))
        p++;
    return p;
}

bool json_next(struct slice *rest, struct slice *ret_key, struct slice *ret_value)
{
    const char *p = json_skip_separators(rest->p, rest->end);
    const char *stop = json_skip_value(p, rest->end);
    const char *colon = json_skip_space(stop, rest->end);

    *ret_key = (struct slice){p, p};
    if (p < rest->end && *p == '"' && colon < rest->end && *colon == ':') {
        *ret_key = slice_unquoted((struct slice){p, stop});
        p = json_skip_space(colon + 1, rest->end);
        stop = json_skip_value(p, rest->end);
    }
    if (stop == p)
        return false;
    *ret_value = (struct slice){p, stop};
    rest->p = stop;
    return true;
}

struct slice json_inside(struct slice value)
{
    if (value.p == value.end || (*value.p != '{' && *value.p != '['))
        return (struct slice){value.end, value.end};
    char close = *value.p == '{' ? '}' : ']';
    return (struct slice){value.p + 1, value.end[-1] == close ? MAX(value.end - 1, value.p + 1) : value.end};
}

static const char *json_skip_separators_back(const char *start, const char *end)
{
    while (end > start && (json_is_space(end[-1]) || end[-1] == ','))
        end--;
    return end;
}

/* end is after the closing quote; returns the opening quote, NULL if it lies before the text. */
static const char *json_skip_string_back(const char *start, const char *end)
{
    for (const char *q = end - 1; q > start;)
        if (*--q == '"' && !json_is_escaped(start, q))
            return q;
    return NULL;
}

/* end is after a value; returns the beginning of the value, NULL if it lies before the text. */
static const char *json_skip_value_back(const char *start, const char *end)
{
    size_t depth = 0;
    const char *p = end;

    while (p > start) {
        char c = p[-1];
        if (c == '"') {
            p = json_skip_string_back(start, p);
            if (!p)
                return NULL;
        } else if (c == '}' || c == ']') {
            depth++;
            p--;
        } else if ((c == '{' || c == '[') && depth > 0) {
            depth--;
            p--;
        } else if (depth > 0) {
            p--;
            continue;
        } else {
            while (p > start && json_is_scalar(p[-1]))
                p--;
            return p > start ? p : NULL;
        }
        if (depth == 0)
            return p;
    }
    return NULL;
}

enum json_back json_back(struct slice *rest, struct slice *ret_key, struct slice *ret_value)
{
    const char *start = rest->p, *end = json_skip_separators_back(start, rest->end);

    if (end == start)
        return JSON_BACK_LOST;
    if (end[-1] == '{' || end[-1] == '[') {
        rest->end = end;
        return JSON_BACK_OPEN;
    }
    const char *p = json_skip_value_back(start, end);
    if (!p || p == end)
        return JSON_BACK_LOST;
    *ret_value = (struct slice){p, end};
    *ret_key = (struct slice){p, p};
    rest->end = p;
    while (p > start && json_is_space(p[-1]))
        p--;
    if (p > start && p[-1] == ':') {
        const char *key_end = p - 1;
        while (key_end > start && json_is_space(key_end[-1]))
            key_end--;
        p = key_end > start && key_end[-1] == '"' ? json_skip_string_back(start, key_end) : NULL;
        if (!p)
            return JSON_BACK_LOST;
        *ret_key = (struct slice){p + 1, key_end - 1};
        rest->end = p;
    }
    return JSON_BACK_VALUE;
}
