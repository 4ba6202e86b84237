/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file into the catalog, by its path. profd opens it with its own rights, so only those who have them may
 * ask.
 */
#include "base/alloc.h"
#include "daemon/api/api_internal.h"
#include "daemon/catalog/records.h"
#include "daemon/collect/collector.h"
#include <errno.h>
#include <inttypes.h>

/* A client that leaves does not keep its file from being taken. */
struct importing {
    struct api *api;
    struct http_request *request; /* NULL: the client left */
};

static bool may_name_files(const struct http_request *r)
{
    const struct http_peer *peer = http_peer(r);
    return peer->local && (peer->uid == geteuid() || peer->uid == 0);
}

static int read_labels(const json_t *labels, struct problem *p)
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

/* "s7" is a session that is there; every other name may be that of a new one, unless it looks like an id. */
static int read_session(const json_t *value, struct import_request *ret, struct problem *p)
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
                           "\"session\" must be an id (s7) or a name of at most %d bytes that is no id",
                           SESSION_NAME_BYTES_MAX);
    return 0;
}

static int check_members(const json_t *body, struct import_request *order, struct problem *p)
{
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)body, name, value) {
        bool fits = (streq(name, "path") && json_is_string(value)) ||
                    ((streq(name, "reference") || streq(name, "again")) && json_is_boolean(value));
        if (streq(name, "labels"))
            r = read_labels(value, p);
        else if (streq(name, "session"))
            r = read_session(value, order, p);
        else if (!fits)
            r = problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                            "\"%s\": a file is named by \"path\", \"reference\" and \"again\" (true or "
                            "false), \"labels\" and \"session\"",
                            name);
        if (r < 0)
            return r;
    }
    const char *path = json_get_str(body, "path");
    return path && path[0] == '/'
               ? 0
               : problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"path\" must be an absolute path of a file");
}

static void on_client_left(struct http_request *r, void *arg)
{
    ((struct importing *)arg)->request = NULL;
}

static void on_imported(const struct import_result *result, void *arg)
{
    struct importing i = *(struct importing *)arg;

    free(arg);
    if (!i.request)
        return;
    http_on_close(i.request, NULL, NULL);
    if (result->trace_id == 0)
        http_reply_problem(i.request, &result->problem);
    else
        reply_trace(i.api, i.request, result->existed ? 200 : 201, result->trace_id);
}

void import_trace(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *actor = request_actor(r), *labels = NULL;
    _cleanup_json_ body = NULL;

    if (!may_name_files(r)) {
        reply_refused(
            r, PROBLEM_DENIED,
            "Ask by its Unix socket, as the user that profd runs as or as root. Or put the file into a "
            "directory that profd watches: [collect] watch=.",
            "only profd's own user may name files for it to open");
        return;
    }
    struct import_request order = {.session_id = RECORD_NONE};
    if (body_object(r, &body, &p) < 0 || check_members(body, &order, &p) < 0) {
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
    struct importing *i = xcalloc(1, sizeof(*i));
    *i = (struct importing){.api = api, .request = r};
    http_on_close(r, on_client_left, i);
    collector_import(api->modules.collector, &order, on_imported, i);
}
