/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start records workers in a session, with a load if asked; timeline records one request to
 * an RTP-LLM server: a session that has a prompt, which profd sends.
 */
#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/runs/workload.h"
#include "client/traces/trace.h"
#include "client/transport/download.h"
#include "client/verbs/extras.h"
#include "client/verbs/job.h"
#include "client/views/listing.h"
#include "client/views/session.h"
#include <errno.h>

struct start_options {
    struct source source;
    int64_t steps, duration, start_at, start_step, count, when_running, timeout;
    const char *activities, *role, *workload, *through;
    struct option_list labels;
    bool allow_uncollected, with_stack, record_shapes, by_stage, one_per_role, stagger, include_unhealthy,
        require_all, queue, wait, detach, analyze;
};

#define AT(member) offsetof(struct start_options, member)

/* clang-format off */
static const struct option_def start_options[] = {
    SOURCE_OPTIONS(struct start_options),
    PROCESS_OPTIONS(struct start_options),
    SELECTION_OPTIONS(struct start_options),
    {"one-per-role", 0, NULL, OPTION_FLAG, AT(one_per_role), "Only the first worker of each role", "one_per_role"},
    {"include-unhealthy", 0, NULL, OPTION_FLAG, AT(include_unhealthy), "Include workers that the router reports as unhealthy", "include_unhealthy"},
    {"require-all", 0, NULL, OPTION_FLAG, AT(require_all), "Record all workers or none: roll back if a start fails", "require_all"},
    OPTION_GROUP("Recording"),
    {"duration", 0, "DURATION", OPTION_DURATION, AT(duration), "Recording time: 500ms, 1min (default: 5s)", "duration_ns"},
    {"steps", 0, "N", OPTION_COUNT, AT(steps), "Number of engine steps to record instead of a time; approximate for vLLM", "steps"},
    {"with-stack", 0, NULL, OPTION_FLAG, AT(with_stack), "Record Python stacks; traces grow tenfold", "with_stack"},
    {"record-shapes", 0, NULL, OPTION_FLAG, AT(record_shapes), "Record the shapes of operands", "record_shapes"},
    {"activities", 0, "LIST", OPTION_TEXT, AT(activities), "Activities to record: cpu, cuda, mem, cuda-profiler, separated by commas"},
    {"by-stage", 0, NULL, OPTION_FLAG, AT(by_stage), "Record prefill and decode separately (SGLang, with --steps)", "by_stage"},
    {"start-at", 0, "TIME", OPTION_TIME, AT(start_at), "Start at this time: +10s, 14:02, \"2026-11-20 14:02:11\"", "start_at"},
    {"start-step", 0, "N", OPTION_COUNT, AT(start_step), "Start at this engine step, counted from the load with --workload (SGLang, RTP-LLM)", "start_step"},
    {"when-running", 0, "N", OPTION_COUNT, AT(when_running), "Start when each worker has at least N requests running", "when_running"},
    {"timeout", 0, "DURATION", OPTION_DURATION, AT(timeout), "Maximum wait for --when-running (default: 5min)", "when_timeout_ns"},
    {"stagger", 0, NULL, OPTION_FLAG, AT(stagger), "Stop workers one after another, so that the fleet keeps serving", "stagger"},
    {"queue", 0, NULL, OPTION_FLAG, AT(queue), "Wait while another session holds a worker", "queue"},
    {"allow-uncollected", 0, NULL, OPTION_FLAG, AT(allow_uncollected), "Record even if no trace can be collected", "allow_uncollected"},
    LABEL_OPTION(struct start_options, "session"),
    OPTION_GROUP("Load"),
    {"workload", 0, "FILE", OPTION_TEXT, AT(workload), "Workload to send while recording, YAML or JSON, as profctl bench takes it"},
    THROUGH_OPTION(struct start_options),
    OPTION_GROUP("Output"),
    {"wait", 'w', NULL, OPTION_FLAG, AT(wait), "Show progress until the session ends; Ctrl-C stops it, a second Ctrl-C leaves it running"},
    {"analyze", 0, NULL, OPTION_FLAG, AT(analyze), "Wait, then print what profctl analyze prints"},
    {"detach", 'd', NULL, OPTION_FLAG, AT(detach), "Print the session id and do not wait (the default)"},
};

