/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/store.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/log.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/statvfs.h>

#define STORE_DIR_MODE       02750
#define STORE_FILE_MODE      0640
#define INCOMING_PREFIX      ".incoming-"
#define NAME_VARIANTS_MAX    1000
#define MISSING_LOGGED_MAX   5

#define DEFAULT_USE_DIVISOR  10
#define DEFAULT_FREE_PERCENT 15
#define DEFAULT_FREE_MAX     (INT64_C(4) << 30)

struct store {
    const struct store_settings *settings;
    struct catalog *catalog;
    uint64_t n_incoming;
};

static int remove_leftovers(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    if (!dir)
        return -errno;
    while ((entry = readdir(dir)))
        if (starts_with(entry->d_name, INCOMING_PREFIX))
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    return 0;
}

int store_new(const struct store_settings *settings, struct catalog *catalog, struct store **ret,
              struct problem *p)
{
    int r = make_dirs(settings->path, STORE_DIR_MODE);
    if (r >= 0)
        r = remove_leftovers(settings->path);
    if (r >= 0 && access(settings->path, W_OK) < 0)
        r = -errno;
    if (r < 0) {
        problem_set(p, r, PROBLEM_STORAGE, "cannot use the store %s: %s", settings->path, strerror(-r));
        problem_remedy(
            p, "Make it writable for profd, or name another place: [profd] state_dir= or --state-dir.");
        return r;
    }
    struct store *s = xcalloc(1, sizeof(*s));
    *s = (struct store){.settings = settings, .catalog = catalog};
    *ret = s;
    return 0;
}

struct store *store_free(struct store *s)
{
    free(s);
    return NULL;
}

int store_incoming(struct store *s, int *ret_fd, char **ret_path)
{
    _cleanup_(freep)
    char *path = xasprintf("%s/" INCOMING_PREFIX "%d-%" PRIu64, s->settings->path, getpid(), s->n_incoming++);

    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, STORE_FILE_MODE);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    *ret_path = TAKE_PTR(path);
    return 0;
}

