/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/nsys_events.h"

#include "trace/read/scan_text.h"
#include "trace/sql/nsys.h"
#include <errno.h>

#define GPU_SORT_FIRST 5000000 /* GPUs after every process, as in Kineto's traces */
#define STREAM_NONE    UINT32_MAX
#define WORDS_MAX      64

const char *const nsys_value_columns[_NSYS_VALUE_MAX] = {
#define V(column) #column,
    NSYS_VALUES(V)
#undef V
};

static const char *nsys_label(const char *const *labels, size_t n, int64_t i)
{
    return i >= 0 && (size_t)i < n && labels[i] ? labels[i] : "Unknown";
}
#define LABEL(labels, i) nsys_label(labels, ARRAY_SIZE(labels), i)

static const char *const copy_kinds[] = {NULL,   "HtoD", "DtoH", "HtoA", "AtoH",     "AtoA",     "AtoD",
                                         "DtoA", "DtoD", "HtoH", "PtoP", "UVM HtoD", "UVM DtoH", "UVM DtoD"};
static const char *const memory_kinds[] = {"Pageable", "Pinned",        "Device",        "Array",
                                           "Managed",  "Device Static", "Managed Static"};
static const char *const sync_kinds[] = {NULL, "Event Sync", "Stream Wait Event", "Stream Sync",
                                         "Context Sync"};

static void nsys_give_up(struct nsys_events *n, int error)
{
    if (n->in->error == 0)
        n->in->error = error;
}

static uint32_t nsys_intern(struct nsys_events *n, const char *p)
{
    return clean_text(n->in, p, strlen(p), n->number);
}

int64_t nsys_pid(int64_t global)
{
    return global == COLUMN_NULL ? 0 : (global >> NSYS_ID_BITS) & NSYS_ID_MASK;
}

/* The number of a process among the recorded ones. An unknown process is the only one. */
static int64_t process_number(struct nsys_events *n, int64_t global)
{
    if (global == COLUMN_NULL)
        return 0;
    global &= ~NSYS_ID_MASK;
    for (size_t i = 0; i < n->n_processes; i++)
        if (n->processes[i] == global)
            return (int64_t)i;
    if (n->n_processes == NSYS_PROCESSES_MAX) {
        nsys_give_up(n, -E2BIG);
        return 0;
    }
    n->processes[n->n_processes] = global;
    return (int64_t)n->n_processes++;
}

static int64_t unique_correlation(struct nsys_events *n, int64_t id, int64_t global_process)
{
    if (id <= 0 || id >= NSYS_CORRELATION_STEP)
        return COLUMN_NULL;
    return id + process_number(n, global_process) * NSYS_CORRELATION_STEP;
}

/* The device number of a process counts the GPUs that are visible to it. */
static int64_t gpu_of_device(const struct nsys_events *n, int64_t global_process, int64_t device)
{
    for (size_t i = 0; i < n->n_devices; i++)
        if (n->devices[i].pid == nsys_pid(global_process) && n->devices[i].device == device)
            return n->devices[i].gpu;
    return device == COLUMN_NULL ? 0 : device;
}

bool nsys_is_gpu(const struct process_entry *p)
{
    return p->labels != 0;
}

/* NULL: too many contexts. */
static const struct nsys_context *nsys_find_context(struct nsys_events *n, const struct nsys_row *r)
{
    struct nsys_context c = {.process = r->values[NSYS_globalPid], .context = r->values[NSYS_contextId]};

    for (size_t i = 0; i < n->n_contexts; i++)
        if (n->contexts[i].process == c.process && n->contexts[i].context == c.context)
            return &n->contexts[i];
    if (n->n_contexts == NSYS_CONTEXTS_MAX) {
        nsys_give_up(n, -E2BIG);
        return NULL;
    }

    c.gpu = gpu_of_device(n, c.process, r->values[NSYS_deviceId]);
    for (size_t i = 0; i < n->n_contexts; i++) {
        if (n->contexts[i].gpu != c.gpu)
            continue;
        if (n->contexts[i].process == c.process) {
            c.rank = n->contexts[i].rank;
            break;
        }
        c.rank = MAX(c.rank, n->contexts[i].rank + 1);
    }
    n->contexts[n->n_contexts] = c;
    return &n->contexts[n->n_contexts++];
}

