/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that wait for each other: always for the same one, or in turns. */
#include "base/units.h"
#include "trace/reports/rules/rules.h"

#include <errno.h>

/* Ranks never arrive together; a straggler is one whose being last costs more than runs differ by. */
#define STRAGGLER_SHARE_MIN 0.03
/* Arriving in turns costs less for each, and is usual for experts. */
#define UNEVEN_SHARE_MIN 0.08
/* Fewer meetings tell nothing of what is usual. */
#define MEETINGS_MIN 5

struct late {
    int64_t delay; /* what would be saved had it come with the last but one */
    size_t n;
    int64_t most;
    const struct encounter *worst;
};

/* Who came last but one. */
static size_t second_of(const struct analysis *a, const struct encounter *e, size_t last)
{
    size_t second = last == 0;

    for (size_t rank = 0; rank < a->n; rank++)
        if (rank != last && encounter_start(a, e, rank) > encounter_start(a, e, second))
            second = rank;
    return second;
}

/* Until the last one came, but no longer than it was there: clocks are never quite the same. */
static int64_t wait_of(const struct analysis *a, const struct encounter *e, size_t rank, int64_t latest)
{
    return MAX(MIN(latest, encounter_end(a, e, rank)) - encounter_start(a, e, rank), INT64_C(0));
}

static bool in_scope(const struct scene *scene, const struct encounter *e)
{
    for (size_t rank = 0; rank < scene->n; rank++)
        if (!scene_has(&scene->ranks[rank], e->events[rank]->ts))
            return false;
    return true;
}

/* Of each rank; *ret_waited: what all of them waited, *ret_n: meetings. */
static void sum_up(const struct scene *scene, struct late *ret, int64_t *ret_waited, size_t *ret_n)
{
    const struct analysis *a = scene->analysis;

    for (size_t i = 0; i < scene->met.n; i++) {
        const struct encounter *e = &scene->met.items[i];
        if (!in_scope(scene, e))
            continue;
        size_t last = encounter_last(a, e);
        int64_t latest = encounter_start(a, e, last), delay = wait_of(a, e, second_of(a, e, last), latest);
        ret[last].n++;
        ret[last].delay = add_time(ret[last].delay, delay);
        if (delay > ret[last].most) {
            ret[last].most = delay;
            ret[last].worst = e;
        }
        for (size_t rank = 0; rank < a->n; rank++)
            *ret_waited = add_time(*ret_waited, wait_of(a, e, rank, latest));
        ++*ret_n;
    }
}

static size_t worst_of(const struct late *late, size_t n)
{
    size_t worst = 0;

    for (size_t i = 1; i < n; i++)
        if (late[i].delay > late[worst].delay)
            worst = i;
    return worst;
}

static int look_straggler(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    const struct analysis *a = scene->analysis;
    _cleanup_(freep) struct late *late = calloc(a->n + 1, sizeof(*late));
    struct finding f = {.confidence = CONFIDENCE_MEDIUM};
    char figures[FIGURES_MAX], place[PLACE_MAX], name[NAME_MAX_SHOWN + 1];
    int64_t waited = 0;
    size_t n = 0;

    if (!late)
        return -ENOMEM;
    sum_up(scene, late, &waited, &n);
    size_t worst = worst_of(late, a->n);
    if (n < MEETINGS_MIN || !late[worst].worst)
        return 0;
    /* All ranks wait at once. */
    f.cost = MIN(late[worst].delay, INT64_MAX / (int64_t)scene->n) * (int64_t)scene->n;
    const struct gpu_event *event = late[worst].worst->events[worst];
    snprintf(f.what, sizeof(f.what), "Rank %lld is a straggler: the others wait %s for it alone",
             (long long)a->ranks[worst].number, finding_figures(figures, scene, f.cost));
    snprintf(f.where, sizeof(f.where), "most at %s, before %s",
             finding_place(place, scene, worst, event->ts - late[worst].most, event->ts),
             finding_name(name, late[worst].worst->name));
    snprintf(f.evidence, sizeof(f.evidence),
             "last at %zu of %zu collectives (%.0f %%); of its lateness only what "
             "it came behind the last but one counts",
             late[worst].n, n, 100.0 * (double)late[worst].n / (double)n);
    finding_put(scene, rule, &f, ret);
    return 0;
}

static int look_uneven(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    const struct analysis *a = scene->analysis;
    _cleanup_(freep) struct late *late = calloc(a->n + 1, sizeof(*late));
    struct finding f = {.confidence = CONFIDENCE_MEDIUM};
    char figures[FIGURES_MAX];
    int64_t waited = 0;
    size_t n = 0;

    if (!late)
        return -ENOMEM;
    sum_up(scene, late, &waited, &n);
    size_t worst = worst_of(late, a->n);
    if (n < MEETINGS_MIN)
        return 0;
    /* What the worst alone causes is the straggler's. */
    f.cost = waited - MIN(late[worst].delay, INT64_MAX / (int64_t)a->n) * ((int64_t)a->n - 1);
    snprintf(f.what, sizeof(f.what), "Ranks wait for each other in turns: %s",
             finding_figures(figures, scene, f.cost));
    size_t often = 0;
    for (size_t rank = 1; rank < a->n; rank++)
        if (late[rank].n > late[often].n)
            often = rank;
    snprintf(f.where, sizeof(f.where),
             "%zu collectives; no rank is last more often than rank %lld: at %zu of them", n,
             (long long)a->ranks[often].number, late[often].n);
    snprintf(f.evidence, sizeof(f.evidence),
             "from each rank's arrival to that of the last, without what a single straggler causes");
    finding_put(scene, rule, &f, ret);
    return 0;
}

const struct rule rule_straggler = {
    .name = "straggler",
    .report = "stragglers",
    .share_min = STRAGGLER_SHARE_MIN,
    .advice =
        "the report stragglers says what it does longer: more work (uneven shards, experts, data), a slower "
        "clock or link (nvidia-smi -q -d CLOCK,PERFORMANCE), or a busier host",
    .look = look_straggler,
};

const struct rule rule_uneven_ranks = {
    .name = "uneven_ranks",
    .report = "imbalance",
    .share_min = UNEVEN_SHARE_MIN,
    .advice = "balance work over ranks: experts by load, requests by length",
    .vllm = "--enable-eplb with redundant experts (--eplb-config num_redundant_experts)",
    .sglang = "--enable-eplb, --ep-num-redundant-experts; --load-balance-method for data parallelism",
    .look = look_uneven,
};
