/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of workloads, and their requests: rows, and what the API returns of them (openapi.yaml, Run). */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"

/* Rows are wide where answers were long. */
#define WALK_BATCH 100

int catalog_add_run(struct catalog *c, struct run_record *r)
{
    int e = r->router ? saw_router(c, r->router, r->dialect, r->fleet, r->requested_at, r->requested_at) : 0;
    return e < 0 ? e : add_record(c, STATEMENT_ADD_RUN, run_fields(), r, &r->run_id);
}

int catalog_save_run(struct catalog *c, const struct run_record *r)
{
    return save_record(c, STATEMENT_SAVE_RUN, run_fields(), r);
}

int catalog_set_run_summary(struct catalog *c, int64_t run_id, const char *summary)
{
    return set_text(c, STATEMENT_SET_RUN_SUMMARY, run_id, summary);
}

int catalog_get_run(struct catalog *c, int64_t id, struct run_record *ret)
{
    return get_record_by_id(c, STATEMENT_GET_RUN, id, run_fields(), ret);
}

int catalog_each_unfinished_run(struct catalog *c, int (*fn)(const struct run_record *r, void *arg),
                                void *arg)
{
    _cleanup_(records_done) struct record_list runs = {0};
    int r = records_read(c, statement(c, STATEMENT_RUNS_ACTIVE), run_fields(), &runs);

    for (size_t i = 0; i < runs.n && r == 0; i++)
        r = fn(record_at(&runs, i), arg);
    return r;
}

int catalog_find_run_of_session(struct catalog *c, int64_t session_id, int64_t *ret_id)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_RUN_OF_SESSION);
    bind_number(s, 1, session_id);
    return read_numbers(c, s, ret_id, NULL);
}

int catalog_remove_run(struct catalog *c, int64_t id)
{
    return change_row(c, STATEMENT_REMOVE_RUN, id, RECORD_NONE);
}

/* -- Requests -- */

int catalog_add_request(struct catalog *c, struct request_row *r)
{
    return append_record(c, STATEMENT_ADD_REQUEST, request_fields(), r);
}

int catalog_each_request(struct catalog *c, int64_t run_id, int64_t after_number, int64_t limit,
                         int (*fn)(const struct request_row *r, void *arg), void *arg)
{
    size_t n = WALK_BATCH;
    int r = 0;

    for (; r == 0 && limit > 0 && n == WALK_BATCH; limit -= (int64_t)n) {
        _cleanup_(records_done) struct record_list requests = {0};
        sqlite3_stmt *s = statement(c, STATEMENT_REQUESTS);
        bind_number(s, 1, run_id);
        bind_number(s, 2, after_number);
        bind_number(s, 3, MIN(limit, WALK_BATCH));
        r = records_read(c, s, request_fields(), &requests);
        n = requests.n;
        for (size_t i = 0; i < n && r == 0; i++) {
            const struct request_row *q = record_at(&requests, i);
            after_number = q->number;
            r = fn(q, arg);
        }
    }
    return r;
}

static int64_t requests_walk(sqlite3 *db, sqlite3_stmt *s, int (*fn)(const struct request_row *r, void *arg),
                             void *arg)
{
    int64_t n = 0;
    int rc;

    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        struct request_row row;
        request_row_init(&row);
        fields_read(request_fields(), s, &row);
        int r = fn(&row, arg);
        request_row_done(&row);
        if (r < 0)
            return r;
        n++;
    }
    return rc == SQLITE_DONE ? n : sqlite_errno(db, sqlite3_extended_errcode(db));
}

