/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of traces that other hosts keep, for clients of this profd. A range of a few MiB is asked of the host and passed on,
 * so that a report reads only the pages that it needs; a complete file is copied into a file without a name first, and
 * goes with its last reader. Nothing of another host's file is opened here by a name that the host gave.
 *
 * Where the host does not answer, or does not have the file any more, the trace itself comes from the archive, if this profd
 * has one; columns are not archived. Such a reply has a Link with rel="via", to the state of the archive. The copy serves
 * further ranges for a while (remote_kept.h).
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/units.h"
#include "daemon/api/handler.h"
#include "daemon/api/http_file.h"
#include "daemon/api/remote_host.h"
#include "daemon/archive/archiver.h"
#include "daemon/catalog/records.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/statvfs.h>

/* Of one answer of a host. */
#define REMOTE_BYTES_MAX  (INT64_C(4) << 20)
#define REMOTE_TIMEOUT_NS (60 * NS_PER_S)
/* A range is asked for again where a host does not answer at once. */
#define REMOTE_TRIES 2

struct remote_download {
    struct api *api;
    struct later_reply *later;
    struct remote_host *watch; /* while the host sends */
    /* What is in flight; at most one is not NULL. */
    struct remote_host *reaching;
    struct peer_query *query;
    struct archive_copying *copying;
    int64_t trace_id;
    char *host_uuid, *host, *path, *name, *sha256, *archive_key;
    int64_t size;            /* of the complete file */
    int64_t trace_size;      /* of the trace, which is another one than that of its columns */
    int64_t offset, until;   /* what is asked for, and not there yet */
    struct remote_copy room; /* of the disk, for the copy */
    bool is_range;           /* of the client's request: passed on as it comes */
    bool of_columns, is_archived;
    struct problem problem; /* of the host */
    int fd;                 /* the copy; -1: none */
    int64_t begun_ns;       /* monotonic */
    unsigned tries;
};

static void remote_download_free(struct remote_download *d)
{
    char *const texts[] = {d->host_uuid, d->host, d->path, d->name, d->sha256, d->archive_key};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        free(texts[i]);
    remote_room_release(&d->api->remote_room, &d->room);
    remote_host_cancel(d->watch);
    problem_done(&d->problem);
    closep(&d->fd);
    free(d);
}

static void remote_on_close(void *work)
{
    struct remote_download *d = work;

    remote_host_cancel(d->reaching);
    peer_query_cancel(d->query);
    archiver_copy_cancel(d->copying);
    remote_download_free(d);
}

/* archived: RECORD_NONE where that is not known. */
static void remote_fail(struct remote_download *d, const struct problem *p, int64_t archived)
{
    struct later_reply later;

    if (later_reply_end(d->later, &later)) {
        if (p->kind == PROBLEM_UNREACHABLE)
            remote_host_reply(later.request, p, d->host, archived);
        else
            http_reply_problem(later.request, p);
    }
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

    remote_room_release(&d->api->remote_room, &d->room);
    if (later_reply_end(d->later, &later)) {
        if (d->is_archived)
            http_reply_header(later.request, "Link", "</v1/archive>; rel=\"via\"");
        if (fstat(d->fd, &st) == 0)
            http_reply_file(later.request, &(struct http_download){.fd = TAKE_FD(d->fd),
                                                                   .st = &st,
                                                                   .size = d->size,
                                                                   .content_type = "application/octet-stream",
                                                                   .name = d->of_columns ? NULL : d->name});
        else
            reply_refused(later.request, PROBLEM_STORAGE, NULL, "cannot read the copy of the trace: %s",
                          strerror(errno));
    }
    remote_download_free(d);
}

/* -- A copy ------------------------------------------------------------------------------------------- */

static bool remote_reserve_copy(struct remote_download *d, const char *dir)
{
    struct statvfs v;

    return statvfs(dir, &v) == 0 && remote_room_reserve(&d->api->remote_room, &d->room, d->host_uuid, d->size,
                                                        (int64_t)(v.f_bavail * v.f_frsize));
}

/* Makes d->fd, whose bytes are reserved: several copies at a time stay within the disk, too. */
static int remote_open_copy(struct remote_download *d, struct problem *p)
{
    const char *dir = d->api->modules.state_dir;
    bool has_room = remote_reserve_copy(d, dir);

    if (!has_room) {
        remote_kept_clear(&d->api->remote_kept);
        has_room = remote_reserve_copy(d, dir);
    }
    if (!has_room) {
        problem_remedy(
            p, "Retry when other downloads are done, or download it on %s, or in ranges of at most 4 MiB.",
            d->host);
        return problem_set(p, -ENOSPC, PROBLEM_STORAGE, "no room in %s for a copy of the trace", dir);
    }
    d->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (d->fd < 0)
        return problem_set(p, -errno, PROBLEM_STORAGE, "cannot keep a copy of the trace in %s: %s", dir,
                           strerror(errno));
    return 0;
}

