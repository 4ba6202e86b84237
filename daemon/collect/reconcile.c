/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When profd starts, store and catalog are compared in portions beside everything else: first the files,
 * those without a row are adopted; then the rows, those without a file become missing, and what is there
 * again is read again.
 *
 * What may block (directories, the existence of files) runs on the offload, one portion at a time; the
 * catalog is asked on the loop in between. The directory of a session that is not over is left alone: its
 * files are being collected from where the worker wrote them.
 */
#include "base/alloc.h"
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

struct item {
    int64_t trace_id; /* of a row */
    char *path;
    bool was_missing;
    int err; /* 0: its file is there */
};

struct reconcile {
    struct collector *collector;
    DIR *root, *dir;
    char *dir_path;
    bool files_done; /* on to the rows */
    struct trace_position at;
    struct item items[PORTION];
    size_t n, next;
    bool waiting; /* for files that are being adopted */
    size_t n_missing, n_adopted;
};

static void on_portion(void *arg);

static void drop_items(struct reconcile *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->items[i].path);
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

    return name[0] == 's' && parse_ref(name, 's', &id) == 's' && sessions_find(r->collector->sessions, id);
}

static bool has_row(const struct reconcile *r, const char *path)
{
    struct trace_record known;

    trace_record_init(&known);
    int e = catalog_find_trace_by_path(r->collector->catalog, path, &known);
    trace_record_done(&known);
    return e != -ENOENT;
}

/* False where it must wait for others. What may be about to be removed is left to the next start. */
static bool adopt(struct reconcile *r, const char *path)
{
    if (has_row(r, path) || is_of_living_session(r, path) || store_is_removing(r->collector->store))
        return true;
    if (r->collector->n_adopting >= ADOPTING_MAX || ingest_is_full(r->collector->ingest))
        return false;
    log_notice("%s is in the store and not in the catalog: adopted", path);
    adopt_file(r->collector, path);
    return true;
}

/* -- Rows ----------------------------------------------------------------------------------------------- */

static int take_row(const struct trace_record *t, void *arg)
{
    struct reconcile *r = arg;

    r->at = (struct trace_position){t->recorded_at, t->trace_id};
    r->items[r->n++] = (struct item){
        .trace_id = t->trace_id, .path = xstrdup(t->path), .was_missing = t->state == TRACE_MISSING};
    return 0;
}

static void take_rows(struct reconcile *r)
{
    struct trace_filter filter = {.session_id = RECORD_NONE,
                                  .since = RECORD_NONE,
                                  .until = r->at.recorded_at,
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

    for (size_t i = 0; i < r->n; i++)
        r->items[i].err = access(r->items[i].path, F_OK) < 0 ? -errno : 0;
}

static void mark_missing(struct reconcile *r, const struct item *item)
{
    struct trace_record t;

    trace_record_init(&t);
    if (catalog_get_trace(r->collector->catalog, item->trace_id, &t) == 0 && streq(t.path, item->path)) {
        t.state = TRACE_MISSING;
        t.stored = false; /* takes no room */
        replace_str(&t.reason, "its file is gone");
        catalog_save_trace(r->collector->catalog, &t);
        catalog_add_event(r->collector->catalog, "trace-missing", "profd", t.session_id, t.target_id,
                          t.trace_id, "%s", t.path);
        if (r->n_missing++ < MISSING_LOGGED_MAX)
            log_warning("trace t%" PRId64 ": %s is gone", t.trace_id, t.path);
    }
    trace_record_done(&t);
}

/* False where it must wait for others. */
static bool judge_row(struct reconcile *r, const struct item *item)
{
    if (!item->was_missing && (item->err == -ENOENT || item->err == -ENOTDIR))
        mark_missing(r, item);
    if (!item->was_missing || item->err != 0)
        return true;
    if (r->collector->n_adopting >= ADOPTING_MAX || ingest_is_full(r->collector->ingest))
        return false;
    log_notice("%s is there again", item->path);
    adopt_file(r->collector, item->path);
    return true;
}

/* -- The whole ------------------------------------------------------------------------------------------ */

static void end(struct reconcile *r)
{
    if (r->n_missing > MISSING_LOGGED_MAX)
        log_warning("%zu traces are missing in all; profctl list-traces shows them", r->n_missing);
    r->collector->reconcile = NULL;
    reconcile_free(r);
}

static void next_portion(struct reconcile *r)
{
    bool last = r->n < PORTION, rows_done = r->files_done && last;

    drop_items(r);
    if (rows_done) {
        end(r);
        return;
    }
    r->files_done = r->files_done || last;
    if (r->files_done)
        take_rows(r);
    offload_run(r->collector->offload, r->files_done ? look_for_files : list_files, on_portion, r);
}

static void work_off(struct reconcile *r)
{
    r->waiting = false;
    for (; r->next < r->n; r->next++) {
        const struct item *item = &r->items[r->next];
        if (!(r->files_done ? judge_row(r, item) : adopt(r, item->path))) {
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
    offload_run(c->offload, list_files, on_portion, r);
}
