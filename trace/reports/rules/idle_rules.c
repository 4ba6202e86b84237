/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about idle time with one cause each: what the host did while the GPU had nothing to do. */
#include "base/array.h"
#include "base/units.h"
#include "trace/reports/grouping.h"
#include "trace/reports/host.h"
#include "trace/reports/rules/idle_causes.h"
#include "trace/reports/rules/rule.h"
#include <errno.h>

/* -- Idle rules ------------------------------------------------------------------------------------------ */

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

struct idle_rule_call_sum {
    int64_t ns;
    size_t n;
    enum host_class class;
};

struct idle_sum {
    int64_t sum, longest;
    size_t n;
    const struct rule_rank *rank; /* of the longest */
    const struct gap *gap;
    int64_t classes[_HOST_CLASS_MAX];
    struct name_table names; /* of calls */
    struct idle_rule_call_sum *by_name;
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

static int idle_rule_add_call(struct idle_sum *s, const struct rule_rank *rank, struct text_numbers *names,
                              const struct idle_part *part)
{
    int64_t name = slice_name(rank->slices, part->slice);

    s->classes[part->class] = add_time(s->classes[part->class], part->ns);
    if (name == COLUMN_NULL)
        return 0;
    int64_t number = text_numbers_get(names, name);
    if (number < 0)
        return (int)number;
    if (!ARRAY_RESERVE_ZEROED(s->by_name, s->cap, s->names.n))
        return -ENOMEM;
    s->by_name[number].ns = add_time(s->by_name[number].ns, part->ns);
    s->by_name[number].n++;
    s->by_name[number].class = part->class;
    return 0;
}

/* Where calls are many and short, the slices around them are more informative. */
static int add_around(struct idle_sum *s, const struct rule_rank *rank, struct text_numbers *names,
                      const struct gap *gap)
{
    int64_t name = slice_name(rank->slices, gap->blamed);
    int64_t number = name == COLUMN_NULL ? 0 : text_numbers_get(names, name);

    if (name == COLUMN_NULL || number < 0)
        return (int)number;
    if (!ARRAY_RESERVE_ZEROED(s->by_around, s->around_cap, s->around.n))
        return -ENOMEM;
    s->by_around[number] = add_time(s->by_around[number], gap->covered);
    return 0;
}

/* The parts of one gap follow each other. */
static int sum_up_rank(const struct rule_rank *rank, enum idle_cause cause, struct idle_sum *ret)
{
    _cleanup_(text_numbers_done) struct text_numbers names = {.c = rank->columns, .names = &ret->names},
                                                     around = {.c = rank->columns, .names = &ret->around};
    int r = 0;

    for (size_t i = 0, next; i < rank->n_parts && r >= 0; i = next) {
        const struct gap *gap = &rank->gaps.items[rank->parts[i].gap];
        int64_t ns = 0;
        for (next = i; next < rank->n_parts && rank->parts[next].gap == rank->parts[i].gap && r >= 0; next++)
            if (rank->parts[next].cause == cause) {
                ns = add_time(ns, rank->parts[next].ns);
                r = idle_rule_add_call(ret, rank, &names, &rank->parts[next]);
            }
        if (ns == gap->idle && r >= 0)
            r = add_around(ret, rank, &around, gap);
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

static int idle_rule_compare_calls(const void *x, const void *y, void *arg)
{
    const struct idle_rule_call_sum *calls = arg;
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
    qsort_r(order, s->names.n, sizeof(*order), idle_rule_compare_calls, s->by_name);
    for (size_t i = 0; i < MIN(s->names.n, (size_t)CALLS_SHOWN); i++) {
        const struct idle_rule_call_sum *call = &s->by_name[order[i]];
        char name[NAME_MAX_SHOWN + 1];
        if ((double)call->ns < CLASS_SHARE_MIN * (double)s->sum)
            break;
        finding_append(buf, size, "%s%s %.0f %% (%zu call%s)",
                       i ? ", " : "; calls: ", finding_text(name, s->names.items[order[i]]),
                       100.0 * (double)call->ns / (double)s->sum, call->n, call->n == 1 ? "" : "s");
    }
    return 0;
}

/* "; inside aten::split_with_sizes 94 %", if that adds information to the calls. */
static void idle_rule_name_around(const struct idle_sum *s, char *buf, size_t size)
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
        finding_append(buf, size, "; inside %s, callees included, %.0f %%",
                       finding_text(name, s->around.items[most]),
                       100.0 * (double)s->by_around[most] / (double)s->sum);
}

static const char *name_class(size_t class)
{
    return host_class_name((enum host_class) class);
}

static int describe_calls(const struct idle_sum *s, const struct rule *rule, struct finding *f)
{
    snprintf(f->evidence, sizeof(f->evidence), "host self time during this idle time: ");
    finding_append_shares(f->evidence, sizeof(f->evidence), s->classes, _HOST_CLASS_MAX, s->sum,
                          CLASS_SHARE_MIN, name_class);
    int r = name_calls(s, f->evidence, sizeof(f->evidence));

    if (rule->idle == IDLE_HOST)
        idle_rule_name_around(s, f->evidence, sizeof(f->evidence));
    return r;
}

static int idle_rule_evaluate(const struct rule_context *context, const struct rule *rule,
                              struct report_rows *ret)
{
    _cleanup_(idle_sum_done) struct idle_sum s = {0};
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX], location[LOCATION_MAX], longest[UNIT_TEXT_MAX], name[NAME_MAX_SHOWN + 1];
    int r = 0;

    if (context->idle[rule->idle] == 0)
        return 0;
    for (size_t i = 0; i < context->n && r >= 0; i++)
        r = sum_up_rank(&context->ranks[i], rule->idle, &s);
    f.cost = f.of[TIME_IDLE] = s.sum;
    if (r < 0 || s.sum == 0 || !finding_matters(context, rule, &f))
        return r;
    snprintf(f.what, sizeof(f.what), "%s: the GPU was idle %s %s, longest gap %s", rule->seen,
             finding_figures(figures, context, s.sum), rule->waits, format_duration(longest, s.longest));
    finding_set_place(&f, s.rank, s.gap->from, s.gap->to, s.gap->after);
    snprintf(f.where, sizeof(f.where), "%zu gap%s; longest: %s, before %s", s.n, s.n == 1 ? "" : "s",
             finding_location(location, context, &f),
             finding_name(name, columns_text(s.rank->columns,
                                             columns_get(s.rank->columns, COL_slice_name, s.gap->after))));
    r = describe_calls(&s, rule, &f);
    /* Unnamed time is inferred from missing records. */
    int64_t unnamed = s.classes[HOST_CLASS_NOTHING];
    if (unnamed > s.sum / 2) {
        f.confidence = CONFIDENCE_INFERRED;
        snprintf(
            f.ground, sizeof(f.ground),
            "the next GPU event was launched only in the gap, but the trace contains no call on that thread "
            "for %.0f %% of the time: record Python stacks in one short session to identify the cause",
            100.0 * (double)unnamed / (double)s.sum);
    } else if (rule->idle == IDLE_COMPILE && s.classes[HOST_CLASS_LAUNCH] > s.sum / 2) {
        f.confidence = CONFIDENCE_INFERRED;
        snprintf(
            f.ground, sizeof(f.ground),
            "launch calls take 1 ms and more while the GPU is idle: most likely they load or compile code");
    } else if (rule->idle == IDLE_SYNC &&
               s.classes[HOST_CLASS_SYNC] + s.classes[HOST_CLASS_COPY] < s.sum / 2) {
        f.confidence = CONFIDENCE_INFERRED;
        snprintf(f.ground, sizeof(f.ground),
                 "when the GPU became idle, the thread that launched the next event was in a call that waits "
                 "for the GPU; most of the time passed between that call and the launch");
    }
    finding_emit(context, rule, &f, ret);
    return r;
}

/* One line of the table: name, what is idle, the report with more, the least share, and what people read. */
#define IDLE_RULE(rule_name, cause, report_name, least, label, waiting, ...)                                 \
    const struct rule rule_##rule_name = {                                                                   \
        .name = #rule_name,                                                                                  \
        .idle = cause,                                                                                       \
        .report = report_name,                                                                               \
        .share_min = least,                                                                                  \
        .seen = label,                                                                                       \
        .waits = waiting,                                                                                    \
        .ground = "the next GPU event was launched only in the gap; self time of the calls of the "          \
                  "launching thread",                                                                        \
        .evaluate = idle_rule_evaluate,                                                                      \
        __VA_ARGS__,                                                                                         \
    }

