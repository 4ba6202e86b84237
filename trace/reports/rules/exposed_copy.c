/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that no kernel hides, whatever memory they are of: what computes waits for them. */
#include "base/units.h"
#include "trace/reports/rules/idle.h"
#include "trace/reports/rules/rules.h"

/* As for communication: to hide less gains no more than runs differ by. */
#define EXPOSED_SHARE_MIN 0.05

struct copies {
    int64_t exposed, all;
    size_t n;
    const struct gpu_event *longest;
    const struct scene_rank *rank;
};

/* Copies of pageable memory have a rule of their own, and a memset brings nothing. */
static bool is_copy(const struct columns *c, const struct gpu_event *e)
{
    struct text name = columns_text(c, e->name);

    return e->kind == GPU_MEMORY && name.size > 0 && memmem(name.p, name.size, "emcpy", 5) &&
           !memmem(name.p, name.size, "Pageable", 8);
}

static int add_rank(const struct scene_rank *rank, struct copies *ret)
{
    _cleanup_(intervals_done) struct intervals kernels = {0}, all = {0}, copies = {0}, exposed = {0},
                                               pageable = {0}, alone = {0};
    int r = gpu_work_busy(rank->work, 1 << GPU_COMPUTE | 1 << GPU_COMMUNICATION, &kernels);

    for (size_t i = 0; i < rank->work->n && r >= 0; i++) {
        const struct gpu_event *e = &rank->work->events[i];
        if (copy_is_pageable(rank->columns, e))
            r = intervals_add(&pageable, e->ts, e->end);
        if (!is_copy(rank->columns, e) || !scene_has(rank, e->ts))
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
        r = intervals_subtract(&copies, &kernels, &alone);
    if (r >= 0)
        r = intervals_subtract(&alone, &pageable, &exposed);
    ret->exposed = add_time(ret->exposed, intervals_length(&exposed));
    ret->all = add_time(ret->all, intervals_length(&copies));
    return r;
}

static int look(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    struct copies copies = {0};
    char figures[FIGURES_MAX], place[PLACE_MAX], name[NAME_MAX_SHOWN + 1];
    int r = 0;

    for (size_t i = 0; i < scene->n && r >= 0; i++)
        r = add_rank(&scene->ranks[i], &copies);
    if (r < 0 || copies.n == 0)
        return r;
    f.cost = f.of[TIME_COPY] = copies.exposed;
    snprintf(f.what, sizeof(f.what), "Copies are exposed: %s with a copy and no kernel at work",
             finding_figures(figures, scene, f.cost));
    snprintf(f.where, sizeof(f.where), "%s, the longest at %s",
             finding_text(name, columns_text(copies.rank->columns, copies.longest->name)),
             finding_place(place, scene, copies.rank->rank, copies.longest->ts, copies.longest->end));
    snprintf(f.evidence, sizeof(f.evidence), "%zu copies, of whose time %.0f %% has no kernel beside it",
             copies.n, copies.all > 0 ? 100.0 * (double)copies.exposed / (double)copies.all : 0.0);
    finding_put(scene, rule, &f, ret);
    return r;
}

const struct rule rule_exposed_copy = {
    .name = "exposed_copy",
    .report = "memcpy",
    .share_min = EXPOSED_SHARE_MIN,
    .ground = "times of copies and kernels, as the trace has them",
    .advice =
        "copy on a stream of its own, earlier than what needs it (prefetch), or copy less: keep weights, "
        "caches and "
        "optimizer states on the GPU, or offload fewer of them",
    .vllm = "a smaller --cpu-offload-gb",
    .sglang = "a smaller --cpu-offload-gb",
    .look = look,
};
