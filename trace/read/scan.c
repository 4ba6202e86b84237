/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/scan.h"

#include "trace/read/json_text.h"
#include "trace/read/number.h"
#include "trace/read/scan_state.h"
#include <errno.h>

/* -- Where events begin in damaged text ----------------------------------------------------------------- */

/* An event begins at a brace after a comma, a bracket, another brace or a line end, if its object soon has a
 * "ph" of its own. */

/* Maximum distance between the brace of an event and its "ph", and maximum text after a possible end of
 * all events in which another event is searched. */
#define BORDER_EVENT 256
#define BORDER_AFTER 4096

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

/* Returns the closing quote of the string whose text begins at p, NULL if it is not in the text. */
static const char *scan_find_quote(const char *p, const char *end)
{
    for (; p < end && *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p < end ? p : NULL;
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
            p = scan_find_quote(p + 1, end);
            if (!p)
                return false;
            p++;
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

/* Returns the position at which reading continues after a broken event: an event, or the end of their array.
 * NULL if that is not in the text; *ret_keep is then the beginning of the next search. */
static const char *scan_border(const struct scanner *s, const char *p, const char *end, const char **ret_keep)
{
    const char *begin = p++;

    for (; p < end; p++) {
        size_t ahead = border_may_begin(begin, p) ? BORDER_EVENT : *p == ']' ? BORDER_AFTER : 0;
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

/* -- Metadata of the complete trace ---------------------------------------------------------------------- */

#define META_TEXT_MAX (64 << 10) /* longer values are not kept as text */
/* The list of merged traces has a few hundred bytes for each. */
#define MERGED_TEXT_MAX (256 << 10)

/* A member of an object with metadata, and the key under which its value is kept, _META_MAX for none. */
struct meta_member {
    const char *name;
    enum meta_key key;
    /* Takes members of the value in addition; may be NULL. */
    void (*take)(struct scanner *s, struct slice value);
};

static const struct meta_member *meta_find_in(const struct meta_member *members, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; i++)
        if (slice_is(name, members[i].name))
            return &members[i];
    return NULL;
}

/* Of a text, the content of a string or the text of any other value is kept. */
static void meta_keep(struct scanner *s, enum meta_key key, struct slice value)
{
    size_t size_max = key == META_merged ? MERGED_TEXT_MAX : META_TEXT_MAX;
    struct slice text = slice_unquoted(value);
    size_t size = (size_t)(text.end - text.p);
    int64_t number;

    if (!meta_is_text(key)) {
        if (slice_int(value, &number))
            s->intake->meta[key] = number;
        else
            scan_value_is_number(s, value);
        return;
    }
    /* A part is no merged trace any more. */
    if (size > size_max || (key == META_merged && s->intake->part.number != 0))
        return;
    if (text.p == value.p)
        scan_value_is_number(s, value);
    uint32_t string = scan_intern_cleaned(s, text, text.p > value.p);
    if (string != STRINGS_NONE)
        s->intake->meta[key] = string;
}

static void meta_take(struct scanner *s, const struct meta_member *m, struct slice value)
{
    if (m->key != _META_MAX)
        meta_keep(s, m->key, value);
    if (m->take)
        m->take(s, value);
}

static void meta_take_members(struct scanner *s, struct slice object, const struct meta_member *members,
                              size_t n)
{
    struct slice rest = json_inside(object), key, value;

    while (json_next(&rest, &key, &value)) {
        const struct meta_member *m = meta_find_in(members, n, key);
        if (m)
            meta_take(s, m, value);
    }
}

static void meta_take_distributed(struct scanner *s, struct slice value)
{
    static const struct meta_member members[] = {
        {"rank", META_rank}, {"world_size", META_world_size}, {"backend", META_backend}};

    meta_take_members(s, value, members, ARRAY_SIZE(members));
}

static void meta_take_devices(struct scanner *s, struct slice value)
{
    static const struct meta_member members[] = {{"name", META_device_name}, {"numSms", META_sm_count}};
    struct slice devices = json_inside(value), key, device;
    int64_t n = 0;

    for (; json_next(&devices, &key, &device); n++)
        if (n == 0)
            meta_take_members(s, device, members, ARRAY_SIZE(members));
    s->intake->meta[META_devices] = n;
}

static void meta_take_merged_heads(struct scanner *s, struct slice value);

static const struct meta_member outer_members[] = {
    {"baseTimeNanoseconds", META_base_time_ns},
    {"displayTimeUnit", META_display_unit},
    {"distributedInfo", META_distributed_info, meta_take_distributed},
    {"deviceProperties", META_device_properties, meta_take_devices},
    {"computeProperties", META_device_properties, meta_take_devices},
    {"traceName", META_trace_name},
    {"vllm_version", META_engine_version},
    /* pytorch/kineto @114171df, libkineto/src/GenericActivityProfiler.cpp:503: the text of REQUEST_TRACE_ID. */
    {"trace_id", META_request_trace_id},
    {"cuda_runtime_version", META_cuda_runtime_version},
    {"cuda_driver_version", META_cuda_driver_version},
    {"hip_runtime_version", META_hip_runtime_version},
    {"hip_driver_version", META_hip_driver_version},
    {"profdMerged", META_merged},
    {"profdMergedHeads", _META_MAX, meta_take_merged_heads},
};

static const struct meta_member *meta_find(struct slice name)
{
    return meta_find_in(outer_members, ARRAY_SIZE(outer_members), name);
}

/* Takes the members of the head of the trace that the part was. All parts have the base time of the file. */
static void meta_take_merged_heads(struct scanner *s, struct slice value)
{
    struct slice heads = json_inside(value), head, key, v;
    int64_t number = 0;

    while (number < s->intake->part.number && json_next(&heads, &key, &head))
        number++;
    if (number == 0 || number < s->intake->part.number)
        return;
    struct slice members = json_inside(head);
    while (json_next(&members, &key, &v)) {
        const struct meta_member *m = meta_find(key);
        if (m && m->take != meta_take_merged_heads && m->key != META_base_time_ns)
            meta_take(s, m, v);
    }
}

/* -- Text around the events: the outer object or array, skipped values in it, and its end ---------------- */

#define BYTE_ORDER_MARK "\xEF\xBB\xBF"

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
    bool (*has)(void); /* NULL: every processor has it */
} kinds[] = {
#if defined(__x86_64__)
    {SCAN_SIMD_AVX2, &scan_ops_avx2, scan_has_avx2},
    {SCAN_SIMD_SSE2, &scan_ops_sse2},
#elif defined(__aarch64__)
    {SCAN_SIMD_NEON, &scan_ops_neon},
#endif
    {SCAN_SIMD_PLAIN, &scan_ops_plain},
};

static const struct scan_ops *scan_find_ops(enum scan_simd simd)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if ((simd == SCAN_SIMD_BEST || simd == kinds[i].simd) && (!kinds[i].has || kinds[i].has()))
            return kinds[i].ops;
    return NULL;
}

int scan_new(struct intake *intake, enum scan_simd simd, struct scanner **ret)
{
    const struct scan_ops *ops = scan_find_ops(simd);

    if (!ops)
        return -ENOTSUP;
    _cleanup_(scan_freep) struct scanner *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->intake = intake;
    s->ops = ops;
    shapes_forget(&s->shapes);
    keys_of_events(&s->members);
    for (unsigned i = 0; i < CLASS_COUNT; i++)
        arg_class_init(&s->classes[i], i);
    *ret = TAKE_PTR(s);
    return 0;
}

struct scanner *scan_free(struct scanner *s)
{
    if (!s)
        return NULL;
    free(s->buffer);
    free(s);
    return NULL;
}

void scan_begin(struct scanner *s, enum scan_begin begin)
{
    if (begin == SCAN_AT_BEGINNING)
        return;
    s->state = SCAN_EVENTS;
    s->seen_events = true;
    s->bare = begin == SCAN_IN_BARE_EVENTS;
}

void scan_without_shapes(struct scanner *s)
{
    s->shapeless = true;
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
    s->after_skip = s->state;
    s->nest = (struct json_nest){0};
}

static const char *scan_skip_string(struct scanner *s, const char *p, const char *end)
{
    struct json_nest *n = &s->nest;

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
    const char *after = NULL, *keep = end;

    switch (s->skipping) {
    case SKIP_NESTED:
        after = s->ops->skip_nested(&s->nest, p, end);
        break;
    case SKIP_STRING:
        after = scan_skip_string(s, p, end);
        break;
    case SKIP_SCALAR:
        after = scan_skip_scalar(p, end);
        break;
    case SKIP_TO_EVENT:
        after = scan_border(s, p, end, &keep);
        break;
    case SKIP_NOTHING:
        after = p;
        break;
    }
    if (after && s->nest.too_deep)
        intake_defect(s->intake, DEFECT_too_deep, scan_offset(s, after));
    if (!after)
        return s->last ? end : keep;
    s->skipping = SKIP_NOTHING;
    s->nest.too_deep = false;
    s->state = s->after_skip;
    return after;
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

/* Returns the end of a value, NULL if it is not in the text. */
static const char *scan_value_end(const struct scanner *s, const char *p, const char *end)
{
    struct json_nest n = {0};

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
    struct slice key = {begin + 1, quote};
    const char *p = json_skip_space(quote + 1, end);

    if (p < end && *p != ':')
        return p;
    p = p < end ? json_skip_space(p + 1, end) : end;
    if (p == end)
        return begin;
    if (*p == '[' && slice_is(key, "traceEvents")) {
        s->state = SCAN_EVENTS;
        s->seen_events = true;
        return p + 1;
    }
    const struct meta_member *meta = meta_find(key);
    if (meta) {
        const char *after = scan_value_end(s, p, end);
        if (after) {
            s->event.flaws = 0;
            meta_take(s, meta, (struct slice){p, after});
            scan_commit_flaws(s, begin);
            return after;
        }
        if (end - begin < SCAN_ITEM_MAX)
            return begin;
        intake_defect(s->intake, DEFECT_too_large_event, scan_offset(s, begin));
    }
    s->event.flaws = 0;
    scan_check_text(s, key);
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

static const char *scan_take_after(struct scanner *s, const char *p, const char *end)
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
        return scan_take_after(s, p, end);
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
