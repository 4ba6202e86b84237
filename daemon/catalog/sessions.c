/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and their targets. */
#include "daemon/catalog/records.h"
#include "daemon/catalog/rows.h"

int catalog_add_session(struct catalog *c, struct session_record *r)
{
    int e = r->router ? saw_router(c, r->router, r->dialect, r->fleet, r->requested_at, r->requested_at) : 0;
    return e < 0 ? e : add_record(c, STATEMENT_ADD_SESSION, &session_fields, r, &r->session_id);
}

int catalog_save_session(struct catalog *c, const struct session_record *r)
{
    return save_record(c, STATEMENT_SAVE_SESSION, &session_fields, r);
}

int catalog_add_target(struct catalog *c, struct target_record *r)
{
    int e = know_worker(c, r->worker_url);
    return e < 0 ? e : add_record(c, STATEMENT_ADD_TARGET, &target_fields, r, &r->target_id);
}

int catalog_save_target(struct catalog *c, const struct target_record *r)
{
    return save_record(c, STATEMENT_SAVE_TARGET, &target_fields, r);
}

int catalog_get_session(struct catalog *c, int64_t id, struct session_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_GET_SESSION);
    bind_number(s, 1, id);
    return get_record(c, s, &session_fields, ret);
}

int catalog_find_session_by_name(struct catalog *c, const char *name, struct session_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SESSION_OF_NAME);
    bind_text(s, 1, name);
    return get_record(c, s, &session_fields, ret);
}

static int each_session(struct catalog *c, enum statement which,
                        int (*fn)(const struct session_record *r, void *arg), void *arg)
{
    void *records;
    size_t n;
    sqlite3_stmt *s = statement(c, which);
    bind_number(s, 1, INT64_MAX);
    bind_number(s, 2, -1);
    int r = read_records(c, s, &session_fields, sizeof(struct session_record), &records, &n);
    statement_resetp(&s);
    if (r < 0)
        return r;
    /* The listing is newest first; they are taken up in the order in which they were asked for. */
    for (size_t i = n; i-- > 0 && r == 0;)
        r = fn((struct session_record *)records + i, arg);
    free_records(&session_fields, sizeof(struct session_record), records, n);
    return r;
}

int catalog_each_unfinished(struct catalog *c, int (*fn)(const struct session_record *r, void *arg),
                            void *arg)
{
    return each_session(c, STATEMENT_SESSIONS_ACTIVE, fn, arg);
}

int catalog_each_half_removed(struct catalog *c, int (*fn)(const struct session_record *r, void *arg),
                              void *arg)
{
    return each_session(c, STATEMENT_SESSIONS_HALF_REMOVED, fn, arg);
}

int catalog_each_target(struct catalog *c, int64_t session_id,
                        int (*fn)(const struct target_record *r, void *arg), void *arg)
{
    void *records;
    size_t n;
    sqlite3_stmt *s = statement(c, STATEMENT_TARGETS);
    bind_number(s, 1, session_id);
    int r = read_records(c, s, &target_fields, sizeof(struct target_record), &records, &n);
    statement_resetp(&s);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n && r == 0; i++)
        r = fn((struct target_record *)records + i, arg);
    free_records(&target_fields, sizeof(struct target_record), records, n);
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
