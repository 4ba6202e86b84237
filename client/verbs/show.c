/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/screen.h"
#include "client/cli/text.h"
#include "client/runs/benchmark.h"
#include "client/runs/requests.h"
#include "client/runs/save_as_files.h"
#include "client/traces/trace.h"
#include "client/transport/download.h"
#include "client/verbs/verbs.h"
#include "client/views/json_table.h"
#include "client/views/listing.h"
#include "client/views/run.h"
#include "client/views/session.h"
#include <errno.h>

static void show_size(struct client *c, const json_t *t)
{
    char size[UNIT_TEXT_MAX], unpacked[UNIT_TEXT_MAX], bytes[32];
    int64_t n = json_get_int(t, "size", 0), uncompressed = json_get_int(t, "uncompressed", 0);

    format_size(size, n);
    text_number(bytes, n);
    _cleanup_(freep) char *exact = n < 1024 ? xstrdup("") : xasprintf(" (%s bytes)", bytes);
    if (uncompressed > 0 && uncompressed != n)
        field_printf(&c->out, "Size:", "%s%s, %s uncompressed", size, exact,
                     format_size(unpacked, uncompressed));
    else
        field_printf(&c->out, "Size:", "%s%s", size, exact);
}

static void show_candidates(struct client *c, const json_t *t)
{
    size_t i;
    json_t *url;

    json_array_foreach(json_object_get(t, "candidates"), i, url)
        field_printf(&c->out, i == 0 ? "Worker:" : "", "%s%s", i == 0 ? "ambiguous: " : "           ",
                     json_string_value(url));
}

static void show_labels(struct client *c, const json_t *object)
{
    if (json_object_size(json_object_get(object, "labels")) > 0) {
        _cleanup_(freep) char *text = json_dumps(json_object_get(object, "labels"), JSON_COMPACT);
        field_print(&c->out, "Labels:", text);
    }
}

/* A field for each member that the object has. */
struct show_field {
    const char *heading;
    enum json_kind kind;
    const char *path;
};

static void show_fields(struct client *c, const json_t *object, const struct show_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        _cleanup_(freep) char *text = json_cell_text(fields[i].kind, object, fields[i].path);
        field_print(&c->out, fields[i].heading, text);
    }
}

/* Facts read from the file. */
static void show_content(struct client *c, const json_t *t)
{
    char events[32], span[UNIT_TEXT_MAX];
    int64_t n_events = json_get_int(t, "events", -1), span_ns = json_get_int(t, "span_ns", -1);
    int64_t devices = json_get_int(t, "devices", -1), world = json_get_int(t, "world_size", 0);
    const char *device = json_get_str(t, "device_name");
    _cleanup_(freep) char *rank = trace_rank(t, false);

    if (rank && world > 0)
        field_printf(&c->out, "Rank:", "%s of %lld", rank, (long long)world);
    else
        field_print(&c->out, "Rank:", rank);
    field_print(&c->out, "Format:", json_get_str(t, "format"));
    if (n_events >= 0)
        field_print(&c->out, "Events:", text_number(events, n_events));
    if (span_ns >= 0)
        field_print(&c->out, "Span:", format_duration(span, span_ns));
    if (devices >= 0)
        field_printf(&c->out, "Devices:", "%lld%s%s", (long long)devices, device ? " x " : "",
                     device ? device : "");
    if (json_get_int(t, "pid", 0) > 0)
        field_printf(&c->out, "Process:", "%lld", (long long)json_get_int(t, "pid", 0));
}

/* The columns made from the file. */
static void show_columns(struct client *c, const json_t *t)
{
    int64_t slices = json_get_int(t, "slices", -1), gpu_slices = json_get_int(t, "gpu_slices", 0);
    const char *columns = json_get_str(t, "columns"), *reason = json_get_str(t, "columns_reason");
    const char *host = json_get_str(t, "host_uuid") ? json_get_str(t, "host") : NULL;
    char all[32], gpu[32], size[UNIT_TEXT_MAX];

    if (slices >= 0)
        field_printf(&c->out, "Slices:", "%s, %s of them on the GPU", text_number(all, slices),
                     text_number(gpu, gpu_slices));
    if (columns)
        field_printf(&c->out, "Columns:", "%s  %s%s%s", format_size(size, json_get_int(t, "columns_size", 0)),
                     host ? host : "", host ? ":" : "", columns);
    else if (reason)
        field_printf(&c->out, "Columns:", "none: %s", reason);
}