IDLE_RULE(
    sync_in_step, IDLE_SYNC, "syncs", STALL_SHARE_MIN, "Synchronisation", "because the host waited for it",
    .advice =
        "find the caller in the report syncs (.item(), .cpu(), nonzero, print, blocking copies) and move it "
        "after the step, or copy with non_blocking=True from pinned memory and wait for an event later",
    .vllm = "--async-scheduling takes the copy of sampled tokens off the critical path",
    .sglang = "do not set --disable-overlap-schedule");

IDLE_RULE(
    allocation_in_step, IDLE_ALLOCATION, "gaps", STALL_SHARE_MIN, "Memory allocation",
    "waiting for memory to be allocated or freed",
    .advice =
        "warm up with the largest shapes, so that the allocator of PyTorch needs no more memory; "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation; do not call empty_cache()",
    .vllm = "a smaller --gpu-memory-utilization leaves room",
    .sglang = "a smaller --mem-fraction-static leaves room");

IDLE_RULE(
    recompilation, IDLE_COMPILE, "gap_list", COMPILE_SHARE_MIN, "Recompilation",
    "waiting for code to be compiled or loaded",
    .advice =
        "warm up with all shapes before traffic; TORCH_LOGS=recompiles shows which guard failed: mark such "
        "dimensions dynamic",
    .vllm = "list the batch sizes in --compilation-config compile_sizes and cudagraph_capture_sizes",
    .sglang = "raise --torch-compile-max-bs, or send warm-up requests of each size first");

