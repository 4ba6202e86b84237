/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flame graphs, windows of traces as files, and comparisons of traces: works of the pool like reports (route_reports.c). A
 * flame graph or file of a trace that another host keeps is asked of that host; for a comparison, its columns are copied here.
 */
#include "base/alloc.h"
#include "daemon/api/handler.h"
#include "daemon/api/report_request.h"
#include "daemon/api/route_reports_remote.h"
#include "daemon/catalog/records.h"
#include "proto/report.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/statvfs.h>

/* Of an export: a part of what is free, and at most this. */
#define EXPORT_BYTES_MAX   (INT64_C(8) << 30)
#define EXPORT_FREE_PARTS  4
#define EXPORT_DEADLINE_NS (600 * NS_PER_S)

/* from= and to= of the query into spec.view. */
static int compute_read_window(const struct http_request *r, json_t *spec, struct problem *p)
{
    static const char *const numbers[] = {"from", "to"};
    json_t *view = json_object();
    int err = 0;

    json_object_set_new(spec, "view", view);
    for (size_t i = 0; i < ARRAY_SIZE(numbers) && err == 0; i++) {
        int64_t value = RECORD_NONE;
        err = query_number(r, numbers[i], 0, INT64_MAX, &value, p);
        if (value != RECORD_NONE)
            json_put_int(view, numbers[i], value);
    }
    return err;
}

/* -- Flame graphs ---------------------------------------------------------------------------------------- */

