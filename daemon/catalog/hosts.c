/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of several hosts: which catalog this one is among theirs, the hosts that were met, leases that this host granted,
 * parts that others record, and their traces. Rows only: what their states mean, and when they change, is decided by the
 * owners of leases and parts.
 */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <unistd.h>

/* Rows that are read at a time by a walk, which may be over all of them. */
#define WALK_BATCH 256
/* Rows of traces of other hosts that were looked up by their UUID and are of no session here; the oldest go first. */
#define LOOKED_UP_MAX 1000

/* -- This catalog ------------------------------------------------------------------------------------- */

static int identity_read(struct catalog *c)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_GET_IDENTITY);
    int r = next_row(c, s);

    if (r <= 0)
        return r < 0 ? r : -ENOENT;
    replace_str(&c->uuid, column_text(s, 0));
    replace_str(&c->host, column_text(s, 1));
    return 0;
}

static int identity_add(struct catalog *c)
{
    char name[256] = "localhost";
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_ADD_IDENTITY);

    gethostname(name, sizeof(name) - 1);
    bind_text(s, 1, name);
    bind_number(s, 2, wall_ns());
    int rc = sqlite3_step(s);
    return rc == SQLITE_DONE ? 0 : sqlite_errno(c->db, sqlite3_extended_errcode(c->db));
}

int hosts_open(struct catalog *c, struct problem *p)
{
    int r = identity_read(c);

    if (r == -ENOENT)
        r = identity_add(c);
    if (r == 0 && !c->uuid)
        r = identity_read(c);
    return r < 0 ? sqlite_problem(c->db, r, c->path, p) : 0;
}

const char *catalog_uuid(const struct catalog *c)
{
    return c->uuid;
}

const char *catalog_host(const struct catalog *c)
{
    return c->host;
}

int catalog_set_host(struct catalog *c, const char *name)
{
    if (streq(c->host, name))
        return 0;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SET_HOST_NAME);
    bind_text(s, 1, name);
    int r = run_write(c, s);
    if (r >= 0)
        replace_str(&c->host, name);
    return r;
}

int catalog_renew_uuid(struct catalog *c)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_RENEW_UUID);
    int r = run_write(c, s);

    return r < 0 ? r : identity_read(c);
}

/* -- Names -------------------------------------------------------------------------------------------- */

int catalog_find_refs(struct catalog *c, const char *uuid, const char *kinds, struct catalog_ref *ret,
                      size_t max)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_FIND_REFS);
    int n = 0, r;

    bind_text(s, 1, uuid);
    bind_text(s, 2, kinds);
    bind_number(s, 3, (int64_t)max);
    while ((r = next_row(c, s)) == 1) {
        struct catalog_ref *ref = &ret[n++];
        *ref = (struct catalog_ref){.kind = *column_text(s, 0), .id = column_number(s, 1)};
        snprintf(ref->uuid, sizeof(ref->uuid), "%s", column_text(s, 2));
    }
    return r < 0 ? r : n;
}

/* -- Walks -------------------------------------------------------------------------------------------- */

typedef int (*hosts_record_fn)(const void *record, void *arg);

/* Hands on each record of a query whose parameters are bound. */
static int hosts_walk(struct catalog *c, sqlite3_stmt *s, const struct record_fields *l, hosts_record_fn fn,
                      void *arg)
{
    _cleanup_(records_done) struct record_list list = {0};
    int r = records_read(c, s, l, &list);

    for (size_t i = 0; i < list.n && r == 0; i++)
        r = fn(record_at(&list, i), arg);
    return r;
}

/* The typed function of a caller: C has no conversion between types of functions that may be called. */
struct lease_walk {
    int (*fn)(const struct lease_record *r, void *arg);
    void *arg;
};

struct part_walk {
    int (*fn)(const struct part_record *r, void *arg);
    void *arg;
};

static int lease_walk_call(const void *record, void *arg)
{
    const struct lease_walk *w = arg;
    return w->fn(record, w->arg);
}

