/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces: list, show, download, remove, pin, import. An import names a file by its path; profd opens it with its
 * own rights, so only users who have those may ask.
 */
#include "base/alloc.h"
#include "daemon/api/handler.h"
#include "daemon/archive/archiver.h"
#include "daemon/catalog/uploads.h"
#include "daemon/collect/collector.h"
#include "daemon/collect/safe_open.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

bool trace_refuse_remote(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(remote_trace_record_done) struct remote_trace_record t;
    _cleanup_json_ facts = NULL;

    remote_trace_record_init(&t);
    if (catalog_get_remote_trace(api->modules.catalog, id, &t) < 0 ||
        catalog_remote_trace_json(api->modules.catalog, &t, &facts) < 0)
        return false;
    const char *host = json_get_str(facts, "host");
    _cleanup_(freep) char *remedy =
        xasprintf("Use profctl on %s, where it is t%" PRId64 ".", host ? host : t.host_uuid, t.remote_id);
    reply_refused(r, PROBLEM_CONFLICT, remedy, "trace t%" PRId64 " is kept by %s, and changed only there", id,
                  host ? host : t.host_uuid);
    return true;
}

/* 0 with the record; else the reply was given. */
static int trace_find_or_reply(struct api *api, struct http_request *r, int64_t id, struct trace_record *ret)
{
    trace_record_init(ret);
    int err = catalog_get_trace(api->modules.catalog, id, ret);
    if (err == -ENOENT && trace_refuse_remote(api, r, id))
        return err;
    reply_failure(api, r, err, 't', id, "read");
    return err;
}

/* -- Lists -------------------------------------------------------------------------------------------- */

/* Of each kind, one more than the limit is read, to know whether a further page exists. */
struct trace_page {
    struct api *api;
    json_t *traces;
    struct trace_position *order; /* of each of traces */
    size_t n, cap;
    int64_t limit;
    int64_t session_id;
};

static int trace_page_add(const struct trace_record *t, void *arg)
{
    struct trace_page *page = arg;

    VEC_GROW(page->order, page->n, page->cap);
    page->order[page->n++] = (struct trace_position){t->recorded_at, t->trace_id};
    json_array_append_new(page->traces, own_trace_to_json(page->api, t));
    return 0;
}

/* Of another host: inserted among those of this one, which are in the list already. */
static int trace_page_add_remote(const struct remote_trace_record *t, void *arg)
{
    struct trace_page *page = arg;
    json_t *j;
    size_t i = page->n;
    int r = remote_trace_to_json(page->api, t, &j);

    if (r < 0)
        return r;
    while (i > 0 && (page->order[i - 1].at < t->recorded_at ||
                     (page->order[i - 1].at == t->recorded_at && page->order[i - 1].trace_id < t->trace_id)))
        i--;
    VEC_GROW(page->order, page->n, page->cap);
    memmove(&page->order[i + 1], &page->order[i], (page->n - i) * sizeof(*page->order));
    page->order[i] = (struct trace_position){t->recorded_at, t->trace_id};
    page->n++;
    json_array_insert_new(page->traces, i, j);
    return 0;
}

static int trace_read_filter(struct catalog *c, const struct http_request *r, struct trace_filter *ret,
                             struct problem *p)
{
    struct trace_filter f = {.session_id = RECORD_NONE,
                             .worker_url = http_query_get(r, "worker"),
                             .since = RECORD_NONE,
                             .until = RECORD_NONE,
                             .before_id = RECORD_NONE,
                             .limit = LIST_LIMIT_DEFAULT};

    if (query_number(r, "limit", 1, LIST_LIMIT_MAX, &f.limit, p) < 0 ||
        query_number(r, "since", -INT64_MAX, INT64_MAX, &f.since, p) < 0 ||
        query_number(r, "until", -INT64_MAX, INT64_MAX, &f.until, p) < 0 ||
        query_bool(r, "unclaimed", &f.unclaimed, p) < 0 ||
        query_ref(c, r, "session", 's', &f.session_id, p) < 0 ||
        query_ref(c, r, "before", 't', &f.before_id, p) < 0)
        return -EINVAL;
    *ret = f;
    return 0;
}

