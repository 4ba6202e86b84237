/* SPDX-License-Identifier: Apache-2.0 */
/* The store: its usage, and deleting the oldest traces. */
#include "base/alloc.h"
#include "daemon/api/handler.h"
#include "daemon/archive/archiver.h"
#include <errno.h>

/* Users listed, those with most bytes first. */
#define USERS_LISTED_MAX 100

json_t *usage_to_json(const struct store_usage *u)
{
    json_t *j = json_object();
    json_put_int(j, "traces", u->traces);
    json_put_int(j, "bytes", u->bytes);
    json_put_int(j, "max_use", u->max_use);
    json_put_int(j, "keep_free", u->keep_free);
    json_put_int(j, "free", u->free);
    json_put_str(j, "store", u->path);
    return j;
}

static json_t *usage_user_to_json(const struct holder_usage *u)
{
    _cleanup_(freep) char *name = store_user_name(u->holder, u->worker_url);
    json_t *j = json_object();

    json_put_str(j, "user", name);
    json_put_int(j, "traces", u->traces);
    json_put_int(j, "bytes", u->bytes);
    return j;
}

static int usage_put_users(const struct store *s, json_t *usage)
{
    _cleanup_(store_users_done) struct store_users users = {0};
    json_t *list = json_array();

    int r = store_list_users(s, &users);
    for (size_t i = 0; i < MIN(users.n, (size_t)USERS_LISTED_MAX); i++)
        json_array_append_new(list, usage_user_to_json(&users.users[i]));
    json_put_int(usage, "share", users.share);
    json_put_int(usage, "n_users", (int64_t)users.n);
    json_object_set_new(usage, "users", list);
    return r;
}

static void usage_put_archive(struct api *api, json_t *usage)
{
    struct archiver *a = api->modules.archiver;
    const struct problem *p = archiver_problem(a);
    json_t *j;
    struct archiver_metrics m;

    if (!archiver_is_configured(a))
        return;
    archiver_metrics(a, &m);
    j = json_object();
    json_put_str(j, "url", archiver_name(a));
    json_put_int(j, "waiting_files", m.waiting_files);
    json_put_int(j, "waiting_bytes", m.waiting_bytes);
    json_put_int(j, "lag_ns", m.lag_ns);
    json_put_str(j, "error", p ? p->what : NULL);
    json_object_set_new(usage, "archive", j);
}

void get_usage(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_json_ j = NULL;
    struct store_usage usage;

    int err = store_usage(api->modules.store, &usage);
    if (err >= 0) {
        j = usage_to_json(&usage);
        err = usage_put_users(api->modules.store, j);
        usage_put_archive(api, j);
    }
    if (err < 0)
        reply_error(api, r, err, "read the usage of the store");
    else
        http_reply_json(r, 200, json_incref(j));
}

static int vacuum_read_request(const json_t *body, struct vacuum_request *ret, struct problem *p)
{
    static const char expected[] =
        "a vacuum takes \"keep\" (bytes), \"collected_until\" (nanoseconds since 1970) and "
        "\"dry_run\" (true or false)";
    const char *name;
    json_t *value;
    bool limited = false;

    *ret = (struct vacuum_request){.keep = RECORD_NONE, .collected_until = INT64_MAX};
    json_object_foreach((json_t *)body, name, value) {
        if (streq(name, "keep") && json_is_integer(value) && json_integer_value(value) >= 0)
            ret->keep = json_integer_value(value);
        else if (streq(name, "collected_until") && json_is_integer(value))
            ret->collected_until = json_integer_value(value);
        else if (streq(name, "dry_run") && json_is_boolean(value))
            ret->dry_run = json_is_true(value);
        else
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"%s\": %s", name, expected);
        limited = limited || !streq(name, "dry_run");
    }
    if (!limited)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"keep\" or \"collected_until\" is missing: %s",
                           expected);
    return 0;
}

static void vacuum_on_done(const struct store_removed *removed, void *arg)
{
    struct store_usage usage;
    struct later_reply v;

    if (!later_reply_end(arg, &v))
        return;
    int err = removed->err < 0 ? removed->err : store_usage(v.api->modules.store, &usage);
    if (err < 0) {
        reply_error(v.api, v.request, err, "shrink the store");
        return;
    }
    json_t *answer = json_object();
    json_put_int(answer, "removed", removed->traces);
    json_put_int(answer, "archived", removed->evicted);
    json_put_int(answer, "freed", removed->bytes);
    if (removed->collected_until != RECORD_NONE)
        json_put_int(answer, "collected_until", removed->collected_until);
    json_object_set(answer, "traces", removed->removed);
    json_object_set(answer, "kept", removed->kept);
    json_object_set_new(answer, "usage", usage_to_json(&usage));
    http_reply_json(v.request, 200, answer);
}

void vacuum_store(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *actor = request_actor(r);
    _cleanup_json_ body = NULL;
    struct vacuum_request request;

    if (body_object(r, &body, &p) < 0 || vacuum_read_request(body, &request, &p) < 0)
        http_reply_problem(r, &p);
    else
        store_vacuum(api->modules.store, &request, actor, vacuum_on_done, later_reply_new(api, r, match));
}
