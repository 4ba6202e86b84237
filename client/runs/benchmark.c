/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/benchmark.h"

#include "base/alloc.h"
#include "base/estimate.h"
#include "client/cli/text.h"
#include "client/runs/run_group.h"
#include "client/views/run.h"
#include "client/views/run_figures.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>

/* Earlier runs for estimates. */
#define EARLIER_RUNS "/v1/runs?limit=50"

int run_plan_show(struct client *c, const json_t *request, bool dry_run, struct run_plan *plan)
{
    _cleanup_(problem_done) struct problem ignored = {0};
    _cleanup_json_ answer = NULL;

    if (plan->n < 2 && !dry_run)
        return EXIT_DONE;
    if (connection_call(c->connection, "GET", EARLIER_RUNS, NULL, NULL, &answer, &ignored) >= 0)
        run_plan_look_back(plan, json_object_get(answer, "runs"), request);
    if (dry_run && c->json) {
        _cleanup_json_ j = run_plan_json(plan);
        return client_print_json(c, j);
    }
    if (dry_run) {
        run_plan_print(plan, &c->out);
    } else {
        _cleanup_(freep) char *line = run_plan_line(plan);
        client_note(c, "%s", line);
    }
    return EXIT_DONE;
}

int run_show_result(struct client *c, const json_t *run)
{
    if (c->json) {
        client_print_json(c, run);
        return run_exit_status(run);
    }
    _cleanup_(document_done) struct document d = {0};
    run_add_outcome(&d, run);
    run_add_figures(&d, run, !c->no_legend);
    document_print(&d, &c->out, TABLE_FITTED);
    return run_exit_status(run);
}

/* -- Several runs ------------------------------------------------------------------------------------- */

enum { CELL_RUN, CELL_VALUE, CELL_STATE, N_FIRST_CELLS };

/* The columns after them, by paths in the run. */
static const struct result_column {
    struct table_column table;
    const char *path;
    double factor;
} figure_columns[] = {
    {{"PER S", COLUMN_RIGHT, .key = "requests_per_s"}, "throughput/requests_per_s", 1},
    {{"TOKENS/S", COLUMN_RIGHT, IMPORTANCE_HIGH, "output_tokens_per_s"}, "throughput/output_tokens_per_s", 1},
    {{"PER USER", COLUMN_RIGHT, IMPORTANCE_EXTRA, "output_tokens_per_s_per_user"},
     "throughput/output_tokens_per_s_per_user",
     1},
    {{"TTFT p50", COLUMN_RIGHT, IMPORTANCE_HIGH}, "metrics/ttft_ms/p50", 1},
    {{"p99", COLUMN_RIGHT, .key = "ttft_p99"}, "metrics/ttft_ms/p99", 1},
    {{"TPOT p50", COLUMN_RIGHT, IMPORTANCE_HIGH}, "metrics/tpot_ms/p50", 1},
    {{"p99", COLUMN_RIGHT, IMPORTANCE_LOW, "tpot_p99"}, "metrics/tpot_ms/p99", 1},
    {{"E2E p50", COLUMN_RIGHT}, "metrics/e2e_ms/p50", 1},
    {{"p99", COLUMN_RIGHT, .key = "e2e_p99"}, "metrics/e2e_ms/p99", 1},
    {{"GOOD %", COLUMN_RIGHT, IMPORTANCE_LOW, "goodput_share"}, "goodput/share", 100},
};

#define N_FIGURES ARRAY_SIZE(figure_columns)
#define N_CELLS   (N_FIRST_CELLS + N_FIGURES)

/* Runs in rounds of the swept values, or all of one workload. */
struct run_series {
    const struct sweep *sweep; /* NULL: none */
    const json_t *runs;
    size_t n_values; /* number of runs in a round */
};

static size_t series_count(const struct run_series *s, size_t value)
{
    size_t n = json_array_size(s->runs);
    return n > value ? (n - value + s->n_values - 1) / s->n_values : 0;
}

static const json_t *series_run(const struct run_series *s, size_t value, size_t round)
{
    return json_array_get(s->runs, round * s->n_values + value);
}

