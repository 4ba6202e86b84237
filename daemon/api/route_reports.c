/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports and SQL on traces, and flame graphs of several: which traces a request names, and of which host it is answered.
 * The works are computed by the pool, never on the loop (report_request.h).
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

/* Of a specification and its answer: traces and hosts that the result does without. */
static const char *const report_lists[] = {"left", "missing", "missing_hosts"};

struct report_list {
    struct report_request *request;
    struct remote_list remote;
    json_t *left;     /* ids of traces without columns */
    json_t *missing;  /* named traces that do not exist, by report_missing_new() */
    bool with_facts;  /* what the catalog knows about them, not the traces alone */
    bool fetches;     /* columns of other hosts */
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

    if (kind && !streq(kind, "trace"))
        return 0;
    if (!list->fetches) {
        remote_list_add(&list->remote, t);
        return 0;
    }
    list->is_too_many = list->request->n == REPORT_TRACES_MAX;
    if (!list->is_too_many && !report_request_add_remote(list->request, t))
        json_array_append_new(list->left, json_sprintf("t%" PRId64, t->trace_id));
    return list->is_too_many;
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
                             *const truths[] = {"facts", "together"};
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)body, name, value) {
        bool fits = (json_is_array(value) && (streq(name, arrays[0]) || streq(name, arrays[1]))) ||
                    (json_is_object(value) && streq(name, objects[0])) ||
                    (json_is_string(value) && streq(name, texts[0])) ||
                    (json_is_boolean(value) && (streq(name, truths[0]) || streq(name, truths[1]))) ||
                    (json_is_integer(value) && json_integer_value(value) >= 0 && streq(name, numbers[0]));
        if (!fits)
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "\"%s\": reports take \"traces\" or \"session\", \"facts\", \"together\", "
                               "\"reports\", \"view\" and \"top\"",
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

/* Finds the traces of a body that names "traces" or a "session". True: the work may begin. False: the reply was given, or comes
 * from another host, of its path; take_empty is the reply, without its lists, where there are no traces. */
static bool reports_gather(struct api *api, struct http_request *r, const struct route_match *match,
                           const json_t *body, const char *path, json_t *take_empty, struct report_list *list)
{
    _cleanup_json_ empty = take_empty;
    struct report_request *q = list->request;
    const char *session = json_get_str(body, "session");
    int64_t session_id = RECORD_NONE;

    if (session && parse_ref(session, 's', &session_id) == 's') {
        if (elsewhere_ask_session(api, r, match, session_id))
            return false;
        elsewhere_put_missing(api, session_id, q->spec);
    }
    list->with_facts = json_get_bool(body, "facts", session);
    list->fetches = json_get_bool(body, "together", false) && http_right(r) != RIGHT_PEER;
    int err = session ? reports_add_session(api, r, session, list)
                      : reports_add_named(api, r, json_object_get(body, "traces"), list);
    if (err < 0)
        return false;
    if (list->is_too_many) {
        reply_refused(r, PROBLEM_TOO_LARGE, "Name fewer traces.",
                      "at most %d traces can be analyzed together", REPORT_TRACES_MAX);
        return false;
    }
    if (report_list_refuse_missing(r, list))
        return false;
    if (q->n == 0 && list->remote.traces) {
        json_array_extend(list->remote.left, list->left);
        list->remote.missing = json_incref(list->missing);
        list->remote.missing_hosts = json_incref(json_object_get(q->spec, "missing_hosts"));
        reports_pass_on(api, r, match, path, &list->remote, body);
        return false;
    }
    reports_leave_remote(list);
    if (q->n > 0)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(report_lists); i++)
        if (json_object_get(q->spec, report_lists[i]))
            json_object_set(empty, report_lists[i], json_object_get(q->spec, report_lists[i]));
    http_reply_json(r, 200, TAKE_PTR(empty));
    return false;
}

static struct report_list report_list_for(struct report_request *q)
{
    struct report_list list = {.request = q, .left = json_array(), .missing = json_array()};

    json_object_set_new(q->spec, "left", list.left);
    json_object_set_new(q->spec, "missing", list.missing);
    return list;
}

void make_reports(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(report_request_freep) struct report_request *q = report_request_new(api, "reports");
    _cleanup_json_ body = NULL;
    _cleanup_(report_list_done) struct report_list list = report_list_for(q);

    if (body_object(r, &body, &p) < 0 || reports_check_body(body, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    if (!reports_gather(api, r, match, body, "/v1/reports", json_pack("{s:[],s:[]}", "parts", "notes"),
                        &list))
        return;
    json_object_set(q->spec, "reports", json_object_get(body, "reports"));
    if (json_object_get(body, "view"))
        json_object_set(q->spec, "view", json_object_get(body, "view"));
    json_put_int(q->spec, "top", json_get_int(body, "top", 0));
    report_add_roles(api, q);
    report_request_begin(api, r, match, TAKE_PTR(q));
}

static int flame_check_body(const json_t *body, struct problem *p)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)body, name, value) {
        bool fits =
            (streq(name, "traces") && json_is_array(value)) ||
            (streq(name, "view") && json_is_object(value)) ||
            ((streq(name, "session") || streq(name, "by") || streq(name, "thread")) && json_is_string(value));
        if (!fits)
            return problem_set(
                p, -EINVAL, PROBLEM_BAD_REQUEST,
                "\"%s\": a flame graph takes \"traces\" or \"session\", \"by\", \"thread\" and "
                "\"view\"",
                name);
    }
    if (!json_object_get(body, "traces") == !json_object_get(body, "session"))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "either \"traces\" or \"session\" must be given");
    return 0;
}

void make_flame(struct api *api, struct http_request *r, const struct route_match *match)
{
    static const char *const members[] = {"by", "thread", "view"};
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(report_request_freep) struct report_request *q = report_request_new(api, "flame");
    _cleanup_json_ body = NULL;
    _cleanup_(report_list_done) struct report_list list = report_list_for(q);

    if (body_object(r, &body, &p) < 0 || flame_check_body(body, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    json_t *empty = json_pack("{s:s,s:[],s:[],s:[]}", "unit", "ns", "names", "nodes", "traces");
    if (!reports_gather(api, r, match, body, "/v1/flame", empty, &list))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        if (json_object_get(body, members[i]))
            json_object_set(q->spec, members[i], json_object_get(body, members[i]));
    report_request_begin(api, r, match, TAKE_PTR(q));
}

int report_request_add_traces(struct api *api, struct http_request *r, const json_t *side,
                              struct report_request *q)
{
    const char *session = json_get_str(side, "session");
    _cleanup_(report_list_done) struct report_list list = {.request = q,
                                                           .left = json_object_get(q->spec, "left"),
                                                           .missing = json_array(),
                                                           .with_facts = true,
                                                           .fetches = http_right(r) != RIGHT_PEER};
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
