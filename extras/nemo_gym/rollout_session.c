/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/rollout_session.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/cli/output.h"
#include "client/cli/screen.h"
#include "client/local/user_profd.h"
#include "client/views/follow.h"
#include "client/views/session.h"
#include "extras/nemo_gym/rollouts.h"
#include <errno.h>

#define LOOK_INTERVAL_NS (100 * NS_PER_MS)

static int get_workers(struct client *c, const struct source *source, json_t **ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xstrdup("/v1/workers");

    if (source_to_query(c, source, &path, &p) < 0)
        return client_fail(c, &p);
    return client_get(c, path, "finding the servers", ret);
}

static int start(struct client *c, const struct source *source, int64_t longest_ns,
                 char ret[static REF_TEXT_MAX])
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ request = json_object();
    _cleanup_json_ session = NULL;

    json_put_int(request, "duration_ns", longest_ns);
    if (source_to_json(c, source, request, &p) < 0 ||
        connection_call(c->connection, "POST", "/v1/sessions", request, "starting", &session, &p) < 0)
        return client_fail(c, &p);
    const char *id = json_get_str(session, "session");
    if (!id || strlen(id) >= REF_TEXT_MAX)
        return EXIT_FAILED;
    strcpy(ret, id);
    return EXIT_DONE;
}

/* Until it records, or is over. */
static int wait_until_it_records(struct client *c, const char *id, struct keys *keys)
{
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s", id);
    int key = KEY_NONE;

    while (key != KEY_END) {
        _cleanup_json_ session = NULL;
        int status = client_get(c, path, NULL, &session);
        if (status != EXIT_DONE || session_state(session) >= STATE_RECORDING)
            return status;
        key = keys_wait(keys, mono_ns() + LOOK_INTERVAL_NS);
    }
    return EXIT_DONE;
}

static int send_rollouts(struct client *c, const struct rollouts *r, const json_t *workers,
                         const struct rollout_options *o, int interrupt_fd)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(output_done) struct output out = {0};
    struct rollouts_outcome outcome = {0};

    if (o->output && output_open_as_is(o->output, &out, &p) < 0)
        return client_fail(c, &p);
    rollouts_send(r, workers, (size_t)o->at_once, o->output ? out.file : NULL, interrupt_fd, &outcome);
    client_note(c, "%zu of %zu rollouts done, %zu failed%s%s%s", outcome.done, json_array_size(r->rows),
                outcome.failed, outcome.interrupted ? ", interrupted" : "", outcome.failure ? ": " : "",
                outcome.failure ? outcome.failure : "");
    free(outcome.failure);
    if (o->output && output_keep(&out, &p) < 0)
        return client_fail(c, &p);
    return outcome.done == 0 ? EXIT_FAILED : outcome.failed || outcome.interrupted ? EXIT_PARTIAL : EXIT_DONE;
}

/* Also where nothing could be sent: what was begun is ended. */
static int stop(struct client *c, const char *id)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s/stop", id);
    _cleanup_json_ session = NULL;

    if (connection_call(c->connection, "POST", path, NULL, NULL, NULL, &p) < 0 &&
        p.kind != PROBLEM_CONFLICT && p.kind != PROBLEM_NOT_FOUND)
        return client_fail(c, &p);
    int status = follow_job(c, id, &c->err, INTERRUPT_LEAVES, NULL, &session);
    if (status != EXIT_DONE)
        return status;
    session_print_outcome(session, &c->err);
    return session_exit_status(session);
}

int rollout_session(struct client *c, const struct source *source, const struct rollout_options *o,
                    char ret[static REF_TEXT_MAX])
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(rollouts_done) struct rollouts rollouts = {0};
    _cleanup_json_ workers = NULL;
    struct keys keys;

    if (rollouts_read(o->file, o->agent, (size_t)o->limit, &rollouts, &p) < 0)
        return client_fail(c, &p);
    int status = client_need_user_profd(c);
    if (status == EXIT_DONE)
        status = get_workers(c, source, &workers);
    if (status == EXIT_DONE && rollouts_check(&rollouts, workers, &p) < 0)
        status = client_fail(c, &p);
    if (status == EXIT_DONE)
        status = start(c, source, o->longest_ns, ret);
    if (status != EXIT_DONE)
        return status;
    keys_open(&keys);
    status = wait_until_it_records(c, ret, &keys);
    if (status == EXIT_DONE)
        status = send_rollouts(c, &rollouts, workers, o, keys.signal_fd);
    keys_close(&keys);
    int stopped = stop(c, ret);
    return stopped != EXIT_DONE ? stopped : status;
}
