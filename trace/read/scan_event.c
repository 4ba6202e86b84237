/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the values of one event to the intake: phases, threads, flows, names, rows of arguments. */
#include "trace/read/scan_state.h"

#include "base/hash_table.h"
#include "trace/read/number.h"
#include "trace/read/scan_text.h"

#define NO_NAME      "[No name]"
#define FLOW_ID_BASE 16

/*
 * Every phase of the format except Chrome's S, T, p and F (the former asynchronous slices), which no
 * current writer uses: they are counted as unknown instead of being ignored silently.
 */
static const struct phase_spec {
    enum phase_use use;
    enum event_phase event;
} phases[UINT8_MAX + 1] = {
    ['X'] = {USE_EVENT, EVENT_COMPLETE},     ['B'] = {USE_EVENT, EVENT_BEGIN},
    ['E'] = {USE_EVENT, EVENT_END},          ['i'] = {USE_EVENT, EVENT_INSTANT},
    ['I'] = {USE_EVENT, EVENT_INSTANT},      ['R'] = {USE_EVENT, EVENT_INSTANT}, /* mark */
    ['b'] = {USE_EVENT, EVENT_ASYNC_BEGIN},  ['n'] = {USE_EVENT, EVENT_ASYNC_INSTANT},
    ['e'] = {USE_EVENT, EVENT_ASYNC_END},    ['s'] = {USE_FLOW, EVENT_FLOW_START},
    ['t'] = {USE_FLOW, EVENT_FLOW_STEP},     ['f'] = {USE_FLOW, EVENT_FLOW_END},
    ['C'] = {USE_COUNTER, EVENT_COUNTER},    ['M'] = {USE_NAMES, _EVENT_PHASE_MAX},
    ['P'] = {USE_NOTHING, _EVENT_PHASE_MAX}, /* sample */
    ['N'] = {USE_NOTHING, _EVENT_PHASE_MAX}, /* object created */
    ['O'] = {USE_NOTHING, _EVENT_PHASE_MAX}, /* object snapshot */
    ['D'] = {USE_NOTHING, _EVENT_PHASE_MAX}, /* object destroyed */
    ['V'] = {USE_NOTHING, _EVENT_PHASE_MAX}, /* memory dump, global */
    ['v'] = {USE_NOTHING, _EVENT_PHASE_MAX}, /* memory dump of a process */
    ['c'] = {USE_NOTHING, _EVENT_PHASE_MAX}, /* clock synchronisation */
    ['('] = {USE_NOTHING, _EVENT_PHASE_MAX}, /* context entered */
    [')'] = {USE_NOTHING, _EVENT_PHASE_MAX}, /* context left */
};

enum phase_use scan_phase_use(char phase)
{
    return phases[(uint8_t)phase].use;
}

/* Threads. */

/* A thread without an id is the first thread of its process. */
static void scan_event_settle_ids(struct scanned_event *f)
{
    if (!SEEN(f, PID))
        f->pid = f->pid_text = 0;
    if (!SEEN(f, TID))
        f->tid = f->tid_text = 0;
    /* Negative ids are pthread_t cut to 32 bits; trace_processor has them all as 0. */
    f->pid = MAX(f->pid, 0);
    f->tid = MAX(f->tid, 0);
    if (f->tid == 0 && f->tid_text == 0) {
        f->tid = f->pid;
        f->tid_text = f->pid_text;
    }
}

static uint32_t scan_event_find_thread(struct scanner *s)
{
    struct scanned_event *f = &s->event;

    scan_event_settle_ids(f);
    uint64_t hash = hash_words((uint64_t)f->pid + ((uint64_t)f->pid_text << 32),
                               (uint64_t)f->tid + ((uint64_t)f->tid_text << 32));
    struct cached_thread *c = &s->threads[hash % CACHE_THREADS];
    if (!c->thread || c->pid != f->pid || c->tid != f->tid || c->pid_text != f->pid_text ||
        c->tid_text != f->tid_text) {
        uint32_t thread = intake_thread(s->intake, f->pid, f->pid_text, f->tid, f->tid_text);
        *c = (struct cached_thread){f->pid, f->tid, f->pid_text, f->tid_text, thread + 1};
    }
    /* Ids with a flaw are not remembered, because the flaw is counted at each occurrence. */
    if (f->thread_text.p && !f->flaws && f->thread_text.end - f->thread_text.p <= EXPECTED_MAX) {
        expected_set(&f->last_thread->text, f->thread_text.p, f->thread_text.end);
        f->last_thread->thread = c->thread;
    }
    return c->thread - 1;
}

