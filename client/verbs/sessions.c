/* SPDX-License-Identifier: Apache-2.0 */
/* list-sessions, status and stop. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/verbs/job.h"
#include "client/verbs/verbs.h"
#include "client/views/follow.h"
#include "client/views/listing.h"
#include "client/views/session.h"

/* -- list-sessions ---------------------------------------------------------------------------------------- */

struct list_sessions_options {
    int64_t limit;
    const char *state, *search, *sort;
    struct option_list labels;
};

static const struct option_def list_sessions_options[] = {
    OPTION_GROUP("Selection"),
    LIMIT_OPTION(struct list_sessions_options, "sessions"),
    {"state", 0, "STATE", OPTION_TEXT, offsetof(struct list_sessions_options, state),
     "Only sessions in this state; active: all that are not finished", "state"},
    SEARCH_OPTIONS(struct list_sessions_options, "sessions", "bytes, traces, workers, ..."),
};

/* "anna" of "uid 1000 (anna)". */
static char *session_requester_text(const json_t *session)
{
    const char *by = json_get_str(session, "requested_by"), *name = by ? strchr(by, '(') : NULL;

    return name && ends_with(by, ")") ? xstrndup(name + 1, strlen(name + 1) - 1) : xstrdup(by);
}

static char *session_router_text(const json_t *session)
{
    const char *router = json_get_str(session, "router");
    return xstrdup(router ? router : json_get_str(session, "fleet"));
}

/* "8"; of a finished session "7 of 8": workers recorded completely, of all requested ones. */
static char *session_workers_text(const json_t *session)
{
    const json_t *counts = json_object_get(session, "counts");
    int64_t n = json_get_int(counts, "targets", 0), n_skipped = json_get_int(counts, "skipped", 0);
    int64_t n_recorded = session_is_over(session) ? json_get_int(counts, "complete", -1)
                         : n_skipped > 0          ? n
                                                  : -1;

    if (n + n_skipped == 0)
        return NULL;
    return n_recorded < 0 ? xasprintf("%lld", (long long)(n + n_skipped))
                          : xasprintf("%lld of %lld", (long long)n_recorded, (long long)(n + n_skipped));
}

static enum colour session_colour(const json_t *session)
{
    int state = session_state(session);
    return state == STATE_FAILED ? COLOUR_BAD : state == STATE_PARTIAL ? COLOUR_WARN : COLOUR_NONE;
}

/* clang-format off */
static const struct json_column list_sessions_columns[] = {
    {{"SESSION", 0, IMPORTANCE_KEY}, JSON_CELL_TEXT, "session"},
    {{"STATE", 0, IMPORTANCE_HIGH}, JSON_CELL_TEXT, "state", .colour = session_colour},
    {{"REQUESTED", 0, IMPORTANCE_HIGH, "requested_at"}, JSON_CELL_TIME, "requested_at"},
    {{"BY", COLUMN_SHORTEN, IMPORTANCE_EXTRA, "requested_by"}, .text = session_requester_text},
    {{"ROUTER", COLUMN_URL}, .text = session_router_text},
    {{"WORKERS", COLUMN_RIGHT}, .text = session_workers_text},
    {{"TRACES", COLUMN_RIGHT}, JSON_CELL_COUNT, "counts/traces"},
    {{"SIZE", COLUMN_RIGHT, IMPORTANCE_NORMAL, "bytes"}, JSON_CELL_SIZE, "counts/bytes"},
    {{"LABELS", COLUMN_SHORTEN}, JSON_CELL_LABELS, "labels"},
    {{"NAME", COLUMN_SHORTEN | COLUMN_OPTIONAL, .least = 16}, JSON_CELL_TEXT, "name"},
    {{"UUID", COLUMN_ON_REQUEST, IMPORTANCE_EXTRA}, JSON_CELL_TEXT, "uuid"},
};
/* clang-format on */

static int list_sessions_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct list_sessions_options *o = values;

    return job_list_print(
        c, &(struct job_list){.path = "/v1/sessions",
                              .member = "sessions",
                              .options = OPTION_SET(list_sessions_options, o),
                              .columns = list_sessions_columns,
                              .n_columns = ARRAY_SIZE(list_sessions_columns),
                              .empty = o->search || o->labels.n > 0 ? "No session matches."
                                       : o->state
                                           ? "No session is in that state."
                                           : "Nothing is recorded yet: profctl start --router URL --wait"});
}

