/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: list, start, show, stop, remove, pin. */
#include "base/alloc.h"
#include "daemon/api/api_internal.h"
#include "daemon/catalog/records.h"
#include <errno.h>
#include <inttypes.h>

/* Replies with the session as catalog and memory know it, and with what was said at its start. */
static void reply_session(struct api *api, struct http_request *r, int status, int64_t id,
                          const json_t *remarks, const json_t *skipped)
{
    json_t *session;

    int err = catalog_session_json(api->modules.catalog, id, true, &session);
    if (err == -ENOENT) {
        reply_missing(r, 's', id);
        return;
    }
    if (err < 0) {
        reply_error(api, r, err, "read the session");
        return;
    }
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
    if (err == -EINVAL) {
        reply_refused(r, PROBLEM_BAD_REQUEST,
                      "It is one of requested, starting, recording, stopping, collecting, complete, partial, "
                      "failed, cancelled; active is all that are not over.",
                      "'%s' is no state of a session", state);
        return;
    }
    if (err < 0) {
        reply_error(api, r, err, "list the sessions");
        return;
    }
    json_t *body = json_object();
    json_object_set_new(body, "sessions", sessions);
    http_reply_json(r, 200, body);
}

/* -- Start -------------------------------------------------------------------------------------------- */

struct starting {
    struct api *api;
    struct http_request *request;
    struct session_order *order;
};

static void on_client_left(struct http_request *r, void *arg)
{
    struct starting *s = arg;
    session_order_cancel(s->order);
    free(s);
}

static void on_started(const struct session_started *started, void *arg)
{
    struct starting s = *(struct starting *)arg;

    free(arg);
    http_on_close(s.request, NULL, NULL);
    if (started->session_id == 0)
        reply_problem(s.request, 0, started->problem, "remarks", started->remarks);
    else
        reply_session(s.api, s.request, 201, started->session_id, started->remarks, started->skipped);
}

void start_session(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(start_request_done) struct start_request request = {0};
    _cleanup_(freep) char *actor = request_actor(r);
    _cleanup_json_ options = NULL;

    int err = body_object(r, &options, &p);
    if (err == 0)
        err = start_request_parse(options, &request, &p);
    if (err == 0)
        err = source_complete(api, &request.source, &p);
    if (err < 0) {
        http_reply_problem(r, &p);
        return;
    }
    struct starting *s = xcalloc(1, sizeof(*s));
    *s = (struct starting){.api = api, .request = r};
    s->order = sessions_start(api->modules.sessions, &request, options, actor, on_started, s);
    http_on_close(r, on_client_left, s);
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
    if (err == -ENOENT)
        reply_missing(r, 's', id);
    else if (err < 0)
        reply_error(api, r, err, "read the session");
    else
        reply_refused(r, PROBLEM_CONFLICT, NULL, "session s%" PRId64 " is over: it is %s", id,
                      state_name(sessions_state(api->modules.sessions, id, record.state)));
}

/* -- Remove ------------------------------------------------------------------------------------------- */

/* The store goes on where the client leaves. */
struct removing {
    struct api *api;
    struct http_request *request; /* NULL: the client left */
    int64_t id;
};

static void on_remover_left(struct http_request *r, void *arg)
{
    ((struct removing *)arg)->request = NULL;
}

static void on_removed(const struct store_removed *removed, void *arg)
{
    struct removing m = *(struct removing *)arg;

    free(arg);
    if (!m.request)
        return;
    http_on_close(m.request, NULL, NULL);
    if (removed->err == -ENOENT) {
        reply_missing(m.request, 's', m.id);
    } else if (removed->err < 0) {
        reply_error(m.api, m.request, removed->err, "remove the session");
    } else {
        _cleanup_(freep) char *name = xasprintf("s%" PRId64, m.id);
        json_t *body = json_object();
        json_put_str(body, "removed", name);
        json_put_int(body, "freed", removed->bytes);
        http_reply_json(m.request, 200, body);
    }
}

void remove_session(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(session_record_done) struct session_record record;
    _cleanup_(freep) char *actor = request_actor(r);

    session_record_init(&record);
    int err = catalog_get_session(api->modules.catalog, id, &record);
    if (err == -ENOENT) {
        reply_missing(r, 's', id);
    } else if (err < 0) {
        reply_error(api, r, err, "read the session");
    } else if (!state_is_final(sessions_state(api->modules.sessions, id, record.state))) {
        _cleanup_(freep) char *remedy = xasprintf("profctl stop s%" PRId64 " ends it.", id);
        reply_refused(r, PROBLEM_CONFLICT, remedy, "session s%" PRId64 " is not over: it is %s", id,
                      state_name(sessions_state(api->modules.sessions, id, record.state)));
    } else if (sessions_find(api->modules.sessions, id)) {
        reply_refused(r, PROBLEM_CONFLICT,
                      "Try again; if the catalog's file system is full, free space there first.",
                      "the catalog does not have the end of session s%" PRId64 " yet", id);
    } else {
        struct removing *m = xcalloc(1, sizeof(*m));
        *m = (struct removing){.api = api, .request = r, .id = id};
        http_on_close(r, on_remover_left, m);
        store_remove_session(api->modules.store, id, actor, on_removed, m);
    }
}

/* -- Pins --------------------------------------------------------------------------------------------- */

static void set_pin(struct api *api, struct http_request *r, int64_t id, bool pinned)
{
    _cleanup_(freep) char *actor = request_actor(r);

    int err = catalog_pin_session(api->modules.catalog, id, pinned);
    if (err == 0)
        err = catalog_add_event(api->modules.catalog, pinned ? "session-pinned" : "session-unpinned", actor,
                                id, RECORD_NONE, RECORD_NONE, "s%" PRId64, id);
    if (err == 0)
        err = catalog_commit(api->modules.catalog, false);
    if (err == -ENOENT)
        reply_missing(r, 's', id);
    else if (err < 0)
        reply_error(api, r, err, "pin the session");
    else
        reply_session(api, r, 200, id, NULL, NULL);
}

void pin_session(struct api *api, struct http_request *r, int64_t id)
{
    set_pin(api, r, id, true);
}

void unpin_session(struct api *api, struct http_request *r, int64_t id)
{
    set_pin(api, r, id, false);
}
