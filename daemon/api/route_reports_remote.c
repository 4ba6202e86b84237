/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports and SQL on traces that other hosts keep: the request is passed on to the host of the traces, under the numbers
 * that they have there, and its reply under ours. Only results travel. What a host answers is JSON for the client, of
 * bounded size; nothing of it is used here except the names of traces.
 */
#include "daemon/api/route_reports_remote.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "daemon/api/remote_fetch.h"
#include "daemon/api/remote_host.h"
#include "proto/report.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

/* A report may wait for others at its host, and then take a minute. */
#define PASS_ON_TIMEOUT (150 * NS_PER_S)
/* An export takes its host 10 minutes at most, and then as long to arrive. */
#define EXPORT_TIMEOUT (1200 * NS_PER_S)

struct passed_on {
    struct api *api;
    struct later_reply *later;
    struct remote_host *reaching; /* whether the host answers, before it is asked and while it computes */
    struct peer_query *query;     /* NULL: not sent */
    char *host_uuid, *host, *path;
    json_t *body; /* NULL: a GET */
    int64_t trace_id;
    bool of_timeline, is_bytes; /* is_bytes: the answer is a tile */
    bool is_immutable;          /* it never changes */
    json_t *names;              /* of traces: {as the host calls it: as this profd does} */
    /* Added to those of the reply; NULL: the reply has no such members. */
    json_t *left, *missing, *missing_hosts;
};

static void passed_on_free(struct passed_on *f)
{
    json_decref(f->body);
    json_decref(f->names);
    json_decref(f->left);
    json_decref(f->missing);
    json_decref(f->missing_hosts);
    free(f->host_uuid);
    free(f->host);
    free(f->path);
    free(f);
}

/* A list of the host's names becomes one of ours; what is not known is left out. */
static json_t *passed_on_rename(const struct passed_on *f, const json_t *list)
{
    json_t *renamed = json_array(), *name;
    size_t i;

    json_array_foreach(list, i, name) {
        const char *text = json_string_value(name);
        json_t *known = text ? json_object_get(f->names, text) : NULL;
        if (known)
            json_array_append(renamed, known);
    }
    return renamed;
}

/* Traces that the host does without, under our names. */
static json_t *passed_on_rename_missing(const struct passed_on *f, const json_t *list)
{
    json_t *renamed = json_array(), *one;
    size_t i;

    json_array_foreach(list, i, one) {
        const char *name = json_get_str(one, "trace");
        json_t *known = name ? json_object_get(f->names, name) : NULL;
        if (!known)
            continue;
        json_t *mine = json_object();
        json_object_set(mine, "trace", known);
        json_put_str(mine, "reason", json_get_str(one, "reason"));
        json_array_append_new(renamed, mine);
    }
    return renamed;
}

static void passed_on_rename_parts(const struct passed_on *f, json_t *body)
{
    json_t *parts = json_object_get(body, "parts"), *part;
    size_t i;

    json_array_foreach(parts, i, part) {
        if (!json_is_object(part))
            continue;
        json_object_set_new(part, "traces", passed_on_rename(f, json_object_get(part, "traces")));
        /* An instance of which nothing else is known has the name of its trace. */
        const char *instance = json_get_str(part, "instance");
        json_t *known = instance ? json_object_get(f->names, instance) : NULL;
        if (known)
            json_object_set(part, "instance", known);
    }
    json_t *left = passed_on_rename(f, json_object_get(body, "left"));
    json_array_extend(left, f->left);
    json_object_set_new(body, "left", left);
    json_t *missing = passed_on_rename_missing(f, json_object_get(body, "missing"));
    json_array_extend(missing, f->missing);
    json_object_set_new(body, "missing", missing);
    if (json_object_get(body, "traces"))
        json_object_set_new(body, "traces", passed_on_rename(f, json_object_get(body, "traces")));
    if (f->missing_hosts)
        json_object_set(body, "missing_hosts", f->missing_hosts);
}

/* Of an answer about a timeline. */
static void passed_on_add_headers(const struct passed_on *f, struct http_request *r)
{
    if (!f->is_immutable)
        return;
    http_reply_header(r, "Cache-Control", "private, max-age=31536000, immutable");
    http_reply_header(r, "Vary", "Authorization, Accept-Encoding");
}

