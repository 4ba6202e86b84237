/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches a trace of which only the archive has the file:
 *
 *   room in the store -> GET into a file without a name -> size and SHA-256 are those of the row -> name in the store, synced
 *   -> row -> columns, where somebody waits for them
 *
 * Of several who wait for one trace, the first begins it. Older archived traces leave the store for it, none that is not
 * archived. A crash leaves a file without a name, or one whose row is found by its content (import_row.c).
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/archive/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

struct fetch_waiter {
    STAILQ_ENTRY(fetch_waiter) link;
    void (*done)(const struct problem *p, void *arg);
    void *arg;
};
STAILQ_HEAD(fetch_waiters, fetch_waiter);

struct fetch {
    TAILQ_ENTRY(fetch) link;
    struct archiver *archiver;
    int64_t trace_id;
    bool columns; /* somebody waits for them */
    struct fetch_waiters waiters;
    struct trace_record row;
    struct archive_job *job;
    int64_t holder, bytes;
    char *incoming, *path;
    int fd, err;
    int64_t disk_size;
    bool has_pending, is_cancelled;
    struct event *later;
};

/* -- The end ------------------------------------------------------------------------------------------- */

static void fetch_free(struct fetch *f)
{
    if (f->incoming) {
        store_unlink(f->incoming);
        free(f->incoming);
    }
    if (f->bytes > 0)
        store_incoming_done(f->archiver->modules.store, f->holder, f->bytes);
    closep(&f->fd);
    trace_record_done(&f->row);
    if (f->later)
        event_free(f->later);
    free(f->path);
    free(f);
}

static void fetch_tell(struct fetch *f, const struct problem *p)
{
    struct fetch_waiter *w;

    while ((w = STAILQ_FIRST(&f->waiters))) {
        STAILQ_REMOVE_HEAD(&f->waiters, link);
        w->done(p, w->arg);
        free(w);
    }
}

static void fetch_end(struct fetch *f, const struct problem *p)
{
    struct archiver *a = f->archiver;

    TAILQ_REMOVE(&a->fetches, f, link);
    a->counts.fetches_failed += p != NULL;
    if (p)
        log_struct(LOG_WARNING, LOG_FIELDS(.trace_id = f->trace_id), "%s", p->what);
    fetch_tell(f, p);
    fetch_free(f);
}

static void fetch_fail(struct fetch *f, int err, enum problem_kind kind, const char *why, const char *remedy)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, err, kind, "cannot fetch t%" PRId64 " from the archive: %s", f->trace_id, why);
    if (remedy)
        problem_remedy(&p, "%s", remedy);
    fetch_end(f, &p);
}

/* -- Its columns --------------------------------------------------------------------------------------- */

static void fetch_on_columns(void *arg)
{
    struct fetch *f = arg;

    f->has_pending = false;
    if (f->is_cancelled)
        fetch_free(f);
    else
        fetch_end(f, NULL);
}

static void fetch_go_on(struct fetch *f)
{
    struct archiver *a = f->archiver;
    struct trace_record now;

    trace_record_init(&now);
    bool is_needed = f->columns && catalog_get_trace(a->modules.catalog, f->trace_id, &now) == 0 &&
                     !now.columns && !trace_is_archived_only(&now);
    if (is_needed) {
        f->has_pending = true;
        collector_read_columns(a->modules.collector, &now, fetch_on_columns, f);
    }
    trace_record_done(&now);
    if (!is_needed)
        fetch_end(f, NULL);
}

/* -- Into the store ------------------------------------------------------------------------------------ */

static void fetch_save(struct fetch *f)
{
    struct archiver *a = f->archiver;
    struct catalog *catalog = a->modules.catalog;

    int r = catalog_set_fetched(catalog, f->trace_id, f->path, f->disk_size);
    if (r >= 0)
        r = catalog_add_event(catalog, "trace-fetched", "profd", f->row.session_id, RECORD_NONE, f->trace_id,
                              "%s", f->row.archive_key);
    if (r >= 0)
        r = catalog_commit(catalog, false);
    if (r < 0) {
        store_unlink(f->path);
        fetch_fail(f, r, PROBLEM_STORAGE, r == -ENOENT ? "it was removed meanwhile" : strerror(-r), NULL);
        return;
    }
    a->counts.fetched++;
    a->counts.fetched_bytes += (uint64_t)f->row.size;
    fetch_go_on(f);
}

static void fetch_publish(void *arg)
{
    struct fetch *f = arg;
    _cleanup_(freep) char *dir = f->row.session_id == RECORD_NONE ? xstrdup(STORE_UNCLAIMED_DIR)
                                                                  : xasprintf("s%" PRId64, f->row.session_id);
    struct stat st = {0};

    f->err = fsync(f->fd) < 0 || fstat(f->fd, &st) < 0 ? -errno : 0;
    if (f->err == 0)
        f->disk_size = st.st_blocks * STAT_BLOCK_BYTES;
    if (f->err == 0)
        f->err = store_publish(f->archiver->modules.store, f->incoming, dir, f->row.name, &f->path);
    if (f->path)
        free(TAKE_PTR(f->incoming));
}

static void fetch_on_published(void *arg)
{
    struct fetch *f = arg;

    f->has_pending = false;
    if ((f->is_cancelled || f->err < 0) && f->path)
        store_unlink(f->path);
    if (f->is_cancelled)
        fetch_free(f);
    else if (f->err < 0)
        fetch_fail(f, f->err, PROBLEM_STORAGE, strerror(-f->err), NULL);
    else
        fetch_save(f);
}

