/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/session.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "base/uuid.h"
#include "client/cli/text.h"
#include "client/views/reasons.h"

/* Hosts that the line of a session names. */
#define SILENT_HOSTS_SHOWN_MAX 3

enum {
    CELL_WORKER,
    CELL_HOST,
    CELL_NAME,
    CELL_ENGINE,
    CELL_ROLE,
    CELL_STATE,
    CELL_FOR,
    CELL_TRACE,
    _CELL_MAX
};
_Static_assert(_CELL_MAX == N_SESSION_COLUMNS, "others count them");

static const struct table_column columns[_CELL_MAX] = {
    {"WORKER", COLUMN_URL, IMPORTANCE_KEY},
    {"HOST", COLUMN_OPTIONAL | COLUMN_SHORTEN, IMPORTANCE_HIGH},
    {"NAME", COLUMN_OPTIONAL | COLUMN_SHORTEN},
    {"ENGINE", 0, IMPORTANCE_EXTRA},
    {"ROLE", 0, IMPORTANCE_LOW},
    {"STATE", 0, IMPORTANCE_HIGH},
    {"FOR", COLUMN_RIGHT, IMPORTANCE_NORMAL, "for_ns"},
    {"TRACE", COLUMN_SHORTEN},
};

/* Of a session that is over, with the time in which each worker did not serve. */
static const struct table_column columns_at_end[_CELL_MAX] = {
    {"WORKER", COLUMN_URL, IMPORTANCE_KEY},
    {"HOST", COLUMN_OPTIONAL | COLUMN_SHORTEN, IMPORTANCE_HIGH},
    {"NAME", COLUMN_OPTIONAL | COLUMN_SHORTEN},
    {"ENGINE", 0, IMPORTANCE_EXTRA},
    {"ROLE", 0, IMPORTANCE_LOW},
    {"STATE", 0, IMPORTANCE_HIGH},
    {"STOP TOOK", COLUMN_RIGHT, IMPORTANCE_LOW, "stop_ns"},
    {"TRACE", COLUMN_SHORTEN},
};

static const enum colour state_colours[_STATE_MAX] = {
    [STATE_RECORDING] = COLOUR_BOLD, [STATE_COMPLETE] = COLOUR_GOOD,  [STATE_PARTIAL] = COLOUR_WARN,
    [STATE_FAILED] = COLOUR_BAD,     [STATE_CANCELLED] = COLOUR_WARN,
};

/* The order of workers if not all of them fit: failed, then active, then finished. */
static const int attention[_STATE_MAX] = {
    [STATE_FAILED] = 0,     [STATE_PARTIAL] = 1,   [STATE_STOPPING] = 2,
    [STATE_STARTING] = 3,   [STATE_RECORDING] = 4, [STATE_REQUESTED] = 5,
    [STATE_COLLECTING] = 6, [STATE_CANCELLED] = 7, [STATE_COMPLETE] = 8,
};

struct tally {
    size_t n_targets, n_skipped, by_state[_STATE_MAX], n_started, n_stopped, n_traces;
    int64_t bytes;
};

static int64_t session_bytes_of(const json_t *target)
{
    int64_t bytes = json_get_int(target, "bytes", 0);
    return bytes > 0 ? bytes : json_get_int(target, "bytes_seen", 0);
}

int session_state(const json_t *session)
{
    return state_from_name(json_get_str(session, "state"));
}

bool session_is_over(const json_t *session)
{
    int state = session_state(session);
    return state >= 0 && state_is_final((enum state)state);
}

int session_exit_status(const json_t *session)
{
    int state = session_state(session);
    return state == STATE_COMPLETE ? EXIT_DONE : state == STATE_PARTIAL ? EXIT_PARTIAL : EXIT_FAILED;
}

static struct tally session_tally(const json_t *session)
{
    struct tally t = {.n_skipped = json_array_size(json_object_get(session, "skipped"))};
    size_t i;
    json_t *target;

