/* SPDX-License-Identifier: Apache-2.0 */
/* list-traces and get: the traces that profd knows, and their files. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/traces/lost_hosts.h"
#include "client/traces/trace.h"
#include "client/transport/download.h"
#include "client/verbs/verbs.h"
#include "client/views/json_table.h"
#include "client/views/listing.h"
#include <errno.h>

/* -- list-traces -------------------------------------------------------------------------------------- */

#define LIMIT_DEFAULT 50

struct list_traces_options {
    const char *worker;
    const char *session;
    const char *search, *sort;
    struct option_list labels;
    int64_t since, until, limit;
    bool unclaimed, all;
};

#define AT(member) offsetof(struct list_traces_options, member)

/* clang-format off */
static const struct option_def list_traces_options[] = {
    OPTION_GROUP("Selection"),
    SESSION_OPTION(struct list_traces_options, "traces"),
    {"worker", 0, "URL", OPTION_TEXT, AT(worker), "Only traces of this worker", "worker"},
    {"since", 0, "TIME", OPTION_AGO, AT(since), "Only traces recorded after: 1h (ago), 14:02, \"2026-11-20 14:02:11\"", "since"},
    {"until", 0, "TIME", OPTION_AGO, AT(until), "Only traces recorded before", "until"},
    {"unclaimed", 0, NULL, OPTION_FLAG, AT(unclaimed), "Only traces that belong to no session", "unclaimed"},
    SEARCH_OPTIONS(struct list_traces_options, "traces", "size, span_ns, rank, ..."),
    {"limit", 'n', "N", OPTION_COUNT, AT(limit), "Maximum number of traces, newest first (default: 50)"},
    {"all", 'a', NULL, OPTION_FLAG, AT(all), "List all traces"},
};
/* clang-format on */

/* The worker that recorded it, else the name of the file. */
static char *trace_worker_text(const json_t *trace)
{
    const char *worker = json_get_str(trace, "worker");
    bool is_ambiguous = json_array_size(json_object_get(trace, "candidates")) > 0;

    return xstrdup(worker ? worker : is_ambiguous ? "ambiguous" : json_get_str(trace, "name"));
}

static char *trace_rank_text(const json_t *trace)
{
    return trace_rank(trace, true);
}

/* "only": its file left the store. What left the store of another host since that reported the trace is not known. */
static char *trace_archived_text(const json_t *trace)
{
    bool is_elsewhere = json_get_str(trace, "host_uuid");

    return xstrdup(!json_object_get(trace, "archived_at")                  ? ""
                   : is_elsewhere || json_get_bool(trace, "stored", false) ? "yes"
                                                                           : "only");
}

/* clang-format off */
static const struct json_column list_traces_columns[] = {
    {{"TRACE", 0, IMPORTANCE_KEY}, JSON_CELL_TEXT, "trace"},
    {{"SESSION", 0, IMPORTANCE_HIGH}, JSON_CELL_TEXT, "session"},
    {{"RECORDED", 0, IMPORTANCE_NORMAL, "recorded_at"}, JSON_CELL_TIME, "recorded_at"},
    {{"WORKER", COLUMN_URL | COLUMN_SHORTEN, IMPORTANCE_HIGH, .least = 16, .fit = text_shorten_middle}, .text = trace_worker_text},
    {{"HOST", COLUMN_OPTIONAL | COLUMN_SHORTEN}, JSON_CELL_TEXT, "host"},
    {{"RANK", 0, IMPORTANCE_HIGH}, .text = trace_rank_text},
    {{"SIZE", COLUMN_RIGHT}, JSON_CELL_SIZE, "size"},
    {{"SPAN", COLUMN_RIGHT, IMPORTANCE_LOW, "span_ns"}, JSON_CELL_SPAN, "span_ns"},
    {{"ARCHIVED", COLUMN_OPTIONAL, IMPORTANCE_LOW}, .text = trace_archived_text},
    {{"STATE", COLUMN_SHORTEN, IMPORTANCE_HIGH, .least = 12}, .text = trace_state, .colour = trace_colour},
    {{"UUID", COLUMN_ON_REQUEST, IMPORTANCE_EXTRA}, JSON_CELL_TEXT, "uuid"},
};
/* clang-format on */

/* Compares a text member of two traces; without it a trace is last. */
static int list_traces_compare_member(const json_t *x, const json_t *y, const char *key)
{
    const char *a = json_get_str(x, key), *b = json_get_str(y, key);
    return a && b ? strverscmp(a, b) : !a - !b;
}

