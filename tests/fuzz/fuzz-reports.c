/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every report, flame graph and comparison of traces that somebody else wrote.
 *
 * The bytes are a trace in JSON, or events of a few bytes each that a trace is composed of: so times at the
 * ends of the number line, calls across each other and correlations that many share are a byte away. Bytes of
 * the columns that were read from it can be changed as well: that makes circles of parents, and ranges that
 * reach too far.
 */
#include "base/fs.h"
#include "tests/fuzz/columns-mend.h"
#include "trace/columns/columns.h"
#include "trace/read/reader.h"
#include "trace/reports/diff.h"
#include "trace/reports/flame.h"
#include "trace/reports/report.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_MAX    (128 << 20)
#define TEXT_MAX      (4 << 20)
#define PATCHES_MAX   15
#define PATCHED_BYTES (1 << 22)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* -- A trace of few bytes ----------------------------------------------------------------------------- */

/* How an input begins. */
struct head {
    uint8_t view;    /* which part is looked at, and how */
    uint8_t patches; /* that follow */
};

struct patch {
    uint8_t place[3], value;
};

struct record {
    uint8_t kind, name, thread, ts, dur, correlation, stream, extra;
};

/* Of microseconds: codes from FAR on are the ends of what a trace can hold. */
#define FAR 240
static const char *const far[] = {
    "0",
    "-1",
    "0.001",
    "9223372036854775",
    "-9223372036854775",
    "9223372036854775.807",
    "1764000000000000",
    "4611686018427387",
    "4611686018427388",
    "-4611686018427388",
    "1e300",
    "1e15",
    "-4611686018427387",
    "3600000000",
    "86400000000",
    "2305843009213693",
};

static const char *const kernels[] = {
    "gemm_kernel",
    "void at::native::vectorized_elementwise_kernel<4, Add>(int)",
    "void at::native::elementwise_kernel<128, 4>(int)",
    "flash_fwd_kernel",
    "paged_attention_decode",
    "prefill_attention_kernel",
    "silu_and_mul_kernel",
    "rms_norm_kernel",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)",
    "void deep_ep::internode_ll::dispatch<true>(int)",
    "fused_moe_kernel",
    "=cmd|' /C calc'!A0",
    "<script>alert(1)</script>\\u001b[31m",
    "",
    "multi_tensor_apply_kernel<adam>",
    "void cross_device_reduce_1stage<__half, 8>(a<b<c>>)",
};

static const char *const copies[] = {"Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)",
                                     "Memcpy DtoD (Device -> Device)", "Memset (Device)"};
static const char *const syncs[] = {"Stream Sync", "Context Sync", "Event Sync", "Stream Wait Event"};
static const char *const calls[] = {
    "cudaLaunchKernel",
    "cudaMemcpyAsync",
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventRecord",
    "cudaGraphLaunch",
    "cudaMemcpy",
    "cudaMalloc",
    "hipLaunchKernel",
    "cudaEventSynchronize",
    "cudaHostAlloc",
    "cuLaunchKernelEx",
    "cudaMemsetAsync",
    "cudaStreamWaitEvent",
    "hipMemcpyWithStream",
    "cudaFree",
};
static const char *const ops[] = {
    "aten::mm",
    "aten::addmm",
    "aten::linear",
    "aten::conv2d",
    "forward",
    "autograd::engine::evaluate_function: MmBackward0",
    "c10d::allreduce_",
    "aten::copy_",
    "aten::item",
    "aten::bmm",
    "record_param_comms",
    "aten::scaled_dot_product_attention",
    "Optimizer.step#AdamW.step",
    "aten::add",
    "aten::empty",
    "torch_compile",
};
static const char *const frames[] = {
    "vllm/v1/worker/gpu_worker.py(301): execute_model",
    "nn.Module: Linear_0",
    "sglang/srt/managers/scheduler.py(600): run_batch",
    "<built-in method item>",
    "tokenizer.py(12): decode",
    "threading.py(1): wait",
    "torch/_dynamo/eval_frame.py(1): compile",
    "f",
};
static const char *const steps[] = {
    "ProfilerStep#3",
    "ProfilerStep#18446744073709551615",
    "execute_context_1(16)_generation_4(4)",
    "execute_new_req_1_cached_req_999999999999999",
    "step[DECODE bs=8]",
    "forward",
    "step[EXTEND bs=1 toks=99999999999999999999]",
    "execute_context_0(0)_generation_64(64)",
    "decode[bs=8 tok=8]",
    "ProfilerStep#4",
    "prefill",
    "## Call CompiledFxGraph",
    "execute_0_context_8_generation_1",
    "ProfilerStep#",
    "nccl:all_reduce",
    "TorchDynamo Cache Lookup",
};
static const char *const collectives[] = {"allreduce", "_allgather_base", "send", "all_to_allv"};

