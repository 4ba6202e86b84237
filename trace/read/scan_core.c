/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk through events, compiled once for each kind of processor: meson.build selects the primitives of
 * find.h and defines SCAN_OPS, the name of the exported table.
 *
 * Every function that takes text from p returns the position after it, or NULL with s->cut set or cleared.
 * An event that reaches the end of the text is left for the next piece, and read again.
 */
#include "trace/read/json_text.h"
#include "trace/read/number.h"
#include "trace/read/scan_nested.h"
#include "trace/read/scan_string.h"

_Static_assert(NUMBER_AHEAD <= SCAN_PAD, "a number may be looked at up to the end of a piece");

_hot_ bool expected_matches(const struct expected *e, const char *p)
{
    return (find_differences(p, e->text) & e->mask) == 0 &&
           (likely(e->size <= 32) || (find_differences(p + 32, e->text + 32) & e->mask_after) == 0);
}

/* The value of a member may follow more space than expected. */
_hot_ bool scan_is_more_space(char c)
{
    return (uint8_t)c <= ' ';
}

/* -- Values --------------------------------------------------------------------------------------------- */

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

/* -- Members of objects --------------------------------------------------------------------------------- */

/* Skips the text between two members in any form; KEY_FAULT if it is cut off or broken. */
static unsigned member_find(struct scanner *s, const char **at, const char *end, bool first,
                            const struct key_table *keys, struct expectations *e, unsigned *ret_walk)
{
    const char *p = json_skip_space(*at, end), *quote;
    unsigned key;
    bool comma = p < end && *p == ',', sound = true;

    if (comma)
        p = json_skip_space(p + 1, end);
    if (p >= end)
        return scan_cut_off(s), KEY_FAULT;
    if (*p == '}') {
        key = KEY_END;
        p++;
    } else {
        if (*p != '"' || (!comma && !first))
            return scan_broken(s), KEY_FAULT;
        quote = string_end(s, p + 1, end, &sound);
        if (!quote)
            return scan_cut_off(s), KEY_FAULT;
        if (unlikely(!sound))
            sound = scan_check_text(s, (struct slice){p + 1, quote});
        key = keys_find(keys, p + 1, (size_t)(quote - p) - 1);
        *ret_walk =
            key < KEYS_MAX ? key : KEYS_MAX + (unsigned)hash_padded(p, (size_t)(quote - p)) % WALK_OTHERS;
        p = json_skip_space(quote + 1, end);
        if (p < end && *p != ':')
            return scan_broken(s), KEY_FAULT;
        if (p < end)
            p = json_skip_space(p + 1, end);
        if (p == end)
            return scan_cut_off(s), KEY_FAULT;
    }
    /* A key with flaws is not remembered, because its flaws are counted at each occurrence. */
    if (sound && p - *at <= EXPECTED_MAX) {
        e->second = e->first;
        expected_set(&e->first, *at, p, key, *ret_walk);
    }
    *at = p;
    return key;
}

/* Takes the next member's key and moves *at to its value; KEY_END with *at after the object. The expected
 * text is compared only if it cannot reach the end of the text. */
_hot_ unsigned member_next(struct scanner *s, const char **at, const char *end, const struct key_table *keys,
                           struct expectations *walks, unsigned *walk)
{
    struct expectations *e = &walks[*walk];
    const struct expected *x = &e->first;

    if (unlikely(end - *at <= EXPECTED_MAX))
        return member_find(s, at, end, *walk == WALK_BEGIN, keys, e, walk);
    if (unlikely(!expected_matches(x, *at)))
        x = &e->second;
    if (unlikely((x == &e->second && !expected_matches(x, *at)) ||
                 (x->key != KEY_END && scan_is_more_space((*at)[x->size]))))
        return member_find(s, at, end, *walk == WALK_BEGIN, keys, e, walk);
    *at += x->size;
    *walk = x->walk;
    return x->key;
}

/* -- Arguments of an event, by its class, into the cells of its rows ------------------------------------ */

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

static const char *args_take(struct scanner *s, const char *p, const char *end, unsigned class)
{
    const struct arg_class *c = &s->classes[class];
    struct scanned_event *f = &s->event;
    const char *begin = p++;
    unsigned walk = WALK_BEGIN;
    uint64_t seen = 0;

    f->touched = 0;
    f->has_args = false;
    while (p) {
        unsigned key = member_next(s, &p, end, &c->keys, s->args_expected[class], &walk);
        if (unlikely(key >= KEY_END))
            return key == KEY_END ? p : NULL;
        f->has_args = true;
        if (key == KEY_OTHER) {
            p = value_skip(s, p, end);
            continue;
        }
        if (unlikely(seen >> key & 1))
            f->flaws |= 1u << DEFECT_duplicate_key;
        seen |= UINT64_C(1) << key;
        const struct arg_target *to = c->arg[key].to;
        switch (c->arg[key].take) {
        case TAKE_INT:
            p = args_take_int(s, p, end, *to);
            break;
        case TAKE_INTS:
            p = args_take_ints(s, p, end, to, c->arg[key].n);
            break;
        case TAKE_CLASS:
            f->class = to->cell;
            return args_take(s, begin, end, f->class);
        default:
            p = args_take_text(s, p, end, c->arg[key].take, *to);
        }
    }
    return NULL;
}

