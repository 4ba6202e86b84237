/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports and SQL on traces, computed by the pool (daemon/report/pool.h) and never on the loop. A handler names the
 * work, threads open the files, and the answer of the child is passed on as a file: nothing here reads columns or rows.
 * A client that leaves ends the work.
 */
#include "base/alloc.h"
#include "daemon/api/handler.h"
#include "daemon/api/report_request.h"
#include "daemon/api/route_reports_remote.h"
#include "daemon/catalog/records.h"
#include "daemon/collect/safe_open.h"
#include "proto/report.h"
#include <errno.h>
#include <inttypes.h>

/* One trace of a work. */
struct report_file {
    struct file_reference columns, source;
    int columns_fd, source_fd; /* -1: none; else a negative errno value */
    int64_t id, size;
};

static void report_request_free(struct report_request *q)
{
    for (size_t i = 0; i < q->n; i++) {
        reference_done(&q->files[i].columns);
        reference_done(&q->files[i].source);
        if (q->files[i].columns_fd >= 0)
            close(q->files[i].columns_fd);
        if (q->files[i].source_fd >= 0)
            close(q->files[i].source_fd);
    }
    if (q->target.fd >= 0)
        close(q->target.fd);
    json_decref(q->spec);
    free(q->files);
    free(q->name);
    free(q->user);
    free(q);
}

void report_request_freep(struct report_request **q)
{
    if (*q)
        report_request_free(*q);
}

struct report_request *report_request_new(struct api *api, const char *kind)
{
    struct report_request *q = xcalloc(1, sizeof(*q));

    *q =
        (struct report_request){.reports = api->modules.reports, .spec = json_object(), .target = {.fd = -1}};
    json_put_str(q->spec, "kind", kind);
    json_put_str(q->spec, "host", catalog_host(api->modules.catalog));
    json_object_set_new(q->spec, "traces", json_array());
    return q;
}

void report_request_add(struct report_request *q, const struct trace_record *t, json_t *take_facts,
                        bool with_source)
{
    json_t *trace = json_object();
    _cleanup_(freep) char *name = xasprintf("t%" PRId64, t->trace_id);

    VEC_GROW(q->files, q->n, q->cap);
    struct report_file *file = &q->files[q->n++];
    *file = (struct report_file){
        .columns_fd = -1, .source_fd = -1, .id = t->trace_id, .size = MAX(t->columns_size, INT64_C(0))};
    reference_of_stored(t->columns, &file->columns);
    if (with_source && t->path)
        reference_of(t, &file->source);
    json_put_str(trace, "name", name);
    if (take_facts)
        json_object_set_new(trace, "facts", take_facts);
    json_array_append_new(json_object_get(q->spec, "traces"), trace);
}

/* -- The work ----------------------------------------------------------------------------------------- */

static void report_on_end(struct report_end *end, void *arg)
{
    struct report_request *q = arg;
    struct later_reply later;
    struct stat st;

    if (later_reply_end(q->later, &later)) {
        if (end->problem.kind != PROBLEM_NONE)
            http_reply_problem(later.request, &end->problem);
        else if (fstat(end->answer_fd, &st) < 0)
            reply_refused(later.request, PROBLEM_INTERNAL, NULL, "the answer is gone");
        else
            http_reply_file(later.request,
                            &(struct http_download){.fd = TAKE_FD(end->answer_fd),
                                                    .st = &st,
                                                    .size = end->size,
                                                    .content_type = q->content_type ? q->content_type
                                                                                    : "application/json",
                                                    .name = q->name});
    }
    report_request_free(q);
}

/* The later reply is freed by its caller. */
static void report_on_cancel(void *arg)
{
    struct report_request *q = arg;

    q->later = NULL;
    if (!q->work)
        return; /* files are being opened */
    reports_cancel(q->work);
    report_request_free(q);
}

static void report_open_files(void *arg)
{
    struct report_request *q = arg;
    struct stat st;

    for (size_t i = 0; i < q->n; i++) {
        q->files[i].columns_fd = reference_open(&q->files[i].columns, &st);
        /* Without the original, only arguments with columns are available. */
        if (q->files[i].source.path)
            q->files[i].source_fd = MAX(reference_open(&q->files[i].source, &st), -1);
    }
}

/* {trace, reason}: a trace that the reports do without. */
static json_t *report_missing_new(int64_t id, char *take_reason)
{
    json_t *one = json_object();

    json_object_set_new(one, "trace", json_sprintf("t%" PRId64, id));
    json_put_str(one, "reason", take_reason);
    free(take_reason);
    return one;
}

