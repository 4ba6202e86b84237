/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that take much longer than the others: warm-up, or a stall. All other findings are of the rest. */
#include "base/units.h"
#include "trace/reports/rules/rules.h"

/* Of the steps with the outliers. */
#define OUTLIER_SHARE_MIN 0.01

/* A step that is a measure for others, to look at instead. */
static const struct step *steady_step(const struct scene *scene)
{
    const struct scene_rank *rank = scene->outlier.rank;

    for (size_t i = 0; i < rank->steps->n; i++) {
        const struct step *step = &rank->steps->items[i];
        if (step->n_events > 0 && step->phase == scene->outlier.step->phase && scene_has(rank, step->ts))
            return step;
    }
    return NULL;
}

static int evaluate(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    const struct outlier *o = &scene->outlier;
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    struct scene all = *scene;
    char dur[UNIT_TEXT_MAX], median[UNIT_TEXT_MAX], idle_text[UNIT_TEXT_MAX], place[PLACE_MAX], who[96],
        more[64] = "";
    int64_t idle = 0, classes[_HOST_CLASS_MAX] = {0};
    size_t n = 0, most = 0;

    if (!o->step)
        return 0;
    for (size_t i = 0; i < scene->n; i++) {
        const struct scene_rank *rank = &scene->ranks[i];
        f.cost = add_time(f.cost, rank->outliers_longer);
        all.length = add_time(all.length, intervals_length(&rank->outliers));
        all.units += (int64_t)rank->n_outliers;
        n = MAX(n, rank->n_outliers);
        for (size_t k = 0; k < _HOST_CLASS_MAX; k++) {
            classes[k] = add_time(classes[k], rank->outlier_idle[k]);
            idle = add_time(idle, rank->outlier_idle[k]);
        }
    }
    for (size_t k = 1; k < _HOST_CLASS_MAX; k++)
        if (classes[k] > classes[most])
            most = k;
    if (n > 1)
        snprintf(more, sizeof(more), ", the longest of %zu such steps,", n);
    const struct step *steady = steady_step(scene);
    if (steady)
        snprintf(who, sizeof(who), "; --step %lld looks at one of these", (long long)steady->index);
    int64_t took = o->step->end - o->step->ts;
    snprintf(f.what, sizeof(f.what),
             "Step %lld%s takes %s, %.1f times the median of %s: findings are of the other %zu steps%s",
             (long long)o->step->index, more, format_duration(dur, took), (double)took / (double)o->median,
             format_duration(median, o->median), o->rank->n_steps, steady ? who : "");
    snprintf(f.where, sizeof(f.where), "%s",
             finding_place(place, scene, o->rank->rank, o->step->ts, o->step->end));
    int used = snprintf(f.evidence, sizeof(f.evidence),
                        "left out: %zu of %zu steps%s; in them the GPU is idle for %s", n,
                        n + o->rank->n_steps, scene->n > 1 ? " of each rank" : "",
                        format_duration(idle_text, idle / (int64_t)(scene->n * n)));
    if (idle > 0)
        snprintf(f.evidence + used, sizeof(f.evidence) - (size_t)used,
                 " each, %.0f %% of that with the host in %s", 100.0 * (double)classes[most] / (double)idle,
                 host_class_name((enum host_class)most));
    finding_put(&all, rule, &f, ret);
    return 0;
}

const struct rule rule_step_outlier = {
    .name = "step_outlier",
    .report = "steps",
    .share_min = OUTLIER_SHARE_MIN,
    .ground =
        "times of the steps' GPU work: more than twice the median of their phase, and further from it than "
        "5 times the usual distance",
    .advice =
        "send warm-up requests, or run warm-up steps, before recording; --step with its number shows what "
        "such a step does",
    .look = evaluate,
};