/* False if the row has no event. */
static bool nsys_add_event(struct nsys_events *n, const struct nsys_table *t, const struct nsys_row *r,
                           uint32_t thread, enum event_phase phase)
{
    int64_t ts = r->values[NSYS_start], end = r->values[NSYS_end], dur = 0;
    uint64_t number = n->number++;

    if (ts == COLUMN_NULL) {
        intake_defect(n->in, DEFECT_no_ts, number);
        return false;
    }
    if (phase == EVENT_COMPLETE) {
        if (end == COLUMN_NULL || __builtin_sub_overflow(end, ts, &dur)) {
            intake_defect(n->in, DEFECT_no_dur, number);
            return false;
        }
        if (dur < 0) {
            intake_defect(n->in, DEFECT_negative_dur, number);
            dur = 0;
        }
    }

    uint32_t name = r->name ? clean_text(n->in, r->name, r->name_size, number) : 0;
    uint32_t category = nsys_intern(n, t->category);
    if (name == STRINGS_NONE || category == STRINGS_NONE)
        return false;
    *intake_event(n->in) = (struct event){.ts = ts,
                                          .dur = dur,
                                          .offset = number,
                                          .name = name,
                                          .thread = thread,
                                          .category = intake_category(n->in, category),
                                          .phase = (uint8_t)phase};
    return true;
}

/* An event without a stream is a synchronisation of a context. */
static bool is_stream(int64_t stream)
{
    return stream >= 0 && stream < STREAM_NONE;
}

static uint32_t gpu_thread(struct nsys_events *n, const struct nsys_context *c, int64_t stream)
{
    int64_t tid = is_stream(stream) ? stream + c->rank * NSYS_STREAM_STEP : -1;
    uint32_t number = intake_thread(n->in, c->gpu, 0, tid, 0);
    char words[WORDS_MAX];

    if (n->in->error < 0)
        return number;
    struct thread_entry *thread = &n->in->threads[number];
    struct process_entry *process = &n->in->processes[thread->process];
    if (thread->name == 0 && is_stream(stream)) {
        snprintf(words, sizeof(words), "stream %lld ", (long long)stream);
        thread->name = nsys_intern(n, words);
    }
    if (process->labels == 0) {
        snprintf(words, sizeof(words), "GPU %lld", (long long)c->gpu);
        process->labels = nsys_intern(n, words);
        process->sort_index = (int32_t)(GPU_SORT_FIRST + (c->gpu & UINT16_MAX));
    }
    return number;
}

static void nsys_fill_args(int64_t *args, const struct nsys_row *r)
{
    static const struct {
        enum column column;
        enum nsys_value value;
    } plain[] = {
        {COL_gpu_device, NSYS_deviceId},
        {COL_gpu_context, NSYS_contextId},
        {COL_gpu_stream, NSYS_streamId},
        {COL_gpu_bytes, NSYS_bytes},
        {COL_gpu_registers, NSYS_registersPerThread},
        {COL_gpu_grid_x, NSYS_gridX},
        {COL_gpu_grid_y, NSYS_gridY},
        {COL_gpu_grid_z, NSYS_gridZ},
        {COL_gpu_block_x, NSYS_blockX},
        {COL_gpu_block_y, NSYS_blockY},
        {COL_gpu_block_z, NSYS_blockZ},
        {COL_gpu_graph_id, NSYS_graphId},
        {COL_gpu_graph_node_id, NSYS_graphNodeId},
    };
    int64_t fixed = r->values[NSYS_staticSharedMemory], dynamic = r->values[NSYS_dynamicSharedMemory];
    int64_t shared;

    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        args[arg_group_index(plain[i].column)] = r->values[plain[i].value];
    if (fixed != COLUMN_NULL && dynamic != COLUMN_NULL && !__builtin_add_overflow(fixed, dynamic, &shared))
        args[arg_group_index(COL_gpu_shared_memory)] = shared;
}

