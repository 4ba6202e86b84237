/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When profd starts, store and catalog are compared in portions beside everything else: first the files,
 * those without a row are adopted; then the rows, those without a file become missing, and what is there
 * again is read again, and what a file takes on the disk is measured; then the columns, of which those that
 * no row knows are removed. Last, traces without columns are read.
 *
 * What may block (directories, the existence of files) runs on the offload, one portion at a time; the
 * catalog is asked on the loop in between. The directory of a session that is not over is left alone: its
 * files are being collected from where the worker wrote them. When such sessions are over, all is compared
 * once more: what a crash left behind of them may be all that there is of a trace.
 */
#include "base/alloc.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/collect/internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define PORTION            256
#define ADOPTING_MAX       4 /* at a time, so that sessions need not wait behind them */
#define MISSING_LOGGED_MAX 5

enum phase { PHASE_FILES, PHASE_ROWS, PHASE_COLUMNS, _PHASE_MAX };

struct item {
    int64_t trace_id; /* of a row, or of the name of columns */
    char *path;
    char *columns;
    bool was_missing;
    int err, columns_err; /* 0: the file is there */
    int64_t disk_size,
        known_disk_size; /* what it takes, and what the row says; RECORD_NONE: it is not stored */
};

struct reconcile {
    struct collector *collector;
    enum phase phase;
    DIR *root, *dir, *columns;
    char *dir_path;
    struct trace_position at;
    struct item items[PORTION];
    size_t n, next;
    bool waiting; /* for files that are being adopted, or removed */
    size_t n_missing, n_adopted;
};

static void on_portion(void *arg);

static void drop_items(struct reconcile *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->items[i].path);
        free(r->items[i].columns);
    }
    r->n = r->next = 0;
}

static void close_dir(struct reconcile *r)
{
    if (r->dir)
        closedir(r->dir);
    r->dir = NULL;
    free(r->dir_path);
    r->dir_path = NULL;
}

struct reconcile *reconcile_free(struct reconcile *r)
{
    if (!r)
        return NULL;
    drop_items(r);
    close_dir(r);
    if (r->root)
        closedir(r->root);
    if (r->columns)
        closedir(r->columns);
    free(r);
    return NULL;
}

/* -- Files: on the offload ------------------------------------------------------------------------------ */

static bool next_dir(struct reconcile *r)
{
    struct dirent *entry;

    close_dir(r);
    while (!r->dir && (entry = readdir(r->root))) {
        if (entry->d_name[0] == '.')
            continue;
        free(r->dir_path);
        r->dir_path = xasprintf("%s/%s", store_path(r->collector->store), entry->d_name);
        r->dir = opendir(r->dir_path);
    }
    return r->dir;
}

