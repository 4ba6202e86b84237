/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of an event, by its class, into the cells of its rows: a part of scan_core.h.
 */
#pragma once

#include "trace/read/scan_walk.h"

static void touch(struct found *f, struct arg_target to, int64_t value)
{
    f->cells[to.cell] = value;
    f->touched |= UINT64_C(1) << to.cell;
}

_hot_ const char *take_int(struct scanner *s, const char *p, const char *end, struct arg_target to)
{
    int64_t value;
    struct raw raw;
    const char *behind = number_int(p, &value);

    if (likely(behind)) {
        touch(&s->found, to, value);
        return behind;
    }
    behind = take_raw(s, p, end, &raw);
    if (behind && scan_value_number(s, raw, 0, &value))
        touch(&s->found, to, value);
    return behind;
}

/* The elements of an array that have a column. */
static const char *take_ints(struct scanner *s, const char *p, const char *end, const struct arg_target *to,
                             unsigned n)
{
    if (*p != '[')
        return skip_value(s, p, end);
    p = skip_space(p + 1, end);
    for (int i = 0; p < end && *p != ']'; i++) {
        const struct arg_target *t = NULL;
        for (unsigned k = 0; k < n; k++)
            if (to[k].array == i)
                t = &to[k];
        p = t ? take_int(s, p, end, *t) : skip_value(s, p, end);
        if (!p)
            return NULL;
        p = skip_space(p, end);
        if (p < end && *p != ',' && *p != ']')
            return broken(s);
        if (p < end && *p == ',')
            p = skip_space(p + 1, end);
    }
    return p < end ? p + 1 : cut(s);
}

static const char *take_json(struct scanner *s, const char *p, const char *end, struct arg_target to)
{
    struct nest n = {0};
    const char *behind = skip_nested(&n, p, end);

    if (!behind)
        return cut(s);
    if (unlikely(!is_pair(*p, behind[-1])))
        return broken(s);
    if (unlikely(n.too_deep)) {
        s->found.flaws |= 1u << DEFECT_too_deep;
        return behind;
    }
    size_t size = (size_t)(behind - p);
    touch(&s->found, to, n.high ? scan_intern_repaired(s, p, size) : intern(s, p, size));
    return behind;
}

/* Neither a string nor nested. */
static const char *take_word(struct scanner *s, const char *p, const char *end, enum arg_take take,
                             struct arg_target to)
{
    struct raw raw;
    const char *behind = take_raw(s, p, end, &raw);

    if (!behind)
        return NULL;
    if (take == TAKE_REAL ? number_plain(p) == behind || scan_value_real(s, raw) : *p != 'n')
        touch(&s->found, to, intern(s, p, (size_t)(behind - p)));
    return behind;
}

static const char *take_text(struct scanner *s, const char *p, const char *end, enum arg_take take,
                             struct arg_target to)
{
    uint32_t number;

    if (*p == '"') {
        const char *behind = take_string(s, p, end, &number);
        if (behind && (take != TAKE_REAL || scan_value_real(s, (struct raw){p, behind})))
            touch(&s->found, to, number);
        return behind;
    }
    if (*p == '[' || *p == '{')
        return take == TAKE_REAL ? skip_value(s, p, end) : take_json(s, p, end, to);
    return take_word(s, p, end, take, to);
}

static const char *take_args(struct scanner *s, const char *p, const char *end, unsigned class)
{
    const struct arg_class *c = &s->classes[class];
    struct found *f = &s->found;
    const char *begin = p++;
    unsigned walk = WALK_BEGIN;
    uint64_t seen = 0;

    f->touched = 0;
    f->has_args = false;
    while (p) {
        unsigned key = next_member(s, &p, end, &c->keys, s->args_expected[class], &walk);
        if (unlikely(key >= KEY_END))
            return key == KEY_END ? p : NULL;
        f->has_args = true;
        if (key == KEY_OTHER) {
            p = skip_value(s, p, end);
            continue;
        }
        if (unlikely(seen >> key & 1))
            f->flaws |= 1u << DEFECT_duplicate_key;
        seen |= UINT64_C(1) << key;
        const struct arg_target *to = c->arg[key].to;
        switch (c->arg[key].take) {
        case TAKE_INT:
            p = take_int(s, p, end, *to);
            break;
        case TAKE_INTS:
            p = take_ints(s, p, end, to, c->arg[key].n);
            break;
        case TAKE_CLASS:
            f->class = to->cell;
            return take_args(s, begin, end, f->class);
        default:
            p = take_text(s, p, end, c->arg[key].take, *to);
        }
    }
    return NULL;
}