/* -- From the archive --------------------------------------------------------------------------------- */

static void remote_on_copied(const struct problem *p, void *arg)
{
    struct remote_download *d = arg;
    struct archiver *archiver = d->api->modules.archiver;
    _cleanup_(problem_done) struct problem mine = {0};
    bool is_missing = p && p->kind == PROBLEM_NOT_FOUND;

    d->copying = NULL;
    if (!p && d->of_columns) {
        problem_set(&mine, -EHOSTUNREACH, d->problem.kind, "%s", d->problem.what);
        problem_remedy(&mine, "Columns are not archived; the trace itself is: profctl get t%" PRId64 ".",
                       d->trace_id);
        remote_fail(d, &mine, 1);
        return;
    }
    d->is_archived = !p;
    if (!p) {
        remote_kept_add(&d->api->remote_kept, d->sha256, d->fd, d->trace_size);
        remote_reply_file(d);
        return;
    }
    if (is_missing)
        problem_set(&mine, -ENOENT, d->problem.kind, "%s; the archive %s does not have t%" PRId64,
                    d->problem.what, archiver_name(archiver), d->trace_id);
    else
        problem_set(&mine, -EIO, d->problem.kind, "%s; cannot fetch t%" PRId64 " from the archive: %s",
                    d->problem.what, d->trace_id, p->what);
    const char *remedy = !is_missing && p->remedy ? p->remedy : d->problem.remedy;
    if (remedy)
        problem_remedy(&mine, "%s", remedy);
    remote_fail(d, &mine, is_missing ? 0 : RECORD_NONE);
}

/* Of an archive that is asked for several ranges of a trace. True: it was replied. */
static bool remote_use_kept(struct remote_download *d)
{
    int fd = d->of_columns ? -ENOENT : remote_kept_open(&d->api->remote_kept, d->sha256, d->trace_size);

    if (fd < 0)
        return false;
    closep(&d->fd); /* of what the host had sent before */
    d->fd = fd;
    d->is_archived = true;
    remote_reply_file(d);
    return true;
}

/* The host does not have what is asked for, or does not answer: p. */
static void remote_from_archive(struct remote_download *d, const struct problem *p)
{
    struct archiver *archiver = d->api->modules.archiver;
    int64_t archived = d->archive_key ? 1 : RECORD_NONE;
    _cleanup_(problem_done) struct problem mine = {0};

    remote_host_cancel(TAKE_PTR(d->watch));
    if (!archiver_is_configured(archiver)) {
        problem_set(&mine, -EHOSTUNREACH, p->kind, "%s", p->what);
        problem_remedy(&mine,
                       "%s\nWith [archive] url= and a credential that may read (reader_credentials_file=) in "
                       "profd.conf of %s, archived traces come from there.",
                       p->remedy ? p->remedy : "profctl list-hosts shows the state of each host.",
                       catalog_host(d->api->modules.catalog));
        remote_fail(d, &mine, archived);
        return;
    }
    if (d->of_columns && p->kind != PROBLEM_UNREACHABLE) {
        remote_fail(d, p, archived);
        return;
    }
    if (remote_use_kept(d))
        return;
    if (!d->of_columns && d->fd < 0 && remote_open_copy(d, &mine) < 0) {
        remote_fail(d, &mine, archived);
        return;
    }
    problem_copy(&d->problem, -EHOSTUNREACH, p->kind, p);
    d->copying = archiver_copy(archiver,
                               &(const struct archive_copy){.sha256 = d->sha256,
                                                            .name = d->name,
                                                            .key = d->archive_key,
                                                            .size = d->trace_size,
                                                            .fd = d->of_columns ? -1 : d->fd},
                               remote_on_copied, d);
    if (!d->copying)
        remote_fail(d, p, archived);
}

