/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/store_internal.h"

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

#define DEFAULT_USE_DIVISOR  10
#define DEFAULT_FREE_PERCENT 15
#define DEFAULT_FREE_MAX     (INT64_C(4) << 30)

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

int store_new(const struct store_settings *settings, struct catalog *catalog, struct offload *offload,
              struct store **ret, struct problem *p)
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
    *s = (struct store){.settings = settings, .catalog = catalog, .offload = offload};
    *ret = s;
    return 0;
}

void store_close(struct store *s)
{
    s->closing = true;
}

struct store *store_free(struct store *s)
{
    free(s);
    return NULL;
}

const char *store_path(const struct store *s)
{
    return s->settings->path;
}

bool store_is_removing(const struct store *s)
{
    return s->n_removals > 0;
}

bool store_holds(const struct store *s, const char *path)
{
    return starts_with(path, s->settings->path) && path[strlen(s->settings->path)] == '/';
}

int store_incoming(struct store *s, int64_t bytes, int *ret_fd, char **ret_path)
{
    _cleanup_(freep) char *path =
        xasprintf("%s/" INCOMING_PREFIX "%d-%" PRIu64, s->settings->path, getpid(), s->n_incoming++);

    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, STORE_FILE_MODE);
    if (fd < 0)
        return -errno;
    s->incoming_bytes += bytes;
    *ret_fd = fd;
    *ret_path = TAKE_PTR(path);
    return 0;
}

void store_incoming_done(struct store *s, int64_t bytes)
{
    s->incoming_bytes -= bytes;
}

int store_place(const struct store *s, const char *incoming, const char *dir, const char *name,
                char **ret_path)
{
    _cleanup_(freep) char *directory = xasprintf("%s/%s", s->settings->path, dir);

    if (!is_plain_name(name))
        return -EINVAL;
    int r = make_dirs(directory, STORE_DIR_MODE);
    if (r < 0)
        return r;
    for (int i = 1; i <= NAME_VARIANTS_MAX; i++) {
        _cleanup_(freep) char *path =
            i == 1 ? xasprintf("%s/%s", directory, name) : xasprintf("%s/%d-%s", directory, i, name);
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
    int64_t goal, freed, recorded_at;
    int64_t *ids;
    size_t n, cap;
};

static int choose_victim(const struct trace_record *t, void *arg)
{
    struct eviction *e = arg;

    if (e->freed >= e->goal || t->recorded_at > e->recorded_at)
        return 1;
    VEC_GROW(e->ids, e->n, e->cap);
    e->ids[e->n++] = t->trace_id;
    e->freed += t->size;
    return 0;
}

static int remove_victim(struct store *s, int64_t id)
{
    struct trace_record t;

    trace_record_init(&t);
    int r = catalog_get_trace(s->catalog, id, &t);
    if (r >= 0) {
        log_notice("t%" PRId64 " (%s) goes: the store is at its budget", id, t.name);
        r = store_remove_trace(s, &t, "profd, for the store's budget");
    }
    trace_record_done(&t);
    return r;
}

/* By how much so many more bytes, with the copies under way, exceed the budget. */
static int64_t excess(const struct store *s, const struct store_usage *u, int64_t bytes)
{
    bytes += s->incoming_bytes;
    return MAX(u->bytes + bytes - u->max_use, bytes + u->keep_free - u->free);
}

bool store_has_room(const struct store *s, int64_t bytes)
{
    struct store_usage u;
    return store_usage(s, &u) >= 0 && excess(s, &u, bytes) <= 0;
}

int store_make_room(struct store *s, int64_t bytes, int64_t recorded_at)
{
    struct store_usage u;

    int r = store_usage(s, &u);
    if (r < 0)
        return r;
    int64_t over = excess(s, &u, bytes);
    if (over <= 0)
        return 0;
    bytes += s->incoming_bytes;
    if (bytes > u.max_use)
        return -ENOSPC;
    struct eviction e = {.goal = over, .recorded_at = recorded_at};
    r = catalog_each_evictable(s->catalog, choose_victim, &e);
    if (r >= 0)
        r = e.freed >= over ? 0 : -ENOSPC;
    for (size_t i = 0; i < e.n && r >= 0; i++)
        r = remove_victim(s, e.ids[i]);
    free(e.ids);
    return r;
}

/* -- Removing
 * ------------------------------------------------------------------------------------------------------ */

int remove_row(struct store *s, const struct trace_record *t, const char *actor)
{
    int r = catalog_remove_trace(s->catalog, t->trace_id);
    if (r >= 0)
        r = catalog_add_event(s->catalog, "trace-removed", actor, t->session_id, RECORD_NONE, t->trace_id,
                              "%s", t->name);
    return r;
}

/* The row goes first and is committed: a file without a row is adopted again at the next start, the reverse
 * would be a lie. */
int store_remove_trace(struct store *s, const struct trace_record *t, const char *actor)
{
    int r = remove_row(s, t, actor);
    if (r >= 0)
        r = catalog_commit(s->catalog, false);
    if (r < 0)
        return r;
    if (t->stored && store_holds(s, t->path) && unlink(t->path) < 0 && errno != ENOENT)
        log_warning("cannot remove %s: %s", t->path, strerror(errno));
    return 0;
}