enum {
    KERNEL,
    COPY,
    SYNC,
    COMMUNICATION,
    CALL,
    OP,
    FRAME,
    ANNOTATION,
    GPU_ANNOTATION,
    MEMORY,
    ARROW,
    COUNTER,
    _KIND_MAX
};

static void put_time(FILE *f, const char *key, uint8_t code, unsigned unit)
{
    if (code >= FAR)
        fprintf(f, ",\"%s\":%s", key, far[code - FAR]);
    else
        fprintf(f, ",\"%s\":%u", key, code * unit);
}

static void put_gpu(FILE *f, const struct record *r, const char *category, const char *name)
{
    fprintf(f,
            "\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"stream\":%u,\"device\":%u,"
            "\"correlation\":%u,\"External id\":%u,\"graph node id\":%u,\"bytes\":%u%s",
            category, name, r->extra & 1, r->stream, r->stream, r->extra & 1, r->correlation, r->extra >> 4,
            r->extra >> 2, r->extra * 4096u, r->extra & 2 ? ",\"grid\":[1,2,3],\"block\":[32,1,1]" : "");
    if (r->kind % _KIND_MAX == SYNC)
        fprintf(f, ",\"wait_on_stream\":%u,\"wait_on_cuda_event_record_corr_id\":%u", r->extra >> 5,
                r->extra & 31);
    if (r->kind % _KIND_MAX == COMMUNICATION)
        fprintf(f,
                ",\"Collective name\":\"%s\",\"In msg nelems\":%u,\"Out msg nelems\":%s,\"dtype\":\"Half\","
                "\"Group size\":%u,\"Process Group Name\":\"%u\",\"Seq\":%u",
                collectives[r->name >> 4 & 3], r->extra, r->extra == 255 ? "9223372036854775807" : "8",
                r->extra & 15, r->extra >> 6, r->thread);
    fputs("}", f);
}

static void put_host(FILE *f, const struct record *r, const char *category, const char *name)
{
    fprintf(f,
            "\"cat\":\"%s\",\"name\":\"%s\",\"pid\":9,\"tid\":%u,\"args\":{\"correlation\":%u,"
            "\"External id\":%u,\"Ev Idx\":%u,\"Python id\":%u,\"Python parent id\":%u,"
            "\"Input Dims\":[[%u,64],[64,%s]],\"Input type\":[\"float\",\"c10::Half\"],"
            "\"Concrete Inputs\":[\"\",\"1\"],\"Sequence number\":%u}",
            category, name, r->thread & 7, r->correlation, r->extra >> 4, r->extra, r->extra, r->stream,
            r->extra, r->extra & 1 ? "9223372036854775807" : "32", r->stream);
}

static void put_event(FILE *f, const struct record *r)
{
    unsigned kind = r->kind % _KIND_MAX;

    fprintf(f, ",\n{\"ph\":\"%s\"",
            kind == MEMORY    ? "i"
            : kind == ARROW   ? (r->extra & 1 ? "s" : "f")
            : kind == COUNTER ? "C"
                              : "X");
    put_time(f, "ts", r->ts, 7);
    if (kind != MEMORY && kind != ARROW && kind != COUNTER)
        put_time(f, "dur", r->dur, 3);
    fputc(',', f);
    switch (kind) {
    case KERNEL:
    case COMMUNICATION:
        put_gpu(f, r, "kernel", kernels[kind == KERNEL ? r->name % 16 : 8 + (r->name & 1)]);
        break;
    case COPY:
        put_gpu(f, r, r->name % 4 == 3 ? "gpu_memset" : "gpu_memcpy", copies[r->name % 4]);
        break;
    case SYNC:
        put_gpu(f, r, "cuda_sync", syncs[r->name % 4]);
        break;
    case CALL:
        put_host(f, r, "cuda_runtime", calls[r->name % 16]);
        break;
    case OP:
        put_host(f, r, "cpu_op", ops[r->name % 16]);
        break;
    case FRAME:
        put_host(f, r, "python_function", frames[r->name % 8]);
        break;
    case ANNOTATION:
        put_host(f, r, "user_annotation", steps[r->name % 16]);
        break;
    case GPU_ANNOTATION:
        put_gpu(f, r, "gpu_user_annotation", steps[r->name % 16]);
        break;
    case MEMORY:
        fprintf(f,
                "\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"s\":\"t\",\"pid\":9,\"tid\":%u,"
                "\"args\":{\"Addr\":%u,\"Bytes\":%s%u,\"Total Allocated\":%s%u,\"Total Reserved\":%u,"
                "\"Device Type\":%u,\"Device Id\":%u}",
                r->thread & 7, r->correlation, r->extra & 1 ? "-" : "", r->dur * 512u,
                r->extra & 2 ? "9223372036854775" : "", r->dur, r->stream * 1024u, r->extra & 4 ? 1 : 0,
                r->extra >> 5);
        break;
    case ARROW:
        fprintf(f, "\"cat\":\"ac2g\",\"name\":\"ac2g\",\"id\":%u,\"pid\":%u,\"tid\":%u,\"bp\":\"e\"",
                r->correlation, r->extra & 1 ? 9 : 0, r->extra & 1 ? r->thread & 7 : r->stream);
        break;
    default:
        fprintf(f, "\"name\":\"c\",\"pid\":9,\"args\":{\"v\":%u}", r->extra);
    }
    fputs("}", f);
}

