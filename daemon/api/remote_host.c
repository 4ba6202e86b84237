/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/remote_host.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>

/* For this time the last call decides. */
#define REMOTE_HOST_AGE_NS (10 * NS_PER_S)
/* Between two questions to a host that is watched. */
#define REMOTE_WATCH_NS (4 * NS_PER_S)
/* A host that is not known: peers that were heard of in this time are not asked for it again. */
#define REMOTE_PEERS_AGE_NS (60 * NS_PER_S)

struct remote_host {
    struct api *api;
    char *host_uuid, *host;
    struct event *soon;
    struct peers_refreshing *refreshing; /* NULL: not, or not any more */
    struct peer_query *query;            /* NULL: not sent, or answered */
    bool was_refreshed, is_watch;
    void (*done)(const struct peer *peer, const struct problem *p, void *arg);
    void *arg;
};

static void remote_host_free(struct remote_host *h)
{
    event_free(h->soon);
    free(h->host_uuid);
    free(h->host);
    free(h);
}

void remote_host_cancel(struct remote_host *h)
{
    if (!h)
        return;
    if (h->refreshing)
        peers_refresh_cancel(h->refreshing);
    peer_query_cancel(h->query);
    remote_host_free(h);
}

static void remote_host_end(struct remote_host *h, const struct peer *peer, const struct problem *p)
{
    void (*done)(const struct peer *peer, const struct problem *p, void *arg) = h->done;
    void *arg = h->arg;

    remote_host_free(h);
    done(peer, p, arg);
}

static void remote_host_end_unknown(struct remote_host *h)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -EHOSTUNREACH, PROBLEM_UNREACHABLE, "%s is no host that this profd knows at the moment",
                h->host);
    problem_remedy(&p, "profctl list-hosts shows the state of each host; profctl peer join adds one.");
    remote_host_end(h, NULL, &p);
}

static void remote_host_wait(struct remote_host *h)
{
    struct timeval tv = timeval_of(h->is_watch ? REMOTE_WATCH_NS : 0);
    event_add(h->soon, &tv);
}

static void remote_host_on_hello(int status, const json_t *body, const struct problem *p, void *arg)
{
    struct remote_host *h = arg;
    const struct peer *peer = peers_find(h->api->modules.peers, h->host_uuid);
    _cleanup_(problem_done) struct problem silence = {0};

    h->query = NULL;
    if (status > 0 && h->is_watch) {
        remote_host_wait(h);
    } else if (status > 0 && peer) { /* what it refuses, it explains better when it is asked for that */
        remote_host_end(h, peer, NULL);
    } else if (status > 0) {
        remote_host_end_unknown(h);
    } else {
        problem_copy(&silence, -EHOSTUNREACH, PROBLEM_UNREACHABLE, p);
        remote_host_end(h, NULL, &silence);
    }
}

static void remote_host_look(struct remote_host *h);

static void remote_host_on_refreshed(void *arg)
{
    struct remote_host *h = arg;

    h->refreshing = NULL;
    remote_host_look(h);
}

static void remote_host_look(struct remote_host *h)
{
    struct peers *peers = h->api->modules.peers;
    const struct peer *peer = peers_find(peers, h->host_uuid);
    const struct problem *silence = peer ? peer_silence(peer, REMOTE_HOST_AGE_NS) : NULL;

    if (!peer && !h->was_refreshed) {
        h->was_refreshed = true;
        h->refreshing = peers_refresh(peers, REMOTE_PEERS_AGE_NS, remote_host_on_refreshed, h);
    } else if (!peer) {
        remote_host_end_unknown(h);
    } else if (h->is_watch) {
        h->query = peer_get(peers, peer, "/v1/host", 0, remote_host_on_hello, h);
    } else if (silence) {
        remote_host_end(h, NULL, silence);
    } else if (peer_has_answered(peer, REMOTE_HOST_AGE_NS)) {
        remote_host_end(h, peer, NULL);
    } else {
        h->query = peer_get(peers, peer, "/v1/host", 0, remote_host_on_hello, h);
    }
}

static void remote_host_on_soon(evutil_socket_t fd, short what, void *arg)
{
    remote_host_look(arg);
}

static struct remote_host *remote_host_new(
    struct api *api, const char *host_uuid, const char *host, bool is_watch,
    void (*done)(const struct peer *peer, const struct problem *p, void *arg), void *arg)
{
    struct remote_host *h = xcalloc(1, sizeof(*h));

    *h = (struct remote_host){.api = api,
                              .host_uuid = xstrdup(host_uuid),
                              .host = xstrdup(host),
                              .is_watch = is_watch,
                              .done = done,
                              .arg = arg};
    h->soon = event_new(api->modules.base, -1, 0, remote_host_on_soon, h);
    if (!h->soon)
        abort(); /* as base/alloc.h */
    remote_host_wait(h);
    return h;
}

struct remote_host *remote_host_reach(struct api *api, const char *host_uuid, const char *host,
                                      void (*done)(const struct peer *peer, const struct problem *p,
                                                   void *arg),
                                      void *arg)
{
    return remote_host_new(api, host_uuid, host, false, done, arg);
}

struct remote_host *remote_host_watch(struct api *api, const char *host_uuid, const char *host,
                                      void (*lost)(const struct peer *none, const struct problem *p,
                                                   void *arg),
                                      void *arg)
{
    return remote_host_new(api, host_uuid, host, true, lost, arg);
}

void remote_host_reply(struct http_request *r, const struct problem *p, const char *host, int64_t archived)
{
    _cleanup_json_ remote = json_object();

    json_put_str(remote, "host", host);
    if (archived != RECORD_NONE)
        json_put_bool(remote, "archived", archived != 0);
    reply_problem(r, 0, p, "remote", remote);
}

bool remote_host_refuse_peer(struct http_request *r, const struct remote_trace_record *t)
{
    if (http_right(r) != RIGHT_PEER)
        return false;
    reply_refused(r, PROBLEM_DENIED, "Ask the host that keeps it, with a token of that host.",
                  "trace t%" PRId64 " is on another host; a token of role peer gets traces of this host only",
                  t->trace_id);
    return true;
}
