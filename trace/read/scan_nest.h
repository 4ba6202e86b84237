/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Skipping objects and arrays, 64 bytes at a time: a part of scan_core.h. Nothing recurses, however deep the
 * text is nested; brackets and braces are counted alike.
 */
#pragma once

#include "trace/read/find.h"
#include "trace/read/scan_state.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Which bytes are escaped by a backslash before them, as simdjson finds them. */
static inline uint64_t find_escaped(uint64_t backslash, uint64_t *carry)
{
    const uint64_t even = UINT64_C(0x5555555555555555);
    uint64_t follows, odd_starts, even_series;

    backslash &= ~*carry;
    follows = backslash << 1 | *carry;
    odd_starts = backslash & ~even & ~follows;
    *carry = __builtin_add_overflow(odd_starts, backslash, &even_series);
    return (even ^ even_series << 1) & follows;
}

/* From each quote to the byte before the next. */
static inline uint64_t find_strings(uint64_t quote)
{
    for (int shift = 1; shift < 64; shift *= 2)
        quote ^= quote << shift;
    return quote;
}

static inline unsigned count_bits(uint64_t bits)
{
    return (unsigned)__builtin_popcountll(bits);
}

/* How deep the block goes. */
static unsigned nest_deepest(const struct nest *n, uint64_t open, uint64_t close)
{
    unsigned deepest = 0;

    for (uint64_t rest = open; rest; rest &= rest - 1) {
        uint64_t before = (rest & -rest) - 1;
        unsigned depth = n->depth + count_bits(open & before) + 1 - count_bits(close & before);
        deepest = MAX(deepest, depth);
    }
    return deepest;
}

/* Returns how many bytes into the block the outermost end is, 0 where it is not. */
static inline unsigned nest_count(struct nest *n, uint64_t open, uint64_t close)
{
    unsigned at = 0;

    if (count_bits(close) >= n->depth) {
        for (uint64_t rest = close; rest && !at; rest &= rest - 1) {
            uint64_t before = (rest & -rest) - 1;
            if (n->depth + count_bits(open & before) - count_bits(close & before) == 1) {
                at = (unsigned)__builtin_ctzll(rest) + 1;
                open &= before;
            }
        }
    }
    if (unlikely(n->depth + count_bits(open) > SCAN_DEPTH_MAX) &&
        nest_deepest(n, open, close) > SCAN_DEPTH_MAX)
        n->too_deep = true;
    n->depth += count_bits(open) - count_bits(close);
    return at;
}

static const char *nest_tail(struct nest *n, const char *p, const char *end)
{
    for (; p < end; p++) {
        char folded = (char)(*p | 0x20);
        if (*p == '"' && !n->escaped)
            n->in_string = ~n->in_string;
        n->escaped = *p == '\\' && !n->escaped;
        n->high |= (uint64_t)(*p & 0x80);
        if (n->in_string)
            continue;
        n->depth += folded == '{';
        n->too_deep |= n->depth > SCAN_DEPTH_MAX;
        if (folded == '}' && --n->depth == 0)
            return p + 1;
    }
    return NULL;
}

static const char *skip_nested(struct nest *n, const char *p, const char *end)
{
    for (; end - p >= 64; p += 64) {
        struct marks m = find_marks(p);
        uint64_t quote = m.quote, strings = n->in_string;
        if (unlikely(m.backslash | n->escaped))
            quote &= ~find_escaped(m.backslash, &n->escaped);
        if (quote) {
            strings ^= find_strings(quote);
            n->in_string = 0 - (strings >> 63);
        }
        n->high |= m.high;
        unsigned at = nest_count(n, m.open & ~strings, m.close & ~strings);
        if (at)
            return p + at;
    }
    return nest_tail(n, p, end);
}