/* -- Events --------------------------------------------------------------------------------------------- */

/* A string of one letter, or the first of a longer one; '\0' for anything else. */
_hot_ const char *event_take_letter(struct scanner *s, const char *p, const char *end, char *ret)
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

/* A name or category that is not a string is ignored. */
_hot_ const char *event_take_name(struct scanner *s, const char *p, const char *end, uint32_t *ret)
{
    if (likely(*p == '"'))
        return string_take(s, p, end, ret);
    *ret = 0;
    return value_skip(s, p, end);
}

_hot_ const char *event_take_time(struct scanner *s, const char *p, const char *end, enum event_member member,
                                  int64_t *ret)
{
    struct slice raw;
    const char *after = number_ns(p, ret);

    if (likely(after))
        return after;
    after = value_take(s, p, end, &raw);
    if (after && !scan_value_number(s, raw, 3, ret))
        s->event.seen &= ~(1u << member);
    return after;
}

_hot_ const char *event_take_id(struct scanner *s, const char *p, const char *end, int64_t *ret,
                                uint32_t *ret_text)
{
    struct slice raw;
    const char *after = number_int(p, ret);

    *ret_text = 0;
    if (likely(after))
        return after;
    *ret = 0;
    if (*p == '"')
        return string_take(s, p, end, ret_text);
    after = value_take(s, p, end, &raw);
    if (after)
        scan_value_number(s, raw, 0, ret);
    return after;
}