static int compose(const uint8_t *data, size_t size)
{
    int fd = memfd_create("trace", MFD_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(dup(fd), "w");

    if (!f)
        abort();
    if (size > 0 && (*data == '{' || *data == '[')) {
        fwrite(data, 1, size, f);
    } else {
        fputs("{\"schemaVersion\":1,\"baseTimeNanoseconds\":1700000000000000000,\"distributedInfo\":{"
              "\"rank\":0,"
              "\"world_size\":4},\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA H100\",\"numSms\":132}],"
              "\"traceEvents\":[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":9,\"args\":{\"name\":"
              "\"python\"}}",
              f);
        for (; size >= sizeof(struct record); data += sizeof(struct record), size -= sizeof(struct record)) {
            struct record r;
            memcpy(&r, data, sizeof(r));
            put_event(f, &r);
        }
        fputs("]}", f);
    }
    fclose(f);
    return fd;
}

/* -- Its columns -------------------------------------------------------------------------------------- */

static int read_columns(int source)
{
    int columns = memfd_create("columns", MFD_CLOEXEC);
    struct read_options o = {.source_fd = source,
                             .columns_fd = columns,
                             .spill_fd = -1,
                             .memory_max = MEMORY_MAX,
                             .text_max = TEXT_MAX,
                             .threads = 1};
    struct read_summary sum;

    if (trace_read(&o, &sum) < 0 || sum.columns_bytes == 0)
        return closep(&columns), -1;
    return columns;
}

static void apply(int fd, const struct patch *patches, size_t n)
{
    static uint8_t file[PATCHED_BYTES];
    ssize_t size = pread(fd, file, sizeof(file), 0);

    if (size <= 0 || size == sizeof(file))
        return;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *place = patches[i].place;
        file[(place[0] | place[1] << 8 | place[2] << 16) % size] = patches[i].value;
    }
    if (columns_mend(file, (size_t)size) && pwrite(fd, file, (size_t)size, 0) != size)
        abort();
}

static struct columns *open_columns(int fd)
{
    struct columns *c = NULL;
    char *reason = NULL;

    if (fd < 0 || columns_open(fd, &c, &reason) < 0)
        free(reason);
    return c;
}

/* What everything is compared with: two steps of a rank. */
static const struct columns *other_trace(void)
{
    static struct columns *other;
    static const struct record records[] = {
        {ANNOTATION, 0, 1, 0, 200, 0, 0, 0},
        {ANNOTATION, 9, 1, 100, 200, 0, 0, 0},
        {OP, 0, 1, 1, 10, 0, 0, 16},
        {CALL, 0, 1, 2, 1, 1, 0, 0},
        {KERNEL, 0, 0, 4, 20, 1, 7, 0},
        {CALL, 0, 1, 20, 1, 2, 0, 0},
        {COMMUNICATION, 0, 1, 22, 90, 2, 9, 72},
        {CALL, 0, 1, 110, 1, 3, 0, 0},
        {KERNEL, 2, 0, 112, 9, 3, 7, 0},
        {COMMUNICATION, 0, 2, 120, 90, 4, 9, 72},
        {COMMUNICATION, 0, 3, 170, 30, 5, 9, 72},
    };

    if (!other) {
        int source = compose((const uint8_t *)records, sizeof(records)), columns = read_columns(source);

        other = open_columns(columns);
        closep(&columns);
        closep(&source);
    }
    return other ?: (abort(), NULL);
}

/* -- What is made of them ----------------------------------------------------------------------------- */

static bool is_answer(int r)
{
    return r == 0 || r == -ENODATA || r == -EBADMSG || r == -E2BIG || r == -ELOOP || r == -ENOMEM;
}

