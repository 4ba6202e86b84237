/* SPDX-License-Identifier: Apache-2.0 */
#include "base/run_compare.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/runs/requests.h"
#include "client/runs/run_group.h"
#include "client/verbs/conditions.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "client/views/run.h"
#include "client/views/run_figures.h"
#include <errno.h>
#include <math.h>

/* Requests of larger runs would not fit into one response. */
#define REQUESTS_MAX 200000

struct compare_options {
    struct condition_options fail_if;
};

/* clang-format off */
static const struct option_def compare_options[] = {
    CONDITION_OPTIONS(struct compare_options, fail_if, "runs", "'ttft.p99 > +5%', 'tpot.p50 > 30ms', 'output_tokens_per_s < -5%'"),
};
/* clang-format on */

static void compared_side_done(struct compared_side *s)
{
    json_decref(s->runs);
    json_decref(s->requests);
}

static int64_t count_requests(const json_t *run)
{
    const json_t *counts = json_object_get(run, "requests");
    return json_get_int(counts, "success", 0) + json_get_int(counts, "incomplete", 0) +
           json_get_int(counts, "error", 0);
}

/* The spread of a single run is estimated from its requests; several runs do not need them. */
static int compared_side_get(struct client *c, const char *word, struct compared_side *ret)
{
    char ref[RUN_REF_MAX];
    int status = run_group_get(c, word, &ret->runs);

    if (status != EXIT_DONE || json_array_size(ret->runs) != 1)
        return status;
    const json_t *run = json_array_get(ret->runs, 0);
    if (count_requests(run) <= REQUESTS_MAX)
        return requests_get(c, run_ref(ref, run), &ret->requests);
    client_note(c, "%s has more than %d requests: changes are reported without intervals", run_ref(ref, run),
                REQUESTS_MAX);
    return EXIT_DONE;
}

/* -- Text --------------------------------------------------------------------------------------------- */

enum { CELL_METRIC, CELL_A, CELL_B, CELL_PERCENT, CELL_INTERVAL, CELL_RESULT, CELL_CHANGE, _CELL_MAX };

/* Counts have no fractions. */
static char *compare_value_text(char *buf, double value, bool is_count)
{
    return is_count && isfinite(value) && fabs(value) < 1e15 ? text_number(buf, llround(value))
                                                             : figure_text(buf, value);
}

static bool compare_is_count(const struct compared_figure *f)
{
    return f->a.value == floor(f->a.value) && f->b.value == floor(f->b.value);
}

/* As in --fail-if, with the unit: "ttft.p99 ms". */
static char *figure_name(const struct compared_figure *f)
{
    bool is_ms = ends_with(f->metric, "_ms");
    int n = (int)(strlen(f->metric) - (is_ms ? strlen("_ms") : 0));

    return f->figure ? xasprintf("%.*s.%s%s", n, f->metric, f->figure, is_ms ? " ms" : "")
                     : xstrdup(f->metric);
}

