/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: list, start, show, stop, remove, pin. */
#include "base/alloc.h"
#include "daemon/api/handler.h"
#include "daemon/catalog/records.h"
#include <errno.h>
#include <inttypes.h>

/* Replies with the session as catalog and memory know it, and with the remarks of its start. */
static void reply_session(struct api *api, struct http_request *r, int status, int64_t id,
                          const json_t *remarks, const json_t *skipped)
{
    json_t *session;

    int err = catalog_session_json(api->modules.catalog, id, true, &session);
    if (reply_failure(api, r, err, 's', id, "read the session"))
        return;
    sessions_describe(api->modules.sessions, id, session);
    if (remarks)
        json_object_set(session, "remarks", (json_t *)remarks);
    if (skipped)
        json_object_set(session, "skipped", (json_t *)skipped);
    http_reply_json(r, status, session);
}

void list_sessions(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(problem_done) struct problem p = {0};
    int64_t limit = LIST_LIMIT_DEFAULT, before = RECORD_NONE;
    const char *state = http_query_get(r, "state");
    json_t *sessions;

    if (query_number(r, "limit", 1, LIST_LIMIT_MAX, &limit, &p) < 0 ||
        query_ref(r, "before", 's', &before, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    int err = sessions_list_json(api->modules.sessions, limit, before, state, &sessions);
    if (err == -EINVAL)
        reply_refused(r, PROBLEM_BAD_REQUEST,
                      "Use requested, starting, recording, stopping, collecting, complete, partial, failed, "
                      "cancelled, or active for all sessions that are not over.",
                      "unknown session state '%s'", state);
    else if (err < 0)
        reply_error(api, r, err, "list the sessions");
    else
        reply_list(r, "sessions", sessions);
}

/* -- Start -------------------------------------------------------------------------------------------- */

struct session_start {
    struct api *api;
    struct http_request *request;
    struct job_creation *creation;
};

static void session_start_on_close(struct http_request *r, void *arg)
{
    struct session_start *s = arg;
    job_creation_cancel(s->creation);
    free(s);
}

static void session_start_on_done(const struct job_created *created, void *arg)
{
    struct session_start s = *(struct session_start *)arg;

    free(arg);
    http_on_close(s.request, NULL, NULL);
    if (created->id == 0)
        reply_problem(s.request, 0, created->problem, "remarks", created->remarks);
    else
        reply_session(s.api, s.request, 201, created->id, created->remarks, created->skipped);
}

void start_session(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(job_request_done) struct job_request request = {0};
    _cleanup_(freep) char *actor = request_actor(r);
    _cleanup_json_ options = NULL;

    int err = body_object(r, &options, &p);
    if (err == 0)
        err = session_request_parse(options, &request, &p);
    if (err == 0)
        err = source_complete(api, &request.source, &p);
    if (err < 0) {
        http_reply_problem(r, &p);
        return;
    }
    struct session_start *s = xcalloc(1, sizeof(*s));
    *s = (struct session_start){.api = api, .request = r};
    s->creation =
        job_create(sessions_jobs(api->modules.sessions), &request, options, actor, session_start_on_done, s);
    http_on_close(r, session_start_on_close, s);
}

/* -- One session -------------------------------------------------------------------------------------- */

void get_session(struct api *api, struct http_request *r, int64_t id)
{
    reply_session(api, r, 200, id, NULL, NULL);
}

void stop_session(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(session_record_done) struct session_record record;
    _cleanup_(freep) char *actor = request_actor(r);

    session_record_init(&record);
    if (sessions_stop(api->modules.sessions, id, actor) == 0) {
        reply_session(api, r, 200, id, NULL, NULL);
        return;
    }
    int err = catalog_get_session(api->modules.catalog, id, &record);
    if (!reply_failure(api, r, err, 's', id, "read the session"))
        reply_refused(r, PROBLEM_CONFLICT, NULL, "session s%" PRId64 " is over: it is %s", id,
                      state_name(sessions_state(api->modules.sessions, id, record.state)));
}

/* -- Remove ------------------------------------------------------------------------------------------- */

static void session_on_removed(const struct store_removed *removed, void *arg)
{
    struct later_reply m;

    if (!later_reply_end(arg, &m) ||
        reply_failure(m.api, m.request, removed->err, 's', m.id, "remove the session"))
        return;
    _cleanup_(freep) char *name = xasprintf("s%" PRId64, m.id);
    json_t *body = json_object();
    json_put_str(body, "removed", name);
    json_put_int(body, "freed", removed->bytes);
    http_reply_json(m.request, 200, body);
}

void remove_session(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(session_record_done) struct session_record record;
    _cleanup_(freep) char *actor = request_actor(r);

    session_record_init(&record);
    int err = catalog_get_session(api->modules.catalog, id, &record);
    if (reply_failure(api, r, err, 's', id, "read the session"))
        return;
    enum state state = sessions_state(api->modules.sessions, id, record.state);
    if (!state_is_final(state)) {
        _cleanup_(freep) char *remedy = xasprintf("Stop it with profctl stop s%" PRId64 ".", id);
        reply_refused(r, PROBLEM_CONFLICT, remedy, "session s%" PRId64 " is not over: it is %s", id,
                      state_name(state));
    } else if (sessions_find(api->modules.sessions, id)) {
        reply_refused(r, PROBLEM_CONFLICT,
                      "Try again; if the catalog's file system is full, free space there first.",
                      "the end of session s%" PRId64 " is not in the catalog yet", id);
    } else {
        store_remove_session(api->modules.store, id, actor, session_on_removed, later_reply_new(api, r, id));
    }
}

/* -- Pins --------------------------------------------------------------------------------------------- */

void set_session_pin(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(freep) char *actor = request_actor(r);
    bool pinned = http_method(r) == HTTP_PUT;

    int err = catalog_pin_session(api->modules.catalog, id, pinned);
    if (err == 0)
        err = catalog_add_event(api->modules.catalog, pinned ? "session-pinned" : "session-unpinned", actor,
                                id, RECORD_NONE, RECORD_NONE, "s%" PRId64, id);
    if (err == 0)
        err = catalog_commit(api->modules.catalog, false);
    if (!reply_failure(api, r, err, 's', id, "pin the session"))
        reply_session(api, r, 200, id, NULL, NULL);
}
