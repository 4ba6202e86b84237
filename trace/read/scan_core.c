/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk through events, compiled once for each kind of processor: meson.build selects the primitives of
 * find.h and defines SCAN_OPS, the name of the exported table.
 *
 * Every function that takes text from p returns the position after it, or NULL with s->cut set or cleared.
 * An event that reaches the end of the text is left for the next piece, and read again.
 */
#include "trace/read/scan_shape.h"

/* A string of one letter, or the first of a longer one; '\0' for anything else. */
static const char *event_take_letter(struct scanner *s, const char *p, const char *end, char *ret)
{
    struct slice raw;

    *ret = '\0';
    if (likely(p[0] == '"' && p[1] != '"' && p[1] != '\\' && (int8_t)p[1] >= ' ' && p[2] == '"')) {
        *ret = p[1];
        return p + 3;
    }
    const char *after = value_take(s, p, end, &raw);
    if (after && p[0] == '"' && after - p > 2) {
        *ret = p[1];
        scan_check_text(s, (struct slice){p + 1, after - 1});
    }
    return after;
}

/* Returns the class of arguments of an event, as far as it has been read; CLASS_COUNT: not yet known, or
 * the arguments are not read here. */
static inline unsigned event_class(const struct scanned_event *f)
{
    if (likely(f->phase == 'X'))
        return f->seen & 1u << MEMBER_CAT ? f->class : CLASS_COUNT;
    switch (scan_phase_use(f->phase)) {
    case USE_EVENT:
        return f->seen & 1u << MEMBER_CAT ? f->class : CLASS_COUNT;
    case USE_NAMES:
        return CLASS_NAMES;
    default:
        return CLASS_COUNT;
    }
}

static const char *event_take_args(struct scanner *s, const char *p, const char *end)
{
    struct scanned_event *f = &s->event;
    unsigned class = event_class(f);

    f->args = (struct slice){0};
    f->has_args = false;
    f->touched = 0;
    if (*p == '{' && class < CLASS_COUNT)
        return args_take(s, p, end, class);
    s->draft.usable = false;
    return *p == '{' ? value_take(s, p, end, &f->args) : value_skip(s, p, end);
}

static const char *event_take_category(struct scanner *s, const char *p, const char *end)
{
    uint32_t string;
    const char *after = event_take_name(s, p, end, &string);

    if (after)
        scan_set_category(s, string);
    return after;
}

/* Takes the arguments that precede the key that determines their class. */
static bool event_take_early_args(struct scanner *s)
{
    struct scanned_event *f = &s->event;

    if (!(f->seen & 1u << MEMBER_CAT)) {
        f->category = CATEGORY_NONE;
        f->class = CLASS_UNLISTED;
        f->seen |= 1u << MEMBER_CAT;
    }
    unsigned class = event_class(f);
    return class == CLASS_COUNT || args_take(s, f->args.p, f->args.end, class) || scan_broken(s);
}

static const char *event_take_member(struct scanner *s, const char *p, const char *end, unsigned member)
{
    struct scanned_event *f = &s->event;
    const char *after;

    switch (member) {
    /* The values of these are part of a shape. */
    case MEMBER_PH:
        return event_take_letter(s, p, end, &f->phase);
    case MEMBER_CAT:
        return event_take_category(s, p, end);
    case MEMBER_SCOPE:
        return event_take_letter(s, p, end, &f->scope);
    case MEMBER_BIND_POINT:
        return event_take_letter(s, p, end, &f->bind_point);
    case MEMBER_ARGS:
        return event_take_args(s, p, end);
    default:
        after = event_take_value(s, p, end, member);
        shape_draft_add(&s->draft, member < _MEMBER_MAX ? member : SHAPE_SKIP, NULL, p, after);
        return after;
    }
}

/* Takes the event at the brace p, key by key. */
static const char *event_take(struct scanner *s, const char *p, const char *end)
{
    struct scanned_event *f = &s->event;
    struct shape_draft *d = &s->draft;
    const char *begin = p++;

    f->seen = 0;
    f->flaws = 0;
    f->phase = '\0';
    f->args.p = NULL;
    f->thread = 0;
    f->thread_text.p = NULL;
    d->usable = true;
    d->n = 0;
    d->members = 0;
    for (bool first = true;; first = false) {
        unsigned member = member_next(s, &p, end, first, &s->members);
        if (member == KEY_FAULT)
            return NULL;
        if (member == KEY_END && first) {
            /* Nothing is counted for an empty object. */
            d->usable = false;
            return p;
        }
        if (member == KEY_END)
            break;
        if (member < _MEMBER_MAX) {
            if (f->seen >> member & 1)
                f->flaws |= 1u << DEFECT_duplicate_key;
            f->seen |= 1u << member;
            d->members |= 1u << member;
        }
        p = event_take_member(s, p, end, member);
        if (!p)
            return NULL;
    }
    if (f->args.p && !event_take_early_args(s))
        return NULL;
    scan_commit(s, begin);
    return p;
}

static void event_drop(struct scanner *s, const char *p, enum defect_kind kind, enum skipping skipping)
{
    intake_defect(s->intake, kind, scan_offset(s, p));
    s->skipping = skipping;
    s->after_skip = SCAN_EVENTS;
    s->nest = (struct json_nest){0};
}

static const char *event_take_all(struct scanner *s, const char *p, const char *end)
{
    while (s->intake->error == 0) {
        const char *begin = p, *after = s->shapeless ? NULL : shape_take_event(s, p, end);
        if (likely(after)) {
            p = after;
            continue;
        }
        while (p < end && (json_is_space(*p) || *p == ','))
            p++;
        if (p == end)
            return p;
        if (*p == ']') {
            s->state = s->bare ? SCAN_AFTER : SCAN_OUTSIDE;
            return p + 1;
        }
        if (*p != '{') {
            event_drop(s, p, DEFECT_unreadable_event, SKIP_TO_EVENT);
            return p;
        }
        after = event_take(s, p, end);
        if (after) {
            shapes_learn(s, begin, p, after);
            p = after;
            continue;
        }
        if (!s->cut) {
            event_drop(s, p, DEFECT_unreadable_event, SKIP_TO_EVENT);
            return p;
        }
        if (end - p >= SCAN_ITEM_MAX)
            event_drop(s, p, DEFECT_too_large_event, SKIP_NESTED);
        return p;
    }
    return end;
}

const struct scan_ops SCAN_OPS = {event_take_all, nested_skip};
