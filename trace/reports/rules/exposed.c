/* SPDX-License-Identifier: Apache-2.0 */
/* Communication that no computation hides, by what it is for. */
#include "base/array.h"
#include "base/units.h"
#include "trace/reports/collective.h"
#include "trace/reports/grouping.h"
#include "trace/reports/rules/idle_causes.h"
#include "trace/reports/rules/rule.h"
#include <errno.h>

/* -- Exposed --------------------------------------------------------------------------------------------- */

/* To hide less than that gains no more than runs differ by. */
#define EXPOSED_SHARE_MIN 0.05
#define NAMES_SHOWN       2

enum purpose { EXPERT_PARALLEL, ALL_REDUCE, OTHER, _PURPOSE_MAX };

static enum purpose purpose_of(enum collective_kind kind)
{
    switch (kind) {
    case COLLECTIVE_DISPATCH:
    case COLLECTIVE_COMBINE:
        return EXPERT_PARALLEL;
    case COLLECTIVE_ALL_REDUCE:
        return ALL_REDUCE;
    default:
        return OTHER;
    }
}

struct exposure {
    int64_t total;            /* of the communication */
    int64_t exposed;          /* without the waits that other findings report */
    int64_t waited, reported; /* waits for other ranks: in `exposed`, and those that other findings report */
    size_t n_ranks;
    struct interval longest; /* the longest time exposed, and whose */
    const struct rule_rank *rank;
};

static int add_communication(const struct rule_rank *rank, unsigned purposes, struct intervals *ret)
{
    _cleanup_(intervals_done) struct intervals all = {0};
    int r = 0;

    for (size_t i = 0; i < rank->work->n && r >= 0; i++) {
        const struct gpu_event *e = &rank->work->events[i];
        if (e->kind == GPU_COMMUNICATION && (1u << purpose_of(e->collective) & purposes))
            r = intervals_add(&all, e->ts, e->end);
    }
    intervals_unite(&all);
    return r < 0 ? r : intervals_intersect(&all, &rank->scope, ret);
}

/* Of communication of two purposes at once the first one's finding has the time. */
static int exposed_make_rank(const struct rule_context *context, const struct rule_rank *rank,
                             enum purpose purpose, struct exposure *ret)
{
    _cleanup_(intervals_done) struct intervals all_exposed = {0}, own = {0}, others = {0}, mine = {0},
                                               exposed = {0}, waits = {0}, net = {0};
    int r = rule_context_exposed(rank, &all_exposed);

    if (r >= 0)
        r = add_communication(rank, 1u << purpose, &own);
    if (r >= 0)
        r = add_communication(rank, (1u << purpose) - 1, &others);
    if (r >= 0)
        r = intervals_intersect(&own, &all_exposed, &mine);
    if (r >= 0)
        r = intervals_subtract(&mine, &others, &exposed);
    const struct {
        const struct intervals *times;
        bool is_reported;
    } sets[] = {{&rank->waits_for_straggler, context->is_straggler_found},
                {&rank->waits_for_others, context->is_uneven_found}};
    for (size_t k = 0; k < ARRAY_SIZE(sets) && r >= 0; k++) {
        int64_t *sum = sets[k].is_reported ? &ret->reported : &ret->waited;
        *sum = add_time(*sum, intervals_common(&exposed, sets[k].times));
        for (size_t i = 0; i < sets[k].times->n && sets[k].is_reported && r >= 0; i++)
            r = intervals_add(&waits, sets[k].times->items[i].from, sets[k].times->items[i].to);
    }
    intervals_unite(&waits);
    if (r >= 0)
        r = intervals_subtract(&exposed, &waits, &net);
    int64_t length = intervals_length(&net);
    ret->total = add_time(ret->total, intervals_length(&own));
    ret->exposed = add_time(ret->exposed, length);
    ret->n_ranks += length > 0;
    for (size_t i = 0; i < net.n; i++)
        if (net.items[i].to - net.items[i].from > ret->longest.to - ret->longest.from) {
            ret->longest = net.items[i];
            ret->rank = rank;
        }
    return r;
}

