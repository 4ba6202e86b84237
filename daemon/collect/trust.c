/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files are not touched, although they lie where traces appear under names that fit.
 *
 * profd may read what its workers may not. A worker that puts a link to another user's directory, or a hard
 * link to another user's file, in the place of its own must not get at it through profd; and what profd
 * stored is never collected again.
 */
#include "base/alloc.h"
#include "daemon/collect/internal.h"

static bool is_of_worker(const struct worker *w, const struct stat *st)
{
    return w->pid > 0 && w->uid == st->st_uid;
}

/* True where every worker that could have written it is known, is not root, and is not its owner. */
static bool is_foreign(const struct file *f, const struct stat *st)
{
    const struct dir *d = f->dir;
    const struct collection *k;
    bool anybody = false;

    if (d->remote)
        return false; /* owners over a network are what its server makes of them */
    TAILQ_FOREACH(k, &d->collections, next_in_dir) {
        const struct worker *w = &k->target->worker;
        if (!file_may_be_of(f, k))
            continue;
        if (w->pid == 0 || w->uid == 0 || is_of_worker(w, st))
            return false;
        anybody = true;
    }
    bool left_by_another = !d->configured && d->writer_uid > 0 && (uid_t)d->writer_uid != st->st_uid;
    return anybody || left_by_another;
}

static bool has_other_names(const struct file *f, const struct stat *st)
{
    const struct collection *k;

    if (st->st_nlink <= 1)
        return false;
    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir)
        if (is_of_worker(&k->target->worker, st))
            return false;
    return true;
}

static bool is_in_store(const struct collector *c, int fd)
{
    _cleanup_(freep) char *link = xasprintf("/proc/self/fd/%d", fd);
    char path[4096];
    ssize_t n = readlink(link, path, sizeof(path) - 1);

    if (n < 0)
        return false;
    path[n] = '\0';
    return store_holds(c->store, path);
}

const char *file_distrust(const struct file *f, int fd, const struct stat *st)
{
    if (is_in_store(f->dir->collector, fd))
        return "is in profd's own store";
    if (is_foreign(f, st))
        return "does not belong to the user of the worker whose directory it is in";
    if (has_other_names(f, st))
        return "is a hard link to a file that has other names";
    return NULL;
}
