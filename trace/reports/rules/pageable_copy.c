/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from or to memory that a GPU cannot reach by itself: they go through a buffer, and the host waits.
 */
#include "base/units.h"
#include "trace/reports/rules/idle.h"
#include "trace/reports/rules/rules.h"

/* Copies of a few bytes between steps are pageable everywhere: below one part in a hundred nobody gains. */
#define PAGEABLE_SHARE_MIN 0.01

struct copies {
    struct intervals times; /* of the copies */
    size_t n;
    int64_t bytes;
    const struct gpu_event *longest;
};

bool copy_is_pageable(const struct columns *c, const struct gpu_event *e)
{
    struct text name = columns_text(c, e->name);

    return e->class == CLASS_MEMORY && name.size > 0 && memmem(name.p, name.size, "Pageable", 8);
}

static int add_copy(const struct columns *c, const struct gpu_event *e, struct copies *ret)
{
    int64_t bytes = e->row == SLICE_NONE ? 0 : columns_get(c, COL_gpu_bytes, e->row);

    ret->n++;
    ret->bytes = add_time(ret->bytes, MAX(bytes, 0));
    if (!ret->longest || e->end - e->ts > ret->longest->end - ret->longest->ts)
        ret->longest = e;
    return intervals_add(&ret->times, e->ts, e->end);
}

/* The copies while no kernel runs, and idle time while the host is in their calls. */
static int add_rank(const struct scene_rank *rank, struct copies *copies, struct finding *ret)
{
    _cleanup_(intervals_done) struct intervals kernels = {0}, alone = {0};
    int r = gpu_work_busy(rank->work, 1 << GPU_COMPUTE | 1 << GPU_COMMUNICATION, &kernels);

    for (size_t i = 0; i < rank->work->n && r >= 0; i++)
        if (copy_is_pageable(rank->columns, &rank->work->events[i]) &&
            scene_has(rank, rank->work->events[i].ts))
            r = add_copy(rank->columns, &rank->work->events[i], copies);
    intervals_unite(&copies->times);
    if (r >= 0)
        r = intervals_subtract(&copies->times, &kernels, &alone);
    ret->of[TIME_COPY] = add_time(ret->of[TIME_COPY], scene_within(rank, &alone));
    for (size_t i = 0; i < rank->n_parts; i++)
        if (rank->parts[i].cause == IDLE_PAGEABLE)
            ret->of[TIME_IDLE] = add_time(ret->of[TIME_IDLE], rank->parts[i].ns);
    return r;
}

static int look(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX], place[PLACE_MAX], size[UNIT_TEXT_MAX], alone[UNIT_TEXT_MAX],
        idle[UNIT_TEXT_MAX], name[NAME_MAX_SHOWN + 1];
    int64_t longest = -1, bytes = 0;
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; i < scene->n && r >= 0; i++) {
        const struct scene_rank *rank = &scene->ranks[i];
        struct copies copies = {0};
        r = add_rank(rank, &copies, &f);
        n += copies.n;
        bytes = add_time(bytes, copies.bytes);
        if (copies.longest && copies.longest->end - copies.longest->ts > longest) {
            longest = copies.longest->end - copies.longest->ts;
            snprintf(f.where, sizeof(f.where), "%s, the longest at %s",
                     finding_text(name, columns_text(rank->columns, copies.longest->name)),
                     finding_place(place, scene, rank->rank, copies.longest->ts, copies.longest->end));
        }
        intervals_done(&copies.times);
    }
    if (r < 0 || n == 0)
        return r;
    f.cost = add_time(f.of[TIME_COPY], f.of[TIME_IDLE]);
    snprintf(f.what, sizeof(f.what), "Copies of pageable memory: no kernel runs for %s, %zu copies",
             finding_figures(figures, scene, f.cost), n);
    snprintf(f.evidence, sizeof(f.evidence),
             "%s in all; such a copy goes through a buffer, and its call waits for it; no kernel runs during "
             "them for %s, and the GPU is idle in their calls for %s",
             format_size(size, bytes), format_duration(alone, scene_mean(scene, f.of[TIME_COPY])),
             format_duration(idle, scene_mean(scene, f.of[TIME_IDLE])));
    finding_put(scene, rule, &f, ret);
    return 0;
}

const struct rule rule_pageable_copy = {
    .name = "pageable_copy",
    .report = "memcpy",
    .share_min = PAGEABLE_SHARE_MIN,
    .idle = IDLE_PAGEABLE,
    .ground = "times of copies and kernels, and self time of the calls that copy",
    .advice =
        "copy from pinned memory (tensor.pin_memory(), DataLoader(pin_memory=True)) with non_blocking=True, "
        "and gather small copies into one",
    .look = look,
};