/* NULL: no event, or no memory. */
static int64_t *nsys_add_gpu_event(struct nsys_events *n, const struct nsys_table *t, struct nsys_row *r)
{
    const struct nsys_context *c = nsys_find_context(n, r);

    if (!c || !nsys_add_event(n, t, r, gpu_thread(n, c, r->values[NSYS_streamId]), EVENT_COMPLETE))
        return NULL;
    int64_t *args = intake_args(n->in, TABLE_gpu - TABLE_ARGS_FIRST);
    if (args) {
        nsys_fill_args(args, r);
        args[arg_group_index(COL_gpu_device)] = c->gpu;
        if (!is_stream(r->values[NSYS_streamId]))
            args[arg_group_index(COL_gpu_stream)] = -1;
        args[arg_group_index(COL_gpu_correlation)] =
            unique_correlation(n, r->values[NSYS_correlationId], r->values[NSYS_globalPid]);
    }
    return args;
}

static void nsys_name_row(struct nsys_row *r, const char *name)
{
    r->name = name;
    r->name_size = strlen(name);
}

static void take_kernel(struct nsys_events *n, const struct nsys_table *t, struct nsys_row *r)
{
    nsys_add_gpu_event(n, t, r);
}

static void take_graph(struct nsys_events *n, const struct nsys_table *t, struct nsys_row *r)
{
    char name[WORDS_MAX];

    snprintf(name, sizeof(name), "CUDA graph %lld", (long long)r->values[NSYS_graphId]);
    nsys_name_row(r, r->values[NSYS_graphId] == COLUMN_NULL ? "CUDA graph" : name);
    nsys_add_gpu_event(n, t, r);
}

static void take_copy(struct nsys_events *n, const struct nsys_table *t, struct nsys_row *r)
{
    char name[WORDS_MAX];

    snprintf(name, sizeof(name), "Memcpy %s (%s -> %s)", LABEL(copy_kinds, r->values[NSYS_copyKind]),
             LABEL(memory_kinds, r->values[NSYS_srcKind]), LABEL(memory_kinds, r->values[NSYS_dstKind]));
    nsys_name_row(r, name);
    nsys_add_gpu_event(n, t, r);
}

static void take_set(struct nsys_events *n, const struct nsys_table *t, struct nsys_row *r)
{
    char name[WORDS_MAX];

    snprintf(name, sizeof(name), "Memset (%s)", LABEL(memory_kinds, r->values[NSYS_memKind]));
    nsys_name_row(r, name);
    nsys_add_gpu_event(n, t, r);
}

static void take_sync(struct nsys_events *n, const struct nsys_table *t, struct nsys_row *r)
{
    nsys_name_row(r, LABEL(sync_kinds, r->values[NSYS_syncType]));
    int64_t *args = nsys_add_gpu_event(n, t, r);
    if (args)
        args[arg_group_index(COL_gpu_sync_kind)] = nsys_intern(n, r->name);
}

static uint32_t host_thread(struct nsys_events *n, const struct nsys_row *r)
{
    int64_t global = r->values[NSYS_globalTid];

    return intake_thread(n->in, nsys_pid(global), 0, global == COLUMN_NULL ? 0 : global & NSYS_ID_MASK, 0);
}

static void take_call(struct nsys_events *n, const struct nsys_table *t, struct nsys_row *r)
{
    nsys_add_event(n, t, r, host_thread(n, r), EVENT_COMPLETE);
}

