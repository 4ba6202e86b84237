/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of workloads, and their requests: rows, and what the API returns of them (openapi.yaml, Run). */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"

/* Rows are wide where answers were long. */
#define WALK_BATCH 100

int catalog_add_run(struct catalog *c, struct run_record *r)
{
    int e = r->router ? saw_router(c, r->router, r->dialect, r->fleet, r->requested_at, r->requested_at) : 0;
    return e < 0 ? e : add_record(c, STATEMENT_ADD_RUN, &run_fields, r, &r->run_id);
}

int catalog_save_run(struct catalog *c, const struct run_record *r)
{
    return save_record(c, STATEMENT_SAVE_RUN, &run_fields, r);
}

int catalog_set_run_summary(struct catalog *c, int64_t run_id, const char *summary)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SET_RUN_SUMMARY);
    bind_number(s, 1, run_id);
    bind_text(s, 2, summary);
    return run_write(c, s);
}

int catalog_get_run(struct catalog *c, int64_t id, struct run_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_GET_RUN);
    bind_number(s, 1, id);
    return get_record(c, s, &run_fields, ret);
}

int catalog_each_unfinished_run(struct catalog *c, int (*fn)(const struct run_record *r, void *arg),
                                void *arg)
{
    void *records;
    size_t n;
    sqlite3_stmt *s = statement(c, STATEMENT_RUNS_ACTIVE);
    int r = read_records(c, s, &run_fields, sizeof(struct run_record), &records, &n);
    statement_resetp(&s);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n && r == 0; i++)
        r = fn((struct run_record *)records + i, arg);
    free_records(&run_fields, sizeof(struct run_record), records, n);
    return r;
}

int catalog_find_run_of_session(struct catalog *c, int64_t session_id, int64_t *ret_id)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_RUN_OF_SESSION);
    bind_number(s, 1, session_id);
    int r = next_row(c, s);
    if (r <= 0)
        return r < 0 ? r : -ENOENT;
    *ret_id = column_number(s, 0);
    return 0;
}

int catalog_remove_run(struct catalog *c, int64_t id)
{
    return change_row(c, STATEMENT_REMOVE_RUN, id, RECORD_NONE);
}

/* -- Requests -- */

int catalog_add_request(struct catalog *c, struct request_row *r)
{
    return append_record(c, STATEMENT_ADD_REQUEST, &request_fields, r);
}

/* Hands on at most one batch, and moves the position after it. */
static int request_batch(struct catalog *c, int64_t run_id, int64_t *at, int64_t limit,
                         int (*fn)(const struct request_row *r, void *arg), void *arg, size_t *ret_n)
{
    void *records;
    sqlite3_stmt *s = statement(c, STATEMENT_REQUESTS);

    bind_number(s, 1, run_id);
    bind_number(s, 2, *at);
    bind_number(s, 3, limit);
    int r = read_records(c, s, &request_fields, sizeof(struct request_row), &records, ret_n);
    statement_resetp(&s);
    if (r < 0)
        return r;
    for (size_t i = 0; i < *ret_n && r == 0; i++) {
        const struct request_row *q = (struct request_row *)records + i;
        *at = q->number;
        r = fn(q, arg);
    }
    free_records(&request_fields, sizeof(struct request_row), records, *ret_n);
    return r;
}

int catalog_each_request(struct catalog *c, int64_t run_id, int64_t after_number, int64_t limit,
                         int (*fn)(const struct request_row *r, void *arg), void *arg)
{
    size_t n = WALK_BATCH;
    int r = 0;

    for (; r == 0 && limit > 0 && n == WALK_BATCH; limit -= (int64_t)n)
        r = request_batch(c, run_id, &after_number, MIN(limit, WALK_BATCH), fn, arg, &n);
    return r;
}

json_t *request_row_to_json(const struct request_row *r)
{
    json_t *j = json_object();
    json_put_int(j, "run", r->run_id);
    json_put_int(j, "index", r->number);
    fields_put_json(&request_fields, r, j);
    json_object_del(j, "number");
    return j;
}

/* -- As JSON -- */

/* Of a summary, what a list is read for. */
static const char *const figures[] = {"metrics", "throughput", "goodput"};

static int read_summary(struct catalog *c, int64_t run_id, json_t **ret)
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

static void put_figures(json_t *run, const json_t *summary)
{
    for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
        json_object_set(run, figures[i], json_object_get(summary, figures[i]));
}

/* The counts of the rows, not those of the summary. */
static void put_counts(json_t *run)
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
    int e = read_summary(c, r->run_id, &summary);

    if (e < 0)
        return e;
    json_put_int(j, "run", r->run_id);
    if (r->session_id != RECORD_NONE)
        json_put_int(j, "session", r->session_id);
    fields_put_json(&run_fields, r, j);
    put_counts(j);
    put_figures(j, summary);
    if (with_summary && summary)
        json_object_update_missing(j, summary);
    *ret = TAKE_PTR(j);
    return 0;
}

void run_json_renew(json_t *run, const struct run_record *r)
{
    fields_renew_json(&run_fields, r, run);
    put_counts(run);
}

int catalog_run_json(struct catalog *c, int64_t id, json_t **ret)
{
    struct run_record record;
    int r = catalog_get_run(c, id, &record);
    if (r < 0)
        return r;
    r = run_to_json(c, &record, true, ret);
    run_record_done(&record);
    return r;
}

int catalog_runs_json(struct catalog *c, int64_t limit, int64_t before_id, int64_t session_id, json_t **ret)
{
    _cleanup_json_ list = json_array();
    enum statement which = session_id == RECORD_NONE ? STATEMENT_RUNS : STATEMENT_RUNS_OF_SESSION;
    void *records;
    size_t n;
    sqlite3_stmt *s = statement(c, which);

    bind_number(s, 1, before_id == RECORD_NONE ? INT64_MAX : before_id);
    bind_number(s, 2, limit);
    if (which == STATEMENT_RUNS_OF_SESSION)
        bind_number(s, 3, session_id);
    int r = read_records(c, s, &run_fields, sizeof(struct run_record), &records, &n);
    statement_resetp(&s);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n && r == 0; i++) {
        json_t *j = NULL;
        r = run_to_json(c, (struct run_record *)records + i, false, &j);
        if (r == 0)
            json_array_append_new(list, j);
    }
    free_records(&run_fields, sizeof(struct run_record), records, n);
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}
