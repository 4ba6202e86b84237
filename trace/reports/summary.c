/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace is of: hardware, software, how long, how busy. */
#include "trace/read/json_text.h"
#include "trace/reports/report.h"

static const struct report_column summary_columns[] = {
    RANK_COLUMN,
    {"trace", UNIT_TEXT, "label of the trace"},
    {"gpu", UNIT_TEXT, "name of the first device"},
    {"gpus", UNIT_COUNT, "number of devices visible to the process"},
    {"gpu_memory_bytes", UNIT_BYTES, "memory of the first device"},
    {"sm_count", UNIT_COUNT, "multiprocessors of the first device"},
    {"runtime", UNIT_TEXT, "version of the CUDA or HIP runtime"},
    {"driver", UNIT_TEXT, "version of the driver"},
    {"backend", UNIT_TEXT, "backend of torch.distributed"},
    {"nccl", UNIT_TEXT, "version of NCCL or RCCL"},
    {"world_size", UNIT_COUNT, "number of ranks in the job"},
    {"engine", UNIT_TEXT, "inference engine, if the trace identifies it"},
    {"engine_version", UNIT_TEXT, "version of the engine"},
    {"wall_ns", UNIT_NS, "time from the first slice to the end of the last"},
    {"span_ns", UNIT_NS, "time from the start of the first GPU event to the end of the last"},
    {"busy_ns", UNIT_NS, "time with activity on any stream"},
    {"idle_ns", UNIT_NS, "part of span_ns without GPU activity"},
    {"utilisation", UNIT_SHARE, "busy_ns divided by span_ns"},
    {"gpu_events", UNIT_COUNT, "number of kernels, copies and memsets"},
    {"steps", UNIT_COUNT, "number of steps found"},
    {"slices", UNIT_COUNT, "number of slices, host and GPU"},
};

static struct slice json_of(const struct columns *c, enum meta_key key)
{
    struct text text = columns_meta_text(c, key);
    return (struct slice){text.p, text.p ? text.p + text.size : NULL};
}

/* A member of an object, without quotes; empty where there is none. */
static struct slice summary_member(struct slice object, const char *name)
{
    struct slice rest = json_inside(object), key, value;

    while (json_next(&rest, &key, &value))
        if (slice_is(key, name))
            return slice_unquoted(value);
    return (struct slice){0};
}

static void summary_emit_slice(struct report_rows *ret, struct slice s)
{
    if (s.p < s.end)
        emit_text(ret, (struct text){s.p, (size_t)(s.end - s.p)});
    else
        emit_null(ret);
}

static void emit_meta_text(struct report_rows *ret, const struct columns *c, enum meta_key key)
{
    emit_text_by_number(ret, c, columns_meta(c, key));
}

static int64_t memory_of(const struct columns *c)
{
    struct slice devices = json_inside(json_of(c, META_device_properties)), key, device;
    int64_t bytes;

    if (!json_next(&devices, &key, &device) || !slice_int(summary_member(device, "totalGlobalMem"), &bytes))
        return COLUMN_NULL;
    return bytes;
}

/* 12090 is CUDA 12.9; 60443483 is HIP 6.4.43483. */
static void emit_version(struct report_rows *ret, int64_t cuda, int64_t hip)
{
    if (cuda > 0)
        emit_format(ret, "CUDA %lld.%lld", (long long)cuda / 1000, (long long)cuda % 1000 / 10);
    else if (hip > 0)
        emit_format(ret, "HIP %lld.%lld.%lld", (long long)hip / 10000000, (long long)hip / 100000 % 100,
                    (long long)hip % 100000);
    else
        emit_null(ret);
}

/* Who writes its version, or names its steps. */
static const char *summary_engine_of(const struct columns *c, const struct steps *steps)
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

static int emit_times(struct analysis *a, size_t rank, struct report_rows *ret)
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
    emit_int(ret, wall_of(a->ranks[rank].columns));
    emit_int(ret, has_any ? span : COLUMN_NULL);
    emit_int(ret, has_any ? at_work : COLUMN_NULL);
    emit_int(ret, has_any ? span - at_work : COLUMN_NULL);
    emit_share(ret, at_work, span);
    emit_int(ret, (int64_t)work->n);
    return 0;
}

static int summary_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    struct slice distributed = json_of(c, META_distributed_info);
    const struct steps *steps;
    int r = analysis_steps(a, rank, &steps);

    if (r < 0)
        return r;
    emit_int(ret, a->ranks[rank].number);
    emit_str(ret, a->ranks[rank].label);
    emit_meta_text(ret, c, META_device_name);
    emit_int(ret, columns_meta(c, META_devices));
    emit_int(ret, memory_of(c));
    emit_int(ret, columns_meta(c, META_sm_count));
    emit_version(ret, columns_meta(c, META_cuda_runtime_version), columns_meta(c, META_hip_runtime_version));
    emit_version(ret, columns_meta(c, META_cuda_driver_version), columns_meta(c, META_hip_driver_version));
    emit_meta_text(ret, c, META_backend);
    summary_emit_slice(ret, summary_member(distributed, "nccl_version"));
    emit_int(ret, columns_meta(c, META_world_size));
    emit_str(ret, summary_engine_of(c, steps));
    emit_meta_text(ret, c, META_engine_version);
    r = emit_times(a, rank, ret);
    emit_int(ret, (int64_t)steps->n);
    emit_int(ret, (int64_t)columns_rows(c, TABLE_slice));
    return r;
}

const struct report report_summary = {
    .name = "summary",
    .title = "hardware, software, wall time and GPU utilisation",
    .method = "Hardware and versions come from the metadata of the trace; the engine from its version "
              "there, or from the names of its steps. Busy time is the union over all streams of the "
              "selected GPU activity.",
    .columns = summary_columns,
    .n_columns = ARRAY_SIZE(summary_columns),
    .make_rank = summary_make_rank,
};
