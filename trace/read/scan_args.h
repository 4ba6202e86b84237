/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of an event, by its class, into the cells of its rows: a part of scan_core.c. */
#pragma once

#include "trace/read/scan_value.h"

static void args_set(struct scanned_event *f, struct arg_target to, int64_t value)
{
    f->cells[to.cell] = value;
    f->touched |= UINT64_C(1) << to.cell;
}

_hot_ const char *args_take_int(struct scanner *s, const char *p, const char *end, struct arg_target to)
{
    int64_t value;
    struct slice raw;
    const char *after = number_int(p, &value);

    if (likely(after)) {
        args_set(&s->event, to, value);
        return after;
    }
    after = value_take(s, p, end, &raw);
    if (after && scan_value_number(s, raw, 0, &value))
        args_set(&s->event, to, value);
    return after;
}

/* The elements of an array that have a column. */
static const char *args_take_ints(struct scanner *s, const char *p, const char *end,
                                  const struct arg_target *to, unsigned n)
{
    if (*p != '[')
        return value_skip(s, p, end);
    p = json_skip_space(p + 1, end);
    for (int i = 0; p < end && *p != ']'; i++) {
        const struct arg_target *t = NULL;
        for (unsigned k = 0; k < n; k++)
            if (to[k].array == i)
                t = &to[k];
        p = t ? args_take_int(s, p, end, *t) : value_skip(s, p, end);
        if (!p)
            return NULL;
        p = json_skip_space(p, end);
        if (p < end && *p != ',' && *p != ']')
            return scan_broken(s);
        if (p < end && *p == ',')
            p = json_skip_space(p + 1, end);
    }
    return p < end ? p + 1 : scan_cut_off(s);
}

static const char *args_take_json(struct scanner *s, const char *p, const char *end, struct arg_target to)
{
    struct json_nest n = {0};
    const char *after = nested_skip(&n, p, end);

    if (!after)
        return scan_cut_off(s);
    if (unlikely(!value_is_pair(*p, after[-1])))
        return scan_broken(s);
    if (unlikely(n.too_deep)) {
        s->event.flaws |= 1u << DEFECT_too_deep;
        return after;
    }
    size_t size = (size_t)(after - p);
    args_set(&s->event, to,
             n.high ? scan_intern_cleaned(s, (struct slice){p, after}, false) : string_intern(s, p, size));
    return after;
}

/* Neither a string nor nested. */
static const char *args_take_word(struct scanner *s, const char *p, const char *end, enum arg_take take,
                                  struct arg_target to)
{
    struct slice raw;
    const char *after = value_take(s, p, end, &raw);

    if (!after)
        return NULL;
    if (take == TAKE_REAL ? number_plain(p) == after || scan_value_is_number(s, raw) : *p != 'n')
        args_set(&s->event, to, string_intern(s, p, (size_t)(after - p)));
    return after;
}

static const char *args_take_text(struct scanner *s, const char *p, const char *end, enum arg_take take,
                                  struct arg_target to)
{
    uint32_t number;

    if (*p == '"') {
        const char *after = string_take(s, p, end, &number);
        if (after && (take != TAKE_REAL || scan_value_is_number(s, (struct slice){p, after})))
            args_set(&s->event, to, number);
        return after;
    }
    if (*p == '[' || *p == '{')
        return take == TAKE_REAL ? value_skip(s, p, end) : args_take_json(s, p, end, to);
    return args_take_word(s, p, end, take, to);
}

/* Takes a value that is used. */
_hot_ const char *args_take_value(struct scanner *s, const char *p, const char *end,
                                  const struct arg_use *arg)
{
    switch (arg->take) {
    case TAKE_INT:
        return args_take_int(s, p, end, arg->to[0]);
    case TAKE_INTS:
        return args_take_ints(s, p, end, arg->to, arg->n);
    default:
        return args_take_text(s, p, end, arg->take, arg->to[0]);
    }
}

static const char *args_take(struct scanner *s, const char *p, const char *end, unsigned class)
{
    const struct arg_class *c = &s->classes[class];
    struct scanned_event *f = &s->event;
    const char *begin = p++, *value;
    uint64_t seen = 0;

    f->touched = 0;
    f->has_args = false;
    while (p) {
        unsigned key = member_next(s, &p, end, !f->has_args, &c->keys);
        if (key >= KEY_END)
            return key == KEY_END ? p : NULL;
        f->has_args = true;
        value = p;
        if (key == KEY_OTHER) {
            p = value_skip(s, p, end);
            shape_draft_add(&s->draft, SHAPE_SKIP, NULL, value, p);
            continue;
        }
        if (seen >> key & 1)
            f->flaws |= 1u << DEFECT_duplicate_key;
        seen |= UINT64_C(1) << key;
        if (c->arg[key].take == TAKE_CLASS) {
            /* Reading the arguments again is no walk along a path. */
            s->draft.usable = false;
            f->class = c->arg[key].to[0].cell;
            return args_take(s, begin, end, f->class);
        }
        p = args_take_value(s, p, end, &c->arg[key]);
        shape_draft_add(&s->draft, SHAPE_ARG, &c->arg[key], value, p);
    }
    return NULL;
}
