/* SPDX-License-Identifier: Apache-2.0 */
/* What the members of the outer object say about the whole trace. */
#include "trace/read/json_text.h"
#include "trace/read/scan_state.h"
#include <assert.h>

#define META_TEXT_MAX (64 << 10) /* longer values are not kept as text */
/* The list of merged traces has a few hundred bytes for each. */
#define MERGED_TEXT_MAX (256 << 10)

static void set_number(struct scanner *s, enum meta_key key, struct slice value)
{
    int64_t number;

    if (slice_int(value, &number))
        s->intake->meta[key] = number;
    else
        scan_value_check(s, (struct raw){value.p, value.end});
}

/* A string's content, or any other value as it is written. */
static void set_text_within(struct scanner *s, enum meta_key key, struct slice value, size_t size_max)
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

static void set_text(struct scanner *s, enum meta_key key, struct slice value)
{
    set_text_within(s, key, value, META_TEXT_MAX);
}

static void take_base(struct scanner *s, struct slice value)
{
    set_number(s, META_base_time_ns, value);
}

static void take_unit(struct scanner *s, struct slice value)
{
    set_text(s, META_display_unit, value);
}

static void take_trace_name(struct scanner *s, struct slice value)
{
    set_text(s, META_trace_name, value);
}

static void take_version(struct scanner *s, struct slice value)
{
    set_text(s, META_engine_version, value);
}

static void take_cuda_runtime(struct scanner *s, struct slice value)
{
    set_number(s, META_cuda_runtime_version, value);
}

static void take_cuda_driver(struct scanner *s, struct slice value)
{
    set_number(s, META_cuda_driver_version, value);
}

static void take_hip_runtime(struct scanner *s, struct slice value)
{
    set_number(s, META_hip_runtime_version, value);
}

static void take_hip_driver(struct scanner *s, struct slice value)
{
    set_number(s, META_hip_driver_version, value);
}

static void take_distributed(struct scanner *s, struct slice value)
{
    struct slice rest = json_inside(value), key, v;

    set_text(s, META_distributed_info, value);
    while (json_next(&rest, &key, &v)) {
        if (slice_is(key, "rank"))
            set_number(s, META_rank, v);
        else if (slice_is(key, "world_size"))
            set_number(s, META_world_size, v);
        else if (slice_is(key, "backend"))
            set_text(s, META_backend, v);
    }
}

static void take_devices(struct scanner *s, struct slice value)
{
    struct slice devices = json_inside(value), members, key, v, device;
    int64_t n = 0;

    set_text(s, META_device_properties, value);
    for (; json_next(&devices, &key, &device); n++) {
        members = json_inside(device);
        while (n == 0 && json_next(&members, &key, &v)) {
            if (slice_is(key, "name"))
                set_text(s, META_device_name, v);
            else if (slice_is(key, "numSms"))
                set_number(s, META_sm_count, v);
        }
    }
    s->intake->meta[META_devices] = n;
}

/* A part is no merged trace any more. */
static void take_merged(struct scanner *s, struct slice value)
{
    if (s->intake->part.number == 0)
        set_text_within(s, META_merged, value, MERGED_TEXT_MAX);
}

static void take_merged_heads(struct scanner *s, struct slice value);

static const struct wanted {
    const char *key;
    void (*take)(struct scanner *s, struct slice value);
} wanted[] = {
    {"baseTimeNanoseconds", take_base},
    {"displayTimeUnit", take_unit},
    {"distributedInfo", take_distributed},
    {"deviceProperties", take_devices},
    {"computeProperties", take_devices},
    {"traceName", take_trace_name},
    {"vllm_version", take_version},
    {"cuda_runtime_version", take_cuda_runtime},
    {"cuda_driver_version", take_cuda_driver},
    {"hip_runtime_version", take_hip_runtime},
    {"hip_driver_version", take_hip_driver},
    {"profdMerged", take_merged},
    {"profdMergedHeads", take_merged_heads},
};

static const struct wanted *find_wanted(const char *key, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        if (strlen(wanted[i].key) == size && memcmp(wanted[i].key, key, size) == 0)
            return &wanted[i];
    return NULL;
}

/* What stood in the head of the trace that the part was. */
static void take_merged_heads(struct scanner *s, struct slice value)
{
    struct slice heads = json_inside(value), head, key, v;
    int64_t number = 0;

    while (number < s->intake->part.number && json_next(&heads, &key, &head))
        number++;
    if (number == 0 || number < s->intake->part.number)
        return;
    struct slice members = json_inside(head);
    while (json_next(&members, &key, &v)) {
        const struct wanted *w = find_wanted(key.p, (size_t)(key.end - key.p));
        if (w && w->take != take_merged_heads && w->take != take_base)
            w->take(s, v);
    }
}

bool scan_meta_wanted(const char *key, size_t size)
{
    return find_wanted(key, size) != NULL;
}

void scan_meta_take(struct scanner *s, const char *key, size_t size, struct raw value)
{
    const struct wanted *w = find_wanted(key, size);

    assert(w);
    w->take(s, (struct slice){value.p, value.end});
}
