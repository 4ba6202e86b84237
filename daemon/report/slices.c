/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/slices.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/catalog/catalog.h"
#include "daemon/catalog/records.h"
#include "daemon/catalog/uploads.h"
#include "proto/report.h"
#include <fcntl.h>
#include <inttypes.h>
#include <time.h>

/* Sessions that may wait. */
#define WAITING_MAX 1000
/* Of the Parquet file of a session. */
#define FILE_MAX        (INT64_C(64) << 30)
#define SLICES_DEADLINE (30 * 60 * NS_PER_S)
#define DATE_MAX        32

struct slices_trace {
    char *path; /* of its columns */
    int fd;     /* or a negative errno value */
};

/* The file of one session. */
struct slices_job {
    struct slices *slices;
    int64_t session_id;
    char *path, *key;
    json_t *spec;
    struct slices_trace traces[REPORT_TRACES_MAX];
    size_t n;
    int64_t mapped;
    int fd; /* of the file, or a negative errno value */
};

struct slices {
    struct catalog *catalog;
    struct offload *offload;
    struct reports *pool;
    const int *is_wanted;
    void (*wake)(void *arg);
    void *wake_arg;
    char *directory;
    int64_t waiting[WAITING_MAX]; /* ids of sessions, the oldest first */
    size_t n;
    bool is_closed;
    struct slices_job *job;   /* NULL: none */
    struct report_work *work; /* NULL: it has not begun */
};

static void slices_next(struct slices *s);

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
    free(job->path);
    free(job->key);
    free(job);
}

static void slices_end_job(struct slices *s)
{
    slices_job_free(TAKE_PTR(s->job));
    slices_next(s);
}

/* -- The file ----------------------------------------------------------------------------------------- */

static void slices_on_end(struct report_end *end, void *arg)
{
    struct slices *s = arg;
    const struct slices_job *job = s->job;
    const struct upload_record upload = {.upload_id = RECORD_NONE,
                                         .kind = UPLOAD_SLICES,
                                         .trace_id = RECORD_NONE,
                                         .session_id = job->session_id,
                                         .path = job->path,
                                         .key = job->key,
                                         .size = end->size,
                                         .next_at = RECORD_NONE,
                                         .wanted_at = wall_ns()};
    int r = -EIO;

    s->work = NULL;
    if (end->problem.kind == PROBLEM_NONE)
        r = catalog_want_upload(s->catalog, &upload);
    if (r >= 0)
        r = catalog_commit(s->catalog, false);
    if (r < 0) {
        log_warning("no slices of session s%" PRId64 " for the archive: %s", job->session_id,
                    end->problem.what ? end->problem.what : strerror(-r));
        unlink(job->path);
    } else if (s->wake) {
        s->wake(s->wake_arg);
    }
    slices_end_job(s);
}

