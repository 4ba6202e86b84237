/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/store_internal.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/catalog/uploads.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

/* The group is inherited from the state directory. */
#define STORE_DIR_MODE    0750
#define STORE_FILE_MODE   0640
#define INCOMING_PREFIX   ".incoming-"
#define NAME_VARIANTS_MAX 1000

static int store_clean(const char *path)
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

static int store_open_directory(const char *path, struct problem *p)
{
    int r = make_dirs(path, STORE_DIR_MODE);

    if (r >= 0)
        r = store_clean(path);
    if (r >= 0 && access(path, W_OK) < 0)
        r = -errno;
    if (r < 0) {
        problem_set(p, r, PROBLEM_STORAGE, "cannot use the store %s: %s", path, strerror(-r));
        problem_remedy(p, "Make it writable for profd, or choose another directory: [profd] state_dir= or "
                          "--state-dir.");
    }
    return r;
}

int store_new(const struct store_settings *settings, struct catalog *catalog, struct offload *offload,
              struct store **ret, struct problem *p)
{
    int r = store_open_directory(settings->path, p);
    if (r >= 0)
        r = store_open_directory(settings->columns_path, p);
    if (r < 0)
        return r;
    struct store *s = xcalloc(1, sizeof(*s));
    *s = (struct store){.settings = settings, .catalog = catalog, .offload = offload};
    *ret = s;
    return 0;
}

void store_set_archive(struct store *s, const struct store_archive *archive)
{
    s->archive = archive;
    catalog_keep_unarchived(s->catalog, archive);
}

void store_close(struct store *s)
{
    s->closing = true;
}

struct store *store_free(struct store *s)
{
    if (s)
        free(s->incoming);
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

char *store_incoming_path(struct store *s, const char *dir)
{
    return xasprintf("%s/" INCOMING_PREFIX "%d-%" PRIu64, dir, getpid(), s->n_incoming++);
}

int store_open_incoming(struct store *s, const char *dir, int *ret_fd, char **ret_path)
{
    _cleanup_(freep) char *path = store_incoming_path(s, dir);

    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, STORE_FILE_MODE);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    *ret_path = TAKE_PTR(path);
    return 0;
}

/* Adds bytes, or removes them if negative, to those being written for a holder. */
static void store_count_incoming(struct store *s, int64_t holder, int64_t bytes)
{
    size_t i = 0;

    s->incoming_bytes += bytes;
    while (i < s->n_incoming_holders && s->incoming[i].holder != holder)
        i++;
    if (i == s->n_incoming_holders) {
        VEC_GROW(s->incoming, s->n_incoming_holders, s->cap_incoming);
        s->incoming[s->n_incoming_holders++] = (struct incoming_bytes){.holder = holder};
    }
    s->incoming[i].bytes += bytes;
    if (s->incoming[i].bytes <= 0)
        s->incoming[i] = s->incoming[--s->n_incoming_holders];
}

int store_incoming(struct store *s, int64_t holder, int64_t bytes, int *ret_fd, char **ret_path)
{
    int r = store_open_incoming(s, s->settings->path, ret_fd, ret_path);
    if (r >= 0)
        store_count_incoming(s, holder, bytes);
    return r;
}

void store_incoming_done(struct store *s, int64_t holder, int64_t bytes)
{
    store_count_incoming(s, holder, -bytes);
}

int store_publish(const struct store *s, const char *incoming, const char *dir, const char *name,
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

/* -- Removing -- */

int store_remove_row(struct store *s, const struct trace_record *t, const char *actor)
{
    int r = catalog_remove_trace(s->catalog, t->trace_id);
    if (r >= 0)
        r = catalog_add_event(s->catalog, "trace-removed", actor, t->session_id, RECORD_NONE, t->trace_id,
                              "%s", t->name);
    return r;
}

int store_leave_to_archive(struct store *s, int64_t trace_id, const char *actor)
{
    struct trace_record t;

    trace_record_init(&t);
    int r = catalog_get_trace(s->catalog, trace_id, &t);
    if (r >= 0 && t.archived_at == RECORD_NONE)
        r = -EBUSY;
    if (r >= 0) {
        trace_leave_to_archive(&t);
        replace_str(&t.columns, NULL);
        replace_str(&t.columns_reason, "its file is in the archive");
        t.columns_size = t.columns_version = RECORD_NONE;
        r = catalog_save_trace(s->catalog, &t);
    }
    if (r >= 0)
        r = catalog_add_event(s->catalog, "trace-evicted", actor, t.session_id, RECORD_NONE, trace_id, "%s",
                              t.name);
    trace_record_done(&t);
    return r;
}

int store_drop_columns(struct store *s, int64_t trace_id)
{
    struct trace_record t;

    trace_record_init(&t);
    int r = catalog_get_trace(s->catalog, trace_id, &t);
    if (r >= 0) {
        replace_str(&t.columns, NULL);
        t.columns_size = RECORD_NONE;
        replace_str(&t.columns_reason, "removed for the store's budget");
        r = catalog_save_trace(s->catalog, &t);
    }
    trace_record_done(&t);
    return r;
}

void store_unlink(const char *path)
{
    if (unlink(path) < 0 && errno != ENOENT)
        log_warning("cannot remove %s: %s", path, strerror(errno));
}

void store_unlink_files(const struct store *s, const struct trace_record *t)
{
    if (t->stored && store_holds(s, t->path))
        store_unlink(t->path);
    if (t->columns)
        store_unlink(t->columns);
}

/* The row goes first and is committed: a file without a row is recovered at the next start, while a row without
 * a file would be wrong. */
int store_remove_trace(struct store *s, const struct trace_record *t, const char *actor)
{
    int r = store_remove_row(s, t, actor);
    if (r >= 0)
        r = catalog_commit(s->catalog, false);
    if (r < 0)
        return r;
    store_unlink_files(s, t);
    return 0;
}