    json_array_foreach(json_object_get(session, "targets"), i, target) {
        int state = session_state(target);
        t.n_targets++;
        if (state >= 0)
            t.by_state[state]++;
        /* Some recordings end without a stop, and a start that was refused needs none. */
        bool has_stop = json_get_int(target, "stop_sent_at", 0) > 0;
        bool has_ended = has_stop ? json_get_int(target, "stop_answered_at", 0) > 0
                                  : state == STATE_COLLECTING || state == STATE_PARTIAL;
        t.n_started += json_get_int(target, "start_sent_at", 0) > 0 && (has_stop || state != STATE_FAILED);
        t.n_stopped += has_ended || state == STATE_COMPLETE;
        t.n_traces += json_array_size(json_object_get(target, "traces"));
        t.bytes += session_bytes_of(target);
    }
    /* Traces of a session of ingested files have no worker. */
    if (t.n_targets == 0) {
        t.n_traces = (size_t)json_get_int(json_object_get(session, "counts"), "traces", 0);
        t.bytes = json_get_int(json_object_get(session, "counts"), "bytes", 0);
    }
    return t;
}

/* ": 2 prefill, 6 decode"; empty where all have the same role. The caller frees. */
static char *session_roles(const json_t *session)
{
    size_t counts[_ROLE_MAX] = {0}, n_kinds = 0, i;
    char *text = xstrdup("");
    json_t *target;

    json_array_foreach(json_object_get(session, "targets"), i, target) {
        int role = role_from_name(json_get_str(target, "role"));
        counts[role < 0 ? ROLE_UNKNOWN : role]++;
    }
    for (int r = 0; r < _ROLE_MAX; r++)
        n_kinds += counts[r] > 0;
    for (int r = 0; r < _ROLE_MAX && n_kinds > 1; r++)
        if (counts[r] > 0)
            append_str(&text, "%s%zu %s", *text ? ", " : ": ", counts[r], role_name((enum role)r));
    return text;
}

/* Of a session that another host leads, where it has another number and the same UUID. */
static void session_append_coordinator(char **text, const json_t *session)
{
    const char *host = json_get_str(session, "coordinator_name"), *uuid = json_get_str(session, "uuid");

    if (json_get_str(session, "coordinator"))
        append_str(text, "of coordinator %s (there %.*s) ", host ? host : "on another host",
                   UUID_PREFIX_LENGTH, uuid ? uuid : "?");
}

char *session_title(const json_t *session)
{
    const char *router = json_get_str(session, "router"), *fleet = json_get_str(session, "fleet"),
               *dialect = json_get_str(session, "dialect"), *name = json_get_str(session, "name"),
               *id = json_get_str(session, "session");
    struct tally t = session_tally(session);
    _cleanup_(freep) char *all = text_count((int64_t)(t.n_targets + t.n_skipped), "worker"),
                          *traces = text_count((int64_t)t.n_traces, "trace"), *roles = session_roles(session),
                          *text = xasprintf("Session %s ", id ? id : "?");

    if (name)
        append_str(&text, "\"%s\", ingested (%s)", name, traces);
    else
        session_append_coordinator(&text, session);
    if (!name)
        append_str(&text, "on ");
    if (router)
        append_str(&text, "%s (%s%s", router, dialect ? dialect : "", dialect ? ", " : "");
    else if (fleet)
        append_str(&text, "fleet %s (", fleet);
    if (!name && t.n_skipped > 0)
        append_str(&text, "%zu of ", t.n_targets);
    append_str(&text, "%s%s%s", name ? "" : all, roles, router || fleet ? ")" : "");
    return text_clean(text, false);
}

/* Below a minute, a live display keeps one unit. */
static char *format_elapsed(char *buf, int64_t ns)
{
    if (ns >= NS_PER_S)
        return format_duration(buf, ns);
    snprintf(buf, UNIT_TEXT_MAX, "%.1fs", (double)MAX(ns, 0) / 1e9);
    return buf;
}

