/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace is of: hardware, software, how long, how busy. */
#include "trace/read/json_text.h"
#include "trace/reports/reports.h"

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"trace", UNIT_TEXT, "what it is called here"},
    {"gpu", UNIT_TEXT, "the first device's name"},
    {"gpus", UNIT_COUNT, "devices that the process saw"},
    {"gpu_memory_bytes", UNIT_BYTES, "of the first device"},
    {"sm_count", UNIT_COUNT, "multiprocessors of the first device"},
    {"runtime", UNIT_TEXT, "CUDA's or HIP's version"},
    {"driver", UNIT_TEXT, "the driver's version"},
    {"backend", UNIT_TEXT, "of torch.distributed"},
    {"nccl", UNIT_TEXT, "NCCL's or RCCL's version"},
    {"world_size", UNIT_COUNT, "ranks there are"},
    {"engine", UNIT_TEXT, "what served, where the trace tells"},
    {"engine_version", UNIT_TEXT, "its version"},
    {"wall_ns", UNIT_NS, "from the first slice to the end of the last"},
    {"span_ns", UNIT_NS, "from the first to the end of the last of the GPU's work"},
    {"busy_ns", UNIT_NS, "with anything at work on any stream"},
    {"idle_ns", UNIT_NS, "of span_ns, with nothing at work"},
    {"utilisation", UNIT_SHARE, "busy_ns of span_ns"},
    {"gpu_events", UNIT_COUNT, "kernels, copies and memsets"},
    {"steps", UNIT_COUNT, "that were found"},
    {"slices", UNIT_COUNT, "of host and GPU together"},
};

static struct slice json_of(const struct columns *c, enum meta_key key)
{
    struct text text = columns_meta_text(c, key);
    return (struct slice){text.p, text.p ? text.p + text.size : NULL};
}

/* A member of an object, without quotes; empty where there is none. */
static struct slice member(struct slice object, const char *name)
{
    struct slice rest = json_inside(object), key, value;

    while (json_next(&rest, &key, &value))
        if (slice_is(key, name))
            return slice_unquoted(value);
    return (struct slice){0};
}

static void put_slice(struct report_rows *ret, struct slice s)
{
    if (s.p < s.end)
        put_text(ret, (struct text){s.p, (size_t)(s.end - s.p)});
    else
        put_null(ret);
}

static void put_meta_text(struct report_rows *ret, const struct columns *c, enum meta_key key)
{
    put_text_or_null(ret, c, columns_meta(c, key));
}

static int64_t memory_of(const struct columns *c)
{
    struct slice devices = json_inside(json_of(c, META_device_properties)), key, device;
    int64_t bytes;

    if (!json_next(&devices, &key, &device) || !slice_int(member(device, "totalGlobalMem"), &bytes))
        return COLUMN_NULL;
    return bytes;
}

/* 12090 is CUDA 12.9; 60443483 is HIP 6.4.43483. */
static void put_version(struct report_rows *ret, int64_t cuda, int64_t hip)
{
    if (cuda > 0)
        put_format(ret, "CUDA %lld.%lld", (long long)cuda / 1000, (long long)cuda % 1000 / 10);
    else if (hip > 0)
        put_format(ret, "HIP %lld.%lld.%lld", (long long)hip / 10000000, (long long)hip / 100000 % 100,
                   (long long)hip % 100000);
    else
        put_null(ret);
}

/* Who writes its version, or names its steps. */
static const char *engine_of(const struct columns *c, const struct steps *steps)
{
    if (columns_meta(c, META_engine_version) != COLUMN_NULL)
        return step_source_name(STEP_VLLM);
    return steps->source < STEP_LIGHTNING ? step_source_name(steps->source) : NULL;
}

static int64_t wall_of(const struct columns *c)
{
    int64_t first = columns_meta(c, META_first_ns), last = columns_meta(c, META_last_ns), wall;

    if (first == COLUMN_NULL || last == COLUMN_NULL || __builtin_sub_overflow(last, first, &wall))
        return COLUMN_NULL;
    return wall;
}

static int put_times(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(intervals_done) struct intervals busy = {0};
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_work_busy(work, GPU_ALL, &busy);
    if (r < 0)
        return r;
    bool has_any = busy.n > 0;
    int64_t span = has_any ? busy.items[busy.n - 1].to - busy.items[0].from : 0,
            at_work = intervals_length(&busy);
    put_int(ret, wall_of(a->ranks[rank].columns));
    put_int(ret, has_any ? span : COLUMN_NULL);
    put_int(ret, has_any ? at_work : COLUMN_NULL);
    put_int(ret, has_any ? span - at_work : COLUMN_NULL);
    put_share(ret, at_work, span);
    put_int(ret, (int64_t)work->n);
    return 0;
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    struct slice distributed = json_of(c, META_distributed_info);
    const struct steps *steps;
    int r = analysis_steps(a, rank, &steps);

    if (r < 0)
        return r;
    put_int(ret, a->ranks[rank].number);
    put_str(ret, a->ranks[rank].label);
    put_meta_text(ret, c, META_device_name);
    put_int(ret, columns_meta(c, META_devices));
    put_int(ret, memory_of(c));
    put_int(ret, columns_meta(c, META_sm_count));
    put_version(ret, columns_meta(c, META_cuda_runtime_version), columns_meta(c, META_hip_runtime_version));
    put_version(ret, columns_meta(c, META_cuda_driver_version), columns_meta(c, META_hip_driver_version));
    put_meta_text(ret, c, META_backend);
    put_slice(ret, member(distributed, "nccl_version"));
    put_int(ret, columns_meta(c, META_world_size));
    put_str(ret, engine_of(c, steps));
    put_meta_text(ret, c, META_engine_version);
    r = put_times(a, rank, ret);
    put_int(ret, (int64_t)steps->n);
    put_int(ret, (int64_t)columns_rows(c, TABLE_slice));
    return r;
}

const struct report report_summary = {
    .name = "summary",
    .title = "hardware, software, wall time, how busy the GPU was",
    .how = "Hardware and versions as the trace's own head tells them; the engine by its version there, or by "
           "how it names its steps. Busy is the union over all streams of the work that is looked at.",
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make_rank = add_rank,
};
