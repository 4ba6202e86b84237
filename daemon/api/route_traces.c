/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: list, show, download, remove, pin. */
#include "base/alloc.h"
#include "daemon/api/api_internal.h"
#include "daemon/collect/safe_open.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

/* 0 with the record, or the reply is given. */
static int find_trace(struct api *api, struct http_request *r, int64_t id, struct trace_record *ret)
{
    trace_record_init(ret);
    int err = catalog_get_trace(api->modules.catalog, id, ret);
    if (err == -ENOENT)
        reply_missing(r, 't', id);
    else if (err < 0)
        reply_error(api, r, err, "read the trace");
    return err;
}

/* -- Lists -------------------------------------------------------------------------------------------- */

/* One more than asked for is read, to know whether there are more. */
struct page {
    json_t *traces;
    int64_t limit, last_id;
    bool more;
};

static int add_to_page(const struct trace_record *t, void *arg)
{
    struct page *page = arg;

    if ((int64_t)json_array_size(page->traces) == page->limit) {
        page->more = true;
        return 0;
    }
    page->last_id = t->trace_id;
    json_array_append_new(page->traces, trace_record_to_json(t));
    return 0;
}

static int read_filter(const struct http_request *r, struct trace_filter *ret, struct problem *p)
{
    struct trace_filter f = {.session_id = RECORD_NONE,
                             .worker_url = http_query_get(r, "worker"),
                             .since = RECORD_NONE,
                             .until = RECORD_NONE,
                             .before_id = RECORD_NONE,
                             .limit = LIST_LIMIT_DEFAULT};

    if (query_number(r, "limit", 1, LIST_LIMIT_MAX, &f.limit, p) < 0 ||
        query_number(r, "since", -INT64_MAX, INT64_MAX, &f.since, p) < 0 ||
        query_number(r, "until", -INT64_MAX, INT64_MAX, &f.until, p) < 0 ||
        query_bool(r, "unclaimed", &f.unclaimed, p) < 0 ||
        query_ref(r, "session", 's', &f.session_id, p) < 0 ||
        query_ref(r, "before", 't', &f.before_id, p) < 0)
        return -EINVAL;
    *ret = f;
    return 0;
}

/* A session that was never there is an error, one without traces is an empty list. */
static int check_session(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(session_record_done) struct session_record session;

    session_record_init(&session);
    int err = id == RECORD_NONE ? 0 : catalog_get_session(api->modules.catalog, id, &session);
    if (err == -ENOENT)
        reply_missing(r, 's', id);
    else if (err < 0)
        reply_error(api, r, err, "read the session");
    return err;
}

static void reply_page(struct api *api, struct http_request *r, struct page *page)
{
    struct store_usage usage;
    json_t *body = json_object();

    json_object_set(body, "traces", page->traces);
    if (page->more) {
        _cleanup_(freep) char *next = xasprintf("t%" PRId64, page->last_id);
        json_put_str(body, "next", next);
    }
    if (store_usage(api->modules.store, &usage) == 0)
        json_object_set_new(body, "usage", usage_to_json(&usage));
    http_reply_json(r, 200, body);
}

