/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of sessions, traces and runs, changed after their creation. A trace of another host is changed there only, as its
 * pin is. What is in memory of a session or run that is not over is changed with its row, which is saved from it.
 */
#include "base/alloc.h"
#include "daemon/api/handler.h"
#include "daemon/catalog/records.h"
#include <errno.h>
#include <inttypes.h>

/* As many as there may be of old and new ones together. */
#define CHANGES_MAX (2 * REQUEST_LABELS_MAX)

static int label_check(const char *key, const json_t *value, struct problem *p)
{
    if (!*key || strchr(key, '=') || strlen(key) > REQUEST_LABEL_BYTES_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "\"%.*s\" cannot be the key of a label: it must have 1 to %d bytes and no '='",
                           REQUEST_LABEL_BYTES_MAX, key, REQUEST_LABEL_BYTES_MAX);
    /* D-Bus has no null. */
    if (json_is_null(value) || json_is_false(value) ||
        (json_is_string(value) && json_string_length(value) <= REQUEST_LABEL_BYTES_MAX))
        return 0;
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                       "label %s must be a text of at most %d bytes, or null or false, which remove it", key,
                       REQUEST_LABEL_BYTES_MAX);
}

static int labels_change(json_t *labels, const json_t *changes, struct problem *p)
{
    const char *key;
    json_t *value;

    if (json_object_size(changes) > CHANGES_MAX)
        return problem_set(p, -E2BIG, PROBLEM_BAD_REQUEST, "at most %d labels are changed together",
                           CHANGES_MAX);
    json_object_foreach((json_t *)changes, key, value) {
        if (label_check(key, value, p) < 0)
            return -EINVAL;
        if (!json_is_string(value))
            json_object_del(labels, key);
        else
            json_object_set(labels, key, value);
    }
    if (json_object_size(labels) <= REQUEST_LABELS_MAX)
        return 0;
    problem_set(p, -E2BIG, PROBLEM_BAD_REQUEST, "%zu labels are more than %d", json_object_size(labels),
                REQUEST_LABELS_MAX);
    problem_remedy(p, "Remove others: {\"KEY\": null}, or profctl label REF KEY-.");
    return -E2BIG;
}

static json_t *labels_parse(const char *text)
{
    char error[200];
    json_t *labels = text ? json_parse(text, strlen(text), error) : NULL;

    if (json_is_object(labels))
        return labels;
    json_decref(labels);
    return json_object();
}

/* -- Of each kind ---------------------------------------------------------------------------------------- */

static int labels_read(struct catalog *c, char kind, int64_t id, json_t **ret)
{
    _cleanup_(session_record_done) struct session_record session;
    _cleanup_(run_record_done) struct run_record run;
    _cleanup_(trace_record_done) struct trace_record trace;

    session_record_init(&session);
    run_record_init(&run);
    trace_record_init(&trace);
    int err = kind == 's'   ? catalog_get_session(c, id, &session)
              : kind == 'r' ? catalog_get_run(c, id, &run)
                            : catalog_get_trace(c, id, &trace);
    if (err == 0)
        *ret = labels_parse(kind == 's' ? session.labels : kind == 'r' ? run.labels : trace.labels);
    return err;
}

static int labels_save(struct api *api, char kind, int64_t id, const json_t *labels, const char *actor)
{
    struct catalog *c = api->modules.catalog;
    _cleanup_(freep) char *text = json_dumps(labels, JSON_COMPACT | JSON_SORT_KEYS);
    int64_t session_id = kind == 's' ? id : RECORD_NONE, trace_id = kind == 't' ? id : RECORD_NONE;

    int err = catalog_set_labels(c, kind, id, text);
    if (err == 0 && kind == 'r')
        err = catalog_add_run_event(c, actor, id, RECORD_NONE, "labels %s", text);
    else if (err == 0)
        err = catalog_add_event(c, kind == 's' ? "session-labels" : "trace-labels", actor, session_id,
                                RECORD_NONE, trace_id, "%s", text);
    if (err == 0)
        err = catalog_commit(c, false);
    if (err < 0)
        return err;
    struct session *s = kind == 's' ? sessions_find(api->modules.sessions, id) : NULL;
    if (s)
        replace_str(&s->record.labels, text);
    if (kind == 'r')
        runs_take_labels(api->modules.runs, id, text);
    return 0;
}

void set_labels(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *actor = request_actor(r);
    _cleanup_json_ changes = NULL, *labels = NULL;
    char kind = match->id_kind;

    if (body_object(r, &changes, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    int err = labels_read(api->modules.catalog, kind, match->id, &labels);
    if (err == -ENOENT && kind == 't' && trace_refuse_remote(api, r, match->id))
        return;
    if (reply_failure(api, r, err, kind, match->id, "read"))
        return;
    if (labels_change(labels, changes, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    err = labels_save(api, kind, match->id, labels, actor);
    if (reply_failure(api, r, err, kind, match->id, "label"))
        return;
    if (kind == 't')
        get_trace(api, r, match);
    else
        get_job(api, r, match);
}
