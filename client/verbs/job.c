/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/job.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/runs/benchmark.h"
#include "client/verbs/extras.h"
#include "client/views/follow.h"
#include "client/views/listing.h"
#include "client/views/run.h"
#include "client/views/session.h"
#include <errno.h>

/* Differences between sessions and benchmark runs. */
static const struct job_type {
    const char *path, *show, *list; /* the verbs that show one, and all */
    bool (*is_over)(const json_t *job);
} job_session = {"/v1/sessions", "status", "list-sessions", session_is_over},
  job_run = {"/v1/runs", "show", "list-runs", run_is_over};

static const struct job_type *job_type(const char *ref)
{
    return ref[0] == 'r' ? &job_run : &job_session;
}

int job_list_print(struct client *c, const struct job_list *list)
{
    _cleanup_(freep) char *path = xstrdup(list->path);
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ query = json_object(), *answer = NULL;
    size_t i;
    json_t *job;

    options_to_json(list->options, query);
    url_add_members(&path, query);
    int status = json_table_new(c, list->columns, list->n_columns, &table);
    if (status == EXIT_DONE)
        status = client_get(c, path, NULL, &answer);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, answer);
    const json_t *jobs = json_object_get(answer, list->member);
    json_array_foreach(jobs, i, job)
        json_table_add(table, list->columns, job);
    listing_print(c, table);
    if (json_array_size(jobs) == 0)
        client_note(c, "%s", list->empty);
    return EXIT_DONE;
}

/* -- Creating ----------------------------------------------------------------------------------------- */

int job_create(struct client *c, char kind, const char *source, const json_t *request, char *ref,
               json_t **ret)
{
    const struct job_type *k = job_type(&kind);
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ answer = NULL;
    _cleanup_(freep) char *doing = xasprintf("finding the workers of %s", source);
    int r = connection_call(c->connection, "POST", k->path, request, doing, &answer, &p);

    if (r == -EINTR)
        problem_remedy(&p, "profctl %s shows whether it was created.", k->list);
    if (r < 0)
        return client_fail(c, &p);
    const char *id = json_get_str(answer, "session");
    if (k == &job_run)
        run_ref(ref, answer);
    else
        snprintf(ref, REF_TEXT_MAX, "%s", id ? id : "");
    if (!*ref)
        return client_error(c, PROBLEM_UPSTREAM, "Check that profd and profctl are of the same version.",
                            "the response of profd at %s contains no id", connection_name(c->connection));
    *ret = TAKE_PTR(answer);
    return EXIT_DONE;
}

int job_print_created(struct client *c, const char *ref, const json_t *answer)
{
    if (c->json)
        return client_print_json(c, answer);
    screen_printf(&c->out, "%s\n", ref);
    fflush(c->out.file);
    client_note(c, "Next: profctl %s %s shows it, profctl stop %s stops it", job_type(ref)->show, ref, ref);
    return EXIT_DONE;
}

/* -- Waiting ------------------------------------------------------------------------------------------ */

/* A session in this state only collects its traces, or was cancelled in the queue. */
static void job_note_stopping(struct client *c, const char *ref, const char *state)
{
    if (streq(state, "cancelled"))
        client_note(c, "%s is cancelled: it had not started", ref);
    else
        client_note(c, "%s is %s; profctl status %s shows when its traces are collected", ref, state, ref);
}

int job_wait(struct client *c, const char *ref, struct job_end *ret)
{
    const struct job_type *k = job_type(ref);

    *ret = (struct job_end){0};
    int status = follow_job(c, ref, &c->err, INTERRUPT_STOPS, &ret->was_stopped, &ret->job);
    if (status != EXIT_DONE)
        return status;
    ret->was_left = !k->is_over(ret->job);
    if (!ret->was_left)
        return EXIT_DONE;
    if (k == &job_session && session_state(ret->job) >= STATE_STOPPING)
        job_note_stopping(c, ref, json_get_str(ret->job, "state"));
    else
        client_note(c, "%s continues in profd\n  profctl %s %s shows it, profctl stop %s stops it", ref,
                    k->show, ref, ref);
    return EXIT_DONE;
}

/* Prints how it ended, or its JSON. Returns the exit status of having waited for it. */
static int job_show_result(struct client *c, const char *ref, const json_t *job)
{
    if (job_type(ref) == &job_run)
        return run_show_result(c, job);
    if (c->json)
        client_print_json(c, job);
    else if (session_is_over(job))
        session_print_outcome(job, &c->out);
    return session_exit_status(job);
}

/* Processes that are recorded on demand are not stopped, and keep running while they write. */
static size_t session_count_servers(const json_t *session)
{
    size_t n = 0, i;
    json_t *t;

    json_array_foreach(json_object_get(session, "targets"), i, t)
        n += !streq(json_get_str(t, "engine"), "pytorch");
    return n;
}

/* Processes on demand have no stop: they go on, and the remarks say until when. */
/* A session that another host coordinates: what was stopped is the part of this one. */
static void session_note_coordinator(struct client *c, const char *ref, const json_t *session)
{
    const char *host = json_get_str(session, "coordinator_name"), *uuid = json_get_str(session, "uuid");

    if (json_get_str(session, "coordinator") && uuid)
        client_note(c,
                    "%s is this host's part of a session that %s coordinates: other hosts record on\n"
                    "  On %s: profctl stop %s stops all of it",
                    ref, host ? host : "another host", host ? host : "that host", uuid);
}

