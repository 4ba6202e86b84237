/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/alloc.h"
#include "base/text.h"
#include <math.h>

/* A value with its key, as servers' answers have them. */
#define VALUE_BYTES 150

const char *json_get_str(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

int64_t json_get_int(const json_t *object, const char *key, int64_t fallback)
{
    json_t *v = json_object_get(object, key);
    return json_is_integer(v) ? json_integer_value(v) : fallback;
}

bool json_get_bool(const json_t *object, const char *key, bool fallback)
{
    json_t *v = json_object_get(object, key);
    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

double json_get_number(const json_t *object, const char *key, double fallback)
{
    json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : fallback;
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* An upper bound, before anything is allocated: commas and brackets, those within texts left out. */
static size_t json_count_values(const char *data, size_t size)
{
    size_t n = 1;
    bool quoted = false;

    for (size_t i = 0; i < size; i++) {
        char c = data[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == ',' || c == '[' || c == '{'))
            n++;
    }
    return n;
}

size_t json_memory(const char *data, size_t size)
{
    return size + json_count_values(data, size) * VALUE_BYTES;
}

json_t *json_parse(const char *data, size_t size, char error[static 200])
{
    return json_parse_bounded(data, size, JSON_VALUES_MAX, error);
}

json_t *json_parse_bounded(const char *data, size_t size, size_t values_max, char error[static 200])
{
    json_error_t e;
    if (json_count_values(data, size) > values_max) {
        snprintf(error, 200, "more than %zu values", values_max);
        return NULL;
    }
    json_t *root = json_loadb(data, size, JSON_DECODE_ANY, &e);
    if (!root)
        snprintf(error, 200, "%s (line %d, column %d)", e.text, e.line, e.column);
    return root;
}

void json_clean_texts(json_t *value)
{
    const char *name;
    json_t *member;
    size_t i;

    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        _cleanup_(freep) char *clean = text_clean(text, true);
        if (!streq(clean, text))
            json_string_set(value, clean);
    }
    json_array_foreach(value, i, member)
        json_clean_texts(member);
    json_object_foreach(value, name, member)
        json_clean_texts(member);
}

void json_put_str(json_t *object, const char *key, const char *value)
{
    if (value)
        json_object_set_new(object, key, json_text(value));
}

void json_put_int(json_t *object, const char *key, int64_t value)
{
    json_object_set_new(object, key, json_integer(value));
}

void json_put_bool(json_t *object, const char *key, bool value)
{
    json_object_set_new(object, key, json_boolean(value));
}

json_t *json_text(const char *s)
{
    json_t *plain = json_string(s);
    if (plain)
        return plain;
    _cleanup_(freep) char *clean = xcalloc(strlen(s) * 3 + 1, 1);
    char *out = clean;
    for (const char *p = s; *p;) {
        uint32_t c;
        size_t n = text_decode(p, &c);
        if (n == 0) {
            out = stpcpy(out, "\xef\xbf\xbd");
            p++;
        } else {
            memcpy(out, p, n);
            out += n;
            p += n;
        }
    }
    return json_string(clean);
}