/* The time in its state; after its end, the duration of its last call; -1: unknown, or its stop failed. */
static int64_t session_time_in_state(const json_t *target, int64_t now)
{
    int64_t start = json_get_int(target, "start_sent_at", 0),
            started = json_get_int(target, "start_answered_at", 0);
    int64_t stop = json_get_int(target, "stop_sent_at", 0),
            stopped = json_get_int(target, "stop_answered_at", 0);

    switch (session_state(target)) {
    case STATE_STARTING:
        return start ? now - start : -1;
    case STATE_RECORDING:
        return started || start ? now - (started ? started : start) : -1;
    case STATE_STOPPING:
    case STATE_COLLECTING:
        return stop ? now - stop : -1;
    case STATE_REQUESTED:
        return -1;
    default:
        /* A recording on demand ends by itself: the process serves all the time. */
        if (engine_from_name(json_get_str(target, "engine")) == ENGINE_PYTORCH)
            return -1;
        if (stop)
            return stopped ? stopped - stop : -1;
        return start && started ? started - start : -1;
    }
}

static char *session_trace_cell(const json_t *target)
{
    const json_t *traces = json_object_get(target, "traces");
    const char *failure = json_get_str(target, "failure");
    size_t n = json_array_size(traces);
    int64_t bytes = session_bytes_of(target);
    char size[UNIT_TEXT_MAX];

    format_size(size, bytes);
    /* A host may deliver traces after the session did not wait any more; why it did not stands below. */
    if (failure && (n == 0 || !json_get_str(target, "host")))
        return xstrndup(failure, strcspn(failure, "\n"));
    if (n == 1)
        return xasprintf("%s  %s", json_string_value(json_array_get(traces, 0)), size);
    if (n > 1)
        return xasprintf("%zu traces  %s", n, size);
    return bytes > 0 ? xasprintf("%s so far", size) : NULL;
}

static void session_add_row(struct table *table, const json_t *target, int64_t now)
{
    char duration[UNIT_TEXT_MAX];
    const char *engine = json_get_str(target, "engine"), *version = json_get_str(target, "version");
    _cleanup_(freep) char *engine_cell =
        xasprintf("%s%s%s", engine ? engine : "", version ? " " : "", version ? version : "");
    _cleanup_(freep) char *trace = session_trace_cell(target);
    int64_t ns = session_time_in_state(target, now);
    int state = session_state(target);

    table_add(table, (const char *[_CELL_MAX]){
                         [CELL_WORKER] = json_get_str(target, "worker"),
                         [CELL_HOST] = json_get_str(target, "host"),
                         [CELL_NAME] = json_get_str(target, "name"),
                         [CELL_ENGINE] = engine_cell,
                         [CELL_ROLE] = json_get_str(target, "role"),
                         [CELL_STATE] = json_get_str(target, "state"),
                         [CELL_FOR] = ns < 0 ? NULL : format_elapsed(duration, ns),
                         [CELL_TRACE] = trace,
                     });
    /* For programs: "t12", "t12 t13". */
    _cleanup_(freep) char *ids = NULL;
    size_t i;
    json_t *id;
    json_array_foreach(json_object_get(target, "traces"), i, id)
        append_str(&ids, "%s%s", ids ? " " : "", json_string_value(id));
    table_set_value(table, CELL_TRACE, ids);
    if (ns >= 0)
        table_set_int(table, CELL_FOR, ns);
    if (state >= 0)
        table_colour(table, CELL_STATE, state_colours[state]);
}

static int session_attention(const json_t *target)
{
    int state = session_state(target);
    return state < 0 ? 0 : attention[state];
}

/* Adds all rows in their order, or the max_rows most important ones. Returns the number of the others. */
static size_t session_add_rows(struct table *table, const json_t *targets, unsigned max_rows, int64_t now)
{
    size_t n = json_array_size(targets), n_shown = 0, i;
    json_t *target;
    bool all = max_rows == 0 || n <= max_rows;

    for (int rank = 0; rank < (all ? 1 : _STATE_MAX); rank++)
        json_array_foreach(targets, i, target)
            if (all || (n_shown < max_rows && session_attention(target) == rank)) {
                session_add_row(table, target, now);
                n_shown++;
            }
    return n - n_shown;
}

