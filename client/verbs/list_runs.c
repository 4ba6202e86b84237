/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/verbs/job.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "client/views/run.h"
#include <math.h>

struct list_runs_options {
    int64_t limit, session;
};

static const struct option_def list_runs_options[] = {
    OPTION_GROUP("Selection"),
    LIMIT_OPTION(struct list_runs_options, "runs"),
    SESSION_OPTION(struct list_runs_options, "runs"),
};

enum {
    CELL_RUN,
    CELL_STATE,
    CELL_REQUESTED,
    CELL_MODEL,
    CELL_CONCURRENCY,
    CELL_ARRIVAL_RATE,
    CELL_ISL,
    CELL_OSL,
    CELL_REQUESTS,
    CELL_RATE,
    CELL_TOKENS,
    CELL_TTFT,
    CELL_TPOT,
    CELL_E2E,
    CELL_LABELS,
    CELL_LOAD,
    _CELL_MAX
};

/* Members that a sweep varies are as important as measurements. */
static const struct table_column columns[_CELL_MAX] = {
    [CELL_RUN] = {"RUN", 0, IMPORTANCE_KEY},
    [CELL_STATE] = {"STATE", 0},
    [CELL_REQUESTED] = {"REQUESTED", 0, IMPORTANCE_LOW, "requested_at"},
    [CELL_MODEL] = {"MODEL", COLUMN_SHORTEN | COLUMN_PATH, IMPORTANCE_LOW},
    [CELL_CONCURRENCY] = {"CONC", COLUMN_RIGHT | COLUMN_OPTIONAL, IMPORTANCE_HIGH, "concurrency"},
    [CELL_ARRIVAL_RATE] = {"RATE", COLUMN_RIGHT | COLUMN_OPTIONAL, IMPORTANCE_HIGH},
    [CELL_ISL] = {"ISL", COLUMN_RIGHT, IMPORTANCE_HIGH},
    [CELL_OSL] = {"OSL", COLUMN_RIGHT, IMPORTANCE_HIGH},
    [CELL_REQUESTS] = {"REQUESTS", COLUMN_RIGHT, IMPORTANCE_LOW},
    [CELL_RATE] = {"PER S", COLUMN_RIGHT, IMPORTANCE_NORMAL, "requests_per_s"},
    [CELL_TOKENS] = {"TOKENS/S", COLUMN_RIGHT, IMPORTANCE_HIGH, "output_tokens_per_s"},
    [CELL_TTFT] = {"TTFT ms", COLUMN_RIGHT, IMPORTANCE_HIGH, "ttft_p50_ms"},
    [CELL_TPOT] = {"TPOT ms", COLUMN_RIGHT, IMPORTANCE_HIGH, "tpot_p50_ms"},
    [CELL_E2E] = {"E2E ms", COLUMN_RIGHT, IMPORTANCE_HIGH, "e2e_p50_ms"},
    [CELL_LABELS] = {"LABELS", COLUMN_SHORTEN},
    [CELL_LOAD] = {"LOAD", COLUMN_SHORTEN, IMPORTANCE_EXTRA},
};

/* "200", or "198/200" where not all of them succeeded. */
static char *list_runs_requests(const json_t *run)
{
    const json_t *counts = json_object_get(run, "requests");
    int64_t success = json_get_int(counts, "success", 0);
    int64_t all = success + json_get_int(counts, "incomplete", 0) + json_get_int(counts, "error", 0);

    return success == all ? xasprintf("%lld", (long long)all)
                          : xasprintf("%lld/%lld", (long long)success, (long long)all);
}

/* Members of the workload, and measurements. */
static const struct figure {
    int cell;
    const char *path;
} figures[] = {
    {CELL_CONCURRENCY, "workload/concurrency"},
    {CELL_ARRIVAL_RATE, "workload/rate"},
    {CELL_ISL, "workload/isl"},
    {CELL_OSL, "workload/osl"},
    {CELL_RATE, "throughput/requests_per_s"},
    {CELL_TOKENS, "throughput/output_tokens_per_s"},
    {CELL_TTFT, "metrics/ttft_ms/p50"},
    {CELL_TPOT, "metrics/tpot_ms/p50"},
    {CELL_E2E, "metrics/e2e_ms/p50"},
};

/* Members of the workload as given: "4", "0.5"; measurements are rounded. */
static const char *list_runs_figure(char *buf, const struct figure *f, double value)
{
    if (!isfinite(value))
        return NULL;
    if (!starts_with(f->path, "workload/"))
        return figure_text(buf, value);
    snprintf(buf, 32, "%.12g", value);
    return buf;
}

static void list_runs_add(struct table *table, const json_t *run)
{
    char ref[RUN_REF_MAX], requested[UNIT_TEXT_MAX], numbers[ARRAY_SIZE(figures)][32];
    int64_t at = json_get_int(run, "requested_at", 0);
    _cleanup_(freep) char *labels = labels_text(json_object_get(run, "labels"));
    _cleanup_(freep) char *load = run_load_text(json_object_get(run, "workload"));
    _cleanup_(freep) char *requests = list_runs_requests(run);
    const char *cells[_CELL_MAX] = {
        [CELL_RUN] = run_ref(ref, run),
        [CELL_STATE] = json_get_str(run, "state"),
        [CELL_REQUESTED] = at ? format_time(requested, at) : NULL,
        [CELL_MODEL] = json_get_str(run, "model"),
        [CELL_REQUESTS] = requests,
        [CELL_LABELS] = labels,
        [CELL_LOAD] = load,
    };

    for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
        cells[figures[i].cell] = list_runs_figure(numbers[i], &figures[i], figure_at(run, figures[i].path));
    table_add(table, cells);
    for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
        table_set_real(table, (size_t)figures[i].cell, figure_at(run, figures[i].path));
    if (at)
        table_set_int(table, CELL_REQUESTED, at);
    table_colour(table, CELL_STATE, run_colour(run));
}

static int list_runs_run(struct client *c, const void *values, int n_words, char **words)
{
    return job_list_print(
        c, &(struct job_list){
               .path = "/v1/runs",
               .member = "runs",
               .options = OPTION_SET(list_runs_options, values),
               .columns = columns,
               .n_columns = _CELL_MAX,
               .add = list_runs_add,
               .empty =
                   "No benchmark runs yet: profctl bench --router URL --isl 1024 --osl 128 --requests 200"});
}

const struct verb verb_list_runs = {
    .name = "list-runs",
    .words = "",
    .summary = "List benchmark runs, newest first",
    VERB_OPTIONS(list_runs_options, struct list_runs_options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = list_runs_run,
};
