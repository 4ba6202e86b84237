/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/runs/benchmark.h"
#include "client/verbs/verbs.h"
#include "client/views/follow.h"
#include "client/views/session.h"
#include <errno.h>

struct options {
    bool wait;
};

static const struct option_def options[] = {
    {"wait", 'w', NULL, OPTION_FLAG, offsetof(struct options, wait),
     "until its traces are collected, or what was sent has ended"},
};

/* The one session that is not over, into ref; says which there are where it is not one. Returns an exit
 * status. */
static int find_the_one(struct client *c, char *ref)
{
    _cleanup_json_ answer = NULL;
    _cleanup_(problem_done) struct problem p = {0};
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
    if (n == 0) {
        problem_set(&p, -ENOENT, PROBLEM_NOT_FOUND, "no session is running");
        problem_remedy(&p, "A run is stopped by its id, which profctl list-runs shows.");
        return client_fail(c, &p);
    }
    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "%zu sessions are running: which one?", n);
    int r = client_fail(c, &p);
    json_array_foreach(sessions, i, session)
        screen_printf(&c->err, "  profctl stop %s  (%s, %s)\n", json_get_str(session, "session"),
                      json_get_str(session, "state"),
                      json_get_str(session, "router") ? json_get_str(session, "router") : "workers");
    return r;
}

static int wait_for(struct client *c, const char *ref)
{
    _cleanup_json_ session = NULL;
    int status = follow_session(c, ref, &c->err, INTERRUPT_LEAVES, &session);

    if (status != EXIT_DONE)
        return status;
    if (c->json)
        client_print_json(c, session);
    else if (session_is_over(session))
        session_print_outcome(session, &c->out);
    return session_exit_status(session);
}

static int stop_run(struct client *c, const char *ref, bool wait)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xasprintf("/v1/runs/%s/stop", ref);
    _cleanup_json_ answer = NULL, *run = NULL;
    bool was_stopped;

    if (connection_call(c->connection, "POST", path, NULL, NULL, &answer, &p) < 0)
        return client_fail(c, &p);
    if (!wait) {
        client_note(c, "%s sends nothing more; profctl show %s has what it measured", ref, ref);
        return c->json ? client_print_json(c, answer) : EXIT_DONE;
    }
    int status = follow_run(c, ref, &c->err, INTERRUPT_LEAVES, &was_stopped, &run);
    return status == EXIT_DONE ? run_show_result(c, run) : status;
}

/* The profd that recorded it is gone. The next one takes it up, and with it the stops that are owed. */
static int need_profd_for(struct client *c, const char *ref)
{
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s", ref);
    _cleanup_json_ session = NULL;
    int status = client_get(c, path, NULL, &session);

    return status == EXIT_DONE && !session_is_over(session) ? client_need_user_profd(c) : status;
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ session = NULL;
    char ref[REF_TEXT_MAX];
    int status = EXIT_DONE;

    if (n_words > 0 && client_parse_ref(c, words[0], 's', "sr", ref) < 0)
        return EXIT_USAGE;
    if (n_words > 0 && ref[0] == 'r')
        return stop_run(c, ref, o->wait);
    if (n_words == 0)
        status = find_the_one(c, ref);
    if (status == EXIT_DONE && c->transient)
        status = need_profd_for(c, ref);
    if (status != EXIT_DONE)
        return status;
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s/stop", ref);
    if (connection_call(c->connection, "POST", path, NULL, NULL, &session, &p) < 0)
        return client_fail(c, &p);
    if (o->wait)
        return wait_for(c, ref);
    if (c->json)
        return client_print_json(c, session);
    client_note(c, "%s is %s; profctl status %s shows when its traces are there", ref,
                json_get_str(session, "state"), ref);
    return EXIT_DONE;
}

const struct verb verb_stop = {
    .name = "stop",
    .words = "[s7|r3]",
    .summary = "Stop a session or a benchmark run",
    .details = "With --wait the exit status is that of start --wait, or of bench.",
    .default_kind = 's',
    .max_words = 1,
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .needs_only_catalog = true,
    .run = run,
};
