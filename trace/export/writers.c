/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/writers.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

/* -- Text and JSON -------------------------------------------------------------------------------------- */

/* Shapes of real traces are nested less deeply. */
#define JSON_DEPTH_MAX 32

void out_text(FILE *out, struct text t)
{
    fwrite(t.p, 1, t.size, out);
}

void out_json_part(FILE *out, struct text t)
{
    static const char short_escapes[256] = {
        ['"'] = '"', ['\\'] = '\\', ['\n'] = 'n', ['\t'] = 't', ['\r'] = 'r'};
    size_t from = 0;

    for (size_t i = 0; i < t.size; i++) {
        unsigned char c = (unsigned char)t.p[i];

        if (c >= 0x20 && !short_escapes[c])
            continue;
        fwrite(t.p + from, 1, i - from, out);
        from = i + 1;
        if (short_escapes[c])
            fprintf(out, "\\%c", short_escapes[c]);
        else
            fprintf(out, "\\u%04x", c);
    }
    fwrite(t.p + from, 1, t.size - from, out);
}

void out_json_text(FILE *out, struct text t)
{
    putc('"', out);
    out_json_part(out, t);
    putc('"', out);
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && strchr(" \t\r\n", *p) && *p)
        p++;
    return p;
}

static const char *skip_digits(const char *p, const char *end)
{
    const char *from = p;

    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p > from ? p : NULL;
}

/* These return the end of the value; NULL: no valid value. */
static const char *skip_number(const char *p, const char *end)
{
    if (p < end && *p == '-')
        p++;
    if (p + 1 < end && *p == '0' && p[1] >= '0' && p[1] <= '9')
        return NULL;
    p = skip_digits(p, end);
    if (p && p < end && *p == '.')
        p = skip_digits(p + 1, end);
    if (p && p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p = skip_digits(p < end && (*p == '-' || *p == '+') ? p + 1 : p, end);
    }
    return p;
}

/* p is after a backslash. */
static const char *skip_escape(const char *p, const char *end)
{
    if (p < end && *p == 'u') {
        for (unsigned i = 0; i < 4; i++) {
            if (++p == end || !isxdigit((unsigned char)*p))
                return NULL;
        }
        return p + 1;
    }
    return p < end && *p && strchr("\"\\/bfnrt", *p) ? p + 1 : NULL;
}

static const char *skip_string(const char *p, const char *end)
{
    p++;
    while (p && p < end && *p != '"') {
        if ((unsigned char)*p < 0x20)
            return NULL;
        p = *p == '\\' ? skip_escape(p + 1, end) : p + 1;
    }
    return p && p < end ? p + 1 : NULL;
}

static const char *skip_word(const char *p, const char *end)
{
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(end - p) >= n && memcmp(p, words[i], n) == 0)
            return p + n;
    }
    return NULL;
}

static const char *skip_value(const char *p, const char *end, unsigned depth);

static const char *skip_composite(const char *p, const char *end, unsigned depth)
{
    bool object = *p == '{';
    char close = object ? '}' : ']';

    p = skip_space(p + 1, end);
    if (p < end && *p == close)
        return p + 1;
    while (p < end) {
        if (object) {
            p = *p == '"' ? skip_string(p, end) : NULL;
            p = p ? skip_space(p, end) : NULL;
            if (!p || p == end || *p != ':')
                return NULL;
            p = skip_space(p + 1, end);
        }
        p = skip_value(p, end, depth + 1);
        p = p ? skip_space(p, end) : NULL;
        if (!p || p == end || *p == close)
            return p && p < end ? p + 1 : NULL;
        if (*p != ',')
            return NULL;
        p = skip_space(p + 1, end);
    }
    return NULL;
}

static const char *skip_value(const char *p, const char *end, unsigned depth)
{
    if (p == end || depth > JSON_DEPTH_MAX)
        return NULL;
    switch (*p) {
    case '{':
    case '[':
        return skip_composite(p, end, depth);
    case '"':
        return skip_string(p, end);
    case 't':
    case 'f':
    case 'n':
        return skip_word(p, end);
    default:
        return skip_number(p, end);
    }
}