const struct verb verb_list_sessions = {
    .name = "list-sessions",
    .words = "",
    .summary = "List sessions, newest first",
    VERB_OPTIONS(list_sessions_options, struct list_sessions_options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = list_sessions_run,
};

/* -- status ----------------------------------------------------------------------------------------------- */

struct status_options {
    bool once;
};

static const struct option_def status_options[] = {
    OPTION_GROUP("Output"),
    {"once", '1', NULL, OPTION_FLAG, offsetof(struct status_options, once), "Print once, also on a terminal"},
};

static int status_print_session(struct client *c, const json_t *session)
{
    _cleanup_(freep) char *title = session_title(session);

    client_page(c);
    if (listing_is_text(c))
        listing_title(c, title);
    if (json_array_size(json_object_get(session, "targets")) > 0 || listing_is_separated(c)) {
        int status = listing_print_workers(c, session);
        if (status != EXIT_DONE || listing_is_separated(c))
            return status;
    }
    session_print_remarks(session, &c->out);
    if (session_is_over(session))
        session_print_outcome(session, &c->out);
    return EXIT_DONE;
}

/* Live on a terminal until the session has finished. */
static int status_show(struct client *c, const struct status_options *o, const char *ref)
{
    _cleanup_json_ session = NULL, *last = NULL;
    int status = client_get_ref(c, ref, &session);

    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, session);
    if (o->once || !c->out.is_terminal || session_is_over(session) || c->transient ||
        listing_is_separated(c) || c->columns) {
        status = status_print_session(c, session);
        if (status != EXIT_DONE || listing_is_separated(c))
            return status;
        if (c->transient && !session_is_over(session))
            client_note(c, "No profd is running to continue it; profctl stop %s starts one and ends it.",
                        ref);
        return EXIT_DONE;
    }
    _cleanup_(freep) char *title = session_title(session);
    listing_title(c, title);
    session_print_remarks(session, &c->out);
    status = follow_job(c, ref, &c->out, INTERRUPT_LEAVES, NULL, &last);
    if (status != EXIT_DONE)
        return status;
    if (session_is_over(last))
        session_print_outcome(last, &c->out);
    return EXIT_DONE;
}

/* "profd 0.2.0 at /run/profd/profd.sock: 48 traces, 3.1 GiB of 200 GiB"; "No profd is running, state in
 * /home/anna/.local/state/profd: ..." */
static int status_print_daemon(struct client *c)
{
    _cleanup_json_ version = NULL, *usage = NULL;
    int status = client_get(c, "/v1/version", NULL, &version);

    if (status == EXIT_DONE)
        status = client_get(c, "/v1/usage", NULL, &usage);
    if (status != EXIT_DONE)
        return status;
    const char *number = json_get_str(version, "version"), *state = json_get_str(version, "state_dir");
    _cleanup_(freep) char *stored = usage_text(usage);
    if (c->transient)
        screen_printf(&c->out, "No profd is running, state in %s", state ? state : "?");
    else
        screen_printf(&c->out, "profd %s at %s", number ? number : "?", connection_name(c->connection));
    screen_printf(&c->out, ": %s\n", stored);
    return EXIT_DONE;
}

/* Without an id: the unfinished sessions, else how the last one ended. */
static int status_show_all(struct client *c, const struct status_options *o)
{
    _cleanup_json_ active = NULL, *last = NULL;
    size_t i;
    json_t *item;
    int status = client_get(c, "/v1/sessions?state=active", NULL, &active);

    if (status != EXIT_DONE)
        return status;
    const json_t *sessions = json_object_get(active, "sessions");
    size_t n = json_array_size(sessions);
    if (c->json)
        return client_print_json(c, active);
    if (n == 1) {
        const char *id = json_get_str(json_array_get(sessions, 0), "session");
        return id ? status_show(c, o, id) : EXIT_FAILED;
    }
    status = listing_refuse(c, "needs one session", "Name it: profctl status s7.");
    if (status == EXIT_DONE)
        status = status_print_daemon(c);
    if (status == EXIT_DONE && n == 0)
        status = client_get(c, "/v1/sessions?limit=1", NULL, &last);
    if (status != EXIT_DONE)
        return status;
    if (n == 0)
        sessions = json_object_get(last, "sessions");
    if (json_array_size(sessions) == 0)
        client_note(c, "Nothing is recorded yet: profctl start --router URL --wait");
    json_array_foreach(sessions, i, item) {
        _cleanup_json_ session = NULL;
        const char *id = json_get_str(item, "session");
        status = id ? client_get_ref(c, id, &session) : EXIT_FAILED;
        if (status == EXIT_DONE)
            status = status_print_session(c, session);
    }
    return status;
}