static void report_drop_file(struct report_request *q, size_t i)
{
    struct report_file *file = &q->files[i];

    reference_done(&file->columns);
    reference_done(&file->source);
    if (file->source_fd >= 0)
        close(file->source_fd);
    memmove(file, file + 1, (q->n - i - 1) * sizeof(*file));
    q->n--;
    json_array_remove(json_object_get(q->spec, "traces"), i);
}

/* Several traces do without those whose columns cannot be opened, which the answer names. Returns the first one that
 * prevents the work; NULL: none. */
static const struct report_file *report_find_unopened(struct report_request *q)
{
    json_t *missing = json_object_get(q->spec, "missing");
    size_t n_open = 0, i;

    for (i = 0; i < q->n; i++)
        n_open += q->files[i].columns_fd >= 0;
    for (i = 0; i < q->n;) {
        struct report_file *file = &q->files[i];
        if (file->columns_fd >= 0) {
            i++;
            continue;
        }
        if (n_open == 0 || !missing)
            return file;
        json_array_append_new(missing,
                              report_missing_new(file->id, xasprintf("its columns cannot be opened: %s",
                                                                     strerror(-file->columns_fd))));
        report_drop_file(q, i);
    }
    return NULL;
}

static void report_on_opened(void *arg)
{
    struct report_request *q = arg;
    const struct report_file *unopened = report_find_unopened(q);
    struct later_reply later;

    if (!q->later) {
        report_request_free(q);
        return;
    }
    if (unopened) {
        /* The reply frees the request. */
        if (later_reply_end(q->later, &later))
            reply_refused(later.request, PROBLEM_GONE, "Make them again: profctl ingest --again FILE.",
                          "the columns of t%" PRId64 " cannot be opened: %s", unopened->id,
                          strerror(-unopened->columns_fd));
        report_request_free(q);
        return;
    }
    _cleanup_(freep) int *columns = xcalloc(q->n, sizeof(*columns)),
                         *sources = xcalloc(q->n, sizeof(*sources));
    _cleanup_(freep) char *spec = json_dumps(q->spec, JSON_COMPACT);
    struct report_job job = {
        .spec = spec, .columns_fds = columns, .source_fds = sources, .n = q->n, .user = q->user};
    for (size_t i = 0; i < q->n; i++) {
        columns[i] = TAKE_FD(q->files[i].columns_fd);
        sources[i] = TAKE_FD(q->files[i].source_fd);
        job.mapped += q->files[i].size;
    }
    const struct report_target target = q->target;
    if (target.fd >= 0)
        job.target = &target;
    q->target.fd = -1;
    q->work = reports_run(q->reports, &job, report_on_end, q);
}

void report_request_begin(struct api *api, struct http_request *r, const struct route_match *match,
                          struct report_request *take)
{
    _cleanup_(problem_done) struct problem p = {0};

    take->user = request_actor(r);
    if (reports_check_room(take->reports, take->user, take->n, &p) < 0) {
        reply_busy(r, &p);
        report_request_free(take);
        return;
    }
    take->later = later_reply_new(api, r, match);
    take->later->cancel = report_on_cancel;
    take->later->work = take;
    offload_run_in(api->modules.offload, offload_queue_of_file(take->files[0].columns.path),
                   report_open_files, report_on_opened, take);
}

/* -- Of one trace ------------------------------------------------------------------------------------- */

int trace_find_columns(struct api *api, struct http_request *r, const struct route_match *match,
                       void (*handler)(struct api *, struct http_request *, const struct route_match *),
                       struct trace_record *ret, struct remote_trace_record *ret_remote)
{
    int64_t id = match->id;

    int err = catalog_get_trace(api->modules.catalog, id, ret);
    if (err == -ENOENT && catalog_get_remote_trace(api->modules.catalog, id, ret_remote) == 0)
        return -EREMOTE;
    if (reply_failure(api, r, err, 't', id, "read"))
        return err;
    if (ret->columns)
        return 0;
    if (trace_fetch_then(api, r, match, ret, true, handler))
        return -EAGAIN;
    reply_refused(r, PROBLEM_NOT_FOUND, "Download the trace itself from /v1/traces/{trace}/file.",
                  "trace t%" PRId64 " has no columns%s%s", id, ret->columns_reason ? ": " : "",
                  ret->columns_reason ? ret->columns_reason : "");
    return -ENOENT;
}

