/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A work of the pool (daemon/report/pool.h) that a request waits for. Columns of other hosts are copied first, threads open the
 * files of this one, and the answer of the child is passed on as a file: nothing here reads columns or rows. A client that
 * leaves ends the work.
 */
#include "daemon/api/report_request.h"

#include "base/alloc.h"
#include "daemon/api/remote_fetch.h"
#include "daemon/catalog/records.h"
#include "proto/report.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/statvfs.h>

/* Copies of columns that one request makes at a time, and the time for each. */
#define REPORT_FETCHES_MAX      4
#define REPORT_FETCH_TIMEOUT_NS (120 * NS_PER_S)

/* One trace of a work. */
struct report_file {
    struct file_reference columns, source;
    int columns_fd, source_fd; /* -1: none; else a negative errno value */
    int64_t id, size;
    /* Of columns that another host keeps; host_uuid is NULL for those of this one. */
    char *host_uuid, *host, *path;
    struct remote_copy room;
    struct remote_fetch *fetch; /* NULL: not begun, or ended */
    char *reason;               /* why there are no columns */
    struct report_request *request;
};

static void report_file_done(struct report_request *q, struct report_file *file)
{
    reference_done(&file->columns);
    reference_done(&file->source);
    if (file->columns_fd >= 0)
        close(file->columns_fd);
    if (file->source_fd >= 0)
        close(file->source_fd);
    remote_room_release(&q->api->remote_room, &file->room);
    remote_fetch_cancel(file->fetch);
    free(file->host_uuid);
    free(file->host);
    free(file->path);
    free(file->reason);
}

static void report_request_free(struct report_request *q)
{
    for (size_t i = 0; i < q->n; i++)
        report_file_done(q, &q->files[i]);
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

    *q = (struct report_request){
        .api = api, .reports = api->modules.reports, .spec = json_object(), .target = {.fd = -1}};
    json_put_str(q->spec, "kind", kind);
    json_put_str(q->spec, "host", catalog_host(api->modules.catalog));
    json_object_set_new(q->spec, "traces", json_array());
    return q;
}

static struct report_file *report_file_add(struct report_request *q, int64_t id, int64_t size,
                                           json_t *take_facts)
{
    json_t *trace = json_object();
    _cleanup_(freep) char *name = xasprintf("t%" PRId64, id);

    VEC_GROW(q->files, q->n, q->cap);
    struct report_file *file = &q->files[q->n++];
    *file = (struct report_file){
        .columns_fd = -1, .source_fd = -1, .id = id, .size = MAX(size, INT64_C(0)), .request = q};
    json_put_str(trace, "name", name);
    if (take_facts)
        json_object_set_new(trace, "facts", take_facts);
    json_array_append_new(json_object_get(q->spec, "traces"), trace);
    return file;
}

void report_request_add(struct report_request *q, const struct trace_record *t, json_t *take_facts,
                        bool with_source)
{
    struct report_file *file = report_file_add(q, t->trace_id, t->columns_size, take_facts);

    reference_of_stored(t->columns, &file->columns);
    if (with_source && t->path)
        reference_of(t, &file->source);
}

bool report_request_add_remote(struct report_request *q, const struct remote_trace_record *t)
{
    json_t *facts = NULL;

    if (catalog_remote_trace_json(q->api->modules.catalog, t, &facts) < 0)
        return false;
    int64_t size = json_get_int(facts, "columns_size", 0);
    const char *host = json_get_str(facts, "host");
    if (!json_get_str(facts, "columns") || size <= 0) {
        json_decref(facts);
        return false;
    }
    _cleanup_(freep) char *name = xstrdup(host ? host : t->host_uuid);
    struct report_file *file = report_file_add(q, t->trace_id, size, facts);
    file->host_uuid = xstrdup(t->host_uuid);
    file->host = TAKE_PTR(name);
    file->path = xasprintf("/v1/traces/t%" PRId64 "/columns", t->remote_id);
    return true;
}

/* -- The work ----------------------------------------------------------------------------------------- */

