/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/scan.h"

#include "trace/read/json_text.h"
#include "trace/read/number.h"
#include "trace/read/scan_state.h"
#include <errno.h>

/* -- Where events begin in damaged text ----------------------------------------------------------------- */

/*
 * Finds events in text whose beginning is damaged or unknown: at a brace after a comma, a bracket, another
 * brace or a line end, if its object soon has a "ph" of its own.
 */

/* Maximum distance between the brace of an event and its "ph", and maximum text after a possible end of
 * all events in which another event is searched. */
#define BORDER_EVENT  256
#define BORDER_BEHIND 4096

/* Returns the last byte before p that is not a space; '\n' if a line begins at p; ',' if the text begins
 * there. */
static char border_byte_before(const char *begin, const char *p)
{
    while (p > begin && json_is_space(p[-1])) {
        if (p[-1] == '\n')
            return '\n';
        p--;
    }
    return p > begin ? p[-1] : ',';
}

/* Skips a string; returns `end` if the string does not end in the text. */
static const char *border_skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p < end ? p + 1 : end;
}

static bool border_is_phase_key(const char *p, const char *end)
{
    static const char key[] = "\"ph\"";
    size_t size = strlen(key);

    if ((size_t)(end - p) < size || memcmp(p, key, size) != 0)
        return false;
    p = json_skip_space(p + size, end);
    return p < end && *p == ':';
}

static bool border_has_phase(const char *p, const char *end)
{
    unsigned depth = 1;

    p = json_skip_space(p + 1, end);
    if (p < end && *p != '"')
        return false;
    while (p < end && depth > 0) {
        if (*p == '"') {
            if (depth == 1 && border_is_phase_key(p, end))
                return true;
            p = border_skip_string(p, end);
            continue;
        }
        char folded = (char)(*p | 0x20);
        depth += folded == '{';
        depth -= folded == '}';
        p++;
    }
    return false;
}

static bool border_may_begin(const char *begin, const char *p)
{
    return *p == '{' && strchr(",[}\n", border_byte_before(begin, p)) != NULL;
}

static bool border_is_event(const char *begin, const char *p, const char *end)
{
    return border_may_begin(begin, p) && border_has_phase(p, end - p > BORDER_EVENT ? p + BORDER_EVENT : end);
}

/* Finds the bracket that closes the events: after an event, before another member or the end of the text. */
static bool border_may_close(const char *begin, const char *p, const char *end, bool bare)
{
    const char *before = p;

    while (before > begin && json_is_space(before[-1]))
        before--;
    if (*p != ']' || before == begin || before[-1] != '}')
        return false;
    p = json_skip_space(p + 1, end);
    if (p == end || (*p == '}' && !bare))
        return true;
    if (*p != ',' || bare)
        return false;
    p = json_skip_space(p + 1, end);
    return p == end || *p == '"';
}

static bool border_has_event(const char *begin, const char *p, const char *end)
{
    for (; p < end; p++)
        if (border_is_event(begin, p, end))
            return true;
    return false;
}

const char *scan_border(const struct scanner *s, const char *p, const char *end, const char **ret_keep)
{
    const char *begin = p++;

    for (; p < end; p++) {
        size_t ahead = border_may_begin(begin, p) ? BORDER_EVENT : *p == ']' ? BORDER_BEHIND : 0;
        if (ahead == 0)
            continue;
        if ((size_t)(end - p) < ahead && !s->last)
            break;
        const char *limit = (size_t)(end - p) < ahead ? end : p + ahead;
        if (*p == '{' ? border_has_phase(p, limit)
                      : border_may_close(begin, p, limit, s->bare) && !border_has_event(begin, p, limit))
            return p;
    }
    /* Text before its start that the next search must see. */
    do
        p--;
    while (p > begin && json_is_space(*p));
    *ret_keep = p;
    return NULL;
}

size_t scan_guess_event(const char *p, size_t size)
{
    const char *end = p + size, *at = p;

    while ((at = memchr(at, '{', (size_t)(end - at)))) {
        if (border_is_event(p, at, end))
            return (size_t)(at - p);
        at++;
    }
    return size;
}

/* -- Text around the events ----------------------------------------------------------------------------- */

/* The text around the events: the outer object or array, skipped values in it, and its end. */

#define BYTE_ORDER_MARK "\xEF\xBB\xBF"

static bool scan_has_plain(void)
{
    return true;
}

#if defined(__x86_64__)
static bool scan_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}
#endif

/* The best first. */
static const struct {
    enum scan_simd simd;
    const struct scan_ops *ops;
    bool (*has)(void);
} kinds[] = {
#if defined(__x86_64__)
    {SCAN_SIMD_AVX2, &scan_ops_avx2, scan_has_avx2},
    {SCAN_SIMD_SSE2, &scan_ops_sse2, scan_has_plain},
#elif defined(__aarch64__)
    {SCAN_SIMD_NEON, &scan_ops_neon, scan_has_plain},
#endif
    {SCAN_SIMD_PLAIN, &scan_ops_plain, scan_has_plain},
};

