/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bus_json.h"

#include "base/alloc.h"
#include <errno.h>
#include <math.h>

#define DICTIONARY "a{sv}"

/* A message that is written or read, and what it counts as so far. */
struct bus_json {
    sd_bus_message *m;
    size_t bytes, bytes_max;
    int depth;
};

/* -- JSON to D-Bus ------------------------------------------------------------------------------------ */

static int bus_append_members(struct bus_json *w, const json_t *object);

/*
 * JSON allows Unicode's noncharacters, but sd-bus refuses text that contains them. The text is valid UTF-8; each
 * noncharacter becomes U+FFFD, which is as long or shorter.
 */
static void bus_replace_noncharacters(char *text)
{
    static const unsigned char replacement[] = {0xef, 0xbf, 0xbd};
    unsigned char *s = (unsigned char *)text;

    while ((s = (unsigned char *)strpbrk((char *)s, "\xef\xf0\xf1\xf2\xf3\xf4"))) {
        size_t n = *s == 0xef ? 3 : 4;
        unsigned last = (unsigned)(s[n - 2] & 0x3f) << 6 | (s[n - 1] & 0x3f);
        bool ends_plane = (last & 0xffe) == 0xffe && (n == 3 ? s[1] == 0xbf : (s[1] & 0xf) == 0xf);
        bool is_reserved = n == 3 && s[1] == 0xb7 && s[2] >= 0x90 && s[2] <= 0xaf;
        if (ends_plane || is_reserved) {
            memcpy(s, replacement, sizeof(replacement));
            memmove(s + 3, s + n, strlen((char *)s + n) + 1);
            n = 3;
        }
        s += n;
    }
}

static int bus_append_text(struct bus_json *w, const char *text)
{
    _cleanup_(freep) char *copy = xstrdup(text);

    bus_replace_noncharacters(copy);
    w->bytes += strlen(copy);
    return w->bytes > w->bytes_max ? -E2BIG : sd_bus_message_append_basic(w->m, 's', copy);
}

static bool bus_is_list_of(const json_t *list, json_type type)
{
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item) {
        if (json_typeof(item) != type)
            return false;
    }
    return json_array_size(list) > 0;
}

static const char *bus_signature_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return DICTIONARY;
    case JSON_ARRAY:
        return bus_is_list_of(value, JSON_STRING)   ? "as"
               : bus_is_list_of(value, JSON_OBJECT) ? "a" DICTIONARY
                                                    : "av";
    case JSON_INTEGER:
        return "x";
    case JSON_REAL:
        return "d";
    case JSON_TRUE:
    case JSON_FALSE:
        return "b";
    default:
        return "s";
    }
}

static int bus_append_value(struct bus_json *w, const json_t *value, const char *signature);

static int bus_append_variant(struct bus_json *w, const json_t *value)
{
    const char *signature = bus_signature_of(value);

    int r = sd_bus_message_open_container(w->m, 'v', signature);
    if (r >= 0)
        r = bus_append_value(w, value, signature);
    return r < 0 ? r : sd_bus_message_close_container(w->m);
}

static int bus_append_list(struct bus_json *w, const json_t *list, const char *element)
{
    size_t i;
    json_t *item;

    int r = sd_bus_message_open_container(w->m, 'a', element);
    json_array_foreach(list, i, item) {
        if (r < 0)
            return r;
        if (!json_is_null(item))
            r = bus_append_value(w, item, element);
    }
    return r < 0 ? r : sd_bus_message_close_container(w->m);
}

static int bus_append_plain(struct bus_json *w, const json_t *value, const char *signature)
{
    int64_t number = json_integer_value(value);
    double real = json_number_value(value);
    int truth = json_is_true(value);

    switch (signature[0]) {
    case 'a':
        return bus_append_list(w, value, signature + 1);
    case 'x':
        return sd_bus_message_append_basic(w->m, 'x', &number);
    case 'd':
        return sd_bus_message_append_basic(w->m, 'd', &real);
    case 'b':
        return sd_bus_message_append_basic(w->m, 'b', &truth);
    default:
        return bus_append_text(w, json_string_value(value));
    }
}

static int bus_append_value(struct bus_json *w, const json_t *value, const char *signature)
{
    w->bytes += BUS_JSON_VALUE_BYTES;
    if (w->depth == BUS_JSON_DEPTH_MAX || w->bytes > w->bytes_max)
        return -E2BIG;
    bool is_variant = signature[0] == 'v';
    w->depth += !is_variant;
    int r = is_variant                     ? bus_append_variant(w, value)
            : streq(signature, DICTIONARY) ? bus_append_members(w, value)
                                           : bus_append_plain(w, value, signature);
    w->depth -= !is_variant;
    return r;
}

static int bus_append_member(struct bus_json *w, const char *key, const json_t *value)
{
    int r = sd_bus_message_open_container(w->m, 'e', "sv");
    if (r >= 0)
        r = bus_append_text(w, key);
    if (r >= 0)
        r = bus_append_variant(w, value);
    return r < 0 ? r : sd_bus_message_close_container(w->m);
}

