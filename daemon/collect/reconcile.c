/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When profd starts, store and catalog are compared in portions while everything else runs: first the files,
 * those without a row are recovered; then the rows, those without a file become missing, a file that exists
 * again is read again, and sizes on the disk are updated; then the columns, of which those without a row are
 * removed. Last, traces without columns, or with columns of an older version, are read: one at a time, the
 * newest first, at the lowest priority, each once in the life of profd.
 *
 * Blocking work (directories, the existence of files) runs on the offload, one portion at a time; the catalog
 * is asked on the loop in between. The directory of a session that is not over is skipped: its files are being
 * collected from where the worker wrote them. When such sessions are over, all is compared once more: the
 * remains of a crash may be all there is of a trace.
 */
#include "base/alloc.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/catalog/uploads.h"
#include "daemon/collect/pipeline.h"
#include "proto/ingest.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#define RECONCILE_PORTION  256
#define RECOVERING_MAX     4 /* jobs at a time, so that sessions need not wait for them */
#define MISSING_LOGGED_MAX 5

enum reconcile_phase { PHASE_FILES, PHASE_ROWS, PHASE_COLUMNS, _PHASE_MAX };

struct reconcile_item {
    int64_t trace_id; /* of a row, or of the name of columns */
    char *path;
    char *columns;
    bool was_missing;
    int err, columns_err;    /* 0: the file is there */
    int64_t disk_size;       /* on the disk */
    int64_t known_disk_size; /* in the row; RECORD_NONE: it is not stored */
};

struct reconcile {
    struct collector *collector;
    enum reconcile_phase phase;
    DIR *root, *dir, *columns;
    char *dir_path;
    struct trace_position at;
    struct reconcile_item items[RECONCILE_PORTION];
    size_t n, next;
    bool waiting; /* for recovery jobs, or removals */
    size_t n_missing;
};

static void reconcile_on_portion(void *arg);

static void reconcile_drop_items(struct reconcile *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->items[i].path);
        free(r->items[i].columns);
    }
    r->n = r->next = 0;
}

static void reconcile_close_dir(struct reconcile *r)
{
    if (r->dir)
        closedir(r->dir);
    r->dir = NULL;
    free(r->dir_path);
    r->dir_path = NULL;
}

static void reconcile_drop(struct reconcile *r)
{
    reconcile_drop_items(r);
    reconcile_close_dir(r);
    if (r->root)
        closedir(r->root);
    if (r->columns)
        closedir(r->columns);
    free(r);
}

/* -- Files: on the offload -- */

static bool reconcile_next_dir(struct reconcile *r)
{
    struct dirent *entry;

    reconcile_close_dir(r);
    while (!r->dir && (entry = readdir(r->root))) {
        if (entry->d_name[0] == '.')
            continue;
        free(r->dir_path);
        r->dir_path = xasprintf("%s/%s", store_path(r->collector->store), entry->d_name);
        r->dir = opendir(r->dir_path);
    }
    return r->dir;
}

