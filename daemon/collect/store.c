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

/* The group is handed on by the state directory, not asked for. */
#define STORE_DIR_MODE       0750
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

static int open_directory(const char *path, struct problem *p)
{
    int r = make_dirs(path, STORE_DIR_MODE);

    if (r >= 0)
        r = remove_leftovers(path);
    if (r >= 0 && access(path, W_OK) < 0)
        r = -errno;
    if (r < 0) {
        problem_set(p, r, PROBLEM_STORAGE, "cannot use the store %s: %s", path, strerror(-r));
        problem_remedy(
            p, "Make it writable for profd, or name another place: [profd] state_dir= or --state-dir.");
    }
    return r;
}

int store_new(const struct store_settings *settings, struct catalog *catalog, struct offload *offload,
              struct store **ret, struct problem *p)
{
    int r = open_directory(settings->path, p);
    if (r >= 0)
        r = open_directory(settings->columns_path, p);
    if (r < 0)
        return r;
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

const char *store_columns_path(const struct store *s)
{
    return s->settings->columns_path;
}

bool store_is_removing(const struct store *s)
{
    return s->n_removals > 0;
}

void store_on_idle(struct store *s, void (*idle)(void *arg), void *arg)
{
    s->idle = idle;
    s->idle_arg = arg;
}

bool store_holds(const struct store *s, const char *path)
{
    return starts_with(path, s->settings->path) && path[strlen(s->settings->path)] == '/';
}

char *incoming_path(struct store *s, const char *dir)
{
    return xasprintf("%s/" INCOMING_PREFIX "%d-%" PRIu64, dir, getpid(), s->n_incoming++);
}

int open_incoming(struct store *s, const char *dir, int *ret_fd, char **ret_path)
{
    _cleanup_(freep) char *path = incoming_path(s, dir);

    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, STORE_FILE_MODE);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    *ret_path = TAKE_PTR(path);
    return 0;
}

int store_incoming(struct store *s, int64_t bytes, int *ret_fd, char **ret_path)
{
    int r = open_incoming(s, s->settings->path, ret_fd, ret_path);
    if (r >= 0)
        s->incoming_bytes += bytes;
    return r;
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

/* -- The budget --------------------------------------------------------------------------------------- */

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

int64_t room_of(const struct trace_record *t)
{
    return (t->stored ? t->size : 0) + MAX(t->columns_size, INT64_C(0));
}

struct eviction {
    int64_t goal, freed, collected_until;
    int64_t *ids;
    size_t n, cap;
};

static int choose_victim(const struct trace_record *t, void *arg)
{
    struct eviction *e = arg;

    if (e->freed >= e->goal || t->collected_at > e->collected_until)
        return 1;
    VEC_GROW(e->ids, e->n, e->cap);
    e->ids[e->n++] = t->trace_id;
    e->freed += room_of(t);
    return 0;
}

static int give_up_columns(struct store *s, const struct trace_record *t)
{
    int r = drop_columns(s, t->trace_id);
    if (r >= 0)
        r = catalog_commit(s->catalog, false);
    if (r >= 0)
        store_unlink(t->columns);
    return r;
}

static int remove_victim(struct store *s, int64_t id)
{
    struct trace_record t;

    trace_record_init(&t);
    int r = catalog_get_trace(s->catalog, id, &t);
    if (r >= 0) {
        log_struct(LOG_NOTICE,
                   LOG_FIELDS(.session_id = t.session_id, .trace_id = id, .worker = t.worker_url,
                              .message_id = MESSAGE_STORE_FULL),
                   "%st%" PRId64 " (%s) %s: the store is at its budget", t.stored ? "" : "the columns of ",
                   id, t.name, t.stored ? "goes" : "go");
        r = t.stored ? store_remove_trace(s, &t, "profd, for the store's budget") : give_up_columns(s, &t);
    }
    trace_record_done(&t);
    return r;
}

/* By how much so many more bytes, with the copies under way, exceed the budget. Some may be on the disk
 * already. */
static int64_t excess(const struct store *s, const struct store_usage *u, int64_t bytes, int64_t written)
{
    int64_t used, needed, over;

    if (__builtin_add_overflow(bytes, s->incoming_bytes, &bytes) ||
        __builtin_add_overflow(u->bytes, bytes, &used) ||
        __builtin_add_overflow(bytes - written, u->keep_free, &needed) ||
        __builtin_add_overflow(needed, s->lent_bytes, &needed) ||
        __builtin_sub_overflow(needed, u->free, &over))
        return INT64_MAX;
    return MAX(used - u->max_use, over);
}

bool store_has_room(const struct store *s, int64_t bytes)
{
    struct store_usage u = {0};
    return store_usage(s, &u) >= 0 && excess(s, &u, bytes, 0) <= 0;
}

/* Which traces would have to go; the caller frees the ids. */
static int choose_victims(struct store *s, int64_t bytes, int64_t written, struct eviction *e)
{
    struct store_usage u = {0};

    int r = store_usage(s, &u);
    if (r < 0)
        return r;
    e->goal = excess(s, &u, bytes, written);
    if (e->goal <= 0)
        return 0;
    if (bytes > u.max_use - s->incoming_bytes)
        return -ENOSPC;
    r = catalog_each_evictable(s->catalog, choose_victim, e);
    return r < 0 ? r : e->freed >= e->goal ? 0 : -ENOSPC;
}

static int make_room(struct store *s, int64_t bytes, int64_t written, int64_t collected_until)
{
    struct eviction e = {.collected_until = collected_until};

    int r = choose_victims(s, bytes, written, &e);
    for (size_t i = 0; i < e.n && r >= 0; i++) {
        r = remove_victim(s, e.ids[i]);
        s->n_evictions += r >= 0;
    }
    free(e.ids);
    return r;
}

int store_could_take(struct store *s, int64_t bytes)
{
    struct eviction e = {.collected_until = INT64_MAX};

    int r = choose_victims(s, bytes, 0, &e);
    free(e.ids);
    return r;
}

uint64_t store_evictions(const struct store *s)
{
    return s->n_evictions;
}

int store_make_room(struct store *s, int64_t bytes, int64_t collected_until)
{
    return make_room(s, bytes, 0, collected_until);
}

int store_make_room_for_columns(struct store *s, int64_t bytes, int64_t collected_until)
{
    return make_room(s, bytes, bytes, collected_until);
}

/* -- Removing ----------------------------------------------------------------------------------------- */

int remove_row(struct store *s, const struct trace_record *t, const char *actor)
{
    int r = catalog_remove_trace(s->catalog, t->trace_id);
    if (r >= 0)
        r = catalog_add_event(s->catalog, "trace-removed", actor, t->session_id, RECORD_NONE, t->trace_id,
                              "%s", t->name);
    return r;
}

void store_unlink(const char *path)
{
    if (unlink(path) < 0 && errno != ENOENT)
        log_warning("cannot remove %s: %s", path, strerror(errno));
}

void unlink_files(const struct store *s, const struct trace_record *t)
{
    if (t->stored && store_holds(s, t->path))
        store_unlink(t->path);
    if (t->columns)
        store_unlink(t->columns);
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
    unlink_files(s, t);
    return 0;
}
