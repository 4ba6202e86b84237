/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The import job, from an open file to its row:
 *
 *   room in the store -> profd-ingest (check, hash, copy, columns) -> accept -> attribute -> copy gets its
 *   name, synced -> row -> done()
 *
 * A job that cannot be stored (store full, read-only) is cataloged in place: nothing is lost.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/collect/pipeline.h"
#include "trace/read/format.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#define RESAVE_INTERVAL_NS (2 * NS_PER_S)
/* The data of a copy is rounded up to it on the disk. */
#define COPY_BLOCK_BYTES INT64_C(4096)

struct import_job *import_job_new(struct collector *c, enum import_source source, const char *path,
                                  void (*done)(struct import_job *job))
{
    struct import_job *job = xcalloc(1, sizeof(*job));
    const char *slash = strrchr(path, '/');

    *job = (struct import_job){.collector = c,
                               .source = source,
                               .done = done,
                               .dir_path = xstrndup(path, (size_t)(slash - path)),
                               .name = xstrdup(slash + 1),
                               .origin = xstrdup(path),
                               .process_started = RECORD_NONE,
                               .fd = -1};
    trace_record_init(&job->row);
    return job;
}

void import_job_free(struct import_job *job)
{
    struct collector *c = job->collector;

    if (job->incoming)
        unlink(job->incoming);
    if (job->started) {
        store_incoming_done(c->store, job->holder, job->expected_bytes);
        c->n_importing--;
    }
    columns_drop_draft(&job->columns);
    trace_record_done(&job->row);
    json_decref(job->facts);
    problem_done(&job->problem);
    location_done(&job->location);
    reference_done(&job->reference);
    closep(&job->fd);
    char *const texts[] = {
        job->dir_path,         job->name,           job->origin,         job->stored_name,
        job->refusal,          job->actor,          job->queue_user,     job->holder_url,
        job->store_note,       job->incoming,       job->store_dir,      job->outdated_path,
        job->outdated_columns, job->columns_reason, job->options.labels, job->options.session_name};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        free(texts[i]);
    free(job);
    event_active(c->background, EV_TIMEOUT, 0);
}

static void import_end(struct import_job *job, enum import_outcome outcome)
{
    job->outcome = outcome;
    job->done(job);
    import_job_free(job);
}

/* -- The row -- */

static void import_save(struct import_job *job);

static void import_save_later(struct import_job *job)
{
    struct collector *c = job->collector;
    struct timeval interval = timeval_of(RESAVE_INTERVAL_NS);

    row_unsave(job);
    if (TAILQ_EMPTY(&c->unsaved))
        log_error("the catalog cannot save the row of %s; profd tries again until it can", job->origin);
    TAILQ_INSERT_TAIL(&c->unsaved, job, next_unsaved);
    event_add(c->resave, &interval);
}

/* A write that succeeded can still be lost with the commit of its batch. */
static void import_on_committed(int err, void *arg)
{
    struct import_job *job = arg;
    struct trace_record *row = &job->row;
    bool is_complete = row->state == TRACE_COMPLETE || row->state == TRACE_DUPLICATE;

    if (err < 0 && !job->collector->closing) {
        import_save_later(job);
        return;
    }
    job->err = job->err < 0 ? job->err : err;
    if (job->err < 0) {
        log_error("cannot catalog %s: %s", row->path, strerror(-job->err));
        import_end(job, IMPORT_UNSAVED);
        return;
    }
    if (row->state == TRACE_UNREADABLE)
        log_struct(LOG_WARNING,
                   LOG_FIELDS(.session_id = row->session_id, .trace_id = row->trace_id,
                              .worker = row->worker_url, .message_id = MESSAGE_TRACE_UNREADABLE),
                   "trace t%" PRId64 ": %s cannot be read: %s", row->trace_id,
                   row->origin ? row->origin : row->path, row->reason ? row->reason : "no reason");
    row_committed(job);
    if (job->remove_original && row->stored && is_complete)
        original_remove(job);
    import_end(job, IMPORT_SAVED);
}

static void import_save(struct import_job *job)
{
    /* Two clients may name the same bytes at a time. */
    int r = job->source == IMPORT_REQUESTED ? row_find_same(job) : 0;

    if (r != 0) {
        if (job->row.stored && !job->in_place)
            store_unlink(job->row.path);
        import_end(job, r < 0 ? IMPORT_REFUSED : IMPORT_EXISTED);
        return;
    }
    job->err = row_save(job);
    catalog_then(job->collector->catalog, false, import_on_committed, job);
}

