/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/scan_state.h"

#include "base/hash_table.h"
#include "trace/read/json_text.h"
#include "trace/read/number.h"
#include "trace/read/scan_text.h"
#include <assert.h>

/* -- Counters ------------------------------------------------------------------------------------------- */

/* Counters: each member of their arguments is one of its own. */

/* "NAME MEMBER", or "NAME id: ID MEMBER" for an id in quotes. */
static uint32_t counter_name(struct scanner *s, struct slice member)
{
    const struct found *f = &s->found;
    struct slice id = {0}, parts[5];
    size_t name_size, n = 0, raw_size = 0, size = 0;
    const char *name = strings_get(s->intake->strings, f->name, &name_size);

    parts[n++] = (struct slice){name, name + name_size};
    if (SEEN(f, ID) && scan_is_quoted(f->id))
        id = slice_unquoted((struct slice){f->id.p, f->id.end});
    if (id.p < id.end) {
        static const char between[] = " id: ";
        parts[n++] = (struct slice){between, between + strlen(between)};
        parts[n++] = id;
    }
    static const char space[] = " ";
    parts[n++] = (struct slice){space, space + 1};
    parts[n++] = member;
    for (size_t i = 0; i < n; i++)
        raw_size += (size_t)(parts[i].end - parts[i].p);
    if (!scan_make_room(s, raw_size * SCAN_TEXT_GROWTH + INTERN_BEHIND))
        return STRINGS_NONE;
    for (size_t i = 0; i < n; i++) {
        size_t part = (size_t)(parts[i].end - parts[i].p);
        /* The name is clean already. */
        if (i == 0)
            memcpy(s->room, name, part);
        size += i == 0 ? part : scan_text_unescape(parts[i].p, part, s->room + size, &s->found.flaws);
    }
    memset(s->room + size, 0, INTERN_BEHIND);
    return scan_intern_text(s, s->room, size);
}

static bool counter_value(struct slice value, double *ret)
{
    struct slice digits = slice_unquoted(value);

    return number_real(digits.p, digits.end, ret);
}