static void report_on_end(struct report_end *end, void *arg)
{
    struct report_request *q = arg;
    struct later_reply later;
    struct stat st;

    if (later_reply_end(q->later, &later)) {
        if (end->problem.kind != PROBLEM_NONE)
            reply_computation_problem(later.request, &end->problem);
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
    if (q->is_opening)
        return;
    if (q->work)
        reports_cancel(q->work);
    report_request_free(q);
}

static void report_open_files(void *arg)
{
    struct report_request *q = arg;
    struct stat st;

    for (size_t i = 0; i < q->n; i++) {
        if (q->files[i].host_uuid)
            continue;
        q->files[i].columns_fd = reference_open(&q->files[i].columns, &st);
        /* Without the original, only arguments with columns are available. */
        if (q->files[i].source.path)
            q->files[i].source_fd = MAX(reference_open(&q->files[i].source, &st), -1);
    }
}

json_t *report_missing_new(int64_t id, char *take_reason)
{
    json_t *one = json_object();

    json_object_set_new(one, "trace", json_sprintf("t%" PRId64, id));
    json_put_str(one, "reason", take_reason);
    free(take_reason);
    return one;
}

/* Of a comparison, the trace is also in the list of its side. */
static void report_drop_file(struct report_request *q, size_t i)
{
    static const char *const sides[] = {"before", "after"};
    json_t *traces = json_object_get(q->spec, "traces");
    const json_t *trace = json_array_get(traces, i);

    for (size_t k = 0; k < ARRAY_SIZE(sides); k++) {
        json_t *side = json_object_get(q->spec, sides[k]), *one;
        size_t at;
        json_array_foreach(side, at, one) {
            if (one != trace)
                continue;
            json_array_remove(side, at);
            break;
        }
    }
    struct report_file *file = &q->files[i];
    report_file_done(q, file);
    memmove(file, file + 1, (q->n - i - 1) * sizeof(*file));
    q->n--;
    json_array_remove(traces, i);
}

static char *report_file_reason(const struct report_file *file)
{
    return file->reason ? xstrdup(file->reason)
                        : xasprintf("its columns cannot be opened: %s", strerror(-file->columns_fd));
}

/* A comparison needs a trace on each side. */
static bool report_has_empty_side(const struct report_request *q)
{
    const json_t *before = json_object_get(q->spec, "before"), *after = json_object_get(q->spec, "after");

    return (before && json_array_size(before) == 0) || (after && json_array_size(after) == 0);
}

/* Several traces do without those whose columns cannot be opened, which the answer names. Returns false, with the problem,
 * where the work cannot do without. */
static bool report_drop_unopened(struct report_request *q, struct problem *p)
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
        _cleanup_(freep) char *reason = report_file_reason(file);
        int64_t id = file->id;
        bool is_remote = file->host_uuid;
        if (missing && n_open > 0) {
            json_array_append_new(missing, report_missing_new(id, xstrdup(reason)));
            report_drop_file(q, i);
        }
        if (missing && n_open > 0 && !report_has_empty_side(q))
            continue;
        problem_remedy(p, is_remote ? "profctl list-hosts shows the state of each host."
                                    : "Make them again: profctl ingest --again FILE.");
        problem_set(p, -ENOENT, is_remote ? PROBLEM_UNREACHABLE : PROBLEM_GONE, "t%" PRId64 ": %s", id,
                    reason);
        return false;
    }
    return true;
}

static void report_on_opened(void *arg)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct report_request *q = arg;
    struct later_reply later;

    q->is_opening = false;
    if (!q->later) {
        report_request_free(q);
        return;
    }
    if (!report_drop_unopened(q, &p)) {
        /* The reply frees the request. */
        if (later_reply_end(q->later, &later))
            http_reply_problem(later.request, &p);
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
        if (__builtin_add_overflow(job.mapped, q->files[i].size, &job.mapped))
            job.mapped = INT64_MAX;
    }
    const struct report_target target = q->target;
    if (target.fd >= 0)
        job.target = &target;
    q->target.fd = -1;
    q->work = reports_run(q->reports, &job, report_on_end, q);
}

/* -- Columns of other hosts ------------------------------------------------------------------------------ */

static void report_open(struct report_request *q)
{
    for (size_t i = 0; i < q->n; i++) {
        if (q->files[i].host_uuid)
            continue;
        q->is_opening = true;
        offload_run_in(q->api->modules.offload, offload_queue_of_file(q->files[i].columns.path),
                       report_open_files, report_on_opened, q);
        return;
    }
    report_on_opened(q);
}

static void report_fetch_next(struct report_request *q);

static void report_on_fetched(int64_t size, const struct problem *p, void *arg)
{
    struct report_file *file = arg;
    struct report_request *q = file->request;

    file->fetch = NULL;
    q->n_fetching--;
    remote_room_release(&q->api->remote_room, &file->room);
    file->size = size;
    if (p) {
        closep(&file->columns_fd);
        file->columns_fd = -EHOSTUNREACH;
        file->reason = xstrdup(p->what);
    }
    report_fetch_next(q);
}

/* A file without a name, with the bytes reserved that the host announced for it. */
static void report_file_open_copy(struct report_request *q, struct report_file *file)
{
    const char *dir = q->api->modules.state_dir;
    struct statvfs v;

    if (statvfs(dir, &v) < 0 || !remote_room_reserve(&q->api->remote_room, &file->room, file->host_uuid,
                                                     file->size, (int64_t)(v.f_bavail * v.f_frsize))) {
        file->columns_fd = -ENOSPC;
        file->reason = xasprintf("no room in %s for a copy of its columns", dir);
        return;
    }
    file->columns_fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file->columns_fd >= 0)
        return;
    file->columns_fd = -errno;
    file->reason = xasprintf("cannot keep a copy of its columns in %s: %s", dir, strerror(errno));
    remote_room_release(&q->api->remote_room, &file->room);
}

/* Some at a time; the files are opened when all came. */
static void report_fetch_next(struct report_request *q)
{
    while (q->n_fetching < REPORT_FETCHES_MAX && q->next_file < q->n) {
        struct report_file *file = &q->files[q->next_file++];
        if (!file->host_uuid)
            continue;
        report_file_open_copy(q, file);
        if (file->columns_fd < 0)
            continue;
        const struct remote_fetch_job job = {.host_uuid = file->host_uuid,
                                             .host = file->host,
                                             .path = file->path,
                                             .fd = file->columns_fd,
                                             .size_max = file->size,
                                             .timeout_ns = REPORT_FETCH_TIMEOUT_NS};
        file->fetch = remote_fetch_start(q->api, &job, report_on_fetched, file);
        q->n_fetching++;
    }
    if (q->n_fetching == 0)
        report_open(q);
}

void report_request_begin(struct api *api, struct http_request *r, const struct route_match *match,
                          struct report_request *take)
{
    _cleanup_(problem_done) struct problem p = {0};

    take->user = request_actor(r);
    if (reports_check_room(take->reports, take->user, take->n, &p) < 0) {
        reply_computation_problem(r, &p);
        report_request_free(take);
        return;
    }
    take->later = later_reply_new(api, r, match);
    take->later->cancel = report_on_cancel;
    take->later->work = take;
    report_fetch_next(take);
}
