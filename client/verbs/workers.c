/* SPDX-License-Identifier: Apache-2.0 */
/* list-workers and doctor: the workers of a fleet, and whether they can be profiled. */
#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/local/user_profd.h"
#include "client/local/worker_options.h"
#include "client/verbs/verbs.h"
#include "client/views/json_table.h"
#include "client/views/listing.h"
#include "client/views/reasons.h"
#include <pwd.h>

struct workers_options {
    struct source source;
};

static const struct option_def workers_options[] = {
    SOURCE_OPTIONS(struct workers_options),
    PROCESS_OPTIONS(struct workers_options),
};

/* GET of a resource about the workers. progress: "asking %s for its workers". Returns an exit status. */
static int workers_get(struct client *c, const struct workers_options *o, const char *resource,
                       const char *progress, json_t **ret)
{
    _cleanup_(freep) char *name = source_name(&o->source);
    _cleanup_(freep) char *doing = xasprintf(progress, name);

    return source_get(c, &o->source, resource, doing, ret);
}

/* -- list-workers ----------------------------------------------------------------------------------------- */

static char *worker_engine_text(const json_t *w)
{
    const char *engine = json_get_str(w, "engine"), *version = json_get_str(w, "version");
    return xasprintf("%s%s%s", engine ? engine : "", version ? " " : "", version ? version : "");
}

static char *worker_load_text(const json_t *w)
{
    return json_get_int(w, "load", -1) >= 0 ? json_cell_text(JSON_CELL_COUNT, w, "load") : NULL;
}

static char *worker_profile_text(const json_t *w)
{
    return xstrdup(json_get_bool(w, "profilable", false) ? "yes" : "no");
}

static enum colour worker_profile_colour(const json_t *w)
{
    return json_get_bool(w, "profilable", false) ? COLOUR_GOOD : COLOUR_BAD;
}

static enum colour worker_health_colour(const json_t *w)
{
    return streq(json_get_str(w, "health"), "unhealthy") ? COLOUR_BAD : COLOUR_NONE;
}

/* The directory on profd's host, else as the worker names it. */
static char *worker_traces_text(const json_t *w)
{
    const json_t *traces = json_object_get(w, "traces");
    const char *local = json_get_str(traces, "local_dir");
    return xstrdup(local ? local : json_get_str(traces, "dir"));
}

/* clang-format off */
static const struct json_column list_workers_columns[] = {
    {{"WORKER", COLUMN_URL, IMPORTANCE_KEY, "url"}, JSON_CELL_TEXT, "url"},
    {{"NAME", COLUMN_OPTIONAL | COLUMN_SHORTEN, IMPORTANCE_HIGH}, JSON_CELL_TEXT, "name"},
    {{"NODE", COLUMN_OPTIONAL | COLUMN_SHORTEN, IMPORTANCE_LOW}, JSON_CELL_TEXT, "node"},
    {{"HOST", COLUMN_OPTIONAL | COLUMN_SHORTEN, IMPORTANCE_HIGH}, JSON_CELL_TEXT, "host"},
    {{"ENGINE", 0}, .text = worker_engine_text},
    {{"ROLE", 0}, JSON_CELL_TEXT, "role"},
    {{"HEALTH", 0, IMPORTANCE_HIGH}, JSON_CELL_TEXT, "health", .colour = worker_health_colour},
    {{"MODEL", COLUMN_SHORTEN | COLUMN_PATH, IMPORTANCE_LOW}, JSON_CELL_TEXT, "model"},
    {{"LOAD", COLUMN_RIGHT, IMPORTANCE_LOW}, JSON_CELL_COUNT, "load", .text = worker_load_text},
    {{"HELD BY", COLUMN_OPTIONAL | COLUMN_SHORTEN, IMPORTANCE_HIGH, "held_by"}, JSON_CELL_TEXT, "held_by"},
    {{"PROFILE", 0, IMPORTANCE_HIGH, "profilable"}, .text = worker_profile_text, .colour = worker_profile_colour},
    {{"TRACES", COLUMN_SHORTEN | COLUMN_PATH, .key = "trace_dir"}, .text = worker_traces_text},
};
/* clang-format on */

/* -- Processes that registered for Kineto's on-demand recording -- */

static const json_t *process_of(const json_t *w)
{
    return json_object_get(w, "process");
}

static char *process_user_text(const json_t *w)
{
    int64_t uid = json_get_int(w, "uid", -1);
    const struct passwd *user = uid >= 0 ? getpwuid((uid_t)uid) : NULL;

    return user ? xstrdup(user->pw_name) : uid >= 0 ? xasprintf("%lld", (long long)uid) : NULL;
}

static char *process_number_text(const json_t *w, const char *member)
{
    int64_t value = json_get_int(process_of(w), member, -1);
    return value >= 0 ? xasprintf("%lld", (long long)value) : NULL;
}

static char *process_rank_text(const json_t *w)
{
    return process_number_text(w, "rank");
}

static char *process_job_text(const json_t *w)
{
    return process_number_text(w, "slurm_job");
}

