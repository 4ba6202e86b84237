/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about idle time with one cause each: what the host did while the GPU had nothing to do. */
#include "base/array.h"
#include "base/units.h"
#include "trace/reports/name_table.h"
#include "trace/reports/rules/rules.h"

#include <errno.h>
#include <stdarg.h>

/* A stall that costs less gains nobody anything that a measurement would show above the noise of runs. */
#define STALL_SHARE_MIN 0.02
/* A host that is slower than its GPU here and there is usual; a tenth of the time is not. */
#define HOST_SHARE_MIN 0.10
/* Nothing may be compiled in a warm server: any of it that the GPU notices is worth a word. */
#define COMPILE_SHARE_MIN 0.005

/* Calls that a sentence names. */
#define CALLS_SHOWN 3
/* A class with less of the time is not worth a word. */
#define CLASS_SHARE_MIN 0.02
/* Nor is what calls lie in, of less. */
#define AROUND_SHARE_MIN 0.25

struct call_sum {
    int64_t ns;
    size_t n;
    enum host_class class;
};

struct idle_sum {
    int64_t sum, longest;
    size_t n;
    const struct scene_rank *rank; /* of the longest */
    const struct gap *gap;
    int64_t classes[_HOST_CLASS_MAX];
    struct name_table names; /* of calls */
    struct call_sum *by_name;
    size_t cap;
    /* Inclusive times: of the innermost slices that cover most of gaps with this cause alone. */
    struct name_table around;
    int64_t *by_around;
    size_t around_cap;
};

static void idle_sum_done(struct idle_sum *s)
{
    name_table_done(&s->names);
    free(s->by_name);
    name_table_done(&s->around);
    free(s->by_around);
}

static int add_call(struct idle_sum *s, const struct columns *c, const struct idle_part *part)
{
    int64_t name = part->slice == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_name, part->slice);

    s->classes[part->class] = add_time(s->classes[part->class], part->ns);
    if (name == COLUMN_NULL)
        return 0;
    int64_t number = name_table_number(&s->names, columns_text(c, name));
    if (number < 0)
        return (int)number;
    if (!ARRAY_RESERVE_ZEROED(s->by_name, s->cap, s->names.n))
        return -ENOMEM;
    s->by_name[number].ns = add_time(s->by_name[number].ns, part->ns);
    s->by_name[number].n++;
    s->by_name[number].class = part->class;
    return 0;
}

/* Where calls are many and short, what they lie in tells more than they do. */
static int add_around(struct idle_sum *s, const struct columns *c, const struct gap *gap)
{
    int64_t name = gap->culprit == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_name, gap->culprit);
    int64_t number = name == COLUMN_NULL ? 0 : name_table_number(&s->around, columns_text(c, name));

    if (name == COLUMN_NULL || number < 0)
        return (int)number;
    if (!ARRAY_RESERVE_ZEROED(s->by_around, s->around_cap, s->around.n))
        return -ENOMEM;
    s->by_around[number] = add_time(s->by_around[number], gap->covered);
    return 0;
}

/* The parts of one gap follow each other. */
static int sum_up_rank(const struct scene_rank *rank, enum idle_cause cause, struct idle_sum *ret)
{
    int r = 0;

    for (size_t i = 0, next; i < rank->n_parts && r >= 0; i = next) {
        const struct gap *gap = &rank->gaps.items[rank->parts[i].gap];
        int64_t ns = 0;
        for (next = i; next < rank->n_parts && rank->parts[next].gap == rank->parts[i].gap && r >= 0; next++)
            if (rank->parts[next].cause == cause) {
                ns = add_time(ns, rank->parts[next].ns);
                r = add_call(ret, rank->columns, &rank->parts[next]);
            }
        if (ns == gap->idle && r >= 0)
            r = add_around(ret, rank->columns, gap);
        ret->sum = add_time(ret->sum, ns);
        ret->n += ns > 0;
        if (ns > ret->longest) {
            ret->longest = ns;
            ret->rank = rank;
            ret->gap = gap;
        }
    }
    return r;
}

