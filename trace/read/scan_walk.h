/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Skips objects and arrays, 64 bytes at a time: a part of scan_core.h. Nothing recurses, however deep the
 * text is nested; brackets and braces are counted alike.
 */
#pragma once

#include "base/hash_table.h"
#include "trace/read/find.h"
#include "trace/read/number.h"
#include "trace/read/scan_state.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Finds the bytes that are escaped by a preceding backslash, in the same way as simdjson. */
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

/* Sets the bits from each quote to the byte before the next. */
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

/* Minimum depth within the block. */
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

/* Returns the offset in the block after the outermost end, 0 if the end is not in the block. */
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

/*
 * Strings, values of any kind and the members of objects: a part of scan_core.h.
 *
 * Every function that takes text from p returns the position after it, or NULL with s->cut set or cleared:
 * text that reaches the end of the piece is cut off.
 */

#define _hot_ static inline __attribute__((always_inline))

_Static_assert(NUMBER_AHEAD <= SCAN_PAD, "a number may be looked at up to the end of a piece");

static const char *cut(struct scanner *s)
{
    s->cut = true;
    return NULL;
}

static const char *broken(struct scanner *s)
{
    s->cut = false;
    return NULL;
}

static inline bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline const char *skip_space(const char *p, const char *end)
{
    while (p < end && is_space(*p))
        p++;
    return p;
}

_hot_ bool is_expected(const struct expected *e, const char *p)
{
    return (find_differences(p, e->text) & e->mask) == 0 &&
           (likely(e->size <= 32) || (find_differences(p + 32, e->text + 32) & e->mask_behind) == 0);
}

/* The value of a member may follow more space than expected. */
_hot_ bool is_more_space(char c)
{
    return (uint8_t)c <= ' ';
}

/* Strings. */

/* Returns the closing quote of the string whose text begins at p, NULL if it is not there; *ret_plain is
 * false if the text must be cleaned. */
_hot_ const char *string_end(struct scanner *s, const char *p, const char *end, bool *ret_plain)
{
    *ret_plain = true;
    while (p < end) {
        uint64_t special = find_special(p) | (uint64_t)find_special(p + 32) << 32;
        if (special == 0) {
            p += 64;
            continue;
        }
        p += __builtin_ctzll(special);
        if (p >= end)
            break;
        if (likely(*p == '"'))
            return p;
        *ret_plain = false;
        p += *p == '\\' ? 2 : 1;
    }
    return cut(s);
}

/* Returns the cache entry of a text of at least one byte. Its ends and its middle distinguish texts well
 * enough: texts that share an entry only cost time. */
_hot_ struct cached_text *text_place(struct scanner *s, const char *p, size_t size)
{
    const char *end = p + size;
    uint64_t first = load_word(p), last, middle = 0;

    if (size < 8) {
        last = first << (64 - 8 * size);
        first = 0;
    } else {
        last = load_word(end - 8);
        middle = load_word(p + size / 2 - 4);
    }
    if (size >= 16)
        middle += load_word(end - 16) * HASH_MIX;
    return &s->texts[hash_words(first ^ middle << 7, last + size) & (CACHE_TEXTS - 1)];
}

_hot_ uint32_t intern(struct scanner *s, const char *p, size_t size)
{
    if (size == 0)
        return 0;
    struct cached_text *c = text_place(s, p, size);
    if (likely(c->size == size && find_equal(c->text, p, size)))
        return c->number;
    return scan_intern(s, p, size, c);
}

/* Takes the string at the quote p. */
_hot_ const char *take_string(struct scanner *s, const char *p, const char *end, uint32_t *ret)
{
    bool plain;
    const char *quote = string_end(s, p + 1, end, &plain);

    if (unlikely(!quote))
        return NULL;
    size_t size = (size_t)(quote - p) - 1;
    *ret = likely(plain) ? intern(s, p + 1, size) : scan_intern_unescaped(s, p + 1, size);
    return quote + 1;
}

/* Values. */

static const char *skip_scalar(const char *p, const char *end)
{
    while (p < end && !number_ends(*p) && *p != '"' && *p != '{' && *p != '[' && *p != ':')
        p++;
    return p;
}