static char *process_pid_text(const json_t *w)
{
    return xasprintf("%lld", (long long)json_get_int(w, "pid", 0));
}

static char *process_gpus_text(const json_t *w)
{
    return xstrdup(json_get_str(process_of(w), "gpus"));
}

static char *process_unit_text(const json_t *w)
{
    return xstrdup(json_get_str(process_of(w), "unit"));
}

static char *process_command_text(const json_t *w)
{
    return xstrdup(json_get_str(process_of(w), "command"));
}

static char *process_since_text(const json_t *w)
{
    int64_t at = json_get_int(process_of(w), "registered_at", -1);
    char text[UNIT_TEXT_MAX];

    return at >= 0 ? xstrdup(format_time(text, at)) : NULL;
}

static char *process_state_text(const json_t *w)
{
    if (!json_get_bool(w, "profilable", false))
        return xstrdup("not yours");
    return xstrdup(json_get_bool(process_of(w), "recording", false) ? "recording" : "idle");
}

/* clang-format off */
static const struct json_column list_processes_columns[] = {
    {{"PID", COLUMN_RIGHT, IMPORTANCE_KEY, "pid"}, .text = process_pid_text},
    {{"USER", 0}, .text = process_user_text},
    {{"RANK", COLUMN_RIGHT, .key = "rank"}, .text = process_rank_text},
    {{"JOB", COLUMN_RIGHT, .key = "slurm_job"}, .text = process_job_text},
    {{"GPU", 0, IMPORTANCE_LOW, "gpus"}, .text = process_gpus_text},
    {{"UNIT", COLUMN_SHORTEN, IMPORTANCE_LOW, "unit"}, .text = process_unit_text},
    {{"SINCE", 0, IMPORTANCE_LOW, "since"}, .text = process_since_text},
    {{"STATE", 0, IMPORTANCE_HIGH, "state"}, .text = process_state_text},
    {{"TRACES", COLUMN_SHORTEN | COLUMN_PATH, IMPORTANCE_LOW, .key = "trace_dir"}, .text = worker_traces_text},
    {{"COMMAND", COLUMN_SHORTEN, IMPORTANCE_HIGH, "command"}, .text = process_command_text},
};
/* clang-format on */

static bool worker_is_process(const json_t *w)
{
    return process_of(w) != NULL;
}

/* Workers of one of the two kinds, as a table. An exit status. */
static int list_workers_table(struct client *c, const json_t *fleet, bool of_processes, struct table **ret)
{
    const struct json_column *columns = of_processes ? list_processes_columns : list_workers_columns;
    size_t n_columns = of_processes ? ARRAY_SIZE(list_processes_columns) : ARRAY_SIZE(list_workers_columns),
           i;
    int status = json_table_new(c, columns, n_columns, ret);
    json_t *w;

    if (status == EXIT_DONE)
        json_array_foreach(json_object_get(fleet, "workers"), i, w)
            if (worker_is_process(w) == of_processes)
                json_table_add(*ret, columns, w);
    return status;
}

static size_t count_processes(const json_t *fleet)
{
    size_t n = 0, i;
    json_t *w;

    json_array_foreach(json_object_get(fleet, "workers"), i, w)
        n += worker_is_process(w);
    return n;
}

/* "http://10.0.0.1:3521: vllm-router, 8 workers, 7 can be profiled" */
static void list_workers_print_footer(struct client *c, const json_t *fleet)
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

/* Why a worker cannot be profiled is data, on stdout; notes go to stderr. */
static void list_workers_print_reasons(struct client *c, const json_t *fleet)
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
        else if (!json_get_str(traces, "local_dir") || json_get_str(traces, "remedy"))
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

static int list_workers_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct workers_options *o = values;
    _cleanup_(table_freep) struct table *servers = NULL, *processes = NULL;
    _cleanup_json_ fleet = NULL;
    bool asks_processes = process_options_wanted(&o->source.processes);
    bool only_processes = asks_processes && !source_names_servers(&o->source);
    int status = asks_processes ? client_need_kineto_profd(c) : EXIT_DONE;

    (void)n_words, (void)words;
    /* An unknown column is refused before profd is asked. */
    if (status == EXIT_DONE)
        status = list_workers_table(c, NULL, only_processes, only_processes ? &processes : &servers);
    if (status == EXIT_DONE)
        status = workers_get(c, values, "/v1/workers", "asking %s for its workers", &fleet);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, fleet);
    if (!only_processes) {
        servers = table_free(servers);
        status = list_workers_table(c, fleet, false, &servers);
        if (status == EXIT_DONE)
            listing_print(c, servers);
    }
    if (status == EXIT_DONE && (only_processes || (count_processes(fleet) > 0 && listing_is_text(c)))) {
        processes = table_free(processes);
        status = list_workers_table(c, fleet, true, &processes);
        if (!only_processes && listing_has_legend(c))
            fprintf(c->out.file, "\n");
        if (status == EXIT_DONE)
            listing_print(c, processes);
    }
    if (status == EXIT_DONE && listing_has_legend(c)) {
        list_workers_print_footer(c, fleet);
        list_workers_print_reasons(c, fleet);
    }
    return status;
}

