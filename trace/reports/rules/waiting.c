/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that wait for each other: always for the same one, or in turns. */
#include "base/units.h"
#include "trace/reports/rules/context.h"
#include "trace/reports/rules/rule.h"

#include <errno.h>

/* Ranks never arrive together; a straggler is one whose being last costs more than runs differ by. */
#define STRAGGLER_SHARE_MIN 0.03
/* Arriving in turns costs less for each, and is usual for experts. */
#define UNEVEN_SHARE_MIN 0.08
/* Fewer collective instances do not show what is usual. */
#define MEETINGS_MIN 5

struct late {
    int64_t delay; /* what would be saved had it come with the last but one */
    size_t n;
    int64_t most;
    const struct collective_instance *worst;
};

/* Who came last but one. */
static size_t second_of(const struct analysis *a, const struct collective_instance *e, size_t last)
{
    size_t second = last == 0;

    for (size_t rank = 0; rank < a->n; rank++)
        if (rank != last && collective_instance_start(a, e, rank) > collective_instance_start(a, e, second))
            second = rank;
    return second;
}

/* Until the last one came, but no longer than it was there: clocks are never quite the same. */
static int64_t wait_of(const struct analysis *a, const struct collective_instance *e, size_t rank,
                       int64_t latest)
{
    return MAX(MIN(latest, collective_instance_end(a, e, rank)) - collective_instance_start(a, e, rank),
               INT64_C(0));
}

static bool in_scope(const struct rule_context *context, const struct collective_instance *e)
{
    for (size_t rank = 0; rank < context->n; rank++)
        if (!rule_context_has(&context->ranks[rank], e->events[rank]->ts))
            return false;
    return true;
}

