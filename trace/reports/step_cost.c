/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/step_cost.h"

#include <errno.h>
#include <math.h>

/* A standard deviation, of what is distributed normally, in median absolute deviations. */
#define DEVIATION_OF_MAD 1.4826

const char *step_part_name(enum step_part part)
{
    return part == STEP_PART_IDLE ? "idle" : kernel_class_name((enum kernel_class)part);
}

/* Steps are in order and apart, so that each interval of busy is walked through about once. */
static void sum_busy(const struct intervals *busy, const struct steps *steps, struct step_costs *ret)
{
    size_t at = 0;

    for (size_t i = 0; i < steps->n; i++) {
        const struct step *s = &steps->items[i];
        while (at < busy->n && busy->items[at].to <= s->ts)
            at++;
        for (size_t k = at; k < busy->n && busy->items[k].from < s->end; k++)
            ret->items[i].busy += MIN(busy->items[k].to, s->end) - MAX(busy->items[k].from, s->ts);
        ret->items[i].parts[STEP_PART_IDLE] = s->end - s->ts - ret->items[i].busy;
    }
}

static int compare(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

static int64_t median(int64_t *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return n % 2 ? values[n / 2] : values[n / 2 - 1] + (values[n / 2] - values[n / 2 - 1]) / 2;
}

/* Steps that are compared with each other; values is room for one of each. */
struct group {
    const struct steps *steps;
    struct step_costs *costs;
    const size_t *members;
    size_t n;
    int64_t *values;
};

static int64_t duration(const struct group *g, size_t member)
{
    const struct step *s = &g->steps->items[g->members[member]];
    return s->end - s->ts;
}

static int64_t median_part(const struct group *g, enum step_part part)
{
    for (size_t i = 0; i < g->n; i++)
        g->values[i] = g->costs->items[g->members[i]].parts[part];
    return median(g->values, g->n);
}

/* The part that went with the outlier's difference most. */
static void explain(const int64_t medians[_STEP_PART_MAX], bool is_longer, struct step_cost *cost)
{
    for (enum step_part part = 0; part < _STEP_PART_MAX; part++) {
        int64_t by = cost->parts[part] - medians[part];
        if (cost->differs == STEP_PART_NONE || (is_longer ? by > cost->differs_ns : by < cost->differs_ns)) {
            cost->differs = part;
            cost->differs_ns = by;
        }
    }
}

static void find_outliers(const struct group *g)
{
    int64_t medians[_STEP_PART_MAX];

    if (g->n < STEP_OUTLIER_OF_MIN)
        return;
    for (size_t i = 0; i < g->n; i++)
        g->values[i] = duration(g, i);
    int64_t middle = median(g->values, g->n);
    for (size_t i = 0; i < g->n; i++)
        g->values[i] = llabs(duration(g, i) - middle);
    double deviation = DEVIATION_OF_MAD * (double)median(g->values, g->n);
    for (enum step_part part = 0; part < _STEP_PART_MAX; part++)
        medians[part] = median_part(g, part);
    for (size_t i = 0; i < g->n; i++) {
        double by = (double)(duration(g, i) - middle);
        if (fabs(by) <= STEP_OUTLIER_DEVIATIONS * deviation || fabs(by) <= STEP_OUTLIER_PART * (double)middle)
            continue;
        struct step_cost *cost = &g->costs->items[g->members[i]];
        /* Of steps that are all alike, any difference is without measure. */
        cost->deviations = by / MAX(deviation, 1.0);
        explain(medians, by > 0, cost);
    }
}

static int find_all_outliers(const struct steps *steps, struct step_costs *costs)
{
    _cleanup_(freep) size_t *members = calloc(steps->n + 1, sizeof(*members));
    _cleanup_(freep) int64_t *values = calloc(steps->n + 1, sizeof(*values));

    if (!members || !values)
        return -ENOMEM;
    for (enum step_phase phase = 0; phase < _STEP_PHASE_MAX; phase++) {
        struct group g = {steps, costs, members, 0, values};
        for (size_t i = 0; i < steps->n; i++)
            if (steps->items[i].phase == phase && steps->items[i].end > steps->items[i].ts)
                members[g.n++] = i;
        find_outliers(&g);
    }
    return 0;
}

int step_costs_read(const struct gpu_work *work, const struct steps *steps, struct step_costs *ret)
{
    _cleanup_(intervals_done) struct intervals busy = {0};
    int r = gpu_work_busy(work, GPU_ALL, &busy);

    *ret = (struct step_costs){.items = calloc(steps->n + 1, sizeof(*ret->items)), .n = steps->n};
    if (r < 0 || !ret->items)
        return -ENOMEM;
    for (size_t i = 0; i < steps->n; i++)
        ret->items[i].differs = STEP_PART_NONE;
    for (size_t i = 0; i < work->n; i++)
        if (steps->owners[i] != STEP_NONE)
            ret->items[steps->owners[i]].parts[work->events[i].class] +=
                work->events[i].end - work->events[i].ts;
    sum_busy(&busy, steps, ret);
    return find_all_outliers(steps, ret);
}

void step_costs_done(struct step_costs *costs)
{
    free(costs->items);
    *costs = (struct step_costs){0};
}
