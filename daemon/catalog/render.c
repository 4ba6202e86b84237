/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as the API returns them: schemas Session, Target and Trace of proto/openapi.yaml. */
#include "daemon/catalog/records.h"
#include "daemon/catalog/rows.h"

#include <errno.h>

json_t *trace_record_to_json(const struct trace_record *r)
{
    json_t *j = json_object();
    put_ref(j, "trace", 't', r->trace_id);
    fields_put_json(&trace_fields, r, j);
    return j;
}

/* -- Targets -- */

static int put_target_traces(struct catalog *c, int64_t target_id, json_t *target)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_TARGET_TRACES);
    _cleanup_json_ traces = json_array();
    _cleanup_json_ holder = json_object();
    int64_t bytes = 0;
    int r;

    bind_number(s, 1, target_id);
    while ((r = next_row(c, s)) == 1) {
        put_ref(holder, "trace", 't', column_number(s, 0));
        json_array_append(traces, json_object_get(holder, "trace"));
        bytes += column_number(s, 1);
    }
    json_object_set(target, "traces", traces);
    json_put_int(target, "bytes", bytes);
    return r;
}

void target_json_renew(json_t *target, const struct target_record *r)
{
    fields_renew_json(&target_fields, r, target);
    json_object_del(target, "session");
}

struct target_listing {
    struct catalog *catalog;
    json_t *list;
};

static int append_target(const struct target_record *r, void *arg)
{
    struct target_listing *l = arg;
    json_t *j = json_object();
    json_put_int(j, "target", r->target_id);
    fields_put_json(&target_fields, r, j);
    json_object_del(j, "session");
    json_array_append_new(l->list, j);
    return put_target_traces(l->catalog, r->target_id, j);
}

/* -- Sessions -- */

/* Under which name a target's state is counted. */
static const char *counted_as(int state)
{
    return state >= 0 && state_is_final(state) ? state_name(state) : "active";
}

static void add_count(json_t *counts, const char *key, int64_t n)
{
    json_put_int(counts, key, json_get_int(counts, key, 0) + n);
}

static void clear_target_counts(json_t *counts)
{
    json_put_int(counts, "targets", 0);
    json_put_int(counts, "active", 0);
    for (enum state st = STATE_COMPLETE; st < _STATE_MAX; st++)
        json_put_int(counts, state_name(st), 0);
}

static int count_targets(struct catalog *c, int64_t id, json_t *counts)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_COUNT_TARGETS);
    int r;

    clear_target_counts(counts);
    bind_number(s, 1, id);
    while ((r = next_row(c, s)) == 1) {
        int64_t n = column_number(s, 1);
        add_count(counts, counted_as(state_from_name(column_text(s, 0))), n);
        add_count(counts, "targets", n);
    }
    return r;
}

static int count_traces(struct catalog *c, int64_t id, json_t *counts)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_COUNT_TRACES);
    bind_number(s, 1, id);
    int r = next_row(c, s);
    if (r < 0)
        return r;
    json_put_int(counts, "traces", column_number(s, 0));
    json_put_int(counts, "bytes", column_number(s, 1));
    return 0;
}

/* Within a transaction nothing is kept: its end may be a rollback, which the count of changes does not show.
 */
static int counts_of(struct catalog *c, int64_t id, json_t **ret)
{
    struct kept_counts *kept = &c->kept_counts[(uint64_t)id % KEPT_COUNTS];
    int64_t changes = sqlite3_total_changes64(c->db);
    bool decided = sqlite3_get_autocommit(c->db);

    if (decided && kept->counts && kept->session_id == id && kept->changes == changes) {
        *ret = json_incref(kept->counts);
        return 0;
    }
    _cleanup_json_ counts = json_object();
    int r = count_targets(c, id, counts);
    if (r == 0)
        r = count_traces(c, id, counts);
    if (r < 0)
        return r;
    if (decided) {
        json_decref(kept->counts);
        *kept = (struct kept_counts){id, changes, json_incref(counts)};
    }
    *ret = TAKE_PTR(counts);
    return 0;
}

static int put_run(struct catalog *c, int64_t session_id, json_t *session)
{
    int64_t run_id;
    int r = catalog_find_run_of_session(c, session_id, &run_id);

    if (r == 0)
        json_put_int(session, "run", run_id);
    return r == -ENOENT ? 0 : r;
}

static int session_to_json(struct catalog *c, const struct session_record *r, json_t **ret)
{
    _cleanup_json_ j = json_object();
    json_t *counts = NULL;
    put_ref(j, "session", 's', r->session_id);
    fields_put_json(&session_fields, r, j);
    int e = put_run(c, r->session_id, j);
    if (e == 0)
        e = counts_of(c, r->session_id, &counts);
    if (e < 0)
        return e;
    json_put_int(counts, "skipped", (int64_t)json_array_size(json_object_get(j, "skipped")));
    json_object_set_new(j, "counts", counts);
    *ret = TAKE_PTR(j);
    return 0;
}

int catalog_session_json(struct catalog *c, int64_t id, bool with_targets, json_t **ret)
{
    struct session_record record;
    _cleanup_json_ j = NULL;
    int r = catalog_get_session(c, id, &record);
    if (r < 0)
        return r;
    r = session_to_json(c, &record, &j);
    session_record_done(&record);
    if (r == 0 && with_targets) {
        struct target_listing l = {c, json_array()};
        json_object_set_new(j, "targets", l.list);
        r = catalog_each_target(c, id, append_target, &l);
    }
    if (r == 0)
        *ret = TAKE_PTR(j);
    return r;
}

void session_json_renew(json_t *session, const struct session_record *r, const enum state *targets, size_t n)
{
    /* The counts may be kept for who asks next. */
    json_t *counts = json_copy(json_object_get(session, "counts"));

    fields_renew_json(&session_fields, r, session);
    clear_target_counts(counts);
    for (size_t i = 0; i < n; i++)
        add_count(counts, counted_as((int)targets[i]), 1);
    json_put_int(counts, "targets", (int64_t)n);
    json_object_set_new(session, "counts", counts);
}

static int session_listing(const char *state, enum statement *ret)
{
    if (state && !streq(state, "active") && state_from_name(state) < 0)
        return -EINVAL;
    *ret = !state                   ? STATEMENT_SESSIONS
           : streq(state, "active") ? STATEMENT_SESSIONS_ACTIVE
                                    : STATEMENT_SESSIONS_IN_STATE;
    return 0;
}

int catalog_sessions_json(struct catalog *c, int64_t limit, int64_t before_id, const char *state,
                          json_t **ret)
{
    _cleanup_json_ list = json_array();
    enum statement which;
    void *records;
    size_t n;
    int r = session_listing(state, &which);
    if (r < 0)
        return r;
    sqlite3_stmt *s = statement(c, which);
    bind_number(s, 1, before_id == RECORD_NONE ? INT64_MAX : before_id);
    bind_number(s, 2, limit);
    if (which == STATEMENT_SESSIONS_IN_STATE)
        bind_text(s, 3, state);
    r = read_records(c, s, &session_fields, sizeof(struct session_record), &records, &n);
    statement_resetp(&s);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n && r == 0; i++) {
        json_t *j = NULL;
        r = session_to_json(c, (struct session_record *)records + i, &j);
        /* They may be about each of its workers: the session itself has them. */
        json_object_del(j, "remarks");
        json_object_del(j, "skipped");
        if (r == 0)
            json_array_append_new(list, j);
    }
    free_records(&session_fields, sizeof(struct session_record), records, n);
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}
