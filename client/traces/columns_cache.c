/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/columns_cache.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "proto/ingest.h"
#include "trace/columns/schema.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#define SUFFIX         ".columns"
#define TEMPORARY_NAME "draft-XXXXXX"

/* NULL: the environment names none. */
static char *cache_directory(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && *cache == '/')
        return xasprintf("%s/profd/columns", cache);
    return home && *home == '/' ? xasprintf("%s/.cache/profd/columns", home) : NULL;
}

char *columns_key_of_file(const struct stat *st)
{
    return xasprintf("%llx-%llx-%llx-%llx-%llx", (unsigned long long)st->st_dev,
                     (unsigned long long)st->st_ino, (unsigned long long)st->st_size,
                     (unsigned long long)(st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec),
                     /* A writer can set the other time back, but not this one. */
                     (unsigned long long)(st->st_ctim.tv_sec * NS_PER_S + st->st_ctim.tv_nsec));
}

char *columns_key_of_trace(const char *sha256, int64_t size)
{
    return xasprintf("sha256-%s-%llx", sha256, (unsigned long long)size);
}

static char *cache_path(const char *key)
{
    _cleanup_(freep) char *dir = cache_directory(),
                          *name = xasprintf("%s-v%d.%d" SUFFIX, key, COLUMNS_VERSION, INGEST_COLUMNS_VERSION);
    return dir && is_plain_name(name) ? xasprintf("%s/%s", dir, name) : NULL;
}

int columns_cache_open(const char *key)
{
    _cleanup_(freep) char *path = cache_path(key);
    struct stat st;
    _cleanup_(closep) int fd = path ? open_regular(AT_FDCWD, path, &st) : -ENOENT;

    /* A file that others can write to must not be mapped. */
    if (fd < 0 || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
        return -ENOENT;
    /* Its age is the time since its last use. */
    futimens(fd, NULL);
    return TAKE_FD(fd);
}

void columns_cache_drop(const char *key)
{
    _cleanup_(freep) char *path = cache_path(key);
    if (path)
        unlink(path);
}

/* -- Deleting the oldest files ------------------------------------------------------------------------ */

struct cache_entry {
    char *name;
    int64_t used_at, size;
};

struct cache_listing {
    struct cache_entry *entries;
    size_t n, cap;
    int64_t bytes;
};

static void cache_listing_done(struct cache_listing *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->entries[i].name);
    free(l->entries);
}

static void cache_list(DIR *dir, struct cache_listing *l)
{
    for (struct dirent *d; (d = readdir(dir));) {
        struct stat st;
        if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        VEC_GROW(l->entries, l->n, l->cap);
        l->entries[l->n++] =
            (struct cache_entry){.name = xstrdup(d->d_name),
                                 .used_at = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec,
                                 .size = st.st_size};
        l->bytes += st.st_size;
    }
}

static int cache_compare_age(const void *a, const void *b)
{
    const struct cache_entry *x = a, *y = b;
    return x->used_at < y->used_at ? -1 : x->used_at > y->used_at;
}

/* Drafts of a killed profctl become the oldest, and are deleted like all others. */
static void cache_delete_oldest(void)
{
    _cleanup_(freep) char *path = cache_directory();
    _cleanup_(cache_listing_done) struct cache_listing l = {0};
    DIR *dir = path ? opendir(path) : NULL;

    if (!dir)
        return;
    cache_list(dir, &l);
    if (l.n > 0)
        qsort(l.entries, l.n, sizeof(*l.entries), cache_compare_age);
    for (size_t i = 0; i + 1 < l.n && l.bytes > COLUMNS_CACHE_BYTES; i++) {
        unlinkat(dirfd(dir), l.entries[i].name, 0);
        l.bytes -= l.entries[i].size;
    }
    closedir(dir);
}

/* -- Parts -------------------------------------------------------------------------------------------- */

#define PARTIAL_SUFFIX ".partial"

int columns_cache_open_partial(const char *key)
{
    _cleanup_(freep) char *dir = cache_directory(), *name = xasprintf("%s" PARTIAL_SUFFIX, key);
    _cleanup_(freep) char *path = cache_path(name);
    struct stat st;

    if (!dir || !path || make_dirs(dir, 0700) < 0)
        return nameless_file();
    _cleanup_(closep) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    /* A file that others can write to must not be mapped, and what is mapped here nobody else may fetch anew. */
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        st.st_mode & (S_IWGRP | S_IWOTH) || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return nameless_file();
    futimens(fd, NULL);
    cache_delete_oldest();
    return TAKE_FD(fd);
}

void columns_cache_drop_partial(const char *key)
{
    _cleanup_(freep) char *name = xasprintf("%s" PARTIAL_SUFFIX, key);
    columns_cache_drop(name);
}

/* -- Drafts ------------------------------------------------------------------------------------------- */

int nameless_file(void)
{
    _cleanup_(freep) char *path = xasprintf("%s/profctl-XXXXXX", temp_dir());
    int fd = mkostemp(path, O_CLOEXEC);

    if (fd < 0)
        return -errno;
    unlink(path);
    return fd;
}

int columns_draft_new(struct columns_draft *ret, struct problem *p)
{
    _cleanup_(freep) char *dir = cache_directory();

    *ret = (struct columns_draft){.fd = -1};
    if (dir && make_dirs(dir, 0700) == 0) {
        ret->path = xasprintf("%s/" TEMPORARY_NAME, dir);
        ret->fd = mkostemp(ret->path, O_CLOEXEC);
        if (ret->fd >= 0)
            return 0;
        free(TAKE_PTR(ret->path));
    }
    ret->fd = nameless_file();
    if (ret->fd >= 0)
        return 0;
    problem_set(p, ret->fd, PROBLEM_STORAGE, "cannot write columns: %s", strerror(-ret->fd));
    problem_remedy(p, "Set $XDG_CACHE_HOME or $TMPDIR to a writable directory.");
    return ret->fd;
}

void columns_draft_keep(struct columns_draft *d, const char *key)
{
    _cleanup_(freep) char *path = cache_path(key);

    if (!d->path || !path || rename(d->path, path) < 0)
        return;
    free(TAKE_PTR(d->path));
    cache_delete_oldest();
}

void columns_draft_done(struct columns_draft *d)
{
    if (d->path)
        unlink(d->path);
    free(TAKE_PTR(d->path));
    closep(&d->fd);
    d->fd = -1;
}
