/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: rows, listings by filter, summaries of their content, what a disk budget may remove and of whom. */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include <errno.h>

/* Rows that are read at a time by a walk, which may be over all of them. */
#define WALK_BATCH 256

int catalog_add_trace(struct catalog *c, struct trace_record *r)
{
    int e = r->worker_url ? know_worker(c, r->worker_url) : 0;
    if (e >= 0)
        e = add_record(c, STATEMENT_ADD_TRACE, trace_fields(), r, &r->trace_id);
    if (e >= 0)
        c->metrics.traces_added[r->state]++;
    return e;
}

int catalog_save_trace(struct catalog *c, const struct trace_record *r)
{
    int e = r->worker_url ? know_worker(c, r->worker_url) : 0;
    return e < 0 ? e : save_record(c, STATEMENT_SAVE_TRACE, trace_fields(), r);
}

int catalog_get_trace(struct catalog *c, int64_t id, struct trace_record *ret)
{
    return get_record_by_id(c, STATEMENT_GET_TRACE, id, trace_fields(), ret);
}

static int trace_find(struct catalog *c, enum statement which, const char *text, struct trace_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    bind_text(s, 1, text);
    return get_record(c, s, trace_fields(), ret);
}

int catalog_find_trace_by_path(struct catalog *c, const char *path, struct trace_record *ret)
{
    return trace_find(c, STATEMENT_TRACE_OF_PATH, path, ret);
}

int catalog_find_trace_by_origin(struct catalog *c, const char *origin, struct trace_record *ret)
{
    return trace_find(c, STATEMENT_TRACE_OF_ORIGIN, origin, ret);
}

int catalog_find_trace_by_sha256(struct catalog *c, const char *sha256, struct trace_record *ret)
{
    return trace_find(c, STATEMENT_TRACE_OF_SHA256, sha256, ret);
}

int catalog_find_trace_without_columns(struct catalog *c, int64_t below_id, int64_t version,
                                       struct trace_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_TRACE_WITHOUT_COLUMNS);
    bind_number(s, 1, below_id == RECORD_NONE ? INT64_MAX : below_id);
    bind_number(s, 2, version);
    return get_record(c, s, trace_fields(), ret);
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
    return set_text(c, STATEMENT_SET_INSTANCE, trace_id, instance);
}

/* -- Listings ----------------------------------------------------------------------------------------- */

typedef int (*trace_fn)(const struct trace_record *r, void *arg);

/* Hands on what a statement gives. Sets *ret_n to the number of rows, and `at` (may be NULL) to the last one by the
 * time of its recording. */
static int traces_walk(struct catalog *c, sqlite3_stmt *s, trace_fn fn, void *arg, struct trace_position *at,
                       size_t *ret_n)
{
    _cleanup_(records_done) struct record_list traces = {0};
    int r = records_read(c, s, trace_fields(), &traces);

    *ret_n = traces.n;
    for (size_t i = 0; i < traces.n && r == 0; i++) {
        const struct trace_record *t = record_at(&traces, i);
        if (at)
            *at = (struct trace_position){t->recorded_at, t->trace_id};
        r = fn(t, arg);
    }
    return r;
}

static enum statement trace_listing_statement(const struct trace_filter *f)
{
    bool of_worker = f->worker_url != NULL;
    if (f->unclaimed)
        return of_worker ? STATEMENT_TRACES_UNCLAIMED_OF_WORKER : STATEMENT_TRACES_UNCLAIMED;
    if (f->session_id != RECORD_NONE)
        return of_worker ? STATEMENT_TRACES_OF_SESSION_WORKER : STATEMENT_TRACES_OF_SESSION;
    return of_worker ? STATEMENT_TRACES_OF_WORKER : STATEMENT_TRACES;
}

/* The trace may be one of another host: both lists have the same order. */
static int trace_find_position(struct catalog *c, int64_t id, struct trace_position *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_TRACE_POSITION);
    bind_number(s, 1, id);
    return read_numbers(c, s, &ret->at, &ret->trace_id);
}

int trace_first_position(struct catalog *c, const struct trace_filter *f, struct trace_position *ret)
{
    struct trace_position at = {INT64_MAX, INT64_MAX};

    if (f->until != RECORD_NONE)
        at.at = f->until;
    if (f->before_id != RECORD_NONE) {
        struct trace_position before;
        int r = trace_find_position(c, f->before_id, &before);
        if (r < 0)
            return r;
        if (before.at <= at.at)
            at = before;
    }
    *ret = at;
    return 0;
}

static void bind_if_used(sqlite3_stmt *s, int i, int64_t number)
{
    if (i <= sqlite3_bind_parameter_count(s))
        bind_number(s, i, number);
}