/* Our names of the traces that the host was asked for. */
static json_t *passed_on_asked(const struct passed_on *f)
{
    json_t *asked = json_array(), *name;
    const char *theirs;

    json_object_foreach(f->names, theirs, name)
        json_array_append(asked, name);
    return asked;
}

static void passed_on_fail(struct passed_on *f, const struct problem *p)
{
    struct later_reply later = {0};

    if (later_reply_end(f->later, &later) && f->left) {
        _cleanup_json_ remote =
            json_pack("{s:s,s:o,s:O}", "host", f->host, "traces", passed_on_asked(f), "left", f->left);
        reply_problem(later.request, 0, p, "remote", remote);
    } else if (later.request) {
        remote_host_reply(later.request, p, f->host, RECORD_NONE);
    }
    passed_on_free(f);
}

static void passed_on_done(int status, const json_t *body, const struct problem *p, void *arg)
{
    struct passed_on *f = arg;
    struct later_reply later;

    remote_host_cancel(TAKE_PTR(f->reaching));
    if (p && status == 0) {
        _cleanup_(problem_done) struct problem silence = {0};
        problem_copy(&silence, -EHOSTUNREACH, PROBLEM_UNREACHABLE, p);
        passed_on_fail(f, &silence);
        return;
    }

    if (later_reply_end(f->later, &later)) {
        if (p) {
            http_reply_problem(later.request, p);
        } else {
            /* This answer is nobody else's. */
            json_t *reply = json_incref((json_t *)body);
            if (f->left)
                passed_on_rename_parts(f, reply);
            if (f->of_timeline && json_object_get(reply, "trace"))
                json_object_set_new(reply, "trace", json_sprintf("t%" PRId64, f->trace_id));
            passed_on_add_headers(f, later.request);
            http_reply_json(later.request, 200, reply);
        }
    }
    passed_on_free(f);
}

static void passed_on_bytes(int status, const char *data, size_t size, const struct problem *p, void *arg)
{
    struct passed_on *f = arg;
    struct later_reply later;

    if (!data) {
        passed_on_done(status, NULL, p, f);
        return;
    }
    remote_host_cancel(TAKE_PTR(f->reaching));
    if (later_reply_end(f->later, &later)) {
        passed_on_add_headers(f, later.request);
        http_reply(later.request, 200, "application/octet-stream", data, size);
    }
    passed_on_free(f);
}

static void passed_on_cancel(void *arg)
{
    struct passed_on *f = arg;

    remote_host_cancel(f->reaching);
    if (f->query)
        peer_query_cancel(f->query);
    passed_on_free(f);
}

static void passed_on_send(struct passed_on *f, const struct peer *peer)
{
    struct peers *peers = f->api->modules.peers;

    if (f->is_bytes) {
        f->query = peer_get_all(peers, peer, f->path, PASS_ON_TIMEOUT, passed_on_bytes, f);
        return;
    }
    f->query = f->body
                   ? peer_post(peers, peer, f->path, TAKE_PTR(f->body), PASS_ON_TIMEOUT, passed_on_done, f)
                   : peer_get(peers, peer, f->path, PASS_ON_TIMEOUT, passed_on_done, f);
}

static void passed_on_lost(const struct peer *none, const struct problem *p, void *arg)
{
    struct passed_on *f = arg;

    f->reaching = NULL;
    peer_query_cancel(TAKE_PTR(f->query));
    passed_on_fail(f, p);
}

static void passed_on_reached(const struct peer *peer, const struct problem *p, void *arg)
{
    struct passed_on *f = arg;

    f->reaching = NULL;
    if (!peer) {
        passed_on_fail(f, p);
        return;
    }
    f->reaching = remote_host_watch(f->api, f->host_uuid, f->host, passed_on_lost, f);
    passed_on_send(f, peer);
}

/* The caller frees it. */
static char *passed_on_host(struct api *api, const struct remote_trace_record *t)
{
    _cleanup_json_ facts = NULL;
    bool is_known = catalog_remote_trace_json(api->modules.catalog, t, &facts) == 0;
    const char *host = is_known ? json_get_str(facts, "host") : NULL;
    return xstrdup(host ? host : t->host_uuid);
}

