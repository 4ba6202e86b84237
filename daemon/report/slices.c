/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/slices.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/catalog/catalog.h"
#include "daemon/catalog/records.h"
#include "daemon/catalog/uploads.h"
#include "daemon/report/background.h"
#include "proto/report.h"
#include <fcntl.h>
#include <inttypes.h>
#include <time.h>

/* Of a Parquet file: smaller than the columns from which it is made, but for its own parts. */
#define FILE_OWN_MAX    (INT64_C(64) << 20)
#define SLICES_DEADLINE (30 * 60 * NS_PER_S)
#define DATE_MAX        32

struct slices_trace {
    char *path; /* of its columns */
    int fd;     /* or a negative errno value */
};

/* The files of one session, one after the other. */
struct slices_job {
    struct session_slices *slices;
    int64_t session_id;
    char *name;  /* "date=2026-11-22/SESSION-CATALOG.parquet" */
    size_t part; /* of slices_tables: the file that is written */
    char *path;  /* of that file, and where it is while it is not complete */
    char *draft;
    json_t *spec;
    struct slices_trace traces[REPORT_TRACES_MAX];
    size_t n;
    int64_t mapped;
    int fd; /* of the draft, or a negative errno value */
};

struct session_slices {
    struct catalog *catalog;
    struct offload *offload;
    struct reports *pool;
    const int *is_wanted;
    void (*wake)(void *arg);
    void *wake_arg;
    char *directory;
    struct background *background;
    bool is_closed;
    struct slices_job *job;   /* NULL: none */
    struct report_work *work; /* NULL: it has not begun */
};

/* Names of tables, and of their directories in the archive (docs/parquet.md). */
static const char *const slices_tables[] = {"slice", "kernel", "name"};

static void slices_begin_file(struct slices_job *job);

static void slices_job_free(struct slices_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        free(job->traces[i].path);
        if (job->traces[i].fd >= 0)
            close(job->traces[i].fd);
    }
    if (job->fd >= 0)
        close(job->fd);
    json_decref(job->spec);
    free(job->name);
    free(job->path);
    free(job->draft);
    free(job);
}

static void slices_end_job(struct session_slices *s, int err, const char *why)
{
    if (err < 0)
        unlink(s->job->draft);
    slices_job_free(TAKE_PTR(s->job));
    background_end(s->background, err, why);
}

/* -- The file ----------------------------------------------------------------------------------------- */

/* The archive takes it. The old file of that name may be in transfer: it keeps its bytes. */
static int slices_hand_over(struct session_slices *s, int64_t size)
{
    const struct slices_job *job = s->job;
    _cleanup_(freep) char *key = xasprintf("v1/%s/%s", slices_tables[job->part], job->name);
    const struct upload_record upload = {.upload_id = RECORD_NONE,
                                         .kind = UPLOAD_SLICES,
                                         .trace_id = RECORD_NONE,
                                         .session_id = job->session_id,
                                         .path = job->path,
                                         .key = key,
                                         .size = size,
                                         .next_at = RECORD_NONE};

    if (rename(job->draft, job->path) < 0)
        return errno == ENOENT ? -EIO : -errno;
    int r = catalog_want_upload(s->catalog, &upload);
    return r < 0 ? r : catalog_commit(s->catalog, false);
}

/* A file that cannot be written for lack of space may be later; a trace that cannot be read stays so. */
static int slices_error_of(const struct report_end *end)
{
    if (end->is_refused && end->problem.kind != PROBLEM_STORAGE)
        return -ENOENT;
    return end->problem.kind == PROBLEM_TOO_LARGE ? -E2BIG : -EIO;
}

static void slices_on_end(struct report_end *end, void *arg)
{
    struct session_slices *s = arg;

    s->work = NULL;
    if (end->problem.kind != PROBLEM_NONE) {
        slices_end_job(s, slices_error_of(end), end->problem.what);
        return;
    }
    int r = slices_hand_over(s, end->size);
    if (r >= 0 && s->wake)
        s->wake(s->wake_arg);
    if (r >= 0 && ++s->job->part < ARRAY_SIZE(slices_tables))
        slices_begin_file(s->job);
    else
        slices_end_job(s, r, NULL);
}

