/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/rules/host_class.h"

#include "trace/reports/host.h"
#include "trace/reports/kernel_name.h"
#include <errno.h>

/* Bytes of a name that are compared. */
#define NAME_LOOK_MAX 256
/* Frames around a call that are asked; a damaged file may nest without end. */
#define CLIMB_MAX 64

static const char *const class_names[_HOST_CLASS_MAX] = {
#define H(identifier, name) [HOST_CLASS_##identifier] = name,
    HOST_CLASSES(H)
#undef H
};

/* Functions of engines, torch and Triton, calls of the runtimes, and annotations; the first that matches
 * counts. What everything else lies in (a scheduler's event loop) must not be here. */
static const struct {
    const char *glob;
    enum host_class class;
} names[] = {
    /* What runs compiled code is no compilation. */
    {"*torch/_dynamo/eval_frame.py*", HOST_CLASS_NOTHING},
    {"*(dynamo_timed)*", HOST_CLASS_COMPILE},
    {"*torch/_dynamo/convert_frame.py*", HOST_CLASS_COMPILE},
    {"*torch/_dynamo/symbolic_convert.py*", HOST_CLASS_COMPILE},
    {"*torch/_inductor/compile_fx.py*", HOST_CLASS_COMPILE},
    {"*torch/_inductor/codecache.py*: compile*", HOST_CLASS_COMPILE},
    {"*torch/_inductor/async_compile.py*", HOST_CLASS_COMPILE},
    {"*triton/compiler/compiler.py*: compile", HOST_CLASS_COMPILE},
    {"*triton/runtime/jit.py*: _do_compile", HOST_CLASS_COMPILE},
    {"*triton/runtime/autotuner.py*: _bench", HOST_CLASS_COMPILE},
    {"*triton_heuristics.py*: benchmark_all_configs", HOST_CLASS_COMPILE},
    {"*ModuleLoadData*", HOST_CLASS_COMPILE},
    {"*okenizer*: encode*", HOST_CLASS_TOKENIZER},
    {"*okenizer*: decode*", HOST_CLASS_TOKENIZER},
    {"*okenizer*: *encode_plus*", HOST_CLASS_TOKENIZER},
    {"*: *tokenize*", HOST_CLASS_TOKENIZER},
    {"*: *detokenize*", HOST_CLASS_TOKENIZER},
    {"*: batch_decode", HOST_CLASS_TOKENIZER},
    {"*tokenize_*", HOST_CLASS_TOKENIZER},
    {"tokenizer*", HOST_CLASS_TOKENIZER},
    {"detokeniz*", HOST_CLASS_TOKENIZER},
    {"*sched/scheduler.py*: schedule", HOST_CLASS_SCHEDULER}, /* vLLM */
    {"*sched/scheduler.py*: update_from_output", HOST_CLASS_SCHEDULER},
    {"*core/scheduler.py*: schedule", HOST_CLASS_SCHEDULER},
    {"*: get_next_batch_to_run", HOST_CLASS_SCHEDULER}, /* SGLang */
    {"*: get_new_batch_prefill", HOST_CLASS_SCHEDULER},
    {"*: process_batch_result*", HOST_CLASS_SCHEDULER},
    {"*: process_input_requests", HOST_CLASS_SCHEDULER},
    {"*: recv_requests", HOST_CLASS_SCHEDULER},
    {"*shm_broadcast.py*: dequeue", HOST_CLASS_SCHEDULER}, /* a worker waits for its engine's scheduler */
    {"*shm_broadcast.py*: acquire_read", HOST_CLASS_SCHEDULER},
    {"schedule", HOST_CLASS_SCHEDULER},
    {"scheduler*", HOST_CLASS_SCHEDULER},
    {"enumerate(DataLoader)*", HOST_CLASS_DATA},
    {"*torch/utils/data/dataloader.py*: __next__", HOST_CLASS_DATA},
    {"*torch/utils/data/dataloader.py*: _next_data", HOST_CLASS_DATA},
    {"cudaMalloc*", HOST_CLASS_ALLOCATION},
    {"cudaFree*", HOST_CLASS_ALLOCATION},
    {"cudaHostAlloc*", HOST_CLASS_ALLOCATION},
    {"cudaHostRegister*", HOST_CLASS_ALLOCATION},
    {"cudaHostUnregister*", HOST_CLASS_ALLOCATION},
    {"cuMemAlloc*", HOST_CLASS_ALLOCATION},
    {"cuMemFree*", HOST_CLASS_ALLOCATION},
    {"cuMemCreate*", HOST_CLASS_ALLOCATION},
    {"cuMemRelease*", HOST_CLASS_ALLOCATION},
    {"cuMemMap*", HOST_CLASS_ALLOCATION},
    {"cuMemUnmap*", HOST_CLASS_ALLOCATION},
    {"cuMemSetAccess*", HOST_CLASS_ALLOCATION},
    {"cuMemAddress*", HOST_CLASS_ALLOCATION},
    {"hipMalloc*", HOST_CLASS_ALLOCATION},
    {"hipFree*", HOST_CLASS_ALLOCATION},
    {"hipHostMalloc*", HOST_CLASS_ALLOCATION},
    {"hipHostFree*", HOST_CLASS_ALLOCATION},
    {"hipMemCreate*", HOST_CLASS_ALLOCATION},
    {"hipMemMap*", HOST_CLASS_ALLOCATION},
    {"hipMemUnmap*", HOST_CLASS_ALLOCATION},
    {"*built-in function collect*", HOST_CLASS_COLLECTOR},
    {"*Garbage*ollect*", HOST_CLASS_COLLECTOR},
    {"<built-in method read of *", HOST_CLASS_IO},
    {"<built-in method readinto of *", HOST_CLASS_IO},
    {"<built-in method write of *", HOST_CLASS_IO},
    {"<built-in method flush of *", HOST_CLASS_IO},
    {"<built-in method recv* of *", HOST_CLASS_IO},
    {"<built-in method send* of *", HOST_CLASS_IO},
    {"<built-in function print>", HOST_CLASS_IO},
    {"<built-in function open>", HOST_CLASS_IO},
    {"<built-in method fsync*", HOST_CLASS_IO},
    {"*torch/serialization.py*: load", HOST_CLASS_IO},
    {"*torch/serialization.py*: save", HOST_CLASS_IO},
    {"*safetensors*: load_file", HOST_CLASS_IO},
};