static void compare_add_row(struct table *table, const struct compared_figure *f)
{
    char a[32], b[32], change[32], percent[32] = "", interval[64] = "";
    const struct contrast *d = &f->difference;
    double part = 100 / fabs(f->a.value);
    _cleanup_(freep) char *name = figure_name(f);
    _cleanup_(freep) char *with_sign =
        xasprintf("%s%s", d->value > 0 ? "+" : "", compare_value_text(change, d->value, compare_is_count(f)));

    if (isfinite(part * d->value))
        snprintf(percent, sizeof(percent), "%+.1f %%", part * d->value);
    /* Counts that are equal, as zero errors, need no interval. */
    if (isfinite(part * d->low) && (f->figure || d->value != 0))
        snprintf(interval, sizeof(interval), "%+.1f .. %+.1f %%", part * d->low, part * d->high);
    /* One result for each metric: that of its first row. */
    bool has_result = f->figure ? streq(f->figure, "mean") : f->difference.value != 0;
    const char *result = has_result ? compared_result_name(f) : NULL;
    table_add(table, (const char *[_CELL_MAX]){
                         [CELL_METRIC] = name,
                         [CELL_A] = compare_value_text(a, f->a.value, compare_is_count(f)),
                         [CELL_B] = compare_value_text(b, f->b.value, compare_is_count(f)),
                         [CELL_PERCENT] = percent,
                         [CELL_INTERVAL] = interval,
                         [CELL_RESULT] = result ? result : "",
                         [CELL_CHANGE] = with_sign,
                     });
    table_set_real(table, CELL_A, f->a.value);
    table_set_real(table, CELL_B, f->b.value);
    table_set_real(table, CELL_PERCENT, part * d->value);
    table_set_value(table, CELL_RESULT, compared_result_name(f));
    table_set_real(table, CELL_CHANGE, d->value);
    if (streq(result, "slower"))
        table_colour(table, CELL_RESULT, COLOUR_BAD);
    else if (streq(result, "faster"))
        table_colour(table, CELL_RESULT, COLOUR_GOOD);
}

