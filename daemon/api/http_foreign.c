/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_foreign.h"

#include "base/alloc.h"
#include "base/json.h"
#include "daemon/api/http_internal.h"

struct http_foreign {
    struct http_peer peer;
    char *body;
    const struct http_foreign_replies *replies;
    void *arg;
};

int http_request_new_foreign(enum http_method method, const char *path, const char *query, const char *body,
                             const struct http_peer *peer, const struct http_foreign_replies *replies,
                             void *arg, struct http_request **ret)
{
    struct http_query parsed = {0};

    int r = query ? http_query_parse(query, strlen(query), &parsed) : 0;
    if (r < 0)
        return r;
    struct http_foreign *f = xcalloc(1, sizeof(*f));
    *f = (struct http_foreign){.peer = *peer, .body = xstrdup(body), .replies = replies, .arg = arg};
    struct http_request *request = xcalloc(1, sizeof(*request));
    *request = (struct http_request){.head = {.method = method, .path = xstrdup(path), .query = parsed},
                                     .body = f->body,
                                     .body_size = body ? strlen(body) : 0,
                                     .foreign = f};
    *ret = request;
    return 0;
}

struct http_foreign *http_foreign_free(struct http_foreign *f)
{
    if (!f)
        return NULL;
    free(f->body);
    free(f);
    return NULL;
}

const struct http_peer *http_foreign_peer(const struct http_foreign *f)
{
    return &f->peer;
}

void http_foreign_reply(struct http_request *r, int status, json_t *take_body)
{
    _cleanup_json_ body = take_body;
    struct http_foreign f = *r->foreign;

    http_request_free(r);
    f.replies->json(status, body, f.arg);
}

void http_foreign_reply_file(struct http_request *r, int take_fd, int64_t size, const char *name)
{
    _cleanup_(freep) char *copy = xstrdup(name);
    struct http_foreign f = *r->foreign;

    http_request_free(r);
    f.replies->file(take_fd, size, copy, f.arg);
}