/* "cudaLaunchKernel_v7000" has the version of the interface, which Kineto leaves out. */
static size_t without_version(const char *name, size_t size)
{
    size_t digits = 0;

    while (digits < size && name[size - digits - 1] >= '0' && name[size - digits - 1] <= '9')
        digits++;
    bool version = digits >= 4 && size > digits + 2 && memcmp(name + size - digits - 2, "_v", 2) == 0;
    return version ? size - digits - 2 : size;
}

static void take_runtime(struct nsys_events *n, const struct nsys_table *t, struct nsys_row *r)
{
    static const struct nsys_table driver = {.category = "cuda_driver"};

    if (r->name)
        r->name_size = without_version(r->name, r->name_size);
    if (!nsys_add_event(n, r->values[NSYS_eventClass] == 1 ? &driver : t, r, host_thread(n, r),
                        EVENT_COMPLETE))
        return;
    int64_t *args = intake_args(n->in, TABLE_runtime - TABLE_ARGS_FIRST);
    if (args)
        args[arg_group_index(COL_runtime_correlation)] =
            unique_correlation(n, r->values[NSYS_correlationId], r->values[NSYS_globalTid]);
}

static void take_nvtx(struct nsys_events *n, const struct nsys_table *t, struct nsys_row *r)
{
    enum {
        MARK = 34,
        PUSH_POP = 59,
        START_END = 60,
        TEXT_MARK = 65,
        TEXT_PUSH_POP = 70,
        TEXT_START_END = 71
    };

    switch (r->values[NSYS_eventType]) {
    case MARK:
    case TEXT_MARK:
        nsys_add_event(n, t, r, host_thread(n, r), EVENT_INSTANT);
        break;
    case PUSH_POP:
    case START_END:
    case TEXT_PUSH_POP:
    case TEXT_START_END:
    case COLUMN_NULL:
        /* A range that was open when the recording ended. */
        nsys_add_event(n, t, r, host_thread(n, r),
                       r->values[NSYS_end] == COLUMN_NULL ? EVENT_BEGIN : EVENT_COMPLETE);
        break;
    default: /* names and domains */
        break;
    }
}

/* In a separate process, as in Kineto's traces: it overlaps the calls of the thread. */
static void take_overhead(struct nsys_events *n, const struct nsys_table *t, struct nsys_row *r)
{
    int64_t global = r->values[NSYS_globalTid];

    nsys_add_event(
        n, t, r,
        intake_thread(n->in, NSYS_OVERHEAD_PROCESS, 0, global == COLUMN_NULL ? 0 : global & NSYS_ID_MASK, 0),
        EVENT_COMPLETE);
}

/* Tables that attribute contexts to GPUs come first: the deviceId of a synchronisation does not. */
const struct nsys_table nsys_tables[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL",
     "kernel",
     NULL,
     {"demangledName", "shortName", "mangledName"},
     take_kernel},
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "kernel", NULL, {NULL}, take_graph},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", "gpu_memcpy", NULL, {NULL}, take_copy},
    {"CUPTI_ACTIVITY_KIND_MEMSET", "gpu_memset", NULL, {NULL}, take_set},
    {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "cuda_sync", NULL, {NULL}, take_sync},
    {"CUPTI_ACTIVITY_KIND_RUNTIME", "cuda_runtime", NULL, {"nameId"}, take_runtime},
    {"CUPTI_ACTIVITY_KIND_DRIVER", "cuda_driver", NULL, {"nameId"}, take_runtime},
    {"NVTX_EVENTS", "user_annotation", "text", {"textId"}, take_nvtx},
    {"CUBLAS_EVENTS", "cublas", NULL, {"nameId"}, take_call},
    {"CUDNN_EVENTS", "cudnn", NULL, {"nameId"}, take_call},
    {"OSRT_API", "osrt", NULL, {"nameId"}, take_call},
    {"CUPTI_ACTIVITY_KIND_OVERHEAD", "overhead", NULL, {"nameId"}, take_overhead},
    {"PROFILER_OVERHEAD", "overhead", NULL, {"nameId"}, take_overhead},
};

const size_t nsys_tables_count = ARRAY_SIZE(nsys_tables);