static void import_resave(evutil_socket_t fd, short what, void *arg)
{
    struct collector *c = arg;
    struct import_job_list again = TAILQ_HEAD_INITIALIZER(again);
    struct import_job *job;

    TAILQ_CONCAT(&again, &c->unsaved, next_unsaved);
    while ((job = TAILQ_FIRST(&again))) {
        TAILQ_REMOVE(&again, job, next_unsaved);
        import_save(job);
    }
}

void import_init(struct collector *c)
{
    TAILQ_INIT(&c->unsaved);
    c->resave = event_new(c->base, -1, 0, import_resave, c);
}

/* Their files are recovered at the next start, or discovered in place. */
void import_close(struct collector *c)
{
    struct import_job *job;

    event_del(c->resave);
    while ((job = TAILQ_FIRST(&c->unsaved))) {
        TAILQ_REMOVE(&c->unsaved, job, next_unsaved);
        import_end(job, IMPORT_CANCELLED);
    }
}

/* -- Into the store -- */

static void import_save_in_place(struct import_job *job, const char *why)
{
    struct trace_record *row = &job->row;

    /* A file of the store is recovered, or read again. */
    row->stored = store_holds(job->collector->store, job->origin);
    row->disk_size = row->stored ? row->disk_size : 0;
    replace_str(&row->path, job->origin);
    if (why) {
        log_struct(LOG_WARNING,
                   LOG_FIELDS(.session_id = row->session_id, .worker = row->worker_url,
                              .message_id = MESSAGE_STORE_FULL),
                   "%s is left in place: %s", job->origin, why);
        append_str(&row->reason, "%sleft in place: %s", row->reason ? "; " : "", why);
    }
    import_save(job);
}

static void import_publish(void *arg)
{
    struct import_job *job = arg;

    job->err = store_publish(job->collector->store, job->incoming, job->store_dir, import_stored_name(job),
                             &job->row.path);
    if (!job->row.path)
        return;
    if (job->err < 0)
        unlink(job->row.path);
    free(TAKE_PTR(job->incoming));
}

static void import_on_published(void *arg)
{
    struct import_job *job = arg;

    if (job->err < 0)
        import_save_in_place(job, strerror(-job->err));
    else
        import_save(job);
}

/* File systems may report fewer bytes of a file than its copy takes. */
static bool import_still_fits(struct import_job *job)
{
    struct store *store = job->collector->store;
    int64_t more = job->row.disk_size - job->expected_bytes;
    int r = more > 0 ? store_make_room(store, job->holder, more, 0, job->displaces_until) : 0;

    if (r < 0)
        job->store_note = store_refusal(store, job->holder, r);
    return r >= 0;
}

static void import_into_store(struct import_job *job)
{
    struct collector *c = job->collector;
    struct trace_record *row = &job->row;

    /* Without a hash the file was not read to its end, and so not copied to its end either. */
    bool is_copied = job->incoming && row->sha256 && import_still_fits(job);
    if (!is_copied || !is_plain_name(job->name)) {
        import_save_in_place(job, is_copied ? "its name contains control characters" : job->store_note);
        return;
    }
    row->stored = true;
    job->store_dir = row->session_id == RECORD_NONE ? xstrdup(STORE_UNCLAIMED_DIR)
                                                    : xasprintf("s%" PRId64, row->session_id);
    offload_run(c->offload, import_publish, import_on_published, job);
}

/* -- Reading -- */

static bool import_is_trace(const struct import_job *job)
{
    int format = job->row.format ? format_from_name(job->row.format) : -1;
    return job->row.columns_size != RECORD_NONE ||
           (format >= 0 && format_is_trace_json((enum trace_format)format));
}

static void import_explain_no_trace(struct import_job *job)
{
    const char *why = json_get_str(job->facts, "columns_reason");
    const char *remedy = json_get_str(job->facts, "remedy");

    if (!why)
        why = job->row.reason ? job->row.reason : "it contains no trace";
    problem_set(&job->problem, -EBADMSG, PROBLEM_UNSUPPORTED, "cannot import %s: %s", job->origin, why);
    problem_remedy(&job->problem, "%s",
                   remedy ? remedy
                          : "profctl ingest takes traces of torch.profiler and other Chrome traces, .json, "
                            ".gz or .zst, and databases of nsys export --type sqlite.");
}

