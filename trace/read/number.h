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
#if defined(__SSSE3__)
#include <tmmintrin.h>
#endif

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
#if defined(__SSSE3__)
    /* From the offset n, indices that move the first n of 16 bytes to the end, after zeros. */
    static const int8_t move[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15};
    __m128i digits = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8('0'));
    __m128i other = _mm_cmpeq_epi8(_mm_max_epu8(digits, _mm_set1_epi8(10)), digits);
    unsigned n = (unsigned)__builtin_ctz((unsigned)_mm_movemask_epi8(other) | 1u << 16);
    /* Neighbours are combined: digits to pairs, pairs to fours, fours to two numbers of eight digits. */
    __m128i v = _mm_shuffle_epi8(digits, _mm_loadu_si128((const __m128i *)(move + n)));
    v = _mm_maddubs_epi16(v, _mm_set1_epi16(1 << 8 | 10));
    v = _mm_madd_epi16(v, _mm_set1_epi32(1 << 16 | 100));
    v = _mm_packs_epi32(v, v);
    v = _mm_madd_epi16(v, _mm_set1_epi32(1 << 16 | 10000));
    uint64_t both = (uint64_t)_mm_cvtsi128_si64(v);

    *ret = (uint32_t)both * number_powers[8] + (both >> 32);
    return n > 0 ? p + n : NULL;
#else
    uint64_t bytes = load_word(p);
    unsigned n = number_digits(bytes);

    *ret = number_value(bytes, n);
    if (n < 8)
        return n > 0 ? p + n : NULL;
    bytes = load_word(p + 8);
    n = number_digits(bytes);
    *ret = *ret * number_powers[n] + number_value(bytes, n);
    return p + 8 + n;
#endif
}

static inline bool number_ends(char c)
{
    return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline const char *number_int(const char *p, int64_t *ret)
{
    uint64_t value;
    const char *end = number_run(p, &value);
    bool negative = !end && *p == '-';

    if (negative)
        end = number_run(p + 1, &value);
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