/* clang-format on */

static void start_add_activities(json_t *request, const char *list)
{
    json_t *activities = json_array();
    for (const char *p = list; p;) {
        size_t n = strcspn(p, ",");
        _cleanup_(freep) char *word = xstrndup(p, n);
        json_array_append_new(activities, json_text(word));
        p = p[n] ? p + n + 1 : NULL;
    }
    json_object_set_new(request, "activities", activities);
}

static int start_add_workload(const struct start_options *o, json_t *request, struct problem *p)
{
    json_t *workload = NULL;

    if (!o->workload)
        return o->through ? problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--through needs --workload") : 0;
    int r = through_check(o->through, p);
    if (r == 0)
        r = workload_read(o->workload, &workload, p);
    if (r < 0)
        return r;
    json_object_set_new(request, "workload", workload);
    if (o->through)
        json_object_set_new(request, "load", json_pack("{s:s}", "through", o->through));
    return 0;
}

static int start_make_request(struct client *c, const struct start_options *o, json_t *request,
                              struct problem *p)
{
    if ((o->wait || o->analyze) && o->detach)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--%s and --detach exclude each other",
                           o->wait ? "wait" : "analyze");
    if (o->timeout != OPTION_ABSENT && o->when_running == OPTION_ABSENT)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--timeout needs --when-running");
    options_to_json(OPTION_SET(start_options, o), request);
    if (o->activities)
        start_add_activities(request, o->activities);
    int r = start_add_workload(o, request, p);
    if (r == 0)
        r = labels_to_json(&o->labels, request, p);
    return r < 0 ? r : source_to_json(c, &o->source, request, p);
}

int start_read_choice(const void *start_values, struct start_choice *ret, struct problem *p)
{
    const struct start_options *o = start_values;
    _cleanup_json_ request = json_object(), *labels = json_object();

    options_to_json(OPTION_SET(start_options, o), request);
    json_object_del(request, "allow_uncollected");
    *ret = (struct start_choice){
        .source = &o->source,
        .allow_uncollected = o->allow_uncollected,
        .chooses_recording =
            json_object_size(request) > 0 || o->activities || o->workload || o->detach || o->analyze,
    };
    int r = labels_to_json(&o->labels, labels, p);
    ret->labels = json_incref(json_object_get(labels, "labels"));
    return r;
}

static int start_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct start_options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ request = json_object();

    if (start_make_request(c, o, request, &p) < 0)
        return client_fail(c, &p);
    int status = process_options_wanted(&o->source.processes) ? client_need_kineto_profd(c)
                                                              : client_need_user_profd(c);
    if (status != EXIT_DONE)
        return status;
    bool wait = o->wait || o->analyze;
    if (wait)
        client_hold_signals();
    _cleanup_(freep) char *name = source_name(&o->source);
    char recorded[REF_TEXT_MAX], *of_session[] = {recorded, NULL};
    status = session_start(c, name, request, wait, o->analyze ? recorded : NULL);
    if (!o->analyze || !*recorded)
        return status;
    if (!c->json)
        fputc('\n', c->out.file);
    int analyzed = verb_call(c, &verb_analyze, 1, of_session);
    return status == EXIT_DONE ? analyzed : status;
}

const struct verb verb_start = {
    .name = "start",
    .words = "",
    .summary = "Record all workers of a fleet at the same time",
    .details =
        "Prints the session id, or with --wait the outcome; the exit status is then 0 complete, 3 partial, "
        "1 failed or cancelled. If no profd answers, starts one of your own.",
    VERB_OPTIONS(start_options, struct start_options),
    .run = start_run,
};

/* -- timeline --------------------------------------------------------------------------------------------- */

