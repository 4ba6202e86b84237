/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/door/event_stream.h"
#include "client/text/run.h"
#include "client/text/text.h"
#include "client/verbs.h"
#include <errno.h>

struct options {
    const char *session;
    int64_t after;
};

static const struct option_def options[] = {
    {"session", 's', "ID", OPTION_TEXT, offsetof(struct options, session), "only what happens to a session"},
    {"after", 0, "N", OPTION_COUNT, offsetof(struct options, after), "begin behind the event of this number"},
};

/* "2026-11-20 14:02:11  session-state  s7  recording" */
static void print_event(struct client *c, const json_t *event, const char *kind)
{
    char at[UNIT_TEXT_MAX];
    char run[RUN_REF_MAX];
    const char *session = json_get_str(event, "session"), *trace = json_get_str(event, "trace");
    const char *text = json_get_str(event, "text");
    const char *other = trace ? trace : run_ref(run, event);

    /* How a run stands is said every second: that is for programs. */
    if (json_object_get(event, "sent"))
        return;
    _cleanup_(freep) char *line =
        xasprintf("%s  %-17s  %s%s%s  %s", format_time(at, json_get_int(event, "at", wall_ns())), kind,
                  session  ? session
                  : *other ? ""
                           : "-",
                  session && *other ? " " : "", other, text ? text : "");
    _cleanup_(freep) char *clean = text_clean(line, false);
    fprintf(c->out.file, "%s\n", clean);
}

static void on_event(const struct sse_event *event, void *arg)
{
    struct client *c = arg;
    char error[200];
    _cleanup_json_ data = json_parse(event->data, strlen(event->data), error);

    if (!data)
        return;
    if (c->json) {
        json_dumpf(data, c->out.file, JSON_COMPACT | (c->out.is_terminal ? JSON_ENSURE_ASCII : 0));
        fputc('\n', c->out.file);
    } else {
        print_event(c, data, event->kind);
    }
    fflush(c->out.file);
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xstrdup("/v1/events");
    _cleanup_json_ version = NULL;
    char session[REF_TEXT_MAX];
    bool was_lost = false;

    if (o->session && verb_ref(c, o->session, 's', "s", session) < 0)
        return EXIT_USAGE;
    url_add(&path, "session", o->session ? session : NULL);
    if (o->after != OPTION_ABSENT)
        url_add_int(&path, "after", o->after);
    if (!door_has_events(c->door)) {
        problem_set(&p, -EOPNOTSUPP, PROBLEM_UNSUPPORTED, "events are not offered on D-Bus in this form");
        problem_remedy(&p, "Leave --bus out; or follow its signals: busctl monitor org.profd1");
        return client_fail(c, &p);
    }
    /* A profd that is not there is an error; one that goes away later is waited for. */
    int status = client_get(c, "/v1/version", NULL, &version);
    if (status != EXIT_DONE)
        return status;
    _cleanup_(event_stream_freep) struct event_stream *stream = event_stream_new(c->door, path, on_event, c);
    for (;;) {
        if (event_stream_wait(stream, -1, mono_ns() + NS_PER_S, &p) < 0)
            return client_fail(c, &p);
        if (ferror(c->out.file))
            return EXIT_FAILED;
        bool is_lost = event_stream_lost_since(stream);
        if (is_lost != was_lost)
            client_say(c, is_lost ? "profd does not answer; waiting for it" : "profd is back");
        was_lost = is_lost;
    }
}

const struct verb verb_events = {
    .name = "events",
    .words = "",
    .summary = "Follow what happens: sessions, workers, traces",
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .run = run,
};