static void slices_open_files(void *arg)
{
    struct slices_job *job = arg;
    struct stat st;

    job->mapped = 0;
    for (size_t i = 0; i < job->n; i++) {
        job->traces[i].fd = open_regular(AT_FDCWD, job->traces[i].path, &st);
        job->mapped += job->traces[i].fd >= 0 ? st.st_size : 0;
    }
    int r = make_dirs(job->slices->directory, 0700);
    job->fd = r < 0 ? r : open(job->draft, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (job->fd < 0 && r >= 0)
        job->fd = -errno;
}

/* Columns that are gone come no more with this session: without them its other traces have a file all the same. */
static int slices_drop_unopened(struct slices_job *job)
{
    json_t *traces = json_object_get(job->spec, "traces");
    size_t n = 0;

    for (size_t i = 0; i < job->n; i++) {
        if (job->traces[i].fd == -ENOENT) {
            free(job->traces[i].path);
            json_array_remove(traces, n);
            continue;
        }
        if (job->traces[i].fd < 0)
            return job->traces[i].fd;
        job->traces[n++] = job->traces[i];
    }
    job->n = n;
    return n > 0 ? 0 : -ENOENT;
}

static void slices_on_opened(void *arg)
{
    struct slices_job *job = arg;
    struct session_slices *s = job->slices;
    int fds[REPORT_TRACES_MAX];

    if (s->is_closed) {
        slices_job_free(TAKE_PTR(s->job));
        return;
    }
    int r = job->fd < 0 ? job->fd : slices_drop_unopened(job);
    if (r < 0) {
        slices_end_job(s, job->fd == -ENOENT ? -EIO : r, NULL);
        return;
    }
    _cleanup_(freep) char *spec = json_dumps(job->spec, JSON_COMPACT);
    for (size_t i = 0; i < job->n; i++)
        fds[i] = TAKE_FD(job->traces[i].fd);
    const struct report_target target = {TAKE_FD(job->fd), job->mapped + FILE_OWN_MAX, SLICES_DEADLINE};
    s->work = reports_run(s->pool,
                          &(struct report_job){.spec = spec,
                                               .columns_fds = fds,
                                               .n = job->n,
                                               .mapped = job->mapped,
                                               .background = true,
                                               .target = &target},
                          slices_on_end, s);
}

/* -- Sessions ----------------------------------------------------------------------------------------- */

static int slices_add_trace(const struct trace_record *t, void *arg)
{
    struct slices_job *job = arg;
    struct catalog *catalog = job->slices->catalog;

    if (t->kind != TRACE_KIND_TRACE || !t->columns || job->n == REPORT_TRACES_MAX)
        return 0;
    json_t *trace = json_object(), *facts = trace_record_to_json(t);
    _cleanup_(freep) char *name = xasprintf("t%" PRId64, t->trace_id);
    json_put_str(facts, "catalog", catalog_uuid(catalog));
    json_put_str(facts, "host", catalog_host(catalog));
    json_put_str(trace, "name", name);
    json_object_set_new(trace, "facts", facts);
    json_array_append_new(json_object_get(job->spec, "traces"), trace);
    job->traces[job->n++] = (struct slices_trace){xstrdup(t->columns), -1};
    return 0;
}

/* "date=2026-11-22/SESSION-CATALOG.parquet" (docs/parquet.md): the day (UTC) of its recording. */
static char *slices_name(const struct session_slices *s, const struct session_record *session)
{
    int64_t at = session->recording_at != RECORD_NONE ? session->recording_at : session->requested_at;
    time_t seconds = (time_t)(at / NS_PER_S);
    char date[DATE_MAX] = "";
    struct tm day;

    if (!gmtime_r(&seconds, &day) || strftime(date, sizeof(date), "%F", &day) == 0)
        return NULL;
    return xasprintf("date=%s/%s-%s.parquet", date, session->uuid, catalog_uuid(s->catalog));
}

static void slices_begin_file(struct slices_job *job)
{
    struct session_slices *s = job->slices;
    const char *table = slices_tables[job->part];

    free(job->path);
    free(job->draft);
    job->path = xasprintf("%s/s%" PRId64 ".%s.parquet", s->directory, job->session_id, table);
    job->draft = xasprintf("%s.draft", job->path);
    json_put_str(job->spec, "table", table);
    offload_run_in(s->offload, offload_queue_of_dir(s->directory), slices_open_files, slices_on_opened, job);
}

static int slices_begin(int64_t session_id, void *arg)
{
    _cleanup_(session_record_done) struct session_record session;
    struct session_slices *s = arg;
    const struct trace_filter filter = {.session_id = session_id,
                                        .since = RECORD_NONE,
                                        .until = RECORD_NONE,
                                        .before_id = RECORD_NONE,
                                        .limit = RECORD_NONE};

    session_record_init(&session);
    if (!*s->is_wanted)
        return -ENOENT;
    int r = catalog_get_session(s->catalog, session_id, &session);
    if (r < 0)
        return r;
    struct slices_job *job = xcalloc(1, sizeof(*job));
    *job = (struct slices_job){.slices = s,
                               .session_id = session_id,
                               .name = slices_name(s, &session),
                               .spec = json_pack("{s:s,s:[]}", "kind", "slices", "traces"),
                               .fd = -1};
    r = catalog_each_trace(s->catalog, &filter, slices_add_trace, job);
    if (r < 0 || job->n == 0 || !job->name) {
        slices_job_free(job);
        return MIN(r, 0) < 0 ? r : -ENOENT;
    }
    s->job = job;
    slices_begin_file(job);
    return 0;
}

/* A session that ended is in the catalog by then (background_row). */
static void slices_on_event(const json_t *event, void *arg)
{
    const char *kind = json_get_str(event, "kind");
    struct session_slices *s = arg;

    if (kind && streq(kind, "session-state"))
        background_wake(s->background);
}

/* ----------------------------------------------------------------------------------------------------- */

int slices_new(struct event_base *base, struct catalog *catalog, struct offload *offload,
               struct reports *pool, const int *is_wanted, const char *state_dir, struct session_slices **ret)
{
    static const struct background_ops ops = {BACKGROUND_SLICES, "slices of session s", slices_begin};
    struct session_slices *s = xcalloc(1, sizeof(*s));

    s->catalog = catalog;
    s->offload = offload;
    s->pool = pool;
    s->is_wanted = is_wanted;
    s->directory = xasprintf("%s/slices", state_dir);
    s->background = background_new(base, catalog, &ops, s);
    catalog_on_event(catalog, slices_on_event, s);
    *ret = s;
    return 0;
}

void slices_set_wake(struct session_slices *s, void (*wake)(void *arg), void *arg)
{
    s->wake = wake;
    s->wake_arg = arg;
}

void slices_close(struct session_slices *s)
{
    s->is_closed = true;
    background_close(s->background);
    if (!s->work)
        return;
    reports_cancel(TAKE_PTR(s->work));
    unlink(s->job->draft);
    slices_job_free(TAKE_PTR(s->job));
}

struct session_slices *slices_free(struct session_slices *s)
{
    if (!s)
        return NULL;
    background_free(s->background);
    free(s->directory);
    free(s);
    return NULL;
}