/* The communication of the longest time. */
static uint64_t exposed_longest_event(const struct exposure *x)
{
    const struct gpu_work *work = x->rank->work;
    uint64_t ret = SLICE_NONE;

    for (size_t i = 0; i < work->n && work->events[i].ts <= x->longest.from; i++)
        if (work->events[i].kind == GPU_COMMUNICATION && work->events[i].end >= x->longest.to)
            ret = work->events[i].slice;
    return ret;
}

static int name_kernels_of(const struct rule_context *context, enum purpose purpose, char *buf, size_t size)
{
    _cleanup_(aggregated_done) struct aggregated names = {0};
    int r = rule_context_names(context, &names);
    size_t shown = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < names.n && r >= 0 && shown < NAMES_SHOWN; i++) {
        const struct group *g = &names.items[i];
        struct text text = group_text(&names, g, 0);
        char name[NAME_MAX_SHOWN + 1];
        if (g->key.part[2] != GPU_COMMUNICATION || purpose_of(collective_kind_of(text)) != purpose)
            continue;
        finding_append(buf, size, "%s%s (%llu calls%s)", shown++ ? ", " : "", finding_name(name, text),
                       (unsigned long long)(g->values[0].n / context->n), context->n > 1 ? " per rank" : "");
    }
    return r;
}

static int exposed_evaluate(const struct rule_context *context, const struct rule *rule,
                            struct report_rows *ret)
{
    enum purpose purpose = (enum purpose)rule->of;
    struct exposure x = {0};
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX], location[LOCATION_MAX], kernels[2 * NAME_MAX_SHOWN + 64], total[UNIT_TEXT_MAX],
        exposed[UNIT_TEXT_MAX], waited[UNIT_TEXT_MAX];
    int r = 0;

    for (size_t i = 0; i < context->n && r >= 0; i++)
        r = exposed_make_rank(context, &context->ranks[i], purpose, &x);
    if (r < 0 || x.exposed == 0 || !x.rank)
        return r;
    f.cost = f.of[TIME_COMMUNICATION] = x.exposed;
    if (!finding_matters(context, rule, &f))
        return 0;
    r = name_kernels_of(context, purpose, kernels, sizeof(kernels));
    f.is_of_all_ranks = context->n > 1 && x.n_ranks == context->n;
    bool is_complete = analysis_world(context->analysis) == context->analysis->n;
    snprintf(f.what, sizeof(f.what), "%s is exposed: %s%s, %s", rule->seen,
             finding_figures(figures, context, x.exposed),
             !f.is_of_all_ranks ? ""
             : is_complete      ? " on every rank"
                                : " on every recorded rank",
             x.exposed == x.total ? "overlapping no computation" : "not overlapped by computation");
    finding_set_place(&f, x.rank, x.longest.from, x.longest.to, exposed_longest_event(&x));
    snprintf(f.where, sizeof(f.where), "%s; longest: %s", kernels, finding_location(location, context, &f));
    snprintf(f.evidence, sizeof(f.evidence),
             "this communication takes %s%s: no kernel computes for %s of it (%.0f %%)",
             format_duration(total, rule_context_mean(context, x.total)), rule_context_unit(context),
             format_duration(exposed, rule_context_mean(context, x.exposed)),
             100.0 * (double)x.exposed / (double)x.total);
    /* Waits that are too little for a finding of their own are a part of this one. */
    if (x.reported > 0)
        finding_append(f.evidence, sizeof(f.evidence),
                       "; another %s are waits for the last rank to arrive, which another finding reports",
                       format_duration(waited, rule_context_mean(context, x.reported)));
    else if (x.waited > 0)
        finding_append(f.evidence, sizeof(f.evidence), "; %s of that are waits for the last rank to arrive",
                       format_duration(waited, rule_context_mean(context, x.waited)));
    finding_emit(context, rule, &f, ret);
    return r;
}

