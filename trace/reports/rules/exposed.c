/* SPDX-License-Identifier: Apache-2.0 */
/* Communication that no computation hides, by what it is for. */
#include "base/units.h"
#include "trace/reports/collective.h"
#include "trace/reports/name_sums.h"
#include "trace/reports/rules/rules.h"

#include <errno.h>

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
    int64_t exposed, total, waited; /* exposed: without what is waited and reported elsewhere */
    size_t n_ranks;
    struct interval longest; /* the longest time exposed, and whose */
    const struct scene_rank *rank;
};

static int add_communication(const struct scene_rank *rank, unsigned purposes, struct intervals *ret)
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
static int add_rank(const struct scene *scene, const struct scene_rank *rank, enum purpose purpose,
                    struct exposure *ret)
{
    _cleanup_(intervals_done) struct intervals all_exposed = {0}, own = {0}, others = {0}, mine = {0},
                                               exposed = {0}, waits = {0}, net = {0};
    int r = scene_exposed(rank, &all_exposed);

    if (r >= 0)
        r = add_communication(rank, 1u << purpose, &own);
    if (r >= 0)
        r = add_communication(rank, (1u << purpose) - 1, &others);
    if (r >= 0)
        r = intervals_intersect(&own, &all_exposed, &mine);
    if (r >= 0)
        r = intervals_subtract(&mine, &others, &exposed);
    ret->waited = add_time(ret->waited, intervals_common(&exposed, &rank->waits_for_straggler));
    ret->waited = add_time(ret->waited, intervals_common(&exposed, &rank->waits_for_others));
    const struct intervals *found[] = {scene->is_straggler_found ? &rank->waits_for_straggler : NULL,
                                       scene->is_uneven_found ? &rank->waits_for_others : NULL};
    for (size_t k = 0; k < ARRAY_SIZE(found) && r >= 0; k++)
        for (size_t i = 0; found[k] && i < found[k]->n && r >= 0; i++)
            r = intervals_add(&waits, found[k]->items[i].from, found[k]->items[i].to);
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

static int tell_kernels(const struct scene *scene, enum purpose purpose, char *buf, size_t size)
{
    _cleanup_(name_sums_done) struct name_sums sums = {0};
    int r = scene_name_sums(scene, &sums);
    size_t used = 0, shown = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < sums.n && r >= 0 && shown < NAMES_SHOWN; i++) {
        const struct name_sum *s = &sums.items[i];
        char name[NAME_MAX_SHOWN + 1];
        if (s->kind != GPU_COMMUNICATION || purpose_of(collective_kind_of(s->name)) != purpose)
            continue;
        int n = snprintf(buf + used, size - used, "%s%s (%llu calls%s)", shown ? ", " : "",
                         finding_name(name, s->name), (unsigned long long)(s->count / scene->n),
                         scene->n > 1 ? " a rank" : "");
        used = MIN(used + (size_t)n, size - 1);
        shown++;
    }
    return r;
}

static int put(const struct scene *scene, const struct rule *rule, enum purpose purpose,
               struct report_rows *ret)
{
    struct exposure x = {0};
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX], place[PLACE_MAX], kernels[2 * NAME_MAX_SHOWN + 64], waited[UNIT_TEXT_MAX];
    bool is_net = scene->is_straggler_found || scene->is_uneven_found;
    int r = 0;

    for (size_t i = 0; i < scene->n && r >= 0; i++)
        r = add_rank(scene, &scene->ranks[i], purpose, &x);
    if (r < 0 || x.exposed == 0 || !x.rank)
        return r;
    f.cost = f.of[TIME_COMMUNICATION] = x.exposed;
    if (!finding_matters(scene, rule, &f))
        return 0;
    r = tell_kernels(scene, purpose, kernels, sizeof(kernels));
    snprintf(f.what, sizeof(f.what), "%s is exposed: %s%s, %s", rule->seen,
             finding_figures(figures, scene, x.exposed),
             scene->n > 1 && x.n_ranks == scene->n ? " on every rank" : "",
             x.exposed == x.total ? "overlapping no computation" : "not overlapped by computation");
    snprintf(f.where, sizeof(f.where), "%s; longest at %s", kernels,
             finding_place(place, scene, x.rank->rank, x.longest.from, x.longest.to));
    snprintf(f.evidence, sizeof(f.evidence),
             "%.0f %% of the time of this communication has no computing kernel%s%s",
             100.0 * (double)x.exposed / (double)x.total,
             x.waited == 0 ? ""
             : is_net
                 ? " and is no waiting that another finding reports; waiting for the last rank to arrive: "
                 : "; in it ranks wait for the last to arrive ",
             x.waited > 0 ? format_duration(waited, scene_mean(scene, x.waited)) : "");
    finding_put(scene, rule, &f, ret);
    return r;
}

static int look_expert_parallel(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    return put(scene, rule, EXPERT_PARALLEL, ret);
}

static int look_all_reduce(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    return put(scene, rule, ALL_REDUCE, ret);
}

static int look_other(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    return put(scene, rule, OTHER, ret);
}

const struct rule rule_exposed_expert_parallel = {
    .name = "exposed_expert_parallel",
    .report = "overlap",
    .share_min = EXPOSED_SHARE_MIN,
    .ground = "times of the kernels, as the trace has them",
    .seen = "Expert-parallel dispatch/combine",
    .advice = "overlap two micro-batches, balance experts over ranks, or use fewer ranks for them",
    .vllm = "--enable-dbo with --all2all-backend deepep_low_latency (decode) or deepep_high_throughput "
            "(prefill); "
            "--enable-eplb",
    .sglang =
        "--enable-two-batch-overlap, --enable-single-batch-overlap, --deepep-mode low_latency for decode; "
        "--enable-eplb",
    .look = look_expert_parallel,
};

const struct rule rule_exposed_all_reduce = {
    .name = "exposed_all_reduce",
    .report = "collectives",
    .share_min = EXPOSED_SHARE_MIN,
    .ground = "times of the kernels, as the trace has them",
    .seen = "All-reduce",
    .advice =
        "a faster all-reduce, one that is fused with the norm behind it, or less tensor parallelism; in "
        "training smaller buckets that overlap with backward",
    .vllm = "no --disable-custom-all-reduce; --compilation-config '{\"pass_config\":"
            "{\"enable_fi_allreduce_fusion\":true}}'; a smaller --tensor-parallel-size with more data "
            "parallelism",
    .sglang = "--enable-flashinfer-allreduce-fusion, no --disable-custom-all-reduce; --enable-dp-attention",
    .look = look_all_reduce,
};

const struct rule rule_exposed_communication = {
    .name = "exposed_communication",
    .report = "overlap",
    .share_min = EXPOSED_SHARE_MIN,
    .ground = "times of the kernels, as the trace has them",
    .seen = "Communication",
    .advice =
        "issue it earlier and on a stream of its own, so that computation runs meanwhile; fewer and larger "
        "messages; check that NCCL uses NVLink or RDMA (NCCL_DEBUG=INFO)",
    .look = look_other,
};
