/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/units.h"
#include "client/text/labels.h"
#include "client/text/run.h"
#include "client/text/table.h"
#include "client/text/text.h"
#include "client/verbs.h"

struct options {
    int64_t limit;
    const char *session;
};

static const struct option_def options[] = {
    {"limit", 'n', "N", OPTION_COUNT, offsetof(struct options, limit), "the newest so many; default 50"},
    {"session", 's', "ID", OPTION_TEXT, offsetof(struct options, session), "only those of a session"},
};

enum {
    CELL_RUN,
    CELL_STATE,
    CELL_REQUESTED,
    CELL_MODEL,
    CELL_LOAD,
    CELL_REQUESTS,
    CELL_RATE,
    CELL_TOKENS,
    CELL_TTFT,
    CELL_TPOT,
    CELL_E2E,
    CELL_LABELS,
    _CELL_MAX
};

static const struct table_column columns[_CELL_MAX] = {
    {"RUN", 0},
    {"STATE", 0},
    {"REQUESTED", COLUMN_SPARE},
    {"MODEL", COLUMN_SHORTEN | COLUMN_SPARE},
    {"LOAD", COLUMN_SHORTEN},
    {"REQUESTS", COLUMN_RIGHT},
    {"PER S", COLUMN_RIGHT},
    {"TOKENS/S", COLUMN_RIGHT},
    {"TTFT ms", COLUMN_RIGHT},
    {"TPOT ms", COLUMN_RIGHT},
    {"E2E ms", COLUMN_RIGHT},
    {"LABELS", COLUMN_SHORTEN | COLUMN_SPARE},
};

/* "200", or "198/200" where not all of them succeeded. */
static char *requests_text(const json_t *run)
{
    const json_t *counts = json_object_get(run, "requests");
    int64_t success = json_get_int(counts, "success", 0);
    int64_t all = success + json_get_int(counts, "incomplete", 0) + json_get_int(counts, "error", 0);

    return success == all ? xasprintf("%lld", (long long)all)
                          : xasprintf("%lld/%lld", (long long)success, (long long)all);
}

static void add_run(struct table *table, const json_t *run)
{
    static const struct {
        int cell;
        const char *place;
    } figures[] = {
        {CELL_RATE, "throughput/requests_per_s"}, {CELL_TOKENS, "throughput/output_tokens_per_s"},
        {CELL_TTFT, "metrics/ttft_ms/p50"},       {CELL_TPOT, "metrics/tpot_ms/p50"},
        {CELL_E2E, "metrics/e2e_ms/p50"},
    };
    char ref[RUN_REF_MAX], requested[UNIT_TEXT_MAX], numbers[ARRAY_SIZE(figures)][32];
    int64_t at = json_get_int(run, "requested_at", 0);
    _cleanup_(freep) char *labels = labels_text(json_object_get(run, "labels"));
    _cleanup_(freep) char *load = run_load_text(json_object_get(run, "workload"));
    _cleanup_(freep) char *requests = requests_text(run);
    const char *cells[_CELL_MAX] = {
        [CELL_RUN] = run_ref(ref, run),
        [CELL_STATE] = json_get_str(run, "state"),
        [CELL_REQUESTED] = at ? format_time(requested, at) : NULL,
        [CELL_MODEL] = json_get_str(run, "model"),
        [CELL_LOAD] = load,
        [CELL_REQUESTS] = requests,
        [CELL_LABELS] = labels,
    };

    for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
        cells[figures[i].cell] = figure_text(numbers[i], figure_at(run, figures[i].place));
    table_add(table, cells);
    table_colour(table, CELL_STATE, run_colour(run));
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(freep) char *path = xstrdup("/v1/runs");
    _cleanup_json_ answer = NULL;
    char session[REF_TEXT_MAX];
    size_t i;
    json_t *one;

    if (o->session && verb_ref(c, o->session, 's', "s", session) < 0)
        return EXIT_USAGE;
    if (o->limit != OPTION_ABSENT)
        url_add_int(&path, "limit", o->limit);
    url_add(&path, "session", o->session ? session : NULL);
    int status = client_get(c, path, "listing runs", &answer);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, answer);
    _cleanup_(table_freep) struct table *table = table_new(columns, _CELL_MAX, !c->no_legend);
    json_array_foreach(json_object_get(answer, "runs"), i, one) add_run(table, one);
    table_print(table, &c->out);
    if (json_array_size(json_object_get(answer, "runs")) == 0)
        client_say(c, "No load was sent yet: profctl bench --router URL --isl 1024 --osl 128 --requests 200");
    return EXIT_DONE;
}

const struct verb verb_list_runs = {
    .name = "list-runs",
    .words = "",
    .summary = "List runs of workloads, newest first; latencies are medians",
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .needs_only_catalog = true,
    .run = run,
};