struct timeline_options {
    const char *worker, *prompt, *model, *trace_dir, *output;
    int64_t steps;
    bool allow_uncollected;
};

#undef AT
#define AT(member) offsetof(struct timeline_options, member)

/* clang-format off */
static const struct option_def timeline_options[] = {
    OPTION_GROUP("Workers"),
    {"worker", 0, "URL", OPTION_TEXT, AT(worker), "RTP-LLM server (required)"},
    {"trace-dir", 0, "DIR", OPTION_TEXT, AT(trace_dir), "Directory on profd's host to which the server writes traces", "trace_dir"},
    OPTION_GROUP("Load"),
    {"prompt", 0, "TEXT", OPTION_TEXT, AT(prompt), "Prompt to send (required)", "prompt"},
    {"model", 0, "NAME", OPTION_TEXT, AT(model), "Model to request (default: the server's first)", "model"},
    OPTION_GROUP("Recording"),
    {"steps", 0, "N", OPTION_COUNT, AT(steps), "Number of steps to record, one token each (default: 3)", "steps"},
    {"allow-uncollected", 0, NULL, OPTION_FLAG, AT(allow_uncollected), "Record even if the trace cannot be collected", "allow_uncollected"},
    OPTION_GROUP("Output"),
    {"output", 'o', "FILE", OPTION_TEXT, AT(output), "Copy the trace to this file"},
};
/* clang-format on */

static int timeline_request(const struct timeline_options *o, json_t *request, struct problem *p)
{
    if (!o->worker || !o->prompt) {
        problem_remedy(p, "profctl timeline --worker http://127.0.0.1:8088 --prompt \"Hello, \"");
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "timeline needs --worker and --prompt");
    }
    json_object_set_new(request, "workers", json_pack("[o]", json_text(o->worker)));
    options_to_json(OPTION_SET(timeline_options, o), request);
    return 0;
}

static int timeline_print(struct client *c, const struct timeline_options *o, const json_t *trace)
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
        client_note(c, "%s saved as %s", id, o->output);
    client_note(c, "Next: profctl analyze %s", id);
    return EXIT_DONE;
}

static int timeline_print_traces(struct client *c, const struct timeline_options *o, const char *session)
{
    _cleanup_(freep) char *list = xasprintf("/v1/traces?session=%s", session);
    _cleanup_json_ answer = NULL, *trace = NULL;
    int status = traces_fetch(c, list, 1, &answer);

    if (status != EXIT_DONE)
        return status;
    const char *id = json_get_str(json_array_get(json_object_get(answer, "traces"), 0), "trace");
    if (!id)
        return EXIT_NOT_FOUND;
    status = client_get_ref(c, id, &trace);
    return status == EXIT_DONE ? timeline_print(c, o, trace) : status;
}

static int timeline_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct timeline_options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ request = json_object(), *created = NULL;
    struct job_end end = {0};
    char ref[REF_TEXT_MAX];

    if (timeline_request(o, request, &p) < 0)
        return client_fail(c, &p);
    int status = client_need_user_profd(c);
    if (status != EXIT_DONE)
        return status;
    client_hold_signals();
    status = job_create(c, 's', o->worker, request, ref, &created);
    if (status == EXIT_DONE)
        status = job_wait(c, ref, &end);
    if (status == EXIT_DONE)
        status = end.was_left ? EXIT_FAILED : session_exit_status(end.job);
    if (status == EXIT_DONE)
        status = timeline_print_traces(c, o, ref);
    else if (end.job)
        session_print_outcome(end.job, &c->err);
    json_decref(end.job);
    return status;
}

const struct verb verb_timeline = {
    .name = "timeline",
    .words = "",
    .summary = "Record one request and show its trace (RTP-LLM)",
    .details =
        "profd sends the request and collects the trace that the server writes for it. The exit status is 0 "
        "if the trace was collected, 3 if it is incomplete, 1 if recording failed.",
    VERB_OPTIONS(timeline_options, struct timeline_options),
    .run = timeline_run,
};