const char *host_class_name(enum host_class class)
{
    return class_names[class];
}

/* By the name of a call, or of a frame that other calls lie in; HOST_CLASS_NOTHING where it has none. */
static enum host_class host_class_of_name(struct text name)
{
    char plain[NAME_LOOK_MAX];

    snprintf(plain, sizeof(plain), "%.*s", (int)MIN(name.size, sizeof(plain) - 1), name.p ? name.p : "");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (glob_matches(names[i].glob, plain))
            return names[i].class;
    return HOST_CLASS_NOTHING;
}

int host_classes_new(const struct columns *c, const struct slice_table *slices, struct host_classes *ret)
{
    *ret = (struct host_classes){.c = c, .slices = slices, .n = columns_texts(c)};
    ret->known = calloc((size_t)ret->n + 1, 1);
    ret->runtime = calloc((size_t)ret->n + 1, 1);
    ret->inherited = calloc(slices->n + 1, 1);
    return ret->known && ret->runtime && ret->inherited ? 0 : -ENOMEM;
}

void host_classes_done(struct host_classes *h)
{
    free(h->known);
    free(h->runtime);
    free(h->inherited);
}

static enum host_class class_of_text(struct host_classes *h, int64_t name)
{
    if (name < 0 || name >= h->n)
        return HOST_CLASS_NOTHING;
    if (h->known[name] == 0)
        h->known[name] = (uint8_t)(host_class_of_name(columns_text(h->c, name)) + 1);
    return (enum host_class)(h->known[name] - 1);
}

/* Of a call of the GPU's runtime, by its own name. */
static enum host_class class_of_runtime_name(enum host_class named, struct text name)
{
    if (named != HOST_CLASS_NOTHING || name.size == 0)
        return named == HOST_CLASS_NOTHING ? HOST_CLASS_RUNTIME : named;
    if (memmem(name.p, name.size, "Launch", 6))
        return HOST_CLASS_LAUNCH;
    if (memmem(name.p, name.size, "Memcpy", 6))
        return HOST_CLASS_COPY;
    return sync_call_of(name) == SYNC_WAIT ? HOST_CLASS_SYNC : HOST_CLASS_RUNTIME;
}

static enum host_class class_of_runtime_call(struct host_classes *h, int64_t name)
{
    if (name < 0 || name >= h->n)
        return HOST_CLASS_RUNTIME;
    if (h->runtime[name] == 0)
        h->runtime[name] =
            (uint8_t)(class_of_runtime_name(class_of_text(h, name), columns_text(h->c, name)) + 1);
    return (enum host_class)(h->runtime[name] - 1);
}

/* The class of the innermost named one of a slice and what it lies in. Slices of one parent share their
 * ancestors, so that each is climbed over once. */
static enum host_class class_inherited(struct host_classes *h, uint64_t slice)
{
    enum host_class class = HOST_CLASS_NOTHING;
    uint64_t at = slice;
    int n = 0;

    for (; n < CLIMB_MAX && at != SLICE_NONE && class == HOST_CLASS_NOTHING; n++) {
        if (h->inherited[at] != 0) {
            class = (enum host_class)(h->inherited[at] - 1);
            break;
        }
        class = class_of_text(h, slice_name(h->slices, at));
        at = class == HOST_CLASS_NOTHING ? slice_parent(h->slices, at) : at;
    }
    for (uint64_t filled = slice; n > 0 && filled != SLICE_NONE;
         n--, filled = slice_parent(h->slices, filled)) {
        h->inherited[filled] = (uint8_t)(class + 1);
        if (filled == at)
            break;
    }
    return class;
}

enum host_class host_classes_of(struct host_classes *h, uint64_t slice)
{
    int64_t name = slice_name(h->slices, slice);
    enum host_kind kind = slice_kind(h->slices, slice);
    enum host_class own = kind == HOST_RUNTIME ? class_of_runtime_call(h, name) : HOST_CLASS_NOTHING;

    if (own != HOST_CLASS_NOTHING && own != HOST_CLASS_LAUNCH && own != HOST_CLASS_RUNTIME)
        return own;
    enum host_class inherited = class_inherited(h, slice);
    if (inherited != HOST_CLASS_NOTHING)
        return inherited;
    switch (kind) {
    case HOST_RUNTIME:
        return own;
    case HOST_PYTHON:
        return HOST_CLASS_PYTHON;
    case HOST_OP:
        return HOST_CLASS_OPERATOR;
    case HOST_ANNOTATION:
        return HOST_CLASS_ANNOTATION;
    default:
        return HOST_CLASS_OTHER;
    }
}
