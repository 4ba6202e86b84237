/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/format.h"

#include "trace/read/json_text.h"

/* -- Format --------------------------------------------------------------------------------------------- */

/* Share of printable bytes from which a file counts as text. */
#define TEXT_LOOK 4096

static const char *const names[_FORMAT_MAX] = {
    [FORMAT_EMPTY] = "empty",
    [FORMAT_KINETO] = "kineto",
    [FORMAT_CHROME] = "chrome",
    [FORMAT_ROCPROF] = "rocprofv3",
    [FORMAT_MEMORY_TIMELINE] = "memory-timeline",
    [FORMAT_JSON] = "json",
    [FORMAT_NSYS_SQLITE] = "nsys-sqlite",
    [FORMAT_SQLITE] = "sqlite",
    [FORMAT_PICKLE] = "pickle",
    [FORMAT_CALLGRIND] = "callgrind",
    [FORMAT_HTML] = "html",
    [FORMAT_TEXT] = "text",
    [FORMAT_BINARY] = "binary",
};

static bool format_contains(const char *p, size_t size, const char *word)
{
    return p && memmem(p, size, word, strlen(word)) != NULL;
}

static bool format_is_callgrind(const char *p, size_t size)
{
    size_t n = MIN(size, (size_t)TEXT_LOOK);
    return format_contains(p, MIN(n, (size_t)64), "# callgrind format") ||
           (format_contains(p, n, "\nevents:") &&
            (format_contains(p, n, "\nfn=") || format_contains(p, n, "creator:")));
}

static bool format_is_html(const char *p, const char *end)
{
    static const char *const tags[] = {"<!doctype html", "<html"};

    p = json_skip_space(p, end);
    for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
        if ((size_t)(end - p) >= strlen(tags[i]) && strncasecmp(p, tags[i], strlen(tags[i])) == 0)
            return true;
    return false;
}

/* A bracket, then white space, then a character that can begin a member or element, or the end of the
 * text: marshalled Python dictionaries begin with a brace too. */
static bool format_is_json(const char *p, const char *end)
{
    if (p == end || (*p != '{' && *p != '['))
        return false;
    bool array = *p == '[';
    p = json_skip_space(p + 1, end);
    return p == end || (*p && strchr(array ? "{[]\"-0123456789tfn" : "\"}", *p));
}

static bool format_is_text(const char *p, size_t size)
{
    for (size_t i = 0; i < MIN(size, (size_t)TEXT_LOOK); i++)
        if (p[i] == 0 || p[i] == 0x7f || ((uint8_t)p[i] < ' ' && !strchr("\t\n\r\f\033", p[i])))
            return false;
    return true;
}

enum trace_format format_of(const char *head, size_t size)
{
    static const char sqlite[16] = "SQLite format 3";
    const char *end = head + size, *p = json_skip_space(head, end);

    if (p == end)
        return FORMAT_EMPTY;
    if (size >= sizeof(sqlite) && memcmp(head, sqlite, sizeof(sqlite)) == 0)
        return format_contains(head, size, "CUPTI_ACTIVITY_KIND") ||
                       format_contains(head, size, "TARGET_INFO_SESSION_START_TIME")
                   ? FORMAT_NSYS_SQLITE
                   : FORMAT_SQLITE;
    /* The protocol follows the first byte. */
    if (size >= 2 && (uint8_t)head[0] == 0x80 && head[1] >= 2 && head[1] <= 5)
        return FORMAT_PICKLE;
    if (format_is_json(p, end))
        return FORMAT_JSON;
    if (format_is_html(p, end))
        return FORMAT_HTML;
    if (format_is_callgrind(head, size))
        return FORMAT_CALLGRIND;
    return format_is_text(head, size) ? FORMAT_TEXT : FORMAT_BINARY;
}

bool format_is_trace_json(enum trace_format format)
{
    return format == FORMAT_KINETO || format == FORMAT_CHROME;
}

const char *format_name(enum trace_format format)
{
    return names[format];
}

int format_from_name(const char *word)
{
    for (int i = 0; word && i < _FORMAT_MAX; i++)
        if (streq(names[i], word))
            return i;
    return -1;
}

