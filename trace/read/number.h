/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of JSON as exact integers, never converted through a double.
 *
 * The inline readers handle the common forms, eight digits at a time, and return NULL for any other form;
 * number_scaled() then converts it exactly or classifies it. The inline readers may read NUMBER_AHEAD
 * bytes, whatever their content.
 */
#pragma once

#include "base/hash_table.h"
#include <stdbool.h>

#define NUMBER_AHEAD    48
#define NUMBER_REAL_MAX 63
/* The value fits as nanoseconds. */
#define NUMBER_MICROSECONDS_MAX (INT64_MAX / 1000)

enum number_kind {
    NUMBER_EXACT,
    NUMBER_ROUNDED, /* has more decimals than can be kept; half is rounded away from zero */
    NUMBER_TOO_LARGE,
    NUMBER_NONE, /* not a JSON number; leading zeros are accepted */
};

/* Returns whether the complete text [p, end) is a number, and whether it has neither decimals nor an
 * exponent. */
bool number_is(const char *p, const char *end, bool *ret_is_integer);
/* Returns the nearest double; false if the text is no number, is longer than NUMBER_REAL_MAX or has no
 * finite double. */
bool number_real(const char *p, const char *end, double *ret);
/* Multiplies the complete text [p, end) by ten to the power of `decimals`. */
enum number_kind number_scaled(const char *p, const char *end, int decimals, int64_t *ret);

static const uint64_t number_powers[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* Number of digits at the beginning of the eight bytes. */
static inline unsigned number_digits(uint64_t bytes)
{
    uint64_t x = bytes ^ UINT64_C(0x3030303030303030);
    /* A carry only reaches bytes after the first non-digit, where it does not matter. */
    uint64_t other = ((x + UINT64_C(0x7676767676767676)) | x) & UINT64_C(0x8080808080808080);

    return other ? (unsigned)__builtin_ctzll(other) / 8 : 8;
}

/* The value of the first n digits of the eight bytes. */
static inline uint64_t number_value(uint64_t bytes, unsigned n)
{
    if (n == 0)
        return 0;
    /* Neighbours are combined: digits to pairs, pairs to fours, fours to the number. */
    uint64_t v = (bytes ^ UINT64_C(0x3030303030303030)) << (64 - 8 * n);
    v = v * (10 << 8 | 1) >> 8;
    v = (v & UINT64_C(0x00FF00FF00FF00FF)) * (100 << 16 | 1) >> 16;
    return (v & UINT64_C(0x0000FFFF0000FFFF)) * (UINT64_C(10000) << 32 | 1) >> 32;
}

/* Parses up to 16 digits, which further digits may follow; NULL if there are none. */
static inline const char *number_run(const char *p, uint64_t *ret)
{
    uint64_t bytes = load_word(p);
    unsigned n = number_digits(bytes);

    *ret = number_value(bytes, n);
    if (n < 8)
        return n > 0 ? p + n : NULL;
    bytes = load_word(p + 8);
    n = number_digits(bytes);
    *ret = *ret * number_powers[n] + number_value(bytes, n);
    return p + 8 + n;
}

static inline bool number_ends(char c)
{
    return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline const char *number_int(const char *p, int64_t *ret)
{
    bool negative = *p == '-';
    uint64_t value;
    const char *end = number_run(p + negative, &value);

    if (!end || !number_ends(*end))
        return NULL;
    *ret = negative ? -(int64_t)value : (int64_t)value;
    return end;
}

/* Parses microseconds with up to three decimals, as nanoseconds. */
static inline const char *number_ns(const char *p, int64_t *ret)
{
    uint64_t value;
    const char *end = number_run(p, &value);

    if (!end || value >= NUMBER_MICROSECONDS_MAX)
        return NULL;
    value *= 1000;
    if (*end == '.') {
        uint64_t bytes = load_word(end + 1);
        unsigned n = number_digits(bytes);
        if (n == 0 || n > 3)
            return NULL;
        value += number_value(bytes, n) * number_powers[3 - n];
        end += 1 + n;
    }
    if (!number_ends(*end))
        return NULL;
    *ret = (int64_t)value;
    return end;
}

/* Returns the end of a number with any decimals, unless the number is long. */
static inline const char *number_plain(const char *p)
{
    uint64_t value;
    const char *end = number_run(p + (*p == '-'), &value);

    if (end && *end == '.') {
        unsigned n = 8, left = 3;
        for (end++; n == 8 && left > 0; left--, end += n)
            n = number_digits(load_word(end));
        if (end[-1] == '.')
            return NULL;
    }
    return end && number_ends(*end) ? end : NULL;
}
