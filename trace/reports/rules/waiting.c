/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that wait for each other: always for the same one, or in turns. */
#include "base/units.h"
#include "trace/reports/rules/claims.h"
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

/* Of each rank; *ret_n: collectives. */
static void sum_up(const struct scene *scene, struct late *ret, size_t *ret_n)
{
    const struct analysis *a = scene->analysis;

    for (size_t i = 0; i < scene->met.n; i++) {
        const struct encounter *e = &scene->met.items[i];
        if (!in_scope(scene, e))
            continue;
        size_t last = encounter_last(a, e);
        int64_t delay = wait_of(a, e, second_of(a, e, last), encounter_start(a, e, last));
        ret[last].n++;
        ret[last].delay = add_time(ret[last].delay, delay);
        if (delay > ret[last].most) {
            ret[last].most = delay;
            ret[last].worst = e;
        }
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

/* -- Which time is waiting ---------------------------------------------------------------------------- */

/* A rank's wait at one collective, by its own clock. */
static int add_wait(const struct scene *scene, const struct encounter *e, size_t rank,
                    struct intervals *for_straggler, struct intervals *for_others)
{
    const struct analysis *a = scene->analysis;
    size_t last = encounter_last(a, e);
    int64_t from = e->events[rank]->ts, offset = encounter_start(a, e, rank) - from,
            to = add_time(from, wait_of(a, e, rank, encounter_start(a, e, last))),
            alone = to; /* from when on all others wait for the last alone */

    if (last == scene->straggler)
        alone = MIN(MAX(encounter_start(a, e, second_of(a, e, last)) - offset, from), to);
    int r = intervals_add(for_others, from, alone);
    return r < 0 ? r : intervals_add(for_straggler, alone, to);
}

/* Only what is exposed communication in scope, and no time twice. */
static int keep_exposed(const struct scene_rank *rank, struct intervals *for_straggler,
                        struct intervals *for_others, struct intervals *ret_straggler,
                        struct intervals *ret_others)
{
    _cleanup_(intervals_done) struct intervals exposed = {0}, others = {0};
    int r = scene_exposed(rank, &exposed);

    intervals_unite(for_straggler);
    intervals_unite(for_others);
    if (r >= 0)
        r = intervals_intersect(&exposed, for_straggler, ret_straggler);
    if (r >= 0)
        r = intervals_intersect(&exposed, for_others, &others);
    return r < 0 ? r : intervals_subtract(&others, ret_straggler, ret_others);
}

int waits_read(struct scene *scene)
{
    _cleanup_(freep) struct late *late = calloc(scene->n + 1, sizeof(*late));
    struct finding straggler = {0}, uneven = {0};
    size_t n = 0;
    int r = late ? 0 : -ENOMEM;

    if (r < 0 || scene->met.n == 0)
        return r;
    sum_up(scene, late, &n);
    scene->straggler = worst_of(late, scene->n);
    for (size_t k = 0; k < scene->n && r >= 0; k++) {
        _cleanup_(intervals_done) struct intervals for_straggler = {0}, for_others = {0};
        struct scene_rank *rank = &scene->ranks[k];
        for (size_t i = 0; i < scene->met.n && r >= 0; i++)
            if (in_scope(scene, &scene->met.items[i]))
                r = add_wait(scene, &scene->met.items[i], k, &for_straggler, &for_others);
        if (r >= 0)
            r = keep_exposed(rank, &for_straggler, &for_others, &rank->waits_for_straggler,
                             &rank->waits_for_others);
        straggler.cost = add_time(straggler.cost, intervals_length(&rank->waits_for_straggler));
        uneven.cost = add_time(uneven.cost, intervals_length(&rank->waits_for_others));
    }
    scene->is_straggler_found = n >= MEETINGS_MIN && finding_matters(scene, &rule_straggler, &straggler);
    scene->is_uneven_found = n >= MEETINGS_MIN && finding_matters(scene, &rule_uneven_ranks, &uneven);
    return r;
}

/* -- Findings ----------------------------------------------------------------------------------------- */

static int64_t waits_of(const struct scene *scene, bool for_straggler)
{
    int64_t sum = 0;

    for (size_t i = 0; i < scene->n; i++)
        sum = add_time(sum, intervals_length(for_straggler ? &scene->ranks[i].waits_for_straggler
                                                           : &scene->ranks[i].waits_for_others));
    return sum;
}

static int look_straggler(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    const struct analysis *a = scene->analysis;
    _cleanup_(freep) struct late *late = calloc(a->n + 1, sizeof(*late));
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX], place[PLACE_MAX], name[NAME_MAX_SHOWN + 1], delay[UNIT_TEXT_MAX];
    size_t n = 0, worst = scene->straggler;

    if (!late)
        return -ENOMEM;
    if (!scene->is_straggler_found)
        return 0;
    sum_up(scene, late, &n);
    f.cost = f.of[TIME_COMMUNICATION] = waits_of(scene, true);
    const struct gpu_event *event = late[worst].worst->events[worst];
    snprintf(f.what, sizeof(f.what),
             "Rank %lld is a straggler: waiting for it alone takes %s, mean of all ranks",
             (long long)a->ranks[worst].number, finding_figures(figures, scene, f.cost));
    snprintf(f.where, sizeof(f.where), "most at %s, before %s",
             finding_place(place, scene, worst, event->ts - late[worst].most, event->ts),
             finding_name(name, late[worst].worst->name));
    snprintf(f.evidence, sizeof(f.evidence),
             "last at %zu of %zu collectives (%.0f %%), after the last but one by %s%s in all; "
             "of its lateness only this counts, and only while nothing computes",
             late[worst].n, n, 100.0 * (double)late[worst].n / (double)n,
             format_duration(delay, scene->is_by_step
                                        ? scene_mean(scene, late[worst].delay * (int64_t)scene->n)
                                        : late[worst].delay),
             scene->is_by_step ? " a step" : "");
    finding_put(scene, rule, &f, ret);
    return 0;
}

static int look_uneven(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    const struct analysis *a = scene->analysis;
    _cleanup_(freep) struct late *late = calloc(a->n + 1, sizeof(*late));
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX];
    size_t n = 0, often = 0;

    if (!late)
        return -ENOMEM;
    if (!scene->is_uneven_found)
        return 0;
    sum_up(scene, late, &n);
    f.cost = f.of[TIME_COMMUNICATION] = waits_of(scene, false);
    snprintf(f.what, sizeof(f.what), "Ranks wait for each other in turns: %s",
             finding_figures(figures, scene, f.cost));
    for (size_t rank = 1; rank < a->n; rank++)
        if (late[rank].n > late[often].n)
            often = rank;
    snprintf(f.where, sizeof(f.where),
             "%zu collectives; no rank is last more often than rank %lld: at %zu of them", n,
             (long long)a->ranks[often].number, late[often].n);
    snprintf(f.evidence, sizeof(f.evidence),
             "from each rank's arrival to that of the last while nothing computes, without what a single "
             "straggler causes");
    finding_put(scene, rule, &f, ret);
    return 0;
}

#define GROUND_CLOCKS                                                                                        \
    "the ranks' clocks are aligned by the ends of their collectives; the report ranks has the error that "   \
    "is left"

const struct rule rule_straggler = {
    .name = "straggler",
    .report = "stragglers",
    .share_min = STRAGGLER_SHARE_MIN,
    .ground = GROUND_CLOCKS,
    .advice =
        "the report stragglers says what it does longer: more work (uneven shards, experts, data), a slower "
        "clock or link (nvidia-smi -q -d CLOCK,PERFORMANCE), or a busier host",
    .look = look_straggler,
};

const struct rule rule_uneven_ranks = {
    .name = "uneven_ranks",
    .report = "imbalance",
    .share_min = UNEVEN_SHARE_MIN,
    .ground = GROUND_CLOCKS,
    .advice = "balance work over ranks: experts by load, requests by length",
    .vllm = "--enable-eplb with redundant experts (--eplb-config num_redundant_experts)",
    .sglang = "--enable-eplb, --ep-num-redundant-experts; --load-balance-method for data parallelism",
    .look = look_uneven,
};
