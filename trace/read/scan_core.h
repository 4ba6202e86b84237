/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk through events, written once and compiled for each kind of processor: a file that includes this
 * header has selected its primitives (find.h) and defines SCAN_OPS, the name of its exported table.
 *
 * Every function that takes text from p returns the position after it, or NULL with s->cut set or cleared.
 * An event that reaches the end of the text is left for the next piece, and read again.
 */
#pragma once

#include "trace/read/scan_args.h"

/* A string of one letter, or the first of a longer one; '\0' for anything else. */
_hot_ const char *take_letter(struct scanner *s, const char *p, const char *end, char *ret)
{
    struct raw raw;

    *ret = '\0';
    if (likely(p[0] == '"' && p[1] != '"' && p[1] != '\\' && (int8_t)p[1] >= ' ' && p[2] == '"')) {
        *ret = p[1];
        return p + 3;
    }
    const char *behind = take_raw(s, p, end, &raw);
    if (behind && p[0] == '"' && behind - p > 2) {
        *ret = p[1];
        scan_check_text(s, p + 1, (size_t)(behind - p) - 2);
    }
    return behind;
}

/* A name or category that is not a string is ignored. */
_hot_ const char *take_name(struct scanner *s, const char *p, const char *end, uint32_t *ret)
{
    if (likely(*p == '"'))
        return take_string(s, p, end, ret);
    *ret = 0;
    return skip_value(s, p, end);
}

_hot_ const char *take_time(struct scanner *s, const char *p, const char *end, enum member member,
                            int64_t *ret)
{
    struct raw raw;
    const char *behind = number_ns(p, ret);

    if (likely(behind))
        return behind;
    behind = take_raw(s, p, end, &raw);
    if (behind && !scan_value_number(s, raw, 3, ret))
        s->found.seen &= ~(1u << member);
    return behind;
}

_hot_ const char *take_id(struct scanner *s, const char *p, const char *end, int64_t *ret, uint32_t *ret_text)
{
    struct raw raw;
    const char *behind = number_int(p, ret);

    *ret_text = 0;
    if (likely(behind))
        return behind;
    *ret = 0;
    if (*p == '"')
        return take_string(s, p, end, ret_text);
    behind = take_raw(s, p, end, &raw);
    if (behind)
        scan_value_number(s, raw, 0, ret);
    return behind;
}

/* An id is repeated after the ids that were taken from the cache: replaces the cached thread by its ids. */
static void forget_thread(struct scanner *s)
{
    struct found *f = &s->found;

    if (unlikely(f->thread)) {
        const struct thread_entry *t = &s->intake->threads[f->thread - 1];
        f->tid = t->tid;
        f->tid_text = t->tid_text;
        f->pid = s->intake->processes[t->process].pid;
        f->pid_text = s->intake->processes[t->process].pid_text;
    }
    f->thread = 0;
    f->thread_text.p = NULL;
}

static const char *take_event_id(struct scanner *s, const char *p, const char *end)
{
    struct found *f = &s->found;
    const char *behind = number_int(p, &f->id_number);

    f->id = (struct raw){0};
    return behind ? behind : take_raw(s, p, end, &f->id);
}

static const char *take_flag(struct scanner *s, const char *p, const char *end, bool *ret)
{
    *ret = *p == 't';
    return skip_value(s, p, end);
}

/* Returns the class of arguments of an event, as far as it has been read; CLASS_COUNT: not yet known, or
 * the arguments are not read here. */
static inline unsigned class_of(const struct found *f)
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

_hot_ const char *take_event_args(struct scanner *s, const char *p, const char *end)
{
    struct found *f = &s->found;
    unsigned class = class_of(f);

    f->args = (struct raw){0};
    f->has_args = false;
    f->touched = 0;
    if (unlikely(*p != '{'))
        return skip_value(s, p, end);
    if (likely(class < CLASS_COUNT))
        return take_args(s, p, end, class);
    return take_raw(s, p, end, &f->args);
}

static const char *take_other_category(struct scanner *s, const char *p, const char *end,
                                       struct cached_category *c)
{
    struct found *f = &s->found;
    uint32_t string, flaws = f->flaws;

    f->flaws = 0;
    const char *behind = take_name(s, p, end, &string);
    if (!behind)
        return NULL;
    scan_set_category(s, string);
    /* A name with flaws is not cached, because its flaws are counted at each occurrence. */
    if (*p == '"' && behind - p <= EXPECTED_MAX && f->flaws == 0) {
        expect(&c->text, p, behind, 0, 0);
        c->category = f->category;
        c->class = f->class;
    }
    f->flaws |= flaws;
    return behind;
}

