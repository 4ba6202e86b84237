/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/number.h"

#include <locale.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* With an exponent beyond this limit, any number of digits that fits in memory is too large or zero. */
#define EXPONENT_MAX 100000000

/* The parts of the grammar; only the point separates the digits before it from those after it. */
struct decimal {
    bool negative;
    const char *integer, *integer_end;
    const char *fraction, *fraction_end;
    int64_t exponent;
};

static const char *number_skip_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

static bool number_read_exponent(const char *p, const char *end, int64_t *ret)
{
    bool negative = p < end && *p == '-';
    int64_t value = 0;

    if (p < end && (*p == '-' || *p == '+'))
        p++;
    if (p == end)
        return false;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9')
            return false;
        if (value < EXPONENT_MAX)
            value = value * 10 + (*p - '0');
    }
    *ret = negative ? -value : value;
    return true;
}

static bool number_read_decimal(const char *p, const char *end, struct decimal *ret)
{
    *ret = (struct decimal){.negative = p < end && *p == '-'};
    p += ret->negative;
    ret->integer = p;
    p = ret->integer_end = ret->fraction = ret->fraction_end = number_skip_digits(p, end);
    if (p == ret->integer)
        return false;
    if (p < end && *p == '.') {
        ret->fraction = p + 1;
        p = ret->fraction_end = number_skip_digits(p + 1, end);
        if (p == ret->fraction)
            return false;
    }
    if (p < end && (*p == 'e' || *p == 'E'))
        return number_read_exponent(p + 1, end, &ret->exponent);
    return p == end;
}

bool number_is(const char *p, const char *end, bool *ret_is_integer)
{
    struct decimal d;

    if (!number_read_decimal(p, end, &d))
        return false;
    *ret_is_integer = d.integer_end == end;
    return true;
}

bool number_real(const char *p, const char *end, double *ret)
{
    char text[NUMBER_REAL_MAX + 1];
    size_t size = (size_t)(end - p);
    bool integer;

    if (size > NUMBER_REAL_MAX || !number_is(p, end, &integer))
        return false;
    memcpy(text, p, size);
    text[size] = '\0';
    /* The process may have selected a locale with a decimal comma. The C locale is never freed. */
    *ret = strtod_l(text, NULL, newlocale(LC_ALL_MASK, "C", NULL));
    return *ret - *ret == 0;
}

/* Returns the i-th digit of the integer and fraction digits in sequence, followed by infinitely many
 * zeros. */
static int number_digit(const struct decimal *d, int64_t i)
{
    ptrdiff_t n_integer = d->integer_end - d->integer;

    if (i < n_integer)
        return d->integer[i] - '0';
    i -= n_integer;
    return i < d->fraction_end - d->fraction ? d->fraction[i] - '0' : 0;
}

enum number_kind number_scaled(const char *p, const char *end, int decimals, int64_t *ret)
{
    struct decimal d;
    uint64_t value = 0;
    bool rounded = false;

    if (!number_read_decimal(p, end, &d))
        return NUMBER_NONE;
    int64_t n_digits = (d.integer_end - d.integer) + (d.fraction_end - d.fraction);
    int64_t n_counted = (d.integer_end - d.integer) + d.exponent + decimals;
    int64_t first = 0;
    while (first < n_digits && number_digit(&d, first) == 0)
        first++;
    if (first == n_digits) {
        *ret = 0;
        return NUMBER_EXACT;
    }
    for (int64_t i = first; i < n_counted; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)number_digit(&d, i), &value))
            return NUMBER_TOO_LARGE;
    if (value > (uint64_t)INT64_MAX)
        return NUMBER_TOO_LARGE;
    for (int64_t i = n_counted > first ? n_counted : first; i < n_digits && !rounded; i++)
        rounded = number_digit(&d, i) != 0;
    if (n_counted >= first && number_digit(&d, n_counted) >= 5)
        value++;
    if (value > (uint64_t)INT64_MAX)
        return NUMBER_TOO_LARGE;
    *ret = d.negative ? -(int64_t)value : (int64_t)value;
    return rounded ? NUMBER_ROUNDED : NUMBER_EXACT;
}