IDLE_RULE(
    starved_by_tokenizer, IDLE_TOKENIZER, "gaps", STALL_SHARE_MIN, "Tokenizer-bound",
    "waiting for the tokenizer",
    .advice =
        "tokenize in other processes than the one that launches kernels, and use a fast (Rust) tokenizer",
    .vllm = "--api-server-count above 1, --tokenizer-mode auto",
    .sglang =
        "--tokenizer-worker-num above 1, a larger --stream-interval, or --skip-tokenizer-init with ids from "
        "the client");

IDLE_RULE(
    starved_by_scheduler, IDLE_SCHEDULER, "gaps", STALL_SHARE_MIN, "Scheduler-bound",
    "waiting for the scheduler", .advice = "overlap scheduling of the next step with the step that runs",
    .vllm = "--async-scheduling",
    .sglang =
        "do not set --disable-overlap-schedule; --num-continuous-decode-steps, a larger --stream-interval");

IDLE_RULE(
    starved_by_data, IDLE_DATA, "gaps", STALL_SHARE_MIN, "Data-loader-bound", "waiting for the data loader",
    .advice =
        "more DataLoader workers (num_workers), pin_memory=True, prefetch_factor, persistent_workers=True");

IDLE_RULE(starved_by_collector, IDLE_COLLECTOR, "gaps", STALL_SHARE_MIN, "Garbage collection",
          "waiting for Python's garbage collector",
          .advice = "gc.freeze() after start-up, gc.disable() or a higher gc.set_threshold() while serving",
          .sglang = "POST /freeze_gc after warm-up");

IDLE_RULE(host_bound, IDLE_HOST, "gaps", HOST_SHARE_MIN, "Host-bound", "waiting for the host",
          .advice =
              "shorten or overlap the host activity in these gaps; a faster core, or more cores for this "
              "process, also help",
          .vllm = "--async-scheduling", .sglang = "do not set --disable-overlap-schedule");

/* -- Unexplained idle ------------------------------------------------------------------------------------ */

/* Idle time that no other finding claims, where it is much: what it consists of, where it is, what shows it.
 */

#define UNEXPLAINED_SHARE_MIN 0.10
/* A cause with less of it is not worth a word. */
#define CAUSE_SHARE_MIN 0.03

