/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/scan_text.h"

#include "trace/columns/schema.h"
#include "trace/read/utf8.h"

#define UNICODE_ESCAPE_SIZE 6 /* \uXXXX */

/* What may follow a backslash, and what it means. */
static const char escapes[][2] = {
    {'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', '\b'}, {'f', '\f'}, {'n', '\n'}, {'r', '\r'}, {'t', '\t'},
};

static bool read_unit(const char *p, const char *end, uint32_t *ret)
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

/* Both halves of a surrogate pair, or one unit that is none; the bytes used, 0 for anything else. */
static size_t read_unicode(const char *p, const char *end, uint32_t *ret)
{
    uint32_t low;

    if (!read_unit(p, end, ret))
        return 0;
    if (*ret < 0xD800 || *ret > 0xDFFF)
        return UNICODE_ESCAPE_SIZE;
    if (*ret > 0xDBFF || !read_unit(p + UNICODE_ESCAPE_SIZE, end, &low) || low < 0xDC00 || low > 0xDFFF)
        return 0;
    *ret = 0x10000 + ((*ret - 0xD800) << 10) + (low - 0xDC00);
    return 2 * UNICODE_ESCAPE_SIZE;
}

/* The bytes used, 0 where JSON does not know the escape. */
static size_t read_escape(const char *p, const char *end, char **out)
{
    uint32_t code;
    size_t used = read_unicode(p, end, &code);

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

static size_t clean(const char *p, size_t size, bool unescape, char *out, uint32_t *ret_flaws)
{
    const char *end = p + size, *out_begin = out;
    size_t used;

    while (p < end) {
        if (unescape && *p == '\\') {
            used = read_escape(p, end, &out);
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

size_t scan_text_unescape(const char *p, size_t size, char *out, uint32_t *ret_flaws)
{
    return clean(p, size, true, out, ret_flaws);
}

size_t scan_text_repair(const char *p, size_t size, char *out, uint32_t *ret_flaws)
{
    return clean(p, size, false, out, ret_flaws);
}