static double run_figure(const json_t *run, size_t column)
{
    return figure_columns[column].factor * run_supported_figure(run, figure_columns[column].path);
}

/* Mean and spread over the runs of a value. */
static struct estimate series_estimate(const struct run_series *s, size_t value, size_t column)
{
    size_t n = series_count(s, value), n_known = 0;
    _cleanup_(freep) double *figures = xcalloc(n + 1, sizeof(*figures));

    for (size_t round = 0; round < n; round++) {
        double figure = run_figure(series_run(s, value, round), column);
        if (isfinite(figure))
            figures[n_known++] = figure;
    }
    return estimate_of_units(figures, n_known);
}

/* Half of the 95 % interval of the mean; NAN of a single run. */
static double interval_half(const struct estimate *e)
{
    struct estimate zero = {0, 0, INFINITY, 1};
    struct contrast c = isfinite(e->unit_sd) ? estimate_contrast(&zero, e, 1) : (struct contrast){.low = NAN};

    return c.value - c.low;
}

/* As in the option: "4", "0.5". */
static const char *value_text(char *buf, double value)
{
    snprintf(buf, 32, "%.15g", value);
    return buf;
}

static void results_add_run(struct table *table, const struct run_series *s, const json_t *run, size_t value,
                            bool is_knee)
{
    char ref[RUN_REF_MAX], swept[32], numbers[N_FIGURES][32];
    const char *cells[N_CELLS] = {
        [CELL_RUN] = run_ref(ref, run),
        [CELL_VALUE] = s->sweep ? value_text(swept, s->sweep->values[value]) : "",
        [CELL_STATE] = json_get_str(run, "state"),
    };

    for (size_t i = 0; i < N_FIGURES; i++)
        cells[N_FIRST_CELLS + i] = figure_text(numbers[i], run_figure(run, i));
    table_add(table, cells);
    table_colour(table, CELL_STATE, run_colour(run));
    if (is_knee)
        table_colour(table, CELL_VALUE, COLOUR_BOLD);
}

static void results_add_summary(struct table *table, const struct run_series *s, size_t value)
{
    char swept[32], means[N_FIGURES][32], halves[N_FIGURES][40], number[32];
    const char *text = s->sweep ? value_text(swept, s->sweep->values[value]) : "";
    const char *of_mean[N_CELLS] = {[CELL_RUN] = "mean", [CELL_VALUE] = text, [CELL_STATE] = ""},
               *of_half[N_CELLS] = {[CELL_RUN] = "95% CI", [CELL_VALUE] = text, [CELL_STATE] = ""};

    for (size_t i = 0; i < N_FIGURES; i++) {
        struct estimate e = series_estimate(s, value, i);
        double half = interval_half(&e);
        of_mean[N_FIRST_CELLS + i] = figure_text(means[i], e.value);
        snprintf(halves[i], sizeof(halves[i]), "±%s", figure_text(number, half));
        of_half[N_FIRST_CELLS + i] = isfinite(half) ? halves[i] : NULL;
    }
    table_add(table, of_mean);
    table_colour(table, CELL_RUN, COLOUR_BOLD);
    table_add(table, of_half);
}

static size_t series_knee(const struct run_series *s)
{
    struct sweep_point points[SWEEP_MAX] = {{0}};
    size_t n = MIN(json_array_size(s->runs), s->n_values);

    if (!s->sweep || !s->sweep->is_load)
        return SWEEP_NO_KNEE;
    for (size_t value = 0; value < n; value++) {
        double throughput = 0, latency = 0;
        size_t n_runs = series_count(s, value);
        for (size_t round = 0; round < n_runs; round++) {
            throughput +=
                figure_at(series_run(s, value, round), "throughput/output_tokens_per_s") / (double)n_runs;
            latency += figure_at(series_run(s, value, round), "metrics/e2e_ms/mean") / (double)n_runs;
        }
        if (isfinite(throughput) && isfinite(latency))
            points[value] = (struct sweep_point){s->sweep->values[value], throughput, latency};
    }
    return sweep_knee(points, n);
}

