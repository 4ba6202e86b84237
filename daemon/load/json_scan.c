/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/json_scan.h"

#include "base/util.h"
#include <errno.h>

/* The sum over ten million requests does not overflow. */
#define COUNT_DIGITS_MAX 9
#define INDEX_TEXT_MAX   12

struct json_scan {
    const char *p, *end;
    const struct json_wanted *wanted;
    struct json_found *found;
    bool any; /* the first string counts */
};

static void json_scan_skip_space(struct json_scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
        s->p++;
}

/* Whether one of the eight bytes of a word is this one. */
static bool json_scan_word_has(uint64_t word, unsigned char byte)
{
    const uint64_t ones = UINT64_MAX / 0xff;
    uint64_t zero = word ^ (ones * byte);

    return ((zero - ones) & ~zero & (ones << 7)) != 0;
}

/* The first word of a string that has a quote or an escape, or its last bytes. */
static const char *json_scan_plain_words(const char *p, const char *end)
{
    uint64_t word;

    for (; end - p >= (ptrdiff_t)sizeof(word); p += sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        if (json_scan_word_has(word, '"') || json_scan_word_has(word, '\\'))
            break;
    }
    return p;
}

/* Begins after the opening quote, ends after the closing one. */
static int json_scan_string(struct json_scan *s, struct json_found *ret)
{
    const char *begin = s->p, *end = s->end, *p = json_scan_plain_words(begin, end);

    while (p < end && *p != '"')
        p = *p == '\\' ? json_scan_plain_words(p + 2, end) : p + 1;
    if (p >= end)
        return -EINVAL;
    *ret = (struct json_found){JSON_SCAN_STRING, begin, (size_t)(p - begin)};
    s->p = p + 1;
    return 0;
}

/* To the end of an object or array; brackets are counted, not matched. */
static int json_scan_skip_nested(struct json_scan *s)
{
    struct json_found ignored;
    size_t depth = 0;

    while (s->p < s->end) {
        char c = *s->p++;
        if (c == '"' && json_scan_string(s, &ignored) < 0)
            return -EINVAL;
        depth += c == '{' || c == '[';
        if ((c == '}' || c == ']') && --depth == 0)
            return 0;
    }
    return -EINVAL;
}

static enum json_kind json_scan_kind(char c)
{
    switch (c) {
    case '{':
        return JSON_SCAN_OBJECT;
    case '[':
        return JSON_SCAN_ARRAY;
    case '"':
        return JSON_SCAN_STRING;
    case 't':
    case 'f':
        return JSON_SCAN_BOOL;
    case 'n':
        return JSON_SCAN_NULL;
    default:
        return c == '-' || (c >= '0' && c <= '9') ? JSON_SCAN_NUMBER : JSON_ABSENT;
    }
}

