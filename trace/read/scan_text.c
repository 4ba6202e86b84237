/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/scan_text.h"

#include "trace/columns/schema.h"
#include "trace/read/json_text.h"
#include "trace/read/number.h"
#include "trace/read/scan_state.h"
#include <errno.h>

/* -- UTF-8 ---------------------------------------------------------------------------------------------- */

/* U+FFFD, the replacement character */
static const char utf8_replacement[3] = {'\xEF', '\xBF', '\xBD'};

/* Returns the length of the character at p, with `left` bytes available; 0 if it is invalid (Unicode's table
 * 3-7). */
static size_t utf8_size(const char *p, size_t left)
{
    static const struct {
        uint8_t first, last; /* leading byte */
        uint8_t size;
        uint8_t low, high; /* of the second byte */
    } shapes[] = {
        {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF}, {0xE1, 0xEC, 3, 0x80, 0xBF},
        {0xED, 0xED, 3, 0x80, 0x9F}, {0xEE, 0xEF, 3, 0x80, 0xBF}, {0xF0, 0xF0, 4, 0x90, 0xBF},
        {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F},
    };
    const uint8_t *b = (const uint8_t *)p;

    if (b[0] < 0x80)
        return 1;
    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
        if (b[0] < shapes[i].first || b[0] > shapes[i].last)
            continue;
        if (shapes[i].size > left || b[1] < shapes[i].low || b[1] > shapes[i].high)
            return 0;
        for (size_t k = 2; k < shapes[i].size; k++)
            if ((b[k] & 0xC0) != 0x80)
                return 0;
        return shapes[i].size;
    }
    return 0;
}

