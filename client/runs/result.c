/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/result.h"

#include "base/alloc.h"
#include "client/text/run.h"
#include "client/text/run_figures.h"
#include "client/text/table.h"
#include "client/text/text.h"
#include <math.h>

int run_get(struct client *c, const char *ref, json_t **ret)
{
    _cleanup_(freep) char *path = verb_ref_path(ref);
    return client_get(c, path, NULL, ret);
}

int run_show_result(struct client *c, const json_t *run)
{
    if (c->json) {
        client_print_json(c, run);
        return run_exit_status(run);
    }
    run_print_outcome(run, &c->out);
    run_print_figures(run, &c->out, !c->no_legend);
    return run_exit_status(run);
}

/* -- Sweeps ------------------------------------------------------------------------------------------- */

enum { CELL_RUN, CELL_VALUE, CELL_STATE, N_FIRST_CELLS };

/* What stands behind them, from the run. */
static const struct sweep_column {
    struct table_column table;
    const char *place;
    double factor;
} figure_columns[] = {
    {{"PER S", COLUMN_RIGHT}, "throughput/requests_per_s", 1},
    {{"TOKENS/S", COLUMN_RIGHT}, "throughput/output_tokens_per_s", 1},
    {{"A USER", COLUMN_RIGHT | COLUMN_SPARE}, "throughput/output_tokens_per_s_per_user", 1},
    {{"TTFT p50", COLUMN_RIGHT}, "metrics/ttft_ms/p50", 1},
    {{"p99", COLUMN_RIGHT}, "metrics/ttft_ms/p99", 1},
    {{"TPOT p50", COLUMN_RIGHT}, "metrics/tpot_ms/p50", 1},
    {{"p99", COLUMN_RIGHT | COLUMN_SPARE}, "metrics/tpot_ms/p99", 1},
    {{"E2E p50", COLUMN_RIGHT}, "metrics/e2e_ms/p50", 1},
    {{"p99", COLUMN_RIGHT}, "metrics/e2e_ms/p99", 1},
    {{"GOOD %", COLUMN_RIGHT | COLUMN_SPARE}, "goodput/share", 100},
};

#define N_FIGURES ARRAY_SIZE(figure_columns)
#define N_CELLS   (N_FIRST_CELLS + N_FIGURES)

/* As it was given: "4", "0.5". */
static const char *value_text(char *buf, double value)
{
    snprintf(buf, 32, "%.15g", value);
    return buf;
}

static void add_run(struct table *table, const json_t *run, double value, bool is_knee)
{
    char ref[RUN_REF_MAX], swept[32], numbers[N_FIGURES][32];
    const char *cells[N_CELLS] = {
        [CELL_RUN] = run_ref(ref, run),
        [CELL_VALUE] = value_text(swept, value),
        [CELL_STATE] = json_get_str(run, "state"),
    };

    for (size_t i = 0; i < N_FIGURES; i++)
        cells[N_FIRST_CELLS + i] =
            figure_text(numbers[i], figure_columns[i].factor * figure_at(run, figure_columns[i].place));
    table_add(table, cells);
    table_colour(table, CELL_STATE, run_colour(run));
    if (is_knee)
        table_colour(table, CELL_VALUE, COLOUR_BOLD);
}

static size_t find_knee(const struct sweep *sweep, const json_t *runs)
{
    struct sweep_point points[SWEEP_MAX] = {{0}};
    size_t i;
    json_t *run;

    json_array_foreach(runs, i, run)
    {
        double throughput = figure_at(run, "throughput/output_tokens_per_s");
        double latency = figure_at(run, "metrics/e2e_ms/mean");
        if (isfinite(throughput) && isfinite(latency))
            points[i] = (struct sweep_point){sweep->values[i], throughput, latency};
    }
    return sweep->is_load ? sweep_knee(points, json_array_size(runs)) : SWEEP_NO_KNEE;
}

static void print_table(struct client *c, const struct sweep *sweep, const json_t *runs, size_t knee)
{
    _cleanup_(freep) char *heading = xstrdup(sweep->member);
    struct table_column columns[N_CELLS] = {[CELL_RUN] = {"RUN", 0},
                                            [CELL_VALUE] = {heading, COLUMN_RIGHT},
                                            [CELL_STATE] = {"STATE", COLUMN_SPARE}};
    size_t i;
    json_t *run;

    for (char *p = heading; *p; p++)
        *p = (char)(*p - 'a' + 'A');
    for (i = 0; i < N_FIGURES; i++)
        columns[N_FIRST_CELLS + i] = figure_columns[i].table;
    _cleanup_(table_freep) struct table *table = table_new(columns, N_CELLS, !c->no_legend);
    json_array_foreach(runs, i, run) add_run(table, run, sweep->values[i], i == knee);
    table_print(table, &c->out);
}

void sweep_show_result(struct client *c, const struct sweep *sweep, const json_t *runs)
{
    size_t knee = find_knee(sweep, runs);
    char value[32];

    if (c->json) {
        _cleanup_json_ j = json_pack("{s:s, s:O, s:o}", "sweep", sweep->member, "runs", runs, "knee",
                                     knee == SWEEP_NO_KNEE ? json_null() : json_real(sweep->values[knee]));
        client_print_json(c, j);
        return;
    }
    print_table(c, sweep, runs, knee);
    if (c->no_legend || !sweep->is_load)
        return;
    if (knee != SWEEP_NO_KNEE)
        fprintf(c->out.file,
                "Knee at %s %s: beyond it, latency grows faster than throughput (latencies in ms)\n",
                sweep->member, value_text(value, sweep->values[knee]));
    else
        fprintf(c->out.file,
                "No knee up to here: more %s may still bring more throughput (latencies in ms)\n",
                sweep->member);
}