static bool import_postpone(struct import_job *job, enum import_postponed why)
{
    job->outcome = IMPORT_POSTPONED;
    job->postponed = why;
    return false;
}

/* Whether the file that was read is to be cataloged; sets the outcome where it is not. */
static bool import_accept(struct import_job *job, const struct ingest_result *r)
{
    if (job->source == IMPORT_REQUESTED) {
        bool is_full = r->err == -ENOSPC || r->err == -EDQUOT;
        job->outcome = IMPORT_REFUSED;
        if (r->err < 0)
            problem_set(&job->problem, r->err, is_full ? PROBLEM_STORAGE : PROBLEM_INTERNAL,
                        "cannot import %s: %s", job->origin, r->reason ? r->reason : strerror(-r->err));
        else if (!job->row.sha256 || !import_is_trace(job))
            import_explain_no_trace(job);
        return !job->problem.what;
    }
    if (r->err == -EAGAIN)
        return import_postpone(job, POSTPONED_BUSY);
    if (job->source == IMPORT_RECOVERED)
        return true;
    if (json_get_int(r->facts, "error", 0) > 0)
        return import_postpone(job, POSTPONED_STORE_FAILED);
    if (job->changed)
        return import_postpone(job, POSTPONED_CHANGED);
    if (job->may_be_unfinished && job->row.state != TRACE_COMPLETE)
        return import_postpone(job, POSTPONED_UNFINISHED);
    if (job->check_first && job->row.state == TRACE_COMPLETE)
        return import_postpone(job, POSTPONED_WORTHWHILE);
    return true;
}

static void import_read(struct import_job *job, int source_fd, int dest_fd);

