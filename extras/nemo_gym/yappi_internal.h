/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of text that the parsers of yappi's two formats share. */
#pragma once

#include "base/util.h"

struct piece {
    const char *p, *end;
};

/* More is nonsense: sums of two still fit. */
#define YAPPI_COUNT_MAX (INT64_C(1) << 60)

static inline size_t piece_size(struct piece s)
{
    return (size_t)(s.end - s.p);
}

static inline bool piece_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool piece_starts(struct piece s, const char *prefix)
{
    size_t n = strlen(prefix);
    return piece_size(s) >= n && memcmp(s.p, prefix, n) == 0;
}

static inline struct piece piece_trim(struct piece s)
{
    while (s.p < s.end && (*s.p == ' ' || *s.p == '\t'))
        s.p++;
    while (s.end > s.p && (s.end[-1] == ' ' || s.end[-1] == '\t' || s.end[-1] == '\r'))
        s.end--;
    return s;
}

/* The next line of the rest, without its end; false after the last. */
static inline bool piece_line(struct piece *rest, struct piece *ret)
{
    if (rest->p == rest->end)
        return false;
    const char *newline = memchr(rest->p, '\n', piece_size(*rest));
    *ret = (struct piece){rest->p, newline ? newline : rest->end};
    rest->p = newline ? newline + 1 : rest->end;
    return true;
}

/* All of it a number, at most YAPPI_COUNT_MAX. */
static inline bool piece_number(struct piece s, int64_t *ret)
{
    int64_t n = 0;

    if (s.p == s.end)
        return false;
    for (; s.p < s.end; s.p++) {
        if (!piece_is_digit(*s.p) || n > YAPPI_COUNT_MAX / 10)
            return false;
        n = n * 10 + (*s.p - '0');
    }
    *ret = n;
    return true;
}

/* Takes the sign off; true where it is a minus. */
static inline bool piece_take_minus(struct piece *s)
{
    bool minus = s->p < s->end && *s->p == '-';
    s->p += minus;
    return minus;
}