void get_trace_report(struct api *api, struct http_request *r, const struct route_match *match)
{
    static const char *const numbers[] = {"from", "to", "step"};
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(remote_trace_record_done) struct remote_trace_record remote;
    _cleanup_(report_request_freep) struct report_request *q = NULL;
    json_t *view = json_object();
    int64_t top = 0;

    trace_record_init(&t);
    remote_trace_record_init(&remote);
    q = report_request_new(api, "report");
    json_object_set_new(q->spec, "view", view);
    json_object_set_new(q->spec, "reports", json_pack("[s]", match->word));
    json_put_str(view, "phase", http_query_get(r, "phase"));
    int err = query_number(r, "top", 0, INT64_MAX, &top, &p);
    for (size_t i = 0; i < ARRAY_SIZE(numbers) && err == 0; i++) {
        int64_t value = RECORD_NONE;
        err = query_number(r, numbers[i], 0, INT64_MAX, &value, &p);
        if (value != RECORD_NONE)
            json_put_int(view, numbers[i], value);
    }
    json_put_int(q->spec, "top", top);
    if (err < 0) {
        http_reply_problem(r, &p);
        return;
    }
    err = trace_find_columns(api, r, match, get_trace_report, &t, &remote);
    if (err == -EREMOTE)
        report_pass_on(api, r, match, &remote);
    if (err < 0)
        return;
    report_request_add(q, &t, NULL, false);
    report_request_begin(api, r, match, TAKE_PTR(q));
}

static int query_read_body(const json_t *body, json_t *spec, struct problem *p)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)body, name, value) {
        bool fits = (streq(name, "sql") && json_is_string(value)) ||
                    (streq(name, "limit") && json_is_integer(value) && json_integer_value(value) > 0 &&
                     json_integer_value(value) <= REPORT_ROWS_MAX);
        if (!fits)
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "\"%s\": a query takes \"sql\", and \"limit\" from 1 to %d", name,
                               REPORT_ROWS_MAX);
        json_object_set(spec, name, value);
    }
    return json_object_get(body, "sql") ? 0
                                        : problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"sql\" is missing");
}

void query_trace(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(remote_trace_record_done) struct remote_trace_record remote;
    _cleanup_(report_request_freep) struct report_request *q = report_request_new(api, "query");
    _cleanup_json_ body = NULL;

    trace_record_init(&t);
    remote_trace_record_init(&remote);
    if (body_object(r, &body, &p) < 0 || query_read_body(body, q->spec, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    int err = trace_find_columns(api, r, match, query_trace, &t, &remote);
    if (err == -EREMOTE)
        query_pass_on(api, r, match, &remote, body);
    if (err < 0)
        return;
    report_request_add(q, &t, NULL, true);
    report_request_begin(api, r, match, TAKE_PTR(q));
}

/* -- Of several --------------------------------------------------------------------------------------- */

struct report_list {
    struct report_request *request;
    struct remote_list remote;
    json_t *left;     /* ids of traces without columns */
    json_t *missing;  /* named traces that do not exist, by report_missing_new() */
    bool with_facts;  /* what the catalog knows about them, not the traces alone */
    bool is_too_many; /* more than REPORT_TRACES_MAX */
};

static int report_list_add(const struct trace_record *t, void *arg)
{
    struct report_list *list = arg;

    if (t->kind != TRACE_KIND_TRACE)
        return 0;
    if (!t->columns) {
        json_array_append_new(list->left, json_sprintf("t%" PRId64, t->trace_id));
        return 0;
    }
    list->is_too_many = list->request->n == REPORT_TRACES_MAX;
    if (!list->is_too_many)
        report_request_add(list->request, t, list->with_facts ? trace_record_to_json(t) : NULL, false);
    return list->is_too_many;
}

static int report_list_add_remote(const struct remote_trace_record *t, void *arg)
{
    struct report_list *list = arg;
    char error[200];
    _cleanup_json_ facts = json_parse(t->facts, strlen(t->facts), error);
    const char *kind = json_get_str(facts, "kind");

    if (!kind || streq(kind, "trace"))
        remote_list_add(&list->remote, t);
    return 0;
}

/* The peak use of the KV caches during the benchmark run of the session; a removed run is no error. */
static void report_add_kv_use(struct api *api, const json_t *session, json_t *workers)
{
    _cleanup_json_ run = NULL;
    json_t *worker;
    int64_t id = json_get_int(session, "run", 0);
    size_t i;

    if (id == 0 || jobs_read(runs_jobs(api->modules.runs), id, true, &run) < 0)
        return;
    json_array_foreach(json_object_get(json_object_get(run, "server"), "workers"), i, worker) {
        const char *url = json_get_str(worker, "url");
        json_t *peak = json_object_get(json_object_get(worker, "kv_cache_use"), "peak"),
               *known = url ? json_object_get(workers, url) : NULL;
        if (known && json_is_number(peak))
            json_object_set(known, "kv_use", peak);
    }
}

/* What is known about the workers of a session: {URL: {role, kv_use}}. */
static json_t *report_read_workers(struct api *api, int64_t session_id)
{
    _cleanup_json_ session = NULL;
    json_t *workers = json_object(), *target;
    size_t i;

    if (jobs_read(sessions_jobs(api->modules.sessions), session_id, true, &session) < 0)
        return workers;
    json_array_foreach(json_object_get(session, "targets"), i, target) {
        const char *url = json_get_str(target, "worker"), *role = json_get_str(target, "role");
        json_t *known = json_object();
        if (role && !streq(role, "unknown"))
            json_put_str(known, "role", role);
        if (url)
            json_object_set(workers, url, known);
        json_decref(known);
    }
    report_add_kv_use(api, session, workers);
    return workers;
}

static void report_add_roles(struct api *api, struct report_request *q)
{
    _cleanup_json_ sessions = json_object();
    size_t i;
    json_t *trace;

    json_array_foreach(json_object_get(q->spec, "traces"), i, trace) {
        const json_t *facts = json_object_get(trace, "facts");
        const char *session = json_get_str(facts, "session"), *url = json_get_str(facts, "worker");
        int64_t id;
        if (!session || !url || parse_ref(session, 's', &id) != 's')
            continue;
        if (!json_object_get(sessions, session))
            json_object_set_new(sessions, session, report_read_workers(api, id));
        json_t *known = json_object_get(json_object_get(sessions, session), url);
        if (known)
            json_object_update(trace, known);
    }
}

static int reports_check_body(const json_t *body, struct problem *p)
{
    static const char *const arrays[] = {"traces", "reports"}, *const objects[] = {"view"},
                             *const texts[] = {"session"}, *const numbers[] = {"top"},
                             *const truths[] = {"facts"};
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)body, name, value) {
        bool fits = (json_is_array(value) && (streq(name, arrays[0]) || streq(name, arrays[1]))) ||
                    (json_is_object(value) && streq(name, objects[0])) ||
                    (json_is_string(value) && streq(name, texts[0])) ||
                    (json_is_boolean(value) && streq(name, truths[0])) ||
                    (json_is_integer(value) && json_integer_value(value) >= 0 && streq(name, numbers[0]));
        if (!fits)
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "\"%s\": reports take \"traces\" or \"session\", \"facts\", \"reports\", "
                               "\"view\" and \"top\"",
                               name);
    }
    if (!json_object_get(body, "traces") == !json_object_get(body, "session"))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "either \"traces\" or \"session\" must be given");
    return 0;
}

