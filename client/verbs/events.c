/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/transport/event_stream.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "client/views/run.h"
#include <errno.h>
#include <inttypes.h>

struct events_options {
    const char *session;
    int64_t after;
};

/* clang-format off */
static const struct option_def events_options[] = {
    SESSION_OPTION(struct events_options, "events"),
    {"after", 0, "N", OPTION_COUNT, offsetof(struct events_options, after), "Start after the event with this number", "after"},
};
/* clang-format on */

enum { CELL_AT, CELL_KIND, CELL_SESSION, CELL_SUBJECT, CELL_TEXT, _CELL_MAX };

/* Lines come one by one, so nothing is aligned that is not of a fixed width. */
static const struct event_column {
    const char *key;
    int width;
} columns[_CELL_MAX] = {
    [CELL_AT] = {"at", 19},     [CELL_KIND] = {"event", 17}, [CELL_SESSION] = {"session", 4},
    [CELL_SUBJECT] = {"id", 4}, [CELL_TEXT] = {"text", 0},
};

struct following {
    struct client *c;
    size_t *shown; /* columns */
    size_t n_shown;
};

/* "2026-11-20 14:02:11  session-state      s7    -     recording" */
static void events_print(const struct following *f, const json_t *event, const char *kind)
{
    struct client *c = f->c;
    char at[UNIT_TEXT_MAX], run[RUN_REF_MAX];
    const char *trace = json_get_str(event, "trace"), *other = trace ? trace : run_ref(run, event);
    int64_t at_ns = json_get_int(event, "at", wall_ns());
    _cleanup_(freep) char *at_text = listing_is_separated(c) ? xasprintf("%" PRId64, at_ns) : NULL;
    const char *cells[_CELL_MAX] = {
        [CELL_AT] = at_text ? at_text : format_time(at, at_ns),
        [CELL_KIND] = kind,
        [CELL_SESSION] = json_get_str(event, "session"),
        [CELL_SUBJECT] = *other ? other : NULL,
        [CELL_TEXT] = json_get_str(event, "text"),
    };

    /* The progress of a benchmark run, once a second, is for programs. */
    if (json_object_get(event, "sent"))
        return;
    for (size_t i = 0; i < f->n_shown; i++) {
        const char *cell = cells[f->shown[i]];
        if (listing_is_separated(c)) {
            separated_field(&c->out, c->format, i == 0, cell);
            continue;
        }
        _cleanup_(freep) char *clean = text_clean(cell ? cell : f->shown[i] == CELL_TEXT ? "" : "-", false);
        int pad = i + 1 < f->n_shown ? columns[f->shown[i]].width - (int)text_columns(clean) : 0;
        fprintf(c->out.file, "%s%s%*s", i > 0 ? "  " : "", clean, MAX(pad, 0), "");
    }
    if (listing_is_separated(c))
        separated_end(&c->out, c->format);
    else
        fputc('\n', c->out.file);
}

static void events_on_event(const struct sse_event *event, void *arg)
{
    const struct following *f = arg;
    struct client *c = f->c;
    char error[200];
    _cleanup_json_ data = json_parse(event->data, strlen(event->data), error);

    if (!data)
        return;
    if (c->json) {
        screen_json(&c->out, data, JSON_COMPACT);
        fputc('\n', c->out.file);
    } else {
        events_print(f, data, event->kind);
    }
    fflush(c->out.file);
}

static int events_run(struct client *c, const void *values, int n_words, char **words)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xstrdup("/v1/events");
    _cleanup_json_ version = NULL, *query = json_object();
    _cleanup_(freep) size_t *shown = NULL;
    struct following following = {.c = c};
    const char *keys[_CELL_MAX];
    bool was_lost = false;

    c->may_page = false;
    for (size_t i = 0; i < _CELL_MAX; i++)
        keys[i] = columns[i].key;
    int status = listing_select(c, keys, _CELL_MAX, &shown, &following.n_shown);
    if (status != EXIT_DONE)
        return status;
    following.shown = shown;
    options_to_json(OPTION_SET(events_options, values), query);
    url_add_members(&path, query);
    if (!connection_has_events(c->connection)) {
        return client_error(c, PROBLEM_UNSUPPORTED,
                            "Omit --bus, or follow the signals: busctl monitor org.profd1",
                            "events are not available over D-Bus");
    }
    /* A missing profd is an error; one that ends later is waited for. */
    status = client_get(c, "/v1/version", NULL, &version);
    if (status != EXIT_DONE)
        return status;
    _cleanup_(event_stream_freep) struct event_stream *stream =
        event_stream_new(c->connection, path, events_on_event, &following);
    for (size_t i = 0; i < following.n_shown && listing_is_separated(c) && !c->no_legend; i++)
        separated_field(&c->out, c->format, i == 0, columns[shown[i]].key);
    if (listing_is_separated(c) && !c->no_legend)
        separated_end(&c->out, c->format);
    fflush(c->out.file);
    for (;;) {
        if (event_stream_wait(stream, -1, mono_ns() + NS_PER_S, &p) < 0)
            return client_fail(c, &p);
        if (ferror(c->out.file))
            return EXIT_FAILED;
        bool is_lost = event_stream_lost_since(stream);
        if (is_lost != was_lost)
            client_note(c, is_lost ? "profd does not answer; reconnecting" : "reconnected to profd");
        was_lost = is_lost;
    }
}

const struct verb verb_events = {
    .name = "events",
    .summary = "Follow sessions, workers and traces as they change",
    .details = "Prints one line for each event until interrupted, and reconnects if profd restarts.",
    .words = "",
    VERB_OPTIONS(events_options, struct events_options),
    .has_listing = true,
    .run = events_run,
};