void bind_trace_filter(sqlite3_stmt *s, const struct trace_filter *f, const struct trace_position *after,
                       int64_t limit)
{
    bind_number(s, 1, after->at);
    bind_number(s, 2, after->trace_id);
    bind_number(s, 3, f->since == RECORD_NONE ? INT64_MIN + 1 : f->since);
    bind_number(s, 4, limit);
    bind_if_used(s, 5, f->session_id);
    if (f->worker_url)
        bind_text(s, 6, f->worker_url);
}

int catalog_each_trace(struct catalog *c, const struct trace_filter *f, trace_fn fn, void *arg)
{
    int64_t left = f->limit == RECORD_NONE ? INT64_MAX : f->limit;
    struct trace_position at;
    size_t n = WALK_BATCH;
    int r = trace_first_position(c, f, &at);

    while (r == 0 && left > 0 && n == WALK_BATCH) {
        sqlite3_stmt *s = statement(c, trace_listing_statement(f));
        bind_trace_filter(s, f, &at, MIN(left, WALK_BATCH));
        r = traces_walk(c, s, fn, arg, &at, &n);
        left -= (int64_t)n;
    }
    return r;
}

int catalog_evictable_after(struct catalog *c, const struct trace_position *after, int64_t limit, trace_fn fn,
                            void *arg)
{
    sqlite3_stmt *s = statement(c, c->keeps_unarchived ? STATEMENT_ARCHIVED : STATEMENT_EVICTABLE);
    size_t n;

    bind_number(s, 1, MAX(after->at, INT64_MIN + 1));
    bind_number(s, 2, after->trace_id);
    bind_number(s, 3, limit);
    return traces_walk(c, s, fn, arg, NULL, &n);
}

int catalog_each_protected(struct catalog *c, int64_t collected_until, int64_t limit, trace_fn fn, void *arg)
{
    sqlite3_stmt *s = statement(c, STATEMENT_PROTECTED);
    size_t n;

    bind_number(s, 1, collected_until);
    bind_number(s, 2, limit);
    bind_number(s, 3, c->keeps_unarchived);
    return traces_walk(c, s, fn, arg, NULL, &n);
}

int catalog_find_twin(struct catalog *c, const struct trace_record *r, int64_t *ret_id)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_TWIN);
    bind_number(s, 1, r->session_id);
    bind_number(s, 2, r->size);
    bind_text(s, 3, r->sha256);
    bind_text(s, 4, r->worker_url);
    bind_number(s, 5, r->trace_id);
    return read_numbers(c, s, ret_id, NULL);
}

int catalog_count_work(struct catalog *c, int64_t target_id, int64_t *ret_traces, int64_t *ret_work)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_COUNT_WORK);
    bind_number(s, 1, target_id);
    return read_numbers(c, s, ret_traces, ret_work);
}

bool catalog_is_empty(struct catalog *c)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_HAS_ROWS);
    int64_t has_rows = 1;

    read_numbers(c, s, &has_rows, NULL);
    return !has_rows;
}

void catalog_keep_unarchived(struct catalog *c, bool keep)
{
    c->keeps_unarchived = keep;
}

int catalog_usage(struct catalog *c, int64_t *ret_traces, int64_t *ret_bytes)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_USAGE);
    return read_numbers(c, s, ret_traces, ret_bytes);
}

/* -- Shares of the store ------------------------------------------------------------------------------ */

/* Owners that do not identify the writer of a file: root, and the user that file servers and user namespaces show
 * for unknown users. As in the column trace_row.holder. */
#define UID_ROOT   0
#define UID_NOBODY 65534

int catalog_find_holder(struct catalog *c, int64_t owner_uid, const char *worker_url, int64_t seen_since,
                        int64_t *ret_holder)
{
    if (owner_uid != RECORD_NONE && owner_uid != UID_ROOT && owner_uid != UID_NOBODY) {
        *ret_holder = owner_uid;
        return 0;
    }
    *ret_holder = HOLDER_OTHERS;
    if (!worker_url)
        return 0;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_HOLDER_OF_WORKER);
    bind_number(s, 1, seen_since);
    bind_text(s, 2, worker_url);
    int r = read_numbers(c, s, ret_holder, NULL);
    return r == -ENOENT ? 0 : r;
}

int catalog_list_holders(struct catalog *c, int64_t seen_since, struct holder_usage **ret, size_t *ret_n)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_HOLDERS);
    struct holder_usage *list = NULL;
    size_t n = 0, cap = 0;
    int r;

    bind_number(s, 1, seen_since);
    while ((r = next_row(c, s)) == 1) {
        VEC_GROW(list, n, cap);
        list[n++] = (struct holder_usage){.holder = column_number(s, 0),
                                          .worker_url = column_text_copy(s, 1),
                                          .traces = column_number(s, 2),
                                          .bytes = column_number(s, 3)};
    }
    if (r < 0) {
        holder_usage_free(list, n);
        return r;
    }
    *ret = list;
    *ret_n = n;
    return 0;
}