/* -- Both ends of a trace ------------------------------------------------------------------------------- */

/* A member of an object: what its value sets, and the writer that it identifies. */
struct ends_member {
    const char *name;
    enum trace_format format; /* FORMAT_JSON: none */
    size_t offset, size;      /* in struct trace_ends, of a number, or with a size of a text; 0: none */
    void (*take)(struct trace_ends *e, struct slice value);
};

#define ENDS_NUMBER(field) offsetof(struct trace_ends, field), 0
#define ENDS_TEXT(field)   offsetof(struct trace_ends, field), sizeof(((struct trace_ends *)NULL)->field)

static void ends_take_member(struct trace_ends *e, const struct ends_member *members, size_t n,
                             struct slice key, struct slice value)
{
    for (size_t i = 0; i < n; i++) {
        const struct ends_member *m = &members[i];
        if (!slice_is(key, m->name))
            continue;
        if (m->format != FORMAT_JSON)
            e->format = m->format;
        if (m->take)
            m->take(e, value);
        else if (m->size > 0)
            slice_copy(value, (char *)e + m->offset, m->size);
        else if (m->offset > 0)
            slice_int(value, (int64_t *)(void *)((char *)e + m->offset));
    }
}

static void ends_take_members(struct trace_ends *e, const struct ends_member *members, size_t n,
                              struct slice object)
{
    struct slice rest = json_inside(object), key, value;

    while (json_next(&rest, &key, &value))
        ends_take_member(e, members, n, key, value);
}

static void ends_take_distributed(struct trace_ends *e, struct slice value)
{
    static const struct ends_member members[] = {
        {"rank", FORMAT_JSON, ENDS_NUMBER(rank)},
        {"world_size", FORMAT_JSON, ENDS_NUMBER(world_size)},
        {"backend", FORMAT_JSON, ENDS_TEXT(backend)},
    };

    ends_take_members(e, members, ARRAY_SIZE(members), value);
}

static void ends_take_devices(struct trace_ends *e, struct slice value)
{
    static const struct ends_member members[] = {{"name", FORMAT_JSON, ENDS_TEXT(device_name)}};
    struct slice devices = json_inside(value), key, device;

    for (e->devices = 0; json_next(&devices, &key, &device); e->devices++)
        if (e->devices == 0)
            ends_take_members(e, members, ARRAY_SIZE(members), device);
}

/* Events of the traced process; other events have the number of a device as pid. */
static bool ends_is_host_category(struct slice cat)
{
    static const char *const categories[] = {
        "cpu_op",       "user_annotation",   "python_function",    "cuda_driver",
        "cuda_runtime", "cpu_instant_event", "Operator",           "Runtime",
        "mtia_runtime", "xpu_runtime",       "privateuse1_runtime"};
    for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
        if (slice_is(cat, categories[i]))
            return true;
    return false;
}

/* Kineto labels each process of a trace; only the traced process is labelled as a CPU. The label also
 * exists in traces without host events. */
static bool ends_is_host_label(struct slice args)
{
    struct slice members = json_inside(args), key, v;

    while (json_next(&members, &key, &v))
        if (slice_is(key, "labels"))
            return slice_is(slice_unquoted(v), "CPU");
    return false;
}

static bool ends_read_event(struct trace_ends *e, struct slice event, bool *ret_is_event)
{
    struct slice members = json_inside(event), key, v;
    int64_t pid = -1;
    bool host = false, label = false;

    while (json_next(&members, &key, &v)) {
        if (slice_is(key, "ph"))
            *ret_is_event = true;
        else if (slice_is(key, "args"))
            label = ends_is_host_label(v);
        else if (slice_is(key, "pid"))
            slice_int(v, &pid);
        else if (slice_is(key, "cat"))
            host = ends_is_host_category(slice_unquoted(v));
    }
    if ((host || label) && pid >= 0)
        e->pid = pid;
    return host;
}

static void ends_read_events(struct trace_ends *e, struct slice value)
{
    struct slice events = json_inside(value), key, event;
    bool is_event = false;

    while (e->pid < 0 && json_next(&events, &key, &event))
        if (ends_read_event(e, event, &is_event))
            e->format = FORMAT_KINETO;
    if (e->format == FORMAT_JSON && is_event)
        e->format = FORMAT_CHROME;
}