/* t is one of its traces. body is NULL for a GET. */
static struct passed_on *passed_on_new(struct api *api, const struct remote_trace_record *t, char *take_path,
                                       json_t *take_body)
{
    struct passed_on *f = xcalloc(1, sizeof(*f));

    *f = (struct passed_on){.api = api,
                            .host_uuid = xstrdup(t->host_uuid),
                            .host = passed_on_host(api, t),
                            .path = take_path,
                            .body = take_body,
                            .trace_id = t->trace_id};
    return f;
}

static void passed_on_begin(struct http_request *r, const struct route_match *match, struct passed_on *take)
{
    take->later = later_reply_new(take->api, r, match);
    take->later->cancel = passed_on_cancel;
    take->later->work = take;
    take->reaching = remote_host_reach(take->api, take->host_uuid, take->host, passed_on_reached, take);
}

/* Appends those members of the query that another host takes. They were checked here, or are escaped. */
static void passed_on_members(char **path, const struct http_request *r, const char *const *members, size_t n)
{
    char separator = '?';

    for (size_t i = 0; i < n; i++) {
        const char *value = http_query_get(r, members[i]);
        if (!value)
            continue;
        append_str(path, "%c%s=", separator, members[i]);
        append_url_escaped(path, value);
        separator = '&';
    }
}

void report_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                    const struct remote_trace_record *t)
{
    static const char *const members[] = {"from", "to", "step", "phase", "top"};

    if (remote_host_refuse_peer(r, t))
        return;
    char *path = xasprintf("/v1/traces/t%" PRId64 "/reports/", t->remote_id);
    append_url_escaped(&path, match->word);
    passed_on_members(&path, r, members, ARRAY_SIZE(members));
    passed_on_begin(r, match, passed_on_new(api, t, path, NULL));
}

void flame_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                   const struct remote_trace_record *t)
{
    static const char *const members[] = {"by", "from", "to", "thread"};

    if (remote_host_refuse_peer(r, t))
        return;
    char *path = xasprintf("/v1/traces/t%" PRId64 "/flame", t->remote_id);
    passed_on_members(&path, r, members, ARRAY_SIZE(members));
    passed_on_begin(r, match, passed_on_new(api, t, path, NULL));
}

/* -- Exports ------------------------------------------------------------------------------------------ */

struct export_pass {
    struct later_reply *later;
    struct remote_fetch *fetch;
    struct export_reply reply;
    char *host;
};

static void export_pass_free(struct export_pass *e)
{
    closep(&e->reply.fd);
    free(e->reply.name);
    free(e->host);
    free(e);
}

static void export_pass_cancel(void *arg)
{
    struct export_pass *e = arg;

    remote_fetch_cancel(e->fetch);
    export_pass_free(e);
}

static void export_pass_done(int64_t size, const struct problem *p, void *arg)
{
    struct export_pass *e = arg;
    struct later_reply later;
    struct stat st;

    if (later_reply_end(e->later, &later)) {
        if (p && p->kind == PROBLEM_UNREACHABLE)
            remote_host_reply(later.request, p, e->host, RECORD_NONE);
        else if (p)
            http_reply_problem(later.request, p);
        else if (fstat(e->reply.fd, &st) < 0)
            reply_refused(later.request, PROBLEM_STORAGE, NULL, "cannot read the copy of the file: %s",
                          strerror(errno));
        else
            http_reply_file(later.request, &(struct http_download){.fd = TAKE_FD(e->reply.fd),
                                                                   .st = &st,
                                                                   .size = size,
                                                                   .content_type = e->reply.content_type,
                                                                   .name = e->reply.name});
    }
    export_pass_free(e);
}