static const struct scan_ops *scan_find_ops(enum scan_simd simd)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if ((simd == SCAN_SIMD_BEST || simd == kinds[i].simd) && kinds[i].has())
            return kinds[i].ops;
    return NULL;
}

/* Until an event was seen, an object is expected to end: that is correct in every place. */
static void scan_expect_end(struct expectations e[static WALK_STATES])
{
    static const struct expected end = {.text = "}", .mask = 1, .size = 1, .key = KEY_END};

    for (size_t i = 0; i < WALK_STATES; i++)
        e[i] = (struct expectations){end, end};
}

/* The same for categories: an empty category counts as absent. */
static const struct cached_category no_category = {
    .text = {.text = "\"\"", .mask = 3, .size = 2}, .category = CATEGORY_NONE, .class = CLASS_UNLISTED};

int scan_new(struct intake *intake, enum scan_simd simd, struct scanner **ret)
{
    const struct scan_ops *ops = scan_find_ops(simd);
    int r;

    if (!ops)
        return -ENOTSUP;
    _cleanup_(scan_freep) struct scanner *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->intake = intake;
    s->ops = ops;
    for (size_t i = 0; i < CACHE_CATEGORIES; i++)
        s->categories[i] = no_category;
    s->between = (struct expected){.text = "{", .mask = 1, .size = 1};
    for (size_t i = 0; i < ARRAY_SIZE(s->members_expected); i++)
        scan_expect_end(s->members_expected[i]);
    r = keys_of_events(&s->members);
    for (unsigned i = 0; i < CLASS_COUNT && r >= 0; i++) {
        scan_expect_end(s->args_expected[i]);
        r = arg_class_init(&s->classes[i], i);
    }
    if (r < 0)
        return r;
    *ret = TAKE_PTR(s);
    return 0;
}

struct scanner *scan_free(struct scanner *s)
{
    if (!s)
        return NULL;
    free(s->room);
    free(s);
    return NULL;
}

void scan_begin_in_events(struct scanner *s)
{
    s->state = SCAN_EVENTS;
    s->seen_events = true;
}

void scan_begin_in_bare_events(struct scanner *s)
{
    scan_begin_in_events(s);
    s->bare = true;
}

enum scan_state scan_state(const struct scanner *s)
{
    return s->state;
}

bool scan_between_events(const struct scanner *s)
{
    return s->state == SCAN_EVENTS && s->skipping == SKIP_NOTHING;
}

uint64_t scan_events(const struct scanner *s)
{
    return s->n_events;
}

/* Skipping. Each function returns its stopping position; at the end of the text, skipping continues in the
 * next piece. */

static void scan_begin_skip(struct scanner *s, const char *p)
{
    s->skipping = *p == '{' || *p == '[' ? SKIP_NESTED : *p == '"' ? SKIP_STRING : SKIP_SCALAR;
    s->behind_skip = s->state;
    s->nest = (struct nest){0};
}

static const char *scan_skip_string(struct scanner *s, const char *p, const char *end)
{
    struct nest *n = &s->nest;

    for (; p < end; p++) {
        if (n->escaped)
            n->escaped = 0;
        else if (*p == '\\')
            n->escaped = 1;
        else if (*p == '"' && n->in_string)
            return p + 1;
        else if (*p == '"')
            n->in_string = 1;
    }
    return NULL;
}

static const char *scan_skip_scalar(const char *p, const char *end)
{
    while (p < end && !number_ends(*p))
        p++;
    return p < end ? p : NULL;
}

static const char *scan_skip(struct scanner *s, const char *p, const char *end)
{
    const char *behind = NULL, *keep = end;

    switch (s->skipping) {
    case SKIP_NESTED:
        behind = s->ops->skip_nested(&s->nest, p, end);
        break;
    case SKIP_STRING:
        behind = scan_skip_string(s, p, end);
        break;
    case SKIP_SCALAR:
        behind = scan_skip_scalar(p, end);
        break;
    case SKIP_TO_EVENT:
        behind = scan_border(s, p, end, &keep);
        break;
    case SKIP_NOTHING:
        behind = p;
        break;
    }
    if (behind && s->nest.too_deep)
        intake_defect(s->intake, DEFECT_too_deep, scan_offset(s, behind));
    if (!behind)
        return s->last ? end : keep;
    s->skipping = SKIP_NOTHING;
    s->nest.too_deep = false;
    s->state = s->behind_skip;
    return behind;
}

/* Before the outer value. */