void holder_usage_free(struct holder_usage *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i].worker_url);
    free(list);
}

int catalog_next_evictable_of(struct catalog *c, int64_t holder, int64_t seen_since,
                              const struct trace_position *after, struct trace_record *ret)
{
    static const enum statement lists[2][2] = {
        {STATEMENT_EVICTABLE_OF_HOLDER, STATEMENT_EVICTABLE_OF_OTHERS},
        {STATEMENT_ARCHIVED_OF_HOLDER, STATEMENT_ARCHIVED_OF_OTHERS},
    };
    bool others = holder == HOLDER_OTHERS;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, lists[c->keeps_unarchived][others]);
    int first = others ? 2 : 1;

    if (others)
        bind_number(s, 1, seen_since);
    else
        bind_number(s, 3, holder);
    bind_number(s, first, MAX(after->at, INT64_MIN + 1));
    bind_number(s, first + 1, after->trace_id);
    return get_record(c, s, trace_fields(), ret);
}

/* -- Summaries ---------------------------------------------------------------------------------------- */

static void bind_category(sqlite3_stmt *s, int i, const json_t *group)
{
    const char *category = json_get_str(group, "category");
    bind_text(s, i, category ? category : "");
}

static int summary_add_name(struct catalog *c, const char *name)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_ADD_NAME);
    bind_text(s, 1, name);
    return run_write(c, s);
}

static int summary_add_trace_name(struct catalog *c, int64_t trace_id, const json_t *group)
{
    static const char *const numbers[] = {"count", "sum_ns", "min_ns", "max_ns"};
    const char *name = json_get_str(group, "name");

    if (!name)
        return 0;
    int r = summary_add_name(c, name);
    if (r < 0)
        return r;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_ADD_TRACE_NAME);
    bind_number(s, 1, trace_id);
    bind_category(s, 2, group);
    bind_text(s, 3, name);
    for (int i = 0; i < (int)ARRAY_SIZE(numbers); i++)
        bind_number(s, 4 + i, json_get_int(group, numbers[i], i < 2 ? 0 : RECORD_NONE));
    return run_write(c, s);
}

static int summary_add_category(struct catalog *c, int64_t trace_id, const json_t *group)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_ADD_TRACE_CATEGORY);
    bind_number(s, 1, trace_id);
    bind_category(s, 2, group);
    bind_number(s, 3, json_get_int(group, "count", 0));
    bind_number(s, 4, json_get_int(group, "sum_ns", 0));
    return run_write(c, s);
}

static int summary_remove(struct catalog *c, enum statement which, int64_t trace_id)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    bind_number(s, 1, trace_id);
    return run_write(c, s);
}

static const struct {
    const char *key;
    enum statement remove, list;
    int (*add)(struct catalog *c, int64_t trace_id, const json_t *group);
    const char *columns[6];
} summary_parts[] = {
    {"names",
     STATEMENT_REMOVE_TRACE_NAMES,
     STATEMENT_TRACE_NAMES,
     summary_add_trace_name,
     {"category", "name", "count", "sum_ns", "min_ns", "max_ns"}},
    {"categories",
     STATEMENT_REMOVE_TRACE_CATEGORIES,
     STATEMENT_TRACE_CATEGORIES,
     summary_add_category,
     {"category", "count", "sum_ns"}},
};

int catalog_set_summary(struct catalog *c, int64_t trace_id, const json_t *facts)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(summary_parts) && r >= 0; i++) {
        const json_t *group;
        size_t k;
        r = summary_remove(c, summary_parts[i].remove, trace_id);
        json_array_foreach(json_object_get(facts, summary_parts[i].key), k, group) {
            if (r >= 0)
                r = summary_parts[i].add(c, trace_id, group);
        }
    }
    return r;
}

static json_t *summary_row_to_json(sqlite3_stmt *s, const char *const *names, size_t n)
{
    json_t *row = json_object();

    for (int i = 0; i < (int)n && names[i]; i++) {
        if (sqlite3_column_type(s, i) == SQLITE_INTEGER)
            json_put_int(row, names[i], sqlite3_column_int64(s, i));
        else if (sqlite3_column_type(s, i) == SQLITE_TEXT)
            json_put_str(row, names[i], column_text(s, i));
    }
    return row;
}

int catalog_put_summary(struct catalog *c, int64_t trace_id, json_t *object)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(summary_parts) && r >= 0; i++) {
        _cleanup_reset_ sqlite3_stmt *s = statement(c, summary_parts[i].list);
        json_t *list = json_array();
        bind_number(s, 1, trace_id);
        while ((r = next_row(c, s)) == 1)
            json_array_append_new(
                list, summary_row_to_json(s, summary_parts[i].columns, ARRAY_SIZE(summary_parts[i].columns)));
        json_object_set_new(object, summary_parts[i].key, list);
    }
    return r;
}