static void reconcile_take_file(struct reconcile *r, const char *name)
{
    struct stat st;

    if (name[0] == '.' || fstatat(dirfd(r->dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return;
    r->items[r->n++] = (struct reconcile_item){.path = xasprintf("%s/%s", r->dir_path, name)};
}

static void reconcile_list_files(void *arg)
{
    struct reconcile *r = arg;
    struct dirent *entry;

    while (r->root && r->n < RECONCILE_PORTION) {
        if (!r->dir && !reconcile_next_dir(r))
            return;
        entry = readdir(r->dir);
        if (entry)
            reconcile_take_file(r, entry->d_name);
        else
            reconcile_close_dir(r);
    }
}

/* -- Files: on the loop -- */

static bool reconcile_is_of_running_session(const struct reconcile *r, const char *path)
{
    const char *dir = path + strlen(store_path(r->collector->store)) + 1;
    _cleanup_(freep) char *name = xstrndup(dir, strcspn(dir, "/"));
    int64_t id;

    if (name[0] != 's' || parse_ref(name, 's', &id) != 's')
        return false;
    /* A session whose end the catalog could not save yet collects nothing more. */
    const struct session *s = sessions_find(r->collector->sessions, id);
    return s && !s->finished_unsaved;
}

static void reconcile_open_work(void *arg)
{
    struct import_job *job = arg;

    job->fd = reference_open(&job->reference, &job->st);
    if (job->fd >= 0 && job->source == IMPORT_RECOVERED)
        job->holes = file_holes(job->fd, &job->st);
}

static void reconcile_on_opened(void *arg)
{
    struct import_job *job = arg;

    if (job->fd >= 0 && !job->collector->closing) {
        import_start(job);
        return;
    }
    job->outcome = IMPORT_CANCELLED;
    job->done(job);
    import_job_free(job);
}

/* Opens a file and imports it in place. One that was left in place may be on a server that does not respond. Takes
 * the reference. */
static void reconcile_open(struct collector *c, enum import_source source,
                           struct file_reference *take_reference, void (*done)(struct import_job *job),
                           void *arg)
{
    struct import_job *job = import_job_new(c, source, take_reference->path, done);

    job->options.arg = arg;
    job->reference = *take_reference;
    job->process_started = take_reference->process_started;
    job->in_place = true;
    offload_run_in(c->offload, offload_queue_of_file(job->origin), reconcile_open_work, reconcile_on_opened,
                   job);
}

static void reconcile_on_recovered(struct import_job *job)
{
    job->collector->n_recovering--;
}

static void reconcile_recover_file(struct collector *c, struct file_reference *take_reference)
{
    c->n_recovering++;
    reconcile_open(c, IMPORT_RECOVERED, take_reference, reconcile_on_recovered, NULL);
}

static bool reconcile_can_recover(const struct collector *c)
{
    return c->n_recovering < RECOVERING_MAX && !ingest_is_full(c->ingest);
}

/* False where it must wait: for a removal, too, which may be about to remove the file. */
static bool reconcile_file(struct reconcile *r, const struct reconcile_item *item)
{
    struct collector *c = r->collector;
    struct trace_record known;
    struct file_reference reference;

    trace_record_init(&known);
    int e = catalog_find_trace_by_path(c->catalog, item->path, &known);
    trace_record_done(&known);
    if (e != -ENOENT)
        return true;
    if (store_is_removing(c->store))
        return false;
    if (reconcile_is_of_running_session(r, item->path)) {
        c->skipped_session = true;
        return true;
    }
    if (!reconcile_can_recover(r->collector))
        return false;
    log_notice("%s is in the store and not in the catalog: recovered", item->path);
    reference_of_stored(item->path, &reference);
    reconcile_recover_file(r->collector, &reference);
    return true;
}

/* -- Rows -- */

static int reconcile_take_row(const struct trace_record *t, void *arg)
{
    struct reconcile *r = arg;

    r->at = (struct trace_position){t->recorded_at, t->trace_id};
    r->items[r->n++] = (struct reconcile_item){.trace_id = t->trace_id,
                                               .path = xstrdup(t->path),
                                               .columns = xstrdup(t->columns),
                                               .was_missing = t->state == TRACE_MISSING,
                                               .known_disk_size = t->stored ? t->disk_size : RECORD_NONE};
    return 0;
}

static void reconcile_take_rows(struct reconcile *r)
{
    struct trace_filter filter = {.session_id = RECORD_NONE,
                                  .since = RECORD_NONE,
                                  .until = r->at.at,
                                  .before_id = r->at.trace_id,
                                  .limit = RECONCILE_PORTION};

    int e = catalog_each_trace(r->collector->catalog, &filter, reconcile_take_row, r);
    if (e == -ENOENT) { /* the row was removed meanwhile: its time is still a position */
        filter.before_id = RECORD_NONE;
        catalog_each_trace(r->collector->catalog, &filter, reconcile_take_row, r);
    }
}

static void reconcile_stat_files(void *arg)
{
    struct reconcile *r = arg;

    for (size_t i = 0; i < r->n; i++) {
        struct reconcile_item *item = &r->items[i];
        struct stat st = {0};
        /* What only the archive has is not missing here. */
        item->err = starts_with(item->path, ARCHIVED_PATH) ? 0 : stat(item->path, &st) < 0 ? -errno : 0;
        item->disk_size = item->err == 0 ? st.st_blocks * STAT_BLOCK_BYTES : 0;
        item->columns_err = item->columns && access(item->columns, F_OK) < 0 ? -errno : 0;
    }
}

static bool reconcile_is_gone(int err)
{
    return err == -ENOENT || err == -ENOTDIR;
}

/* They are made again, if the trace is there. */
static void reconcile_forget_columns(struct trace_record *t)
{
    log_struct(LOG_NOTICE, LOG_FIELDS(.trace_id = t->trace_id), "trace t%" PRId64 ": its columns %s are gone",
               t->trace_id, t->columns);
    replace_str(&t->columns, NULL);
    replace_str(&t->columns_reason, "the file was gone");
    t->columns_size = t->columns_version = RECORD_NONE;
}

static void reconcile_mark_missing(struct reconcile *r, struct trace_record *t)
{
    t->state = TRACE_MISSING;
    t->stored = false;
    t->disk_size = 0;
    replace_str(&t->reason, "its file is gone");
    catalog_add_event(r->collector->catalog, "trace-missing", "profd", t->session_id, t->target_id,
                      t->trace_id, "%s", t->path);
    if (r->n_missing++ < MISSING_LOGGED_MAX)
        log_struct(LOG_WARNING, LOG_FIELDS(.trace_id = t->trace_id), "trace t%" PRId64 ": %s is gone",
                   t->trace_id, t->path);
}

/* Its file left the store and its row was not written, or somebody removed it. */
static void reconcile_mark_gone(struct reconcile *r, struct trace_record *t)
{
    if (!t->stored || t->archived_at == RECORD_NONE) {
        reconcile_mark_missing(r, t);
        return;
    }
    log_struct(LOG_NOTICE, LOG_FIELDS(.trace_id = t->trace_id),
               "trace t%" PRId64 ": %s is gone; the archive has it", t->trace_id, t->path);
    trace_leave_to_archive(t);
}

/* The row of a missing trace has stored = false, wherever its file was. */
static void reconcile_recover_again(struct collector *c, const struct trace_record *t)
{
    struct file_reference reference;

    log_notice("%s exists again", t->path);
    reference_of(t, &reference);
    reference.in_store = store_holds(c->store, t->path);
    reconcile_recover_file(c, &reference);
}

/* False where it must wait for others. A row may have changed since it was listed. */
static bool reconcile_row(struct reconcile *r, const struct reconcile_item *item)
{
    struct collector *c = r->collector;
    bool columns_are_gone = reconcile_is_gone(item->columns_err),
         is_gone = !item->was_missing && reconcile_is_gone(item->err),
         is_back = item->was_missing && item->err == 0;
    struct trace_record t;

    if (is_back && !reconcile_can_recover(c))
        return false;
    if (item->err == 0 && item->known_disk_size != RECORD_NONE && item->known_disk_size != item->disk_size)
        catalog_set_disk_size(c->catalog, item->trace_id, item->disk_size);
    if (!columns_are_gone && !is_gone && !is_back)
        return true;
    trace_record_init(&t);
    if (catalog_get_trace(c->catalog, item->trace_id, &t) == 0) {
        bool is_same = streq(t.path, item->path);
        columns_are_gone = columns_are_gone && streq(t.columns, item->columns);
        if (columns_are_gone)
            reconcile_forget_columns(&t);
        if (is_gone && is_same)
            reconcile_mark_gone(r, &t);
        if (columns_are_gone || (is_gone && is_same))
            catalog_save_trace(c->catalog, &t);
        if (is_back && is_same)
            reconcile_recover_again(c, &t);
    }
    trace_record_done(&t);
    return true;
}

/* -- Columns -- */

static void reconcile_list_columns(void *arg)
{
    struct reconcile *r = arg;
    struct dirent *entry;
    int64_t id;

    if (!r->columns)
        r->columns = opendir(store_columns_path(r->collector->store));
    while (r->columns && r->n < RECONCILE_PORTION && (entry = readdir(r->columns)))
        if (columns_trace_of(entry->d_name, &id))
            r->items[r->n++] = (struct reconcile_item){
                .trace_id = id,
                .path = xasprintf("%s/%s", store_columns_path(r->collector->store), entry->d_name)};
}

/* Columns of a trace that was imported meanwhile have a row as well: both are made in one iteration of the loop. */
static bool reconcile_columns(struct reconcile *r, const struct reconcile_item *item)
{
    struct trace_record t;

    trace_record_init(&t);
    int e = catalog_get_trace(r->collector->catalog, item->trace_id, &t);
    if (e == -ENOENT || (e == 0 && !streq(t.columns, item->path))) {
        log_notice("%s belongs to no trace: removed", item->path);
        store_unlink(item->path);
    }
    trace_record_done(&t);
    return true;
}

/* -- Traces without columns -- */

struct reread {
    int64_t at;   /* the trace that is being read, or was last; RECORD_NONE none yet */
    bool reading; /* or its file is being opened */
    size_t n_read;
};

/* The columns of a file with other bytes than the catalog's are refused. */
static const char *reread_refusal(const struct trace_record *t, const struct ingest_result *result)
{
    const char *sha256 = json_get_str(result->facts, "sha256");

    if (json_object_size(result->facts) == 0)
        return result->reason ? result->reason : "profd-ingest failed";
    if ((t->sha256 && sha256 && !streq(t->sha256, sha256)) ||
        json_get_int(result->facts, "size", t->size) != t->size)
        return "its file has changed";
    return NULL;
}

/* Whether the trace has columns now. */
static bool reread_save(int64_t trace_id, struct import_job *job)
{
    const struct ingest_result *result = job->read;
    struct collector *c = job->collector;
    struct trace_record t;
    bool has_columns = false;

    trace_record_init(&t);
    if (catalog_get_trace(c->catalog, trace_id, &t) == 0) {
        const struct columns_result columns = {
            .facts = result->facts, .reason = reread_refusal(&t, result), .used_up = result->used_up};
        if (!columns.reason)
            row_set_facts(&t, result->facts);
        int e = columns_renew(&job->columns, c->store, &columns, &t);
        has_columns = e >= 0 && t.columns;
        if (e < 0)
            log_struct(LOG_WARNING, LOG_FIELDS(.trace_id = trace_id),
                       "cannot catalog the columns of t%" PRId64, trace_id);
    }
    trace_record_done(&t);
    return has_columns;
}

/* The end of the job activates c->background, which begins the next one. */
static void reread_on_done(struct import_job *job)
{
    struct reread *r = job->collector->reread;

    r->reading = false;
    /* A job that failed is no fault of the trace: the next start of profd tries again. */
    if (job->outcome == IMPORT_READ && job->read->err == 0)
        r->n_read += reread_save(r->at, job);
}

/* One trace, for somebody who waits. */
struct reread_one {
    int64_t trace_id;
    void (*done)(void *arg);
    void *arg;
};

static void reread_one_on_done(struct import_job *job)
{
    struct reread_one *one = job->options.arg;

    if (job->outcome == IMPORT_READ && job->read->err == 0)
        reread_save(one->trace_id, job);
    one->done(one->arg);
    free(one);
}

void collector_read_columns(struct collector *c, const struct trace_record *t, void (*done)(void *arg),
                            void *arg)
{
    struct reread_one *one = xcalloc(1, sizeof(*one));
    struct file_reference reference;

    *one = (struct reread_one){.trace_id = t->trace_id, .done = done, .arg = arg};
    reference_of(t, &reference);
    reconcile_open(c, IMPORT_REREAD, &reference, reread_one_on_done, one);
}

/* Waits for import jobs: continues when they have ended. */
static void reread_next(struct collector *c)
{
    struct reread *r = c->reread;
    struct file_reference reference;
    struct trace_record t;

    if (r->reading || c->closing || c->n_importing > 0)
        return;
    if (catalog_find_trace_without_columns(c->catalog, r->at, INGEST_COLUMNS_VERSION, &t) < 0) {
        if (r->n_read > 0)
            log_notice("%zu trace%s read into columns", r->n_read, r->n_read == 1 ? " was" : "s were");
        free(TAKE_PTR(c->reread));
        return;
    }
    r->at = t.trace_id;
    r->reading = true;
    reference_of(&t, &reference);
    trace_record_done(&t);
    reconcile_open(c, IMPORT_REREAD, &reference, reread_on_done, NULL);
}

/* -- The phases -- */

static void reconcile_end(struct reconcile *r)
{
    struct collector *c = r->collector;

    if (r->n_missing > MISSING_LOGGED_MAX)
        log_warning("%zu traces are missing in total; profctl list-traces lists them", r->n_missing);
    c->reconcile = NULL;
    reconcile_drop(r);
    if (c->settings->columns && !c->reread) {
        c->reread = xcalloc(1, sizeof(*c->reread));
        c->reread->at = RECORD_NONE;
        reread_next(c);
    }
    reconcile_skipped(c);
}

/* Work runs on the offload, the others on the loop. */
static const struct {
    void (*prepare)(struct reconcile *r); /* may be NULL */
    void (*work)(void *arg);
    bool (*compare)(struct reconcile *r, const struct reconcile_item *item); /* false: must wait */
} phases[_PHASE_MAX] = {
    [PHASE_FILES] = {NULL, reconcile_list_files, reconcile_file},
    [PHASE_ROWS] = {reconcile_take_rows, reconcile_stat_files, reconcile_row},
    [PHASE_COLUMNS] = {NULL, reconcile_list_columns, reconcile_columns},
};

static void reconcile_continue(struct reconcile *r)
{
    r->waiting = false;
    for (; r->next < r->n; r->next++) {
        if (!phases[r->phase].compare(r, &r->items[r->next])) {
            r->waiting = true;
            return;
        }
    }
    r->phase += r->n < RECONCILE_PORTION;
    reconcile_drop_items(r);
    if (r->phase == _PHASE_MAX) {
        reconcile_end(r);
        return;
    }
    if (phases[r->phase].prepare)
        phases[r->phase].prepare(r);
    offload_run(r->collector->offload, phases[r->phase].work, reconcile_on_portion, r);
}

static void reconcile_on_portion(void *arg)
{
    struct reconcile *r = arg;

    if (!r->collector->closing)
        reconcile_continue(r);
}

/* An import job, or the last large removal, has ended. */
static void reconcile_on_background(evutil_socket_t fd, short what, void *arg)
{
    struct collector *c = arg;

    if (c->closing)
        return;
    if (c->reconcile && c->reconcile->waiting)
        reconcile_continue(c->reconcile);
    if (c->reread)
        reread_next(c);
}

static void reconcile_on_store_idle(void *arg)
{
    event_active(((struct collector *)arg)->background, EV_TIMEOUT, 0);
}

void reconcile_init(struct collector *c)
{
    c->background = event_new(c->base, -1, 0, reconcile_on_background, c);
    store_on_idle(c->store, reconcile_on_store_idle, c);
}

void reconcile_free(struct collector *c)
{
    if (c->reconcile)
        reconcile_drop(c->reconcile);
    free(c->reread);
    event_free(c->background);
}

void reconcile_begin(struct collector *c)
{
    struct reconcile *r = xcalloc(1, sizeof(*r));

    *r = (struct reconcile){.collector = c, .at = {RECORD_NONE, RECORD_NONE}};
    r->root = opendir(store_path(c->store));
    c->reconcile = r;
    c->skipped_session = c->session_ended = false;
    offload_run(c->offload, reconcile_list_files, reconcile_on_portion, r);
}

void reconcile_skipped(struct collector *c)
{
    if (c->skipped_session && c->session_ended && TAILQ_EMPTY(&c->collections) && !c->reconcile &&
        !c->closing)
        reconcile_begin(c);
}
