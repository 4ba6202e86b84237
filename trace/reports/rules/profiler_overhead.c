/* SPDX-License-Identifier: Apache-2.0 */
/* What the recording itself costs: Python frames, each of which is written down, and the overhead that Kineto reports.
 */
#include "base/units.h"
#include "trace/columns/schema.h"
#include "trace/reports/host.h"
#include "trace/reports/interval.h"
#include "trace/reports/rules/context.h"
#include "trace/reports/rules/rule.h"
#include "trace/reports/search.h"

#include <errno.h>

/* A recording always costs something. Beyond this, its figures of the host are not those of production. */
#define OVERHEAD_SHARE_MIN 0.05
/* What a frame costs the host, to enter and to leave: an assumption, of the order that a call and a return
 * with a C hook take on a server's core. No trace contains it. */
#define FRAME_NS 500

#define ADVICE_NSYS                                                                                          \
    "record less with nsys profile before trusting idle times: --trace=cuda,nvtx, --sample=none, "           \
    "--cpuctxsw=none, without --cuda-memory-usage and --python-sampling; start to record after warm-up "     \
    "(--delay, or --capture-range=cudaProfilerApi)"

/* Only what the host does while the GPU waits for it can be delayed by the recording. */
static bool is_delayable(const struct idle_part *part)
{
    switch (part->class) {
    case HOST_CLASS_LAUNCH:
    case HOST_CLASS_RUNTIME:
    case HOST_CLASS_OPERATOR:
    case HOST_CLASS_PYTHON:
    case HOST_CLASS_ANNOTATION:
    case HOST_CLASS_OTHER:
    case HOST_CLASS_TOKENIZER:
    case HOST_CLASS_SCHEDULER:
    case HOST_CLASS_DATA:
    case HOST_CLASS_COMPILE:
        return part->cause != IDLE_NOTHING;
    default:
        return false;
    }
}

/* Python frames that begin in each gap. Gaps are in order, and none lies in another. */
static void count_frames(const struct rule_rank *rank, int64_t *ret)
{
    const struct slice_table *t = rank->slices;
    uint64_t at = 0;

    for (size_t i = 0; i < rank->gaps.n; i++) {
        const struct gap *gap = &rank->gaps.items[i];
        for (at = FIRST_THAT(k, at, t->n, t->ts[k] >= gap->from); at < t->n && t->ts[at] < gap->to; at++)
            ret[i] += t->kind[at] == HOST_PYTHON;
    }
}

/* What Kineto calls overhead. A full buffer of commands is none: the GPU has enough to do. */
static int find_kineto(const struct rule_rank *rank, struct intervals *ret)
{
    const struct columns *c = rank->columns;
    int r = 0;

    for (uint64_t row = 0; row < columns_rows(c, TABLE_name) && r >= 0; row++) {
        struct text category = columns_text(c, columns_get(c, COL_name_category, row)),
                    name = columns_text(c, columns_get(c, COL_name_name, row));
        struct name_rows rows = name_rows_of(c, row);
        if (!text_is(category, "overhead") || memmem(name.p, name.size, "Command Buffer Full", 19))
            continue;
        for (uint64_t i = rows.first; i < rows.end && r >= 0; i++) {
            int64_t slice = columns_get(c, COL_by_name_slice, i),
                    ts = slice == COLUMN_NULL ? COLUMN_NULL : columns_get(c, COL_slice_ts, (uint64_t)slice);
            if (ts != COLUMN_NULL)
                r = intervals_add(ret, ts,
                                  add_time(ts, MAX(columns_get(c, COL_slice_dur, (uint64_t)slice), 0)));
        }
    }
    intervals_unite(ret);
    return r;
}

/* What the profiler costs in each gap, by the number of the gap. */
struct overhead {
    int64_t *frames, *kineto; /* number of frames; ns */
    int64_t *cost;            /* of both, at most what can be delayed */
    int64_t sum;
};

static void overhead_done(struct overhead *o)
{
    free(o->frames);
    free(o->kineto);
    free(o->cost);
}

static int overhead_read(const struct rule_rank *rank, struct overhead *ret)
{
    _cleanup_(intervals_done) struct intervals times = {0};
    _cleanup_(cover_done) struct cover kineto = {0};
    int r = find_kineto(rank, &times);

    if (r >= 0)
        r = cover_new(&times, &kineto);

    ret->frames = calloc(rank->gaps.n + 1, sizeof(*ret->frames));
    ret->kineto = calloc(rank->gaps.n + 1, sizeof(*ret->kineto));
    ret->cost = calloc(rank->gaps.n + 1, sizeof(*ret->cost));
    if (r < 0 || !ret->frames || !ret->kineto || !ret->cost)
        return -ENOMEM;
    count_frames(rank, ret->frames);
    for (size_t i = 0; i < rank->n_parts; i++)
        if (is_delayable(&rank->parts[i]))
            ret->cost[rank->parts[i].gap] += rank->parts[i].ns;
    for (size_t i = 0; i < rank->gaps.n; i++) {
        ret->kineto[i] = cover_length(&kineto, rank->gaps.items[i].from, rank->gaps.items[i].to);
        ret->cost[i] = MIN(add_time(ret->frames[i] * FRAME_NS, ret->kineto[i]), ret->cost[i]);
        ret->sum = add_time(ret->sum, ret->cost[i]);
    }
    return 0;
}

