/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a handler sees of a request, and its replies: JSON, problems, files, streams. A request of another
 * transport (D-Bus) has no connection, and its reply goes to functions.
 */
#include "daemon/api/http_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include <errno.h>
#include <event2/buffer.h>

struct http_external {
    struct http_peer peer;
    char *body;
    const struct http_external_replies *replies;
    void *arg;
};

struct http_request *http_request_free(struct http_request *r)
{
    if (!r)
        return NULL;
    if (r->extra)
        evbuffer_free(r->extra);
    free(r->user);
    if (r->external)
        free(r->external->body);
    free(r->external);
    if (r->body_buffer)
        evbuffer_free(r->body_buffer);
    http_head_done(&r->head);
    free(r);
    return NULL;
}

void http_request_abandon(struct http_request *r)
{
    if (r->on_close)
        r->on_close(r, r->on_close_arg);
    http_request_free(r);
}

int http_request_new_external(enum http_method method, const char *path, const char *query, const char *body,
                              const struct http_peer *peer, const struct http_external_replies *replies,
                              void *arg, struct http_request **ret)
{
    struct http_query parsed = {0};

    int r = query ? http_query_parse(query, strlen(query), &parsed) : 0;
    if (r < 0)
        return r;
    struct http_external *f = xcalloc(1, sizeof(*f));
    *f = (struct http_external){.peer = *peer, .body = xstrdup(body), .replies = replies, .arg = arg};
    struct http_request *request = xcalloc(1, sizeof(*request));
    *request = (struct http_request){.head = {.method = method, .path = xstrdup(path), .query = parsed},
                                     .body = f->body,
                                     .body_size = body ? strlen(body) : 0,
                                     .external = f};
    *ret = request;
    return 0;
}

/* -- The request -------------------------------------------------------------------------------------- */

enum http_method http_method(const struct http_request *r)
{
    return r->head.method;
}

const char *http_path(const struct http_request *r)
{
    return r->head.path;
}

const char *http_query_get(const struct http_request *r, const char *key)
{
    const char *value;
    return http_query_all(r, key, &value, 1) > 0 ? value : NULL;
}

size_t http_query_all(const struct http_request *r, const char *key, const char **ret, size_t max)
{
    const struct http_query *q = &r->head.query;
    size_t n = 0;

    for (size_t i = 0; i < q->n; i++) {
        if (!streq(q->params[i].key, key))
            continue;
        if (n < max)
            ret[n] = q->params[i].value;
        n++;
    }
    return n;
}

const char *http_query_key(const struct http_request *r, size_t n)
{
    return n < r->head.query.n ? r->head.query.params[n].key : NULL;
}

const char *http_header(const struct http_request *r, const char *name)
{
    return http_head_field(&r->head, name);
}

int http_request_retarget(struct http_request *r, const char *target)
{
    struct http_query query = {0};
    const char *mark = strchrnul(target, '?');
    char *path;

    int err = http_path_decode(target, (size_t)(mark - target), &path);
    if (err < 0)
        return err;
    err = *mark ? http_query_parse(mark + 1, strlen(mark + 1), &query) : 0;
    if (err < 0) {
        free(path);
        return err;
    }
    free(r->head.path);
    http_query_done(&r->head.query);
    r->head.path = path;
    r->head.query = query;
    return 0;
}

int64_t http_body_length(const struct http_request *r)
{
    return r->head.content_length;
}

int64_t http_begun_ns(const struct http_request *r)
{
    return r->begun_ns;
}

const char *http_body(const struct http_request *r, size_t *ret_size)
{
    *ret_size = r->body_size;
    return r->body;
}

/* Who sent it to the relay is not known; on this host the relay admits loopback only. */
static const struct http_peer peer_relayed = {.uid = (uid_t)-1,
                                              .gid = (gid_t)-1,
                                              .pid = -1,
                                              .ip = {.s6_addr = {[10] = 0xff, 0xff, 127, 0, 0, 1}},
                                              .address = "relay"};

const struct http_peer *http_peer(const struct http_request *r)
{
    if (r->relayed)
        return &peer_relayed;
    return r->external ? &r->external->peer : &r->conn->peer;
}

void http_set_user(struct http_request *r, const char *name)
{
    replace_str(&r->user, name);
}

void http_set_right(struct http_request *r, enum right right)
{
    r->right = right;
}

enum right http_right(const struct http_request *r)
{
    return r->right;
}

const char *http_user(const struct http_request *r)
{
    return r->user;
}

void http_on_close(struct http_request *r, void (*fn)(struct http_request *r, void *arg), void *arg)
{
    r->on_close = fn;
    r->on_close_arg = arg;
}