/* 0, or the reply was given. */
static int reports_add_named(struct api *api, struct http_request *r, const json_t *names,
                             struct report_list *list)
{
    size_t i;
    json_t *name;

    /* Each is looked up on the loop. */
    list->is_too_many = json_array_size(names) > REPORT_TRACES_MAX;
    if (list->is_too_many)
        return 0;
    json_array_foreach(names, i, name) {
        _cleanup_(trace_record_done) struct trace_record t;
        _cleanup_(remote_trace_record_done) struct remote_trace_record remote;
        const char *text = json_string_value(name);
        int64_t id;
        trace_record_init(&t);
        remote_trace_record_init(&remote);
        if (!text || parse_ref(text, 't', &id) != 't') {
            reply_refused(r, PROBLEM_BAD_REQUEST, NULL, "\"traces\" must be ids of traces, such as t12");
            return -EINVAL;
        }
        int err = catalog_get_trace(api->modules.catalog, id, &t);
        if (err == -ENOENT && catalog_get_remote_trace(api->modules.catalog, id, &remote) == 0) {
            report_list_add_remote(&remote, list);
            continue;
        }
        if (err == -ENOENT) {
            json_array_append_new(list->missing, report_missing_new(id, xstrdup("it was removed")));
            continue;
        }
        if (reply_failure(api, r, err, 't', id, "read"))
            return err;
        report_list_add(&t, list);
    }
    return 0;
}

static int reports_add_session(struct api *api, struct http_request *r, const char *ref,
                               struct report_list *list)
{
    struct trace_filter filter = {
        .since = RECORD_NONE, .until = RECORD_NONE, .before_id = RECORD_NONE, .limit = RECORD_NONE};
    _cleanup_json_ session = NULL;