/* Ids of flows and of asynchronous events. */

static bool scan_event_read_hex(struct slice text, int64_t *ret)
{
    char digits[2 + 16 + 1], *after;
    size_t size = (size_t)(text.end - text.p);

    if (size == 0 || size >= sizeof(digits))
        return false;
    memcpy(digits, text.p, size);
    digits[size] = '\0';
    if (strspn(digits, "0123456789abcdefABCDEFxX") != size)
        return false;
    *ret = (int64_t)strtoull(digits, &after, FLOW_ID_BASE);
    return *after == '\0';
}

/* A flow's id in quotes is a hexadecimal number. */
static bool scan_event_flow_id(struct scanner *s, struct slice value, int64_t *ret)
{
    if (scan_is_quoted(value))
        return scan_event_read_hex(slice_unquoted(value), ret);
    return scan_value_number(s, value, 0, ret);
}

/* The id of an asynchronous event in quotes is a text, which is represented by its hash. */
static bool scan_event_async_id(struct scanner *s, const struct scanned_event *f, int64_t *ret)
{
    struct slice value = f->id;

    if (!SEEN(f, ID) && SEEN(f, ID2)) {
        struct slice rest = json_inside(f->id2), key, v;
        value = (struct slice){0};
        while (json_next(&rest, &key, &v))
            if (slice_is(key, "global") || (slice_is(key, "local") && !value.p))
                value = v;
    } else if (!SEEN(f, ID)) {
        return false;
    }
    if (SEEN(f, ID) && !f->id.p) {
        *ret = f->id_number;
        return true;
    }
    if (scan_is_quoted(value)) {
        struct slice text = slice_unquoted(value);
        scan_check_text(s, text);
        *ret = (int64_t)hash_padded(text.p, (size_t)(text.end - text.p));
        return true;
    }
    return value.p && scan_value_number(s, value, 0, ret);
}

/* Events. */

static struct event *scan_add_event(struct scanner *s, enum event_phase phase, uint64_t offset,
                                    uint32_t thread)
{
    const struct scanned_event *f = &s->event;
    struct event *e = intake_event(s->intake);

    e->ts = f->ts;
    e->dur = 0;
    e->offset = offset;
    e->name = f->name;
    e->thread = thread;
    e->category = f->category;
    e->phase = (uint8_t)phase;
    e->flags = 0;
    return e;
}

/* A flow may also be given by its slices: the second version of the format. */
static void scan_event_add_bound_flow(struct scanner *s, uint64_t offset, uint32_t thread)
{
    struct scanned_event *f = &s->event;
    bool in = SEEN(f, FLOW_IN) && f->flow_in, out = SEEN(f, FLOW_OUT) && f->flow_out;
    int64_t id;

    if (!in && !out)
        return;
    if (!scan_event_flow_id(s, f->bind_id, &id)) {
        scan_flaw(s, DEFECT_bad_number);
        return;
    }
    struct event *e = scan_add_event(s,
                                     in && out ? EVENT_FLOW_STEP
                                     : out     ? EVENT_FLOW_START
                                               : EVENT_FLOW_END_ENCLOSING,
                                     offset, thread);
    e->dur = id;
    e->name = 0;
    e->category = CATEGORY_NONE;
}

static uint32_t scan_event_named(struct scanner *s, uint32_t name)
{
    static const char text[sizeof(NO_NAME) + TEXT_PAD] = NO_NAME;

    if (name != 0)
        return name;
    if (s->no_name == 0)
        s->no_name = scan_intern(s, text, strlen(NO_NAME), NULL);
    return s->no_name;
}

static bool scan_event_settle_duration(struct scanner *s)
{
    struct scanned_event *f = &s->event;
    int64_t end;

    if (!SEEN(f, DUR)) {
        scan_flaw(s, DEFECT_no_dur);
        return false;
    }
    if (f->dur < 0) {
        scan_flaw(s, DEFECT_negative_dur);
        f->dur = 0;
    }
    if (__builtin_add_overflow(f->ts, f->dur, &end)) {
        scan_flaw(s, DEFECT_bad_number);
        scan_flaw(s, DEFECT_no_dur);
        return false;
    }
    return true;
}

