/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/ranks/diff_tables.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/traces/analyzing.h"
#include "client/verbs/conditions.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "client/views/report_view.h"
#include <errno.h>
#include <math.h>

#define TOP_DEFAULT 15
/* Less work outside of steps is not worth a line. */
#define OUTSIDE_SHARE_MIN 0.01

struct diff_options {
    struct condition_options fail_if;
    const char *report;
    int64_t top;
    struct analyzing analyzing;
};

#define AT(member) offsetof(struct diff_options, member)

/* clang-format off */
static const struct option_def diff_options[] = {
    OPTION_GROUP("Output"),
    {"report", 'r', "NAME", OPTION_TEXT, AT(report), "Print one table only: measures, kernels or ops"},
    {"top", 'n', "N", OPTION_NUMBER, AT(top), "Kernels and operators to print, 0 for all (default: 15, in JSON, CSV and TSV all)"},
    OPTION_GROUP("Conditions"),
    CONDITION_OPTIONS(struct diff_options, fail_if, "steps", "'step.p50 > +5%', 'gpu.idle > +1ms', 'comm.exposed > 3ms'"),
    OPTION_GROUP("Selection"),
    ANALYZING_OPTIONS(struct diff_options, analyzing),
};
/* clang-format on */

/* -- Conditions --------------------------------------------------------------------------------------- */

#define MEASURES_MAX 32

/* Checks the name of a measure before traces are read. */
static int diff_check_measure(struct client *c, const char *measure)
{
    _cleanup_(freep) char *all = NULL;
    const char *names[MEASURES_MAX], *name;
    size_t n = 0;

    for (; n < MEASURES_MAX && (name = diff_measure_name(n)); n++) {
        if (streq(name, measure))
            return EXIT_DONE;
        append_str(&all, "%s%s", n ? ", " : "Measures: ", name);
        names[n] = name;
    }
    _cleanup_(freep) char *remedy = did_you_mean(measure, names, n, all);
    return client_refuse(c, remedy, "--fail-if: unknown measure '%s'", measure);
}

static int diff_parse_conditions(struct client *c, const struct condition_options *o, struct condition **ret)
{
    int status =
        conditions_parse(c, o,
                         "A measure, > or <, and a change or a time: 'step.p50 > +5%', 'gpu.idle > 3ms'. "
                         "profctl diff shows the measures.",
                         ret);

    for (size_t i = 0; i < o->list.n && status == EXIT_DONE; i++)
        status = diff_check_measure(c, (*ret)[i].measure);
    return status;
}

/* The row of a measure, or the number of rows. */
static size_t find_measure(const struct report_rows *rows, const char *name)
{
    size_t row = 0;

    while (row < report_rows_count(rows) && !streq(report_rows_at(rows, row, 0)->text, name))
        row++;
    return row;
}

/* The number of steps that each side needs for this percentile, if one side has fewer; else 0. */
static size_t steps_needed(const struct diff_tables *cmp, const char *measure)
{
    static const struct {
        const char *measure;
        size_t n;
    } percentiles[] = {{"step.p50", 2}, {"step.p99", 100}};
    const struct diff *d = &cmp->diff;

    for (size_t i = 0; i < ARRAY_SIZE(percentiles) && d->by_step; i++)
        if (streq(percentiles[i].measure, measure) &&
            MIN(d->before.sample.n, d->after.sample.n) < percentiles[i].n)
            return percentiles[i].n;
    return 0;
}

/* Fails if a condition names a measure that the comparison does not have. */
static int diff_check_measures(struct client *c, const struct condition_options *o,
                               const struct condition *conditions, const struct diff_tables *cmp)
{
    const struct report_rows *rows = &cmp->rows[DIFF_MEASURES];

    for (size_t i = 0; i < o->list.n; i++)
        if (find_measure(rows, conditions[i].measure) == report_rows_count(rows) &&
            steps_needed(cmp, conditions[i].measure) == 0)
            return client_error(c, PROBLEM_NOT_FOUND, "profctl diff prints the measures that both have.",
                                "--fail-if: %s is not measured on both sides", conditions[i].measure);
    return EXIT_DONE;
}

