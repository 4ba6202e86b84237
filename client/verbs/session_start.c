/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/session_start.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/runs/benchmark.h"
#include "client/views/follow.h"
#include "client/views/run.h"
#include "client/views/session.h"
#include <errno.h>

/* Its workers write no traces, they count their functions. */
static bool counts_functions(const json_t *session)
{
    const json_t *targets = json_object_get(session, "targets");
    size_t i;
    json_t *t;

    json_array_foreach(targets, i, t)
        if (!streq(json_get_str(t, "engine"), engine_name(ENGINE_NEMO_GYM)))
            return false;
    return json_array_size(targets) > 0;
}

/* What this will mean for those who are served meanwhile. */
static void note_beginning(struct client *c, const json_t *session)
{
    _cleanup_(freep) char *title = session_title(session);
    size_t n = json_array_size(json_object_get(session, "targets"));

    if (c->quiet)
        return;
    client_note(c, "%s", title);
    if (!json_get_bool(json_object_get(session, "options"), "stagger", false) && n > 1 &&
        !counts_functions(session))
        client_note(c,
                    "  %zu engines will not serve requests while they write their traces (--stagger stops "
                    "them one by one)",
                    n);
    session_print_remarks(session, &c->err);
}

/* The load that was sent meanwhile, NULL where there was none; it may last longer than what was recorded of
 * it. An exit status. */
static int get_run(struct client *c, const json_t *session, json_t **ret)
{
    char ref[RUN_REF_MAX];
    bool was_stopped;

    if (!*run_ref(ref, session))
        return EXIT_DONE;
    int status = run_get(c, ref, ret);
    if (status != EXIT_DONE || run_is_over(*ret))
        return status;
    json_decref(TAKE_PTR(*ret));
    client_note(c, "%s goes on", ref);
    return follow_run(c, ref, &c->err, INTERRUPT_STOPS, &was_stopped, ret);
}

/* Session and run are one thing to who asked for both. */
static int show_outcome(struct client *c, json_t *session)
{
    _cleanup_json_ run = NULL;
    int status = session_exit_status(session), of_run = get_run(c, session, &run);

    if (c->json && run)
        json_object_set(session, "measured", run);
    if (c->json)
        client_print_json(c, session);
    else
        session_print_outcome(session, &c->out);
    if (run && !c->json)
        of_run = run_show_result(c, run);
    else if (run)
        of_run = run_exit_status(run);
    fflush(c->out.file);
    return status == EXIT_DONE ? of_run : status;
}

static int wait_for(struct client *c, const char *id, char *ret_recorded)
{
    _cleanup_json_ session = NULL;
    int status = follow_session(c, id, &c->err, INTERRUPT_STOPS, &session);

    if (status != EXIT_DONE)
        return status;
    if (!session_is_over(session)) {
        if (session_state(session) >= STATE_STOPPING)
            client_note(c, "%s is stopping; profctl status %s shows when its traces are there", id, id);
        else
            client_note(c, "%s goes on in profd\n  profctl status %s shows it, profctl stop %s stops it", id,
                        id, id);
        return EXIT_FAILED;
    }
    status = show_outcome(c, session);
    bool has_traces = json_get_int(json_object_get(session, "counts"), "traces", 0) > 0;
    if (status != EXIT_FAILED && counts_functions(session))
        client_note(c, "Next: profctl functions --session %s", id);
    else if (ret_recorded && has_traces)
        snprintf(ret_recorded, REF_TEXT_MAX, "%s", id);
    else if (status != EXIT_FAILED)
        client_note(c, "Next: profctl analyze %s, profctl list-traces --session %s", id, id);
    return status;
}

int session_start(struct client *c, const char *source, const json_t *request, bool wait, char *ret_recorded)
{
    if (ret_recorded)
        *ret_recorded = '\0';
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ session = NULL;
    _cleanup_(freep) char *doing = xasprintf("finding the workers of %s", source);
    int r = connection_call(c->connection, "POST", "/v1/sessions", request, doing, &session, &p);
    if (r == -EINTR)
        problem_remedy(&p, "profctl status shows whether it had begun.");
    if (r < 0)
        return client_fail(c, &p);
    const char *id = json_get_str(session, "session");
    if (!id)
        return EXIT_FAILED;
    note_beginning(c, session);
    if (wait)
        return wait_for(c, id, ret_recorded);
    if (c->json)
        return client_print_json(c, session);
    screen_printf(&c->out, "%s\n", id);
    fflush(c->out.file);
    client_note(c, "Next: profctl status %s shows it, profctl stop %s stops it", id, id);
    return EXIT_DONE;
}