static json_t *figures_json(const struct run_series *s, size_t value)
{
    json_t *figures = json_array();

    for (size_t i = 0; i < N_FIGURES; i++) {
        struct estimate e = series_estimate(s, value, i);
        double half = interval_half(&e);
        json_array_append_new(
            figures,
            json_pack("{s: s, s: I, s: o, s: o, s: o}", "figure", figure_columns[i].path, "runs",
                      (json_int_t)e.n, "mean", json_number(e.value), "sd", json_number(e.unit_sd), "ci95",
                      isfinite(half) ? json_pack("[f, f]", e.value - half, e.value + half) : json_null()));
    }
    return figures;
}

static json_t *summary_json(const struct run_series *s)
{
    json_t *list = json_array();

    for (size_t value = 0; value < s->n_values && series_count(s, value) > 0; value++)
        json_array_append_new(list, json_pack("{s: o, s: o}", "value",
                                              s->sweep ? json_real(s->sweep->values[value]) : json_null(),
                                              "figures", figures_json(s, value)));
    return list;
}

/* What the table shows about the load, or how to read it. */
static void results_add_legend(struct document *d, const struct sweep *sweep, size_t knee)
{
    char value[32];

    if (knee != SWEEP_NO_KNEE)
        document_text(d, "Knee at %s %s: above it, latency grows faster than throughput (latencies in ms)",
                      sweep->member, value_text(value, sweep->values[knee]));
    else if (sweep && sweep->is_load)
        document_text(d, "No knee in this range: a higher %s may still increase throughput (latencies in ms)",
                      sweep->member);
    else if (!sweep)
        document_text(d, "Latencies in ms. 95%% CI: the interval of the mean over runs (Student's t)");
}

static void results_print(struct client *c, const struct run_series *s, size_t knee)
{
    _cleanup_(document_done) struct document d = {0};
    char heading[32] = "";
    struct table_column columns[N_CELLS] = {
        [CELL_RUN] = {"RUN", 0, IMPORTANCE_KEY},
        [CELL_VALUE] = {heading, COLUMN_RIGHT | (s->sweep ? 0 : COLUMN_VERBATIM | COLUMN_OPTIONAL),
                        IMPORTANCE_KEY},
        [CELL_STATE] = {"STATE", COLUMN_VERBATIM, IMPORTANCE_LOW}};

    for (size_t i = 0; s->sweep && s->sweep->member[i]; i++)
        heading[i] = (char)toupper((unsigned char)s->sweep->member[i]);
    for (size_t i = 0; i < N_FIGURES; i++)
        columns[N_FIRST_CELLS + i] = figure_columns[i].table;
    struct table *table = table_new(columns, N_CELLS, !c->no_legend);
    for (size_t value = 0; value < s->n_values; value++) {
        size_t n = series_count(s, value);
        for (size_t round = 0; round < n; round++)
            results_add_run(table, s, series_run(s, value, round), value, value == knee);
        if (n > 1)
            results_add_summary(table, s, value);
    }
    document_take_table(&d, table);
    if (!c->no_legend)
        results_add_legend(&d, s->sweep, knee);
    document_print(&d, &c->out, TABLE_FITTED);
}

void runs_show_results(struct client *c, const struct sweep *sweep, const json_t *runs)
{
    struct run_series s = {sweep, runs, sweep ? sweep->n : 1};
    size_t knee = series_knee(&s);

    if (c->json) {
        _cleanup_json_ j =
            json_pack("{s: s?, s: O, s: o, s: o}", "sweep", sweep ? sweep->member : NULL, "runs", runs,
                      "knee", knee == SWEEP_NO_KNEE ? json_null() : json_real(sweep->values[knee]), "summary",
                      summary_json(&s));
        client_print_json(c, j);
        return;
    }
    results_print(c, &s, knee);
    if (!c->no_legend && !sweep && json_array_size(runs) > 1) {
        _cleanup_(freep) char *refs = run_group_words(runs);
        client_note(c, "Next: profctl compare %s OTHER", refs);
    }
}