static void fetch_on_answer(struct archive_result *result, void *arg)
{
    struct fetch *f = arg;

    f->job = NULL;
    if (result->err < 0) {
        fetch_fail(f, result->err, result->problem.kind, result->problem.what, result->problem.remedy);
        return;
    }
    if ((int64_t)result->object.size != f->row.size || !streq(result->object.sha256, f->row.sha256)) {
        fetch_fail(f, -EBADMSG, PROBLEM_STORAGE, "the object has another content than the catalog knows",
                   "Find out who wrote to the bucket; another host may still have the trace.");
        return;
    }
    f->has_pending = true;
    offload_run(f->archiver->modules.offload, fetch_publish, fetch_on_published, f);
}

/* -- The begin ----------------------------------------------------------------------------------------- */

static void fetch_request(struct fetch *f)
{
    struct archiver *a = f->archiver;
    struct store *store = a->modules.store;

    f->holder = store_holder(store, f->row.owner_uid, f->row.worker_url);
    int r = store_make_room(store, f->holder, f->row.size, 0, INT64_MAX);
    if (r < 0) {
        _cleanup_(freep) char *why = store_refusal(store, f->holder, r);
        fetch_fail(f, r, PROBLEM_STORAGE, why,
                   "Free space in the store: profctl vacuum, or raise [store] max_use=.");
        return;
    }
    r = store_incoming(store, f->holder, f->row.size, &f->fd, &f->incoming);
    if (r < 0) {
        fetch_fail(f, r, PROBLEM_STORAGE, strerror(-r), NULL);
        return;
    }
    f->bytes = f->row.size;
    const struct archive_request q = {
        .verb = ARCHIVE_GET,
        .key = f->row.archive_key,
        .fd = f->fd,
        .size_max = (uint64_t)f->row.size,
        .sha256 = f->row.sha256,
        .deadline_ns = mono_ns() + ARCHIVE_REQUEST_NS + f->row.size / ARCHIVE_SLOWEST_BYTES_PER_S * NS_PER_S,
        .patience_ns = ARCHIVE_PATIENCE_NS,
    };
    f->job = archive_start(archiver_loop(a, ROLE_READ), &q, fetch_on_answer, f);
}

static void fetch_begin(struct fetch *f)
{
    struct archiver *a = f->archiver;
    int r = catalog_get_trace(a->modules.catalog, f->trace_id, &f->row);

    if (r < 0)
        fetch_fail(f, r, r == -ENOENT ? PROBLEM_NOT_FOUND : PROBLEM_STORAGE,
                   r == -ENOENT ? "there is no such trace" : strerror(-r), NULL);
    else if (!trace_is_archived_only(&f->row))
        fetch_go_on(f);
    else if (a->closing)
        fetch_fail(f, -ECANCELED, PROBLEM_CONFLICT, "profd is shutting down", NULL);
    else if (!archiver_loop(a, ROLE_READ))
        fetch_fail(f, -ENODEV, PROBLEM_GONE, "its file is in an archive, and none is configured",
                   "Set [archive] url= in profd.conf to the archive that has it.");
    else
        fetch_request(f);
}

static void fetch_on_later(evutil_socket_t fd, short what, void *arg)
{
    fetch_begin(arg);
}

static struct fetch *fetch_find(struct archiver *a, int64_t trace_id)
{
    struct fetch *f;

    TAILQ_FOREACH(f, &a->fetches, link)
        if (f->trace_id == trace_id)
            return f;
    f = xcalloc(1, sizeof(*f));
    *f = (struct fetch){.archiver = a, .trace_id = trace_id, .fd = -1};
    trace_record_init(&f->row);
    STAILQ_INIT(&f->waiters);
    TAILQ_INSERT_TAIL(&a->fetches, f, link);
    f->later = event_new(a->modules.base, -1, 0, fetch_on_later, f);
    event_active(f->later, EV_TIMEOUT, 0);
    return f;
}

void archiver_fetch(struct archiver *a, int64_t trace_id, bool columns,
                    void (*done)(const struct problem *p, void *arg), void *arg)
{
    struct fetch *f = fetch_find(a, trace_id);
    struct fetch_waiter *w = xcalloc(1, sizeof(*w));

    *w = (struct fetch_waiter){.done = done, .arg = arg};
    STAILQ_INSERT_TAIL(&f->waiters, w, link);
    f->columns = f->columns || columns;
}

int64_t archiver_fetched_bytes(const struct archiver *a, int64_t trace_id)
{
    const struct fetch *f;
    struct stat st;

    TAILQ_FOREACH(f, &a->fetches, link)
        if (f->trace_id == trace_id)
            return f->fd >= 0 && fstat(f->fd, &st) == 0 ? st.st_size : 0;
    return -1;
}

void fetches_cancel(struct archiver *a)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct fetch *f;

    problem_set(&p, -ECANCELED, PROBLEM_CONFLICT, "the archive is being closed");
    while ((f = TAILQ_FIRST(&a->fetches))) {
        TAILQ_REMOVE(&a->fetches, f, link);
        if (f->job)
            archive_cancel(TAKE_PTR(f->job));
        event_del(f->later);
        fetch_tell(f, &p);
        f->is_cancelled = true;
        if (!f->has_pending)
            fetch_free(f);
    }
}