/* Newest first; traces of the same second are ordered by worker and by name, which contains the rank. */
static int list_traces_compare(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int64_t x_at = json_get_int(x, "recorded_at", 0) / NS_PER_S;
    int64_t y_at = json_get_int(y, "recorded_at", 0) / NS_PER_S;

    if (x_at != y_at)
        return x_at < y_at ? 1 : -1;
    int r = list_traces_compare_member(x, y, "worker");
    if (r == 0)
        r = list_traces_compare_member(x, y, "name");
    return r != 0 ? r : list_traces_compare_member(y, x, "trace");
}

static void list_traces_add(struct table *table, const json_t *traces, bool is_sorted)
{
    size_t n = json_array_size(traces);
    _cleanup_(freep) json_t **rows = xcalloc(MAX(n, (size_t)1), sizeof(json_t *));

    for (size_t i = 0; i < n; i++)
        rows[i] = json_array_get(traces, i);
    if (!is_sorted)
        qsort(rows, n, sizeof(json_t *), list_traces_compare);
    for (size_t i = 0; i < n; i++)
        json_table_add(table, list_traces_columns, rows[i]);
}

/*
 * "48 traces, 3.1 GiB of 200 GiB", the contents of the store; before it, whether the list is incomplete, after it, how
 * many of those shown other hosts keep.
 */
static void list_traces_print_footer(struct client *c, const json_t *answer, bool is_sorted)
{
    _cleanup_(freep) char *stored = usage_text(json_object_get(answer, "usage"));
    const json_t *trace;
    size_t i, n_remote = 0;

    json_array_foreach(json_object_get(answer, "traces"), i, trace)
        n_remote += json_get_str(trace, "host_uuid") != NULL;
    fputs(screen_colour(&c->out, COLOUR_DIM), c->out.file);
    if (json_get_str(answer, "next") || json_get_bool(answer, "more", false))
        fprintf(c->out.file, "%s %zu shown, --all shows more; in total ", is_sorted ? "first" : "newest",
                json_array_size(json_object_get(answer, "traces")));
    fputs(stored, c->out.file);
    if (n_remote > 0)
        fprintf(c->out.file, " on this host; %zu of those shown are on other hosts", n_remote);
    fprintf(c->out.file, "%s\n", screen_plain(&c->out));
}

static int list_traces_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct list_traces_options *o = values;
    _cleanup_(freep) char *path = xstrdup("/v1/traces");
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ query = json_object(), *answer = NULL;
    int64_t limit = o->all ? INT64_MAX : o->limit != OPTION_ABSENT ? o->limit : LIMIT_DEFAULT;

    options_to_json(OPTION_SET(list_traces_options, o), query);
    url_add_members(&path, query);
    int status = json_table_new(c, list_traces_columns, ARRAY_SIZE(list_traces_columns), &table);
    if (status == EXIT_DONE)
        status = traces_fetch(c, path, limit, &answer);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, answer);
    list_traces_add(table, json_object_get(answer, "traces"), o->sort);
    listing_print(c, table);
    if (listing_has_legend(c)) {
        list_traces_print_footer(c, answer, o->sort);
        if (o->session)
            trace_note_part_of(c, o->session, answer);
    }
    return EXIT_DONE;
}

const struct verb verb_list_traces = {
    .name = "list-traces",
    .summary = "List traces, newest first",
    .details =
        "STATE is the completeness of the file. ARCHIVED is yes, or only if the file left the store of this "
        "host: get, analyze and open fetch it. A trace that no session requested is unclaimed; a worker is "
        "ambiguous "
        "if several workers could have written the file.",
    .words = "",
    VERB_OPTIONS(list_traces_options, struct list_traces_options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = list_traces_run,
};

/* -- get ---------------------------------------------------------------------------------------------- */

struct get_options {
    const char *output, *directory;
};

/* clang-format off */
static const struct option_def get_options[] = {
    OPTION_GROUP("Output"),
    {"output", 'o', "FILE", OPTION_TEXT, offsetof(struct get_options, output), "File for one trace, - for standard output (default: the trace's name)"},
    {"directory", 'd', "DIR", OPTION_TEXT, offsetof(struct get_options, directory), "Directory for several files, created if missing (default: the id of the session)"},
};
/* clang-format on */

/* Result of downloading several files. */
struct download_result {
    size_t n_got, n_there, n_failed;
    int64_t bytes;
    int worst;
    bool interrupted;
    char *lost;    /* "t5 (gpu3), t6 (gpu3)": what failed; NULL: nothing */
    json_t *files; /* [{trace, file}], for --json */
};

static int get_to_stdout(struct client *c, const json_t *trace)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *remedy =
        xasprintf("Pipe it: profctl get %s -o - | gunzip | less", json_get_str(trace, "trace"));

    if (c->out.is_terminal)
        return client_refuse(c, remedy, "cannot write a trace to a terminal");
    return download_trace(c, trace, fileno(c->out.file), &p) < 0 ? client_fail(c, &p) : EXIT_DONE;
}