static bool scan_event_is_async(enum event_phase phase)
{
    return phase == EVENT_ASYNC_BEGIN || phase == EVENT_ASYNC_INSTANT || phase == EVENT_ASYNC_END;
}

/* Returns _EVENT_PHASE_MAX for an unknown scope. */
static enum event_phase scan_event_instant_of_scope(const struct scanned_event *f)
{
    switch (SEEN(f, SCOPE) ? f->scope : 't') {
    case '\0': /* no text */
    case 't':
        return EVENT_INSTANT;
    case 'p':
        return EVENT_INSTANT_PROCESS;
    case 'g':
        return EVENT_INSTANT_GLOBAL;
    default:
        return _EVENT_PHASE_MAX;
    }
}

static void scan_event_commit_slice(struct scanner *s, enum event_phase phase, uint64_t offset,
                                    uint32_t thread)
{
    struct scanned_event *f = &s->event;
    int64_t dur = 0;

    if (phase == EVENT_COMPLETE) {
        if (!scan_event_settle_duration(s))
            return;
        dur = f->dur;
    } else if (phase == EVENT_INSTANT) {
        phase = scan_event_instant_of_scope(f);
    }
    if (phase == _EVENT_PHASE_MAX || (scan_event_is_async(phase) && !scan_event_async_id(s, f, &dur))) {
        scan_flaw(s, DEFECT_unreadable_event);
        return;
    }
    if (phase == EVENT_COMPLETE || phase == EVENT_BEGIN || phase == EVENT_INSTANT)
        f->name = scan_event_named(s, f->name);
    struct event *e = scan_add_event(s, phase, offset, thread);
    e->dur = dur;
    if (phase == EVENT_INSTANT_PROCESS || scan_event_is_async(phase))
        e->thread = s->intake->error ? 0 : s->intake->threads[thread].process;
    if (SEEN(f, ARGS) && f->has_args) {
        e->flags = SLICE_HAS_ARGS;
        scan_add_rows(s, f->class);
    }
    if (SEEN(f, BIND_ID) && (phase == EVENT_COMPLETE || phase == EVENT_BEGIN))
        scan_event_add_bound_flow(s, offset, thread);
}

static void scan_event_commit_flow(struct scanner *s, enum event_phase phase, uint64_t offset,
                                   uint32_t thread)
{
    const struct scanned_event *f = &s->event;
    int64_t id = f->id_number;

    if (!SEEN(f, ID) || (f->id.p && !scan_event_flow_id(s, f->id, &id))) {
        scan_flaw(s, DEFECT_unreadable_event);
        return;
    }
    if (phase == EVENT_FLOW_END && SEEN(f, BIND_POINT) && f->bind_point == 'e')
        phase = EVENT_FLOW_END_ENCLOSING;
    scan_add_event(s, phase, offset, thread)->dur = id;
}

/* "NAME MEMBER", or "NAME id: ID MEMBER" for an id in quotes. */
static uint32_t scan_event_counter_name(struct scanner *s, struct slice member)
{
    const struct scanned_event *f = &s->event;
    struct slice id = SEEN(f, ID) && scan_is_quoted(f->id) ? slice_unquoted(f->id) : (struct slice){0};
    bool has_id = id.p < id.end;
    size_t name_size;
    const char *name = strings_get(s->intake->strings, f->name, &name_size);
    size_t raw_size = name_size + strlen(" id: ") + (size_t)(id.end - id.p) + (size_t)(member.end - member.p);

    if (!scan_reserve_buffer(s, raw_size * SCAN_TEXT_GROWTH + 1 + TEXT_PAD))
        return STRINGS_NONE;
    /* The name is clean already. */
    char *at = mempcpy(s->buffer, name, name_size);
    if (has_id) {
        at = stpcpy(at, " id: ");
        at += scan_text_clean(id, true, at, &s->event.flaws);
    }
    *at++ = ' ';
    at += scan_text_clean(member, true, at, &s->event.flaws);
    memset(at, 0, TEXT_PAD);
    return scan_intern(s, s->buffer, (size_t)(at - s->buffer), NULL);
}