const struct rule rule_exposed_expert_parallel = {
    .name = "exposed_expert_parallel",
    .report = "overlap",
    .share_min = EXPOSED_SHARE_MIN,
    .ground = "kernel times in the trace",
    .seen = "Expert-parallel dispatch/combine",
    .advice = "overlap two micro-batches, balance experts over ranks, or use fewer ranks for them",
    .vllm = "--enable-dbo with --all2all-backend deepep_low_latency (decode) or deepep_high_throughput "
            "(prefill); "
            "--enable-eplb",
    .sglang =
        "--enable-two-batch-overlap, --enable-single-batch-overlap, --deepep-mode low_latency for decode; "
        "--enable-eplb",
    .of = EXPERT_PARALLEL,
    .evaluate = exposed_evaluate,
};

const struct rule rule_exposed_all_reduce = {
    .name = "exposed_all_reduce",
    .report = "collectives",
    .share_min = EXPOSED_SHARE_MIN,
    .ground = "kernel times in the trace",
    .seen = "All-reduce",
    .advice = "use a faster all-reduce, fuse it with the following norm, or use less tensor parallelism; in "
              "training use smaller buckets that overlap with the backward pass",
    .vllm = "omit --disable-custom-all-reduce; --compilation-config '{\"pass_config\":"
            "{\"enable_fi_allreduce_fusion\":true}}'; a smaller --tensor-parallel-size with more data "
            "parallelism",
    .sglang = "--enable-flashinfer-allreduce-fusion, omit --disable-custom-all-reduce; --enable-dp-attention",
    .of = ALL_REDUCE,
    .evaluate = exposed_evaluate,
};

const struct rule rule_exposed_communication = {
    .name = "exposed_communication",
    .report = "overlap",
    .share_min = EXPOSED_SHARE_MIN,
    .ground = "kernel times in the trace",
    .seen = "Communication",
    .advice = "issue it earlier and on a separate stream, so that it overlaps with computation; send fewer "
              "and larger messages; check that NCCL uses NVLink or RDMA (NCCL_DEBUG=INFO)",
    .of = OTHER,
    .evaluate = exposed_evaluate,
};

/* -- Exposed copy ---------------------------------------------------------------------------------------- */

/* Copies that no kernel hides, whatever memory they are of: what computes waits for them. */

/* As for communication: to hide less gains no more than runs differ by. */

struct exposed_copy_copies {
    int64_t exposed, all;
    size_t n;
    const struct gpu_event *longest;
    const struct rule_rank *rank;
};

static int exposed_copy_make_rank(const struct rule_rank *rank, struct exposed_copy_copies *ret)
{
    _cleanup_(intervals_done) struct intervals all = {0}, copies = {0}, exposed = {0}, pageable = {0},
                                               alone = {0};
    const struct intervals *kernels;
    int r = gpu_work_busy(rank->work, 1 << GPU_COMPUTE | 1 << GPU_COMMUNICATION, &kernels);

    for (size_t i = 0; i < rank->work->n && r >= 0; i++) {
        const struct gpu_event *e = &rank->work->events[i];
        if (e->is_pageable)
            r = intervals_add(&pageable, e->ts, e->end);
        /* Copies of pageable memory have a rule of their own, and a memset brings nothing. */
        if (!e->is_copy || e->is_pageable || !rule_context_has(rank, e->ts))
            continue;
        ret->n++;
        if (!ret->longest || e->end - e->ts > ret->longest->end - ret->longest->ts) {
            ret->longest = e;
            ret->rank = rank;
        }
        r = intervals_add(&all, e->ts, e->end);
    }
    intervals_unite(&all);
    intervals_unite(&pageable);
    if (r >= 0)
        r = intervals_intersect(&all, &rank->scope, &copies);
    if (r >= 0)
        r = intervals_subtract(&copies, kernels, &alone);
    if (r >= 0)
        r = intervals_subtract(&alone, &pageable, &exposed);
    ret->exposed = add_time(ret->exposed, intervals_length(&exposed));
    ret->all = add_time(ret->all, intervals_length(&copies));
    return r;
}