static struct condition_decision diff_decide(const struct condition *condition, const struct diff *d,
                                             bool by_estimate)
{
    size_t i = 0;

    while (!streq(diff_measure_name(i), condition->measure))
        i++;
    struct condition_decision decision =
        condition_decide(condition, &d->measures[i].before, &d->measures[i].after, 1, by_estimate);
    if (d->by_step && MIN(d->before.sample.n, d->after.sample.n) < DIFF_STEPS_MIN && !by_estimate) {
        if (decision.result != CONDITION_UNDECIDED || !isfinite(decision.low))
            decision.units_needed = DIFF_STEPS_MIN;
        decision.result = CONDITION_UNDECIDED;
        if (decision.units_needed > 0)
            decision.units_needed = MAX(decision.units_needed, (size_t)DIFF_STEPS_MIN);
    }
    return decision;
}

static int diff_check_conditions(struct client *c, const struct condition_options *o,
                                 const struct condition *conditions, const struct diff_tables *cmp)
{
    int status = EXIT_DONE;

    for (size_t i = 0; i < o->list.n; i++) {
        struct condition_decision d = diff_decide(&conditions[i], &cmp->diff, o->by_estimate);
        size_t missing = steps_needed(cmp, conditions[i].measure);
        _cleanup_(freep) char *needed =
            missing > 0          ? xasprintf("%s needs %zu steps on each side; there are %zu and %zu\n"
                                                      "  Record more steps, or use step.mean.",
                                             conditions[i].measure, missing, cmp->diff.before.sample.n,
                                             cmp->diff.after.sample.n)
            : !cmp->diff.by_step ? xasprintf("without steps on both sides, nothing shows how the time varies")
            : d.units_needed > 0
                ? xasprintf("about %zu steps of each side would decide", d.units_needed)
                : xasprintf("more than %d steps of each side are needed to decide", UNITS_NEEDED_MAX);
        status = condition_report(c, o, i, &conditions[i], &d, 1, needed, status);
    }
    return status;
}

/* ----------------------------------------------------------------------------------------------------- */

static double number_at(const struct report_rows *rows, size_t row, size_t column)
{
    const struct cell *cell = report_rows_at(rows, row, column);

    return cell->type == CELL_REAL ? cell->real : cell->type == CELL_INT ? (double)cell->integer : NAN;
}

/* "step.p50  12.41 ms -> 13.02 ms  (+4.9 %, 40 against 40 steps): slower" */
static void diff_print_head(struct client *c, const struct diff_tables *cmp)
{
    const struct report_rows *rows = &cmp->rows[DIFF_MEASURES];
    const struct diff *d = &cmp->diff;
    bool has_median = MIN(d->before.sample.n, d->after.sample.n) > 1;
    const char *measure = !d->by_step ? "gpu.span" : has_median ? "step.p50" : "step.mean";
    size_t row = find_measure(rows, measure);
    char before[UNIT_TEXT_MAX], after[UNIT_TEXT_MAX];
    FILE *out = c->out.file;

    if (row == report_rows_count(rows))
        return;
    double low = number_at(rows, row, 5), high = number_at(rows, row, 6);
    const struct cell *result = report_rows_at(rows, row, 7);
    fprintf(out, "%s%s  %s -> %s%s  (%+.1f %%", screen_colour(&c->out, COLOUR_BOLD), measure,
            format_duration(before, (int64_t)number_at(rows, row, 1)),
            format_duration(after, (int64_t)number_at(rows, row, 2)), screen_plain(&c->out),
            100 * number_at(rows, row, 4));
    if (d->by_step)
        fprintf(out, ", %zu against %zu steps", d->before.sample.n, d->after.sample.n);
    fprintf(out, ")%s%s\n", result->type == CELL_TEXT ? ": " : "",
            result->type == CELL_TEXT ? result->text : "");
    if (isfinite(low))
        fprintf(out, "95 %% interval of the change: %+.1f %% to %+.1f %%\n", 100 * low, 100 * high);
    if (d->before.sample.n_outliers + d->after.sample.n_outliers > 0 && d->by_step)
        fprintf(out,
                "Outlier steps are included: %zu of %zu before, %zu of %zu after; outliers_ns is the part of "
                "a change "
                "that comes from them\n",
                d->before.sample.n_outliers, d->before.sample.n, d->after.sample.n_outliers,
                d->after.sample.n);
    if (fmax(d->before.outside_share, d->after.outside_share) > OUTSIDE_SHARE_MIN)
        fprintf(out, "Not compared: GPU work that belongs to no step, %.1f %% before and %.1f %% after\n",
                100 * d->before.outside_share, 100 * d->after.outside_share);
}

