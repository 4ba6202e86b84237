/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/requests.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/catalog/catalog.h"
#include "daemon/catalog/uploads.h"
#include "daemon/report/background.h"
#include "daemon/report/request_table.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <time.h>

/* Rows that a thread writes before others get their turn: some ten milliseconds. */
#define PART_ROWS 10000
#define DATE_MAX  32

/* The file of one run. It belongs to a thread while that writes. */
struct requests_job {
    struct requests *requests;
    struct run_record run;
    struct request_origin origin;
    const char *directory;
    char *catalog_path, *catalog, *host; /* copies: the catalog may be renamed meanwhile */
    char *path, *draft, *key;
    FILE *out; /* NULL: not opened yet */
    struct request_table *table;
    int64_t last; /* number of the last row that was written, -1 */
    int64_t rows;
    bool is_over;
    int error;
};

struct requests {
    struct catalog *catalog;
    struct offload *offload;
    const int *is_wanted;
    void (*wake)(void *arg);
    void *wake_arg;
    char *directory;
    struct background *background;
    struct requests_job *job; /* NULL: none */
    bool is_closed;
};

static void requests_job_free(struct requests_job *job)
{
    char *const texts[] = {job->catalog_path, job->catalog, job->host, job->path, job->draft, job->key};

    request_table_free(job->table);
    if (job->out)
        fclose(job->out);
    run_record_done(&job->run);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        free(texts[i]);
    free(job);
}

/* -- On a thread ---------------------------------------------------------------------------------------- */

