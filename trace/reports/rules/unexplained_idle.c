/* SPDX-License-Identifier: Apache-2.0 */
/* Idle time that no other finding claims, where it is much: what it consists of, where it is, what shows it.
 */
#include "base/units.h"
#include "trace/reports/rules/rules.h"

#define UNEXPLAINED_SHARE_MIN 0.10
/* A cause with less of it is not worth a word. */
#define CAUSE_SHARE_MIN 0.03

/* What shows more of a cause, and what to try. */
static const struct {
    const char *what, *report, *advice;
} causes[_IDLE_CAUSE_MAX] = {
    [IDLE_UNKNOWN] =
        {"before work whose launch is not in the trace", "gap_list",
         "record calls of the runtime too (CPU activity), so that the trace shows what launched what; "
         "the report gap_list has the longest gaps"},
    [IDLE_DEVICE] = {"before work that was launched already", "streams",
                     "look at the order between streams, events and graphs around the longest of these gaps"},
    [IDLE_LAUNCH] = {"waiting for launches", "launch_bound",
                     "larger batches, fewer and larger kernels, or graphs"},
    [IDLE_SYNC] = {"after waits of the host for the GPU", "syncs", "the report syncs names the callers"},
    [IDLE_COMPILE] = {"compilation", "gap_list", "warm up all shapes before recording"},
    [IDLE_TOKENIZER] = {"the tokenizer", "gap_list", "the report gap_list has the longest gaps"},
    [IDLE_SCHEDULER] = {"the scheduler", "gap_list", "the report gap_list has the longest gaps"},
    [IDLE_DATA] = {"the data loader", "gap_list", "the report gap_list has the longest gaps"},
    [IDLE_ALLOCATION] = {"allocation of memory", "gap_list", "warm up with the largest shapes"},
    [IDLE_COLLECTOR] = {"Python's garbage collector", "gap_list", "gc.freeze() after start-up"},
    [IDLE_PAGEABLE] = {"calls that copy pageable memory", "memcpy", "copy from pinned memory"},
    [IDLE_PROFILER] = {"the profiler", "gap_list", "record without Python stacks"},
    [IDLE_HOST] = {"other work of the host", "gap_list",
                   "the report gap_list has what the host did in the longest gaps"},
    [IDLE_NOTHING] =
        {"nothing recorded on the launching thread either", "gap_list",
         "record Python stacks for one short session, and other threads, to see what the host waits for"},
};

/* The longest part with the cause, and its rank. */
static const struct idle_part *longest_part(const struct scene *scene, enum idle_cause cause,
                                            const struct scene_rank **ret_rank)
{
    const struct idle_part *ret = NULL;

    for (size_t k = 0; k < scene->n; k++)
        for (size_t i = 0; i < scene->ranks[k].n_parts; i++) {
            const struct idle_part *part = &scene->ranks[k].parts[i];
            if (part->cause == cause && (!ret || part->ns > ret->ns)) {
                ret = part;
                *ret_rank = &scene->ranks[k];
            }
        }
    return ret;
}

static void name_causes(const struct scene *scene, int64_t sum, char *buf, size_t size)
{
    bool named[_IDLE_CAUSE_MAX] = {0};
    size_t used = 0;

    for (;;) {
        size_t most = _IDLE_CAUSE_MAX;
        for (size_t i = 0; i < _IDLE_CAUSE_MAX; i++)
            if (!named[i] && (most == _IDLE_CAUSE_MAX || scene->unclaimed[i] > scene->unclaimed[most]))
                most = i;
        if (most == _IDLE_CAUSE_MAX || (double)scene->unclaimed[most] < CAUSE_SHARE_MIN * (double)sum ||
            used >= size)
            return;
        named[most] = true;
        used += (size_t)snprintf(buf + used, size - used, "%s%s %.0f %%", used ? ", " : "", causes[most].what,
                                 100.0 * (double)scene->unclaimed[most] / (double)sum);
    }
}

static int evaluate(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    struct rule of_cause = *rule;
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    const struct scene_rank *rank = NULL;
    char figures[FIGURES_MAX], place[PLACE_MAX], dur[UNIT_TEXT_MAX], name[NAME_MAX_SHOWN + 1],
        split[FINDING_TEXT_MAX] = "";
    size_t most = 0;

    for (size_t i = 0; i < _IDLE_CAUSE_MAX; i++) {
        f.cost = add_time(f.cost, scene->unclaimed[i]);
        if (scene->unclaimed[i] > scene->unclaimed[most])
            most = i;
    }
    f.of[TIME_IDLE] = f.cost;
    const struct idle_part *part = longest_part(scene, (enum idle_cause)most, &rank);
    if (!part || !finding_matters(scene, rule, &f))
        return 0;
    const struct gap *gap = &rank->gaps.items[part->gap];
    of_cause.report = causes[most].report;
    of_cause.advice = causes[most].advice;
    name_causes(scene, f.cost, split, sizeof(split));
    snprintf(f.what, sizeof(f.what), "Idle time that no other finding explains: %s; most of it %s",
             finding_figures(figures, scene, f.cost), causes[most].what);
    snprintf(f.where, sizeof(f.where), "the longest such gap, %s, at %s, before %s",
             format_duration(dur, gap->idle), finding_place(place, scene, rank->rank, gap->from, gap->to),
             finding_name(
                 name, columns_text(rank->columns, columns_get(rank->columns, COL_slice_name, gap->after))));
    snprintf(f.evidence, sizeof(f.evidence), "%s", split);
    finding_put(scene, &of_cause, &f, ret);
    return 0;
}

const struct rule rule_unexplained_idle = {
    .name = "unexplained_idle",
    .report = "gap_list",
    .share_min = UNEXPLAINED_SHARE_MIN,
    .ground = "times of the GPU's work, and when the next work was launched; each of these causes is below "
              "what its "
              "own rule reports, or has none",
    .look = evaluate,
};