void out_json_value(FILE *out, struct text t)
{
    bool composite = t.size > 0 && (*t.p == '[' || *t.p == '{');

    if (composite && skip_value(t.p, t.p + t.size, 0) == t.p + t.size)
        out_text(out, t);
    else
        out_json_text(out, t);
}

void out_json_digits(FILE *out, struct text t)
{
    if (t.size > 0 && skip_number(t.p, t.p + t.size) == t.p + t.size)
        out_text(out, t);
    else
        out_json_text(out, t);
}

void us_text(int64_t ns, char ret[static US_TEXT_MAX])
{
    uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

    snprintf(ret, US_TEXT_MAX, "%s%" PRIu64 ".%03u", ns < 0 ? "-" : "", size / 1000, (unsigned)(size % 1000));
}

void out_us(FILE *out, int64_t ns)
{
    char text[US_TEXT_MAX];

    us_text(ns, text);
    fputs(text, out);
}

/* -- Protocol Buffers ----------------------------------------------------------------------------------- */

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
};

#define VARINT_MAX 10
/* Bytes of the length of a message, which is filled in later. */
#define LENGTH_SIZE 4

void proto_done(struct proto *p)
{
    free(p->p);
    *p = (struct proto){0};
}

static uint8_t *proto_reserve(struct proto *p, size_t size)
{
    if (p->cap - p->size < size) {
        size_t cap = MAX(2 * p->cap, p->size + size + 1024);
        uint8_t *grown = realloc(p->p, cap);

        if (!grown) {
            p->failed = true;
            return NULL;
        }
        p->p = grown;
        p->cap = cap;
    }
    return p->p + p->size;
}

static void proto_bytes(struct proto *p, const void *data, size_t size)
{
    uint8_t *to = proto_reserve(p, size);

    if (to) {
        memcpy(to, data, size);
        p->size += size;
    }
}

void proto_varint(struct proto *p, uint64_t value)
{
    uint8_t bytes[VARINT_MAX];
    size_t n = 0;

    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    proto_bytes(p, bytes, n);
}

static void proto_tag(struct proto *p, unsigned field, enum wire_type type)
{
    proto_varint(p, (uint64_t)field << 3 | type);
}

void proto_int(struct proto *p, unsigned field, int64_t value)
{
    proto_tag(p, field, WIRE_VARINT);
    proto_varint(p, (uint64_t)value);
}

void proto_fixed64(struct proto *p, unsigned field, uint64_t value)
{
    proto_tag(p, field, WIRE_FIXED64);
    proto_bytes(p, &value, sizeof(value));
}

void proto_double(struct proto *p, unsigned field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    proto_fixed64(p, field, bits);
}

void proto_text(struct proto *p, unsigned field, struct text value)
{
    proto_tag(p, field, WIRE_BYTES);
    proto_varint(p, value.size);
    proto_bytes(p, value.p, value.size);
}

size_t proto_open(struct proto *p, unsigned field)
{
    static const uint8_t length[LENGTH_SIZE];

    proto_tag(p, field, WIRE_BYTES);
    proto_bytes(p, length, sizeof(length));
    return p->size;
}

void proto_close(struct proto *p, size_t opened)
{
    size_t size = p->size - opened;

    if (p->failed || size >> (7 * LENGTH_SIZE) != 0) {
        p->failed = true;
        return;
    }
    for (size_t i = 0; i < LENGTH_SIZE; i++, size >>= 7)
        p->p[opened - LENGTH_SIZE + i] = (uint8_t)(size & 0x7f) | (i + 1 < LENGTH_SIZE ? 0x80 : 0);
}

void proto_flush(struct proto *p, FILE *out)
{
    if (!p->failed)
        fwrite(p->p, 1, p->size, out);
    p->size = 0;
}