static void ends_read_trace_events(struct trace_ends *e, struct slice value)
{
    if (e->format == FORMAT_JSON)
        e->format = FORMAT_CHROME;
    ends_read_events(e, value);
}

static const struct ends_member outer_members[] = {
    {"schemaVersion", FORMAT_KINETO},
    {"deviceProperties", FORMAT_KINETO, .take = ends_take_devices},
    {"computeProperties", FORMAT_KINETO, .take = ends_take_devices},
    {"distributedInfo", FORMAT_KINETO, .take = ends_take_distributed},
    {"baseTimeNanoseconds", FORMAT_KINETO, ENDS_NUMBER(base_time_ns)},
    {"traceName", FORMAT_KINETO, ENDS_TEXT(trace_name)},
    {"vllm_version", FORMAT_KINETO, ENDS_TEXT(engine_version)},
    {"trace_id", FORMAT_JSON, ENDS_TEXT(request_trace_id)},
    {"traceEvents", FORMAT_JSON, .take = ends_read_trace_events},
    {"rocprofiler-sdk-tool", FORMAT_ROCPROF},
};

static void ends_read_head(struct trace_ends *e, struct slice text)
{
    const char *first = json_skip_space(text.p + 1, text.end);

    if (*text.p == '{')
        ends_take_members(e, outer_members, ARRAY_SIZE(outer_members), text);
    else if (first < text.end && *first == '[')
        e->format = FORMAT_MEMORY_TIMELINE; /* an array of arrays of numbers */
    else
        ends_read_events(e, text);
}

/* An array of objects under the events' key, or without a key, which results from broken quoting. */
static bool ends_is_events(struct slice key, struct slice value)
{
    struct slice inside = json_inside(value);

    if (*value.p != '[' || !(key.p == key.end || slice_is(key, "traceEvents")))
        return false;
    while (inside.end > inside.p && (json_is_space(inside.end[-1]) || inside.end[-1] == ','))
        inside.end--;
    return inside.end > inside.p && inside.end[-1] == '}';
}

/*
 * Walks the top level backwards and reads its members. If the walk reaches the opening bracket, that must
 * be the first one of the file: a file that was cut just after an event or its args ends in a bracket too.
 * If the walk stops in text that began before the tail or that is broken, the file was closed by its
 * writer, or was cut within a string just after a bracket, which looks the same.
 */
static bool ends_read_tail(struct trace_ends *e, struct slice tail, const char *first)
{
    struct slice key, value;
    bool passed_events = false;

    for (;;) {
        switch (json_back(&tail, &key, &value)) {
        case JSON_BACK_VALUE:
            passed_events = passed_events || ends_is_events(key, value);
            if (key.p < key.end)
                ends_take_member(e, outer_members, ARRAY_SIZE(outer_members), key, value);
            break;
        case JSON_BACK_OPEN:
            return passed_events || tail.end - 1 == first;
        case JSON_BACK_LOST:
            return true;
        }
    }
}

static bool ends_read_json(const struct ends_input *in, struct trace_ends *e)
{
    const char *head_end = in->head + in->head_size;
    const char *head = json_skip_space(in->head, head_end);
    struct slice tail = {in->tail, in->tail + in->tail_size};
    char close = *head == '{' ? '}' : ']';

    ends_read_head(e, (struct slice){head, head_end});
    while (tail.end > tail.p && json_is_space(tail.end[-1]))
        tail.end--;
    if (tail.end == tail.p || tail.end[-1] != close)
        return false;
    tail.end--;
    const char *first = in->total == in->tail_size ? in->tail + (head - in->head) : NULL;
    return ends_read_tail(e, tail, first);
}

void ends_read(const struct ends_input *in, struct trace_ends *ret)
{
    *ret = (struct trace_ends){
        .format = format_of(in->head, in->head_size),
        .closes = true,
        .rank = -1,
        .world_size = -1,
        .pid = -1,
        .devices = -1,
        .base_time_ns = -1,
    };
    if (ret->format == FORMAT_JSON)
        ret->closes = ends_read_json(in, ret);
}