int64_t requests_read(const char *path, int64_t run_id, int64_t after_number, int64_t limit,
                      int (*fn)(const struct request_row *r, void *arg), void *arg)
{
    sqlite3_stmt *s = NULL;
    sqlite3 *db = NULL;
    int64_t n;

    int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(db, READ_BUSY_MS);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(db, statement_text(STATEMENT_REQUESTS), -1, &s, NULL);
    if (rc == SQLITE_OK) {
        bind_number(s, 1, run_id);
        bind_number(s, 2, after_number);
        bind_number(s, 3, limit);
        n = requests_walk(db, s, fn, arg);
    } else {
        n = sqlite_errno(db, rc);
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

json_t *request_row_to_json(const struct request_row *r)
{
    json_t *j = json_object();
    json_put_int(j, "run", r->run_id);
    json_put_int(j, "index", r->number);
    fields_put_json(request_fields(), r, j);
    json_object_del(j, "number");
    return j;
}

/* -- As JSON -- */

/* Of a summary, what a list is read for. */
static const char *const figures[] = {"metrics", "throughput", "goodput"};

static int run_read_summary(struct catalog *c, int64_t run_id, json_t **ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_GET_RUN_SUMMARY);
    char error[200];

    bind_number(s, 1, run_id);
    int r = next_row(c, s);
    if (r < 0)
        return r;
    const char *text = r == 1 ? column_text(s, 0) : NULL;
    *ret = text ? json_parse(text, strlen(text), error) : NULL;
    return 0;
}

static void run_put_figures(json_t *run, const json_t *summary)
{
    for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
        json_object_set(run, figures[i], json_object_get(summary, figures[i]));
}

/* The counts of the rows, not those of the summary. */
static void run_put_counts(json_t *run)
{
    static const char *const names[] = {"success", "incomplete", "error"};
    json_t *requests = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        json_object_set(requests, names[i], json_object_get(run, names[i]));
        json_object_del(run, names[i]);
    }
    json_object_set_new(run, "requests", requests);
}

static int run_to_json(struct catalog *c, const struct run_record *r, bool with_summary, json_t **ret)
{
    _cleanup_json_ j = json_object();
    _cleanup_json_ summary = NULL;
    int e = run_read_summary(c, r->run_id, &summary);

    if (e < 0)
        return e;
    json_put_int(j, "run", r->run_id);
    if (r->session_id != RECORD_NONE)
        json_put_int(j, "session", r->session_id);
    fields_put_json(run_fields(), r, j);
    run_put_counts(j);
    run_put_figures(j, summary);
    if (with_summary && summary)
        json_object_update_missing(j, summary);
    *ret = TAKE_PTR(j);
    return 0;
}

void run_json_renew(json_t *run, const struct run_record *r)
{
    fields_renew_json(run_fields(), r, run);
    run_put_counts(run);
}

static int run_read_json(struct catalog *c, int64_t id, bool with_summary, json_t **ret)
{
    struct run_record record;
    int r = catalog_get_run(c, id, &record);
    if (r < 0)
        return r;
    r = run_to_json(c, &record, with_summary, ret);
    run_record_done(&record);
    return r;
}

int catalog_run_json(struct catalog *c, int64_t id, json_t **ret)
{
    return run_read_json(c, id, true, ret);
}

int catalog_run_row_json(struct catalog *c, int64_t id, json_t **ret)
{
    return run_read_json(c, id, false, ret);
}

int catalog_runs_json(struct catalog *c, int64_t limit, int64_t before_id, int64_t session_id, json_t **ret)
{
    bool of_session = session_id != RECORD_NONE;
    _cleanup_json_ list = json_array();
    _cleanup_(records_done) struct record_list runs = {0};
    sqlite3_stmt *s = statement(c, of_session ? STATEMENT_RUNS_OF_SESSION : STATEMENT_RUNS);

    bind_number(s, 1, before_id == RECORD_NONE ? INT64_MAX : before_id);
    bind_number(s, 2, limit);
    if (of_session)
        bind_number(s, 3, session_id);
    int r = records_read(c, s, run_fields(), &runs);
    for (size_t i = 0; i < runs.n && r == 0; i++) {
        json_t *j = NULL;
        r = run_to_json(c, record_at(&runs, i), false, &j);
        if (r == 0)
            json_array_append_new(list, j);
    }
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}
