/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about idle time with one cause each: what the host did while the GPU had nothing to do. */
#include "base/units.h"
#include "trace/reports/array.h"
#include "trace/reports/name_table.h"
#include "trace/reports/rules/rules.h"

#include <errno.h>

/* A stall that costs less gains nobody anything that a measurement would show above the noise of runs. */
#define STALL_SHARE_MIN 0.02
/* A host that is slower than its GPU here and there is usual; a tenth of the time is not. */
#define HOST_SHARE_MIN 0.10
/* Nothing may be compiled in a warm server: any of it that the GPU notices is worth a word. */
#define COMPILE_SHARE_MIN 0.005

struct idle_sum {
    int64_t sum, longest;
    size_t n;
    const struct scene_rank *rank; /* of the longest */
    const struct gap *gap;
    struct name_table names; /* of culprits */
    int64_t *by_name;
    size_t cap;
    int64_t unnamed;
};

static void idle_sum_done(struct idle_sum *s)
{
    name_table_done(&s->names);
    free(s->by_name);
}

static int add_culprit(struct idle_sum *s, const struct columns *c, const struct gap *gap)
{
    int64_t name = gap->culprit == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_name, gap->culprit);

    if (name == COLUMN_NULL) {
        s->unnamed = add_time(s->unnamed, gap->idle);
        return 0;
    }
    int64_t number = name_table_number(&s->names, columns_text(c, name));
    if (number < 0)
        return (int)number;
    if (!ARRAY_BESIDE(s->by_name, s->cap, s->names.n))
        return -ENOMEM;
    s->by_name[number] = add_time(s->by_name[number], gap->idle);
    return 0;
}

static int sum_up(const struct scene *scene, enum idle_cause cause, struct idle_sum *ret)
{
    int r = 0;

    for (size_t k = 0; k < scene->n; k++) {
        const struct scene_rank *rank = &scene->ranks[k];
        for (size_t i = 0; i < rank->gaps.n && r >= 0; i++) {
            const struct gap *gap = &rank->gaps.items[i];
            if (rank->causes[i] != cause)
                continue;
            ret->sum = add_time(ret->sum, gap->idle);
            ret->n++;
            if (gap->idle > ret->longest) {
                ret->longest = gap->idle;
                ret->rank = rank;
                ret->gap = gap;
            }
            r = add_culprit(ret, rank->columns, gap);
        }
    }
    return r;
}

static void tell_culprit(const struct idle_sum *s, struct finding *f)
{
    size_t most = 0;

    for (size_t i = 1; i < s->names.n; i++)
        if (s->by_name[i] > s->by_name[most])
            most = i;
    if (s->names.n == 0 || s->by_name[most] < s->unnamed)
        snprintf(
            f->evidence, sizeof(f->evidence),
            "the trace names nothing on the host meanwhile for %.0f %% of it: record Python stacks for one "
            "short session to see what it does",
            100.0 * (double)s->unnamed / (double)s->sum);
    else
        snprintf(f->evidence, sizeof(f->evidence), "the host was in %.*s for %.0f %% of it",
                 (int)MIN(s->names.items[most].size, (size_t)120), s->names.items[most].p,
                 100.0 * (double)s->by_name[most] / (double)s->sum);
}

static int look(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    _cleanup_(idle_sum_done) struct idle_sum s = {0};
    struct finding f = {.confidence = CONFIDENCE_HIGH};
    char figures[FIGURES_MAX], place[PLACE_MAX], longest[UNIT_TEXT_MAX], name[NAME_MAX_SHOWN + 1];
    int r = sum_up(scene, rule->idle, &s);

    if (r < 0 || s.sum == 0 || !s.rank)
        return r;
    f.cost = s.sum;
    snprintf(f.what, sizeof(f.what), "%s: idle for %s, longest %s", rule->seen,
             finding_figures(figures, scene, s.sum), format_duration(longest, s.longest));
    snprintf(f.where, sizeof(f.where), "%zu gap%s; the longest at %s, before %s", s.n, s.n == 1 ? "" : "s",
             finding_place(place, scene, s.rank->rank, s.gap->from, s.gap->to),
             finding_name(name, columns_text(s.rank->columns,
                                             columns_get(s.rank->columns, COL_slice_name, s.gap->after))));
    tell_culprit(&s, &f);
    /* A single stall may be of the recording's start; what nobody names is told from silence alone. */
    if (s.unnamed > s.sum / 2)
        f.confidence = CONFIDENCE_LOW;
    else if (s.longest > s.sum / 2)
        f.confidence = CONFIDENCE_MEDIUM;
    finding_put(scene, rule, &f, ret);
    return 0;
}

const struct rule rule_sync_in_step = {
    .name = "sync_in_step",
    .report = "syncs",
    .share_min = STALL_SHARE_MIN,
    .idle = IDLE_SYNC,
    .seen = "The host waits for the GPU, which then has nothing to do",
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
    .advice = "shorten or overlap what the host does there; a faster core, or more cores for this process, "
              "help too",
    .vllm = "--async-scheduling",
    .sglang = "do not set --disable-overlap-schedule",
    .look = look,
};
