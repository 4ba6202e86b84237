/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/local/worker_options.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "client/views/reasons.h"

struct options {
    struct source source;
};

static const struct option_def options[] = {
    SOURCE_OPTIONS(struct options),
};

enum {
    CELL_WORKER,
    CELL_ENGINE,
    CELL_ROLE,
    CELL_HEALTH,
    CELL_MODEL,
    CELL_LOAD,
    CELL_PROFILE,
    CELL_TRACES,
    _CELL_MAX
};

static const struct table_column columns[_CELL_MAX] = {
    [CELL_WORKER] = {"WORKER", COLUMN_URL, IMPORTANCE_KEY, "url"},
    [CELL_ENGINE] = {"ENGINE", 0},
    [CELL_ROLE] = {"ROLE", 0},
    [CELL_HEALTH] = {"HEALTH", 0, IMPORTANCE_HIGH},
    [CELL_MODEL] = {"MODEL", COLUMN_SHORTEN | COLUMN_PATH, IMPORTANCE_LOW},
    [CELL_LOAD] = {"LOAD", COLUMN_RIGHT, IMPORTANCE_LOW},
    [CELL_PROFILE] = {"PROFILE", 0, IMPORTANCE_HIGH, "profilable"},
    [CELL_TRACES] = {"TRACES", COLUMN_SHORTEN | COLUMN_PATH, .key = "trace_dir"},
};

static void add_worker(struct table *table, const json_t *w)
{
    const char *engine = json_get_str(w, "engine"), *version = json_get_str(w, "version");
    const char *health = json_get_str(w, "health");
    const json_t *traces = json_object_get(w, "traces");
    const char *local_dir = json_get_str(traces, "local_dir"), *dir = json_get_str(traces, "dir");
    _cleanup_(freep) char *engine_cell =
        xasprintf("%s%s%s", engine ? engine : "", version ? " " : "", version ? version : "");
    bool profilable = json_get_bool(w, "profilable", false);
    int64_t load = json_get_int(w, "load", -1);
    char load_cell[32];

    table_add(table, (const char *[_CELL_MAX]){
                         [CELL_WORKER] = json_get_str(w, "url"),
                         [CELL_ENGINE] = engine_cell,
                         [CELL_ROLE] = json_get_str(w, "role"),
                         [CELL_HEALTH] = health,
                         [CELL_MODEL] = json_get_str(w, "model"),
                         [CELL_LOAD] = load < 0 ? NULL : text_number(load_cell, load),
                         [CELL_PROFILE] = profilable ? "yes" : "no",
                         [CELL_TRACES] = local_dir ? local_dir : dir,
                     });
    if (load >= 0)
        table_set_int(table, CELL_LOAD, load);
    table_colour(table, CELL_PROFILE, profilable ? COLOUR_GOOD : COLOUR_BAD);
    if (streq(health, "unhealthy"))
        table_colour(table, CELL_HEALTH, COLOUR_BAD);
}

/* "http://10.0.0.1:3521: vllm-router, 8 workers, 7 can be profiled" */
static void print_footer(struct client *c, const json_t *fleet)
{
    const json_t *workers = json_object_get(fleet, "workers");
    const char *router = json_get_str(fleet, "router"), *dialect = json_get_str(fleet, "dialect");
    size_t n_profilable = 0, i;
    json_t *w;

    json_array_foreach(workers, i, w)
        n_profilable += json_get_bool(w, "profilable", false);
    _cleanup_(freep) char *count = text_count((int64_t)json_array_size(workers), "worker");
    _cleanup_(freep) char *line = xasprintf("%s%s%s, %s, %zu can be profiled", router ? router : "",
                                            router ? ": " : "", dialect ? dialect : "?", count, n_profilable);
    _cleanup_(freep) char *clean = text_clean(line, false);
    fprintf(c->out.file, "%s%s%s\n", screen_colour(&c->out, COLOUR_DIM), clean, screen_plain(&c->out));
}

/* Why a worker cannot be profiled belongs to the answer; what was merely noticed is talk. */
static void print_reasons(struct client *c, const json_t *fleet)
{
    _cleanup_(reasons_freep) struct reasons *reasons = reasons_new();
    _cleanup_(reasons_freep) struct reasons *notes = reasons_new();
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(fleet, "workers"), i, item) {
        const json_t *traces = json_object_get(item, "traces");
        const char *url = json_get_str(item, "url");
        if (!json_get_bool(item, "profilable", false))
            reasons_add(reasons, url, json_get_str(item, "reason"), json_get_str(item, "remedy"));
        else if (!json_get_str(traces, "local_dir"))
            reasons_add(reasons, url, json_get_str(traces, "note"), json_get_str(traces, "remedy"));
        reasons_add(notes, url, json_get_str(item, "note"), NULL);
    }
    json_array_foreach(json_object_get(fleet, "notes"), i, item)
        reasons_add(notes, NULL, json_string_value(item), NULL);
    reasons_print(reasons, &c->out, 0);
    fflush(c->out.file);
    if (!c->quiet)
        reasons_print(notes, &c->err, 0);
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xstrdup("/v1/workers"), *name = source_name(&o->source);
    _cleanup_(freep) char *doing = xasprintf("asking %s for its workers", name);
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ fleet = NULL;

    if (source_to_query(c, &o->source, &path, &p) < 0)
        return client_fail(c, &p);
    int status = listing_table(c, columns, _CELL_MAX, &table);
    if (status == EXIT_DONE)
        status = client_get(c, path, doing, &fleet);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, fleet);
    size_t i;
    json_t *w;
    json_array_foreach(json_object_get(fleet, "workers"), i, w)
        add_worker(table, w);
    listing_print(c, table);
    if (listing_has_legend(c)) {
        print_footer(c, fleet);
        print_reasons(c, fleet);
    }
    return EXIT_DONE;
}

const struct verb verb_list_workers = {
    .name = "list-workers",
    .words = "",
    .summary = "List workers and whether each can be profiled",
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = run,
};