_hot_ const char *take_category(struct scanner *s, const char *p, const char *end)
{
    struct cached_category *c = &s->categories[load_word(p) * HASH_MULTIPLY >> 32 & (CACHE_CATEGORIES - 1)];

    if (unlikely(end - p <= EXPECTED_MAX || !is_expected(&c->text, p)))
        return take_other_category(s, p, end, c);
    s->found.category = c->category;
    s->found.class = c->class;
    return p + c->text.size;
}

_hot_ const char *take_member(struct scanner *s, const char *p, const char *end, unsigned member)
{
    struct found *f = &s->found;

    switch (member) {
    case MEMBER_PH:
        return take_letter(s, p, end, &f->phase);
    case MEMBER_CAT:
        return take_category(s, p, end);
    case MEMBER_NAME:
        return take_name(s, p, end, &f->name);
    case MEMBER_PID:
        forget_thread(s);
        return take_id(s, p, end, &f->pid, &f->pid_text);
    case MEMBER_TID:
        forget_thread(s);
        return take_id(s, p, end, &f->tid, &f->tid_text);
    case MEMBER_TS:
        return take_time(s, p, end, MEMBER_TS, &f->ts);
    case MEMBER_DUR:
        return take_time(s, p, end, MEMBER_DUR, &f->dur);
    case MEMBER_ARGS:
        return take_event_args(s, p, end);
    case MEMBER_ID:
        return take_event_id(s, p, end);
    case MEMBER_ID2:
        return take_raw(s, p, end, &f->id2);
    case MEMBER_SCOPE:
        return take_letter(s, p, end, &f->scope);
    case MEMBER_BIND_POINT:
        return take_letter(s, p, end, &f->bind_point);
    case MEMBER_BIND_ID:
        return take_raw(s, p, end, &f->bind_id);
    case MEMBER_FLOW_IN:
        return take_flag(s, p, end, &f->flow_in);
    case MEMBER_FLOW_OUT:
        return take_flag(s, p, end, &f->flow_out);
    default:
        return skip_value(s, p, end);
    }
}

/* Takes the arguments that precede the key that determines their class. */
static bool take_early_args(struct scanner *s)
{
    struct found *f = &s->found;

    if (!(f->seen & 1u << MEMBER_CAT)) {
        f->category = CATEGORY_NONE;
        f->class = CLASS_UNLISTED;
        f->seen |= 1u << MEMBER_CAT;
    }
    unsigned class = class_of(f);
    return class == CLASS_COUNT || take_args(s, f->args.p, f->args.end, class) || broken(s);
}

/* Members in Kineto's order. */

_hot_ bool follows(const struct scanner *s, const char **at, const char *end, enum member from,
                   enum member to)
{
    const struct expected *e = &s->members_expected[1][from].first;

    if (unlikely(end - *at <= EXPECTED_MAX || e->key != to || !is_expected(e, *at) ||
                 is_more_space((*at)[e->size])))
        return false;
    *at += e->size;
    return true;
}

/* From the value of "pid" to that of "ts", where the thread is that of the last event of the category. */
_hot_ bool same_thread(struct scanner *s, const char **at, const char *end)
{
    const struct cached_lane *lane = &s->lanes[s->found.category % CACHE_LANES];

    if (end - *at <= EXPECTED_MAX || lane->thread == 0 || !is_expected(&lane->text, *at) ||
        is_more_space((*at)[lane->text.size]))
        return false;
    *at += lane->text.size;
    s->found.thread = lane->thread;
    return true;
}

/*
 * Takes the members of a complete event after its "ph" while they have Kineto's order. *walk is the last
 * one taken.
 */
