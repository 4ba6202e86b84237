/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/remote_kept.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct kept_copy {
    TAILQ_ENTRY(kept_copy) next;
    char *sha256;
    int fd;
    int64_t size;
    int64_t used_ns; /* monotonic */
};

static void kept_copy_drop(struct remote_kept *all, struct kept_copy *k)
{
    TAILQ_REMOVE(&all->list, k, next);
    close(k->fd);
    free(k->sha256);
    free(k);
}

static void kept_copies_arm(struct remote_kept *all)
{
    const struct kept_copy *first = TAILQ_FIRST(&all->list);

    if (!first)
        return;
    const struct timeval tv = timeval_until(first->used_ns + REMOTE_KEPT_NS);
    event_add(all->timer, &tv);
}

static void kept_copies_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct remote_kept *all = arg;
    struct kept_copy *k;

    while ((k = TAILQ_FIRST(&all->list)) && mono_ns() - k->used_ns >= REMOTE_KEPT_NS)
        kept_copy_drop(all, k);
    kept_copies_arm(all);
}

static struct kept_copy *kept_copy_find(const struct remote_kept *all, const char *sha256, int64_t size)
{
    struct kept_copy *k;

    TAILQ_FOREACH(k, &all->list, next)
        if (sha256 && streq(k->sha256, sha256) && k->size == size)
            return k;
    return NULL;
}

static int64_t kept_copies_bytes(const struct remote_kept *all, size_t *ret_n)
{
    const struct kept_copy *k;
    int64_t bytes = 0;

    *ret_n = 0;
    TAILQ_FOREACH(k, &all->list, next) {
        bytes += k->size;
        ++*ret_n;
    }
    return bytes;
}

void remote_kept_init(struct remote_kept *all, struct event_base *base)
{
    TAILQ_INIT(&all->list);
    all->timer = evtimer_new(base, kept_copies_on_timer, all);
    if (!all->timer)
        abort(); /* as base/alloc.h */
}

void remote_kept_clear(struct remote_kept *all)
{
    struct kept_copy *k;

    while ((k = TAILQ_FIRST(&all->list)))
        kept_copy_drop(all, k);
}

void remote_kept_done(struct remote_kept *all)
{
    remote_kept_clear(all);
    event_free(all->timer);
}

void remote_kept_add(struct remote_kept *all, const char *sha256, int fd, int64_t size)
{
    struct kept_copy *k = kept_copy_find(all, sha256, size);
    size_t n;

    if (k || size < 0 || size > REMOTE_KEPT_BYTES_MAX)
        return;
    while (kept_copies_bytes(all, &n) > REMOTE_KEPT_BYTES_MAX - size || n >= REMOTE_KEPT_MAX)
        kept_copy_drop(all, TAILQ_FIRST(&all->list));
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return;
    k = xcalloc(1, sizeof(*k));
    *k = (struct kept_copy){.sha256 = xstrdup(sha256), .fd = copy, .size = size, .used_ns = mono_ns()};
    TAILQ_INSERT_TAIL(&all->list, k, next);
    kept_copies_arm(all);
}

int remote_kept_open(struct remote_kept *all, const char *sha256, int64_t size)
{
    struct kept_copy *k = kept_copy_find(all, sha256, size);

    if (!k)
        return -ENOENT;
    TAILQ_REMOVE(&all->list, k, next);
    TAILQ_INSERT_TAIL(&all->list, k, next);
    k->used_ns = mono_ns();
    int fd = fcntl(k->fd, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}
