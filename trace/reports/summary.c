/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace is of: hardware, software, how long, how busy. */
#include "trace/read/json_text.h"
#include "trace/reports/report.h"

#define SUMMARY_COLUMNS(C)                                                                                   \
    RANK_COLUMN(C)                                                                                           \
    C(trace, TEXT, "label of the trace")                                                                     \
    C(gpu, TEXT, "name of the first device")                                                                 \
    C(gpus, COUNT, "number of devices visible to the process")                                               \
    C(gpu_memory_bytes, BYTES, "memory of the first device")                                                 \
    C(sm_count, COUNT, "multiprocessors of the first device")                                                \
    C(runtime, TEXT, "version of the CUDA or HIP runtime")                                                   \
    C(driver, TEXT, "version of the driver")                                                                 \
    C(backend, TEXT, "backend of torch.distributed")                                                         \
    C(nccl, TEXT, "version of NCCL or RCCL")                                                                 \
    C(world_size, COUNT, "number of ranks in the job")                                                       \
    C(engine, TEXT, "inference engine, if the trace identifies it")                                          \
    C(engine_version, TEXT, "version of the engine")                                                         \
    C(wall_ns, NS, "time from the first slice to the end of the last")                                       \
    C(span_ns, NS, "time from the start of the first GPU event to the end of the last")                      \
    C(busy_ns, NS, "time with activity on any stream")                                                       \
    C(idle_ns, NS, "part of span_ns without GPU activity")                                                   \
    C(utilisation, SHARE, "busy_ns divided by span_ns")                                                      \
    C(gpu_events, COUNT, "number of kernels, copies and memsets")                                            \
    C(steps, COUNT, "number of steps found")                                                                 \
    C(slices, COUNT, "number of slices, host and GPU")
REPORT_ROW(summary, SUMMARY_COLUMNS);

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

static int64_t memory_of(const struct columns *c)
{
    struct slice devices = json_inside(json_of(c, META_device_properties)), key, device;
    int64_t bytes;

    if (!json_next(&devices, &key, &device) || !slice_int(summary_member(device, "totalGlobalMem"), &bytes))
        return COLUMN_NULL;
    return bytes;
}

#define VERSION_MAX 64

/* 12090 is CUDA 12.9; 60443483 is HIP 6.4.43483. */
static const char *version_text(char buf[VERSION_MAX], int64_t cuda, int64_t hip)
{
    if (cuda > 0)
        snprintf(buf, VERSION_MAX, "CUDA %lld.%lld", (long long)cuda / 1000, (long long)cuda % 1000 / 10);
    else if (hip > 0)
        snprintf(buf, VERSION_MAX, "HIP %lld.%lld.%lld", (long long)hip / 10000000,
                 (long long)hip / 100000 % 100, (long long)hip % 100000);
    return cuda > 0 || hip > 0 ? buf : NULL;
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

static struct text meta_text(const struct columns *c, enum meta_key key)
{
    return row_text(c, columns_meta(c, key));
}

static int summary_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    struct slice nccl = summary_member(json_of(c, META_distributed_info), "nccl_version");
    const struct steps *steps;
    const struct gpu_work *work;
    struct gpu_times times;
    char runtime[VERSION_MAX], driver[VERSION_MAX];
    int r = analysis_steps(a, rank, &steps);

    if (r >= 0)
        r = analysis_gpu(a, rank, &work);
    if (r >= 0)
        r = gpu_work_times(work, &times);
    if (r < 0)
        return r;
    bool any = times.span > 0;
    EMIT_ROW(summary, ret, .rank = a->ranks[rank].number, .trace = row_str(a->ranks[rank].label),
             .gpu = meta_text(c, META_device_name), .gpus = columns_meta(c, META_devices),
             .gpu_memory_bytes = memory_of(c), .sm_count = columns_meta(c, META_sm_count),
             .runtime = row_str(version_text(runtime, columns_meta(c, META_cuda_runtime_version),
                                             columns_meta(c, META_hip_runtime_version))),
             .driver = row_str(version_text(driver, columns_meta(c, META_cuda_driver_version),
                                            columns_meta(c, META_hip_driver_version))),
             .backend = meta_text(c, META_backend),
             .nccl =
                 nccl.p < nccl.end ? (struct text){nccl.p, (size_t)(nccl.end - nccl.p)} : (struct text){0},
             .world_size = columns_meta(c, META_world_size), .engine = row_str(summary_engine_of(c, steps)),
             .engine_version = meta_text(c, META_engine_version), .wall_ns = wall_of(c),
             .span_ns = any ? times.span : COLUMN_NULL, .busy_ns = any ? times.busy : COLUMN_NULL,
             .idle_ns = any ? times.span - times.busy : COLUMN_NULL,
             .utilisation = row_share(times.busy, times.span), .gpu_events = (int64_t)work->n,
             .steps = (int64_t)steps->n, .slices = (int64_t)columns_rows(c, TABLE_slice));
    return 0;
}

const struct report report_summary = {
    .name = "summary",
    .title = "hardware, software, wall time and GPU utilisation",
    .method = "Hardware and versions come from the metadata of the trace; the engine from its version "
              "there, or from the names of its steps. Busy time is the union over all streams of the "
              "selected GPU activity.",
    REPORT_COLUMNS(summary),
    .make_rank = summary_make_rank,
};