static void show_defects(struct client *c, const json_t *t)
{
    int64_t size = json_get_int(t, "size", 0);
    bool is_packed = json_get_int(t, "uncompressed", size) != size;
    char count[32], offset[32];
    size_t i;
    json_t *defect;

    json_array_foreach(json_object_get(t, "defects"), i, defect) {
        int64_t n = json_get_int(defect, "count", 1);
        _cleanup_(freep) char *times =
            n == 1 ? xstrdup("") : xasprintf("%s times, first ", text_number(count, n));
        field_printf(&c->out, i == 0 ? "Defects:" : "", "%s (%sat byte %s%s)", json_get_str(defect, "text"),
                     times, text_number(offset, json_get_int(defect, "offset", 0)),
                     is_packed ? " uncompressed" : "");
    }
}

/* Traces and runs are shown as fields. */
static int refuse_table(struct client *c)
{
    return listing_refuse(c, "needs a session or --requests",
                          "Use profctl list-traces or list-runs, or --json.");
}

/* What another host reported of its store may be old: it removes archived traces from there, and fetches them again. */
static void show_location(struct client *c, const json_t *t, const char *host)
{
    const char *path = json_get_str(t, "path"), *key = json_get_str(t, "archive_key"),
               *pinned = json_get_bool(t, "pinned", false) ? " (pinned)" : "";
    bool left_store = trace_json_is_archived(t);

    if (left_store && !host)
        field_printf(&c->out, "Kept in:", "%s (in the archive only)%s", key ? key : path, pinned);
    else if (!left_store)
        field_printf(&c->out, "Kept in:", "%s%s%s%s%s", host ? host : "", host ? ":" : "", path,
                     json_get_bool(t, "stored", true) ? "" : " (left in place)", pinned);
    if (json_object_get(t, "archived_at") && (host || !left_store))
        field_printf(&c->out, "Archived:", "%s%s", key ? key : "yes", left_store ? pinned : "");
}

/* When the archive was found to have it, and the key of its object. */
static void show_archive(struct client *c, const json_t *t)
{
    _cleanup_(freep) char *at = json_cell_text(JSON_CELL_TIME, t, "archived_at");
    const char *key = json_get_str(t, "archive_key");

    if (at && key)
        field_printf(&c->out, "Archived:", "%s as %s", at, key);
}

static int show_trace(struct client *c, const json_t *t)
{
    static const struct show_field trace_fields[] = {
        {"Recorded:", JSON_CELL_TIME, "recorded_at"},
        {"Collected:", JSON_CELL_TIME, "collected_at"},
        {"Written to:", JSON_CELL_TEXT, "origin"},
    };
    int status = refuse_table(c);

    if (status != EXIT_DONE)
        return status;
    client_page(c);
    const char *session = json_get_str(t, "session");
    _cleanup_(freep) char *state = trace_state(t);

    field_printf(&c->out, "Trace:", "%s  %s", json_get_str(t, "trace"), json_get_str(t, "name"));
    field_print(&c->out, "State:", state);
    field_print(&c->out, "Session:", session ? session : "none (unclaimed)");
    field_print(&c->out, "Worker:", json_get_str(t, "worker"));
    if (!json_get_str(t, "worker"))
        show_candidates(c, t);
    show_content(c, t);
    show_size(c, t);
    show_fields(c, t, trace_fields, ARRAY_SIZE(trace_fields));
    const char *host = json_get_str(t, "host_uuid") ? json_get_str(t, "host") : NULL;
    field_print(&c->out, "Host:", host);
    show_location(c, t, host);
    show_archive(c, t);
    field_print(&c->out, "SHA-256:", json_get_str(t, "sha256"));
    field_print(&c->out, "UUID:", json_get_str(t, "uuid"));
    show_columns(c, t);
    show_defects(c, t);
    show_labels(c, t);
    trace_print_names(c, t);
    return EXIT_DONE;
}

/* The request as it was made, in one line. */
static void show_request(struct client *c, const json_t *session)
{
    const json_t *options = json_object_get(session, "options");
    if (json_object_size(options) > 0) {
        _cleanup_(freep) char *text = json_dumps(options, JSON_COMPACT);
        field_print(&c->out, "Options:", text);
    }
    show_labels(c, session);
}

/* Of this host's part of a session: who coordinates it, and what it is called there. */
static void show_coordinator(struct client *c, const json_t *session)
{
    const char *host = json_get_str(session, "coordinator_name"), *uuid = json_get_str(session, "uuid");

    if (!json_get_str(session, "coordinator"))
        return;
    field_printf(&c->out, "Coordinator:", "%s; profctl show %s there shows all hosts",
                 host ? host : "another host", uuid ? uuid : "UUID");
}

