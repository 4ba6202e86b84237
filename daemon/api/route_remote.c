/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of traces that other hosts keep, for clients of this profd. A range of a few MiB is asked of the host and passed on,
 * so that a report reads only the pages that it needs; a complete file is copied into a file without a name first, and
 * goes with its last reader. Nothing of another host's file is opened here by a name that the host gave.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/units.h"
#include "daemon/api/handler.h"
#include "daemon/api/http_file.h"
#include "daemon/catalog/records.h"
#include "daemon/peers/peers.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/statvfs.h>

/* Of one answer of a host. */
#define REMOTE_BYTES_MAX  (INT64_C(4) << 20)
#define REMOTE_TIMEOUT_NS (60 * NS_PER_S)
/* Bytes that a copy leaves free on the disk of the catalog. */
#define REMOTE_KEEP_FREE (INT64_C(1) << 30)
/* A range is asked for again where a host does not answer at once. */
#define REMOTE_TRIES 2

struct remote_download {
    struct later_reply *later;
    struct peers *peers;
    struct peer_query *query;
    char *host_uuid, *host, *path, *name;
    int64_t size;          /* of the complete file */
    int64_t offset, until; /* what is asked for, and not there yet */
    bool is_range;         /* of the client's request: passed on as it comes */
    int fd;                /* the copy; -1: none */
    unsigned tries;
};

static void remote_download_free(struct remote_download *d)
{
    closep(&d->fd);
    free(d->host_uuid);
    free(d->host);
    free(d->path);
    free(d->name);
    free(d);
}

static void remote_on_close(void *work)
{
    struct remote_download *d = work;

    peer_query_cancel(d->query);
    remote_download_free(d);
}

static void remote_fail(struct remote_download *d, const struct problem *p)
{
    struct later_reply later;

    if (later_reply_end(d->later, &later))
        http_reply_problem(later.request, p);
    remote_download_free(d);
}

static void remote_reply_range(struct remote_download *d, const char *data, size_t size)
{
    struct later_reply later;

    if (later_reply_end(d->later, &later)) {
        _cleanup_(freep) char *range =
            xasprintf("bytes %" PRId64 "-%" PRId64 "/%" PRId64, d->offset, d->until - 1, d->size);
        http_reply_header(later.request, "Content-Range", range);
        http_reply(later.request, 206, "application/octet-stream", data, size);
    }
    remote_download_free(d);
}

static void remote_reply_file(struct remote_download *d)
{
    struct later_reply later;
    struct stat st;

    if (later_reply_end(d->later, &later)) {
        if (fstat(d->fd, &st) == 0)
            http_reply_file(later.request, &(struct http_download){.fd = TAKE_FD(d->fd),
                                                                   .st = &st,
                                                                   .size = d->size,
                                                                   .content_type = "application/octet-stream",
                                                                   .name = d->name});
        else
            reply_refused(later.request, PROBLEM_STORAGE, NULL, "cannot read the copy of the trace: %s",
                          strerror(errno));
    }
    remote_download_free(d);
}

static void remote_ask(struct remote_download *d);

static void remote_on_bytes(int status, const char *data, size_t size, const struct problem *p, void *arg)
{
    struct remote_download *d = arg;
    _cleanup_(problem_done) struct problem mine = {0};

    d->query = NULL;
    if (!data && status == 0 && ++d->tries < REMOTE_TRIES) {
        remote_ask(d);
        return;
    }
    if (!data) {
        remote_fail(d, p);
        return;
    }
    d->tries = 0;
    if (d->is_range) {
        remote_reply_range(d, data, size);
        return;
    }
    if (pwrite(d->fd, data, size, d->offset) != (ssize_t)size) {
        problem_set(&mine, -ENOSPC, PROBLEM_STORAGE, "cannot keep a copy of the trace: %s",
                    strerror(errno ? errno : ENOSPC));
        remote_fail(d, &mine);
        return;
    }
    d->offset += (int64_t)size;
    if (d->offset < d->size)
        remote_ask(d);
    else
        remote_reply_file(d);
}