static void add_words(char *buf, size_t size, const char *format, ...) _printf_(3, 4);
static void add_words(char *buf, size_t size, const char *format, ...)
{
    size_t used = strlen(buf);
    va_list ap;

    va_start(ap, format);
    vsnprintf(buf + used, size - used, format, ap);
    va_end(ap);
}

static int compare_calls(const void *x, const void *y, void *arg)
{
    const struct call_sum *calls = arg;
    int64_t a = calls[*(const size_t *)x].ns, b = calls[*(const size_t *)y].ns;

    return (a < b) - (a > b);
}

/* "cudaFree 96 % (25 calls), cudaMalloc 4 % (31 calls)": self time, the longest first. */
static int name_calls(const struct idle_sum *s, char *buf, size_t size)
{
    _cleanup_(freep) size_t *order = calloc(s->names.n + 1, sizeof(*order));

    if (!order)
        return -ENOMEM;
    for (size_t i = 0; i < s->names.n; i++)
        order[i] = i;
    qsort_r(order, s->names.n, sizeof(*order), compare_calls, s->by_name);
    for (size_t i = 0; i < MIN(s->names.n, (size_t)CALLS_SHOWN); i++) {
        const struct call_sum *call = &s->by_name[order[i]];
        char name[NAME_MAX_SHOWN + 1];
        if ((double)call->ns < CLASS_SHARE_MIN * (double)s->sum)
            break;
        add_words(buf, size, "%s%s %.0f %% (%zu call%s)", i ? ", " : "",
                  finding_text(name, s->names.items[order[i]]), 100.0 * (double)call->ns / (double)s->sum,
                  call->n, call->n == 1 ? "" : "s");
    }
    return 0;
}

/* "operators 60 %, Python 22 %, no recorded call 18 %" */
static void name_classes(const struct idle_sum *s, char *buf, size_t size)
{
    bool named[_HOST_CLASS_MAX] = {0};
    size_t shown = 0;

    for (;;) {
        size_t most = _HOST_CLASS_MAX;
        for (size_t i = 0; i < _HOST_CLASS_MAX; i++)
            if (!named[i] && (most == _HOST_CLASS_MAX || s->classes[i] > s->classes[most]))
                most = i;
        if (most == _HOST_CLASS_MAX || (double)s->classes[most] < CLASS_SHARE_MIN * (double)s->sum)
            return;
        named[most] = true;
        add_words(buf, size, "%s%s %.0f %%", shown++ ? ", " : "", host_class_name((enum host_class)most),
                  100.0 * (double)s->classes[most] / (double)s->sum);
    }
}

/* "; inside aten::split_with_sizes 94 %", where that says more than the calls themselves. */
static void name_around(const struct idle_sum *s, char *buf, size_t size)
{
    char name[NAME_MAX_SHOWN + 1];
    size_t most = 0;

    for (size_t i = 1; i < s->around.n; i++)
        if (s->by_around[i] > s->by_around[most])
            most = i;
    /* A call that is named already lies in itself. */
    for (size_t i = 0; i < s->names.n && s->around.n > 0; i++)
        if (s->by_name[i].ns >= s->by_around[most] / 2 &&
            s->names.items[i].size == s->around.items[most].size &&
            memcmp(s->names.items[i].p, s->around.items[most].p, s->around.items[most].size) == 0)
            return;
    if (s->around.n > 0 && (double)s->by_around[most] >= AROUND_SHARE_MIN * (double)s->sum)
        add_words(buf, size, "; inside %s, with all that it calls, %.0f %%",
                  finding_text(name, s->around.items[most]),
                  100.0 * (double)s->by_around[most] / (double)s->sum);
}

