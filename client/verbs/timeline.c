/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request, recorded: an ordinary session that has a prompt. profd sends the request; this waits until the
 * trace is there, and shows it.
 */
#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/traces/trace.h"
#include "client/transport/download.h"
#include "client/verbs/verbs.h"
#include "client/views/follow.h"
#include "client/views/session.h"
#include <errno.h>

struct options {
    const char *worker, *prompt, *model, *trace_dir, *output;
    int64_t steps;
    bool allow_uncollected;
};

#define AT(member) offsetof(struct options, member)

static const struct option_def options[] = {
    {"worker", 0, "URL", OPTION_TEXT, AT(worker), "the RTP-LLM server"},
    {"prompt", 0, "TEXT", OPTION_TEXT, AT(prompt), "what it is asked"},
    {"model", 0, "NAME", OPTION_TEXT, AT(model), "default: the first that the server has"},
    {"steps", 0, "N", OPTION_COUNT, AT(steps), "how many steps are recorded, of a token each; default 3"},
    {"trace-dir", 0, "DIR", OPTION_TEXT, AT(trace_dir),
     "where, on profd's host, the server writes its traces"},
    {"allow-uncollected", 0, NULL, OPTION_FLAG, AT(allow_uncollected),
     "Record even if the trace cannot be collected"},
    {"output", 'o', "FILE", OPTION_TEXT, AT(output), "also copy the trace there"},
};

static int make_request(const struct options *o, json_t *request, struct problem *p)
{
    if (!o->worker || !o->prompt) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "timeline needs --worker and --prompt");
        problem_remedy(p, "profctl timeline --worker http://127.0.0.1:8088 --prompt \"Hello, \"");
        return -EINVAL;
    }
    json_t *workers = json_array();
    json_array_append_new(workers, json_text(o->worker));
    json_object_set_new(request, "workers", workers);
    json_put_str(request, "prompt", o->prompt);
    json_put_str(request, "model", o->model);
    json_put_str(request, "trace_dir", o->trace_dir);
    if (o->steps != OPTION_ABSENT)
        json_put_int(request, "steps", o->steps);
    if (o->allow_uncollected)
        json_put_bool(request, "allow_uncollected", true);
    return 0;
}

static int show(struct client *c, const struct options *o, const json_t *trace)
{
    const char *id = json_get_str(trace, "trace"), *name = json_get_str(trace, "name");
    _cleanup_(problem_done) struct problem p = {0};
    char size[UNIT_TEXT_MAX], span[UNIT_TEXT_MAX];

    if (o->output && download_to_file(c, trace, o->output, &p) < 0)
        return client_fail(c, &p);
    if (c->json)
        return client_print_json(c, trace);
    _cleanup_(freep) char *clean = text_clean(name ? name : "-", false);
    _cleanup_(freep) char *events = text_count(json_get_int(trace, "events", 0), "event");
    fprintf(c->out.file, "%s  %s, %s, %s of %s\n", id, clean,
            format_size(size, json_get_int(trace, "size", 0)), events,
            format_duration(span, json_get_int(trace, "span_ns", 0)));
    trace_print_names(c, trace);
    fflush(c->out.file);
    if (o->output)
        client_note(c, "%s is in %s", id, o->output);
    client_note(c, "Next: profctl analyze %s", id);
    return EXIT_DONE;
}

/* What its one request left. */
static int show_trace_of(struct client *c, const struct options *o, const char *session)
{
    _cleanup_(freep) char *list = xasprintf("/v1/traces?session=%s", session);
    _cleanup_json_ answer = NULL, *trace = NULL;
    int status = traces_fetch(c, list, 1, &answer);

    if (status != EXIT_DONE)
        return status;
    const char *id = json_get_str(json_array_get(json_object_get(answer, "traces"), 0), "trace");
    if (!id)
        return EXIT_NOT_FOUND;
    _cleanup_(freep) char *path = xasprintf("/v1/traces/%s", id);
    status = client_get(c, path, NULL, &trace);
    return status == EXIT_DONE ? show(c, o, trace) : status;
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ request = json_object(), *begun = NULL, *session = NULL;

    if (make_request(o, request, &p) < 0)
        return client_fail(c, &p);
    int status = client_need_user_profd(c);
    if (status != EXIT_DONE)
        return status;
    client_hold_signals();
    if (connection_call(c->connection, "POST", "/v1/sessions", request, "sending the request", &begun, &p) <
        0)
        return client_fail(c, &p);
    const char *id = json_get_str(begun, "session");
    status = id ? follow_session(c, id, &c->err, INTERRUPT_STOPS, &session) : EXIT_FAILED;
    if (status != EXIT_DONE)
        return status;
    status = session_is_over(session) ? session_exit_status(session) : EXIT_FAILED;
    if (status == EXIT_DONE)
        return show_trace_of(c, o, id);
    session_print_outcome(session, &c->err);
    return status;
}

const struct verb verb_timeline = {
    .name = "timeline",
    .words = "",
    .summary = "Record one request and show its trace (RTP-LLM)",
    .details =
        "profd sends the request and collects the trace that the server writes of it. Exit status: 0 when\n"
        "it is there, 3 where it is not whole, 1 failed.",
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .run = run,
};