/* An unknown session is an error; a session without traces is an empty list. */
static int trace_check_session(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(session_record_done) struct session_record session;

    session_record_init(&session);
    int err = id == RECORD_NONE ? 0 : catalog_get_session(api->modules.catalog, id, &session);
    reply_failure(api, r, err, 's', id, "read");
    return err;
}

static void trace_page_reply(struct api *api, struct http_request *r, struct trace_page *page)
{
    struct store_usage usage;
    json_t *body = json_object();

    json_object_set(body, "traces", page->traces);
    if (page->n > (size_t)page->limit) {
        _cleanup_(freep) char *next = xasprintf("t%" PRId64, page->order[page->limit - 1].trace_id);
        json_put_str(body, "next", next);
    }
    while (json_array_size(page->traces) > (size_t)page->limit)
        json_array_remove(page->traces, json_array_size(page->traces) - 1);
    if (store_usage(api->modules.store, &usage) == 0)
        json_object_set_new(body, "usage", usage_to_json(&usage));
    elsewhere_put_missing(api, page->session_id, body);
    http_reply_json(r, 200, body);
}

void list_traces(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct trace_filter filter;
    int64_t session = RECORD_NONE;

    if (query_ref(api->modules.catalog, r, "session", 's', &session, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    if (elsewhere_ask_session(api, r, match, session))
        return;
    if (list_searched(api, r, match, LISTING_TRACES))
        return;
    if (trace_read_filter(api->modules.catalog, r, &filter, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    if (trace_check_session(api, r, filter.session_id) < 0)
        return;
    _cleanup_json_ traces = json_array();
    struct trace_page page = {.api = api, .traces = traces, .limit = filter.limit++, .session_id = session};
    int err = catalog_each_trace(api->modules.catalog, &filter, trace_page_add, &page);
    /* A profd that asks for another one gets what is here: each host speaks for itself. */
    if (err == 0 && http_right(r) != RIGHT_PEER)
        err = catalog_each_remote_trace(api->modules.catalog, &filter, trace_page_add_remote, &page);
    if (err == -ENOENT)
        reply_missing(r, 't', filter.before_id);
    else if (err < 0)
        reply_error(api, r, err, "list the traces");
    else
        trace_page_reply(api, r, &page);
    free(page.order);
}

/* -- One trace ---------------------------------------------------------------------------------------- */

static void trace_reply(struct api *api, struct http_request *r, int status, int64_t id)
{
    _cleanup_(trace_record_done) struct trace_record t;

    if (trace_find_or_reply(api, r, id, &t) < 0)
        return;
    json_t *body = own_trace_to_json(api, &t);
    int err = catalog_put_summary(api->modules.catalog, id, body);
    if (err == 0)
        http_reply_json(r, status, json_incref(body));
    else
        reply_error(api, r, err, "read the trace");
    json_decref(body);
}

/* Of a trace that another host keeps. False, without a reply, where there is none. */
static bool remote_trace_reply(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(remote_trace_record_done) struct remote_trace_record t;
    json_t *body;

    remote_trace_record_init(&t);
    if (catalog_get_remote_trace(api->modules.catalog, id, &t) < 0)
        return false;
    int err = remote_trace_to_json(api, &t, &body);
    if (err < 0)
        reply_error(api, r, err, "read the trace");
    else
        http_reply_json(r, 200, body);
    return true;
}

void get_trace(struct api *api, struct http_request *r, const struct route_match *match)
{
    if (!remote_trace_reply(api, r, match->id))
        trace_reply(api, r, 200, match->id);
}

static json_t *removed_to_json(int64_t id, bool has_file)
{
    _cleanup_(freep) char *name = xasprintf("t%" PRId64, id);
    json_t *body = json_object();

    json_put_str(body, "removed", name);
    json_put_bool(body, "file", has_file);
    return body;
}

/* A removal that waits for the archive. */
struct object_reply {
    struct later_reply *later;
    bool had_file;
    char *key;
};

static void object_on_removed(enum object_fate fate, const struct problem *p, void *arg)
{
    static const char *const words[] = {
        [OBJECT_DELETED] = "deleted", [OBJECT_SHARED] = "shared", [OBJECT_LEFT] = "remains"};
    struct object_reply *o = arg;
    struct later_reply v;

    if (later_reply_end(o->later, &v)) {
        json_t *body = removed_to_json(v.match.id, o->had_file);
        json_put_str(body, "object", words[fate]);
        json_put_str(body, "archive_key", o->key);
        json_put_str(body, "object_reason",
                     p                     ? p->what
                     : fate == OBJECT_LEFT ? "[archive] delete_credentials_file= is not set"
                                           : NULL);
        http_reply_json(v.request, 200, body);
    }
    free(o->key);
    free(o);
}

static void remove_object_and_reply(struct api *api, struct http_request *r, const struct route_match *match,
                                    const struct trace_record *t)
{
    struct object_reply *o = xcalloc(1, sizeof(*o));

    *o = (struct object_reply){
        .later = later_reply_new(api, r, match), .had_file = t->stored, .key = xstrdup(t->archive_key)};
    archiver_remove_object(api->modules.archiver, t->archive_key, t->sha256, object_on_removed, o);
}

void remove_trace(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(freep) char *actor = request_actor(r);

    if (trace_find_or_reply(api, r, match->id, &t) < 0)
        return;
    if (t.session_id != RECORD_NONE && sessions_find(api->modules.sessions, t.session_id)) {
        _cleanup_(freep) char *remedy = xasprintf("Stop it with profctl stop s%" PRId64 ".", t.session_id);
        reply_refused(r, PROBLEM_CONFLICT, remedy,
                      "trace t%" PRId64 " belongs to session s%" PRId64 ", which is not over", match->id,
                      t.session_id);
        return;
    }
    int err = store_remove_trace(api->modules.store, &t, actor);
    if (err < 0)
        reply_error(api, r, err, "remove the trace");
    else if (t.archived_at != RECORD_NONE)
        remove_object_and_reply(api, r, match, &t);
    else
        http_reply_json(r, 200, removed_to_json(match->id, t.stored));
}

void set_trace_pin(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(freep) char *actor = request_actor(r);
    bool pinned = http_method(r) == HTTP_PUT;

    if (trace_find_or_reply(api, r, match->id, &t) < 0)
        return;
    int err = catalog_pin_trace(api->modules.catalog, match->id, pinned);
    if (err == 0)
        err = catalog_add_event(api->modules.catalog, pinned ? "trace-pinned" : "trace-unpinned", actor,
                                t.session_id, RECORD_NONE, match->id, "%s", t.name);
    if (err == 0)
        err = catalog_commit(api->modules.catalog, false);
    if (err < 0) {
        reply_error(api, r, err, "pin the trace");
        return;
    }
    t.pinned = pinned;
    http_reply_json(r, 200, trace_record_to_json(&t));
}

/* -- Files -------------------------------------------------------------------------------------------- */

/* A file that was left in place may be on a network: it is opened on a thread. */
struct trace_download {
    struct later_reply *later;
    struct file_reference file;
    char *name;
    struct offload *offload;
    int fd; /* or a negative errno value */
    struct stat st;
};

static void download_open(void *arg)
{
    struct trace_download *o = arg;
    o->fd = reference_open(&o->file, &o->st);
}

static void download_reply_error(const struct trace_download *o, const struct later_reply *later)
{
    static const char remove_row[] = "Remove its row with profctl rm.";

    if (o->fd == -ENOENT || o->fd == -ENOTDIR)
        reply_refused(later->request, PROBLEM_GONE, remove_row, "the file of t%" PRId64 " is gone: %s",
                      later->match.id, o->file.path);
    else if (o->fd == -ESTALE)
        reply_refused(later->request, PROBLEM_DENIED,
                      "The file was replaced. Remove its row with profctl rm.",
                      "the file at %s is not the one of t%" PRId64 ", or belongs to another user",
                      o->file.path, later->match.id);
    else if (o->fd == -EACCES || o->fd == -EPERM)
        reply_refused(later->request, PROBLEM_DENIED,
                      "The file was left where the worker wrote it ([collect] mode=reference).",
                      "cannot read %s of t%" PRId64 ": permission denied", o->file.path, later->match.id);
    else
        reply_refused(later->request, PROBLEM_STORAGE, NULL, "cannot open %s of t%" PRId64 ": %s",
                      o->file.path, later->match.id, strerror(-o->fd));
}

static void download_reply_file(struct trace_download *o, const struct later_reply *later)
{
    http_reply_file(later->request, &(struct http_download){
                                        .fd = o->fd,
                                        .st = &o->st,
                                        .size = o->st.st_size,
                                        .content_type = "application/octet-stream",
                                        .name = o->name,
                                        .offload = o->file.in_store ? NULL : o->offload,
                                        .queue = offload_queue_of_file(o->file.path),
                                    });
}

static void download_on_opened(void *arg)
{
    struct trace_download *o = arg;
    struct later_reply later;

    if (!later_reply_end(o->later, &later))
        closep(&o->fd);
    else if (o->fd < 0)
        download_reply_error(o, &later);
    else
        download_reply_file(o, &later);
    reference_done(&o->file);
    free(o->name);
    free(o);
}

static void download_start(struct api *api, struct http_request *r, const struct route_match *match,
                           struct file_reference *take_file, const char *name)
{
    struct trace_download *o = xcalloc(1, sizeof(*o));

    *o = (struct trace_download){.later = later_reply_new(api, r, match),
                                 .file = *take_file,
                                 .name = xstrdup(name),
                                 .offload = api->modules.offload};
    *take_file = (struct file_reference){0};
    offload_run_in(api->modules.offload, offload_queue_of_file(o->file.path), download_open,
                   download_on_opened, o);
}

/* False, without a reply, where no other host keeps it. */
static bool trace_reply_from_host(struct api *api, struct http_request *r, const struct route_match *match,
                                  const char *what)
{
    _cleanup_(remote_trace_record_done) struct remote_trace_record t;

    remote_trace_record_init(&t);
    if (catalog_get_remote_trace(api->modules.catalog, match->id, &t) < 0)
        return false;
    remote_download_start(api, r, match, &t, what);
    return true;
}

void get_trace_file(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(trace_record_done) struct trace_record t;

    trace_record_init(&t);
    if (trace_reply_from_host(api, r, match, "file"))
        return;
    if (trace_find_or_reply(api, r, match->id, &t) < 0 ||
        trace_fetch_then(api, r, match, &t, false, get_trace_file))
        return;
    struct file_reference file;
    reference_of(&t, &file);
    download_start(api, r, match, &file, t.name);
}

void get_trace_columns(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(trace_record_done) struct trace_record t;

    trace_record_init(&t);
    if (trace_reply_from_host(api, r, match, "columns"))
        return;
    if (trace_find_or_reply(api, r, match->id, &t) < 0 ||
        trace_fetch_then(api, r, match, &t, true, get_trace_columns))
        return;
    if (t.columns) {
        struct file_reference file;
        reference_of_stored(t.columns, &file);
        download_start(api, r, match, &file, strrchr(t.columns, '/') + 1);
    } else {
        reply_refused(r, PROBLEM_NOT_FOUND, "Download the trace itself from /v1/traces/{trace}/file.",
                      "trace t%" PRId64 " has no columns%s%s", match->id, t.columns_reason ? ": " : "",
                      t.columns_reason ? t.columns_reason : "");
    }
}

/* -- Import ------------------------------------------------------------------------------------------- */

static bool import_is_allowed(const struct http_request *r)
{
    const struct http_peer *peer = http_peer(r);
    return peer->local && (peer->uid == geteuid() || peer->uid == 0);
}

static int import_read_labels(const json_t *labels, struct problem *p)
{
    const char *name;
    json_t *value;

    if (!json_is_object(labels) || json_object_size(labels) > REQUEST_LABELS_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "\"labels\" must be an object of at most %d texts", REQUEST_LABELS_MAX);
    json_object_foreach((json_t *)labels, name, value) {
        if (!json_is_string(value) || strlen(name) > REQUEST_LABEL_BYTES_MAX ||
            json_string_length(value) > REQUEST_LABEL_BYTES_MAX)
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "\"labels\" must be texts of at most %d bytes", REQUEST_LABEL_BYTES_MAX);
    }
    return 0;
}

#define SESSION_NAME_BYTES_MAX 128

/* "s7" is an existing session; any other text that is no id may name a new one. */
static int import_read_session(const json_t *value, struct import_request *ret, struct problem *p)
{
    const char *name = json_string_value(value);
    int64_t id;
    char kind = name ? parse_ref(name, '#', &id) : 0;
    bool is_name = name && *name && json_string_length(value) <= SESSION_NAME_BYTES_MAX && !kind;

    for (const char *c = name; is_name && *c; c++)
        is_name = (unsigned char)*c >= ' ' && *c != 0x7f;
    if (kind == 's')
        ret->session_id = id;
    else if (is_name)
        ret->session_name = name;
    else
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "\"session\" must be an id (s7) or a name of at most %d bytes that is not an id",
                           SESSION_NAME_BYTES_MAX);
    return 0;
}

static int import_read_body(const json_t *body, struct import_request *order, struct problem *p)
{
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)body, name, value) {
        bool fits = (streq(name, "path") && json_is_string(value)) ||
                    ((streq(name, "reference") || streq(name, "again")) && json_is_boolean(value));
        if (streq(name, "labels"))
            r = import_read_labels(value, p);
        else if (streq(name, "session"))
            r = import_read_session(value, order, p);
        else if (!fits)
            r = problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                            "\"%s\": an import takes \"path\", \"reference\" and \"again\" (true or "
                            "false), \"labels\" and \"session\"",
                            name);
        if (r < 0)
            return r;
    }
    const char *path = json_get_str(body, "path");
    return path && path[0] == '/'
               ? 0
               : problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"path\" must be the absolute path of a file");
}