static bool json_scan_is_word(const char *text, size_t size)
{
    static const char *const words[] = {"null", "true", "false"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (size == strlen(words[i]) && memcmp(text, words[i], size) == 0)
            return true;
    return false;
}

static int json_scan_plain(struct json_scan *s, struct json_found *ret)
{
    const char *begin = s->p;

    while (s->p < s->end && *s->p != ',' && *s->p != '}' && *s->p != ']' && (unsigned char)*s->p > ' ')
        s->p++;
    ret->kind = json_scan_kind(*begin);
    ret->at = begin;
    ret->size = (size_t)(s->p - begin);
    return ret->kind == JSON_SCAN_NUMBER || json_scan_is_word(begin, ret->size) ? 0 : -EINVAL;
}

/* A name that some paths have next. */
struct json_step {
    const char *name;
    size_t size;
    unsigned paths;
};

/* The next steps of a set of paths, of which neighbours often share one: compared once for all members. */
static size_t json_scan_steps(const struct json_scan *s, unsigned set, unsigned depth,
                              struct json_step ret[static JSON_SCAN_WANTED_MAX])
{
    size_t n = 0;

    for (unsigned i = 0; set >> i; i++) {
        const char *name = set >> i & 1 ? s->wanted[i].steps[depth] : NULL;
        if (!name)
            continue;
        if (n == 0 || ret[n - 1].name != name)
            ret[n++] = (struct json_step){name, strlen(name), 0};
        ret[n - 1].paths |= 1U << i;
    }
    return n;
}

/* The subset whose next step has this name. */
static unsigned json_scan_following(const struct json_step *steps, size_t n, const char *name, size_t size)
{
    unsigned left = 0;

    for (size_t i = 0; i < n; i++)
        if (steps[i].size == size && size > 0 && memcmp(steps[i].name, name, size) == 0)
            left |= steps[i].paths;
    return left;
}

static int json_scan_value(struct json_scan *s, unsigned set, unsigned depth);

static int json_scan_members(struct json_scan *s, unsigned set, unsigned depth)
{
    bool array = *s->p++ == '[';
    char close = array ? ']' : '}', index[INDEX_TEXT_MAX];
    struct json_step steps[JSON_SCAN_WANTED_MAX];
    size_t n_steps = json_scan_steps(s, set, depth, steps);

    for (unsigned i = 0;; i++) {
        struct json_found name = {JSON_SCAN_STRING, index, 0};
        json_scan_skip_space(s);
        if (s->p < s->end && *s->p == close && i == 0) {
            s->p++;
            return 0;
        }
        if (array) {
            index[0] = (char)('0' + i);
            name.size = i < 10 ? 1 : (size_t)snprintf(index, sizeof(index), "%u", i);
        } else {
            if (s->p == s->end || *s->p++ != '"' || json_scan_string(s, &name) < 0)
                return -EINVAL;
            json_scan_skip_space(s);
            if (s->p == s->end || *s->p++ != ':')
                return -EINVAL;
        }
        int r = json_scan_value(s, json_scan_following(steps, n_steps, name.at, name.size), depth + 1);
        json_scan_skip_space(s);
        if (r < 0 || s->p == s->end)
            return -EINVAL;
        if (*s->p == close) {
            s->p++;
            return 0;
        }
        if (*s->p++ != ',')
            return -EINVAL;
    }
}

static void json_scan_note(struct json_scan *s, unsigned set, unsigned depth, struct json_found value)
{
    for (unsigned i = 0; set >> i; i++)
        if (set >> i & 1 && !s->wanted[i].steps[depth])
            s->found[i] = value;
    if (s->any && s->found->kind == JSON_ABSENT && json_found_text(&value))
        *s->found = value;
}

/* set: the paths that lead to this value or into it. */
static int json_scan_value(struct json_scan *s, unsigned set, unsigned depth)
{
    struct json_found value = {0};
    int r;

    json_scan_skip_space(s);
    if (s->p == s->end || depth >= JSON_SCAN_DEPTH_MAX)
        return -EINVAL;
    value.kind = json_scan_kind(*s->p);
    value.at = s->p;
    if (value.kind == JSON_SCAN_STRING) {
        s->p++;
        r = json_scan_string(s, &value);
    } else if (value.kind == JSON_SCAN_OBJECT || value.kind == JSON_SCAN_ARRAY) {
        r = (set || s->any) && depth < JSON_SCAN_STEPS_MAX ? json_scan_members(s, set, depth)
                                                           : json_scan_skip_nested(s);
        value.size = (size_t)(s->p - value.at);
    } else {
        r = json_scan_plain(s, &value);
    }
    if (r == 0)
        json_scan_note(s, set, depth, value);
    return r;
}

int json_scan(const char *text, size_t size, const struct json_wanted *wanted, size_t n,
              struct json_found *ret)
{
    struct json_scan s = {.p = text, .end = text + size, .wanted = wanted, .found = ret};

    memset(ret, 0, n * sizeof(*ret));
    return json_scan_value(&s, (1U << n) - 1, 0);
}

bool json_scan_any_string(const char *text, size_t size, struct json_found *ret)
{
    struct json_scan s = {.p = text, .end = text + size, .found = ret, .any = true};

    *ret = (struct json_found){0};
    json_scan_value(&s, 0, 0);
    return ret->kind != JSON_ABSENT;
}

bool json_found_text(const struct json_found *f)
{
    return f->kind == JSON_SCAN_STRING && f->size > 0;
}

int64_t json_found_count(const struct json_found *f)
{
    int64_t n = 0;

    if (f->kind != JSON_SCAN_NUMBER || f->size > COUNT_DIGITS_MAX)
        return -1;
    for (size_t i = 0; i < f->size; i++) {
        if (f->at[i] < '0' || f->at[i] > '9')
            return -1;
        n = n * 10 + (f->at[i] - '0');
    }
    return n;
}