/* A file whose columns cost profd-ingest its life is read once more, without columns. */
static bool import_read_without_columns(struct import_job *job, const struct ingest_result *r)
{
    if (!job->columns.path || r->err < 0 || json_object_size(r->facts) > 0)
        return false;
    /* The file that was opened, whichever has its name by now. */
    _cleanup_(closep) int source_fd = fcntl(r->source_fd, F_DUPFD_CLOEXEC, 0);
    _cleanup_(closep) int dest_fd = r->dest_fd >= 0 ? fcntl(r->dest_fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (source_fd < 0 || (r->dest_fd >= 0 && (dest_fd < 0 || ftruncate(dest_fd, 0) < 0)))
        return false;
    log_warning("%s is read without columns: %s", job->origin, r->reason ? r->reason : "no reason");
    columns_drop_draft(&job->columns);
    job->no_columns = true;
    job->columns_reason = xstrdup(r->reason);
    job->columns_used_up = r->used_up;
    import_read(job, TAKE_FD(source_fd), TAKE_FD(dest_fd));
    return true;
}

static void import_on_read(const struct ingest_result *r, void *arg)
{
    struct import_job *job = arg;

    if (job->collector->closing) {
        import_end(job, IMPORT_CANCELLED);
        return;
    }
    if (job->source == IMPORT_REREAD) {
        job->read = r;
        import_end(job, IMPORT_READ);
        return;
    }
    if (import_read_without_columns(job, r))
        return;
    row_fill(job, r);
    if (!import_accept(job, r)) {
        import_end(job, job->outcome);
        return;
    }
    int e = attribute_job(job);
    if (e == 0 && job->source == IMPORT_REQUESTED)
        e = row_find_same(job);
    if (e == 0)
        import_into_store(job);
    else
        import_end(job, e < 0                              ? IMPORT_REFUSED
                        : job->source == IMPORT_DISCOVERED ? IMPORT_ELSEWHERE
                                                           : IMPORT_EXISTED);
}

static void import_open_columns(struct ingest_columns *ret, void *arg)
{
    struct import_job *job = arg;
    struct collector *c = job->collector;
    columns_open_draft(&job->columns, c->store, ingest_children_max(c->ingest), ret);
}

static void import_drop_columns(void *arg)
{
    columns_drop_draft(&((struct import_job *)arg)->columns);
}

/* The result that profd-ingest would report after spending the time. */
static void import_refuse_holes(struct import_job *job, int source_fd)
{
    _cleanup_(freep) char *reason =
        xasprintf("more than %d MiB of it were never written (holes)", (int)(FILE_HOLES_MAX >> 20));
    _cleanup_json_ facts = json_object();
    _cleanup_(closep) int fd = source_fd;

    json_put_str(facts, "remedy",
                 "Copy the file again once its writer has finished; du prints its size on the disk.");
    import_on_read(
        &(const struct ingest_result){
            .state = TRACE_CORRUPT, .reason = reason, .facts = facts, .source_fd = fd, .dest_fd = -1},
        job);
}

/* Takes the descriptors. */
static void import_read(struct import_job *job, int source_fd, int dest_fd)
{
    struct collector *c = job->collector;

    if (job->holes > FILE_HOLES_MAX) {
        import_refuse_holes(job, source_fd);
        return;
    }
    const struct ingest_request request = {.source_fd = source_fd,
                                           .source_size = job->size,
                                           .dest_fd = dest_fd,
                                           .open_columns = job->no_columns ? NULL : import_open_columns,
                                           .drop_columns = job->no_columns ? NULL : import_drop_columns,
                                           .user = job->queue_user,
                                           .source = job->dir_path,
                                           .size_max = c->settings->file_max,
                                           .memory_max = c->settings->columns_memory,
                                           .background = job->source == IMPORT_REREAD};
    ingest_run(c->ingest, &request, import_on_read, job);
}

/* -- The start -- */

/* A copy of the same file when it was incomplete gives way first: the file itself has more by now. */
static void import_drop_incomplete(const struct import_job *job)
{
    struct catalog *catalog = job->collector->catalog;
    struct trace_record t;

    trace_record_init(&t);
    if (job->replaces_id != 0 && catalog_get_trace(catalog, job->replaces_id, &t) == 0 && t.stored) {
        _cleanup_(freep) char *copy = TAKE_PTR(t.path);
        t.path = xstrdup(job->origin);
        t.stored = false;
        t.disk_size = 0;
        if (catalog_save_trace(catalog, &t) >= 0 && catalog_commit(catalog, false) >= 0)
            store_unlink(copy);
    }
    trace_record_done(&t);
}

/* Opens a copy in the store, for which older traces are removed; if there is no room, store_note has the
 * reason. -EMFILE, -ENFILE, -EBUSY: not now. */
static int import_open_copy(struct import_job *job, int *ret_dest_fd)
{
    struct store *store = job->collector->store;
    int64_t data = job->size - job->holes;
    int64_t expected = (data + COPY_BLOCK_BYTES - 1) / COPY_BLOCK_BYTES * COPY_BLOCK_BYTES;

    if (job->holes > FILE_HOLES_MAX)
        return 0;
    if (!store_has_room(store, expected))
        import_drop_incomplete(job);
    int r = store_make_room(store, job->holder, expected, 0, job->displaces_until);
    if (r >= 0)
        r = store_incoming(store, job->holder, expected, ret_dest_fd, &job->incoming);
    /* Temporary: descriptors, and the catalog's lock, which the removal of other traces needs. */
    if (r == -EMFILE || r == -ENFILE || r == -EBUSY)
        return r;
    if (r >= 0)
        job->expected_bytes = expected;
    else
        job->store_note = store_refusal(store, job->holder, r);
    return 0;
}

char *import_queue_user(uid_t owner)
{
    return xasprintf("uid %u", owner);
}

void import_start(struct import_job *job)
{
    struct collector *c = job->collector;
    const struct stat *st = &job->st;
    int dest_fd = -1;

    job->started = true;
    c->n_importing++;
    job->size = st->st_size;
    job->mtime_ns = st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec;
    job->displaces_until = job->displaces_newer ? INT64_MAX : job->mtime_ns;
    job->holder = store_holder(c->store, st->st_uid, job->holder_url);
    job->no_columns = job->no_columns || !c->settings->columns;
    job->actor = job->actor ? job->actor : xstrdup("profd");
    /* A file that is read in the background counts to no user. */
    if (!job->queue_user && job->source != IMPORT_REREAD)
        job->queue_user = import_queue_user(st->st_uid);
    job->err = job->copy ? import_open_copy(job, &dest_fd) : 0;
    if (job->err < 0) {
        import_postpone(job, POSTPONED_BUSY);
        import_end(job, IMPORT_POSTPONED);
        return;
    }
    import_read(job, TAKE_FD(job->fd), dest_fd);
}