void list_traces(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct trace_filter filter;

    if (read_filter(r, &filter, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    if (check_session(api, r, filter.session_id) < 0)
        return;
    _cleanup_json_ traces = json_array();
    struct page page = {.traces = traces, .limit = filter.limit++};
    int err = catalog_each_trace(api->modules.catalog, &filter, add_to_page, &page);
    if (err == -ENOENT)
        reply_missing(r, 't', filter.before_id);
    else if (err < 0)
        reply_error(api, r, err, "list the traces");
    else
        reply_page(api, r, &page);
}

/* -- One trace ---------------------------------------------------------------------------------------- */

void reply_trace(struct api *api, struct http_request *r, int status, int64_t id)
{
    _cleanup_(trace_record_done) struct trace_record t;

    if (find_trace(api, r, id, &t) < 0)
        return;
    json_t *body = trace_record_to_json(&t);
    int err = catalog_put_summary(api->modules.catalog, id, body);
    if (err == 0) {
        http_reply_json(r, status, body);
        return;
    }
    json_decref(body);
    reply_error(api, r, err, "read the trace");
}

void get_trace(struct api *api, struct http_request *r, int64_t id)
{
    reply_trace(api, r, 200, id);
}

void remove_trace(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(freep) char *actor = request_actor(r);

    if (find_trace(api, r, id, &t) < 0)
        return;
    if (t.session_id != RECORD_NONE && sessions_find(api->modules.sessions, t.session_id)) {
        _cleanup_(freep) char *remedy = xasprintf("profctl stop s%" PRId64 " ends it.", t.session_id);
        reply_refused(r, PROBLEM_CONFLICT, remedy,
                      "trace t%" PRId64 " is of session s%" PRId64 ", which is not over", id, t.session_id);
        return;
    }
    int err = store_remove_trace(api->modules.store, &t, actor);
    if (err < 0) {
        reply_error(api, r, err, "remove the trace");
        return;
    }
    _cleanup_(freep) char *name = xasprintf("t%" PRId64, id);
    json_t *body = json_object();
    json_put_str(body, "removed", name);
    json_put_bool(body, "file", t.stored);
    http_reply_json(r, 200, body);
}

static void set_pin(struct api *api, struct http_request *r, int64_t id, bool pinned)
{
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(freep) char *actor = request_actor(r);

    if (find_trace(api, r, id, &t) < 0)
        return;
    int err = catalog_pin_trace(api->modules.catalog, id, pinned);
    if (err == 0)
        err = catalog_add_event(api->modules.catalog, pinned ? "trace-pinned" : "trace-unpinned", actor,
                                t.session_id, RECORD_NONE, id, "%s", t.name);
    if (err == 0)
        err = catalog_commit(api->modules.catalog, false);
    if (err < 0) {
        reply_error(api, r, err, "pin the trace");
        return;
    }
    t.pinned = pinned;
    http_reply_json(r, 200, trace_record_to_json(&t));
}

void pin_trace(struct api *api, struct http_request *r, int64_t id)
{
    set_pin(api, r, id, true);
}

void unpin_trace(struct api *api, struct http_request *r, int64_t id)
{
    set_pin(api, r, id, false);
}

/* -- Files -------------------------------------------------------------------------------------------- */

/* A file that was left in place may be on a network: it is opened on the offload. */
struct opening {
    struct http_request *request; /* NULL: the client left */
    int64_t id;
    struct file_reference file;
    char *name;
    struct offload *offload;
    int fd; /* or a negative errno value */
    struct stat st;
};

static void open_file(void *arg)
{
    struct opening *o = arg;
    o->fd = reference_open(&o->file, &o->st);
}

static void reply_unopened(const struct opening *o)
{
    static const char adrift[] = "profctl rm removes its row.";

    if (o->fd == -ENOENT || o->fd == -ENOTDIR)
        reply_refused(o->request, PROBLEM_GONE, adrift, "the file of t%" PRId64 " is gone: %s", o->id,
                      o->file.path);
    else if (o->fd == -ESTALE)
        reply_refused(o->request, PROBLEM_DENIED, "It was swapped: profctl rm removes the row.",
                      "what is at %s is another file than t%" PRId64 " was, or belongs to another user",
                      o->file.path, o->id);
    else if (o->fd == -EACCES || o->fd == -EPERM)
        reply_refused(o->request, PROBLEM_DENIED,
                      "It was left where the worker wrote it ([collect] mode=reference).",
                      "profd may not read %s of t%" PRId64, o->file.path, o->id);
    else
        reply_refused(o->request, PROBLEM_STORAGE, NULL, "cannot open %s of t%" PRId64 ": %s", o->file.path,
                      o->id, strerror(-o->fd));
}

static void reply_opened(struct opening *o)
{
    http_reply_file(o->request, &(struct http_download){
                                    .fd = o->fd,
                                    .st = &o->st,
                                    .size = o->st.st_size,
                                    .content_type = "application/octet-stream",
                                    .name = o->name,
                                    .offload = o->file.in_store ? NULL : o->offload,
                                    .lane = offload_lane_of_file(o->file.path),
                                });
}

static void on_opened(void *arg)
{
    struct opening *o = arg;

    if (!o->request) {
        closep(&o->fd);
    } else {
        http_on_close(o->request, NULL, NULL);
        if (o->fd < 0)
            reply_unopened(o);
        else
            reply_opened(o);
    }
    reference_done(&o->file);
    free(o->name);
    free(o);
}

static void on_client_left(struct http_request *r, void *arg)
{
    ((struct opening *)arg)->request = NULL;
}

static void send_file(struct api *api, struct http_request *r, int64_t id, struct file_reference *take_file,
                      const char *name)
{
    struct opening *o = xcalloc(1, sizeof(*o));

    *o = (struct opening){
        .request = r, .id = id, .file = *take_file, .name = xstrdup(name), .offload = api->modules.offload};
    *take_file = (struct file_reference){0};
    http_on_close(r, on_client_left, o);
    offload_run_in(api->modules.offload, offload_lane_of_file(o->file.path), open_file, on_opened, o);
}

void get_trace_file(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(trace_record_done) struct trace_record t;

    if (find_trace(api, r, id, &t) < 0)
        return;
    struct file_reference file;
    reference_of(&t, &file);
    send_file(api, r, id, &file, t.name);
}

void get_trace_columns(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(trace_record_done) struct trace_record t;

    if (find_trace(api, r, id, &t) < 0)
        return;
    if (t.columns) {
        struct file_reference file;
        reference_of_stored(t.columns, &file);
        send_file(api, r, id, &file, strrchr(t.columns, '/') + 1);
    } else {
        reply_refused(r, PROBLEM_NOT_FOUND, "/v1/traces/{trace}/file has what it was made of.",
                      "trace t%" PRId64 " has no columns%s%s", id, t.columns_reason ? ": " : "",
                      t.columns_reason ? t.columns_reason : "");
    }
}
