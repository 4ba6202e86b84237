/* SPDX-License-Identifier: Apache-2.0 */
/* What findings are not of: the edges of the recording. Statements, which cost nothing. */
#include "base/units.h"
#include "trace/reports/rules/rules.h"

/* Less of the recording is not worth a word. */
#define UNEVALUATED_SHARE_MIN 0.02

static int evaluate_edge(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    const struct scene_rank *rank = NULL;
    struct finding f = {.cost = COLUMN_NULL, .confidence = CONFIDENCE_INFERRED};
    char dur[UNIT_TEXT_MAX], place[PLACE_MAX], who[48] = "", name[NAME_MAX_SHOWN + 1];
    size_t n = 0;

    for (size_t i = 0; i < scene->n; i++) {
        const struct scene_rank *other = &scene->ranks[i];
        int64_t length = other->edge.to - other->edge.from;
        n += length > 0;
        if (length > 0 && (!rank || length > rank->edge.to - rank->edge.from))
            rank = other;
    }
    if (!rank)
        return 0;
    if (scene->n > 1)
        snprintf(who, sizeof(who), "%zu of %zu GPUs were", n, scene->n);
    snprintf(
        f.what, sizeof(f.what),
        "%s most likely busy with work launched before the recording, for %s%s at its beginning, in which "
        "nothing recorded runs: not evaluated",
        scene->n > 1 ? who : "The GPU was", n > 1 ? "up to " : "",
        format_duration(dur, rank->edge.to - rank->edge.from));
    snprintf(f.where, sizeof(f.where), "%s",
             finding_place(place, scene, rank->rank, rank->edge.from, rank->edge.to));
    if (rank->edge_wait != SLICE_NONE)
        snprintf(f.evidence, sizeof(f.evidence), "the host is in %s, which waits for the GPU",
                 finding_name(name, columns_text(rank->columns, columns_get(rank->columns, COL_slice_name,
                                                                            rank->edge_wait))));
    else
        snprintf(f.evidence, sizeof(f.evidence), "work that was launched does not begin");
    finding_put(scene, rule, &f, ret);
    return 0;
}

const struct rule rule_recording_edge = {
    .name = "recording_edge",
    .report = "gap_list",
    .ground =
        "a GPU that is waited for and has nothing recorded to do is busy with something else; no earlier "
        "call "
        "had waited for all of its work, of which a profiler keeps only what is launched while it records",
    .advice = "record for longer, or from a moment when the GPU is idle",
    .look = evaluate_edge,
};

/* "3.2 ms before the first step" */
static void add_amount(char *buf, size_t size, int64_t ns, size_t n, const char *what)
{
    char dur[UNIT_TEXT_MAX];
    size_t used = strlen(buf);

    if (ns > 0)
        snprintf(buf + used, size - used, "%s%s %s", used ? ", " : "", format_duration(dur, ns / (int64_t)n),
                 what);
}

static int evaluate_rest(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    struct finding f = {.cost = COLUMN_NULL, .confidence = CONFIDENCE_CERTAIN};
    int64_t before = 0, after = 0, outliers = 0, edge = 0, recorded = 0;
    char amounts[FINDING_TEXT_MAX / 2] = "", all[UNIT_TEXT_MAX];

    for (size_t i = 0; i < scene->n; i++) {
        const struct scene_rank *rank = &scene->ranks[i];
        before = add_time(before, rank->before);
        after = add_time(after, rank->after);
        outliers = add_time(outliers, intervals_length(&rank->outliers));
        edge = add_time(edge, rank->edge.to - rank->edge.from);
        recorded = add_time(recorded, rank->recorded);
    }
    int64_t sum = add_time(add_time(before, after), add_time(outliers, edge));
    if (recorded <= 0 || (double)sum < UNEVALUATED_SHARE_MIN * (double)recorded)
        return 0;
    const char *work = scene->is_by_step ? "step" : "GPU activity";
    char first[48], last[48];
    snprintf(first, sizeof(first), "before the first %s", work);
    snprintf(last, sizeof(last), "after the last %s", work);
    add_amount(amounts, sizeof(amounts), before, scene->n, first);
    add_amount(amounts, sizeof(amounts), after, scene->n, last);
    add_amount(amounts, sizeof(amounts), outliers, scene->n, "in steps that are outliers");
    add_amount(amounts, sizeof(amounts), edge, scene->n,
               "at the beginning, most likely busy with earlier work");
    snprintf(f.what, sizeof(f.what), "Not evaluated: %s, of %s recorded%s", amounts,
             format_duration(all, recorded / (int64_t)scene->n), scene->n > 1 ? " (mean of all ranks)" : "");
    snprintf(f.where, sizeof(f.where), "the report evaluated has the times of each rank");
    snprintf(f.evidence, sizeof(f.evidence), "%.0f %% of the recording, or of its selected part",
             100.0 * (double)sum / (double)recorded);
    finding_put(scene, rule, &f, ret);
    return 0;
}

const struct rule rule_not_evaluated = {
    .name = "not_evaluated",
    .report = "evaluated",
    .ground = "times of the steps and of the GPU's work, and of the first and last recorded event",
    .advice = "--from and --to look at such a time",
    .look = evaluate_rest,
};