static int exposed_copy_evaluate(const struct rule_context *context, const struct rule *rule,
                                 struct report_rows *ret)
{
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    struct exposed_copy_copies copies = {0};
    char figures[FIGURES_MAX], location[LOCATION_MAX], name[NAME_MAX_SHOWN + 1];
    int r = 0;

    for (size_t i = 0; i < context->n && r >= 0; i++)
        r = exposed_copy_make_rank(&context->ranks[i], &copies);
    if (r < 0 || copies.n == 0)
        return r;
    f.cost = f.of[TIME_COPY] = copies.exposed;
    snprintf(f.what, sizeof(f.what), "Exposed copies: no kernel was running during copies for %s",
             finding_figures(figures, context, f.cost));
    finding_set_place(&f, copies.rank, copies.longest->ts, copies.longest->end, copies.longest->slice);
    snprintf(f.where, sizeof(f.where), "%s; longest: %s",
             finding_text(name, columns_text(copies.rank->columns, copies.longest->name)),
             finding_location(location, context, &f));
    snprintf(f.evidence, sizeof(f.evidence), "%zu copies; %.0f %% of their time overlaps with no kernel",
             copies.n, copies.all > 0 ? 100.0 * (double)copies.exposed / (double)copies.all : 0.0);
    finding_emit(context, rule, &f, ret);
    return r;
}

const struct rule rule_exposed_copy = {
    .name = "exposed_copy",
    .report = "memcpy",
    .share_min = EXPOSED_SHARE_MIN,
    .ground = "copy and kernel times in the trace",
    .advice = "copy on a separate stream before the data is needed (prefetch), or copy less: keep weights, "
              "caches and "
              "optimizer states on the GPU, or offload fewer of them",
    .vllm = "a smaller --cpu-offload-gb",
    .sglang = "a smaller --cpu-offload-gb",
    .evaluate = exposed_copy_evaluate,
};

/* -- Pageable copy --------------------------------------------------------------------------------------- */

/* Copies from or to memory that a GPU cannot reach by itself: they go through a buffer, and the host waits.
 */

/* Copies of a few bytes between steps are pageable everywhere: below one part in a hundred nobody gains. */
#define PAGEABLE_SHARE_MIN 0.01

/* Copies of one name: "Memcpy DtoH (Device -> Pageable)". */
struct pageable_kind {
    size_t n;
    int64_t bytes;
};

struct pageable_copies {
    struct name_table names;
    struct pageable_kind *kinds; /* by number of the name */
    size_t cap, n;
    const struct gpu_event *longest;
    const struct rule_rank *rank; /* of the longest */
};

static void pageable_copies_done(struct pageable_copies *copies)
{
    name_table_done(&copies->names);
    free(copies->kinds);
}

static int pageable_add(struct pageable_copies *copies, const struct rule_rank *rank,
                        const struct gpu_event *e)
{
    int64_t bytes = columns_get(rank->columns, COL_gpu_bytes, e->row),
            number = name_table_number(&copies->names, columns_text(rank->columns, e->name));

    if (number < 0 || !ARRAY_RESERVE_ZEROED(copies->kinds, copies->cap, copies->names.n))
        return -ENOMEM;
    copies->kinds[number].n++;
    copies->kinds[number].bytes = add_time(copies->kinds[number].bytes, MAX(bytes, 0));
    copies->n++;
    if (!copies->longest || e->end - e->ts > copies->longest->end - copies->longest->ts) {
        copies->longest = e;
        copies->rank = rank;
    }
    return 0;
}

/* The copies while no kernel runs, and idle time while the host is in their calls. */
static int pageable_make_rank(const struct rule_rank *rank, struct pageable_copies *copies,
                              struct finding *ret)
{
    _cleanup_(intervals_done) struct intervals times = {0}, alone = {0};
    const struct intervals *kernels;
    int r = gpu_work_busy(rank->work, 1 << GPU_COMPUTE | 1 << GPU_COMMUNICATION, &kernels);