static int diff_print(struct client *c, const struct diff_options *o, const struct diff_tables *cmp,
                      char **words)
{
    size_t top = o->top != OPTION_ABSENT ? (size_t)o->top : !listing_is_text(c) ? 0 : TOP_DEFAULT;
    _cleanup_json_ j = json_object();
    _cleanup_(freep) char *names = xasprintf("%s %s", words[0], words[1]);

    client_page(c);
    if (listing_is_text(c) && !o->report)
        diff_print_head(c, cmp);
    for (size_t i = 0; i < _DIFF_TABLE_MAX; i++) {
        if (o->report && !streq(o->report, diff_table_list[i].name))
            continue;
        if (listing_is_separated(c))
            return report_print_separated(c, diff_table_list[i].report, &cmp->rows[i], top);
        if (c->json) {
            json_object_set_new(j, diff_table_list[i].report->name,
                                report_rows_to_json(diff_table_list[i].report, names, &cmp->rows[i], top));
        } else if (report_rows_count(&cmp->rows[i]) > 0 || o->report) {
            if (!o->report)
                fputc('\n', c->out.file);
            report_print(c, diff_table_list[i].report, &cmp->rows[i], i == DIFF_MEASURES ? 0 : top);
        }
    }
    return c->json ? client_print_json(c, j) : EXIT_DONE;
}

/* --columns and separated values are of one table. */
static int diff_check_report(struct client *c, const struct diff_options *o)
{
    if (!o->report)
        return listing_refuse(c, "needs one table", "Name it: --report kernels.");
    for (size_t i = 0; i < _DIFF_TABLE_MAX; i++)
        if (streq(o->report, diff_table_list[i].name))
            return report_check_columns(c, diff_table_list[i].report);
    return client_refuse(c, "Tables: measures, kernels, ops.", "--report: unknown table '%s'", o->report);
}

static int diff_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct diff_options *o = values;
    _cleanup_(freep) struct condition *conditions = NULL;
    _cleanup_(analyzed_done) struct analyzed before = {0}, after = {0};
    _cleanup_(diff_tables_done) struct diff_tables cmp = {0};
    int status = diff_check_report(c, o);

    if (status == EXIT_DONE)
        status = diff_parse_conditions(c, &o->fail_if, &conditions);
    client_hold_signals();
    if (status == EXIT_DONE)
        status = analyzed_open(c, &o->analyzing, 1, &words[0], &before);
    if (status == EXIT_DONE)
        status = analyzed_open(c, &o->analyzing, 1, &words[1], &after);
    if (status == EXIT_DONE) {
        int r = diff_tables_make(&cmp, &before.analysis, &after.analysis);
        if (r < 0)
            status = client_error(c, PROBLEM_INTERNAL, NULL, "cannot compare: %s", strerror(-r));
    }
    if (status == EXIT_DONE)
        status = diff_check_measures(c, &o->fail_if, conditions, &cmp);
    if (status == EXIT_DONE)
        status = diff_print(c, o, &cmp, words);
    if (status == EXIT_DONE)
        status = diff_check_conditions(c, &o->fail_if, conditions, &cmp);
    return ranks_status(&before.ranks, ranks_status(&after.ranks, status));
}

const struct verb verb_diff = {
    .name = "diff",
    .summary = "Compare two traces or sessions: what is slower or faster",
    .details = "Each is an id (t12), a session (s7), a trace file, its columns, or a directory of ranks.",
    .words = "BEFORE AFTER",
    .default_kind = 't',
    .min_words = 2,
    .max_words = 2,
    .has_listing = true,
    VERB_OPTIONS(diff_options, struct diff_options),
    .run = diff_run,
};