static void slices_open_files(void *arg)
{
    struct slices_job *job = arg;
    struct stat st;

    for (size_t i = 0; i < job->n; i++) {
        job->traces[i].fd = open_regular(AT_FDCWD, job->traces[i].path, &st);
        job->mapped += job->traces[i].fd >= 0 ? st.st_size : 0;
    }
    int r = make_dirs(job->slices->directory, 0700);
    job->fd = r < 0 ? r : open(job->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (job->fd < 0 && r >= 0)
        job->fd = -errno;
}

static void slices_on_opened(void *arg)
{
    struct slices_job *job = arg;
    struct slices *s = job->slices;
    _cleanup_(freep) char *spec = json_dumps(job->spec, JSON_COMPACT);
    int fds[REPORT_TRACES_MAX];
    bool all = job->fd >= 0;

    for (size_t i = 0; i < job->n; i++)
        all = all && job->traces[i].fd >= 0;
    if (!all || s->is_closed) {
        slices_end_job(s);
        return;
    }
    for (size_t i = 0; i < job->n; i++)
        fds[i] = TAKE_FD(job->traces[i].fd);
    const struct report_target target = {TAKE_FD(job->fd), FILE_MAX, SLICES_DEADLINE};
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

/* "v1/slice/date=2026-11-22/SESSION-CATALOG.parquet" (docs/parquet.md): the day (UTC) of its recording. */
static char *slices_key(const struct slices *s, const struct session_record *session)
{
    int64_t at = session->recording_at != RECORD_NONE ? session->recording_at : session->requested_at;
    time_t seconds = (time_t)(at / NS_PER_S);
    char date[DATE_MAX] = "";
    struct tm day;

    if (!gmtime_r(&seconds, &day) || strftime(date, sizeof(date), "%F", &day) == 0)
        return NULL;
    return xasprintf("v1/slice/date=%s/%s-%s.parquet", date, session->uuid, catalog_uuid(s->catalog));
}

static bool slices_begin(struct slices *s, int64_t session_id)
{
    _cleanup_(session_record_done) struct session_record session;
    const struct trace_filter filter = {.session_id = session_id,
                                        .since = RECORD_NONE,
                                        .until = RECORD_NONE,
                                        .before_id = RECORD_NONE,
                                        .limit = RECORD_NONE};

    session_record_init(&session);
    if (catalog_get_session(s->catalog, session_id, &session) < 0 || !session.uuid)
        return false;
    struct slices_job *job = xcalloc(1, sizeof(*job));
    *job = (struct slices_job){.slices = s,
                               .session_id = session_id,
                               .path = xasprintf("%s/s%" PRId64 ".parquet", s->directory, session_id),
                               .key = slices_key(s, &session),
                               .spec = json_pack("{s:s,s:[]}", "kind", "slices", "traces"),
                               .fd = -1};
    catalog_each_trace(s->catalog, &filter, slices_add_trace, job);
    if (job->n == 0 || !job->key) {
        slices_job_free(job);
        return false;
    }
    s->job = job;
    offload_run_in(s->offload, offload_queue_of_dir(s->directory), slices_open_files, slices_on_opened, job);
    return true;
}

static void slices_next(struct slices *s)
{
    while (s->n > 0 && !s->job && !s->is_closed) {
        int64_t session_id = s->waiting[0];
        memmove(s->waiting, s->waiting + 1, --s->n * sizeof(*s->waiting));
        if (slices_begin(s, session_id))
            return;
    }
}

/* The text begins with the state: "complete", "partial: WHY". */
static void slices_on_event(const json_t *event, void *arg)
{
    struct slices *s = arg;
    const char *kind = json_get_str(event, "kind"), *session = json_get_str(event, "session"),
               *text = json_get_str(event, "text");
    int64_t id;

    if (s->is_closed || !*s->is_wanted || !kind || !streq(kind, "session-state") || !session || !text ||
        parse_ref(session, 's', &id) != 's')
        return;
    if ((!starts_with(text, state_name(STATE_COMPLETE)) && !starts_with(text, "partial")) ||
        s->n == WAITING_MAX)
        return;
    s->waiting[s->n++] = id;
    slices_next(s);
}

/* ----------------------------------------------------------------------------------------------------- */

int slices_new(struct catalog *catalog, struct offload *offload, struct reports *pool, const int *is_wanted,
               const char *state_dir, struct slices **ret)
{
    struct slices *s = xcalloc(1, sizeof(*s));

    s->catalog = catalog;
    s->offload = offload;
    s->pool = pool;
    s->is_wanted = is_wanted;
    s->directory = xasprintf("%s/slices", state_dir);
    catalog_on_event(catalog, slices_on_event, s);
    *ret = s;
    return 0;
}

void slices_set_wake(struct slices *s, void (*wake)(void *arg), void *arg)
{
    s->wake = wake;
    s->wake_arg = arg;
}

void slices_close(struct slices *s)
{
    s->is_closed = true;
    if (!s->work)
        return;
    reports_cancel(TAKE_PTR(s->work));
    unlink(s->job->path);
    slices_job_free(TAKE_PTR(s->job));
}

struct slices *slices_free(struct slices *s)
{
    if (!s)
        return NULL;
    free(s->directory);
    free(s);
    return NULL;
}
