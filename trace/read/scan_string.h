/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the end of a string and interns its text through a cache: a part of scan_core.c.
 *
 * Every function that takes text from p returns the position after it, or NULL with s->cut set or cleared:
 * text that reaches the end of the piece is cut off.
 */
#pragma once

#include "base/hash_table.h"
#include "trace/read/find.h"
#include "trace/read/scan_state.h"

static const char *scan_cut_off(struct scanner *s)
{
    s->cut = true;
    return NULL;
}

static const char *scan_broken(struct scanner *s)
{
    s->cut = false;
    return NULL;
}

/* Returns the closing quote of the string whose text begins at p, NULL if it is not there; *ret_plain is
 * false if the text must be cleaned. */
_hot_ const char *string_end(struct scanner *s, const char *p, const char *end, bool *ret_plain)
{
    *ret_plain = true;
    while (p < end) {
        uint64_t special = find_special(p);
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
    return scan_cut_off(s);
}

/* Returns the cache entry of a text of at least one byte. Its ends and its middle distinguish texts well
 * enough: texts that share an entry only cost time. */
_hot_ struct cached_text *string_cache_slot(struct scanner *s, const char *p, size_t size)
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

_hot_ uint32_t string_intern(struct scanner *s, const char *p, size_t size)
{
    if (size == 0)
        return 0;
    struct cached_text *c = string_cache_slot(s, p, size);
    if (likely(c->size == size && find_equal(c->text, p, size)))
        return c->number;
    return scan_intern(s, p, size, c);
}

/* Takes the string at the quote p. */
_hot_ const char *string_take(struct scanner *s, const char *p, const char *end, uint32_t *ret)
{
    bool plain;
    const char *quote = string_end(s, p + 1, end, &plain);

    if (unlikely(!quote))
        return NULL;
    size_t size = (size_t)(quote - p) - 1;
    *ret = likely(plain) ? string_intern(s, p + 1, size)
                         : scan_intern_cleaned(s, (struct slice){p + 1, quote}, true);
    return quote + 1;
}
