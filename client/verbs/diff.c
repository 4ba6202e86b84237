/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/diff.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/door/follow.h"
#include "client/reports/report_data.h"
#include "client/reports/report_format.h"
#include "client/reports/report_text.h"
#include "client/text/nearest.h"
#include "client/text/text.h"
#include "client/traces/analyzing.h"
#include "client/verbs.h"
#include "trace/reports/condition.h"
#include <errno.h>
#include <math.h>

#define TOP_DEFAULT 15

struct options {
    struct option_list conditions;
    int64_t top;
    struct analyzing analyzing;
};

#define AT(member) offsetof(struct options, member)

static const struct option_def options[] = {
    {"fail-if", 0, "CONDITION", OPTION_LIST, AT(conditions),
     "exit with 5 where it holds (repeatable): 'step.p50 > +5%', 'gpu.idle > +1ms', 'comm.exposed > 3ms'"},
    {"top", 'n', "N", OPTION_NUMBER, AT(top),
     "kernels and operators to show; 0 for all, default 15, of --json all"},
    ANALYZING_OPTIONS(struct options, analyzing),
};

/* The three tables of a comparison. */
enum { MEASURES, KERNELS, OPS, _TABLE_OF_DIFF_MAX };

static const struct {
    const struct report *report;
    int (*make)(struct diff *d, struct report_rows *ret);
} tables[_TABLE_OF_DIFF_MAX] = {
    [MEASURES] = {&diff_measures, diff_make_measures},
    [KERNELS] = {&diff_kernels, diff_make_kernels},
    [OPS] = {&diff_ops, diff_make_ops},
};

struct comparison {
    struct diff diff;
    struct report_rows rows[_TABLE_OF_DIFF_MAX];
};

static void comparison_done(struct comparison *c)
{
    for (size_t i = 0; i < _TABLE_OF_DIFF_MAX; i++)
        report_rows_done(&c->rows[i]);
}

/* -- Conditions --------------------------------------------------------------------------------------- */

#define MEASURES_NAMED_MAX 32

/* Before anything is read. */
static int check_name(struct client *c, const char *measure)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *all = xstrdup("");
    const char *names[MEASURES_NAMED_MAX];
    size_t n = 0;

    for (const char *name; n < MEASURES_NAMED_MAX && (name = diff_measure_name(n)); n++) {
        if (streq(name, measure))
            return EXIT_DONE;
        names[n] = name;
        char *longer = xasprintf("%s%s%s", all, n ? ", " : "", name);
        free(all);
        all = longer;
    }
    const char *near = nearest_name(measure, names, n);
    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "--fail-if: there is no measure %s", measure);
    if (near)
        problem_remedy(&p, "Is it %s?", near);
    else
        problem_remedy(&p, "There are %s.", all);
    return client_fail(c, &p);
}

static int parse_conditions(struct client *c, const struct option_list *list, struct condition **ret)
{
    *ret = xcalloc(list->n + 1, sizeof(**ret));
    for (size_t i = 0; i < list->n; i++) {
        _cleanup_(problem_done) struct problem p = {0};
        if (condition_parse(list->items[i], &(*ret)[i]) >= 0) {
            int status = check_name(c, (*ret)[i].measure);
            if (status != EXIT_DONE)
                return status;
            continue;
        }
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "--fail-if: '%s' is no condition", list->items[i]);
        problem_remedy(&p, "A measure, > or <, and a change or a time: 'step.p50 > +5%%', 'gpu.idle > 3ms'. "
                           "profctl diff shows the measures.");
        return client_fail(c, &p);
    }
    return EXIT_DONE;
}

/* The row of a measure, or the number of rows. */
static size_t find_measure(const struct report_rows *rows, const char *name)
{
    size_t row = 0;

    while (row < report_rows_count(rows) && !streq(report_rows_at(rows, row, 0)->text, name))
        row++;
    return row;
}

/* A measure that is not there fails too: what cannot be seen is not fine. */
static int check_measures(struct client *c, const struct option_list *list,
                          const struct condition *conditions, const struct report_rows *rows)
{
    _cleanup_(problem_done) struct problem p = {0};

    for (size_t i = 0; i < list->n; i++)
        if (find_measure(rows, conditions[i].measure) == report_rows_count(rows)) {
            problem_set(&p, -ENODATA, PROBLEM_NOT_FOUND, "--fail-if: both have no %s", conditions[i].measure);
            problem_remedy(&p, "profctl diff shows the measures that both have.");
            return client_fail(c, &p);
        }
    return EXIT_DONE;
}

static int check_conditions(struct client *c, const struct option_list *list,
                            const struct condition *conditions, const struct report_rows *rows)
{
    int status = EXIT_DONE;

    for (size_t i = 0; i < list->n; i++) {
        const struct condition *one = &conditions[i];
        size_t row = find_measure(rows, one->measure);
        if (!condition_is_met(one, report_rows_at(rows, row, 1)->integer,
                              report_rows_at(rows, row, 2)->integer))
            continue;
        client_say(c, "failed: %s", list->items[i]);
        status = EXIT_CONDITION;
    }
    return status;
}