static void session_note_stop(struct client *c, const char *ref, const json_t *session)
{
    job_note_stopping(c, ref, json_get_str(session, "state"));
    session_note_coordinator(c, ref, session);
    if (!c->quiet && session_count_servers(session) < json_array_size(json_object_get(session, "targets")))
        session_print_remarks(session, &c->err);
}

int job_stop(struct client *c, const char *ref, bool wait)
{
    _cleanup_(freep) char *path = ref_path(ref), *stop_path = xasprintf("%s/stop", path);
    _cleanup_json_ answer = NULL, *job = NULL;
    int status = client_call(c, "POST", stop_path, NULL, NULL, &answer);

    if (status == EXIT_DONE && wait) {
        status = follow_job(c, ref, &c->err, INTERRUPT_LEAVES, NULL, &job);
        return status == EXIT_DONE ? job_show_result(c, ref, job) : status;
    }
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        client_print_json(c, answer);
    else if (job_type(ref) == &job_session)
        session_note_stop(c, ref, answer);
    else
        client_note(c, "%s sends no more requests; profctl show %s shows the result", ref, ref);
    return EXIT_DONE;
}

/* -- Benchmark runs ----------------------------------------------------------------------------------- */

int run_create(struct client *c, const struct source *source, const json_t *request, char *ref, json_t **ret)
{
    _cleanup_(freep) char *name = source_name(source),
                          *load = run_load_text(json_object_get(request, "workload"));
    int status = job_create(c, 'r', name, request, ref, ret);

    if (status == EXIT_DONE)
        client_note(c, "Run %s on %s%s%s", ref, name, *load ? ": " : "", load);
    return status;
}

int run_measure(struct client *c, const struct source *source, const json_t *request, struct job_end *ret)
{
    _cleanup_json_ answer = NULL;
    char ref[REF_TEXT_MAX];

    *ret = (struct job_end){0};
    int status = run_create(c, source, request, ref, &answer);
    return status == EXIT_DONE ? job_wait(c, ref, ret) : status;
}

/* -- Sessions ----------------------------------------------------------------------------------------- */

/* What shows a session whose workers are all of an engine that writes no traces; NULL: it has traces. */
static const struct extra_session *session_without_traces(const json_t *session)
{
    const json_t *targets = json_object_get(session, "targets");

    for (const struct extra_session *e = extra_sessions; e->engine; e++) {
        size_t i;
        json_t *t;
        json_array_foreach(targets, i, t)
            if (!streq(json_get_str(t, "engine"), e->engine))
                break;
        if (i > 0 && i == json_array_size(targets))
            return e;
    }
    return NULL;
}

/* Also what the recording means for users of the workers. */
static void session_note_start(struct client *c, const json_t *session)
{
    _cleanup_(freep) char *title = session_title(session);
    size_t n = session_count_servers(session);

    if (c->quiet)
        return;
    client_note(c, "%s", title);
    if (!json_get_bool(json_object_get(session, "options"), "stagger", false) && n > 1 &&
        !session_without_traces(session))
        client_note(c,
                    "  %zu engines will not serve requests while they write their traces (--stagger stops "
                    "them one by one)",
                    n);
    session_print_remarks(session, &c->err);
}

/* The load may last longer than what is recorded of it. Prints both, as one JSON object with --json. */
static int session_show_end(struct client *c, json_t *session)
{
    char run[RUN_REF_MAX];
    struct job_end load = {0};
    int status = session_exit_status(session), load_status = EXIT_DONE;

    if (*run_ref(run, session))
        load_status = client_get_ref(c, run, &load.job);
    if (load.job && !run_is_over(load.job)) {
        json_decref(load.job);
        client_note(c, "%s goes on", run);
        load_status = job_wait(c, run, &load);
    }
    if (c->json && load.job)
        json_object_set(session, "measured", load.job);
    if (c->json)
        client_print_json(c, session);
    else
        session_print_outcome(session, &c->out);
    if (load.job)
        load_status = c->json ? run_exit_status(load.job) : run_show_result(c, load.job);
    fflush(c->out.file);
    json_decref(load.job);
    return status == EXIT_DONE ? load_status : status;
}

int session_start(struct client *c, const char *source, const json_t *request, bool wait, char *ret_recorded)
{
    char ref[REF_TEXT_MAX] = "";
    _cleanup_json_ answer = NULL;
    struct job_end end = {0};

    if (ret_recorded)
        *ret_recorded = '\0';
    int status = job_create(c, 's', source, request, ref, &answer);
    if (status != EXIT_DONE)
        return status;
    session_note_start(c, answer);
    if (!wait)
        return job_print_created(c, ref, answer);
    status = job_wait(c, ref, &end);
    if (status == EXIT_DONE)
        status = end.was_left ? EXIT_FAILED : session_show_end(c, end.job);
    if (end.job && !end.was_left) {
        bool has_traces = json_get_int(json_object_get(end.job, "counts"), "traces", 0) > 0;
        const struct extra_session *e = session_without_traces(end.job);
        if (status != EXIT_FAILED && e)
            client_note(c, "Next: %s %s", e->next, ref);
        else if (ret_recorded && has_traces)
            snprintf(ret_recorded, REF_TEXT_MAX, "%s", ref);
        else if (status != EXIT_FAILED && has_traces)
            client_note(c, "Next: profctl analyze %s, profctl list-traces --session %s", ref, ref);
    }
    json_decref(end.job);
    return status;
}