static void compare_print_workloads(struct client *c, const json_t *differences)
{
    size_t i;
    json_t *one;

    json_array_foreach(differences, i, one) {
        const json_t *a = json_object_get(one, "a"), *b = json_object_get(one, "b");
        const char *member = json_get_str(one, "member");
        _cleanup_(freep) char *before = a ? json_dumps(a, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        _cleanup_(freep) char *after = b ? json_dumps(b, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        _cleanup_(freep) char *text = xasprintf("%s differs: %s -> %s", member ? member : "?",
                                                before ? before : "-", after ? after : "-");
        _cleanup_(freep) char *clean = text_clean(text, false);
        _cleanup_(freep) char *line =
            c->out.is_terminal ? text_shorten(clean, screen_text_width(&c->out)) : NULL;
        fprintf(c->out.file, "%s\n", line ? line : clean);
    }
    if (i > 0)
        fputc('\n', c->out.file);
}

static void compare_print_groups(struct client *c, const struct compared_side *a,
                                 const struct compared_side *b)
{
    _cleanup_(freep) char *before = run_group_text(a->runs), *after = run_group_text(b->runs);

    fprintf(c->out.file, "Before: %s\nAfter:  %s\n\n", before, after);
}

/* The method of the intervals, and the number of runs that unclear results need. */
static void compare_print_notes(struct client *c, const struct runs_comparison *cmp)
{
    FILE *out = c->out.file;
    const char *separator = "", *unclear = "Not distinguishable: the 95 % interval includes no change. Runs "
                                           "needed on each side to detect a change of this size: ";
    const struct compared_figure *few = NULL;

    if (!listing_has_legend(c))
        return;
    fputc('\n', out);
    if (cmp->has_several)
        fputs("Intervals are of 95 %, over runs.\n", out);
    else
        listing_title(
            c,
            "Intervals are of 95 %. With one run each, a run is assumed to differ from the next as much as "
            "parts of a run differ from each other. Repeated runs measure it: profctl bench --repeat-runs 5");
    for (size_t i = 0; i < cmp->n; i++) {
        const struct compared_figure *f = &cmp->figures[i];
        if (!streq(f->figure, "mean") || streq(f->metric, "send_lateness_ms"))
            continue;
        few = !few && f->result == COMPARED_TOO_FEW ? f : few;
        if (f->result != COMPARED_UNCLEAR || f->difference.value == 0)
            continue;
        fputs(*separator ? "" : unclear, out);
        if (f->runs_needed)
            fprintf(out, "%s%s %zu", separator, run_metric_name(f->metric), f->runs_needed);
        else
            fprintf(out, "%s%s more than %d", separator, run_metric_name(f->metric), UNITS_NEEDED_MAX);
        separator = ", ";
    }
    if (*separator)
        fputs("\n", out);
    if (few)
        fprintf(out, "Too few requests: %zu against %zu; each run needs at least %zu\n", few->n_a, few->n_b,
                few->requests_min);
}

static int compare_print(struct client *c, const struct compared_side *a, const struct compared_side *b,
                         const struct runs_comparison *cmp)
{
    char refs[2][RUN_REF_MAX];
    const struct table_column columns[_CELL_MAX] = {
        [CELL_METRIC] = {"", COLUMN_VERBATIM, IMPORTANCE_KEY, "metric"},
        [CELL_A] = {cmp->has_several ? "BEFORE" : run_ref(refs[0], json_array_get(a->runs, 0)), COLUMN_RIGHT,
                    IMPORTANCE_HIGH, "before"},
        [CELL_B] = {cmp->has_several ? "AFTER" : run_ref(refs[1], json_array_get(b->runs, 0)), COLUMN_RIGHT,
                    IMPORTANCE_HIGH, "after"},
        [CELL_PERCENT] = {"CHANGE", COLUMN_RIGHT | COLUMN_VERBATIM, IMPORTANCE_HIGH, "change_percent"},
        [CELL_INTERVAL] = {"95% INTERVAL", COLUMN_RIGHT | COLUMN_VERBATIM, IMPORTANCE_NORMAL, "interval"},
        [CELL_RESULT] = {"RESULT", COLUMN_VERBATIM, IMPORTANCE_HIGH},
        [CELL_CHANGE] = {"DIFFERENCE", COLUMN_RIGHT, IMPORTANCE_LOW},
    };
    _cleanup_(table_freep) struct table *table = NULL;
    int status = listing_table(c, columns, _CELL_MAX, &table);

    if (status != EXIT_DONE)
        return status;
    client_page(c);
    if (cmp->has_several && listing_is_text(c))
        compare_print_groups(c, a, b);
    if (listing_is_text(c))
        compare_print_workloads(c, cmp->workload);
    for (size_t i = 0; i < cmp->n; i++)
        compare_add_row(table, &cmp->figures[i]);
    listing_print(c, table);
    compare_print_notes(c, cmp);
    return EXIT_DONE;
}

/* -- Conditions --------------------------------------------------------------------------------------- */

/* Conditions are in nanoseconds; figures without a unit of time are compared by percentage only. */
#define NS_OF_MS 1e6

static int compare_parse_conditions(struct client *c, const struct condition_options *o,
                                    struct condition **ret)
{
    static const char remedy[] =
        "A measure, > or <, and a change or a time: 'ttft.p99 > +5%', 'tpot.p50 > 30ms', "
        "'output_tokens_per_s < -5%'.";
    int status = conditions_parse(c, o, remedy, ret);

    for (size_t i = 0; i < o->list.n && status == EXIT_DONE; i++)
        if (!strchr((*ret)[i].measure, '.') && !(*ret)[i].is_share)
            status = client_refuse(c, remedy, "--fail-if: '%s' is not a time, so its change is in %%",
                                   o->list.items[i]);
    return status;
}

/* Too few requests leave a condition undecided, even with a narrow interval. */
static struct condition_decision figure_decide(const struct condition *condition,
                                               const struct compared_figure *f, bool by_estimate)
{
    struct condition_decision d = condition_decide(condition, &f->a, &f->b, NS_OF_MS, by_estimate);

    if (f->requests_min > 0 && !by_estimate) {
        d.result = CONDITION_UNDECIDED;
        d.units_needed = 0;
    }
    return d;
}

/* What would decide it. */
static char *figure_needs(const struct compared_figure *f, const struct condition_decision *d)
{
    if (f->requests_min > 0)
        return xasprintf("%zu against %zu requests; each run needs at least %zu", f->n_a, f->n_b,
                         f->requests_min);
    if (d->units_needed > 0)
        return xasprintf("about %zu runs of each side would decide: profctl bench --repeat-runs %zu",
                         d->units_needed, d->units_needed);
    if (isfinite(d->low))
        return xasprintf("more than %d runs of each side would be needed to decide", UNITS_NEEDED_MAX);
    return xstrdup("several runs of each side would decide: profctl bench --repeat-runs 5");
}

/* The percentile that a measure names, such as 99 of "ttft.p99", where the runs have the metric but too few
 * requests for it; 0 otherwise. */
static unsigned unsupported_percentile(const struct runs_comparison *cmp, const char *measure)
{
    static const unsigned percentiles[] = {50, 90, 99};
    const char *dot = strrchr(measure, '.');

    for (size_t i = 0; dot && i < ARRAY_SIZE(percentiles); i++) {
        _cleanup_(freep) char *suffix = xasprintf(".p%u", percentiles[i]),
                              *mean = xasprintf("%.*s.mean", (int)(dot - measure), measure);
        const struct compared_figure *f = runs_comparison_find(cmp, mean);
        if (streq(dot, suffix) && f && isfinite(f->a.value) && isfinite(f->b.value))
            return percentiles[i];
    }
    return 0;
}

/* A missing measure is an error. */
static int compare_check_conditions(struct client *c, const struct condition_options *o,
                                    const struct condition *conditions, const struct runs_comparison *cmp)
{
    int status = EXIT_DONE;

    for (size_t i = 0; i < o->list.n; i++) {
        const char *measure = conditions[i].measure;
        const struct compared_figure *f = runs_comparison_find(cmp, measure);
        bool is_known = f && isfinite(f->a.value) && isfinite(f->b.value);
        unsigned percentile = is_known ? 0 : unsupported_percentile(cmp, measure);
        if (is_known) {
            struct condition_decision d = figure_decide(&conditions[i], f, o->by_estimate);
            _cleanup_(freep) char *needed = figure_needs(f, &d);
            status = condition_report(c, o, i, &conditions[i], &d, NS_OF_MS, needed, status);
        } else if (percentile > 0) {
            client_note(c,
                        "undecided: %s: the runs have too few requests for p%u\n"
                        "  Each run needs at least %u: profctl bench --requests N.",
                        o->list.items[i], percentile, 100 / (100 - percentile));
            status = status == EXIT_DONE ? EXIT_UNDECIDED : status;
        } else {
            return client_error(
                c, PROBLEM_NOT_FOUND,
                "Measures are mean, p50, p90, p99 and max of ttft, itl, tpot and e2e, if there are "
                "enough requests, and the throughput figures of profctl compare.",
                "--fail-if: a side has no %s", measure);
        }
    }
    return status;
}

/* ----------------------------------------------------------------------------------------------------- */

static int compare_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct compare_options *o = values;
    _cleanup_(freep) struct condition *conditions = NULL;
    _cleanup_(compared_side_done) struct compared_side a = {0}, b = {0};
    _cleanup_(runs_comparison_done) struct runs_comparison cmp = {0};
    int status = compare_parse_conditions(c, &o->fail_if, &conditions);

    if (status == EXIT_DONE)
        status = compared_side_get(c, words[0], &a);
    if (status == EXIT_DONE)
        status = compared_side_get(c, words[1], &b);
    if (status != EXIT_DONE)
        return status;
    runs_compare(&a, &b, &cmp);
    if (c->json) {
        _cleanup_json_ j = runs_comparison_json(&cmp);
        client_print_json(c, j);
    } else {
        status = compare_print(c, &a, &b, &cmp);
    }
    if (status != EXIT_DONE)
        return status;
    return compare_check_conditions(c, &o->fail_if, conditions, &cmp);
}

const struct verb verb_compare = {
    .name = "compare",
    .words = "BEFORE AFTER",
    .summary = "Compare benchmark runs, with statistical significance",
    .details = "Each side is a run (r3), several repeated runs (r3,r4,r5), or a label of runs (job=nightly). "
               "Repeated runs (profctl bench --repeat-runs) measure how much runs differ without a change.",
    .default_kind = 'r',
    .min_words = 2,
    .max_words = 2,
    VERB_OPTIONS(compare_options, struct compare_options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = compare_run,
};
