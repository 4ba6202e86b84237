/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/ends.h"

#include "trace/read/json_text.h"

static void read_rank(struct trace_ends *e, struct slice value)
{
    struct slice rest = json_inside(value), key, v;

    while (json_next(&rest, &key, &v)) {
        if (slice_is(key, "rank"))
            slice_int(v, &e->rank);
        else if (slice_is(key, "world_size"))
            slice_int(v, &e->world_size);
        else if (slice_is(key, "backend"))
            slice_copy(v, e->backend, sizeof(e->backend));
    }
}

static void read_devices(struct trace_ends *e, struct slice value)
{
    struct slice devices = json_inside(value), members, key, v, device;

    e->devices = 0;
    while (json_next(&devices, &key, &device)) {
        if (e->devices++ > 0)
            continue;
        members = json_inside(device);
        while (json_next(&members, &key, &v))
            if (slice_is(key, "name"))
                slice_copy(v, e->device_name, sizeof(e->device_name));
    }
}

/* Events of the traced process; the others carry a device's number as pid. */
static bool is_host_category(struct slice cat)
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

/* Kineto labels each process of a trace; of those only the traced one is a CPU. A trace without any event of
 * the host still has this. */
static bool is_host_label(struct slice args)
{
    struct slice members = json_inside(args), key, v;

    while (json_next(&members, &key, &v))
        if (slice_is(key, "labels"))
            return slice_is(slice_unquoted(v), "CPU");
    return false;
}

static bool read_event(struct trace_ends *e, struct slice event, bool *ret_is_event)
{
    struct slice members = json_inside(event), key, v;
    int64_t pid = -1;
    bool host = false, label = false;

    while (json_next(&members, &key, &v)) {
        if (slice_is(key, "ph"))
            *ret_is_event = true;
        else if (slice_is(key, "args"))
            label = is_host_label(v);
        else if (slice_is(key, "pid"))
            slice_int(v, &pid);
        else if (slice_is(key, "cat"))
            host = is_host_category(slice_unquoted(v));
    }
    if ((host || label) && pid >= 0)
        e->pid = pid;
    return host;
}

static void read_events(struct trace_ends *e, struct slice value)
{
    struct slice events = json_inside(value), key, event;
    bool is_event = false;

    while (e->pid < 0 && json_next(&events, &key, &event))
        if (read_event(e, event, &is_event))
            e->format = FORMAT_KINETO;
    if (e->format == FORMAT_JSON && is_event)
        e->format = FORMAT_CHROME;
}

static void read_trace_events(struct trace_ends *e, struct slice value)
{
    if (e->format == FORMAT_JSON)
        e->format = FORMAT_CHROME;
    read_events(e, value);
}

static void read_base(struct trace_ends *e, struct slice value)
{
    slice_int(value, &e->base_time_ns);
}

static void read_trace_name(struct trace_ends *e, struct slice value)
{
    slice_copy(value, e->trace_name, sizeof(e->trace_name));
}

static void read_version(struct trace_ends *e, struct slice value)
{
    slice_copy(value, e->engine_version, sizeof(e->engine_version));
}

static void read_nothing(struct trace_ends *e _unused_, struct slice value _unused_)
{
}

/* Keys of the top level: what their value tells, and whose writing they prove. */
static const struct key {
    const char *name;
    void (*read)(struct trace_ends *e, struct slice value);
    enum trace_format format;
} keys[] = {
    {"schemaVersion", read_nothing, FORMAT_KINETO},         {"deviceProperties", read_devices, FORMAT_KINETO},
    {"computeProperties", read_devices, FORMAT_KINETO},     {"distributedInfo", read_rank, FORMAT_KINETO},
    {"baseTimeNanoseconds", read_base, FORMAT_KINETO},      {"traceName", read_trace_name, FORMAT_KINETO},
    {"vllm_version", read_version, FORMAT_KINETO},          {"traceEvents", read_trace_events, FORMAT_JSON},
    {"rocprofiler-sdk-tool", read_nothing, FORMAT_ROCPROF},
};

static void read_member(struct trace_ends *e, struct slice key, struct slice value)
{
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (!slice_is(key, keys[i].name))
            continue;
        if (keys[i].format != FORMAT_JSON)
            e->format = keys[i].format;
        keys[i].read(e, value);
    }
}

/* An array without an object around it: events, or the numbers of a memory timeline. */
static void read_bare_array(struct trace_ends *e, struct slice text)
{
    const char *first = json_skip_space(text.p + 1, text.end);

    if (first < text.end && *first == '[')
        e->format = FORMAT_MEMORY_TIMELINE;
    else
        read_events(e, text);
}

static void read_head(struct trace_ends *e, struct slice text)
{
    struct slice rest = json_inside(text), key, value;

    if (*text.p == '[') {
        read_bare_array(e, text);
        return;
    }
    while (json_next(&rest, &key, &value))
        read_member(e, key, value);
}

/* An array of objects under the events' key, or under none, which is what broken quoting makes of them. */
static bool is_events(struct slice key, struct slice value)
{
    struct slice inside = json_inside(value);

    if (*value.p != '[' || !(key.p == key.end || slice_is(key, "traceEvents")))
        return false;
    while (inside.end > inside.p && (json_is_space(inside.end[-1]) || inside.end[-1] == ','))
        inside.end--;
    return inside.end > inside.p && inside.end[-1] == '}';
}

/*
 * Walks the top level from behind and reads its members. Where the walk comes to the opening bracket, that
 * must be the first of the file: a file cut just behind an event or its args ends in a bracket too. Where it
 * gets lost in something that began before the tail, or that is broken, the file was closed by its writer, or
 * was cut within a string just behind a bracket, which cannot be told from it.
 */
static bool read_tail(struct trace_ends *e, struct slice tail, const char *first)
{
    struct slice key, value;
    bool passed_events = false;

    for (;;) {
        switch (json_back(&tail, &key, &value)) {
        case JSON_BACK_VALUE:
            passed_events = passed_events || is_events(key, value);
            if (key.p < key.end)
                read_member(e, key, value);
            break;
        case JSON_BACK_OPEN:
            return passed_events || tail.end - 1 == first;
        case JSON_BACK_LOST:
            return true;
        }
    }
}

static bool read_json(const struct ends_input *in, struct trace_ends *e)
{
    const char *head_end = in->head + in->head_size;
    const char *head = json_skip_space(in->head, head_end);
    struct slice tail = {in->tail, in->tail + in->tail_size};
    char close = *head == '{' ? '}' : ']';

    read_head(e, (struct slice){head, head_end});
    while (tail.end > tail.p && json_is_space(tail.end[-1]))
        tail.end--;
    if (tail.end == tail.p || tail.end[-1] != close)
        return false;
    tail.end--;
    const char *first = in->total == in->tail_size ? in->tail + (head - in->head) : NULL;
    return read_tail(e, tail, first);
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
        ret->closes = read_json(in, ret);
}