void scan_commit_counter(struct scanner *s, uint64_t offset, uint32_t thread)
{
    const struct found *f = &s->found;
    struct slice rest, key, value;
    bool any = false;

    if (!SEEN(f, ARGS) || !f->args.p) {
        scan_flaw(s, DEFECT_bad_number);
        return;
    }
    rest = json_inside((struct slice){f->args.p, f->args.end});
    for (; json_next(&rest, &key, &value); any = true) {
        double number;
        int64_t bits;
        if (!counter_value(value, &number)) {
            scan_flaw(s, DEFECT_bad_number);
            continue;
        }
        uint32_t name = counter_name(s, key);
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

/* -- Metadata ------------------------------------------------------------------------------------------- */

/* Members of the outer object with metadata of the complete trace. */

#define META_TEXT_MAX (64 << 10) /* longer values are not kept as text */
/* The list of merged traces has a few hundred bytes for each. */
#define MERGED_TEXT_MAX (256 << 10)

static void meta_set_number(struct scanner *s, enum meta_key key, struct slice value)
{
    int64_t number;

    if (slice_int(value, &number))
        s->intake->meta[key] = number;
    else
        scan_value_check(s, (struct raw){value.p, value.end});
}

/* Returns the content of a string, or the text of any other value. */
static void meta_set_text_within(struct scanner *s, enum meta_key key, struct slice value, size_t size_max)
{
    struct slice text = slice_unquoted(value);
    size_t size = (size_t)(text.end - text.p);

    if (size > size_max)
        return;
    if (text.p == value.p)
        scan_value_check(s, (struct raw){value.p, value.end});
    uint32_t number =
        text.p > value.p ? scan_intern_unescaped(s, text.p, size) : scan_intern_repaired(s, text.p, size);
    if (number != STRINGS_NONE)
        s->intake->meta[key] = number;
}

static void meta_set_text(struct scanner *s, enum meta_key key, struct slice value)
{
    meta_set_text_within(s, key, value, META_TEXT_MAX);
}

static void meta_take_base(struct scanner *s, struct slice value)
{
    meta_set_number(s, META_base_time_ns, value);
}

static void meta_take_unit(struct scanner *s, struct slice value)
{
    meta_set_text(s, META_display_unit, value);
}

static void meta_take_trace_name(struct scanner *s, struct slice value)
{
    meta_set_text(s, META_trace_name, value);
}

static void meta_take_version(struct scanner *s, struct slice value)
{
    meta_set_text(s, META_engine_version, value);
}

static void meta_take_cuda_runtime(struct scanner *s, struct slice value)
{
    meta_set_number(s, META_cuda_runtime_version, value);
}

static void meta_take_cuda_driver(struct scanner *s, struct slice value)
{
    meta_set_number(s, META_cuda_driver_version, value);
}

static void meta_take_hip_runtime(struct scanner *s, struct slice value)
{
    meta_set_number(s, META_hip_runtime_version, value);
}

static void meta_take_hip_driver(struct scanner *s, struct slice value)
{
    meta_set_number(s, META_hip_driver_version, value);
}

static void meta_take_distributed(struct scanner *s, struct slice value)
{
    struct slice rest = json_inside(value), key, v;

    meta_set_text(s, META_distributed_info, value);
    while (json_next(&rest, &key, &v)) {
        if (slice_is(key, "rank"))
            meta_set_number(s, META_rank, v);
        else if (slice_is(key, "world_size"))
            meta_set_number(s, META_world_size, v);
        else if (slice_is(key, "backend"))
            meta_set_text(s, META_backend, v);
    }
}

static void meta_take_devices(struct scanner *s, struct slice value)
{
    struct slice devices = json_inside(value), members, key, v, device;
    int64_t n = 0;

    meta_set_text(s, META_device_properties, value);
    for (; json_next(&devices, &key, &device); n++) {
        members = json_inside(device);
        while (n == 0 && json_next(&members, &key, &v)) {
            if (slice_is(key, "name"))
                meta_set_text(s, META_device_name, v);
            else if (slice_is(key, "numSms"))
                meta_set_number(s, META_sm_count, v);
        }
    }
    s->intake->meta[META_devices] = n;
}

/* A part is no merged trace any more. */
static void meta_take_merged(struct scanner *s, struct slice value)
{
    if (s->intake->part.number == 0)
        meta_set_text_within(s, META_merged, value, MERGED_TEXT_MAX);
}

static void meta_take_merged_heads(struct scanner *s, struct slice value);

static const struct wanted {
    const char *key;
    void (*take)(struct scanner *s, struct slice value);
} wanted[] = {
    {"baseTimeNanoseconds", meta_take_base},
    {"displayTimeUnit", meta_take_unit},
    {"distributedInfo", meta_take_distributed},
    {"deviceProperties", meta_take_devices},
    {"computeProperties", meta_take_devices},
    {"traceName", meta_take_trace_name},
    {"vllm_version", meta_take_version},
    {"cuda_runtime_version", meta_take_cuda_runtime},
    {"cuda_driver_version", meta_take_cuda_driver},
    {"hip_runtime_version", meta_take_hip_runtime},
    {"hip_driver_version", meta_take_hip_driver},
    {"profdMerged", meta_take_merged},
    {"profdMergedHeads", meta_take_merged_heads},
};

static const struct wanted *meta_find_wanted(const char *key, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        if (strlen(wanted[i].key) == size && memcmp(wanted[i].key, key, size) == 0)
            return &wanted[i];
    return NULL;
}

/* What stood in the head of the trace that the part was. */
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
        const struct wanted *w = meta_find_wanted(key.p, (size_t)(key.end - key.p));
        if (w && w->take != meta_take_merged_heads && w->take != meta_take_base)
            w->take(s, v);
    }
}