/* What shows more of a cause, and what to try. */
static const struct {
    const char *what, *report, *advice;
} causes[_IDLE_CAUSE_MAX] = {
    [IDLE_UNKNOWN] = {"before GPU events whose launch is not in the trace", "gap_list",
                      "record runtime calls (CPU activity), so that the trace contains the launches; the "
                      "report gap_list lists the longest gaps"},
    [IDLE_DEVICE] =
        {"before GPU events that were already launched", "streams",
         "check the dependencies between streams, events and graphs around the longest of these gaps"},
    [IDLE_LAUNCH] = {"waiting for launches", "launch_bound",
                     "larger batches, fewer and larger kernels, or graphs"},
    [IDLE_SYNC] = {"after the host waited for the GPU", "syncs", "the report syncs names the callers"},
    [IDLE_COMPILE] = {"compilation", "gap_list", "warm up all shapes before recording"},
    [IDLE_TOKENIZER] = {"the tokenizer", "gap_list", "the report gap_list lists the longest gaps"},
    [IDLE_SCHEDULER] = {"the scheduler", "gap_list", "the report gap_list lists the longest gaps"},
    [IDLE_DATA] = {"the data loader", "gap_list", "the report gap_list lists the longest gaps"},
    [IDLE_ALLOCATION] = {"memory allocation", "gap_list", "warm up with the largest shapes"},
    [IDLE_COLLECTOR] = {"Python's garbage collector", "gap_list", "gc.freeze() after start-up"},
    [IDLE_PAGEABLE] = {"pageable copy calls", "memcpy", "copy from pinned memory"},
    [IDLE_PROFILER] = {"the profiler", "gap_list", "record without Python stacks"},
    [IDLE_HOST] = {"other host activity", "gap_list",
                   "the report gap_list shows the host activity in the longest gaps"},
    [IDLE_NOTHING] =
        {"without recorded activity on the launching thread", "gap_list",
         "record Python stacks and other threads in one short session to identify what the host waits for"},
};

/* The longest part with the cause, and its rank. */
static const struct idle_part *longest_part(const struct rule_context *context, enum idle_cause cause,
                                            const struct rule_rank **ret_rank)
{
    const struct idle_part *ret = NULL;

    for (size_t k = 0; k < context->n; k++)
        for (size_t i = 0; i < context->ranks[k].n_parts; i++) {
            const struct idle_part *part = &context->ranks[k].parts[i];
            if (part->cause == cause && (!ret || part->ns > ret->ns)) {
                ret = part;
                *ret_rank = &context->ranks[k];
            }
        }
    return ret;
}

static const char *name_cause(size_t cause)
{
    return causes[cause].what;
}

static int unexplained_idle_evaluate(const struct rule_context *context, const struct rule *rule,
                                     struct report_rows *ret)
{
    struct rule of_cause = *rule;
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    const struct rule_rank *rank = NULL;
    char figures[FIGURES_MAX], location[LOCATION_MAX], dur[UNIT_TEXT_MAX], name[NAME_MAX_SHOWN + 1];
    size_t most = 0;

    for (size_t i = 0; i < _IDLE_CAUSE_MAX; i++) {
        f.cost = add_time(f.cost, context->unclaimed[i]);
        if (context->unclaimed[i] > context->unclaimed[most])
            most = i;
    }
    f.of[TIME_IDLE] = f.cost;
    const struct idle_part *part = longest_part(context, (enum idle_cause)most, &rank);
    if (!part || !finding_matters(context, rule, &f))
        return 0;
    const struct gap *gap = &rank->gaps.items[part->gap];
    of_cause.report = causes[most].report;
    of_cause.advice = causes[most].advice;
    snprintf(f.what, sizeof(f.what), "Unexplained idle time: %s; mostly %s",
             finding_figures(figures, context, f.cost), causes[most].what);
    finding_set_place(&f, rank, gap->from, gap->to, gap->after);
    snprintf(f.where, sizeof(f.where), "longest such gap: %s, %s, before %s", format_duration(dur, gap->idle),
             finding_location(location, context, &f),
             finding_name(
                 name, columns_text(rank->columns, columns_get(rank->columns, COL_slice_name, gap->after))));
    finding_append_shares(f.evidence, sizeof(f.evidence), context->unclaimed, _IDLE_CAUSE_MAX, f.cost,
                          CAUSE_SHARE_MIN, name_cause);
    finding_emit(context, &of_cause, &f, ret);
    return 0;
}

