/* SPDX-License-Identifier: Apache-2.0 */
#include "base/csv.h"

#include "base/util.h"

static size_t csv_digits(const char *text, size_t size)
{
    size_t n = 0;

    while (n < size && text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

/* "-5", "+0.25", "-1e-07": a sign, digits, a fraction, an exponent. */
static bool csv_is_signed_number(const char *text, size_t size)
{
    const char *p = text + 1, *end = text + size;
    size_t integer = csv_digits(p, (size_t)(end - p)), fraction = 0;

    p += integer;
    if (p < end && *p == '.') {
        fraction = csv_digits(p + 1, (size_t)(end - p - 1));
        p += 1 + fraction;
    }
    if (integer + fraction == 0)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        size_t exponent = csv_digits(p, (size_t)(end - p));
        if (exponent == 0)
            return false;
        p += exponent;
    }
    return p == end;
}

/* Spaces, and what programs take for a byte order mark where it begins a file. */
static size_t csv_count_ignored(const char *text, size_t size)
{
    static const char mark[] = "\ufeff";
    size_t n = 0;

    while (n < size) {
        bool is_mark = size - n >= strlen(mark) && memcmp(text + n, mark, strlen(mark)) == 0;
        if (!is_mark && text[n] != ' ')
            break;
        n += is_mark ? strlen(mark) : 1;
    }
    return n;
}

static bool csv_is_formula(const char *text, size_t size)
{
    static const char *const starts[] = {"=",  "+",      "-",      "@",      "\t",    "\r",
                                         "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"};
    size_t n_ignored = csv_count_ignored(text, size);

    text += n_ignored;
    size -= n_ignored;
    for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
        size_t n = strlen(starts[i]);
        if (size >= n && memcmp(text, starts[i], n) == 0)
            return !((*text == '+' || *text == '-') && csv_is_signed_number(text, size));
    }
    return false;
}

static bool csv_is_one_of(char c, const char *characters)
{
    return c && strchr(characters, c);
}

static bool csv_needs_quotes(const char *text, size_t size)
{
    bool has_special = false;

    for (size_t i = 0; i < size && !has_special; i++)
        has_special = csv_is_one_of(text[i], ",;\t\"\r\n");
    return size == 0 || has_special || csv_is_formula(text, size);
}

/* Where semicolons or tabs separate, quotes inside of a line do not hold a field together: what follows them
 * is the beginning of a cell, too. */
static bool csv_begins_cell(const char *text, size_t at)
{
    static const char separators[] = ";\t\r\n";
    return at == 0 || (csv_is_one_of(text[at - 1], separators) && !csv_is_one_of(text[at], separators));
}

static void csv_put_quoted(FILE *out, const char *text, size_t size)
{
    fputc('"', out);
    for (size_t i = 0; i < size; i++) {
        if (csv_begins_cell(text, i) && csv_is_formula(text + i, size - i))
            fputc('\'', out);
        if (text[i] == '"')
            fputc('"', out);
        fputc(text[i], out);
    }
    fputc('"', out);
}

void csv_write_sized(FILE *out, const char *text, size_t size)
{
    if (csv_needs_quotes(text, size))
        csv_put_quoted(out, text, size);
    else
        fwrite(text, 1, size, out);
}

void csv_write_quoted(FILE *out, const char *text)
{
    csv_put_quoted(out, text, strlen(text));
}

void csv_write(FILE *out, const char *text)
{
    csv_write_sized(out, text, strlen(text));
}