static int show_session(struct client *c, const json_t *session)
{
    static const struct show_field session_fields[] = {
        {"Requester:", JSON_CELL_TEXT, "requested_by"}, {"Requested:", JSON_CELL_TIME, "requested_at"},
        {"Started:", JSON_CELL_TIME, "starts_sent_at"}, {"Stopped:", JSON_CELL_TIME, "stopped_at"},
        {"Finished:", JSON_CELL_TIME, "finished_at"},
    };
    char skew[UNIT_TEXT_MAX], uncertainty[UNIT_TEXT_MAX], run[RUN_REF_MAX];
    int64_t error = json_get_int(session, "skew_error_ns", 0);
    _cleanup_(freep) char *title = session_title(session);

    if (listing_is_separated(c))
        return listing_print_workers(c, session);
    client_page(c);
    listing_title(c, title);
    field_printf(&c->out, "State:", "%s%s", json_get_str(session, "state"),
                 json_get_bool(session, "pinned", false) ? " (pinned)" : "");
    show_coordinator(c, session);
    field_print(&c->out, "Waits for:", json_get_str(session, "waiting_for"));
    if (*run_ref(run, session))
        field_printf(&c->out, "Workload:", "%s (profctl show %s)", run, run);
    show_fields(c, session, session_fields, ARRAY_SIZE(session_fields));
    if (json_get_int(session, "skew_ns", -1) >= 0)
        field_printf(&c->out, "Skew:", "%s%s%s between the first and the last start sent",
                     format_duration(skew, json_get_int(session, "skew_ns", 0)), error > 0 ? " ± " : "",
                     error > 0 ? format_duration(uncertainty, error) : "");
    show_request(c, session);
    field_print(&c->out, "UUID:", json_get_str(session, "uuid"));
    fputc('\n', c->out.file);
    if (json_array_size(json_object_get(session, "targets")) > 0) {
        int status = listing_print_workers(c, session);
        if (status != EXIT_DONE)
            return status;
        fputc('\n', c->out.file);
    }
    session_print_remarks(session, &c->out);
    if (session_is_over(session))
        session_print_outcome(session, &c->out);
    return EXIT_DONE;
}

/* -- Runs --------------------------------------------------------------------------------------------- */

static void show_targets(struct client *c, const json_t *targets)
{
    size_t i;
    json_t *target;

    json_array_foreach(targets, i, target) {
        const char *url = json_get_str(target, "url"), *engine = json_get_str(target, "engine");
        field_printf(&c->out, i == 0 ? "Sent to:" : "", "%s%s%s", url ? url : "?", engine ? "  " : "",
                     engine ? engine : "");
    }
}

static int show_benchmark_run(struct client *c, const json_t *run)
{
    static const struct show_field run_fields[] = {
        {"Requester:", JSON_CELL_TEXT, "requested_by"},
        {"Requested:", JSON_CELL_TIME, "requested_at"},
        {"Started:", JSON_CELL_TIME, "started_at"},
        {"Ended:", JSON_CELL_TIME, "ended_at"},
    };
    int status = refuse_table(c);

    if (status != EXIT_DONE)
        return status;
    client_page(c);
    _cleanup_(freep) char *title = run_title(run);
    _cleanup_(freep) char *workload = json_dumps(json_object_get(run, "workload"), JSON_COMPACT);
    int64_t session = json_get_int(run, "session", 0);

    listing_title(c, title);
    field_print(&c->out, "State:", json_get_str(run, "state"));
    if (session > 0)
        field_printf(&c->out, "Session:", "s%lld, recorded at the same time", (long long)session);
    field_print(&c->out, "Router:", json_get_str(run, "router"));
    show_targets(c, json_object_get(run, "targets"));
    show_fields(c, run, run_fields, ARRAY_SIZE(run_fields));
    field_print(&c->out, "Workload:", workload);
    show_labels(c, run);
    fputc('\n', c->out.file);
    run_show_result(c, run);
    return EXIT_DONE;
}

/* ----------------------------------------------------------------------------------------------------- */

struct show_options {
    bool requests, jsonl;
    struct save_as_options saving;
};

#define AT(member) offsetof(struct show_options, member)

