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
/* Fewer collectives do not show what is usual. */
#define COLLECTIVES_MIN 5

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

static int read_arrivals(struct rule_context *context)
{
    const struct analysis *a = context->analysis;
    _cleanup_(freep) int64_t *clock_errors = calloc(a->n, sizeof(*clock_errors));

    context->arrivals = calloc(a->n, sizeof(*context->arrivals));
    if (!clock_errors || !context->arrivals)
        return -ENOMEM;
    int r = collective_instances_clock_errors(a, &context->collectives, clock_errors);
    for (size_t i = 0; i < context->collectives.n && r >= 0; i++) {
        const struct collective_instance *e = &context->collectives.items[i];
        if (!in_scope(context, e))
            continue;
        size_t last = collective_instance_last(a, e), second = second_of(a, e, last);
        struct arrivals *late = &context->arrivals[last];
        int64_t begin = collective_instance_start(a, e, last), delay = wait_of(a, e, second, begin);
        context->n_collectives++;
        late->n_last +=
            begin - collective_instance_start(a, e, second) > clock_errors[last] + clock_errors[second];
        late->delay = add_time(late->delay, delay);
        if (delay > late->most) {
            late->most = delay;
            late->worst = e;
        }
    }
    for (size_t rank = 1; rank < a->n; rank++)
        if (context->arrivals[rank].delay > context->arrivals[context->straggler].delay)
            context->straggler = rank;
    return r;
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
    struct finding straggler = {0}, uneven = {0};
    int r = context->collectives.n > 0 ? read_arrivals(context) : 0;

    if (r < 0 || context->collectives.n == 0)
        return r;
    for (size_t k = 0; k < context->n && r >= 0; k++) {
        _cleanup_(intervals_done) struct intervals for_straggler = {0}, for_others = {0};
        struct rule_rank *rank = &context->ranks[k];
        for (size_t i = 0; i < context->collectives.n && r >= 0; i++)
            if (in_scope(context, &context->collectives.items[i]))
                r = waiting_add_wait(context, &context->collectives.items[i], k, &for_straggler, &for_others);
        if (r >= 0)
            r = keep_exposed(rank, &for_straggler, &for_others, &rank->waits_for_straggler,
                             &rank->waits_for_others);
        straggler.cost = add_time(straggler.cost, intervals_length(&rank->waits_for_straggler));
        uneven.cost = add_time(uneven.cost, intervals_length(&rank->waits_for_others));
    }
    bool is_enough = context->n_collectives >= COLLECTIVES_MIN;
    /* What the clock errors may explain names no straggler. */
    context->is_straggler_found = is_enough && context->arrivals[context->straggler].n_last > 0 &&
                                  finding_matters(context, &rule_straggler, &straggler);
    context->is_uneven_found = is_enough && finding_matters(context, &rule_uneven_ranks, &uneven);
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
    struct finding f = {.confidence = CONFIDENCE_CERTAIN, .is_of_all_ranks = true};
    char figures[FIGURES_MAX], location[LOCATION_MAX], name[NAME_MAX_SHOWN + 1], delay[UNIT_TEXT_MAX];

    if (!context->is_straggler_found)
        return 0;
    const struct arrivals *late = &context->arrivals[context->straggler];
    const struct gpu_event *event = late->worst->events[context->straggler];
    f.cost = f.of[TIME_COMMUNICATION] = waits_of(context, true);
    snprintf(f.what, sizeof(f.what), "Straggler: ranks wait for rank %lld alone for %s, mean of all ranks",
             (long long)context->analysis->ranks[context->straggler].number,
             finding_figures(figures, context, f.cost));
    f.place = (struct finding_place){.is_known = true,
                                     .rank = context->straggler,
                                     .from = event->ts - late->most,
                                     .to = event->ts,
                                     .slice = event->slice};
    snprintf(f.where, sizeof(f.where), "worst window: %s, before %s", finding_location(location, context, &f),
             finding_name(name, late->worst->name));
    snprintf(
        f.evidence, sizeof(f.evidence),
        "last by more than the clock errors at %zu of %zu collectives (%.0f %%), %s%s in total after the "
        "second to last rank; only this delay counts, and only without computation",
        late->n_last, context->n_collectives, 100.0 * (double)late->n_last / (double)context->n_collectives,
        format_duration(delay, context->is_by_step
                                   ? rule_context_mean(context, late->delay * (int64_t)context->n)
                                   : late->delay),
        context->is_by_step ? " per step" : "");
    finding_emit(context, rule, &f, ret);
    return 0;
}

static int uneven_evaluate(const struct rule_context *context, const struct rule *rule,
                           struct report_rows *ret)
{
    struct finding f = {.confidence = CONFIDENCE_CERTAIN, .is_of_all_ranks = true};
    char figures[FIGURES_MAX];
    size_t often = 0;

    if (!context->is_uneven_found)
        return 0;
    f.cost = f.of[TIME_COMMUNICATION] = waits_of(context, false);
    snprintf(f.what, sizeof(f.what), "Uneven ranks: ranks wait for each other in turn for %s",
             finding_figures(figures, context, f.cost));
    for (size_t rank = 1; rank < context->n; rank++)
        if (context->arrivals[rank].n_last > context->arrivals[often].n_last)
            often = rank;
    if (context->arrivals[often].n_last > 0)
        snprintf(f.where, sizeof(f.where),
                 "%zu collectives; most often last by more than the clock errors: rank %lld, at %zu of them",
                 context->n_collectives, (long long)context->analysis->ranks[often].number,
                 context->arrivals[often].n_last);
    else
        snprintf(f.where, sizeof(f.where), "%zu collectives; no rank is last by more than the clock errors",
                 context->n_collectives);
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
