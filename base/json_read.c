/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_read.h"

#include "base/json.h"
#include <string.h>

/* Digits that always fit into an integer. */
#define DIGITS_MAX 18

struct json_reader {
    const char *at, *end;
    unsigned depth;
};

static json_t *json_read_value(struct json_reader *r);

/* The next byte that is not white space, 0 at the end. */
static char json_peek(struct json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
    return r->at < r->end ? *r->at : '\0';
}

static bool json_skip(struct json_reader *r, char c)
{
    bool is = json_peek(r) == c;

    r->at += is;
    return is;
}

/* Leaves a value to jansson. */
static json_t *json_read_by_jansson(struct json_reader *r, const char *end)
{
    json_error_t error;
    json_t *value = json_loadb(r->at, (size_t)(end - r->at), JSON_DECODE_ANY, &error);

    r->at = end;
    return value;
}

/* Skips a plain text with its quotes; NULL, and skips nothing, if it is not plain. */
static const char *json_skip_plain_text(struct json_reader *r, size_t *ret_size)
{
    const char *begin = r->at + 1, *p = begin;

    /* As a signed number, a byte of a longer character is less than a space. */
    while (p < r->end && (signed char)*p >= ' ' && *p != '"' && *p != '\\')
        p++;
    if (p >= r->end || *p != '"')
        return NULL;
    *ret_size = (size_t)(p - begin);
    r->at = p + 1;
    return begin;
}

static json_t *json_read_text(struct json_reader *r)
{
    size_t size;
    const char *plain = json_skip_plain_text(r, &size), *p = r->at + 1;

    if (plain)
        return json_stringn_nocheck(plain, size);
    while (p < r->end && *p != '"')
        p += *p == '\\' && p + 1 < r->end ? 2 : 1;
    return p < r->end ? json_read_by_jansson(r, p + 1) : NULL;
}

static bool json_is_in_number(char c)
{
    return (c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
}

static json_t *json_read_number(struct json_reader *r)
{
    const char *begin = r->at + (*r->at == '-'), *p = begin;
    json_int_t n = 0;

    for (; p < r->end && p - begin < DIGITS_MAX && *p >= '0' && *p <= '9'; p++)
        n = n * 10 + (*p - '0');
    bool has_zero_first = p - begin > 1 && *begin == '0', is_over = p >= r->end || !json_is_in_number(*p);
    if (p > begin && !has_zero_first && is_over) {
        n = begin > r->at ? -n : n;
        r->at = p;
        return json_integer(n);
    }
    while (p < r->end && json_is_in_number(*p))
        p++;
    return json_read_by_jansson(r, p);
}

static json_t *json_read_word(struct json_reader *r)
{
    static const struct {
        const char *word;
        json_t *(*value)(void);
    } words[] = {{"true", json_true}, {"false", json_false}, {"null", json_null}};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t size = strlen(words[i].word);
        if ((size_t)(r->end - r->at) < size || memcmp(r->at, words[i].word, size) != 0)
            continue;
        r->at += size;
        return words[i].value();
    }
    return NULL;
}

static bool json_read_element(struct json_reader *r, json_t *array)
{
    json_t *value = json_read_value(r);

    return value && json_array_append_new(array, value) == 0;
}

static bool json_read_member(struct json_reader *r, json_t *object)
{
    _cleanup_json_ unusual = NULL;
    size_t size;

    if (json_peek(r) != '"')
        return false;
    const char *key = json_skip_plain_text(r, &size);
    if (!key) {
        unusual = json_read_text(r);
        key = json_string_value(unusual);
        size = json_string_length(unusual);
    }
    json_t *value = key && json_skip(r, ':') ? json_read_value(r) : NULL;
    return value && json_object_setn_new_nocheck(object, key, size, value) == 0;
}

/* The members of an object, or the elements of an array, up to its end. */
static json_t *json_read_list(struct json_reader *r, json_t *take, char end,
                              bool (*read)(struct json_reader *r, json_t *list))
{
    bool is_good = ++r->depth <= JSON_READ_DEPTH_MAX;

    r->at++;
    if (is_good && !json_skip(r, end)) {
        do
            is_good = read(r, take);
        while (is_good && json_skip(r, ','));
        is_good = is_good && json_skip(r, end);
    }
    r->depth--;
    if (is_good)
        return take;
    json_decref(take);
    return NULL;
}

static json_t *json_read_value(struct json_reader *r)
{
    char first = json_peek(r);

    if (first == '{')
        return json_read_list(r, json_object(), '}', json_read_member);
    if (first == '[')
        return json_read_list(r, json_array(), ']', json_read_element);
    if (first == '"')
        return json_read_text(r);
    return first == '-' || (first >= '0' && first <= '9') ? json_read_number(r) : json_read_word(r);
}

json_t *json_read(const char *data, size_t size)
{
    struct json_reader r = {.at = data, .end = data + size};
    json_t *value = json_read_value(&r);

    json_peek(&r);
    if (value && r.at == r.end)
        return value;
    json_decref(value);
    return NULL;
}