    for (size_t i = 0; i < rank->work->n && r >= 0; i++) {
        const struct gpu_event *e = &rank->work->events[i];
        if (!e->is_pageable || !rule_context_has(rank, e->ts))
            continue;
        r = pageable_add(copies, rank, e);
        if (r >= 0)
            r = intervals_add(&times, e->ts, e->end);
    }
    intervals_unite(&times);
    if (r >= 0)
        r = intervals_subtract(&times, kernels, &alone);
    ret->of[TIME_COPY] = add_time(ret->of[TIME_COPY], rule_context_within(rank, &alone));
    for (size_t i = 0; i < rank->n_parts; i++)
        if (rank->parts[i].cause == IDLE_PAGEABLE)
            ret->of[TIME_IDLE] = add_time(ret->of[TIME_IDLE], rank->parts[i].ns);
    return r;
}

/* "64.0 MiB per rank: 9 copies Memcpy HtoD (Pageable -> Device), 2 copies Memcpy DtoH (Device -> Pageable)": all
 * figures are means, as the cost. */
static void name_pageable(const struct rule_context *context, const struct pageable_copies *copies, char *buf,
                          size_t size)
{
    char bytes_text[UNIT_TEXT_MAX], name[NAME_MAX_SHOWN + 1];
    int64_t bytes = 0;

    for (size_t i = 0; i < copies->names.n; i++)
        bytes = add_time(bytes, copies->kinds[i].bytes);
    finding_append(buf, size, "%s%s:", format_size(bytes_text, rule_context_mean(context, bytes)),
                   rule_context_unit(context));
    for (size_t i = 0; i < copies->names.n; i++)
        finding_append(buf, size, "%s %.3g %s", i ? "," : "",
                       (double)copies->kinds[i].n / (double)context->units,
                       finding_text(name, copies->names.items[i]));
}

static int pageable_copy_evaluate(const struct rule_context *context, const struct rule *rule,
                                  struct report_rows *ret)
{
    _cleanup_(pageable_copies_done) struct pageable_copies copies = {0};
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX], location[LOCATION_MAX], alone[UNIT_TEXT_MAX], idle[UNIT_TEXT_MAX],
        name[NAME_MAX_SHOWN + 1];
    int r = 0;

    for (size_t i = 0; i < context->n && r >= 0; i++)
        r = pageable_make_rank(&context->ranks[i], &copies, &f);
    if (r < 0 || copies.n == 0)
        return r;
    f.cost = add_time(f.of[TIME_COPY], f.of[TIME_IDLE]);
    snprintf(f.what, sizeof(f.what), "Pageable copies: no kernel was running for %s, %.3g copies%s",
             finding_figures(figures, context, f.cost), (double)copies.n / (double)context->units,
             rule_context_unit(context));
    finding_set_place(&f, copies.rank, copies.longest->ts, copies.longest->end, copies.longest->slice);
    snprintf(f.where, sizeof(f.where), "longest: %s, %s", finding_location(location, context, &f),
             finding_text(name, columns_text(copies.rank->columns, copies.longest->name)));
    name_pageable(context, &copies, f.evidence, sizeof(f.evidence));
    finding_append(f.evidence, sizeof(f.evidence),
                   "; a pageable copy goes through a buffer, and its call blocks: no kernel runs during the "
                   "copies for %s, and the GPU is idle in their calls for %s",
                   format_duration(alone, rule_context_mean(context, f.of[TIME_COPY])),
                   format_duration(idle, rule_context_mean(context, f.of[TIME_IDLE])));
    finding_emit(context, rule, &f, ret);
    return 0;
}

const struct rule rule_pageable_copy = {
    .name = "pageable_copy",
    .report = "memcpy",
    .share_min = PAGEABLE_SHARE_MIN,
    .idle = IDLE_PAGEABLE,
    .ground = "copy and kernel times in the trace, and self time of the copy calls",
    .advice =
        "copy from pinned memory (tensor.pin_memory(), DataLoader(pin_memory=True)) with non_blocking=True, "
        "and gather small copies into one",
    .evaluate = pageable_copy_evaluate,
};