static int requests_open(struct requests_job *job)
{
    int r = make_dirs(job->directory, 0700);
    _cleanup_(closep) int fd =
        r < 0 ? -1 : open(job->draft, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return r < 0 ? r : errno == ENOENT ? -EIO : -errno;
    job->out = fdopen(fd, "w");
    if (!job->out)
        return -errno;
    TAKE_FD(fd);
    return request_table_new(&job->origin, job->out, &job->table);
}

static int requests_add(const struct request_row *row, void *arg)
{
    struct requests_job *job = arg;

    job->last = row->number;
    job->rows++;
    return request_table_add(job->table, row);
}

static int requests_finish(struct requests_job *job)
{
    int r = request_table_finish(job->table);

    errno = 0;
    if (r >= 0 && (fflush(job->out) != 0 || fsync(fileno(job->out)) < 0))
        r = errno > 0 ? -errno : -EIO;
    return r;
}

static void requests_write_part(void *arg)
{
    struct requests_job *job = arg;

    int r = job->out ? 0 : requests_open(job);
    int64_t n =
        r < 0 ? r
              : requests_read(job->catalog_path, job->run.run_id, job->last, PART_ROWS, requests_add, job);
    job->is_over = n < PART_ROWS;
    job->error = n < 0 ? (int)n : job->is_over && job->rows > 0 ? requests_finish(job) : 0;
}

/* -- On the loop ---------------------------------------------------------------------------------------- */

static int requests_hand_over(struct requests *q)
{
    const struct requests_job *job = q->job;
    struct stat st;
    const struct upload_record upload = {.upload_id = RECORD_NONE,
                                         .kind = UPLOAD_SLICES,
                                         .trace_id = RECORD_NONE,
                                         .session_id = RECORD_NONE,
                                         .path = job->path,
                                         .key = job->key,
                                         .size = fstat(fileno(job->out), &st) < 0 ? 0 : st.st_size,
                                         .next_at = RECORD_NONE};

    if (rename(job->draft, job->path) < 0)
        return errno == ENOENT ? -EIO : -errno;
    return catalog_want_upload(q->catalog, &upload);
}

static void requests_on_part(void *arg)
{
    struct requests_job *job = arg;
    struct requests *q = job->requests;
    int r = job->error;

    if (!q->is_closed && r >= 0 && !job->is_over) {
        offload_run_in(q->offload, offload_queue_of_dir(q->directory), requests_write_part, requests_on_part,
                       job);
        return;
    }
    if (r >= 0 && job->is_over)
        r = q->is_closed ? -ECANCELED : job->rows > 0 ? requests_hand_over(q) : -ENOENT;
    if (r < 0)
        unlink(job->draft);
    requests_job_free(TAKE_PTR(q->job));
    if (q->is_closed)
        return;
    background_end(q->background, r, NULL);
    if (r >= 0 && q->wake)
        q->wake(q->wake_arg);
}

/* "v1/request/date=2026-11-22/RUN-CATALOG.parquet" (docs/parquet.md): the day (UTC) of its first request. */
static char *requests_key(const struct run_record *run, const char *catalog)
{
    int64_t at = run->started_at != RECORD_NONE ? run->started_at : run->requested_at;
    time_t seconds = (time_t)(at / NS_PER_S);
    char date[DATE_MAX] = "";
    struct tm day;

    if (!run->uuid || !gmtime_r(&seconds, &day) || strftime(date, sizeof(date), "%F", &day) == 0)
        return NULL;
    return xasprintf("v1/request/date=%s/%s-%s.parquet", date, run->uuid, catalog);
}

static int requests_begin(int64_t run_id, void *arg)
{
    struct requests *q = arg;

    if (!*q->is_wanted)
        return -ENOENT;
    struct requests_job *job = xcalloc(1, sizeof(*job));
    *job = (struct requests_job){.requests = q,
                                 .catalog_path = xstrdup(catalog_path(q->catalog)),
                                 .catalog = xstrdup(catalog_uuid(q->catalog)),
                                 .host = xstrdup(catalog_host(q->catalog)),
                                 .directory = q->directory,
                                 .path = xasprintf("%s/r%" PRId64 ".request.parquet", q->directory, run_id),
                                 .draft =
                                     xasprintf("%s/r%" PRId64 ".request.parquet.draft", q->directory, run_id),
                                 .last = -1};
    run_record_init(&job->run);
    int r = catalog_get_run(q->catalog, run_id, &job->run);
    job->key = r < 0 ? NULL : requests_key(&job->run, job->catalog);
    if (!job->key) {
        requests_job_free(job);
        return r < 0 ? r : -ENOENT;
    }
    job->origin = (struct request_origin){.catalog = job->catalog,
                                          .host = job->host,
                                          .model = job->run.model,
                                          .run_id = run_id,
                                          .session_id = job->run.session_id,
                                          .started_at = job->run.started_at};
    q->job = job;
    offload_run_in(q->offload, offload_queue_of_dir(q->directory), requests_write_part, requests_on_part,
                   job);
    return 0;
}

/* A run that ended is in the catalog by then (background_row). */
static void requests_on_event(const json_t *event, void *arg)
{
    const char *kind = json_get_str(event, "kind");
    struct requests *q = arg;

    if (kind && streq(kind, "run"))
        background_wake(q->background);
}

int requests_new(struct event_base *base, struct catalog *catalog, struct offload *offload,
                 const int *is_wanted, const char *state_dir, struct requests **ret)
{
    static const struct background_ops ops = {BACKGROUND_REQUESTS, "requests of run r", requests_begin};
    struct requests *q = xcalloc(1, sizeof(*q));

    q->catalog = catalog;
    q->offload = offload;
    q->is_wanted = is_wanted;
    q->directory = xasprintf("%s/slices", state_dir);
    q->background = background_new(base, catalog, &ops, q);
    catalog_on_event(catalog, requests_on_event, q);
    *ret = q;
    return 0;
}

void requests_set_wake(struct requests *q, void (*wake)(void *arg), void *arg)
{
    q->wake = wake;
    q->wake_arg = arg;
}

void requests_close(struct requests *q)
{
    q->is_closed = true;
    background_close(q->background);
}

struct requests *requests_free(struct requests *q)
{
    if (!q)
        return NULL;
    background_free(q->background);
    free(q->directory);
    free(q);
    return NULL;
}