    if (parse_ref(ref, 's', &filter.session_id) != 's') {
        reply_refused(r, PROBLEM_BAD_REQUEST, NULL, "\"session\" must be an id, such as s7");
        return -EINVAL;
    }
    int err = jobs_read(sessions_jobs(api->modules.sessions), filter.session_id, false, &session);
    if (err >= 0)
        err = catalog_each_trace(api->modules.catalog, &filter, report_list_add, list);
    if (err >= 0)
        err = catalog_each_remote_trace(api->modules.catalog, &filter, report_list_add_remote, list);
    err = MIN(err, 0);
    reply_failure(api, r, err, 's', filter.session_id, "read");
    return err;
}

/* What is on other hosts is asked for when nothing is left here. */
static void reports_leave_remote(struct report_list *list)
{
    size_t i;
    json_t *name;

    json_array_foreach(list->remote.traces, i, name)
        json_array_append(list->left, json_object_get(list->remote.names, json_string_value(name)));
    json_array_extend(list->left, list->remote.left);
}

static void report_list_done(struct report_list *list)
{
    remote_list_done(&list->remote);
}

/* Of named traces of which none exists. */
static bool report_list_refuse_missing(struct http_request *r, const struct report_list *list)
{
    const char *first = json_get_str(json_array_get(list->missing, 0), "trace");
    int64_t id;

    if (!first || list->request->n > 0 || list->remote.traces || json_array_size(list->left) > 0 ||
        parse_ref(first, 't', &id) != 't')
        return false;
    reply_missing(r, 't', id);
    return true;
}

void make_reports(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(report_request_freep) struct report_request *q = report_request_new(api, "reports");
    _cleanup_json_ body = NULL;
    _cleanup_(report_list_done) struct report_list list = {
        .request = q, .left = json_array(), .missing = json_array()};

    json_object_set_new(q->spec, "left", list.left);
    json_object_set_new(q->spec, "missing", list.missing);
    if (body_object(r, &body, &p) < 0 || reports_check_body(body, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    const char *session = json_get_str(body, "session");
    int64_t session_id;
    if (session && parse_ref(session, 's', &session_id) == 's' &&
        elsewhere_ask_session(api, r, match, session_id))
        return;
    list.with_facts = json_get_bool(body, "facts", session);
    int err = session ? reports_add_session(api, r, session, &list)
                      : reports_add_named(api, r, json_object_get(body, "traces"), &list);
    if (err < 0)
        return;
    if (list.is_too_many) {
        reply_refused(r, PROBLEM_TOO_LARGE, "Name fewer traces.",
                      "at most %d traces can be analyzed together", REPORT_TRACES_MAX);
        return;
    }
    if (report_list_refuse_missing(r, &list))
        return;
    if (q->n == 0 && list.remote.traces) {
        json_array_extend(list.remote.left, list.left);
        list.remote.missing = json_incref(list.missing);
        reports_pass_on(api, r, match, &list.remote, body);
        return;
    }
    reports_leave_remote(&list);
    if (q->n == 0) {
        http_reply_json(
            r, 200,
            json_pack("{s:[],s:O,s:O,s:[]}", "parts", "left", list.left, "missing", list.missing, "notes"));
        return;
    }
    json_object_set(q->spec, "reports", json_object_get(body, "reports"));
    if (json_object_get(body, "view"))
        json_object_set(q->spec, "view", json_object_get(body, "view"));
    json_put_int(q->spec, "top", json_get_int(body, "top", 0));
    report_add_roles(api, q);
    report_request_begin(api, r, match, TAKE_PTR(q));
}

int report_request_add_traces(struct api *api, struct http_request *r, const json_t *side,
                              struct report_request *q)
{
    const char *session = json_get_str(side, "session");
    _cleanup_(report_list_done) struct report_list list = {
        .request = q, .left = json_object_get(q->spec, "left"), .missing = json_array(), .with_facts = true};
    _cleanup_json_ missing = list.missing;

    if (!session && !json_is_array(json_object_get(side, "traces"))) {
        reply_refused(r, PROBLEM_BAD_REQUEST, NULL,
                      "\"traces\" must be a list of traces, and \"session\" an id");
        return -EINVAL;
    }
    int err = session ? reports_add_session(api, r, session, &list)
                      : reports_add_named(api, r, json_object_get(side, "traces"), &list);
    const char *gone = json_get_str(json_array_get(missing, 0), "trace");
    int64_t id;
    if (err >= 0 && gone && parse_ref(gone, 't', &id) == 't') {
        reply_missing(r, 't', id);
        return -ENOENT;
    }
    if (err >= 0 && list.is_too_many) {
        reply_refused(r, PROBLEM_TOO_LARGE, "Name fewer traces.",
                      "at most %d traces can be compared together", REPORT_TRACES_MAX);
        return -E2BIG;
    }
    if (err >= 0)
        reports_leave_remote(&list);
    return err;
}