/* clang-format off */
static const struct option_def show_options[] = {
    OPTION_GROUP("Output"),
    {"requests", 0, NULL, OPTION_FLAG, AT(requests), "Print the requests of a benchmark run with their measurements; JSON, JSONL and CSV have all columns"},
    {"jsonl", 0, NULL, OPTION_FLAG, AT(jsonl), "Print one JSON object per line, with --requests"},
    SAVE_AS_OPTIONS(struct show_options, saving),
};
/* clang-format on */

static int show_save(struct client *c, const struct show_options *o, const char *ref)
{
    _cleanup_json_ run = NULL;
    int status = client_get_ref(c, ref, &run);
    return status == EXIT_DONE ? save_as_write(c, &o->saving, run) : status;
}

/* The host of a trace has its largest kernels: they are asked for by SQL. One that does not answer is no failure. */
static void show_fetch_names(struct client *c, json_t *trace)
{
    static const char sql[] =
        "select category, name, count, sum_dur, max_dur from name_stat order by sum_dur desc limit 64";
    static const char *const members[] = {"category", "name", "count", "sum_ns", "max_ns"};
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ body = NULL, *answer = NULL;
    json_t *names = json_array(), *row;
    size_t i;

    if (!json_get_str(trace, "host_uuid") || json_get_int(trace, "columns_size", 0) <= 0) {
        json_decref(names);
        return;
    }
    _cleanup_(freep) char *path = xasprintf("/v1/traces/%s/query", json_get_str(trace, "trace"));
    body = json_pack("{s:s}", "sql", sql);
    if (connection_call(c->connection, "POST", path, body, NULL, &answer, &p) < 0)
        client_note(c, "the kernels are not shown: %s", p.what ? p.what : "the host does not answer");
    json_array_foreach(json_object_get(answer, "rows"), i, row) {
        json_t *name = json_object();
        for (size_t k = 0; k < ARRAY_SIZE(members); k++)
            json_object_set(name, members[k], json_array_get(row, k));
        json_array_append_new(names, name);
    }
    json_object_set_new(trace, "names", names);
}

static int show_one(struct client *c, const char *ref, bool is_first)
{
    _cleanup_json_ answer = NULL;
    _cleanup_(freep) char *path = ref_path(ref);
    int status = client_get(c, path, NULL, &answer);

    if (status != EXIT_DONE)
        return status;
    if (ref[0] == 't')
        show_fetch_names(c, answer);
    if (!is_first && listing_is_text(c))
        fputc('\n', c->out.file);
    if (c->json)
        return client_print_json(c, answer);
    return (ref[0] == 's' ? show_session : ref[0] == 'r' ? show_benchmark_run : show_trace)(c, answer);
}

static int show_check(struct client *c, const struct show_options *o, struct problem *p)
{
    if (o->jsonl && (c->format != TABLE_FITTED || c->columns))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "--jsonl excludes the other formats and --columns");
    if (!o->requests && o->jsonl)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--jsonl needs --requests");
    if (o->requests && o->saving.format)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--requests and --save-as exclude each other");
    return save_as_check(&o->saving, p);
}

static int show_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct show_options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    bool is_of_runs = o->requests || o->saving.format;
    int status = EXIT_DONE;

    if (show_check(c, o, &p) < 0)
        return client_fail(c, &p);
    if (n_words == 0 && is_of_runs)
        return client_refuse(c, "Name one: profctl show r3. profctl list-runs shows the ids.",
                             "%s needs a benchmark run", o->requests ? "--requests" : "--save-as");
    if (n_words == 0) {
        char newest[REF_TEXT_MAX];
        status = client_newest_session(c, false, newest);
        return status == EXIT_DONE ? show_one(c, newest, true) : status;
    }
    for (int i = 0; i < n_words && status == EXIT_DONE; i++) {
        char ref[REF_TEXT_MAX];
        if (client_parse_ref(c, words[i], is_of_runs ? 'r' : 't', is_of_runs ? "r" : "str", ref) < 0)
            return EXIT_USAGE;
        status = o->requests        ? requests_print(c, ref, o->jsonl)
                 : o->saving.format ? show_save(c, o, ref)
                                    : show_one(c, ref, i == 0);
    }
    return status;
}

const struct verb verb_show = {
    .name = "show",
    .summary = "Show details of a trace, a session or a benchmark run",
    .details = "Default: the newest session.",
    .words = "[TRACE|SESSION|RUN...]",
    .default_kind = 't',
    .max_words = WORDS_UNLIMITED,
    VERB_OPTIONS(show_options, struct show_options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = show_run,
};