static void import_on_done(const struct import_result *result, void *arg)
{
    struct later_reply i;

    if (!later_reply_end(arg, &i))
        return;
    if (result->trace_id == 0)
        http_reply_problem(i.request, &result->problem);
    else
        trace_reply(i.api, i.request, result->existed ? 200 : 201, result->trace_id);
}

void import_trace(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *actor = request_actor(r), *labels = NULL;
    _cleanup_json_ body = NULL;

    if (!import_is_allowed(r)) {
        reply_refused(
            r, PROBLEM_DENIED,
            "Use its Unix socket, as root or as the user that profd runs as; or put the file into a "
            "directory that profd watches ([collect] watch=).",
            "only root and the user that profd runs as may import files by path");
        return;
    }
    struct import_request order = {.session_id = RECORD_NONE};
    if (body_object(r, &body, &p) < 0 || import_read_body(body, &order, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    if (json_object_get(body, "labels"))
        labels = json_dumps(json_object_get(body, "labels"), JSON_COMPACT);
    order.path = json_get_str(body, "path");
    order.reference = json_get_bool(body, "reference", false);
    order.again = json_get_bool(body, "again", false);
    order.labels = labels;
    order.actor = actor;
    collector_import(api->modules.collector, &order, import_on_done, later_reply_new(api, r, match));
}