static int tell_calls(const struct idle_sum *s, const struct rule *rule, struct finding *f)
{
    char calls[FINDING_TEXT_MAX] = "", classes[FINDING_TEXT_MAX] = "";
    int r = name_calls(s, calls, sizeof(calls));

    name_classes(s, classes, sizeof(classes));
    snprintf(f->evidence, sizeof(f->evidence), "self time of the host in this idle time: %s%s%s", classes,
             *calls ? "; of calls: " : "", calls);
    if (rule->idle == IDLE_HOST)
        name_around(s, f->evidence, sizeof(f->evidence));
    return r;
}

static int look(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    _cleanup_(idle_sum_done) struct idle_sum s = {0};
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX], place[PLACE_MAX], longest[UNIT_TEXT_MAX], name[NAME_MAX_SHOWN + 1];
    int r = 0;

    for (size_t i = 0; i < scene->n && r >= 0; i++)
        r = sum_up_rank(&scene->ranks[i], rule->idle, &s);
    f.cost = f.of[TIME_IDLE] = s.sum;
    if (r < 0 || s.sum == 0 || !finding_matters(scene, rule, &f))
        return r;
    snprintf(f.what, sizeof(f.what), "%s: idle for %s, longest %s", rule->seen,
             finding_figures(figures, scene, s.sum), format_duration(longest, s.longest));
    snprintf(f.where, sizeof(f.where), "%zu gap%s; the longest at %s, before %s", s.n, s.n == 1 ? "" : "s",
             finding_place(place, scene, s.rank->rank, s.gap->from, s.gap->to),
             finding_name(name, columns_text(s.rank->columns,
                                             columns_get(s.rank->columns, COL_slice_name, s.gap->after))));
    r = tell_calls(&s, rule, &f);
    /* What nobody names is told from silence alone. */
    int64_t unnamed = s.classes[HOST_CLASS_NOTHING];
    if (unnamed > s.sum / 2) {
        f.confidence = CONFIDENCE_INFERRED;
        snprintf(f.ground, sizeof(f.ground),
                 "the next work was launched only in the gap, but the trace has no call on that thread for "
                 "%.0f %% of the time: record Python stacks for one short session to see what it does",
                 100.0 * (double)unnamed / (double)s.sum);
    } else if (rule->idle == IDLE_COMPILE && s.classes[HOST_CLASS_LAUNCH] > s.sum / 2) {
        f.confidence = CONFIDENCE_INFERRED;
        snprintf(
            f.ground, sizeof(f.ground),
            "calls that launch take 1 ms and more while the GPU has nothing to do: most likely they load or "
            "compile what they launch");
    } else if (rule->idle == IDLE_SYNC &&
               s.classes[HOST_CLASS_SYNC] + s.classes[HOST_CLASS_COPY] < s.sum / 2) {
        f.confidence = CONFIDENCE_INFERRED;
        snprintf(f.ground, sizeof(f.ground),
                 "when the GPU ran dry, the thread that launched the next work was in a call that waits for "
                 "the GPU; most of the time is what it then took to launch");
    }
    finding_put(scene, rule, &f, ret);
    return r;
}

#define GROUND_SELF_TIME                                                                                     \
    "the next work was launched only in the gap; self time of the calls of the thread that launched it"

const struct rule rule_sync_in_step = {
    .name = "sync_in_step",
    .report = "syncs",
    .share_min = STALL_SHARE_MIN,
    .idle = IDLE_SYNC,
    .seen = "The host waits for the GPU, which then has nothing to do",
    .ground = GROUND_SELF_TIME,
    .advice =
        "find the caller in the report syncs (.item(), .cpu(), nonzero, print, blocking copies) and move it "
        "behind the step, or copy with non_blocking=True from pinned memory and wait for an event later",
    .vllm = "--async-scheduling takes the copy of sampled tokens off the critical path",
    .sglang = "do not set --disable-overlap-schedule",
    .look = look,
};

