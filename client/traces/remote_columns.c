/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/remote_columns.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "client/traces/columns_cache.h"
#include <errno.h>

struct remote_columns {
    struct client *client;
    char *id, *path;
    uint64_t size;
    int fd;
    struct problem problem; /* the first one, if it is that of the host that has them */
    bool is_open;
    _Atomic bool has_failed; /* which was printed, once it was open */
};

/* A range that is being read. */
struct remote_range {
    const struct remote_columns *columns;
    uint64_t offset, end;
};

static int remote_range_write(const void *data, size_t size, void *arg)
{
    struct remote_range *range = arg;

    if (size > range->end - range->offset)
        return -EBADMSG;
    int r = pwrite_full(range->columns->fd, data, size, range->offset);
    range->offset += size;
    return r;
}

static int remote_columns_read(void *arg, uint64_t offset, uint64_t size)
{
    struct remote_columns *columns = arg;
    _cleanup_(problem_done) struct problem p = {0};
    struct remote_range range = {columns, offset, offset + size};

    int r = connection_download_range(columns->client->connection, columns->path, (int64_t)offset,
                                      (int64_t)size, remote_range_write, &range, &p);
    if (r >= 0 && range.offset != range.end)
        r = problem_set(&p, -EPROTO, PROBLEM_UPSTREAM, "incomplete response");
    if (r < 0 && !columns->has_failed) {
        columns->has_failed = true;
        if (r == -EREMOTEIO && (p.kind == PROBLEM_UNREACHABLE || p.kind == PROBLEM_UPSTREAM)) {
            columns->problem = p;
            p = (struct problem){0};
            if (columns->is_open)
                client_fail(columns->client, &columns->problem);
        } else {
            client_note(columns->client, "cannot read the columns of %s: %s", columns->id,
                        p.what ? p.what : strerror(-r));
        }
    }
    return r;
}

int remote_columns_new(struct client *c, const char *id, const char *key, uint64_t size,
                       struct remote_columns **ret)
{
    int fd = key ? columns_cache_open_partial(key) : nameless_file();

    if (fd < 0)
        return fd;
    struct remote_columns *r = xcalloc(1, sizeof(*r));
    r->client = c;
    r->id = xstrdup(id);
    r->path = xasprintf("/v1/traces/%s/columns", id);
    r->size = size;
    r->fd = fd;
    *ret = r;
    return fd;
}

struct remote_columns *remote_columns_free(struct remote_columns *r)
{
    if (!r)
        return NULL;
    closep(&r->fd);
    problem_done(&r->problem);
    free(r->id);
    free(r->path);
    free(r);
    return NULL;
}

struct problem *remote_columns_problem(struct remote_columns *r)
{
    return r->problem.what ? &r->problem : NULL;
}

int remote_columns_open(struct remote_columns *r, struct columns **ret, char **ret_reason)
{
    int err = columns_open_partial(r->fd, r->size, &(struct columns_fetch){remote_columns_read, r}, ret,
                                   ret_reason);
    r->is_open = r->is_open || err >= 0;
    return err;
}