/* Of each rank; *ret_n: collectives. */
static void waiting_sum_up(const struct rule_context *context, struct late *ret, size_t *ret_n)
{
    const struct analysis *a = context->analysis;

    for (size_t i = 0; i < context->met.n; i++) {
        const struct collective_instance *e = &context->met.items[i];
        if (!in_scope(context, e))
            continue;
        size_t last = collective_instance_last(a, e);
        int64_t delay = wait_of(a, e, second_of(a, e, last), collective_instance_start(a, e, last));
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
static int waiting_add_wait(const struct rule_context *context, const struct collective_instance *e,
                            size_t rank, struct intervals *for_straggler, struct intervals *for_others)
{
    const struct analysis *a = context->analysis;
    size_t last = collective_instance_last(a, e);
    int64_t from = e->events[rank]->ts, offset = collective_instance_start(a, e, rank) - from,
            to = add_time(from, wait_of(a, e, rank, collective_instance_start(a, e, last))),
            alone = to; /* from when on all others wait for the last alone */

    if (last == context->straggler)
        alone = MIN(MAX(collective_instance_start(a, e, second_of(a, e, last)) - offset, from), to);
    int r = intervals_add(for_others, from, alone);
    return r < 0 ? r : intervals_add(for_straggler, alone, to);
}

/* Only what is exposed communication in scope, and no time twice. */
static int keep_exposed(const struct rule_rank *rank, struct intervals *for_straggler,
                        struct intervals *for_others, struct intervals *ret_straggler,
                        struct intervals *ret_others)
{
    _cleanup_(intervals_done) struct intervals exposed = {0}, others = {0};
    int r = rule_context_exposed(rank, &exposed);

    intervals_unite(for_straggler);
    intervals_unite(for_others);
    if (r >= 0)
        r = intervals_intersect(&exposed, for_straggler, ret_straggler);
    if (r >= 0)
        r = intervals_intersect(&exposed, for_others, &others);
    return r < 0 ? r : intervals_subtract(&others, ret_straggler, ret_others);
}

int waits_read(struct rule_context *context)
{
    _cleanup_(freep) struct late *late = calloc(context->n + 1, sizeof(*late));
    struct finding straggler = {0}, uneven = {0};
    size_t n = 0;
    int r = late ? 0 : -ENOMEM;

    if (r < 0 || context->met.n == 0)
        return r;
    waiting_sum_up(context, late, &n);
    context->straggler = worst_of(late, context->n);
    for (size_t k = 0; k < context->n && r >= 0; k++) {
        _cleanup_(intervals_done) struct intervals for_straggler = {0}, for_others = {0};
        struct rule_rank *rank = &context->ranks[k];
        for (size_t i = 0; i < context->met.n && r >= 0; i++)
            if (in_scope(context, &context->met.items[i]))
                r = waiting_add_wait(context, &context->met.items[i], k, &for_straggler, &for_others);
        if (r >= 0)
            r = keep_exposed(rank, &for_straggler, &for_others, &rank->waits_for_straggler,
                             &rank->waits_for_others);
        straggler.cost = add_time(straggler.cost, intervals_length(&rank->waits_for_straggler));
        uneven.cost = add_time(uneven.cost, intervals_length(&rank->waits_for_others));
    }
    context->is_straggler_found = n >= MEETINGS_MIN && finding_matters(context, &rule_straggler, &straggler);
    context->is_uneven_found = n >= MEETINGS_MIN && finding_matters(context, &rule_uneven_ranks, &uneven);
    return r;
}

/* -- Findings ----------------------------------------------------------------------------------------- */

static int64_t waits_of(const struct rule_context *context, bool for_straggler)
{
    int64_t sum = 0;

    for (size_t i = 0; i < context->n; i++)
        sum = add_time(sum, intervals_length(for_straggler ? &context->ranks[i].waits_for_straggler
                                                           : &context->ranks[i].waits_for_others));
    return sum;
}

static int straggler_evaluate(const struct rule_context *context, const struct rule *rule,
                              struct report_rows *ret)
{
    const struct analysis *a = context->analysis;
    _cleanup_(freep) struct late *late = calloc(a->n + 1, sizeof(*late));
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX], place[PLACE_MAX], name[NAME_MAX_SHOWN + 1], delay[UNIT_TEXT_MAX];
    size_t n = 0, worst = context->straggler;

    if (!late)
        return -ENOMEM;
    if (!context->is_straggler_found)
        return 0;
    waiting_sum_up(context, late, &n);
    f.cost = f.of[TIME_COMMUNICATION] = waits_of(context, true);
    const struct gpu_event *event = late[worst].worst->events[worst];
    snprintf(f.what, sizeof(f.what), "Straggler: ranks wait for rank %lld alone for %s, mean of all ranks",
             (long long)a->ranks[worst].number, finding_figures(figures, context, f.cost));
    snprintf(f.where, sizeof(f.where), "worst window: %s, before %s",
             finding_place(place, context, worst, event->ts - late[worst].most, event->ts),
             finding_name(name, late[worst].worst->name));
    snprintf(f.evidence, sizeof(f.evidence),
             "last at %zu of %zu collectives (%.0f %%), %s%s in total after the second to last rank; only "
             "this delay counts, and only without computation",
             late[worst].n, n, 100.0 * (double)late[worst].n / (double)n,
             format_duration(delay, context->is_by_step
                                        ? rule_context_mean(context, late[worst].delay * (int64_t)context->n)
                                        : late[worst].delay),
             context->is_by_step ? " per step" : "");
    finding_emit(context, rule, &f, ret);
    return 0;
}

static int uneven_evaluate(const struct rule_context *context, const struct rule *rule,
                           struct report_rows *ret)
{
    const struct analysis *a = context->analysis;
    _cleanup_(freep) struct late *late = calloc(a->n + 1, sizeof(*late));
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX];
    size_t n = 0, often = 0;

    if (!late)
        return -ENOMEM;
    if (!context->is_uneven_found)
        return 0;
    waiting_sum_up(context, late, &n);
    f.cost = f.of[TIME_COMMUNICATION] = waits_of(context, false);
    snprintf(f.what, sizeof(f.what), "Uneven ranks: ranks wait for each other in turn for %s",
             finding_figures(figures, context, f.cost));
    for (size_t rank = 1; rank < a->n; rank++)
        if (late[rank].n > late[often].n)
            often = rank;
    snprintf(f.where, sizeof(f.where), "%zu collectives; most often last: rank %lld, at %zu of them", n,
             (long long)a->ranks[often].number, late[often].n);
    snprintf(f.evidence, sizeof(f.evidence),
             "time without computation from the arrival of each rank to that of the last, excluding the wait "
             "for a single straggler");
    finding_emit(context, rule, &f, ret);
    return 0;
}

#define GROUND_CLOCKS                                                                                        \
    "the clocks of the ranks are aligned by wall-clock time, or by the ends of their collectives if these "  \
    "show an error of more than a millisecond; the report ranks shows the remaining error"

const struct rule rule_straggler = {
    .name = "straggler",
    .report = "stragglers",
    .share_min = STRAGGLER_SHARE_MIN,
    .ground = GROUND_CLOCKS,
    .advice =
        "the report stragglers shows its additional time: more work (uneven shards, experts, data), a slower "
        "clock or link (nvidia-smi -q -d CLOCK,PERFORMANCE), or a busier host",
    .evaluate = straggler_evaluate,
};

const struct rule rule_uneven_ranks = {
    .name = "uneven_ranks",
    .report = "imbalance",
    .share_min = UNEVEN_SHARE_MIN,
    .ground = GROUND_CLOCKS,
    .advice = "balance work over ranks: experts by load, requests by length",
    .vllm = "--enable-eplb with redundant experts (--eplb-config num_redundant_experts)",
    .sglang = "--enable-eplb, --ep-num-redundant-experts; --load-balance-method for data parallelism",
    .evaluate = uneven_evaluate,
};
