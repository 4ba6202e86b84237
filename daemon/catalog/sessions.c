/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and their targets; routers and workers as discovery saw them. */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>

int catalog_add_session(struct catalog *c, struct session_record *r)
{
    int e = r->router ? saw_router(c, r->router, r->dialect, r->fleet, r->requested_at, r->requested_at) : 0;
    return e < 0 ? e : add_record(c, STATEMENT_ADD_SESSION, session_fields(), r, &r->session_id);
}

int catalog_save_session(struct catalog *c, const struct session_record *r)
{
    return save_record(c, STATEMENT_SAVE_SESSION, session_fields(), r);
}

int catalog_add_target(struct catalog *c, struct target_record *r)
{
    int e = know_worker(c, r->worker_url);
    return e < 0 ? e : add_record(c, STATEMENT_ADD_TARGET, target_fields(), r, &r->target_id);
}

int catalog_save_target(struct catalog *c, const struct target_record *r)
{
    return save_record(c, STATEMENT_SAVE_TARGET, target_fields(), r);
}

int catalog_move_targets(struct catalog *c, int64_t session_id, enum state from, enum state to,
                         bool stop_pending)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_MOVE_TARGETS);
    bind_number(s, 1, session_id);
    bind_text(s, 2, state_name((int)from));
    bind_text(s, 3, state_name((int)to));
    bind_number(s, 4, stop_pending);
    return run_write(c, s);
}

int catalog_get_session(struct catalog *c, int64_t id, struct session_record *ret)
{
    return get_record_by_id(c, STATEMENT_GET_SESSION, id, session_fields(), ret);
}

int catalog_find_session_by_name(struct catalog *c, const char *name, struct session_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SESSION_OF_NAME);
    bind_text(s, 1, name);
    return get_record(c, s, session_fields(), ret);
}

static int session_walk(struct catalog *c, enum statement which,
                        int (*fn)(const struct session_record *r, void *arg), void *arg)
{
    _cleanup_(records_done) struct record_list sessions = {0};
    sqlite3_stmt *s = statement(c, which);

    bind_number(s, 1, INT64_MAX);
    bind_number(s, 2, -1);
    int r = records_read(c, s, session_fields(), &sessions);
    /* The listing is newest first; callers want the order of creation. */
    for (size_t i = sessions.n; i-- > 0 && r == 0;)
        r = fn(record_at(&sessions, i), arg);
    return r;
}

int catalog_each_unfinished(struct catalog *c, int (*fn)(const struct session_record *r, void *arg),
                            void *arg)
{
    return session_walk(c, STATEMENT_SESSIONS_ACTIVE, fn, arg);
}

int catalog_each_half_removed(struct catalog *c, int (*fn)(const struct session_record *r, void *arg),
                              void *arg)
{
    return session_walk(c, STATEMENT_SESSIONS_HALF_REMOVED, fn, arg);
}

int catalog_each_target(struct catalog *c, int64_t session_id,
                        int (*fn)(const struct target_record *r, void *arg), void *arg)
{
    _cleanup_(records_done) struct record_list targets = {0};
    sqlite3_stmt *s = statement(c, STATEMENT_TARGETS);

    bind_number(s, 1, session_id);
    int r = records_read(c, s, target_fields(), &targets);
    for (size_t i = 0; i < targets.n && r == 0; i++)
        r = fn(record_at(&targets, i), arg);
    return r;
}

int catalog_pin_session(struct catalog *c, int64_t id, bool pinned)
{
    return change_row(c, STATEMENT_PIN_SESSION, id, pinned);
}

int catalog_remove_session(struct catalog *c, int64_t id)
{
    return change_row(c, STATEMENT_REMOVE_SESSION, id, RECORD_NONE);
}

/* -- Routers and workers ------------------------------------------------------------------------------ */

int saw_router(struct catalog *c, const char *url, const char *dialect, const char *fleet, int64_t at,
               int64_t used_at)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SAW_ROUTER);
    bind_text(s, 1, url);
    bind_text(s, 2, dialect ? dialect : "unknown");
    bind_text(s, 3, fleet);
    bind_number(s, 4, at);
    bind_number(s, 5, used_at);
    return run_write(c, s);
}

int know_worker(struct catalog *c, const char *url)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_KNOW_WORKER);
    bind_text(s, 1, url);
    bind_number(s, 2, wall_ns());
    return write_or_defer(c, s, NULL);
}

static int fleet_save_worker(struct catalog *c, enum statement which, const char *router,
                             const struct worker *w, int64_t at)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    bind_text(s, 1, w->url);
    bind_text(s, 2, router);
    bind_text(s, 3, engine_name(w->engine));
    bind_text(s, 4, w->version);
    bind_text(s, 5, role_name(w->role));
    bind_text(s, 6, health_name(w->health));
    bind_text(s, 7, w->model);
    bind_number(s, 8, w->profilable);
    bind_text(s, 9, w->reason);
    bind_text(s, 10, w->remedy);
    bind_text(s, 11, w->location.dir);
    bind_number(s, 12, at);
    return run_write(c, s);
}

static int fleet_saw_worker(struct catalog *c, const char *router, const struct worker *w, int64_t at)
{
    int r = fleet_save_worker(c, STATEMENT_SAW_SAME_WORKER, router, w, at);
    return r < 0 || sqlite3_changes(c->db) > 0 ? r
                                               : fleet_save_worker(c, STATEMENT_SAW_WORKER, router, w, at);
}

int catalog_saw_fleet(struct catalog *c, const struct fleet *f)
{
    int64_t now = wall_ns();
    int r = f->router ? saw_router(c, f->router, f->dialect, f->name, now, RECORD_NONE) : 0;
    for (size_t i = 0; i < f->n_workers && r == 0; i++)
        r = fleet_saw_worker(c, f->router, &f->workers[i], now);
    return r;
}

int catalog_count_fleet(struct catalog *c, int64_t since, int64_t *ret_routers, int64_t *ret_workers)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_COUNT_FLEET);
    bind_number(s, 1, since);
    return read_numbers(c, s, ret_routers, ret_workers);
}

char *catalog_last_router(struct catalog *c)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_LAST_ROUTER);
    return next_row(c, s) == 1 ? column_text_copy(s, 0) : NULL;
}

int catalog_routers_json(struct catalog *c, json_t **ret)
{
    static const char *const times[] = {"first_seen_at", "last_seen_at", "last_used_at"};
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_ROUTERS);
    _cleanup_json_ list = json_array();
    int r;

    while ((r = next_row(c, s)) == 1) {
        json_t *router = json_object();
        json_put_str(router, "url", column_text(s, 0));
        json_put_str(router, "dialect", column_text(s, 1));
        json_put_str(router, "fleet", column_text(s, 2));
        for (size_t i = 0; i < ARRAY_SIZE(times); i++)
            if (column_number(s, 3 + (int)i) != RECORD_NONE)
                json_put_int(router, times[i], column_number(s, 3 + (int)i));
        json_put_int(router, "workers", column_number(s, 6));
        json_array_append_new(list, router);
    }
    if (r < 0)
        return r;
    *ret = TAKE_PTR(list);
    return 0;
}