static int bus_append_members(struct bus_json *w, const json_t *object)
{
    const char *key;
    json_t *value;

    int r = sd_bus_message_open_container(w->m, 'a', "{sv}");
    json_object_foreach((json_t *)object, key, value) {
        if (r < 0)
            return r;
        if (!json_is_null(value))
            r = bus_append_member(w, key, value);
    }
    return r < 0 ? r : sd_bus_message_close_container(w->m);
}

int bus_append_object(sd_bus_message *m, const json_t *object, size_t bytes_max)
{
    struct bus_json w = {.m = m, .bytes_max = bytes_max};
    return bus_append_members(&w, object);
}

/* -- D-Bus to JSON ------------------------------------------------------------------------------------ */

static int bus_read_value(struct bus_json *r, json_t **ret);

/* All basic types; NULL: JSON cannot represent it. */
static json_t *bus_basic_to_json(struct bus_json *r, char type, const void *data)
{
    switch (type) {
    case 'y':
        return json_integer(*(const uint8_t *)data);
    case 'n':
        return json_integer(*(const int16_t *)data);
    case 'q':
        return json_integer(*(const uint16_t *)data);
    case 'i':
        return json_integer(*(const int32_t *)data);
    case 'u':
        return json_integer(*(const uint32_t *)data);
    case 'x':
        return json_integer(*(const int64_t *)data);
    case 't':
        return *(const uint64_t *)data <= INT64_MAX ? json_integer(*(const int64_t *)data) : NULL;
    case 'd':
        return isfinite(*(const double *)data) ? json_real(*(const double *)data) : NULL;
    case 'b':
        return json_boolean(*(const int *)data);
    case 's':
    case 'o':
    case 'g':
        r->bytes += strlen(*(const char *const *)data);
        return json_string(*(const char *const *)data);
    default:
        return NULL;
    }
}

static int bus_read_basic(struct bus_json *r, char type, json_t **ret)
{
    union {
        uint8_t y;
        uint64_t t;
        double d;
        const char *s;
    } value;

    if (type == 'h')
        return -EINVAL;
    int err = sd_bus_message_read_basic(r->m, type, &value);
    if (err < 0)
        return err;
    *ret = bus_basic_to_json(r, type, &value);
    return *ret ? 0 : -EINVAL;
}

static int bus_read_member(struct bus_json *r, json_t *object)
{
    const char *contents, *key;
    char type;
    json_t *value;

    int err = sd_bus_message_peek_type(r->m, &type, &contents);
    if (err >= 0 && contents[0] != 's' && contents[0] != 'o')
        return -EINVAL;
    if (err >= 0)
        err = sd_bus_message_enter_container(r->m, 'e', contents);
    if (err >= 0)
        err = sd_bus_message_read_basic(r->m, contents[0], &key);
    if (err >= 0)
        err = bus_read_value(r, &value);
    if (err < 0)
        return err;
    r->bytes += strlen(key);
    json_object_set_new(object, key, value);
    return sd_bus_message_exit_container(r->m);
}

/* Lists and structures are lists, dictionaries objects. */
static int bus_read_container(struct bus_json *r, char type, const char *contents, json_t **ret)
{
    bool is_object = type == 'a' && contents[0] == '{';
    _cleanup_json_ all = is_object ? json_object() : json_array();

    int err = sd_bus_message_enter_container(r->m, type, contents);
    while (err >= 0 && (err = sd_bus_message_at_end(r->m, false)) == 0) {
        json_t *element;
        err = is_object ? bus_read_member(r, all) : bus_read_value(r, &element);
        if (err >= 0 && !is_object)
            err = json_array_append_new(all, element);
    }
    if (err >= 0)
        err = sd_bus_message_exit_container(r->m);
    if (err < 0)
        return err;
    *ret = TAKE_PTR(all);
    return 0;
}

static int bus_read_variant(struct bus_json *r, const char *contents, json_t **ret)
{
    int err = sd_bus_message_enter_container(r->m, 'v', contents);
    if (err >= 0)
        err = bus_read_value(r, ret);
    if (err < 0)
        return err;
    err = sd_bus_message_exit_container(r->m);
    if (err < 0)
        json_decref(*ret);
    return err;
}

static int bus_read_value(struct bus_json *r, json_t **ret)
{
    const char *contents;
    char type;

    r->bytes += BUS_JSON_VALUE_BYTES;
    if (r->bytes > r->bytes_max || r->depth == 2 * BUS_JSON_DEPTH_MAX)
        return -E2BIG;
    int err = sd_bus_message_peek_type(r->m, &type, &contents);
    if (err <= 0)
        return err < 0 ? err : -EINVAL;
    r->depth++;
    if (type == 'v')
        err = bus_read_variant(r, contents, ret);
    else if (type == 'a' || type == 'r')
        err = bus_read_container(r, type, contents, ret);
    else
        err = bus_read_basic(r, type, ret);
    r->depth--;
    return err;
}

int bus_read_object(sd_bus_message *m, size_t bytes_max, json_t **ret)
{
    struct bus_json r = {.m = m, .bytes_max = bytes_max};
    json_t *all;

    int err = bus_read_value(&r, &all);
    if (err < 0)
        return err;
    if (r.bytes > bytes_max) {
        json_decref(all);
        return -E2BIG;
    }
    *ret = all;
    return 0;
}