static int part_walk_call(const void *record, void *arg)
{
    const struct part_walk *w = arg;
    return w->fn(record, w->arg);
}

/* -- Hosts -------------------------------------------------------------------------------------------- */

int catalog_saw_host(struct catalog *c, const struct host_record *r)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SAW_HOST);
    _cleanup_reset_ sqlite3_stmt *moved = statement(c, STATEMENT_HOST_IS_AT);

    fields_bind(host_fields(), s, r);
    int k = run_write(c, s);
    if (k < 0 || !r->url)
        return k;
    bind_text(moved, 1, r->host_uuid);
    bind_text(moved, 2, r->url);
    return run_write(c, moved);
}

char *catalog_host_at(struct catalog *c, const char *url)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_HOST_AT);

    bind_text(s, 1, url);
    return sqlite3_step(s) == SQLITE_ROW ? xstrdup(column_text(s, 0)) : NULL;
}

/* -- Leases ------------------------------------------------------------------------------------------- */

int catalog_add_lease(struct catalog *c, struct lease_record *r)
{
    return add_record(c, STATEMENT_ADD_LEASE, lease_fields(), r, &r->lease_id);
}

int catalog_save_lease(struct catalog *c, const struct lease_record *r)
{
    return save_record(c, STATEMENT_SAVE_LEASE, lease_fields(), r);
}

int catalog_get_lease(struct catalog *c, int64_t id, struct lease_record *ret)
{
    return get_record_by_id(c, STATEMENT_GET_LEASE, id, lease_fields(), ret);
}

int catalog_find_lease(struct catalog *c, const char *session_uuid, struct lease_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_LEASE_OF_SESSION);
    bind_text(s, 1, session_uuid);
    return get_record(c, s, lease_fields(), ret);
}

int catalog_each_open_lease(struct catalog *c, int (*fn)(const struct lease_record *r, void *arg), void *arg)
{
    return hosts_walk(c, statement(c, STATEMENT_LEASES_OPEN), lease_fields(), lease_walk_call,
                      &(struct lease_walk){fn, arg});
}

/* -- What changed of a leased session ------------------------------------------------------------------ */

int catalog_session_change(struct catalog *c, int64_t session_id, int64_t *ret_seq)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SESSION_CHANGE);
    bind_number(s, 1, session_id);
    return read_numbers(c, s, ret_seq, NULL);
}

struct trace_change {
    int64_t trace_id, seq;
};

static int trace_changes_read(struct catalog *c, int64_t session_id, int64_t after, int64_t limit,
                              struct trace_change **ret, size_t *ret_n)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SESSION_TRACE_CHANGES);
    size_t n = 0, cap = 0;
    int r;

    bind_number(s, 1, session_id);
    bind_number(s, 2, after);
    bind_number(s, 3, limit);
    while ((r = next_row(c, s)) == 1) {
        VEC_GROW(*ret, n, cap);
        (*ret)[n++] = (struct trace_change){column_number(s, 0), column_number(s, 1)};
    }
    *ret_n = n;
    return r;
}

int catalog_each_changed_trace(struct catalog *c, int64_t session_id, int64_t after, int64_t limit,
                               int (*fn)(const struct trace_record *r, int64_t seq, void *arg), void *arg)
{
    _cleanup_(freep) struct trace_change *changes = NULL;
    struct trace_record record;
    size_t n = 0;

    int r = changes_number_session(c, session_id);
    if (r >= 0)
        r = trace_changes_read(c, session_id, after, limit, &changes, &n);
    for (size_t i = 0; i < n && r == 0; i++) {
        r = catalog_get_trace(c, changes[i].trace_id, &record);
        if (r < 0)
            break;
        r = fn(&record, changes[i].seq, arg);
        trace_record_done(&record);
    }
    return r;
}

/* -- Parts -------------------------------------------------------------------------------------------- */