/* Each member of the arguments is a counter of its own. */
static void scan_event_commit_counter(struct scanner *s, uint64_t offset, uint32_t thread)
{
    const struct scanned_event *f = &s->event;
    struct slice rest = SEEN(f, ARGS) && f->args.p ? json_inside(f->args) : (struct slice){0}, key, value;
    bool any = false;

    for (; json_next(&rest, &key, &value); any = true) {
        struct slice digits = slice_unquoted(value);
        double number;
        int64_t bits;
        if (!number_real(digits.p, digits.end, &number)) {
            scan_flaw(s, DEFECT_bad_number);
            continue;
        }
        uint32_t name = scan_event_counter_name(s, key);
        if (name == STRINGS_NONE)
            return;
        memcpy(&bits, &number, sizeof(bits));
        struct event *e = scan_add_event(s, EVENT_COUNTER, offset, thread);
        e->name = name;
        e->dur = bits;
    }
    if (!any)
        scan_flaw(s, DEFECT_bad_number);
}

static void scan_event_commit_names(struct scanner *s, uint32_t thread)
{
    const struct scanned_event *f = &s->event;
    struct thread_entry *t = &s->intake->threads[thread];
    struct process_entry *p = &s->intake->processes[t->process];
    const struct {
        const char *name;
        enum names_column column;
        uint32_t *text;
        int32_t *index;
    } all[] = {
        {"thread_name", NAMES_NAME, &t->name, NULL},
        {"process_name", NAMES_NAME, &p->name, NULL},
        {"process_labels", NAMES_LABELS, &p->labels, NULL},
        {"thread_sort_index", NAMES_SORT_INDEX, NULL, &t->sort_index},
        {"process_sort_index", NAMES_SORT_INDEX, NULL, &p->sort_index},
    };
    size_t size;
    const char *name = strings_get(s->intake->strings, f->name, &size);

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        int64_t value = f->cells[all[i].column];
        if (strlen(all[i].name) != size || memcmp(all[i].name, name, size) != 0 ||
            !(f->touched >> all[i].column & 1))
            continue;
        if (all[i].index)
            *all[i].index = (int32_t)MAX(MIN(value, INT32_MAX), INT32_MIN);
        else if (value != 0)
            *all[i].text = (uint32_t)value;
    }
}

/* Counts the reason why an event is left out, if it is. */
static bool scan_event_is_usable(struct scanner *s, enum phase_use use)
{
    const struct scanned_event *f = &s->event;

    if (f->phase == '\0')
        scan_flaw(s, DEFECT_no_phase);
    else if (use == USE_UNKNOWN)
        scan_flaw(s, DEFECT_unknown_phase);
    else if (use == USE_NAMES || (use != USE_NOTHING && SEEN(f, TS)))
        return true;
    else if (use != USE_NOTHING)
        scan_flaw(s, DEFECT_no_ts);
    return false;
}

/* A thread that is known already is of the part. */
static bool scan_event_is_of_part(struct scanner *s)
{
    struct scanned_event *f = &s->event;
    const struct merged_part *part = &s->intake->part;

    if (part->number == 0 || f->thread)
        return true;
    scan_event_settle_ids(f);
    return f->pid_text == 0 && f->pid >= part->first_pid && f->pid <= part->last_pid;
}

static void scan_event_commit(struct scanner *s, uint64_t offset)
{
    struct scanned_event *f = &s->event;
    const struct phase_spec *phase = &phases[(uint8_t)f->phase];

    if (!scan_event_is_usable(s, phase->use))
        return;
    if (!SEEN(f, NAME))
        f->name = 0;
    if (!SEEN(f, CAT))
        f->category = CATEGORY_NONE;
    uint32_t thread = f->thread ? f->thread - 1 : scan_event_find_thread(s);
    if (s->intake->error)
        return;
    if (phase->use == USE_EVENT)
        scan_event_commit_slice(s, phase->event, offset, thread);
    else if (phase->use == USE_FLOW)
        scan_event_commit_flow(s, phase->event, offset, thread);
    else if (phase->use == USE_COUNTER)
        scan_event_commit_counter(s, offset, thread);
    else if (SEEN(f, ARGS) && f->has_args)
        scan_event_commit_names(s, thread);
}

void scan_commit_flaws(struct scanner *s, const char *p)
{
    for (uint32_t rest = s->event.flaws; rest; rest &= rest - 1)
        intake_defect(s->intake, (enum defect_kind)__builtin_ctz(rest), scan_offset(s, p));
}

void scan_commit(struct scanner *s, const char *p)
{
    if (s->intake->error || !scan_event_is_of_part(s))
        return;
    scan_event_commit(s, scan_offset(s, p));
    s->n_events++;
    scan_commit_flaws(s, p);
}