void http_reply_header(struct http_request *r, const char *name, const char *value)
{
    if (!r->extra)
        r->extra = evbuffer_new();
    http_render_header(r->extra, name, value);
}

void http_count_reply(struct http_request *r, struct http_counts *counts, struct http_durations *durations)
{
    r->counts = counts;
    r->durations = durations;
}

/* -- Replies ------------------------------------------------------------------------------------------ */

static void external_reply(struct http_request *r, int status, json_t *take_body)
{
    _cleanup_json_ body = take_body;
    struct http_external f = *r->external;

    http_request_free(r);
    f.replies->json(status, body, f.arg);
}

static void external_reply_file(struct http_request *r, int take_fd, int64_t size, const char *name)
{
    _cleanup_(freep) char *copy = xstrdup(name);
    struct http_external f = *r->external;

    http_request_free(r);
    f.replies->file(take_fd, size, copy, f.arg);
}

static void reply_count(const struct http_request *r, int status)
{
    int class = status / 100 - 1;

    if (!r->counts)
        return;
    r->counts->by_class[class]++;
    histogram_add(&r->durations->by_class[class], mono_ns() - r->begun_ns);
}

static void reply_render(struct http_request *r, struct http_response response)
{
    reply_count(r, response.status);
    response.close = http_conn_closes(r->conn);
    response.minor = r->head.minor;
    response.extra = r->extra;
    http_render_head(http_conn_output(r->conn), &response);
}

static void reply_finish(struct http_request *r, struct http_file *take_file)
{
    struct http_conn *c = r->conn;
    http_request_free(r);
    http_conn_replied(c, take_file);
}

/* RFC 9110, 8.6: these have neither a body nor its length. */
static bool reply_has_body(int status)
{
    return status != 204 && status != 304;
}

/* Moves body to the output. */
static void reply_buffer(struct http_request *r, int status, const char *content_type, struct evbuffer *body)
{
    int64_t size = reply_has_body(status) ? (int64_t)evbuffer_get_length(body) : -1;

    reply_render(r, (struct http_response){.status = status,
                                           .content_type = size >= 0 ? content_type : NULL,
                                           .content_length = size});
    if (size > 0 && r->head.method != HTTP_HEAD)
        evbuffer_add_buffer(http_conn_output(r->conn), body);
    reply_finish(r, NULL);
}

void http_reply(struct http_request *r, int status, const char *content_type, const void *body, size_t size)
{
    if (r->external) {
        external_reply(r, status, json_stringn(body, size));
        return;
    }
    struct evbuffer *buffer = evbuffer_new();
    evbuffer_add(buffer, body, size);
    reply_buffer(r, status, content_type, buffer);
    evbuffer_free(buffer);
}

void http_reply_buffer(struct http_request *r, int status, const char *content_type, struct evbuffer *body)
{
    if (r->external) {
        size_t size = evbuffer_get_length(body);
        external_reply(r, status, json_stringn((const char *)evbuffer_pullup(body, -1), size));
        return;
    }
    reply_buffer(r, status, content_type, body);
}

static void reply_free_text(const void *data, size_t size, void *arg)
{
    free(arg);
}

static void reply_json(struct http_request *r, int status, const char *content_type, json_t *take_body)
{
    if (r->external) {
        external_reply(r, status, take_body);
        return;
    }
    _cleanup_json_ body = take_body;
    char *text = body ? json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (!text) {
        status = 500;
        content_type = HTTP_PROBLEM_TYPE;
        text = xstrdup(
            "{\"status\":500,\"code\":\"internal\",\"detail\":\"the reply cannot be written as JSON\"}");
    }

    struct evbuffer *buffer = evbuffer_new();
    evbuffer_add_reference(buffer, text, strlen(text), reply_free_text, text);
    evbuffer_add(buffer, "\n", 1);
    reply_buffer(r, status, content_type, buffer);
    evbuffer_free(buffer);
}

void http_reply_json(struct http_request *r, int status, json_t *take_body)
{
    reply_json(r, status, "application/json", take_body);
}

void http_reply_problem_json(struct http_request *r, int status, json_t *take_body)
{
    reply_json(r, status, HTTP_PROBLEM_TYPE, take_body);
}

void http_reply_problem(struct http_request *r, const struct problem *p)
{
    int status = problem_http_status(p->kind);
    reply_json(r, status, HTTP_PROBLEM_TYPE,
               http_render_problem(status, problem_code(p->kind), p->what ? p->what : "", p->remedy));
}