const struct verb verb_list_workers = {
    .name = "list-workers",
    .words = "",
    .summary = "List workers and whether each can be profiled",
    .details = "Finds the workers of a router or of another source, identifies the engine of each, and "
               "prints why a worker cannot be "
               "profiled and how to change that. TRACES is the directory to which a worker writes traces, "
               "HELD BY the "
               "session that records it.",
    VERB_OPTIONS(workers_options, struct workers_options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = list_workers_run,
};

/* -- doctor ----------------------------------------------------------------------------------------------- */

/* Wider than "ok", "warn" and "FAIL"; the rare "unknown" is wider. */
#define TEXT_COLUMN 6
/* URLs that are printed: "on http://a, http://b and 58 more". */
#define URLS_PRINTED_MAX 8

static const struct {
    const char *result, *shown;
    enum colour colour;
} results[] = {
    {"ok", "ok", COLOUR_GOOD},
    {"warn", "warn", COLOUR_WARN},
    {"fail", "FAIL", COLOUR_BAD},
    {"unknown", "unknown", COLOUR_WARN},
};

/* A text below the result. */
static void doctor_print_text(struct client *c, const char *text)
{
    _cleanup_(freep) char *clean = text_clean(text, true);
    _cleanup_(freep) char *wrapped = clean ? text_wrap(clean, TEXT_COLUMN, screen_text_width(&c->out)) : NULL;

    if (wrapped)
        fprintf(c->out.file, "%*s%s\n", TEXT_COLUMN, "", wrapped);
}

static char *doctor_urls_text(const json_t *urls)
{
    size_t n = json_array_size(urls);
    char *list = NULL;

    for (size_t i = 0; n >= 2 && i < MIN(n, (size_t)URLS_PRINTED_MAX); i++)
        append_str(&list, "%s%s", i > 0 ? ", " : "on ", json_string_value(json_array_get(urls, i)));
    if (n > URLS_PRINTED_MAX)
        append_str(&list, " and %zu more (--json lists all)", n - URLS_PRINTED_MAX);
    return list;
}

static void doctor_print_check(struct client *c, const json_t *check)
{
    const char *result = json_get_str(check, "result"), *shown = result ? result : "unknown";
    const char *text = json_get_str(check, "text"), *worker = json_get_str(check, "worker");
    const json_t *urls = json_object_get(check, "urls");
    bool names_worker = worker && text && json_array_size(urls) < 2 && !strstr(text, worker);
    enum colour colour = COLOUR_NONE;

    for (size_t i = 0; i < ARRAY_SIZE(results); i++)
        if (streq(results[i].result, result)) {
            shown = results[i].shown;
            colour = results[i].colour;
        }
    _cleanup_(freep) char *line =
        xasprintf("%s%s%s", names_worker ? worker : "", names_worker ? ": " : "", text ? text : "");
    _cleanup_(freep) char *clean = text_clean(line, true), *tag = text_clean(shown, false);
    _cleanup_(freep) char *wrapped = text_wrap(clean, TEXT_COLUMN, screen_text_width(&c->out));
    fprintf(c->out.file, "%s%s%s%*s%s\n", screen_colour(&c->out, colour), tag, screen_plain(&c->out),
            MAX(TEXT_COLUMN - (int)strlen(tag), 2), "", wrapped);
    _cleanup_(freep) char *list = doctor_urls_text(urls);
    doctor_print_text(c, list);
    doctor_print_text(c, json_get_str(check, "remedy"));
}

static int doctor_run(struct client *c, const void *values, int n_words, char **words)
{
    _cleanup_json_ answer = NULL;
    size_t i;
    json_t *check;
    int status = workers_get(c, values, "/v1/doctor", "examining %s", &answer);

    if (status != EXIT_DONE)
        return status;
    int64_t n_problems = json_get_int(answer, "problems", 0),
            n_warnings = json_get_int(answer, "warnings", 0);
    status = n_problems > 0 ? EXIT_FAILED : EXIT_DONE;
    if (c->json) {
        client_print_json(c, answer);
        return status;
    }
    json_array_foreach(json_object_get(answer, "checks"), i, check)
        doctor_print_check(c, check);
    _cleanup_(freep) char *problems = text_count(n_problems, "problem"),
                          *warnings = text_count(n_warnings, "warning");
    if (!c->no_legend)
        fprintf(c->out.file, "%s, %s\n", problems, warnings);
    return status;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .words = "",
    .summary = "Check router, workers, profilers and disk, with remedies",
    .details =
        "Prints ok, warn, FAIL or unknown for each check, with a remedy. The exit status is 1 if a check "
        "failed. It is a failure if no trace of the fleet can be collected. Where no router or fleet is "
        "known, "
        "all but the workers is checked: hosts and their clocks, the archive, the mirror, the store.",
    VERB_OPTIONS(workers_options, struct workers_options),
    .needs_only_catalog = true,
    .run = doctor_run,
};