const struct table_column *session_columns(const json_t *session)
{
    return session_is_over(session) ? columns_at_end : columns;
}

void session_add_workers(struct table *table, const json_t *session, int64_t now)
{
    session_add_rows(table, json_object_get(session, "targets"), 0, now);
}

char *session_block(const json_t *session, const struct screen *s, unsigned max_rows, int64_t now)
{
    _cleanup_(table_freep) struct table *table = table_new(session_columns(session), _CELL_MAX, true);
    size_t n_hidden = session_add_rows(table, json_object_get(session, "targets"), max_rows, now);
    _cleanup_(freep) char *rows = table_text(table, s, 2), *progress = session_progress(session, now);
    _cleanup_(freep) char *hidden = n_hidden > 0 ? xasprintf("  ... and %zu more\n", n_hidden) : xstrdup("");

    return xasprintf("%s%s  %s%s%s\n", rows, hidden, screen_colour(s, COLOUR_DIM), progress, screen_plain(s));
}

/* "recording 3.2s of 10s", "waiting for s6", or the state. The caller frees. */
static char *session_phase(const json_t *session, int64_t now)
{
    char done[UNIT_TEXT_MAX], all[UNIT_TEXT_MAX];
    const char *waiting = json_get_str(session, "waiting_for"), *state = json_get_str(session, "state");
    int64_t begin = json_get_int(session, "recording_at", 0), end = json_get_int(session, "stop_at", 0);

    if (!begin)
        begin = json_get_int(session, "starts_sent_at", 0);
    if (session_state(session) == STATE_RECORDING && begin > 0)
        return xasprintf("recording %s%s%s", format_elapsed(done, now - begin), end > begin ? " of " : "",
                         end > begin ? format_duration(all, end - begin) : "");
    if (session_state(session) == STATE_REQUESTED && waiting)
        return xasprintf("waiting for %s", waiting);
    return xstrdup(state ? state : "?");
}

/* "gpu2 has not answered for 12s", "waiting for gpu2: no answer for 12s, until 10:42:07": of a target of that host. */
char *session_silence_text(const json_t *target, int64_t now)
{
    const char *host = json_get_str(target, "host");
    int64_t until = json_get_int(target, "silent_until", 0);
    char age[UNIT_TEXT_MAX], at[UNIT_TEXT_MAX];
    const char *clock = until > 0 ? strchr(format_time(at, until), ' ') : NULL;

    format_duration(age, MAX(now - json_get_int(target, "silent_since", now), INT64_C(0)));
    return clock ? xasprintf("waiting for %s: no answer for %s, until%s", host, age, clock)
                 : xasprintf("%s has not answered for %s", host, age);
}

/* The hosts that do not answer. Their targets follow each other. */
static void session_append_silence(char **text, const json_t *session, int64_t now)
{
    const char *last = NULL;
    size_t n = 0, i;
    json_t *target;

    json_array_foreach(json_object_get(session, "targets"), i, target) {
        const char *host = json_get_str(target, "host");
        if (!json_get_str(target, "silence") || !host || streq(host, last))
            continue;
        last = host;
        _cleanup_(freep) char *one = session_silence_text(target, now);
        if (n++ < SILENT_HOSTS_SHOWN_MAX)
            append_str(text, " · %s", one);
    }
    if (n > SILENT_HOSTS_SHOWN_MAX)
        append_str(text, ", nor %zu more hosts", n - SILENT_HOSTS_SHOWN_MAX);
}

