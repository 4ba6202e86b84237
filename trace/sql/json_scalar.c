/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/json_scalar.h"

#include <locale.h>
#include <math.h>

static int hex4(const char *p, const char *end)
{
    int value = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i] | 0x20;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static size_t put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

/* \uXXXX, or two of them that are one character; returns the bytes read behind the `u`, 0 where it is none.
 */
static size_t read_unicode(const char *p, const char *end, uint32_t *ret)
{
    int high = hex4(p, end), low;

    if (high < 0)
        return 0;
    *ret = (uint32_t)high;
    if (high < 0xd800 || high > 0xdfff)
        return 4;
    low = high < 0xdc00 && end - p >= 6 && p[4] == '\\' && p[5] == 'u' ? hex4(p + 6, end) : -1;
    if (low < 0xdc00 || low > 0xdfff) {
        *ret = 0xfffd;
        return 4;
    }
    *ret = 0x10000 + (((uint32_t)high - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
    return 10;
}

size_t json_unescape(struct slice s, char *out)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    size_t n = 0;

    while (s.p < s.end) {
        const char *known;
        uint32_t code = 0;
        size_t used;

        if (*s.p != '\\' || s.p + 1 == s.end) {
            out[n++] = *s.p++;
            continue;
        }
        known = s.p[1] ? strchr(escapes, s.p[1]) : NULL;
        used = s.p[1] == 'u' ? read_unicode(s.p + 2, s.end, &code) : 0;
        if (known) {
            out[n++] = meant[known - escapes];
        } else if (used > 0) {
            n += put_utf8(out + n, code);
        } else {
            out[n++] = s.p[0];
            out[n++] = s.p[1];
        }
        s.p += 2 + used;
    }
    return n;
}

/* Whether JSON would take it for a number, and whether it is whole. */
static bool is_number(struct text t, bool *ret_whole)
{
    size_t i = 0, digits = 0;

    *ret_whole = true;
    i += t.size > 0 && t.p[0] == '-';
    for (; i < t.size && t.p[i] >= '0' && t.p[i] <= '9'; i++)
        digits++;
    if (i < t.size && t.p[i] == '.') {
        *ret_whole = false;
        for (i++; i < t.size && t.p[i] >= '0' && t.p[i] <= '9'; i++)
            digits++;
    }
    if (digits > 0 && i < t.size && (t.p[i] | 0x20) == 'e') {
        *ret_whole = false;
        i++;
        i += i < t.size && (t.p[i] == '+' || t.p[i] == '-');
        for (digits = 0; i < t.size && t.p[i] >= '0' && t.p[i] <= '9'; i++)
            digits++;
    }
    return digits > 0 && i == t.size;
}

static bool to_real(struct text t, double *ret)
{
    char digits[64];

    if (t.size >= sizeof(digits))
        return false;
    memcpy(digits, t.p, t.size);
    digits[t.size] = '\0';
    /* Whoever loaded this may have chosen a decimal comma; the C locale is nobody's to free. */
    *ret = strtod_l(digits, NULL, newlocale(LC_ALL_MASK, "C", NULL));
    return isfinite(*ret);
}

enum json_scalar json_scalar(struct text json, int64_t *ret_integer, double *ret_real)
{
    bool whole;

    if ((json.size == 4 && memcmp(json.p, "true", 4) == 0) ||
        (json.size == 5 && memcmp(json.p, "false", 5) == 0)) {
        *ret_integer = json.size == 4;
        return JSON_BOOL;
    }
    if (!is_number(json, &whole))
        return JSON_WORD;
    /* A whole number that does not fit keeps its digits: a double would lose some. */
    if (whole)
        return slice_int((struct slice){json.p, json.p + json.size}, ret_integer) ? JSON_INT : JSON_WORD;
    return to_real(json, ret_real) ? JSON_REAL : JSON_WORD;
}