bool scan_meta_wanted(const char *key, size_t size)
{
    return meta_find_wanted(key, size) != NULL;
}

void scan_meta_take(struct scanner *s, const char *key, size_t size, struct raw value)
{
    const struct wanted *w = meta_find_wanted(key, size);

    assert(w);
    w->take(s, (struct slice){value.p, value.end});
}

/* -- Events --------------------------------------------------------------------------------------------- */

/* Adds the values of one event to the intake: phases, threads, flows, names, rows of arguments. */

#define NO_NAME      "[No name]"
#define FLOW_ID_BASE 16

/*
 * Every phase of the format except Chrome's S, T, p and F (the former asynchronous slices), which no
 * current writer uses: they are counted as unknown instead of being ignored silently.
 */
static const struct phase {
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

static int64_t scan_event_known_id(int64_t id)
{
    /* Negative ids are pthread_t cut to 32 bits; trace_processor has them all as 0. */
    return id < 0 ? 0 : id;
}

/* A thread without an id is the first thread of its process. */
static void scan_event_settle_ids(struct found *f)
{
    if (!SEEN(f, PID))
        f->pid = f->pid_text = 0;
    if (!SEEN(f, TID))
        f->tid = f->tid_text = 0;
    f->pid = scan_event_known_id(f->pid);
    f->tid = scan_event_known_id(f->tid);
    if (f->tid == 0 && f->tid_text == 0) {
        f->tid = f->pid;
        f->tid_text = f->pid_text;
    }
}

static uint32_t scan_event_find_thread(struct scanner *s)
{
    struct found *f = &s->found;

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
        struct cached_lane *lane = &s->lanes[f->category % CACHE_LANES];
        expect(&lane->text, f->thread_text.p, f->thread_text.end, 0, 0);
        lane->thread = c->thread;
    }
    return c->thread - 1;
}

/* Ids of flows and of asynchronous events. */

static bool scan_event_read_hex(struct slice text, int64_t *ret)
{
    char digits[2 + 16 + 1], *behind;
    size_t size = (size_t)(text.end - text.p);

    if (size == 0 || size >= sizeof(digits))
        return false;
    memcpy(digits, text.p, size);
    digits[size] = '\0';
    if (strspn(digits, "0123456789abcdefABCDEFxX") != size)
        return false;
    *ret = (int64_t)strtoull(digits, &behind, FLOW_ID_BASE);
    return *behind == '\0';
}

static struct slice scan_event_unquoted(struct raw value)
{
    return slice_unquoted((struct slice){value.p, value.end});
}

/* A flow's id in quotes is a hexadecimal number. */
static bool scan_event_flow_id(struct scanner *s, struct raw value, int64_t *ret)
{
    if (scan_is_quoted(value))
        return scan_event_read_hex(scan_event_unquoted(value), ret);
    return scan_value_number(s, value, 0, ret);
}

/* The id of an asynchronous event in quotes is a text, which is represented by its hash. */
static bool scan_event_async_id(struct scanner *s, const struct found *f, int64_t *ret)
{
    struct raw value = f->id;

    if (!SEEN(f, ID) && SEEN(f, ID2)) {
        struct slice rest = json_inside((struct slice){f->id2.p, f->id2.end}), key, v;
        value = (struct raw){0};
        while (json_next(&rest, &key, &v))
            if (slice_is(key, "global") || (slice_is(key, "local") && !value.p))
                value = (struct raw){v.p, v.end};
    } else if (!SEEN(f, ID)) {
        return false;
    }
    if (SEEN(f, ID) && !f->id.p) {
        *ret = f->id_number;
        return true;
    }
    if (scan_is_quoted(value)) {
        struct slice text = scan_event_unquoted(value);
        scan_check_text(s, text.p, (size_t)(text.end - text.p));
        *ret = (int64_t)strings_hash(text.p, (size_t)(text.end - text.p));
        return true;
    }
    return value.p && scan_value_number(s, value, 0, ret);
}