/* Each delayable part of a gap gives as much of itself. */
static int profiler_overhead_take_overhead(struct rule_rank *rank, const struct overhead *o)
{
    size_t n = rank->n_parts, kept = 0, next;
    struct idle_part *parts = calloc(n + rank->gaps.n + 1, sizeof(*parts));

    if (!parts)
        return -ENOMEM;
    for (size_t i = 0; i < n; i = next) {
        size_t gap = rank->parts[i].gap;
        int64_t all = 0, taken = 0;
        for (next = i; next < n && rank->parts[next].gap == gap; next++)
            all += is_delayable(&rank->parts[next]) ? rank->parts[next].ns : 0;
        for (size_t k = i; k < next; k++) {
            struct idle_part part = rank->parts[k];
            int64_t ns = all > 0 && is_delayable(&part)
                             ? (int64_t)((double)part.ns / (double)all * (double)o->cost[gap])
                             : 0;
            part.ns -= ns;
            taken += ns;
            parts[kept++] = part;
        }
        if (taken > 0)
            parts[kept++] = (struct idle_part){gap, taken, SLICE_NONE, IDLE_PROFILER, HOST_CLASS_OTHER};
    }
    free(rank->parts);
    rank->parts = parts;
    rank->n_parts = kept;
    rank->parts_cap = n + rank->gaps.n + 1;
    return 0;
}

int profiler_read(struct rule_context *context)
{
    struct overhead *all = calloc(context->n + 1, sizeof(*all));
    struct finding f = {0};
    int r = all ? 0 : -ENOMEM;

    for (size_t i = 0; i < context->n && r >= 0; i++) {
        r = overhead_read(&context->ranks[i], &all[i]);
        f.cost = add_time(f.cost, all[i].sum);
    }
    bool matters = r >= 0 && finding_matters(context, &rule_profiler_overhead, &f);
    for (size_t i = 0; i < context->n && matters && r >= 0; i++) {
        r = profiler_overhead_take_overhead(&context->ranks[i], &all[i]);
        for (size_t k = 0; k < context->ranks[i].gaps.n; k++) {
            context->profiler_frames += all[i].frames[k];
            context->profiler_kineto = add_time(context->profiler_kineto, all[i].kineto[k]);
        }
    }
    for (size_t i = 0; all && i < context->n; i++)
        overhead_done(&all[i]);
    free(all);
    return r;
}

static bool is_from_nsys(const struct rule_context *context)
{
    return context->n > 0 &&
           text_is(columns_meta_text(context->ranks[0].columns, META_format), "nsys-sqlite");
}

/* "40 Python frames begin while the GPU is idle, and Kineto reports 15 ms of the idle time as overhead", or one
 * of both. */
static void profiler_overhead_evidence(const struct rule_context *context, char *buf, size_t size)
{
    const char *profiler = is_from_nsys(context) ? "CUPTI" : "Kineto";
    char text[UNIT_TEXT_MAX];

    buf[0] = '\0';
    if (context->profiler_frames > 0)
        finding_append(buf, size, "%lld Python frames begin while the GPU is idle%s",
                       (long long)context->profiler_frames, context->profiler_kineto > 0 ? ", and " : "");
    if (context->profiler_kineto > 0)
        finding_append(buf, size, "%s reports %s of %s as overhead", profiler,
                       format_duration(text, context->profiler_kineto),
                       context->profiler_frames > 0 ? "that time" : "the idle time");
}

#define DEDUCTED "the time is deducted from operators, Python and launches in each gap"

static int profiler_overhead_evaluate(const struct rule_context *context, const struct rule *rule,
                                      struct report_rows *ret)
{
    struct finding f = {.confidence = CONFIDENCE_INFERRED};
    char figures[FIGURES_MAX], location[LOCATION_MAX];
    const struct idle_part *most = NULL;
    const struct rule_rank *most_rank = NULL;

    for (size_t k = 0; k < context->n; k++)
        for (size_t i = 0; i < context->ranks[k].n_parts; i++) {
            const struct idle_part *part = &context->ranks[k].parts[i];
            if (part->cause != IDLE_PROFILER)
                continue;
            f.cost = add_time(f.cost, part->ns);
            if (!most || part->ns > most->ns) {
                most = part;
                most_rank = &context->ranks[k];
            }
        }
    if (!most)
        return 0;
    const struct gap *gap = &most_rank->gaps.items[most->gap];
    f.of[TIME_IDLE] = f.cost;
    snprintf(f.what, sizeof(f.what),
             "Profiler overhead distorts this trace: the profiler caused about %s of idle time",
             finding_figures(figures, context, f.cost));
    finding_set_place(&f, most_rank, gap->from, gap->to, gap->after);
    snprintf(f.where, sizeof(f.where), "worst window: %s", finding_location(location, context, &f));
    profiler_overhead_evidence(context, f.evidence, sizeof(f.evidence));
    if (context->profiler_frames > 0)
        snprintf(f.ground, sizeof(f.ground),
                 "assumes %d ns per Python frame, which no trace contains; " DEDUCTED, FRAME_NS);
    else
        snprintf(f.ground, sizeof(f.ground),
                 "assumes that the GPU would not have been idle without these overhead events; " DEDUCTED);
    if (is_from_nsys(context))
        f.advice = ADVICE_NSYS;
    finding_emit(context, rule, &f, ret);
    return 0;
}

const struct rule rule_profiler_overhead = {
    .name = "profiler_overhead",
    .report = "gaps",
    .share_min = OVERHEAD_SHARE_MIN,
    .idle = IDLE_PROFILER,
    .advice = "record without Python stacks before trusting idle times (the default), and record stacks in a "
              "separate session; do not record shapes and memory at the same time",
    .vllm = "\"torch_profiler_with_stack\":false in --profiler-config",
    .sglang = "\"with_stack\":false in /start_profile, or SGLANG_PROFILE_WITH_STACK=false",
    .evaluate = profiler_overhead_evaluate,
};