static void make_reports(struct analysis *a)
{
    for (const struct report *const *report = reports; *report; report++) {
        _cleanup_(report_rows_done) struct report_rows rows = {0};
        int r = report_make(*report, a, &rows);

        if (!is_answer(r) || (r == 0 && rows.n_cells % rows.n_columns != 0))
            abort();
    }
}

static void make_chosen_flame(struct analysis *a, const struct flame_choice *choice)
{
    _cleanup_(flame_done) struct flame f = {0};

    if (!is_answer(flame_add_choice(&f, a, choice, false)))
        abort();
}

static void make_flames(struct analysis *a, struct analysis *before)
{
    make_chosen_flame(a, &(struct flame_choice){.by = FLAME_BY_STACK, .of = FLAME_OF_HOST});
    make_chosen_flame(a, &(struct flame_choice){.by = FLAME_BY_OP, .of = FLAME_OF_GPU, .thread = "1"});
    for (enum flame_by by = 0; by < _FLAME_BY_MAX; by++) {
        _cleanup_(flame_done) struct flame f = {0};
        int r = flame_add(&f, a, by, false);

        if (r >= 0)
            r = flame_add(&f, before, by, true);
        if (!is_answer(r))
            abort();
        for (uint32_t i = 1; r >= 0 && i < f.n; i++)
            if (f.frames[i].parent >= i || f.frames[i].total > f.frames[f.frames[i].parent].total)
                abort();
    }
}

static int (*const tables[])(struct diff *d, struct report_rows *ret) = {diff_make_measures,
                                                                         diff_make_kernels, diff_make_ops};

static void compare(struct analysis *before, struct analysis *after)
{
    _cleanup_(diff_done) struct diff d;
    int r = diff_init(&d, before, after);

    for (size_t i = 0; i < ARRAY_SIZE(tables) && r >= 0; i++) {
        _cleanup_(report_rows_done) struct report_rows rows = {0};
        r = tables[i](&d, &rows);
        if (r == 0 && rows.n_columns > 0 && rows.n_cells % rows.n_columns != 0)
            abort();
    }
    if (!is_answer(r))
        abort();
}

static struct analysis_view view_of(uint8_t code)
{
    static const struct analysis_view views[] = {
        {INT64_MIN, INT64_MAX, COLUMN_NULL, NULL}, {0, 500000, COLUMN_NULL, NULL},
        {INT64_MIN, INT64_MAX, 3, NULL},           {INT64_MIN, INT64_MAX, COLUMN_NULL, "decode"},
        {INT64_MAX - 1, INT64_MAX, 0, NULL},       {-1000, 1000000, COLUMN_NULL, "prefill"},
    };

    return views[code % ARRAY_SIZE(views)];
}

static void analyse(const struct columns *c, uint8_t view)
{
    const struct columns *other = other_trace();
    static const int64_t shifts[] = {0, 1000, -5, INT64_MAX / 2, -(INT64_MAX / 2)};
    struct rank one = {.columns = c, .label = "one"}, second = {.columns = other, .label = "other"},
                two[] = {{.columns = other, .label = "0"},
                         {.columns = c, .label = "1", .number = 1, .shift_ns = shifts[(view >> 4) % 5]}};
    struct analysis alone = {.ranks = &one, .n = 1, .view = view_of(view), .hta = view >> 3 & 1},
                    all = {.ranks = two, .n = 2, .view = view_of(view), .hta = view >> 3 & 1},
                    before = {.ranks = &second, .n = 1, .view = VIEW_ALL};

    make_reports(&alone);
    make_reports(&all);
    make_flames(&alone, &before);
    compare(&alone, &alone);
    compare(&before, &alone);
    analysis_done(&alone);
    analysis_done(&all);
    analysis_done(&before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct patch patches[PATCHES_MAX];
    struct head head = {0};

    if (size < sizeof(head))
        return 0;
    memcpy(&head, data, sizeof(head));
    data += sizeof(head);
    size -= sizeof(head);
    size_t n = MIN((size_t)head.patches % (PATCHES_MAX + 1), size / sizeof(*patches));
    if (n > 0)
        memcpy(patches, data, n * sizeof(*patches));
    _cleanup_(closep) int source = compose(data + n * sizeof(*patches), size - n * sizeof(*patches));
    _cleanup_(closep) int columns = read_columns(source);
    if (columns >= 0 && n > 0)
        apply(columns, patches, n);
    _cleanup_(columns_closep) struct columns *c = open_columns(columns);
    if (c)
        analyse(c, head.view);
    return 0;
}