static const char *scan_take_beginning(struct scanner *s, const char *p, const char *end)
{
    size_t mark = MIN((size_t)(end - p), strlen(BYTE_ORDER_MARK));

    if (scan_offset(s, p) == 0 && memcmp(p, BYTE_ORDER_MARK, mark) == 0) {
        if (mark < strlen(BYTE_ORDER_MARK) && !s->last)
            return p;
        p += mark;
    }
    p = json_skip_space(p, end);
    if (p == end)
        return p;
    if (*p == '{') {
        s->state = SCAN_OUTSIDE;
        return p + 1;
    }
    const char *first = json_skip_space(p + 1, end);
    if (*p == '[' && first == end && !s->last)
        return p;
    /* An array of values other than objects is not a trace. */
    if (*p != '[' || (first < end && *first != '{' && *first != ']')) {
        s->state = SCAN_NOT_EVENTS;
        return end;
    }
    s->state = SCAN_EVENTS;
    s->bare = s->seen_events = true;
    return first;
}

/* Inside the outer object. */

static const char *scan_find_quote(const char *p, const char *end)
{
    for (; p < end && *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p < end ? p : NULL;
}

/* Returns the end of a value, NULL if it is not in the text. */
static const char *scan_value_end(const struct scanner *s, const char *p, const char *end)
{
    struct nest n = {0};

    if (*p == '{' || *p == '[')
        return s->ops->skip_nested(&n, p, end);
    if (*p != '"')
        return scan_skip_scalar(p, end);
    p = scan_find_quote(p + 1, end);
    return p ? p + 1 : NULL;
}

/* Takes the member whose key is between p and the quote; returns `begin`, its first byte, while it is
 * incomplete. */
static const char *scan_take_member(struct scanner *s, const char *begin, const char *quote, const char *end)
{
    const char *key = begin + 1, *p = json_skip_space(quote + 1, end);
    size_t size = (size_t)(quote - key);

    if (p < end && *p != ':')
        return p;
    p = p < end ? json_skip_space(p + 1, end) : end;
    if (p == end)
        return begin;
    if (*p == '[' && slice_is((struct slice){key, quote}, "traceEvents")) {
        s->state = SCAN_EVENTS;
        s->seen_events = true;
        return p + 1;
    }
    if (scan_meta_wanted(key, size)) {
        const char *behind = scan_value_end(s, p, end);
        if (behind) {
            s->found.flaws = 0;
            scan_meta_take(s, key, size, (struct raw){p, behind});
            scan_commit_flaws(s, begin);
            return behind;
        }
        if (end - begin < SCAN_ITEM_MAX)
            return begin;
        intake_defect(s->intake, DEFECT_too_large_event, scan_offset(s, begin));
    }
    s->found.flaws = 0;
    scan_check_text(s, key, size);
    scan_commit_flaws(s, begin);
    scan_begin_skip(s, p);
    return p;
}

static const char *scan_take_outside(struct scanner *s, const char *p, const char *end)
{
    while (p < end && (json_is_space(*p) || *p == ','))
        p++;
    if (p == end)
        return p;
    if (*p == '}') {
        s->state = s->seen_events ? SCAN_AFTER : SCAN_NOT_EVENTS;
        return p + 1;
    }
    if (*p != '"') {
        intake_defect(s->intake, DEFECT_unreadable_event, scan_offset(s, p));
        scan_begin_skip(s, p);
        return *p == ':' || *p == ']' ? p + 1 : p;
    }
    const char *quote = scan_find_quote(p + 1, end);
    if (quote)
        return scan_take_member(s, p, quote, end);
    if (end - p >= SCAN_ITEM_MAX)
        scan_begin_skip(s, p);
    return p;
}

static const char *scan_take_behind(struct scanner *s, const char *p, const char *end)
{
    p = json_skip_space(p, end);
    if (p < end && s->intake->defects.count[DEFECT_bytes_behind_end] == 0)
        intake_defect(s->intake, DEFECT_bytes_behind_end, scan_offset(s, p));
    return end;
}

static const char *scan_take_some(struct scanner *s, const char *p, const char *end)
{
    if (s->skipping != SKIP_NOTHING)
        return scan_skip(s, p, end);
    switch (s->state) {
    case SCAN_BEFORE:
        return scan_take_beginning(s, p, end);
    case SCAN_OUTSIDE:
        return scan_take_outside(s, p, end);
    case SCAN_EVENTS:
        return s->ops->events(s, p, end);
    case SCAN_AFTER:
        return scan_take_behind(s, p, end);
    case SCAN_NOT_EVENTS:
        break;
    }
    return end;
}

size_t scan_some(struct scanner *s, const char *p, size_t size, uint64_t offset, bool last)
{
    const char *end = p + size, *at = p;

    s->piece = p;
    s->offset = offset;
    s->last = last;
    while (at < end && s->intake->error == 0) {
        const char *before = at;
        enum scan_state state = s->state;
        enum skipping skipping = s->skipping;
        at = scan_take_some(s, at, end);
        if (at == before && state == s->state && skipping == s->skipping)
            break;
    }
    if (s->intake->error || s->state == SCAN_NOT_EVENTS)
        return size;
    if (last && (s->state == SCAN_OUTSIDE || s->state == SCAN_EVENTS))
        intake_defect(s->intake, DEFECT_truncated, scan_offset(s, at));
    if (at == p && size >= SCAN_ITEM_MAX)
        return size;
    return (size_t)(at - p);
}
