/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Skips objects and arrays, 64 bytes at a time: a part of scan_core.c. Nothing recurses, however deep the
 * text is nested; brackets and braces are counted alike.
 */
#pragma once

#include "trace/read/find.h"
#include "trace/read/scan_state.h"

/* Finds the bytes that are escaped by a preceding backslash, in the same way as simdjson. */
static inline uint64_t nested_find_escaped(uint64_t backslash, uint64_t *carry)
{
    const uint64_t even = UINT64_C(0x5555555555555555);
    uint64_t after_backslash, odd_starts, even_series;

    backslash &= ~*carry;
    after_backslash = backslash << 1 | *carry;
    odd_starts = backslash & ~even & ~after_backslash;
    *carry = __builtin_add_overflow(odd_starts, backslash, &even_series);
    return (even ^ even_series << 1) & after_backslash;
}

/* Sets the bits from each quote to the byte before the next. */
static inline uint64_t nested_find_strings(uint64_t quote)
{
    for (int shift = 1; shift < 64; shift *= 2)
        quote ^= quote << shift;
    return quote;
}

static inline unsigned nested_count_bits(uint64_t bits)
{
    return (unsigned)__builtin_popcountll(bits);
}

/* Minimum depth within the block. */
static unsigned nested_deepest(const struct json_nest *n, uint64_t open, uint64_t close)
{
    unsigned deepest = 0;

    for (uint64_t rest = open; rest; rest &= rest - 1) {
        uint64_t before = (rest & -rest) - 1;
        unsigned depth = n->depth + nested_count_bits(open & before) + 1 - nested_count_bits(close & before);
        deepest = MAX(deepest, depth);
    }
    return deepest;
}

/* Returns the offset in the block after the outermost end, 0 if the end is not in the block. */
static inline unsigned nested_count(struct json_nest *n, uint64_t open, uint64_t close)
{
    unsigned at = 0;

    if (nested_count_bits(close) >= n->depth) {
        for (uint64_t rest = close; rest && !at; rest &= rest - 1) {
            uint64_t before = (rest & -rest) - 1;
            if (n->depth + nested_count_bits(open & before) - nested_count_bits(close & before) == 1) {
                at = (unsigned)__builtin_ctzll(rest) + 1;
                open &= before;
            }
        }
    }
    if (unlikely(n->depth + nested_count_bits(open) > SCAN_DEPTH_MAX) &&
        nested_deepest(n, open, close) > SCAN_DEPTH_MAX)
        n->too_deep = true;
    n->depth += nested_count_bits(open) - nested_count_bits(close);
    return at;
}

static const char *nested_tail(struct json_nest *n, const char *p, const char *end)
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

static const char *nested_skip(struct json_nest *n, const char *p, const char *end)
{
    for (; end - p >= 64; p += 64) {
        struct marks m = find_marks(p);
        uint64_t quote = m.quote, strings = n->in_string;
        if (unlikely(m.backslash | n->escaped))
            quote &= ~nested_find_escaped(m.backslash, &n->escaped);
        if (quote) {
            strings ^= nested_find_strings(quote);
            n->in_string = 0 - (strings >> 63);
        }
        n->high |= m.high;
        unsigned at = nested_count(n, m.open & ~strings, m.close & ~strings);
        if (at)
            return p + at;
    }
    return nested_tail(n, p, end);
}