static void remote_ask(struct remote_download *d)
{
    const struct peer *peer = peers_find(d->peers, d->host_uuid);
    _cleanup_(problem_done) struct problem p = {0};

    if (!peer) {
        problem_set(&p, -EHOSTUNREACH, PROBLEM_UPSTREAM, "the trace is on %s, which cannot be reached",
                    d->host);
        problem_remedy(&p, "profctl list-hosts shows the state of each host.");
        remote_fail(d, &p);
        return;
    }
    d->query = peer_get_bytes(d->peers, peer, d->path, d->offset,
                              (size_t)MIN(d->until - d->offset, REMOTE_BYTES_MAX), REMOTE_TIMEOUT_NS,
                              remote_on_bytes, d);
}

/* False: the reply was given. */
static bool remote_plan(struct api *api, struct http_request *r, struct remote_download *d)
{
    const char *text = http_method(r) == HTTP_GET ? http_header(r, "Range") : NULL;
    struct http_range range;

    d->until = d->size;
    if (text && http_range_parse(text, d->size, &range) == HTTP_RANGE_PART &&
        range.size <= REMOTE_BYTES_MAX) {
        d->offset = range.offset;
        d->until = d->offset + range.size;
        d->is_range = true;
        return true;
    }
    struct statvfs v;
    if (statvfs(api->modules.state_dir, &v) < 0 ||
        d->size > (int64_t)(v.f_bavail * v.f_frsize) - REMOTE_KEEP_FREE) {
        reply_refused(r, PROBLEM_STORAGE,
                      "Download it on the host that keeps it, or in ranges of at most 4 MiB.",
                      "no room in %s for a copy of the trace", api->modules.state_dir);
        return false;
    }
    d->fd = open(api->modules.state_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (d->fd >= 0)
        return true;
    reply_refused(r, PROBLEM_STORAGE, NULL, "cannot keep a copy of the trace in %s: %s",
                  api->modules.state_dir, strerror(errno));
    return false;
}

void remote_download_start(struct api *api, struct http_request *r, const struct route_match *match,
                           const struct remote_trace_record *t, const char *what)
{
    _cleanup_json_ facts = NULL;
    bool of_columns = streq(what, "columns");
    int err = catalog_remote_trace_json(api->modules.catalog, t, &facts);

    if (err < 0) {
        reply_error(api, r, err, "read the trace");
        return;
    }
    const char *host = json_get_str(facts, "host"), *name = json_get_str(facts, "name");
    int64_t size = json_get_int(facts, of_columns ? "columns_size" : "size", 0);
    if (of_columns && (!json_get_str(facts, "columns") || size <= 0)) {
        const char *reason = json_get_str(facts, "columns_reason");
        reply_refused(r, PROBLEM_NOT_FOUND, "Download the trace itself from /v1/traces/{trace}/file.",
                      "trace t%" PRId64 " has no columns%s%s", t->trace_id, reason ? ": " : "",
                      reason ? reason : "");
        return;
    }
    struct remote_download *d = xcalloc(1, sizeof(*d));
    *d = (struct remote_download){.peers = api->modules.peers,
                                  .host_uuid = xstrdup(t->host_uuid),
                                  .host = xstrdup(host ? host : t->host_uuid),
                                  .path = xasprintf("/v1/traces/t%" PRId64 "/%s", t->remote_id, what),
                                  .name = xstrdup(of_columns ? NULL : name),
                                  .size = size,
                                  .fd = -1};
    if (!remote_plan(api, r, d)) {
        remote_download_free(d);
        return;
    }
    d->later = later_reply_new(api, r, match);
    d->later->work = d;
    d->later->cancel = remote_on_close;
    if (d->offset < d->until)
        remote_ask(d);
    else
        remote_reply_file(d); /* an empty file */
}