/* ----------------------------------------------------------------------------------------------------- */

static double number_at(const struct report_rows *rows, size_t row, size_t column)
{
    const struct cell *cell = report_rows_at(rows, row, column);

    return cell->type == CELL_REAL ? cell->real : cell->type == CELL_INT ? (double)cell->integer : NAN;
}

/* "step p50 12.41 ms -> 13.02 ms (+4.9 %, p < 0.001, 40 against 40 steps)" */
static void print_head(struct client *c, const struct comparison *cmp)
{
    const struct report_rows *rows = &cmp->rows[MEASURES];
    const char *measure = cmp->diff.by_step ? "step.p50" : "gpu.span";
    size_t row = find_measure(rows, measure);
    char before[UNIT_TEXT_MAX], after[UNIT_TEXT_MAX], p[32] = "";
    FILE *out = c->out.file;

    if (row == report_rows_count(rows))
        return;
    double chance = number_at(rows, row, 5);
    if (isfinite(chance))
        snprintf(p, sizeof(p), chance < 0.001 ? ", p < 0.001" : ", p = %.3f", chance);
    fprintf(out, "%s%s  %s -> %s%s  (%+.1f %%%s", screen_colour(&c->out, COLOUR_BOLD), measure,
            format_duration(before, (int64_t)number_at(rows, row, 1)),
            format_duration(after, (int64_t)number_at(rows, row, 2)), screen_plain(&c->out),
            100 * number_at(rows, row, 4), p);
    if (cmp->diff.by_step)
        fprintf(out, ", %lld against %lld steps of a rank", (long long)cmp->diff.steps_before,
                (long long)cmp->diff.steps_after);
    fputs(")\n", out);
}

static int make(struct client *c, struct analysis *before, struct analysis *after, struct comparison *ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    int r = diff_init(&ret->diff, before, after);

    for (size_t i = 0; i < _TABLE_OF_DIFF_MAX && r >= 0; i++)
        r = tables[i].make(&ret->diff, &ret->rows[i]);
    if (r >= 0)
        return EXIT_DONE;
    problem_set(&p, r, PROBLEM_INTERNAL, "cannot compare: %s", strerror(-r));
    return client_fail(c, &p);
}

static int print(struct client *c, const struct options *o, const struct comparison *cmp, char **words)
{
    size_t top = o->top != OPTION_ABSENT ? (size_t)o->top : c->json ? 0 : TOP_DEFAULT;
    _cleanup_json_ j = json_object();
    _cleanup_(freep) char *names = xasprintf("%s %s", words[0], words[1]);

    if (!c->json)
        print_head(c, cmp);
    for (size_t i = 0; i < _TABLE_OF_DIFF_MAX; i++) {
        if (c->json) {
            json_object_set_new(j, tables[i].report->name,
                                report_to_json(tables[i].report, names, &cmp->rows[i], top));
        } else if (report_rows_count(&cmp->rows[i]) > 0) {
            fputc('\n', c->out.file);
            report_print_text(c, tables[i].report, &cmp->rows[i], i == MEASURES ? 0 : top);
        }
    }
    return c->json ? client_print_json(c, j) : EXIT_DONE;
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(freep) struct condition *conditions = NULL;
    _cleanup_(analyzed_done) struct analyzed before = {0}, after = {0};
    _cleanup_(comparison_done) struct comparison cmp = {0};
    int status = parse_conditions(c, &o->conditions, &conditions);

    follow_hold_signals();
    if (status == EXIT_DONE)
        status = analyzed_open(c, &o->analyzing, 1, &words[0], &before);
    if (status == EXIT_DONE)
        status = analyzed_open(c, &o->analyzing, 1, &words[1], &after);
    if (status == EXIT_DONE)
        status = make(c, &before.analysis, &after.analysis, &cmp);
    if (status == EXIT_DONE)
        status = check_measures(c, &o->conditions, conditions, &cmp.rows[MEASURES]);
    if (status == EXIT_DONE)
        status = print(c, o, &cmp, words);
    if (status == EXIT_DONE)
        status = check_conditions(c, &o->conditions, conditions, &cmp.rows[MEASURES]);
    return ranks_status(&before.ranks, ranks_status(&after.ranks, status));
}

const struct verb verb_diff = {
    .name = "diff",
    .words = "BEFORE AFTER",
    .summary = "Compare two traces or sessions: what became slower, faster, new or gone",
    .details = "Each is an id (t12), a session (s7), a trace file, its columns, or a directory of ranks.",
    .own_kind = 't',
    .min_words = 2,
    .max_words = 2,
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .run = run,
};