/* Writes a code point of at most four bytes; returns its length. */
static size_t utf8_put(uint32_t code, char *out)
{
    static const uint8_t first[] = {0, 0, 0xC0, 0xE0, 0xF0}; /* leading byte by length */
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    for (size_t i = size - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(first[size] | code);
    return size;
}

/* -- Escapes -------------------------------------------------------------------------------------------- */

#define UNICODE_ESCAPE_SIZE 6 /* \uXXXX */

/* What may follow a backslash, and what it means. */
static const char escapes[][2] = {
    {'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', '\b'}, {'f', '\f'}, {'n', '\n'}, {'r', '\r'}, {'t', '\t'},
};

static bool scan_text_read_unit(const char *p, const char *end, uint32_t *ret)
{
    uint32_t value = 0;

    if (end - p < UNICODE_ESCAPE_SIZE || p[0] != '\\' || p[1] != 'u')
        return false;
    for (int i = 2; i < UNICODE_ESCAPE_SIZE; i++) {
        char c = p[i], lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            value = value << 4 | (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value << 4 | (uint32_t)(lower - 'a' + 10);
        else
            return false;
    }
    *ret = value;
    return true;
}

/* Decodes both halves of a surrogate pair, or one unpaired unit; returns the bytes used, 0 for any other
 * text. */
static size_t scan_text_read_unicode(const char *p, const char *end, uint32_t *ret)
{
    uint32_t low;

    if (!scan_text_read_unit(p, end, ret))
        return 0;
    if (*ret < 0xD800 || *ret > 0xDFFF)
        return UNICODE_ESCAPE_SIZE;
    if (*ret > 0xDBFF || !scan_text_read_unit(p + UNICODE_ESCAPE_SIZE, end, &low) || low < 0xDC00 ||
        low > 0xDFFF)
        return 0;
    *ret = 0x10000 + ((*ret - 0xD800) << 10) + (low - 0xDC00);
    return 2 * UNICODE_ESCAPE_SIZE;
}

/* Returns the bytes used, 0 if JSON does not define the escape. */
static size_t scan_text_read_escape(const char *p, const char *end, char **out)
{
    uint32_t code;
    size_t used = scan_text_read_unicode(p, end, &code);

    if (used > 0) {
        *out += utf8_put(code, *out);
        return used;
    }
    for (size_t i = 0; i < ARRAY_SIZE(escapes) && end - p >= 2; i++) {
        if (escapes[i][0] != p[1])
            continue;
        *(*out)++ = escapes[i][1];
        return 2;
    }
    return 0;
}

size_t scan_text_clean(struct slice text, bool unescape, char *out, uint32_t *ret_flaws)
{
    const char *p = text.p, *end = text.end, *out_begin = out;
    size_t used;

    while (p < end) {
        if (unescape && *p == '\\') {
            used = scan_text_read_escape(p, end, &out);
            p += used;
            if (used > 0)
                continue;
            *ret_flaws |= 1u << DEFECT_bad_escape;
        } else if (unescape && (unsigned char)*p < ' ') {
            *ret_flaws |= 1u << DEFECT_control_char;
        }
        used = utf8_size(p, (size_t)(end - p));
        if (used > 0) {
            memcpy(out, p, used);
            out += used;
            p += used;
        } else {
            *ret_flaws |= 1u << DEFECT_bad_utf8;
            memcpy(out, utf8_replacement, sizeof(utf8_replacement));
            out += sizeof(utf8_replacement);
            p++;
        }
    }
    return (size_t)(out - out_begin);
}

/* -- Strings -------------------------------------------------------------------------------------------- */

static uint32_t scan_strings_no_memory(struct scanner *s)
{
    if (!s->intake->error)
        s->intake->error = -ENOMEM;
    return STRINGS_NONE;
}

uint32_t scan_intern(struct scanner *s, const char *p, size_t size, struct cached_text *c)
{
    uint32_t number = strings_intern(s->intake->strings, p, size);
    size_t kept_size;

    if (number == STRINGS_NONE)
        return scan_strings_no_memory(s);
    if (c)
        *c =
            (struct cached_text){strings_get(s->intake->strings, number, &kept_size), (uint32_t)size, number};
    return number;
}

bool scan_reserve_buffer(struct scanner *s, size_t size)
{
    if (size <= s->buffer_size)
        return true;
    char *grown = realloc(s->buffer, size);
    if (!grown) {
        scan_strings_no_memory(s);
        return false;
    }
    s->buffer = grown;
    s->buffer_size = size;
    return true;
}

uint32_t scan_intern_cleaned(struct scanner *s, struct slice text, bool unescape)
{
    size_t size = (size_t)(text.end - text.p);

    if (!scan_reserve_buffer(s, size * SCAN_TEXT_GROWTH + TEXT_PAD))
        return STRINGS_NONE;
    size = scan_text_clean(text, unescape, s->buffer, &s->event.flaws);
    memset(s->buffer + size, 0, TEXT_PAD);
    return scan_intern(s, s->buffer, size, NULL);
}

bool scan_check_text(struct scanner *s, struct slice text)
{
    uint32_t flaws = 0;

    if (!scan_reserve_buffer(s, (size_t)(text.end - text.p) * SCAN_TEXT_GROWTH))
        return false;
    scan_text_clean(text, true, s->buffer, &flaws);
    s->event.flaws |= flaws;
    return flaws == 0;
}

void scan_set_category(struct scanner *s, uint32_t string)
{
    struct scanned_event *f = &s->event;
    size_t size;
    const char *text;

    f->category = CATEGORY_NONE;
    f->class = CLASS_UNLISTED;
    if (string == 0 || string == STRINGS_NONE)
        return;
    text = strings_get(s->intake->strings, string, &size);
    f->category = intake_category(s->intake, string);
    f->class = (uint8_t)arg_class_of_category(text, size);
}

/* -- Values --------------------------------------------------------------------------------------------- */

/* Returns NUMBER_NONE for text that does not look like a number; malformed numbers are noted. */
static enum number_kind scan_value_read_number(struct scanner *s, struct slice value, int decimals,
                                               int64_t *ret)
{
    struct slice text = slice_unquoted(value);
    enum number_kind kind;

    if (value.p == value.end || *value.p == '{' || *value.p == '[' || slice_is(value, "null") ||
        slice_is(value, "true") || slice_is(value, "false"))
        return NUMBER_NONE;
    kind = number_scaled(text.p, text.end, decimals, ret);
    if (kind == NUMBER_NONE)
        scan_flaw(s, DEFECT_bad_number);
    return kind;
}

bool scan_value_number(struct scanner *s, struct slice value, int decimals, int64_t *ret)
{
    int64_t number;
    enum number_kind kind = scan_value_read_number(s, value, decimals, &number);

    /* A number with unwanted decimals becomes another number. */
    if (kind == NUMBER_TOO_LARGE || (kind == NUMBER_ROUNDED && decimals == 0)) {
        scan_flaw(s, DEFECT_bad_number);
        return false;
    }
    if (kind != NUMBER_NONE)
        *ret = number;
    return kind != NUMBER_NONE;
}

bool scan_value_is_number(struct scanner *s, struct slice value)
{
    int64_t ignored;

    return scan_value_read_number(s, value, 0, &ignored) != NUMBER_NONE;
}

/* -- Text of other formats ------------------------------------------------------------------------------ */

uint32_t clean_text(struct intake *in, const char *p, size_t size, uint64_t offset)
{
    char text[CLEAN_TEXT_MAX * SCAN_TEXT_GROWTH + TEXT_PAD];
    uint32_t flaws = 0;

    if (size <= CLEAN_TEXT_MAX)
        size = scan_text_clean((struct slice){p, p + size}, false, text, &flaws);
    if (size > CLEAN_TEXT_MAX) {
        intake_defect(in, DEFECT_too_large_event, offset);
        return STRINGS_NONE;
    }
    if (flaws != 0)
        intake_defect(in, DEFECT_bad_utf8, offset);
    memset(text + size, 0, TEXT_PAD);

    uint32_t number = strings_intern(in->strings, text, size);
    if (number == STRINGS_NONE && in->error == 0)
        in->error = -ENOMEM;
    return number;
}
