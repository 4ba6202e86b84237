/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: rows, listings by filter, what a disk budget may take. */
#include "base/alloc.h"
#include "daemon/catalog/records.h"
#include "daemon/catalog/rows.h"

/* So many rows are read at a time by a walk, which may be over all of them. */
#define WALK_BATCH 256

int catalog_add_trace(struct catalog *c, struct trace_record *r)
{
    int e = r->worker_url ? know_worker(c, r->worker_url) : 0;
    if (e >= 0)
        e = add_record(c, STATEMENT_ADD_TRACE, &trace_fields, r, &r->trace_id);
    if (e >= 0)
        c->metrics.traces_added[r->state]++;
    return e;
}

int catalog_save_trace(struct catalog *c, const struct trace_record *r)
{
    int e = r->worker_url ? know_worker(c, r->worker_url) : 0;
    return e < 0 ? e : save_record(c, STATEMENT_SAVE_TRACE, &trace_fields, r);
}

int catalog_get_trace(struct catalog *c, int64_t id, struct trace_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_GET_TRACE);
    bind_number(s, 1, id);
    return get_record(c, s, &trace_fields, ret);
}

static int find_trace(struct catalog *c, enum statement which, const char *text, struct trace_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    bind_text(s, 1, text);
    return get_record(c, s, &trace_fields, ret);
}

int catalog_find_trace_by_path(struct catalog *c, const char *path, struct trace_record *ret)
{
    return find_trace(c, STATEMENT_TRACE_OF_PATH, path, ret);
}

int catalog_find_trace_by_origin(struct catalog *c, const char *origin, struct trace_record *ret)
{
    return find_trace(c, STATEMENT_TRACE_OF_ORIGIN, origin, ret);
}

int catalog_find_trace_by_sha256(struct catalog *c, const char *sha256, struct trace_record *ret)
{
    return find_trace(c, STATEMENT_TRACE_OF_SHA256, sha256, ret);
}

int catalog_find_trace_without_columns(struct catalog *c, int64_t below_id, int64_t version,
                                       struct trace_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_TRACE_WITHOUT_COLUMNS);
    bind_number(s, 1, below_id == RECORD_NONE ? INT64_MAX : below_id);
    bind_number(s, 2, version);
    return get_record(c, s, &trace_fields, ret);
}

bool catalog_was_removed(struct catalog *c, const struct removed_file *f)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_WAS_REMOVED);
    bind_text(s, 1, f->origin);
    bind_number(s, 2, f->size);
    bind_number(s, 3, f->recorded_at);
    bind_number(s, 4, f->inode);
    return next_row(c, s) == 1;
}

int catalog_remove_trace(struct catalog *c, int64_t id)
{
    int r = change_row(c, STATEMENT_REMOVE_TRACE, id, RECORD_NONE);
    c->metrics.traces_removed += r >= 0;
    return r;
}

int catalog_pin_trace(struct catalog *c, int64_t id, bool pinned)
{
    return change_row(c, STATEMENT_PIN_TRACE, id, pinned);
}

int catalog_set_disk_size(struct catalog *c, int64_t trace_id, int64_t bytes)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SET_DISK_SIZE);
    bind_number(s, 1, trace_id);
    bind_number(s, 2, bytes);
    return run_write(c, s);
}

int catalog_set_instance(struct catalog *c, int64_t trace_id, const char *instance)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SET_INSTANCE);
    bind_number(s, 1, trace_id);
    bind_text(s, 2, instance);
    return run_write(c, s);
}

/* -- Listings -- */

typedef int (*trace_fn)(const struct trace_record *r, void *arg);

/* By which time a walk is ordered. */
enum order { BY_RECORDED, BY_COLLECTED };

/* Hands on at most WALK_BATCH rows and moves the position after them. Sets *ret_n to how many came. */
static int walk_batch(struct catalog *c, sqlite3_stmt *s, enum order order, struct trace_position *at,
                      trace_fn fn, void *arg, size_t *ret_n)
{
    void *records;
    int r = read_records(c, s, &trace_fields, sizeof(struct trace_record), &records, ret_n);
    statement_resetp(&s);
    if (r < 0)
        return r;
    for (size_t i = 0; i < *ret_n && r == 0; i++) {
        const struct trace_record *t = (struct trace_record *)records + i;
        *at = (struct trace_position){order == BY_RECORDED ? t->recorded_at : t->collected_at, t->trace_id};
        r = fn(t, arg);
    }
    free_records(&trace_fields, sizeof(struct trace_record), records, *ret_n);
    return r;
}

static enum statement listing_of(const struct trace_filter *f)
{
    bool of_worker = f->worker_url != NULL;
    if (f->unclaimed)
        return of_worker ? STATEMENT_TRACES_UNCLAIMED_OF_WORKER : STATEMENT_TRACES_UNCLAIMED;
    if (f->session_id != RECORD_NONE)
        return of_worker ? STATEMENT_TRACES_OF_SESSION_WORKER : STATEMENT_TRACES_OF_SESSION;
    return of_worker ? STATEMENT_TRACES_OF_WORKER : STATEMENT_TRACES;
}