const struct rule rule_allocation_in_step = {
    .name = "allocation_in_step",
    .report = "gaps",
    .share_min = STALL_SHARE_MIN,
    .idle = IDLE_ALLOCATION,
    .seen = "The GPU waits for its memory to be allocated or freed",
    .ground = GROUND_SELF_TIME,
    .advice =
        "warm up with the largest shapes, so that PyTorch's allocator has what it needs; "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation; do not call empty_cache()",
    .vllm = "a smaller --gpu-memory-utilization leaves room",
    .sglang = "a smaller --mem-fraction-static leaves room",
    .look = look,
};

const struct rule rule_recompilation = {
    .name = "recompilation",
    .report = "gap_list",
    .share_min = COMPILE_SHARE_MIN,
    .idle = IDLE_COMPILE,
    .seen = "Code is compiled or loaded while requests are served",
    .ground = GROUND_SELF_TIME,
    .advice =
        "warm up with all shapes before traffic; TORCH_LOGS=recompiles tells which guard failed: mark such "
        "dimensions dynamic",
    .vllm = "list the batch sizes in --compilation-config compile_sizes and cudagraph_capture_sizes",
    .sglang = "raise --torch-compile-max-bs, or send warm-up requests of each size first",
    .look = look,
};

const struct rule rule_starved_by_tokenizer = {
    .name = "starved_by_tokenizer",
    .report = "gaps",
    .share_min = STALL_SHARE_MIN,
    .idle = IDLE_TOKENIZER,
    .seen = "The GPU waits for the tokenizer",
    .ground = GROUND_SELF_TIME,
    .advice = "tokenize in other processes than the one that feeds the GPU, and use a fast (Rust) tokenizer",
    .vllm = "--api-server-count above 1, --tokenizer-mode auto",
    .sglang =
        "--tokenizer-worker-num above 1, a larger --stream-interval, or --skip-tokenizer-init with ids from "
        "the client",
    .look = look,
};

const struct rule rule_starved_by_scheduler = {
    .name = "starved_by_scheduler",
    .report = "gaps",
    .share_min = STALL_SHARE_MIN,
    .idle = IDLE_SCHEDULER,
    .seen = "The GPU waits for the scheduler",
    .ground = GROUND_SELF_TIME,
    .advice = "overlap scheduling of the next step with the step that runs",
    .vllm = "--async-scheduling",
    .sglang =
        "do not set --disable-overlap-schedule; --num-continuous-decode-steps, a larger --stream-interval",
    .look = look,
};

const struct rule rule_starved_by_data = {
    .name = "starved_by_data",
    .report = "gaps",
    .share_min = STALL_SHARE_MIN,
    .idle = IDLE_DATA,
    .seen = "The GPU waits for the data loader",
    .ground = GROUND_SELF_TIME,
    .advice =
        "more DataLoader workers (num_workers), pin_memory=True, prefetch_factor, persistent_workers=True",
    .look = look,
};

const struct rule rule_starved_by_collector = {
    .name = "starved_by_collector",
    .report = "gaps",
    .share_min = STALL_SHARE_MIN,
    .idle = IDLE_COLLECTOR,
    .seen = "The GPU waits for Python's garbage collector",
    .ground = GROUND_SELF_TIME,
    .advice = "gc.freeze() after start-up, gc.disable() or a higher gc.set_threshold() while serving",
    .sglang = "POST /freeze_gc after warm-up",
    .look = look,
};

const struct rule rule_host_bound = {
    .name = "host_bound",
    .report = "gaps",
    .share_min = HOST_SHARE_MIN,
    .idle = IDLE_HOST,
    .seen = "The GPU waits for the host",
    .ground = GROUND_SELF_TIME,
    .advice = "shorten or overlap what the host does there; a faster core, or more cores for this process, "
              "help too",
    .vllm = "--async-scheduling",
    .sglang = "do not set --disable-overlap-schedule",
    .look = look,
};