static int get_refuse_name(struct client *c, const json_t *trace)
{
    const char *id = json_get_str(trace, "trace");
    _cleanup_(freep) char *remedy = xasprintf("Choose one: profctl get %s -o FILE", id);

    return client_error(c, PROBLEM_UPSTREAM, remedy, "%s has a name that is not a plain file name", id);
}

/* The name that profd reports, NULL if it is not a plain file name. */
static const char *plain_name(const json_t *trace)
{
    const char *name = json_get_str(trace, "name");

    return name && is_plain_name(name) ? name : NULL;
}

static int get_one(struct client *c, const struct get_options *o, const char *ref)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ trace = NULL;
    char size[UNIT_TEXT_MAX];
    int status = client_get_ref(c, ref, &trace);

    if (status != EXIT_DONE)
        return status;
    const char *path = o->output ? o->output : plain_name(trace);
    if (!path)
        return get_refuse_name(c, trace);
    if (streq(path, "-"))
        return get_to_stdout(c, trace);
    if (!o->output && access(path, F_OK) == 0)
        return client_error(c, PROBLEM_CONFLICT,
                            "Choose another file with -o FILE, or the same to replace it.", "%s exists",
                            path);
    if (download_to_file(c, trace, path, &p) < 0)
        return client_fail(c, &p);
    if (c->json) {
        _cleanup_json_ done = json_object();
        json_put_str(done, "trace", json_get_str(trace, "trace"));
        json_put_str(done, "file", path);
        return client_print_json(c, done);
    }
    client_note(c, "%s saved as %s, %s", ref, path, format_size(size, json_get_int(trace, "size", 0)));
    return EXIT_DONE;
}

/* Workers may give their files the same name: then the worker's address is prefixed, or the id if that is not
 * enough. */