/* The place in the list from which on a filter wants rows. */
static int first_position(struct catalog *c, const struct trace_filter *f, struct trace_position *ret)
{
    struct trace_position at = {INT64_MAX, INT64_MAX};

    if (f->until != RECORD_NONE)
        at.at = f->until;
    if (f->before_id != RECORD_NONE) {
        struct trace_record before;
        int r = catalog_get_trace(c, f->before_id, &before);
        if (r < 0)
            return r;
        if (before.recorded_at <= at.at)
            at = (struct trace_position){before.recorded_at, before.trace_id};
        trace_record_done(&before);
    }
    *ret = at;
    return 0;
}

/* Statements of one kind share their numbers, and not all use all of them. */
static void bind_if_used(sqlite3_stmt *s, int i, int64_t number)
{
    if (i <= sqlite3_bind_parameter_count(s))
        bind_number(s, i, number);
}

int catalog_each_trace(struct catalog *c, const struct trace_filter *f, trace_fn fn, void *arg)
{
    int64_t left = f->limit == RECORD_NONE ? INT64_MAX : f->limit;
    struct trace_position at;
    size_t n = WALK_BATCH;
    int r = first_position(c, f, &at);

    while (r == 0 && left > 0 && n == WALK_BATCH) {
        sqlite3_stmt *s = statement(c, listing_of(f));
        bind_number(s, 1, at.at);
        bind_number(s, 2, at.trace_id);
        bind_number(s, 3, f->since == RECORD_NONE ? INT64_MIN + 1 : f->since);
        bind_number(s, 4, MIN(left, WALK_BATCH));
        bind_if_used(s, 5, f->session_id);
        if (f->worker_url)
            bind_text(s, 6, f->worker_url);
        r = walk_batch(c, s, BY_RECORDED, &at, fn, arg, &n);
        left -= (int64_t)n;
    }
    return r;
}

static int evictable_batch(struct catalog *c, struct trace_position *at, int64_t limit, trace_fn fn,
                           void *arg, size_t *ret_n)
{
    sqlite3_stmt *s = statement(c, STATEMENT_EVICTABLE);
    bind_number(s, 1, MAX(at->at, INT64_MIN + 1));
    bind_number(s, 2, at->trace_id);
    bind_number(s, 3, limit);
    return walk_batch(c, s, BY_COLLECTED, at, fn, arg, ret_n);
}

int catalog_each_evictable(struct catalog *c, trace_fn fn, void *arg)
{
    struct trace_position at = {.at = RECORD_NONE};
    size_t n = WALK_BATCH;
    int r = 0;

    while (r == 0 && n == WALK_BATCH)
        r = evictable_batch(c, &at, WALK_BATCH, fn, arg, &n);
    return r;
}

int catalog_evictable_after(struct catalog *c, const struct trace_position *after, int64_t limit, trace_fn fn,
                            void *arg)
{
    struct trace_position at = *after;
    size_t n;
    return evictable_batch(c, &at, limit, fn, arg, &n);
}

int catalog_each_protected(struct catalog *c, int64_t collected_until, int64_t limit, trace_fn fn, void *arg)
{
    sqlite3_stmt *s = statement(c, STATEMENT_PROTECTED);
    struct trace_position at;
    size_t n;
    bind_number(s, 1, collected_until);
    bind_number(s, 2, limit);
    return walk_batch(c, s, BY_COLLECTED, &at, fn, arg, &n);
}

int catalog_find_twin(struct catalog *c, const struct trace_record *r, int64_t *ret_id)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_TWIN);
    bind_number(s, 1, r->session_id);
    bind_number(s, 2, r->size);
    bind_text(s, 3, r->sha256);
    bind_text(s, 4, r->worker_url);
    bind_number(s, 5, r->trace_id);
    int e = next_row(c, s);
    if (e <= 0)
        return e < 0 ? e : -ENOENT;
    *ret_id = column_number(s, 0);
    return 0;
}

int catalog_count_work(struct catalog *c, int64_t target_id, int64_t *ret_traces, int64_t *ret_work)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_COUNT_WORK);
    bind_number(s, 1, target_id);
    int r = next_row(c, s);
    if (r < 0)
        return r;
    *ret_traces = column_number(s, 0);
    *ret_work = column_number(s, 1);
    return 0;
}

int catalog_usage(struct catalog *c, int64_t *ret_traces, int64_t *ret_bytes)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_USAGE);
    int r = next_row(c, s);
    if (r < 0)
        return r;
    *ret_traces = r == 1 ? column_number(s, 0) : 0;
    *ret_bytes = r == 1 ? column_number(s, 1) : 0;
    return 0;
}