char *session_progress(const json_t *session, int64_t now)
{
    struct tally t = session_tally(session);
    int64_t skew = json_get_int(session, "skew_ns", -1), error = json_get_int(session, "skew_error_ns", 0);
    _cleanup_(freep) char *text = session_phase(session, now);
    char number[UNIT_TEXT_MAX], uncertainty[UNIT_TEXT_MAX];

    if (skew >= 0 && t.n_targets > 1)
        append_str(&text, " · starts sent within %s%s%s of each other", format_duration(number, skew),
                   error > 0 ? " ± " : "", error > 0 ? format_duration(uncertainty, error) : "");
    if (session_state(session) >= STATE_STOPPING && t.n_started > 0)
        append_str(&text, " · %zu of %zu stopped", t.n_stopped, t.n_started);
    if (t.by_state[STATE_FAILED] > 0)
        append_str(&text, " · %zu failed", t.by_state[STATE_FAILED]);
    session_append_silence(&text, session, now);
    if (t.bytes > 0)
        append_str(&text, " · %s", format_size(number, t.bytes));
    return text_clean(text, false);
}

/* "Session s7 is partial: 7 of 8 workers, 7 traces, 431 MiB in 14.2s" */
static void session_add_state(struct document *d, const json_t *session)
{
    struct tally t = session_tally(session);
    size_t n_workers = t.n_targets + t.n_skipped;
    int state = session_state(session);
    int64_t begin = json_get_int(session, "starts_sent_at", json_get_int(session, "requested_at", 0)),
            end = json_get_int(session, "finished_at", 0);
    const char *id = json_get_str(session, "session");
    char size[UNIT_TEXT_MAX], duration[UNIT_TEXT_MAX];
    _cleanup_(freep) char *subject = xasprintf("Session %s", id ? id : "?"), *text = xstrdup(": "),
                          *traces = text_count((int64_t)t.n_traces, "trace"),
                          *workers = text_count((int64_t)n_workers, "worker");

    if (n_workers > 0)
        append_str(&text, "%zu of %s, ", t.by_state[STATE_COMPLETE], workers);
    append_str(&text, "%s, %s", traces, format_size(size, t.bytes));
    if (end > begin)
        append_str(&text, " in %s", format_duration(duration, end - begin));
    document_state(d, subject, json_get_str(session, "state"), state < 0 ? COLOUR_NONE : state_colours[state],
                   text);
}

void session_print_outcome(const json_t *session, const struct screen *s)
{
    _cleanup_(reasons_freep) struct reasons *reasons = reasons_new();
    _cleanup_(document_done) struct document d = {0};
    size_t i;
    json_t *item;

    const char *reason = json_get_str(session, "reason");
    bool is_cancelled = session_tally(session).by_state[STATE_CANCELLED] > 0;

    session_add_state(&d, session);
    /* The reason of the session summarizes those of its workers, where they have any; that others were cancelled because of
     * them only the session tells, with their failure. */
    json_array_foreach(json_object_get(session, "targets"), i, item) {
        const char *failure = json_get_str(item, "failure");
        if (!is_cancelled || !reason || !failure || !strstr(reason, failure))
            reasons_add(reasons, json_get_str(item, "worker"), failure, json_get_str(item, "remedy"));
    }
    if (reasons_count(reasons) == 0 || is_cancelled)
        reasons_add(reasons, NULL, reason, json_get_str(session, "remedy"));
    reasons_add_to(&d, reasons, 2);
    document_print(&d, s, TABLE_FITTED);
}

void session_print_remarks(const json_t *session, const struct screen *s)
{
    _cleanup_(reasons_freep) struct reasons *reasons = reasons_new();
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(session, "skipped"), i, item) {
        const char *reason = json_get_str(item, "reason");
        _cleanup_(freep) char *text = xasprintf("left out: %s", reason ? reason : "?");
        reasons_add(reasons, json_get_str(item, "worker"), text, json_get_str(item, "remedy"));
    }
    json_array_foreach(json_object_get(session, "remarks"), i, item) {
        const char *option = json_get_str(item, "option"), *remark = json_get_str(item, "text");
        _cleanup_(freep) char *text =
            xasprintf("%s%s%s", option ? option : "", option ? ": " : "", remark ? remark : "");
        reasons_add(reasons, json_get_str(item, "worker"), text, json_get_str(item, "remedy"));
    }
    reasons_print(reasons, s, 2);
}
