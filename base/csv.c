/* SPDX-License-Identifier: Apache-2.0 */
#include "base/csv.h"

#include "base/util.h"

static size_t digits(const char *text, size_t size)
{
    size_t n = 0;

    while (n < size && text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

/* "-5", "+0.25", "-1e-07": a sign, digits, a fraction, an exponent. */
static bool is_signed_number(const char *text, size_t size)
{
    const char *p = text + 1, *end = text + size;
    size_t whole = digits(p, (size_t)(end - p)), fraction = 0;

    p += whole;
    if (p < end && *p == '.') {
        fraction = digits(p + 1, (size_t)(end - p - 1));
        p += 1 + fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        size_t exponent = digits(p, (size_t)(end - p));
        if (exponent == 0)
            return false;
        p += exponent;
    }
    return p == end;
}

static bool is_formula(const char *text, size_t size)
{
    static const char *const starts[] = {"=",  "+",      "-",      "@",      "\t",    "\r",
                                         "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"};

    for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
        size_t n = strlen(starts[i]);
        if (size >= n && memcmp(text, starts[i], n) == 0)
            return !((*text == '+' || *text == '-') && is_signed_number(text, size));
    }
    return false;
}

static bool needs_quotes(const char *text, size_t size)
{
    return size == 0 || memchr(text, ',', size) || memchr(text, '"', size) || memchr(text, '\r', size) ||
           memchr(text, '\n', size) || is_formula(text, size);
}

static void write_quoted(FILE *out, const char *text, size_t size)
{
    fputc('"', out);
    if (is_formula(text, size))
        fputc('\'', out);
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"')
            fputc('"', out);
        fputc(text[i], out);
    }
    fputc('"', out);
}

void csv_write_sized(FILE *out, const char *text, size_t size)
{
    if (needs_quotes(text, size))
        write_quoted(out, text, size);
    else
        fwrite(text, 1, size, out);
}

void csv_write_quoted(FILE *out, const char *text)
{
    write_quoted(out, text, strlen(text));
}

void csv_write(FILE *out, const char *text)
{
    csv_write_sized(out, text, strlen(text));
}