void get_trace_flame(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(remote_trace_record_done) struct remote_trace_record remote;
    _cleanup_(report_request_freep) struct report_request *q = report_request_new(api, "flame");

    trace_record_init(&t);
    remote_trace_record_init(&remote);
    json_put_str(q->spec, "by", http_query_get(r, "by"));
    json_put_str(q->spec, "thread", http_query_get(r, "thread"));
    if (compute_read_window(r, q->spec, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    int err = trace_find_columns(api, r, match, get_trace_flame, &t, &remote);
    if (err == -EREMOTE)
        flame_pass_on(api, r, match, &remote);
    if (err < 0)
        return;
    report_request_add(q, &t, NULL, false);
    report_request_begin(api, r, match, TAKE_PTR(q));
}

/* -- Exports --------------------------------------------------------------------------------------------- */

/* The file that the child writes: on the disk, because it may be large, and without a name, so that nothing remains. */
static int export_open_target(struct api *api, struct report_request *q, struct problem *p)
{
    const char *dir = api->modules.state_dir;
    struct statvfs v;

    q->target.fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (q->target.fd < 0 || fstatvfs(q->target.fd, &v) < 0)
        return problem_set(p, -errno, PROBLEM_STORAGE, "cannot keep the file in %s: %s", dir,
                           strerror(errno));
    q->target.size_max =
        MIN((int64_t)(v.f_bavail * v.f_frsize) / EXPORT_FREE_PARTS, (int64_t)EXPORT_BYTES_MAX);
    q->target.deadline_ns = EXPORT_DEADLINE_NS;
    return 0;
}

void export_trace_window(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(remote_trace_record_done) struct remote_trace_record remote;
    _cleanup_(report_request_freep) struct report_request *q = report_request_new(api, "export");
    const char *name = http_query_get(r, "format");

    trace_record_init(&t);
    remote_trace_record_init(&remote);
    bool is_chrome = !name || streq(name, "chrome");
    if (!is_chrome && !streq(name, "perfetto")) {
        reply_refused(r, PROBLEM_BAD_REQUEST, "Others: profctl export.",
                      "format=%s must be chrome or perfetto", name);
        return;
    }
    json_put_str(q->spec, "format", is_chrome ? "chrome" : "perfetto");
    if (compute_read_window(r, q->spec, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    int err = trace_find_columns(api, r, match, export_trace_window, &t, &remote);
    if (err < 0 && err != -EREMOTE)
        return;
    if (export_open_target(api, q, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    q->content_type = is_chrome ? "application/json" : "application/octet-stream";
    q->name = xasprintf("t%" PRId64 "%s", match->id, is_chrome ? ".json" : ".pftrace");
    if (err == -EREMOTE) {
        const struct export_reply reply = {.fd = TAKE_FD(q->target.fd),
                                           .size_max = q->target.size_max,
                                           .content_type = q->content_type,
                                           .name = TAKE_PTR(q->name)};
        export_pass_on(api, r, match, &remote, &reply);
        return;
    }
    report_request_add(q, &t, NULL, true);
    report_request_begin(api, r, match, TAKE_PTR(q));
}

/* -- Comparisons ----------------------------------------------------------------------------------------- */

/* {"traces": [...]}, {"session": ...} or {"runs": [...]}: the member's name. NULL with the problem. */
static const char *compare_kind_of(const json_t *side, const char *name, struct problem *p)
{
    static const char *const kinds[] = {"traces", "session", "runs"};
    const char *found = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (json_object_get(side, kinds[i]))
            found = json_object_size(side) == 1 ? kinds[i] : NULL;
    if (!found)
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                    "\"%s\" must be an object with one of \"traces\", \"session\" and \"runs\"", name);
    return found;
}

static int compare_check_body(const json_t *body, bool *ret_runs, struct problem *p)
{
    const json_t *top = json_object_get(body, "top");
    const char *a = compare_kind_of(json_object_get(body, "a"), "a", p);
    const char *b = a ? compare_kind_of(json_object_get(body, "b"), "b", p) : NULL;
    const char *name;
    json_t *value;

    if (!a || !b)
        return -EINVAL;
    json_object_foreach((json_t *)body, name, value)
        if (!streq(name, "a") && !streq(name, "b") && !streq(name, "top"))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "\"%s\": a comparison takes \"a\", \"b\" and \"top\"", name);
    if (top && (!json_is_integer(top) || json_integer_value(top) < 0))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"top\" must be a number of rows, 0 for all");
    if (streq(a, "runs") != streq(b, "runs"))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "benchmark runs are compared with benchmark runs only");
    *ret_runs = streq(a, "runs");
    return 0;
}

/* Adds the traces of a side, and moves them in the specification from traces to the member. 0, or the reply was given. */
static int compare_add_side(struct api *api, struct http_request *r, const json_t *side, const char *member,
                            struct report_request *q)
{
    size_t first = q->n;
    json_t *traces = json_object_get(q->spec, "traces"), *own = json_array();

    int err = report_request_add_traces(api, r, side, q);
    for (size_t i = first; err >= 0 && i < q->n; i++)
        json_array_append(own, json_array_get(traces, i));
    json_object_set_new(q->spec, member, own);
    if (err < 0 || q->n > first)
        return err;
    reply_refused(r, PROBLEM_NOT_FOUND, "profctl show names the reason for each trace.",
                  "side \"%s\" has no trace with columns", streq(member, "before") ? "a" : "b");
    return -ENOENT;
}

/* Sessions that another host coordinates: their traces are asked for at all hosts first. True: the request comes again. */
static bool compare_ask_elsewhere(struct api *api, struct http_request *r, const struct route_match *match,
                                  const json_t *body, json_t *spec)
{
    static const char *const sides[] = {"a", "b"};

    for (size_t i = 0; i < ARRAY_SIZE(sides); i++) {
        const char *session = json_get_str(json_object_get(body, sides[i]), "session");
        _cleanup_json_ missing = json_object();
        int64_t id;
        if (!session || parse_ref(session, 's', &id) != 's')
            continue;
        if (elsewhere_ask_session(api, r, match, id))
            return true;
        elsewhere_put_missing(api, id, missing);
        json_t *hosts = json_object_get(missing, "missing_hosts"),
               *known = json_object_get(spec, "missing_hosts");
        if (known)
            json_array_extend(known, hosts);
        else if (hosts)
            json_object_set_new(spec, "missing_hosts", json_copy(hosts));
    }
    return false;
}

static void compare_traces(struct api *api, struct http_request *r, const struct route_match *match,
                           const json_t *body)
{
    _cleanup_(report_request_freep) struct report_request *q = report_request_new(api, "compare");

    if (compare_ask_elsewhere(api, r, match, body, q->spec))
        return;
    json_object_set_new(q->spec, "left", json_array());
    json_object_set_new(q->spec, "missing", json_array());
    json_put_int(q->spec, "top", json_get_int(body, "top", 0));
    if (compare_add_side(api, r, json_object_get(body, "a"), "before", q) < 0 ||
        compare_add_side(api, r, json_object_get(body, "b"), "after", q) < 0)
        return;
    report_request_begin(api, r, match, TAKE_PTR(q));
}

void compare_sides(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ body = NULL;
    bool of_runs = false;

    if (body_object(r, &body, &p) < 0 || compare_check_body(body, &of_runs, &p) < 0)
        http_reply_problem(r, &p);
    else if (of_runs)
        compare_runs(api, r, match, body);
    else
        compare_traces(api, r, match, body);
}