/* An id is repeated after the ids that were taken from the cache: replaces the cached thread by its ids. */
static void event_forget_thread(struct scanner *s)
{
    struct scanned_event *f = &s->event;

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

static const char *event_take_flow_id(struct scanner *s, const char *p, const char *end)
{
    struct scanned_event *f = &s->event;
    const char *after = number_int(p, &f->id_number);

    f->id = (struct slice){0};
    return after ? after : value_take(s, p, end, &f->id);
}

static const char *event_take_flag(struct scanner *s, const char *p, const char *end, bool *ret)
{
    *ret = *p == 't';
    return value_skip(s, p, end);
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

_hot_ const char *event_take_args(struct scanner *s, const char *p, const char *end)
{
    struct scanned_event *f = &s->event;
    unsigned class = event_class(f);

    f->args = (struct slice){0};
    f->has_args = false;
    f->touched = 0;
    if (unlikely(*p != '{'))
        return value_skip(s, p, end);
    if (likely(class < CLASS_COUNT))
        return args_take(s, p, end, class);
    return value_take(s, p, end, &f->args);
}

static const char *event_take_new_category(struct scanner *s, const char *p, const char *end,
                                           struct cached_category *c)
{
    struct scanned_event *f = &s->event;
    uint32_t string, flaws = f->flaws;

    f->flaws = 0;
    const char *after = event_take_name(s, p, end, &string);
    if (!after)
        return NULL;
    scan_set_category(s, string);
    /* A name with flaws is not cached, because its flaws are counted at each occurrence. */
    if (*p == '"' && after - p <= EXPECTED_MAX && f->flaws == 0) {
        expected_set(&c->text, p, after, 0, 0);
        c->category = f->category;
        c->class = f->class;
    }
    f->flaws |= flaws;
    return after;
}

_hot_ const char *event_take_category(struct scanner *s, const char *p, const char *end)
{
    struct cached_category *c = &s->categories[load_word(p) * HASH_MULTIPLY >> 32 & (CACHE_CATEGORIES - 1)];

    if (unlikely(end - p <= EXPECTED_MAX || !expected_matches(&c->text, p)))
        return event_take_new_category(s, p, end, c);
    s->event.category = c->category;
    s->event.class = c->class;
    return p + c->text.size;
}

_hot_ const char *event_take_member(struct scanner *s, const char *p, const char *end, unsigned member)
{
    struct scanned_event *f = &s->event;

    switch (member) {
    case MEMBER_PH:
        return event_take_letter(s, p, end, &f->phase);
    case MEMBER_CAT:
        return event_take_category(s, p, end);
    case MEMBER_NAME:
        return event_take_name(s, p, end, &f->name);
    case MEMBER_PID:
        event_forget_thread(s);
        return event_take_id(s, p, end, &f->pid, &f->pid_text);
    case MEMBER_TID:
        event_forget_thread(s);
        return event_take_id(s, p, end, &f->tid, &f->tid_text);
    case MEMBER_TS:
        return event_take_time(s, p, end, MEMBER_TS, &f->ts);
    case MEMBER_DUR:
        return event_take_time(s, p, end, MEMBER_DUR, &f->dur);
    case MEMBER_ARGS:
        return event_take_args(s, p, end);
    case MEMBER_ID:
        return event_take_flow_id(s, p, end);
    case MEMBER_ID2:
        return value_take(s, p, end, &f->id2);
    case MEMBER_SCOPE:
        return event_take_letter(s, p, end, &f->scope);
    case MEMBER_BIND_POINT:
        return event_take_letter(s, p, end, &f->bind_point);
    case MEMBER_BIND_ID:
        return value_take(s, p, end, &f->bind_id);
    case MEMBER_FLOW_IN:
        return event_take_flag(s, p, end, &f->flow_in);
    case MEMBER_FLOW_OUT:
        return event_take_flag(s, p, end, &f->flow_out);
    default:
        return value_skip(s, p, end);
    }
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

/* Members in Kineto's order. */

_hot_ bool event_follows(const struct scanner *s, const char **at, const char *end, enum event_member from,
                         enum event_member to)
{
    const struct expected *e = &s->members_expected[1][from].first;

    if (unlikely(end - *at <= EXPECTED_MAX || e->key != to || !expected_matches(e, *at) ||
                 scan_is_more_space((*at)[e->size])))
        return false;
    *at += e->size;
    return true;
}

/* From the value of "pid" to that of "ts", where the thread is that of the last event of the category. */
_hot_ bool event_has_same_thread(struct scanner *s, const char **at, const char *end)
{
    const struct last_thread *last = &s->last_threads[s->event.category % CACHE_LAST_THREADS];

    if (end - *at <= EXPECTED_MAX || last->thread == 0 || !expected_matches(&last->text, *at) ||
        scan_is_more_space((*at)[last->text.size]))
        return false;
    *at += last->text.size;
    s->event.thread = last->thread;
    return true;
}

/*
 * Takes the members of a complete event after its "ph" while they have Kineto's order. *walk is the last
 * one taken.
 */
_hot_ const char *event_take_usual(struct scanner *s, const char *p, const char *end, unsigned *walk)
{
    struct scanned_event *f = &s->event;
    const char *pid;

    if (!event_follows(s, &p, end, MEMBER_PH, MEMBER_CAT))
        return p;
    *walk = MEMBER_CAT;
    f->seen |= 1u << MEMBER_CAT;
    p = event_take_category(s, p, end);
    if (unlikely(!p) || !event_follows(s, &p, end, MEMBER_CAT, MEMBER_NAME))
        return p;
    *walk = MEMBER_NAME;
    f->seen |= 1u << MEMBER_NAME;
    p = event_take_name(s, p, end, &f->name);
    if (unlikely(!p) || !event_follows(s, &p, end, MEMBER_NAME, MEMBER_PID))
        return p;
    pid = p;
    if (!event_has_same_thread(s, &p, end)) {
        *walk = MEMBER_PID;
        f->seen |= 1u << MEMBER_PID;
        p = event_take_id(s, p, end, &f->pid, &f->pid_text);
        if (unlikely(!p) || !event_follows(s, &p, end, MEMBER_PID, MEMBER_TID))
            return p;
        *walk = MEMBER_TID;
        f->seen |= 1u << MEMBER_TID;
        p = event_take_id(s, p, end, &f->tid, &f->tid_text);
        if (unlikely(!p) || !event_follows(s, &p, end, MEMBER_TID, MEMBER_TS))
            return p;
        f->thread_text = (struct slice){pid, p};
    }
    *walk = MEMBER_TS;
    f->seen |= 1u << MEMBER_PID | 1u << MEMBER_TID | 1u << MEMBER_TS;
    p = event_take_time(s, p, end, MEMBER_TS, &f->ts);
    if (unlikely(!p) || !event_follows(s, &p, end, MEMBER_TS, MEMBER_DUR))
        return p;
    *walk = MEMBER_DUR;
    f->seen |= 1u << MEMBER_DUR;
    p = event_take_time(s, p, end, MEMBER_DUR, &f->dur);
    if (unlikely(!p) || !event_follows(s, &p, end, MEMBER_DUR, MEMBER_ARGS))
        return p;
    *walk = MEMBER_ARGS;
    f->seen |= 1u << MEMBER_ARGS;
    return event_take_args(s, p, end);
}

/* Takes the event at the brace p. */
static const char *event_take(struct scanner *s, const char *p, const char *end)
{
    struct scanned_event *f = &s->event;
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
        unsigned member = member_next(s, &p, end, &s->members, s->members_expected[f->phase == 'X'], &walk);
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
        p = event_take_member(s, p, end, member);
        if (unlikely(!p))
            return NULL;
        if (member == MEMBER_PH && f->phase == 'X' && f->seen == 1u << MEMBER_PH) {
            p = event_take_usual(s, p, end, &walk);
            if (unlikely(!p))
                return NULL;
        }
    }
    if (unlikely(f->args.p && !event_take_early_args(s)))
        return NULL;
    if (likely(!empty))
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
        const char *begin = p, *after;
        if (likely(p < end && expected_matches(&s->between, p) && p + s->between.size <= end)) {
            p += s->between.size - 1;
        } else {
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
            if (p - begin < EXPECTED_MAX)
                expected_set(&s->between, begin, p + 1, 0, 0);
        }
        after = event_take(s, p, end);
        if (likely(after)) {
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
