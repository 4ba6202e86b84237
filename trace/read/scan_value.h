/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of JSON and the keys before them: a part of scan_core.c.
 *
 * Every function that takes text from p returns the position after it, or NULL with s->cut set or cleared.
 */
#pragma once

#include "trace/read/json_text.h"
#include "trace/read/number.h"
#include "trace/read/scan_nested.h"
#include "trace/read/scan_string.h"

_Static_assert(NUMBER_AHEAD <= SCAN_PAD, "a number may be looked at up to the end of a piece");

static const char *value_skip_scalar(const char *p, const char *end)
{
    while (p < end && !number_ends(*p) && *p != '"' && *p != '{' && *p != '[' && *p != ':')
        p++;
    return p;
}

/* Brackets and braces are counted alike: checks that the outermost ones are a pair. */
static inline bool value_is_pair(char open, char close)
{
    return (open == '{') == (close == '}');
}

/* Takes any value in its written form. */
static const char *value_take(struct scanner *s, const char *p, const char *end, struct slice *ret)
{
    const char *after;
    bool plain;

    if (p >= end)
        return scan_cut_off(s);
    if (*p == '{' || *p == '[') {
        struct json_nest n = {0};
        after = nested_skip(&n, p, end);
        if (n.too_deep)
            s->event.flaws |= 1u << DEFECT_too_deep;
        if (after && !value_is_pair(*p, after[-1]))
            return scan_broken(s);
    } else if (*p == '"') {
        after = string_end(s, p + 1, end, &plain);
        after = after ? after + 1 : NULL;
    } else {
        after = value_skip_scalar(p, end);
        if (after == p)
            return scan_broken(s);
    }
    if (!after || after >= end)
        return scan_cut_off(s);
    *ret = (struct slice){p, after};
    return after;
}

/* The same for a value that is not used. */
static const char *value_skip(struct scanner *s, const char *p, const char *end)
{
    int64_t number;
    struct slice value;
    const char *after = number_int(p, &number);

    if (after)
        return after;
    after = value_take(s, p, end, &value);
    if (after && *p != '"' && *p != '{' && *p != '[')
        scan_value_is_number(s, value);
    return after;
}

/* Takes the text between two members in any form, and the next key; KEY_END with *at after the object, KEY_FAULT if
 * the text is cut off or broken. */
static unsigned member_next(struct scanner *s, const char **at, const char *end, bool first,
                            const struct key_table *keys)
{
    const char *p = json_skip_space(*at, end), *quote;
    unsigned key;
    bool comma = p < end && *p == ',', plain;

    if (comma)
        p = json_skip_space(p + 1, end);
    if (p >= end)
        return scan_cut_off(s), KEY_FAULT;
    if (*p == '}') {
        *at = p + 1;
        return KEY_END;
    }
    if (*p != '"' || (!comma && !first))
        return scan_broken(s), KEY_FAULT;
    quote = string_end(s, p + 1, end, &plain);
    if (!quote)
        return scan_cut_off(s), KEY_FAULT;
    if (unlikely(!plain))
        scan_check_text(s, (struct slice){p + 1, quote});
    key = keys_find(keys, p + 1, (size_t)(quote - p) - 1);
    p = json_skip_space(quote + 1, end);
    if (p < end && *p != ':')
        return scan_broken(s), KEY_FAULT;
    if (p < end)
        p = json_skip_space(p + 1, end);
    if (p == end)
        return scan_cut_off(s), KEY_FAULT;
    *at = p;
    return key;
}