/* -- From the host ------------------------------------------------------------------------------------ */

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
    if (!data && status == 0)
        problem_copy(&mine, -EHOSTUNREACH, PROBLEM_UNREACHABLE, p);
    if (!data) {
        remote_from_archive(d, mine.what ? &mine : p);
        return;
    }
    d->tries = 0;
    if (d->is_range) {
        remote_reply_range(d, data, size);
        return;
    }
    int r = pwrite_full(d->fd, data, size, (uint64_t)d->offset);
    if (r < 0) {
        problem_set(&mine, r, PROBLEM_STORAGE, "cannot keep a copy of the trace: %s", strerror(-r));
        remote_fail(d, &mine, RECORD_NONE);
        return;
    }
    d->offset += (int64_t)size;
    if (d->offset < d->until && remote_copy_is_slow(mono_ns() - d->begun_ns, d->offset)) {
        problem_set(&mine, -ETIMEDOUT, PROBLEM_UNREACHABLE,
                    "%s sends less than 1 MiB/s, too slowly for a copy", d->host);
        problem_remedy(&mine, "Download it on %s, or in ranges of at most 4 MiB.", d->host);
        remote_from_archive(d, &mine);
        return;
    }
    if (d->offset < d->until)
        remote_ask(d);
    else
        remote_reply_file(d);
}

static void remote_on_lost(const struct peer *none, const struct problem *p, void *arg)
{
    struct remote_download *d = arg;

    d->watch = NULL;
    peer_query_cancel(TAKE_PTR(d->query));
    remote_from_archive(d, p);
}

static void remote_ask_peer(struct remote_download *d, const struct peer *peer)
{
    if (!d->watch)
        d->watch = remote_host_watch(d->api, d->host_uuid, d->host, remote_on_lost, d);
    d->query = peer_get_bytes(d->api->modules.peers, peer, d->path, d->offset,
                              (size_t)MIN(d->until - d->offset, REMOTE_BYTES_MAX), REMOTE_TIMEOUT_NS,
                              remote_on_bytes, d);
}

static void remote_on_reached(const struct peer *peer, const struct problem *p, void *arg)
{
    struct remote_download *d = arg;

    d->reaching = NULL;
    if (p)
        remote_from_archive(d, p);
    else
        remote_ask_peer(d, peer);
}

static void remote_reach(struct remote_download *d)
{
    remote_host_cancel(TAKE_PTR(d->watch));
    d->reaching = remote_host_reach(d->api, d->host_uuid, d->host, remote_on_reached, d);
}

/* The next bytes, of a host that answered before. */
static void remote_ask(struct remote_download *d)
{
    const struct peer *peer = peers_find(d->api->modules.peers, d->host_uuid);

    if (peer)
        remote_ask_peer(d, peer);
    else
        remote_reach(d);
}

/* False: the reply was given. */
static bool remote_plan(struct http_request *r, struct remote_download *d)
{
    const char *text = http_method(r) == HTTP_GET ? http_header(r, "Range") : NULL;
    _cleanup_(problem_done) struct problem p = {0};
    struct http_range range;

    d->until = d->size;
    if (text && http_range_parse(text, d->size, &range) == HTTP_RANGE_PART &&
        range.size <= REMOTE_BYTES_MAX) {
        d->offset = range.offset;
        d->until = d->offset + range.size;
        d->is_range = true;
        return true;
    }
    if (remote_open_copy(d, &p) == 0)
        return true;
    http_reply_problem(r, &p);
    return false;
}

void remote_download_start(struct api *api, struct http_request *r, const struct route_match *match,
                           const struct remote_trace_record *t, const char *what)
{
    _cleanup_json_ facts = NULL;
    bool of_columns = streq(what, "columns");

    if (remote_host_refuse_peer(r, t))
        return;
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
    if (http_method(r) == HTTP_HEAD) {
        http_reply_size(r, "application/octet-stream", size);
        return;
    }
    struct remote_download *d = xcalloc(1, sizeof(*d));
    *d = (struct remote_download){.api = api,
                                  .trace_id = t->trace_id,
                                  .host_uuid = xstrdup(t->host_uuid),
                                  .host = xstrdup(host ? host : t->host_uuid),
                                  .path = xasprintf("/v1/traces/t%" PRId64 "/%s", t->remote_id, what),
                                  .name = xstrdup(name),
                                  .sha256 = xstrdup(json_get_str(facts, "sha256")),
                                  .archive_key = xstrdup(json_get_str(facts, "archive_key")),
                                  .size = size,
                                  .trace_size = json_get_int(facts, "size", 0),
                                  .of_columns = of_columns,
                                  .begun_ns = mono_ns(),
                                  .fd = -1};
    if (!remote_plan(r, d)) {
        remote_download_free(d);
        return;
    }
    d->later = later_reply_new(api, r, match);
    d->later->work = d;
    d->later->cancel = remote_on_close;
    if (d->offset < d->until)
        remote_reach(d);
    else
        remote_reply_file(d); /* an empty file */
}