int catalog_save_part(struct catalog *c, struct part_record *r)
{
    return r->part_id == 0 ? add_record(c, STATEMENT_ADD_PART, part_fields(), r, &r->part_id)
                           : save_record(c, STATEMENT_SAVE_PART, part_fields(), r);
}

int catalog_each_part(struct catalog *c, int64_t session_id,
                      int (*fn)(const struct part_record *r, void *arg), void *arg)
{
    sqlite3_stmt *s = statement(c, STATEMENT_PARTS);
    bind_number(s, 1, session_id);
    return hosts_walk(c, s, part_fields(), part_walk_call, &(struct part_walk){fn, arg});
}

int catalog_each_open_part(struct catalog *c, int (*fn)(const struct part_record *r, void *arg), void *arg)
{
    return hosts_walk(c, statement(c, STATEMENT_PARTS_OPEN), part_fields(), part_walk_call,
                      &(struct part_walk){fn, arg});
}

/* -- Traces on other hosts ---------------------------------------------------------------------------- */

static int remote_trace_run(struct catalog *c, enum statement which)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    return run_write(c, s);
}

/* A number that no trace has, here or on another host. */
static int remote_trace_take_number(struct catalog *c, int64_t *ret)
{
    int r = remote_trace_run(c, STATEMENT_BEGIN_TRACE_NUMBERS);
    if (r >= 0)
        r = remote_trace_run(c, STATEMENT_TAKE_TRACE_NUMBER);
    if (r < 0)
        return r;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_LAST_TRACE_NUMBER);
    return read_numbers(c, s, ret, NULL);
}

/* *ret_own: the row is of the same host and session, 0 or 1. */
static int remote_trace_find_number(struct catalog *c, const struct remote_trace_record *r, int64_t *ret,
                                    int64_t *ret_own)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_REMOTE_TRACE_NUMBER);
    bind_text(s, 1, r->uuid);
    bind_text(s, 2, r->host_uuid);
    bind_number(s, 3, r->session_id);
    return read_numbers(c, s, ret, ret_own);
}

/* What was measured for the session about the clock of the host that has the trace: -ENOENT: nothing. */
static int remote_trace_read_clock(struct catalog *c, const struct remote_trace_record *r,
                                   int64_t *ret_offset, int64_t *ret_error)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_REMOTE_TRACE_CLOCK);
    bind_number(s, 1, r->session_id);
    bind_text(s, 2, r->host_uuid);
    return read_numbers(c, s, ret_offset, ret_error);
}

/* Nothing else ends rows without a session. */
static int remote_trace_drop_looked_up(struct catalog *c)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_DROP_LOOKED_UP_TRACES);
    bind_number(s, 1, LOOKED_UP_MAX);
    return run_write(c, s);
}

int catalog_put_remote_trace(struct catalog *c, struct remote_trace_record *r)
{
    int64_t own = 0, offset, error;
    int e = remote_trace_read_clock(c, r, &offset, &error);

    if (e == 0 && __builtin_sub_overflow(r->recorded_at, offset, &r->recorded_at))
        return -EINVAL;
    if (e == 0 || e == -ENOENT)
        e = remote_trace_find_number(c, r, &r->trace_id, &own);

    if (e == 0 && !own)
        return 0; /* another host's, or another session's: a peer changes its own rows only */
    if (e == 0)
        return save_record(c, STATEMENT_SAVE_REMOTE_TRACE, remote_trace_fields(), r);
    if (e == -ENOENT)
        e = remote_trace_take_number(c, &r->trace_id);
    if (e >= 0)
        e = add_record(c, STATEMENT_ADD_REMOTE_TRACE, remote_trace_fields(), r, &r->trace_id);
    return e >= 0 && r->session_id == RECORD_NONE ? remote_trace_drop_looked_up(c) : e;
}

int catalog_count_remote_traces(struct catalog *c, int64_t session_id, const char *host_uuid, int64_t *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_COUNT_REMOTE_TRACES);
    bind_number(s, 1, session_id);
    bind_text(s, 2, host_uuid);
    int r = next_row(c, s);

    *ret = r == 1 ? column_number(s, 0) : 0;
    return r < 0 ? r : 0;
}