_hot_ const char *take_usual(struct scanner *s, const char *p, const char *end, unsigned *walk)
{
    struct found *f = &s->found;
    const char *pid;

    if (!follows(s, &p, end, MEMBER_PH, MEMBER_CAT))
        return p;
    *walk = MEMBER_CAT;
    f->seen |= 1u << MEMBER_CAT;
    p = take_category(s, p, end);
    if (unlikely(!p) || !follows(s, &p, end, MEMBER_CAT, MEMBER_NAME))
        return p;
    *walk = MEMBER_NAME;
    f->seen |= 1u << MEMBER_NAME;
    p = take_name(s, p, end, &f->name);
    if (unlikely(!p) || !follows(s, &p, end, MEMBER_NAME, MEMBER_PID))
        return p;
    pid = p;
    if (!same_thread(s, &p, end)) {
        *walk = MEMBER_PID;
        f->seen |= 1u << MEMBER_PID;
        p = take_id(s, p, end, &f->pid, &f->pid_text);
        if (unlikely(!p) || !follows(s, &p, end, MEMBER_PID, MEMBER_TID))
            return p;
        *walk = MEMBER_TID;
        f->seen |= 1u << MEMBER_TID;
        p = take_id(s, p, end, &f->tid, &f->tid_text);
        if (unlikely(!p) || !follows(s, &p, end, MEMBER_TID, MEMBER_TS))
            return p;
        f->thread_text = (struct raw){pid, p};
    }
    *walk = MEMBER_TS;
    f->seen |= 1u << MEMBER_PID | 1u << MEMBER_TID | 1u << MEMBER_TS;
    p = take_time(s, p, end, MEMBER_TS, &f->ts);
    if (unlikely(!p) || !follows(s, &p, end, MEMBER_TS, MEMBER_DUR))
        return p;
    *walk = MEMBER_DUR;
    f->seen |= 1u << MEMBER_DUR;
    p = take_time(s, p, end, MEMBER_DUR, &f->dur);
    if (unlikely(!p) || !follows(s, &p, end, MEMBER_DUR, MEMBER_ARGS))
        return p;
    *walk = MEMBER_ARGS;
    f->seen |= 1u << MEMBER_ARGS;
    return take_event_args(s, p, end);
}

/* Takes the event at the brace p. */
static const char *take_event(struct scanner *s, const char *p, const char *end)
{
    struct found *f = &s->found;
    const char *begin = p++;
    unsigned walk = WALK_BEGIN;
    bool empty = true;

    f->seen = 0;
    f->flaws = 0;
    f->phase = '\0';
    f->args.p = NULL;
    f->thread = 0;
    f->thread_text.p = NULL;
    for (;;) {
        unsigned member = next_member(s, &p, end, &s->members, s->members_expected[f->phase == 'X'], &walk);
        if (member >= KEY_END) {
            if (member == KEY_FAULT)
                return NULL;
            break;
        }
        empty = false;
        if (member < _MEMBER_MAX) {
            if (unlikely(f->seen >> member & 1))
                f->flaws |= 1u << DEFECT_duplicate_key;
            f->seen |= 1u << member;
        }
        p = take_member(s, p, end, member);
        if (unlikely(!p))
            return NULL;
        if (member == MEMBER_PH && f->phase == 'X' && f->seen == 1u << MEMBER_PH) {
            p = take_usual(s, p, end, &walk);
            if (unlikely(!p))
                return NULL;
        }
    }
    if (unlikely(f->args.p && !take_early_args(s)))
        return NULL;
    if (likely(!empty))
        scan_commit(s, begin);
    return p;
}

static void drop_event(struct scanner *s, const char *p, enum defect_kind kind, enum skipping skipping)
{
    intake_defect(s->intake, kind, scan_offset(s, p));
    s->skipping = skipping;
    s->behind_skip = SCAN_EVENTS;
    s->nest = (struct nest){0};
}

static const char *take_events(struct scanner *s, const char *p, const char *end)
{
    while (s->intake->error == 0) {
        const char *begin = p, *behind;
        if (likely(p < end && is_expected(&s->between, p) && p + s->between.size <= end)) {
            p += s->between.size - 1;
        } else {
            while (p < end && (is_space(*p) || *p == ','))
                p++;
            if (p == end)
                return p;
            if (*p == ']') {
                s->state = s->bare ? SCAN_AFTER : SCAN_OUTSIDE;
                return p + 1;
            }
            if (*p != '{') {
                drop_event(s, p, DEFECT_unreadable_event, SKIP_TO_EVENT);
                return p;
            }
            if (p - begin < EXPECTED_MAX)
                expect(&s->between, begin, p + 1, 0, 0);
        }
        behind = take_event(s, p, end);
        if (likely(behind)) {
            p = behind;
            continue;
        }
        if (!s->cut) {
            drop_event(s, p, DEFECT_unreadable_event, SKIP_TO_EVENT);
            return p;
        }
        if (end - p >= SCAN_ITEM_MAX)
            drop_event(s, p, DEFECT_too_large_event, SKIP_NESTED);
        return p;
    }
    return end;
}

const struct scan_ops SCAN_OPS = {take_events, skip_nested};