static char *get_file_name(const json_t *traces, const json_t *trace)
{
    const char *name = json_get_str(trace, "name"), *worker = json_get_str(trace, "worker");
    size_t i, n_same = 0, n_same_worker = 0;
    json_t *other;

    json_array_foreach(traces, i, other)
        if (streq(json_get_str(other, "name"), name)) {
            n_same++;
            n_same_worker += streq(json_get_str(other, "worker"), worker);
        }
    if (n_same < 2)
        return xstrdup(name);
    const char *host = worker ? strstr(worker, "://") : NULL;
    if (!host || n_same_worker > 1)
        return xasprintf("%s-%s", json_get_str(trace, "trace"), name);
    char *prefixed = xasprintf("%s-%s", host + 3, name);
    for (char *p = prefixed; p < prefixed + strlen(host + 3); p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", *p))
            *p = '_';
    return prefixed;
}

static void get_into(struct client *c, const char *directory, const json_t *traces, const json_t *trace,
                     struct download_result *h)
{
    _cleanup_(problem_done) struct problem p = {0};
    const char *sha256 = json_get_str(trace, "sha256");
    char got[SHA256_TEXT] = "";
    _cleanup_(freep) char *name = plain_name(trace) ? get_file_name(traces, trace) : NULL;

    if (!name || !is_plain_name(name)) {
        h->worst = get_refuse_name(c, trace);
        h->n_failed++;
        return;
    }
    _cleanup_(freep) char *path = xasprintf("%s/%s", directory, name);
    /* An earlier call may have downloaded the file. */
    bool there = sha256 && file_sha256(path, got) == 0 && streq(got, sha256);
    if (!there && trace_is_lost(c, trace)) {
        trace_list_add(&h->lost, trace);
        h->n_failed++;
        return;
    }
    int r = there ? 0 : download_to_file(c, trace, path, &p);
    if (r < 0) {
        lost_hosts_add(c, trace, r, &p);
        h->interrupted = r == -EINTR;
        trace_list_add(&h->lost, trace);
        h->worst = client_fail(c, &p);
        h->n_failed++;
        return;
    }
    json_t *file = json_object();
    json_put_str(file, "trace", json_get_str(trace, "trace"));
    json_put_str(file, "file", path);
    json_array_append_new(h->files, file);
    h->n_there += there;
    h->n_got += !there;
    h->bytes += there ? 0 : json_get_int(trace, "size", 0);
}

static int get_list_words(struct client *c, int n_words, char **words, json_t *traces)
{
    for (int i = 0; i < n_words; i++) {
        char ref[REF_TEXT_MAX];
        json_t *answer = NULL;
        if (client_parse_ref(c, words[i], 't', "st", ref) < 0)
            return EXIT_USAGE;
        _cleanup_(freep) char *path = xasprintf("/v1/traces?session=%s", ref);
        int status =
            ref[0] == 's' ? traces_fetch(c, path, INT64_MAX, &answer) : client_get_ref(c, ref, &answer);
        if (status != EXIT_DONE)
            return status;
        if (ref[0] == 's') {
            trace_note_part_of(c, ref, answer);
            json_array_extend(traces, json_object_get(answer, "traces"));
            json_decref(answer);
        } else {
            json_array_append_new(traces, answer);
        }
    }
    return EXIT_DONE;
}

static int get_several(struct client *c, const struct get_options *o, int n_words, char **words)
{
    _cleanup_json_ traces = json_array(), *files = json_array();
    struct download_result h = {.files = files};
    char size[UNIT_TEXT_MAX];
    size_t i;
    json_t *trace;
    int status = get_list_words(c, n_words, words, traces), r;

    if (status != EXIT_DONE)
        return status;
    if (json_array_size(traces) == 0)
        return client_error(c, PROBLEM_NOT_FOUND, NULL, "%s has no traces", words[0]);
    if ((r = make_dirs(o->directory, 0777)) < 0) {
        return client_error(c, PROBLEM_STORAGE, NULL, "cannot create directory %s: %s", o->directory,
                            strerror(-r));
    }
    json_array_foreach(traces, i, trace)
        if (!h.interrupted)
            get_into(c, o->directory, traces, trace, &h);
    if (c->json)
        client_print_json(c, files);
    if (h.lost)
        client_note(c, "not downloaded: %s", h.lost);
    free(h.lost);
    _cleanup_(freep) char *got = text_count((int64_t)h.n_got, "file");
    _cleanup_(freep) char *there = text_count((int64_t)h.n_there, "file");
    if (h.n_got == 0 && h.n_there > 0)
        client_note(c, "%s already in %s", there, o->directory);
    else
        client_note(c, "%s, %s in %s%s", got, format_size(size, h.bytes), o->directory,
                    h.n_there > 0 ? "; the others already exist" : "");
    return h.n_failed == 0 ? EXIT_DONE : h.n_got + h.n_there > 0 ? EXIT_PARTIAL : h.worst;
}

static int get_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct get_options *o = values;
    char ref[REF_TEXT_MAX];
    _cleanup_(freep) char *newest = NULL;

    if (o->output && o->directory)
        return client_refuse(c, NULL, "--output and --directory exclude each other");
    int status = client_words_or_newest(c, &n_words, &words, &newest);
    if (status != EXIT_DONE)
        return status;
    if (o->directory)
        return get_several(c, o, n_words, words);
    if (client_parse_ref(c, words[0], 't', "st", ref) < 0)
        return EXIT_USAGE;
    if (n_words == 1 && ref[0] == 't')
        return get_one(c, o, ref);
    if (n_words == 1 && !o->output)
        return get_several(c, &(struct get_options){.directory = ref}, n_words, words);
    _cleanup_(freep) char *remedy = xasprintf("profctl get %s -d DIR", words[0]);
    return client_refuse(c, remedy, "several files need --directory");
}

const struct verb verb_get = {
    .name = "get",
    .summary = "Download the file of a trace or all files of a session",
    .details =
        "Default: the newest session that has traces. Verifies each file with the catalog's SHA-256, and "
        "skips files that exist already. Files of the same name get the worker's address as a prefix.",
    .words = "[TRACE|SESSION...]",
    .default_kind = 't',
    .max_words = WORDS_UNLIMITED,
    VERB_OPTIONS(get_options, struct get_options),
    .needs_only_catalog = true,
    .run = get_run,
};
