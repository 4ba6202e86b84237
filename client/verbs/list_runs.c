/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/verbs/job.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "client/views/run.h"

struct list_runs_options {
    const char *session, *search, *sort;
    struct option_list labels;
    int64_t limit;
};

static const struct option_def list_runs_options[] = {
    OPTION_GROUP("Selection"),
    LIMIT_OPTION(struct list_runs_options, "runs"),
    SESSION_OPTION(struct list_runs_options, "runs"),
    SEARCH_OPTIONS(struct list_runs_options, "runs", "ttft_p50_ms, requests_per_s, ..."),
};

static char *run_ref_text(const json_t *run)
{
    char ref[RUN_REF_MAX];
    return xstrdup(run_ref(ref, run));
}

/* "200", or "198/200" if not all succeeded. */
static char *run_requests_text(const json_t *run)
{
    const json_t *counts = json_object_get(run, "requests");
    int64_t success = json_get_int(counts, "success", 0);
    int64_t all = success + json_get_int(counts, "incomplete", 0) + json_get_int(counts, "error", 0);

    return success == all ? xasprintf("%lld", (long long)all)
                          : xasprintf("%lld/%lld", (long long)success, (long long)all);
}

static char *run_workload_text(const json_t *run)
{
    return run_load_text(json_object_get(run, "workload"));
}

/* Members that a sweep varies are as important as measurements. */
/* clang-format off */
static const struct json_column list_runs_columns[] = {
    {{"RUN", 0, IMPORTANCE_KEY}, .text = run_ref_text},
    {{"STATE", 0}, JSON_CELL_TEXT, "state", .colour = run_colour},
    {{"REQUESTED", 0, IMPORTANCE_LOW, "requested_at"}, JSON_CELL_TIME, "requested_at"},
    {{"MODEL", COLUMN_SHORTEN | COLUMN_PATH, IMPORTANCE_LOW}, JSON_CELL_TEXT, "model"},
    {{"CONC", COLUMN_RIGHT | COLUMN_OPTIONAL, IMPORTANCE_HIGH, "concurrency"}, JSON_CELL_GIVEN, "workload/concurrency"},
    {{"RATE", COLUMN_RIGHT | COLUMN_OPTIONAL, IMPORTANCE_HIGH}, JSON_CELL_GIVEN, "workload/rate"},
    {{"ISL", COLUMN_RIGHT, IMPORTANCE_HIGH}, JSON_CELL_GIVEN, "workload/isl"},
    {{"OSL", COLUMN_RIGHT, IMPORTANCE_HIGH}, JSON_CELL_GIVEN, "workload/osl"},
    {{"REQUESTS", COLUMN_RIGHT, IMPORTANCE_LOW}, .text = run_requests_text},
    {{"PER S", COLUMN_RIGHT, .key = "requests_per_s"}, JSON_CELL_FIGURE, "throughput/requests_per_s"},
    {{"TOKENS/S", COLUMN_RIGHT, IMPORTANCE_HIGH, "output_tokens_per_s"}, JSON_CELL_FIGURE, "throughput/output_tokens_per_s"},
    {{"TTFT ms", COLUMN_RIGHT, IMPORTANCE_HIGH, "ttft_p50_ms"}, JSON_CELL_FIGURE, "metrics/ttft_ms/p50"},
    {{"TPOT ms", COLUMN_RIGHT, IMPORTANCE_HIGH, "tpot_p50_ms"}, JSON_CELL_FIGURE, "metrics/tpot_ms/p50"},
    {{"E2E ms", COLUMN_RIGHT, IMPORTANCE_HIGH, "e2e_p50_ms"}, JSON_CELL_FIGURE, "metrics/e2e_ms/p50"},
    {{"LABELS", COLUMN_SHORTEN}, JSON_CELL_LABELS, "labels"},
    {{"LOAD", COLUMN_SHORTEN, IMPORTANCE_EXTRA}, .text = run_workload_text},
    {{"UUID", COLUMN_ON_REQUEST, IMPORTANCE_EXTRA}, JSON_CELL_TEXT, "uuid"},
};
/* clang-format on */

static int list_runs_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct list_runs_options *o = values;

    return job_list_print(c,
                          &(struct job_list){.path = "/v1/runs",
                                             .member = "runs",
                                             .options = OPTION_SET(list_runs_options, values),
                                             .columns = list_runs_columns,
                                             .n_columns = ARRAY_SIZE(list_runs_columns),
                                             .empty = o->search || o->labels.n > 0
                                                          ? "No benchmark run matches."
                                                          : "No benchmark runs yet: profctl bench --router "
                                                            "URL --isl 1024 --osl 128 --requests 200"});
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