void export_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                    const struct remote_trace_record *t, const struct export_reply *take)
{
    static const char *const members[] = {"format", "from", "to"};
    struct export_pass *e = xcalloc(1, sizeof(*e));

    *e = (struct export_pass){.reply = *take};
    if (remote_host_refuse_peer(r, t)) {
        export_pass_free(e);
        return;
    }
    _cleanup_(freep) char *path = xasprintf("/v1/traces/t%" PRId64 "/export", t->remote_id);
    passed_on_members(&path, r, members, ARRAY_SIZE(members));
    e->host = passed_on_host(api, t);
    e->later = later_reply_new(api, r, match);
    e->later->cancel = export_pass_cancel;
    e->later->work = e;
    const struct remote_fetch_job job = {.host_uuid = t->host_uuid,
                                         .host = e->host,
                                         .path = path,
                                         .fd = e->reply.fd,
                                         .size_max = e->reply.size_max,
                                         .timeout_ns = EXPORT_TIMEOUT};
    e->fetch = remote_fetch_start(api, &job, export_pass_done, e);
}

void query_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                   const struct remote_trace_record *t, const json_t *body)
{
    if (remote_host_refuse_peer(r, t))
        return;
    char *path = xasprintf("/v1/traces/t%" PRId64 "/query", t->remote_id);
    passed_on_begin(r, match, passed_on_new(api, t, path, json_deep_copy(body)));
}

/* -- Timelines ---------------------------------------------------------------------------------------- */

/* What follows the id of the trace. */
static const char *passed_on_rest(const char *path)
{
    const char *rest = path;

    for (int i = 0; rest && i < 4; i++)
        rest = strchr(rest + (i > 0), '/');
    return rest ? rest : "";
}

void timeline_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                      const struct remote_trace_record *t, bool is_bytes)
{
    char *path = xasprintf("/v1/traces/t%" PRId64 "%s", t->remote_id, passed_on_rest(http_path(r)));
    const char *key;

    if (remote_host_refuse_peer(r, t)) {
        free(path);
        return;
    }
    for (size_t i = 0; (key = http_query_key(r, i)); i++) {
        append_str(&path, "%c%s=", i == 0 ? '?' : '&', key);
        append_url_escaped(&path, http_query_get(r, key));
    }
    struct passed_on *f = passed_on_new(api, t, path, NULL);
    f->of_timeline = true;
    f->is_bytes = is_bytes;
    f->is_immutable = http_query_get(r, "v") != NULL;
    passed_on_begin(r, match, f);
}

/* -- Several traces ----------------------------------------------------------------------------------- */

void remote_list_add(struct remote_list *list, const struct remote_trace_record *t)
{
    _cleanup_(freep) char *ours = xasprintf("t%" PRId64, t->trace_id),
                          *theirs = xasprintf("t%" PRId64, t->remote_id);

    if (!list->names) {
        list->names = json_object();
        list->left = json_array();
        list->traces = json_array();
        list->first = (struct remote_trace_record){
            .trace_id = t->trace_id, .host_uuid = xstrdup(t->host_uuid), .remote_id = t->remote_id};
    }
    if (!streq(t->host_uuid, list->first.host_uuid) || json_array_size(list->traces) == REPORT_TRACES_MAX) {
        json_array_append_new(list->left, json_string(ours));
    } else {
        json_object_set_new(list->names, theirs, json_string(ours));
        json_array_append_new(list->traces, json_string(theirs));
    }
}

void remote_list_done(struct remote_list *list)
{
    json_decref(list->names);
    json_decref(list->left);
    json_decref(list->missing);
    json_decref(list->missing_hosts);
    json_decref(list->traces);
    free(list->first.host_uuid);
}

void reports_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                     const char *path, struct remote_list *list, const json_t *body)
{
    if (remote_host_refuse_peer(r, &list->first))
        return;
    json_t *copy = json_deep_copy(body);
    struct passed_on *f = passed_on_new(api, &list->first, xstrdup(path), copy);

    if (json_object_get(copy, "reports"))
        json_object_set_new(copy, "facts",
                            json_boolean(json_get_bool(body, "facts", json_get_str(body, "session"))));
    json_object_del(copy, "session");
    json_object_set(copy, "traces", list->traces);
    f->names = TAKE_PTR(list->names);
    f->left = TAKE_PTR(list->left);
    f->missing = TAKE_PTR(list->missing);
    f->missing_hosts = TAKE_PTR(list->missing_hosts);
    passed_on_begin(r, match, f);
}