/* Brackets and braces are counted alike: checks that the outermost ones are a pair. */
static inline bool is_pair(char open, char close)
{
    return (open == '{') == (close == '}');
}

/* Takes any value in its written form. */
static const char *take_raw(struct scanner *s, const char *p, const char *end, struct raw *ret)
{
    const char *behind;
    bool plain;

    if (p >= end)
        return cut(s);
    if (*p == '{' || *p == '[') {
        struct nest n = {0};
        behind = skip_nested(&n, p, end);
        if (n.too_deep)
            s->found.flaws |= 1u << DEFECT_too_deep;
        if (behind && !is_pair(*p, behind[-1]))
            return broken(s);
    } else if (*p == '"') {
        behind = string_end(s, p + 1, end, &plain);
        behind = behind ? behind + 1 : NULL;
    } else {
        behind = skip_scalar(p, end);
        if (behind == p)
            return broken(s);
    }
    if (!behind || behind >= end)
        return cut(s);
    *ret = (struct raw){p, behind};
    return behind;
}

/* The same for a value that is not used. */
static const char *skip_value(struct scanner *s, const char *p, const char *end)
{
    int64_t number;
    struct raw value;
    const char *behind = number_int(p, &number);

    if (behind)
        return behind;
    behind = take_raw(s, p, end, &value);
    if (behind && *p != '"' && *p != '{' && *p != '[')
        scan_value_check(s, value);
    return behind;
}

/* Objects. */

/* Skips the text between two members in any form; KEY_FAULT if it is cut off or broken. */
static unsigned find_member(struct scanner *s, const char **at, const char *end, bool first,
                            const struct keys *keys, struct expectations *e, unsigned *ret_walk)
{
    const char *p = skip_space(*at, end), *quote;
    unsigned key;
    bool comma = p < end && *p == ',', sound = true;

    if (comma)
        p = skip_space(p + 1, end);
    if (p >= end)
        return cut(s), KEY_FAULT;
    if (*p == '}') {
        key = KEY_END;
        p++;
    } else {
        if (*p != '"' || (!comma && !first))
            return broken(s), KEY_FAULT;
        quote = string_end(s, p + 1, end, &sound);
        if (!quote)
            return cut(s), KEY_FAULT;
        if (unlikely(!sound))
            sound = scan_check_text(s, p + 1, (size_t)(quote - p) - 1);
        key = keys_find(keys, p + 1, (size_t)(quote - p) - 1);
        *ret_walk =
            key < KEYS_MAX ? key : KEYS_MAX + (unsigned)hash_padded(p, (size_t)(quote - p)) % WALK_OTHERS;
        p = skip_space(quote + 1, end);
        if (p < end && *p != ':')
            return broken(s), KEY_FAULT;
        if (p < end)
            p = skip_space(p + 1, end);
        if (p == end)
            return cut(s), KEY_FAULT;
    }
    /* A key with flaws is not remembered, because its flaws are counted at each occurrence. */
    if (sound && p - *at <= EXPECTED_MAX) {
        e->second = e->first;
        expect(&e->first, *at, p, key, *ret_walk);
    }
    *at = p;
    return key;
}

/* Takes the next member's key and moves *at to its value; KEY_END with *at after the object. The expected
 * text is compared only if it cannot reach the end of the text. */
_hot_ unsigned next_member(struct scanner *s, const char **at, const char *end, const struct keys *keys,
                           struct expectations *walks, unsigned *walk)
{
    struct expectations *e = &walks[*walk];
    const struct expected *x = &e->first;

    if (unlikely(end - *at <= EXPECTED_MAX))
        return find_member(s, at, end, *walk == WALK_BEGIN, keys, e, walk);
    if (unlikely(!is_expected(x, *at)))
        x = &e->second;
    if (unlikely((x == &e->second && !is_expected(x, *at)) ||
                 (x->key != KEY_END && is_more_space((*at)[x->size]))))
        return find_member(s, at, end, *walk == WALK_BEGIN, keys, e, walk);
    *at += x->size;
    *walk = x->walk;
    return x->key;
}