static void reply_gone(struct http_request *r)
{
    _cleanup_(problem_done) struct problem p = {0};
    problem_set(&p, -ENOENT, PROBLEM_GONE, "the file is no longer as it was recorded");
    http_reply_problem(r, &p);
}

/* -- Files and streams -------------------------------------------------------------------------------- */

/* The range of the file that the request asks for; a range is for GET, and where If-Range holds. */
static enum http_range_kind request_range(const struct http_request *r, int64_t size, const char *etag,
                                          struct http_range *ret)
{
    const char *condition = http_header(r, "If-Range");

    *ret = (struct http_range){0, size};
    if (r->head.method != HTTP_GET || (condition && !streq(condition, etag)))
        return HTTP_RANGE_NONE;
    return http_range_parse(http_header(r, "Range"), size, ret);
}

static void reply_add_file_headers(struct http_request *r, const char *etag, const char *file_name)
{
    http_reply_header(r, "Accept-Ranges", "bytes");
    http_reply_header(r, "ETag", etag);
    if (file_name) {
        _cleanup_(freep) char *disposition = http_file_disposition(file_name);
        http_reply_header(r, "Content-Disposition", disposition);
    }
}

static void reply_add_range(struct http_request *r, enum http_range_kind kind, const struct http_range *range,
                            int64_t size)
{
    char text[96];

    if (kind == HTTP_RANGE_UNSATISFIABLE)
        snprintf(text, sizeof(text), "bytes */%jd", (intmax_t)size);
    else
        snprintf(text, sizeof(text), "bytes %jd-%jd/%jd", (intmax_t)range->offset,
                 (intmax_t)(range->offset + range->size - 1), (intmax_t)size);
    http_reply_header(r, "Content-Range", text);
}

void http_reply_size(struct http_request *r, const char *content_type, int64_t size)
{
    http_reply_header(r, "Accept-Ranges", "bytes");
    reply_render(r,
                 (struct http_response){.status = 200, .content_type = content_type, .content_length = size});
    reply_finish(r, NULL);
}

void http_reply_file(struct http_request *r, const struct http_download *take)
{
    _cleanup_(http_file_freep) struct http_file *file = NULL;
    _cleanup_(closep) int fd = take->fd;
    int64_t size = take->size;
    struct http_range range;
    char etag[HTTP_ETAG_MAX];

    if (!S_ISREG(take->st->st_mode) || take->st->st_size < size)
        return reply_gone(r);
    if (r->external)
        return external_reply_file(r, TAKE_FD(fd), size, take->name);
    http_file_etag(take->st, etag);
    enum http_range_kind kind = request_range(r, size, etag, &range);
    if (kind == HTTP_RANGE_UNSATISFIABLE) {
        reply_add_range(r, kind, NULL, size);
        return reply_json(r, 416, HTTP_PROBLEM_TYPE,
                          http_render_problem(416, problem_code(PROBLEM_BAD_REQUEST),
                                              "the range starts after the end of the file", NULL));
    }
    TAKE_FD(fd);
    if (http_file_new(take, range.offset, range.size, &file) < 0)
        return reply_gone(r);

    reply_add_file_headers(r, etag, take->name);
    if (kind == HTTP_RANGE_PART)
        reply_add_range(r, kind, &range, size);
    reply_render(r, (struct http_response){.status = kind == HTTP_RANGE_PART ? 206 : 200,
                                           .content_type = take->content_type,
                                           .content_length = range.size});
    reply_finish(r, r->head.method == HTTP_HEAD ? NULL : TAKE_PTR(file));
}

void http_stream_begin(struct http_request *r, const char *content_type)
{
    r->chunked = r->head.minor == 1 && r->head.method != HTTP_HEAD;
    http_conn_stream(r->conn);
    reply_render(
        r, (struct http_response){
               .status = 200, .content_type = content_type, .content_length = -1, .chunked = r->chunked});
}

int http_stream_write(struct http_request *r, const char *data, size_t size)
{
    struct evbuffer *out = http_conn_output(r->conn);

    int error = http_conn_stream_room(r->conn, size);
    if (error < 0 || size == 0 || r->head.method == HTTP_HEAD)
        return error;
    if (r->chunked)
        evbuffer_add_printf(out, "%zx\r\n", size);
    evbuffer_add(out, data, size);
    if (r->chunked)
        evbuffer_add(out, "\r\n", 2);
    return 0;
}

size_t http_stream_waiting(const struct http_request *r)
{
    return evbuffer_get_length(http_conn_output(r->conn));
}

void http_stream_end(struct http_request *r)
{
    if (r->chunked)
        evbuffer_add(http_conn_output(r->conn), "0\r\n\r\n", 5);
    reply_finish(r, NULL);
}