static int status_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct status_options *o = values;
    char ref[REF_TEXT_MAX];

    if (n_words == 0) {
        int status = status_show_all(c, o);
        return status == EXIT_DONE && c->transient ? EXIT_FAILED : status;
    }
    return client_parse_ref(c, words[0], 's', "s", ref) < 0 ? EXIT_USAGE : status_show(c, o, ref);
}

const struct verb verb_status = {
    .name = "status",
    .words = "[SESSION]",
    .summary = "Show the state of a session, live on a terminal",
    .details =
        "Default: all sessions that are not finished; if there are none, profd itself and how the last "
        "session ended. If no profd is running, prints what your own catalog contains; without an id the "
        "exit status is then 1.",
    .default_kind = 's',
    .max_words = 1,
    VERB_OPTIONS(status_options, struct status_options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = status_run,
};

/* -- stop ------------------------------------------------------------------------------------------------- */

struct stop_options {
    bool wait;
};

static const struct option_def stop_options[] = {
    OPTION_GROUP("Output"),
    {"wait", 'w', NULL, OPTION_FLAG, offsetof(struct stop_options, wait),
     "Wait until the traces are collected, or the benchmark run has ended"},
};

/* The only unfinished session, into ref; prints them if there are several. Returns an exit status. */
static int stop_find_session(struct client *c, char *ref)
{
    _cleanup_json_ answer = NULL;
    size_t i;
    json_t *session;
    int status = client_get(c, "/v1/sessions?state=active", NULL, &answer);

    if (status != EXIT_DONE)
        return status;
    const json_t *sessions = json_object_get(answer, "sessions");
    size_t n = json_array_size(sessions);
    const char *id = json_get_str(json_array_get(sessions, 0), "session");
    if (n == 1 && id && strlen(id) < REF_TEXT_MAX) {
        strcpy(ref, id);
        return EXIT_DONE;
    }
    if (n == 0)
        return client_error(c, PROBLEM_NOT_FOUND,
                            "To stop a benchmark run, name it; profctl list-runs shows the ids.",
                            "no session is running");
    status = client_refuse(c, NULL, "%zu sessions are running: name the one to stop", n);
    json_array_foreach(sessions, i, session) {
        const char *router = json_get_str(session, "router");
        screen_printf(&c->err, "  profctl stop %s  (%s, %s)\n", json_get_str(session, "session"),
                      json_get_str(session, "state"), router ? router : "workers");
    }
    return status;
}

static int stop_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct stop_options *o = values;
    _cleanup_json_ session = NULL;
    char ref[REF_TEXT_MAX] = "";
    int status = EXIT_DONE;

    if (n_words > 0 && client_parse_ref(c, words[0], 's', "sr", ref) < 0)
        return EXIT_USAGE;
    if (n_words == 0)
        status = stop_find_session(c, ref);
    /* A session whose profd is gone needs one that stays: it recovers the session, and the stops that are pending. */
    if (status == EXIT_DONE && ref[0] == 's' && c->transient)
        status = client_get_ref(c, ref, &session);
    if (session && !session_is_over(session))
        status = client_need_user_profd(c);
    return status == EXIT_DONE ? job_stop(c, ref, o->wait) : status;
}

const struct verb verb_stop = {
    .name = "stop",
    .words = "[SESSION|RUN]",
    .summary = "Stop a session or a benchmark run",
    .details =
        "Default: the session that is running. A session keeps what was recorded, a run what was measured. "
        "With --wait the exit status is that of start --wait, or of bench.",
    .default_kind = 's',
    .max_words = 1,
    VERB_OPTIONS(stop_options, struct stop_options),
    .needs_only_catalog = true,
    .run = stop_run,
};