const struct rule rule_unexplained_idle = {
    .name = "unexplained_idle",
    .report = "gap_list",
    .share_min = UNEXPLAINED_SHARE_MIN,
    .ground = "times of GPU events and of their launches; each of these causes is below the threshold of its "
              "rule, or has no rule",
    .evaluate = unexplained_idle_evaluate,
};

/* -- Idle worker ----------------------------------------------------------------------------------------- */

/* A worker that was idle for most of the recording: other findings about it cover few steps.
 */

/* A recording of a mostly idle worker does not show the load. */
#define IDLE_SHARE_MIN 0.5

struct rest {
    int64_t recorded, rested, longest;
    struct interval at;
    size_t rank;
};

static int idle_worker_make_rank(struct analysis *a, size_t rank, struct rest *ret)
{
    const struct intervals *rests;
    const struct columns *c = a->ranks[rank].columns;
    int64_t from = columns_meta(c, META_first_ns), to = columns_meta(c, META_last_ns), recorded;
    int r = analysis_rests(a, rank, &rests);

    if (r < 0 || from == COLUMN_NULL || to == COLUMN_NULL || __builtin_sub_overflow(to, from, &recorded) ||
        recorded <= 0)
        return r;
    ret->recorded = recorded;
    ret->rested = intervals_length(rests);
    for (size_t i = 0; i < rests->n; i++)
        if (rests->items[i].to - rests->items[i].from > ret->longest) {
            ret->longest = rests->items[i].to - rests->items[i].from;
            ret->at = rests->items[i];
            ret->rank = rank;
        }
    return 0;
}

/* Costs are of the entire recording, not of the steps in it. */
static struct rule_context idle_context_of(const struct rule_context *context, const struct rest *all,
                                           size_t n)
{
    struct rule_context recording = *context;

    recording.length = all->recorded;
    recording.units = (int64_t)n;
    recording.n = n;
    recording.is_by_step = false;
    return recording;
}

static int idle_worker_evaluate(const struct rule_context *context, const struct rule *rule,
                                struct report_rows *ret)
{
    struct analysis *a = context->analysis;
    struct rest all = {0};
    struct finding f = {.confidence = CONFIDENCE_INFERRED};
    char figures[FIGURES_MAX], location[LOCATION_MAX], longest[UNIT_TEXT_MAX], who[64];
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        struct rest rest = {0};
        r = idle_worker_make_rank(a, i, &rest);
        if ((double)rest.rested < IDLE_SHARE_MIN * (double)rest.recorded || rest.rested == 0)
            continue;
        n++;
        all.recorded = add_time(all.recorded, rest.recorded);
        all.rested = add_time(all.rested, rest.rested);
        if (rest.longest > all.longest) {
            all.longest = rest.longest;
            all.at = rest.at;
            all.rank = rest.rank;
        }
    }
    if (r < 0 || n == 0)
        return r;
    struct rule_context recording = idle_context_of(context, &all, n);
    snprintf(who, sizeof(who), "Idle workers, %zu of %zu", n, a->n);
    f.cost = all.rested;
    snprintf(f.what, sizeof(f.what), "%s: no activity for %s of the recording",
             a->n > 1 ? who : "Idle worker", finding_figures(figures, &recording, f.cost));
    f.place = (struct finding_place){
        .is_known = true, .rank = all.rank, .from = all.at.from, .to = all.at.to, .slice = SLICE_NONE};
    snprintf(f.where, sizeof(f.where), "longest idle period: %s, %s", format_duration(longest, all.longest),
             finding_location(location, context, &f));
    snprintf(f.evidence, sizeof(f.evidence),
             "no GPU activity and no operators, annotations or runtime calls on the host, for periods of 100 "
             "ms and more; all other findings cover the rest of the recording");
    finding_emit(&recording, rule, &f, ret);
    return 0;
}

const struct rule rule_idle_worker = {
    .name = "idle_worker",
    .report = "temporal",
    .share_min = IDLE_SHARE_MIN,
    .ground = "threads that the profiler did not record may have been busy",
    .advice =
        "record while requests arrive (a benchmark run sends some), check that the router sends requests "
        "to this worker, or analyze the busy part alone",
    .options = "select a part with --from and --to",
    .evaluate = idle_worker_evaluate,
};