static void take_file(struct reconcile *r, const char *name)
{
    struct stat st;

    if (name[0] == '.' || fstatat(dirfd(r->dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return;
    r->items[r->n++] = (struct item){.path = xasprintf("%s/%s", r->dir_path, name)};
}

static void list_files(void *arg)
{
    struct reconcile *r = arg;
    struct dirent *entry;

    while (r->root && r->n < PORTION) {
        if (!r->dir && !next_dir(r))
            return;
        entry = readdir(r->dir);
        if (entry)
            take_file(r, entry->d_name);
        else
            close_dir(r);
    }
}

/* -- Files: on the loop --------------------------------------------------------------------------------- */

static bool is_of_living_session(const struct reconcile *r, const char *path)
{
    const char *dir = path + strlen(store_path(r->collector->store)) + 1;
    _cleanup_(freep) char *name = xstrndup(dir, strcspn(dir, "/"));
    int64_t id;

    if (name[0] != 's' || parse_ref(name, 's', &id) != 's')
        return false;
    /* One that the catalog has yet to hear the end of brings in nothing more. */
    const struct session *s = sessions_find(r->collector->sessions, id);
    return s && !s->finished_unsaved;
}

static bool has_row(const struct reconcile *r, const char *path)
{
    struct trace_record known;

    trace_record_init(&known);
    int e = catalog_find_trace_by_path(r->collector->catalog, path, &known);
    trace_record_done(&known);
    return e != -ENOENT;
}

/* False where it must wait for others: a removal, too, may be about to remove it. */
static bool adopt(struct reconcile *r, const struct item *item)
{
    const char *path = item->path;

    if (has_row(r, path))
        return true;
    if (store_is_removing(r->collector->store))
        return false;
    if (is_of_living_session(r, path)) {
        r->collector->left_alone = true;
        return true;
    }
    if (r->collector->n_adopting >= ADOPTING_MAX || ingest_is_full(r->collector->ingest))
        return false;
    log_notice("%s is in the store and not in the catalog: adopted", path);
    struct reference own;
    reference_of_own(path, &own);
    adopt_file(r->collector, &own);
    return true;
}

/* -- Rows ----------------------------------------------------------------------------------------------- */

static int take_row(const struct trace_record *t, void *arg)
{
    struct reconcile *r = arg;

    r->at = (struct trace_position){t->recorded_at, t->trace_id};
    r->items[r->n++] = (struct item){.trace_id = t->trace_id,
                                     .path = xstrdup(t->path),
                                     .columns = xstrdup(t->columns),
                                     .was_missing = t->state == TRACE_MISSING,
                                     .known_disk_size = t->stored ? t->disk_size : RECORD_NONE};
    return 0;
}

static void take_rows(struct reconcile *r)
{
    struct trace_filter filter = {.session_id = RECORD_NONE,
                                  .since = RECORD_NONE,
                                  .until = r->at.at,
                                  .before_id = r->at.trace_id,
                                  .limit = PORTION};

    int e = catalog_each_trace(r->collector->catalog, &filter, take_row, r);
    if (e == -ENOENT) { /* the row was removed meanwhile: its time still tells the place */
        filter.before_id = RECORD_NONE;
        catalog_each_trace(r->collector->catalog, &filter, take_row, r);
    }
}

static void look_for_files(void *arg)
{
    struct reconcile *r = arg;

    for (size_t i = 0; i < r->n; i++) {
        struct item *item = &r->items[i];
        struct stat st;
        item->err = stat(item->path, &st) < 0 ? -errno : 0;
        item->disk_size = item->err == 0 ? st.st_blocks * STAT_BLOCK_BYTES : 0;
        item->columns_err = item->columns && access(item->columns, F_OK) < 0 ? -errno : 0;
    }
}

/* They are made again, if the trace is there. */
static void forget_columns(struct reconcile *r, const struct item *item)
{
    struct trace_record t;

    trace_record_init(&t);
    if (catalog_get_trace(r->collector->catalog, item->trace_id, &t) == 0 &&
        streq(t.columns, item->columns)) {
        log_struct(LOG_NOTICE, LOG_FIELDS(.trace_id = t.trace_id),
                   "trace t%" PRId64 ": its columns %s are gone", t.trace_id, t.columns);
        replace_str(&t.columns, NULL);
        replace_str(&t.columns_reason, "the file was gone");
        t.columns_size = t.columns_version = RECORD_NONE;
        catalog_save_trace(r->collector->catalog, &t);
    }
    trace_record_done(&t);
}

static void mark_missing(struct reconcile *r, const struct item *item)
{
    struct trace_record t;

    trace_record_init(&t);
    if (catalog_get_trace(r->collector->catalog, item->trace_id, &t) == 0 && streq(t.path, item->path)) {
        t.state = TRACE_MISSING;
        t.stored = false;
        t.disk_size = 0;
        replace_str(&t.reason, "its file is gone");
        catalog_save_trace(r->collector->catalog, &t);
        catalog_add_event(r->collector->catalog, "trace-missing", "profd", t.session_id, t.target_id,
                          t.trace_id, "%s", t.path);
        if (r->n_missing++ < MISSING_LOGGED_MAX)
            log_struct(LOG_WARNING, LOG_FIELDS(.trace_id = t.trace_id), "trace t%" PRId64 ": %s is gone",
                       t.trace_id, t.path);
    }
    trace_record_done(&t);
}

static bool is_gone(int err)
{
    return err == -ENOENT || err == -ENOTDIR;
}

/* A missing trace is not said to be stored, wherever its file was. */
static void adopt_again(struct reconcile *r, const struct item *item)
{
    struct reference reference;
    struct trace_record t;

    trace_record_init(&t);
    if (catalog_get_trace(r->collector->catalog, item->trace_id, &t) == 0 && streq(t.path, item->path)) {
        log_notice("%s is there again", item->path);
        reference_of(&t, &reference);
        reference.own = store_holds(r->collector->store, t.path);
        adopt_file(r->collector, &reference);
    }
    trace_record_done(&t);
}

/* False where it must wait for others. */
static bool judge_row(struct reconcile *r, const struct item *item)
{
    if (is_gone(item->columns_err))
        forget_columns(r, item);
    if (item->err == 0 && item->known_disk_size != RECORD_NONE && item->known_disk_size != item->disk_size)
        catalog_set_disk_size(r->collector->catalog, item->trace_id, item->disk_size);
    if (!item->was_missing && is_gone(item->err))
        mark_missing(r, item);
    if (!item->was_missing || item->err != 0)
        return true;
    if (r->collector->n_adopting >= ADOPTING_MAX || ingest_is_full(r->collector->ingest))
        return false;
    adopt_again(r, item);
    return true;
}

/* -- Columns ------------------------------------------------------------------------------------------ */

static void list_columns(void *arg)
{
    struct reconcile *r = arg;
    struct dirent *entry;
    int64_t id;

    if (!r->columns)
        r->columns = opendir(store_columns_path(r->collector->store));
    while (r->columns && r->n < PORTION && (entry = readdir(r->columns)))
        if (store_columns_owner(entry->d_name, &id))
            r->items[r->n++] = (struct item){
                .trace_id = id,
                .path = xasprintf("%s/%s", store_columns_path(r->collector->store), entry->d_name)};
}

/* Those of a trace that came meanwhile have a row as well: they get their name in the same turn. */
static bool judge_columns(struct reconcile *r, const struct item *item)
{
    struct trace_record t;

    trace_record_init(&t);
    int e = catalog_get_trace(r->collector->catalog, item->trace_id, &t);
    if (e == -ENOENT || (e == 0 && !streq(t.columns, item->path))) {
        log_notice("%s is of no trace: removed", item->path);
        store_unlink(item->path);
    }
    trace_record_done(&t);
    return true;
}

/* -- The whole ------------------------------------------------------------------------------------------ */

static void end(struct reconcile *r)
{
    if (r->n_missing > MISSING_LOGGED_MAX)
        log_warning("%zu traces are missing in all; profctl list-traces shows them", r->n_missing);
    struct collector *c = r->collector;
    c->reconcile = NULL;
    reconcile_free(r);
    if (c->settings->columns && !c->reread)
        reread_begin(c);
    reconcile_left(c);
}

/* Work runs on the offload, the others on the loop. */
static const struct {
    void (*prepare)(struct reconcile *r); /* may be NULL */
    void (*work)(void *arg);
    bool (*judge)(struct reconcile *r, const struct item *item); /* false: must wait for others */
} phases[_PHASE_MAX] = {
    [PHASE_FILES] = {NULL, list_files, adopt},
    [PHASE_ROWS] = {take_rows, look_for_files, judge_row},
    [PHASE_COLUMNS] = {NULL, list_columns, judge_columns},
};

static void next_portion(struct reconcile *r)
{
    r->phase += r->n < PORTION;
    drop_items(r);
    if (r->phase == _PHASE_MAX) {
        end(r);
        return;
    }
    if (phases[r->phase].prepare)
        phases[r->phase].prepare(r);
    offload_run(r->collector->offload, phases[r->phase].work, on_portion, r);
}

static void work_off(struct reconcile *r)
{
    r->waiting = false;
    for (; r->next < r->n; r->next++) {
        if (!phases[r->phase].judge(r, &r->items[r->next])) {
            r->waiting = true;
            return;
        }
    }
    next_portion(r);
}

static void on_portion(void *arg)
{
    struct reconcile *r = arg;

    if (!r->collector->closing)
        work_off(r);
}

void reconcile_go_on(struct collector *c)
{
    if (c->reconcile && c->reconcile->waiting && !c->closing)
        work_off(c->reconcile);
}

void reconcile_begin(struct collector *c)
{
    struct reconcile *r = xcalloc(1, sizeof(*r));

    *r = (struct reconcile){.collector = c, .at = {RECORD_NONE, RECORD_NONE}};
    r->root = opendir(store_path(c->store));
    c->reconcile = r;
    c->left_alone = c->forgotten = false;
    offload_run(c->offload, list_files, on_portion, r);
}

void reconcile_left(struct collector *c)
{
    if (c->left_alone && c->forgotten && TAILQ_EMPTY(&c->collections) && !c->reconcile && !c->closing)
        reconcile_begin(c);
}