/* Events. */

struct event *scan_add_event(struct scanner *s, enum event_phase phase, uint64_t offset, uint32_t thread)
{
    const struct found *f = &s->found;
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

static void scan_event_add_row(struct scanner *s, unsigned group, uint64_t touched, const int64_t *cells)
{
    int64_t *row = touched ? intake_args(s->intake, group) : NULL;

    for (uint64_t rest = row ? touched : 0; rest; rest &= rest - 1) {
        int column = __builtin_ctzll(rest);
        row[column] = cells[column];
    }
}

static void scan_event_add_rows(struct scanner *s)
{
    const struct found *f = &s->found;

    scan_event_add_row(s, f->class, f->touched & low_bits(CELLS_OF_COLLECTIVE), f->cells);
    scan_event_add_row(s, TABLE_collective - TABLE_ARGS_FIRST, f->touched >> CELLS_OF_COLLECTIVE,
                       f->cells + CELLS_OF_COLLECTIVE);
}

/* A flow may also be given by its slices: the second version of the format. */
static void scan_event_add_bound_flow(struct scanner *s, uint64_t offset, uint32_t thread)
{
    struct found *f = &s->found;
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
    static const char text[sizeof(NO_NAME) + INTERN_BEHIND] = NO_NAME;

    if (name != 0)
        return name;
    if (s->no_name == 0)
        s->no_name = scan_intern_text(s, text, strlen(NO_NAME));
    return s->no_name;
}

static bool scan_event_settle_duration(struct scanner *s)
{
    struct found *f = &s->found;
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
static enum event_phase scan_event_instant_of_scope(const struct found *f)
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
    struct found *f = &s->found;
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
        scan_event_add_rows(s);
    }
    if (SEEN(f, BIND_ID) && (phase == EVENT_COMPLETE || phase == EVENT_BEGIN))
        scan_event_add_bound_flow(s, offset, thread);
}

static void scan_event_commit_flow(struct scanner *s, enum event_phase phase, uint64_t offset,
                                   uint32_t thread)
{
    const struct found *f = &s->found;
    int64_t id = f->id_number;

    if (!SEEN(f, ID) || (f->id.p && !scan_event_flow_id(s, f->id, &id))) {
        scan_flaw(s, DEFECT_unreadable_event);
        return;
    }
    if (phase == EVENT_FLOW_END && SEEN(f, BIND_POINT) && f->bind_point == 'e')
        phase = EVENT_FLOW_END_ENCLOSING;
    scan_add_event(s, phase, offset, thread)->dur = id;
}

static int32_t scan_event_sort_index_of(int64_t value)
{
    return (int32_t)MAX(MIN(value, INT32_MAX), INT32_MIN);
}

static void scan_event_commit_names(struct scanner *s, uint32_t thread)
{
    const struct found *f = &s->found;
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
            *all[i].index = scan_event_sort_index_of(value);
        else if (value != 0)
            *all[i].text = (uint32_t)value;
    }
}

/* Counts the reason why an event is left out, if it is. */
static bool scan_event_is_usable(struct scanner *s, enum phase_use use)
{
    const struct found *f = &s->found;

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
    struct found *f = &s->found;
    const struct merged_part *part = &s->intake->part;

    if (part->number == 0 || f->thread)
        return true;
    scan_event_settle_ids(f);
    return f->pid_text == 0 && f->pid >= part->first_pid && f->pid <= part->last_pid;
}

static void scan_event_commit(struct scanner *s, uint64_t offset)
{
    struct found *f = &s->found;
    const struct phase *phase = &phases[(uint8_t)f->phase];

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
        scan_commit_counter(s, offset, thread);
    else if (SEEN(f, ARGS) && f->has_args)
        scan_event_commit_names(s, thread);
}

void scan_commit_flaws(struct scanner *s, const char *p)
{
    for (uint32_t rest = s->found.flaws; rest; rest &= rest - 1)
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