int catalog_get_remote_trace(struct catalog *c, int64_t id, struct remote_trace_record *ret)
{
    return get_record_by_id(c, STATEMENT_GET_REMOTE_TRACE, id, remote_trace_fields(), ret);
}

static enum statement remote_trace_listing(const struct trace_filter *f)
{
    if (f->session_id != RECORD_NONE)
        return f->worker_url ? STATEMENT_REMOTE_TRACES_OF_SESSION_WORKER : STATEMENT_REMOTE_TRACES_OF_SESSION;
    return f->worker_url ? STATEMENT_REMOTE_TRACES_OF_WORKER : STATEMENT_REMOTE_TRACES;
}

int catalog_each_remote_trace(struct catalog *c, const struct trace_filter *f,
                              int (*fn)(const struct remote_trace_record *r, void *arg), void *arg)
{
    int64_t left = f->limit == RECORD_NONE ? INT64_MAX : f->limit;
    struct trace_position at;
    size_t n = WALK_BATCH;
    int r = trace_first_position(c, f, &at);

    if (f->unclaimed)
        return 0;
    while (r == 0 && left > 0 && n == WALK_BATCH) {
        _cleanup_(records_done) struct record_list traces = {0};
        sqlite3_stmt *s = statement(c, remote_trace_listing(f));
        bind_trace_filter(s, f, &at, MIN(left, WALK_BATCH));
        r = records_read(c, s, remote_trace_fields(), &traces);
        n = traces.n;
        left -= (int64_t)n;
        for (size_t i = 0; i < n && r == 0; i++) {
            const struct remote_trace_record *t = record_at(&traces, i);
            at = (struct trace_position){t->recorded_at, t->trace_id};
            r = fn(t, arg);
        }
    }
    return r;
}

static json_t *remote_trace_parse_facts(const struct remote_trace_record *r)
{
    char error[200];
    json_t *facts = r->facts ? json_parse(r->facts, strlen(r->facts), error) : NULL;

    if (json_is_object(facts))
        return facts;
    json_decref(facts);
    return json_object();
}

/* Times of the host's clock become those of this one, as those of all other traces: the list is in their order. */
static void remote_trace_put_times(struct catalog *c, const struct remote_trace_record *r, json_t *trace)
{
    int64_t offset, error, ahead, at = json_get_int(trace, "collected_at", RECORD_NONE);

    if (__builtin_sub_overflow(json_get_int(trace, "recorded_at", r->recorded_at), r->recorded_at, &ahead))
        return;
    json_put_int(trace, "recorded_at", r->recorded_at);
    if (at != RECORD_NONE && !__builtin_sub_overflow(at, ahead, &at))
        json_put_int(trace, "collected_at", at);
    if (remote_trace_read_clock(c, r, &offset, &error) < 0)
        return;
    json_put_int(trace, "clock_offset_ns", offset);
    json_put_int(trace, "clock_error_ns", error);
}

int catalog_remote_trace_json(struct catalog *c, const struct remote_trace_record *r, json_t **ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_REMOTE_TRACE_LOCATION);
    bind_number(s, 1, r->trace_id);
    int e = next_row(c, s);
    if (e < 0)
        return e;
    json_t *j = remote_trace_parse_facts(r);
    json_object_del(j, "session");
    put_ref(j, "trace", 't', r->trace_id);
    put_ref(j, "session", 's', r->session_id);
    json_put_str(j, "uuid", r->uuid);
    json_put_str(j, "host_uuid", r->host_uuid);
    remote_trace_put_times(c, r, j);
    if (e == 1 && column_text(s, 0))
        json_put_str(j, "host", column_text(s, 0));
    if (e == 1 && column_text(s, 1))
        json_put_str(j, "worker", column_text(s, 1));
    *ret = j;
    return 0;
}