int store_place(const struct store *s, const char *incoming, const char *dir, const char *name,
                char **ret_path)
{
    _cleanup_(freep)
    char *directory = xasprintf("%s/%s", s->settings->path, dir);

    if (!is_plain_name(name))
        return -EINVAL;
    int r = make_dirs(directory, STORE_DIR_MODE);
    if (r < 0)
        return r;
    for (int i = 1; i <= NAME_VARIANTS_MAX; i++) {
        _cleanup_(freep)
        char *path = i == 1 ? xasprintf("%s/%s", directory, name) : xasprintf("%s/%d-%s", directory, i, name);
        if (renameat2(AT_FDCWD, incoming, AT_FDCWD, path, RENAME_NOREPLACE) == 0) {
            *ret_path = TAKE_PTR(path);
            return fsync_path(directory);
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

/* -- The budget
 * ---------------------------------------------------------------------------------------------------- */

int store_usage(const struct store *s, struct store_usage *ret)
{
    struct statvfs fs;
    struct store_usage u = {.path = s->settings->path};

    if (statvfs(s->settings->path, &fs) < 0)
        return -errno;
    int64_t size = (int64_t)fs.f_blocks * (int64_t)fs.f_frsize;
    u.free = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    u.max_use = s->settings->max_use > 0 ? s->settings->max_use : size / DEFAULT_USE_DIVISOR;
    u.keep_free = s->settings->keep_free > 0 ? s->settings->keep_free
                                             : MIN(size / 100 * DEFAULT_FREE_PERCENT, DEFAULT_FREE_MAX);
    int r = catalog_usage(s->catalog, &u.traces, &u.bytes);
    if (r < 0)
        return r;
    *ret = u;
    return 0;
}

struct eviction {
    struct store *store;
    int64_t goal, freed, removed;
    const char *actor;
    bool dry_run;
    int64_t *ids;
    size_t n, cap;
};

static int choose_victim(const struct trace_record *t, void *arg)
{
    struct eviction *e = arg;

    if (e->freed >= e->goal)
        return 1;
    VEC_GROW(e->ids, e->n, e->cap);
    e->ids[e->n++] = t->trace_id;
    e->freed += t->size;
    return 0;
}

/* Removes the oldest until at least `goal` bytes are free of them. Rows are walked first: removing ends the
 * walk's statement. */
static int evict(struct eviction *e)
{
    int r = catalog_each_evictable(e->store->catalog, choose_victim, e);
    for (size_t i = 0; i < e->n && r >= 0 && !e->dry_run; i++) {
        struct trace_record t;
        trace_record_init(&t);
        r = catalog_get_trace(e->store->catalog, e->ids[i], &t);
        if (r >= 0)
            r = store_remove_trace(e->store, &t, e->actor);
        trace_record_done(&t);
    }
    e->removed = (int64_t)e->n;
    free(e->ids);
    return MIN(r, 0);
}

int store_make_room(struct store *s, int64_t bytes)
{
    struct store_usage u;

    int r = store_usage(s, &u);
    if (r < 0)
        return r;
    int64_t over = MAX(u.bytes + bytes - u.max_use, bytes + u.keep_free - u.free);
    if (over <= 0)
        return 0;
    if (bytes > u.max_use)
        return -ENOSPC;
    struct eviction e = {.store = s, .goal = over, .actor = "profd, for the store's budget"};
    r = evict(&e);
    return r < 0 ? r : e.freed >= over ? 0 : -ENOSPC;
}

int store_vacuum(struct store *s, int64_t keep, bool dry_run, const char *actor, int64_t *ret_removed,
                 int64_t *ret_freed)
{
    struct store_usage u;

    int r = store_usage(s, &u);
    if (r < 0)
        return r;
    struct eviction e = {.store = s, .goal = u.bytes - keep, .actor = actor, .dry_run = dry_run};
    r = evict(&e);
    *ret_removed = e.removed;
    *ret_freed = e.freed;
    return r;
}

/* -- Removing
 * ------------------------------------------------------------------------------------------------------ */

/* The row goes first and is committed: a file without a row is adopted again at the next start, the reverse
 * would be a lie. */
int store_remove_trace(struct store *s, const struct trace_record *t, const char *actor)
{
    int r = catalog_remove_trace(s->catalog, t->trace_id);
    if (r < 0)
        return r;
    catalog_add_event(s->catalog, "trace-removed", actor, t->session_id, RECORD_NONE, t->trace_id, "%s",
                      t->name);
    r = catalog_commit(s->catalog, false);
    if (r < 0)
        return r;
    if (t->stored && starts_with(t->path, s->settings->path) && unlink(t->path) < 0 && errno != ENOENT)
        log_warning("cannot remove %s: %s", t->path, strerror(errno));
    return 0;
}

struct path_list {
    char **items;
    size_t n, cap;
};

static int list_path(const struct trace_record *t, void *arg)
{
    struct path_list *paths = arg;

    if (!t->stored)
        return 0;
    VEC_GROW(paths->items, paths->n, paths->cap);
    paths->items[paths->n++] = xstrdup(t->path);
    return 0;
}

int store_remove_session(struct store *s, int64_t session_id, const char *actor)
{
    struct path_list paths = {0};
    struct trace_filter filter = {.session_id = session_id,
                                  .since = RECORD_NONE,
                                  .until = RECORD_NONE,
                                  .before_id = RECORD_NONE,
                                  .limit = INT64_MAX};
    _cleanup_(freep)
    char *directory = xasprintf("%s/s%" PRId64, s->settings->path, session_id);

    int r = catalog_each_trace(s->catalog, &filter, list_path, &paths);
    if (r >= 0)
        r = catalog_remove_session(s->catalog, session_id);
    if (r >= 0) {
        catalog_add_event(s->catalog, "session-removed", actor, session_id, RECORD_NONE, RECORD_NONE,
                          "%zu stored traces", paths.n);
        r = catalog_commit(s->catalog, false);
    }
    for (size_t i = 0; i < paths.n; i++) {
        if (r >= 0 && starts_with(paths.items[i], s->settings->path))
            unlink(paths.items[i]);
        free(paths.items[i]);
    }
    free(paths.items);
    if (r >= 0)
        rmdir(directory);
    return r;
}

/* -- At start
 * ------------------------------------------------------------------------------------------------------ */

struct id_list {
    int64_t *items;
    size_t n, cap;
};

static int list_missing(const struct trace_record *t, void *arg)
{
    struct id_list *ids = arg;

    if (t->state == TRACE_MISSING || access(t->path, F_OK) == 0)
        return 0;
    VEC_GROW(ids->items, ids->n, ids->cap);
    ids->items[ids->n++] = t->trace_id;
    return 0;
}

static int find_missing(struct store *s)
{
    struct id_list ids = {0};
    struct trace_filter all = {.session_id = RECORD_NONE,
                               .since = RECORD_NONE,
                               .until = RECORD_NONE,
                               .before_id = RECORD_NONE,
                               .limit = INT64_MAX};

    int r = catalog_each_trace(s->catalog, &all, list_missing, &ids);
    for (size_t i = 0; i < ids.n && r >= 0; i++) {
        struct trace_record t;
        trace_record_init(&t);
        r = catalog_get_trace(s->catalog, ids.items[i], &t);
        if (r >= 0) {
            t.state = TRACE_MISSING;
            replace_str(&t.reason, "its file is gone");
            r = catalog_save_trace(s->catalog, &t);
            if (i < MISSING_LOGGED_MAX)
                log_warning("trace t%" PRId64 ": %s is gone", t.trace_id, t.path);
        }
        trace_record_done(&t);
    }
    if (ids.n > MISSING_LOGGED_MAX)
        log_warning("%zu traces are missing in all; profctl list-traces shows them", ids.n);
    free(ids.items);
    return r;
}

static void adopt_directory(struct store *s, const char *name,
                            void (*adopt)(const char *path, const char *name, void *arg), void *arg)
{
    _cleanup_(freep)
    char *path = xasprintf("%s/%s", s->settings->path, name);
    DIR *dir = opendir(path);
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        _cleanup_(freep)
        char *file = xasprintf("%s/%s", path, entry->d_name);
        struct trace_record known;
        struct stat st;
        if (entry->d_name[0] == '.' || lstat(file, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        trace_record_init(&known);
        if (catalog_find_trace_by_path(s->catalog, file, &known) == -ENOENT)
            adopt(file, entry->d_name, arg);
        trace_record_done(&known);
    }
    if (dir)
        closedir(dir);
}

int store_reconcile(struct store *s, void (*adopt)(const char *path, const char *name, void *arg), void *arg)
{
    DIR *root = opendir(s->settings->path);
    struct dirent *entry;

    if (!root)
        return -errno;
    while ((entry = readdir(root)))
        if (entry->d_name[0] != '.')
            adopt_directory(s, entry->d_name, adopt, arg);
    closedir(root);
    return find_missing(s);
}
