/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/remote_fetch.h"

#include "base/alloc.h"
#include "daemon/api/remote_host.h"
#include <errno.h>

struct remote_fetch {
    struct api *api;
    struct remote_host *reaching; /* whether the host answers, before it is asked and while it sends */
    struct peer_query *query;     /* NULL: not sent, or ended */
    char *host_uuid, *host, *path;
    int fd;
    int64_t size_max, timeout_ns;
    void (*done)(int64_t size, const struct problem *p, void *arg);
    void *arg;
};

static void remote_fetch_free(struct remote_fetch *f)
{
    free(f->host_uuid);
    free(f->host);
    free(f->path);
    free(f);
}

void remote_fetch_cancel(struct remote_fetch *f)
{
    if (!f)
        return;
    remote_host_cancel(f->reaching);
    peer_query_cancel(f->query);
    remote_fetch_free(f);
}

static void remote_fetch_end(struct remote_fetch *f, int64_t size, const struct problem *p)
{
    f->done(size, p, f->arg);
    remote_fetch_free(f);
}

static void remote_fetch_on_file(int status, int64_t size, const struct problem *p, void *arg)
{
    _cleanup_(problem_done) struct problem silence = {0};
    struct remote_fetch *f = arg;

    f->query = NULL;
    remote_host_cancel(TAKE_PTR(f->reaching));
    if (p && status == 0)
        problem_copy(&silence, -EHOSTUNREACH, PROBLEM_UNREACHABLE, p);
    remote_fetch_end(f, size, silence.what ? &silence : p);
}

static void remote_fetch_on_lost(const struct peer *none, const struct problem *p, void *arg)
{
    struct remote_fetch *f = arg;

    f->reaching = NULL;
    peer_query_cancel(TAKE_PTR(f->query));
    remote_fetch_end(f, -1, p);
}

static void remote_fetch_on_reached(const struct peer *peer, const struct problem *p, void *arg)
{
    struct remote_fetch *f = arg;

    f->reaching = NULL;
    if (!peer) {
        remote_fetch_end(f, -1, p);
        return;
    }
    f->reaching = remote_host_watch(f->api, f->host_uuid, f->host, remote_fetch_on_lost, f);
    f->query = peer_get_file(f->api->modules.peers, peer, f->path, f->fd, f->size_max, f->timeout_ns,
                             remote_fetch_on_file, f);
}

struct remote_fetch *remote_fetch_start(struct api *api, const struct remote_fetch_job *job,
                                        void (*done)(int64_t size, const struct problem *p, void *arg),
                                        void *arg)
{
    struct remote_fetch *f = xcalloc(1, sizeof(*f));

    *f = (struct remote_fetch){.api = api,
                               .host_uuid = xstrdup(job->host_uuid),
                               .host = xstrdup(job->host),
                               .path = xstrdup(job->path),
                               .fd = job->fd,
                               .size_max = job->size_max,
                               .timeout_ns = job->timeout_ns,
                               .done = done,
                               .arg = arg};
    f->reaching = remote_host_reach(api, f->host_uuid, f->host, remote_fetch_on_reached, f);
    return f;
}
