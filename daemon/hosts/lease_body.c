/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/hosts/lease_body.h"

#include "base/alloc.h"
#include "base/text.h"
#include "base/uuid.h"
#include "daemon/fleet/process_ranks.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#define LEASE_RANKS_MAX    65536
#define LEASE_LIST_WORKERS "a list of 1 to 1024 workers"

static int lease_wrong(struct problem *p, const char *member, const char *expected)
{
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s must be %s", member, expected);
}

/* -- Values --------------------------------------------------------------------------------------------- */

static int lease_take_uuid(const json_t *v, const char *member, void *field, struct problem *p)
{
    if (!uuid_is(json_string_value(v)))
        return lease_wrong(p, member, "a UUID in lower case");
    replace_str(field, json_string_value(v));
    return 0;
}

/* A name or an author: it is shown in lists and logs, one line each. */
static int lease_take_text(const json_t *v, const char *member, void *field, struct problem *p)
{
    const char *text = json_string_value(v);
    size_t n = json_string_length(v);
    _cleanup_(freep) char *clean = text && n <= LEASE_TEXT_MAX ? text_clean(text, false) : NULL;

    if (n == 0 || !streq(clean, text))
        return lease_wrong(p, member, "a text of 1 to 256 bytes without control characters");
    replace_str(field, text);
    return 0;
}

static int lease_take_length(const json_t *v, const char *member, void *field, struct problem *p)
{
    if (!json_is_integer(v) || json_integer_value(v) < LEASE_NS_MIN || json_integer_value(v) > LEASE_NS_MAX)
        return lease_wrong(p, member, "a number of nanoseconds, from one second to a day");
    *(int64_t *)field = json_integer_value(v);
    return 0;
}

static int lease_take_moment(const json_t *v, const char *member, void *field, struct problem *p)
{
    if (!json_is_integer(v) || json_integer_value(v) < 1)
        return lease_wrong(p, member, "nanoseconds of this host's monotonic clock");
    *(int64_t *)field = json_integer_value(v);
    return 0;
}

static int lease_take_bool(const json_t *v, const char *member, void *field, struct problem *p)
{
    if (!json_is_boolean(v))
        return lease_wrong(p, member, "true or false");
    *(bool *)field = json_is_true(v);
    return 0;
}

static int lease_take_coordinator(const json_t *v, const char *member, void *field, struct problem *p)
{
    const json_t *catalog = json_object_get(v, "catalog"), *host = json_object_get(v, "host");
    struct lease_body *b = field;

    if (!catalog || !host || json_object_size(v) != 2)
        return lease_wrong(p, member, "an object with \"catalog\" and \"host\"");
    int r = lease_take_uuid(catalog, "catalog", &b->coordinator, p);
    return r < 0 ? r : lease_take_text(host, "host", &b->coordinator_name, p);
}

static int lease_take_clock(const json_t *v, const char *member, void *field, struct problem *p)
{
    const json_t *offset = json_object_get(v, "offset_ns"), *error = json_object_get(v, "error_ns");
    struct lease_body *b = field;

    if (!json_is_integer(offset) || !json_is_integer(error) || json_integer_value(error) < 0 ||
        json_object_size(v) != 2)
        return lease_wrong(p, member, "an object with \"offset_ns\" and \"error_ns\"");
    b->has_clock = true;
    b->clock_offset_ns = json_integer_value(offset);
    b->clock_error_ns = json_integer_value(error);
    return 0;
}

/* -- Workers -------------------------------------------------------------------------------------------- */

/* Only servers, and ranks without one: a process on demand (kineto://) is not recorded for other hosts. */
static int lease_take_url(const json_t *v, char **ret, struct problem *p)
{
    const char *url = json_string_value(v);
    size_t n = json_string_length(v);

    for (size_t i = 0; url && i < n; i++)
        if (!isgraph((unsigned char)url[i]))
            url = NULL;
    if (!url || n > LEASE_URL_MAX ||
        !(starts_with(url, "http://") || starts_with(url, "https://") || ranks_url_is(url)))
        return lease_wrong(p, "a worker", "the URL of a server, http://HOST:PORT");
    *ret = xstrdup(url);
    return 0;
}

static struct lease_body_worker *lease_add_worker(struct lease_body *b)
{
    b->workers[b->n_workers] = (struct lease_body_worker){0};
    return &b->workers[b->n_workers++];
}

static int lease_reserve_workers(const json_t *v, const char *member, struct lease_body *b, struct problem *p)
{
    size_t n = json_array_size(v);

    if (!json_is_array(v) || n == 0 || n > LEASE_WORKERS_MAX)
        return lease_wrong(p, member, LEASE_LIST_WORKERS);
    b->workers = xcalloc(n, sizeof(*b->workers));
    return 0;
}

static int lease_take_urls(const json_t *v, const char *member, void *field, struct problem *p)
{
    struct lease_body *b = field;
    int r = lease_reserve_workers(v, member, b, p);
    const json_t *url;
    size_t i;

    json_array_foreach((json_t *)v, i, url)
        if (r == 0)
            r = lease_take_url(url, &lease_add_worker(b)->url, p);
    return r;
}

/* Members of one worker; in addition to "url". */
static int lease_take_ranks(const json_t *v, struct lease_body_worker *w, struct problem *p)
{
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > LEASE_RANKS_MAX)
        return lease_wrong(p, "ranks", "a whole number, at least 1");
    w->ranks = (int)json_integer_value(v);
    return 0;
}

static int lease_take_profile_id(const json_t *v, struct lease_body_worker *w, struct problem *p)
{
    return lease_take_text(v, "profile_id", &w->profile_id, p);
}

static int lease_take_shares_dir(const json_t *v, struct lease_body_worker *w, struct problem *p)
{
    return lease_take_bool(v, "shares_dir", &w->shares_dir, p);
}

static int lease_take_role(const json_t *v, struct lease_body_worker *w, struct problem *p)
{
    const char *name = json_string_value(v);
    int role = name ? role_from_name(name) : -1;

    if (role < 0)
        return lease_wrong(p, "role", "the role of a worker, such as \"prefill\"");
    w->role = (enum role)role;
    return 0;
}

static int lease_take_start_step(const json_t *v, struct lease_body_worker *w, struct problem *p)
{
    if (!json_is_integer(v) || json_integer_value(v) < 1)
        return lease_wrong(p, "start_step", "a whole number, at least 1");
    w->start_step = json_integer_value(v);
    return 0;
}

/* What it may be is checked by target_watch_dir(). */
static int lease_take_output_dir(const json_t *v, struct lease_body_worker *w, struct problem *p)
{
    if (!ranks_url_is(w->url))
        return lease_wrong(p, "output_dir", "of ranks without a server");
    return lease_take_text(v, "output_dir", &w->output_dir, p);
}

static int lease_take_worker_url(const json_t *v, struct lease_body_worker *w, struct problem *p)
{
    return lease_take_url(v, &w->url, p);
}

struct lease_worker_member {
    const char *name;
    int (*take)(const json_t *v, struct lease_body_worker *w, struct problem *p);
    bool needed;
};

static const struct lease_worker_member prepared_members[] = {
    {"url", lease_take_worker_url, true},
    {"profile_id", lease_take_profile_id, true},
    {"shares_dir", lease_take_shares_dir, false},
    {"ranks", lease_take_ranks, false},
    {"role", lease_take_role, false},
};
static const struct lease_worker_member started_members[] = {
    {"url", lease_take_worker_url, true},
    {"start_step", lease_take_start_step, false},
    {"output_dir", lease_take_output_dir, false},
};

static int lease_take_items(const json_t *v, const char *member, struct lease_body *b,
                            const struct lease_worker_member *members, size_t n, const char *expected,
                            struct problem *p)
{
    int r = lease_reserve_workers(v, member, b, p);
    const json_t *item;
    size_t i;

    json_array_foreach((json_t *)v, i, item) {
        if (r < 0)
            break;
        struct lease_body_worker *w = lease_add_worker(b);
        size_t n_known = 0;
        for (size_t k = 0; k < n && r == 0; k++) {
            const json_t *value = json_object_get(item, members[k].name);
            n_known += value != NULL;
            if (!value && members[k].needed)
                return lease_wrong(p, "each of workers", expected);
            r = value ? members[k].take(value, w, p) : 0;
        }
        if (r == 0 && n_known != json_object_size(item))
            return lease_wrong(p, "each of workers", expected);
    }
    return r;
}

static int lease_take_prepared(const json_t *v, const char *member, void *field, struct problem *p)
{
    return lease_take_items(
        v, member, field, prepared_members, ARRAY_SIZE(prepared_members),
        "an object with \"url\", \"profile_id\", and optionally \"shares_dir\", \"ranks\" and \"role\"", p);
}

static int lease_take_started(const json_t *v, const char *member, void *field, struct problem *p)
{
    return lease_take_items(v, member, field, started_members, ARRAY_SIZE(started_members),
                            "an object with \"url\", and optionally \"start_step\" and \"output_dir\"", p);
}

static int lease_take_request(const json_t *v, const char *member, void *field, struct problem *p)
{
    if (!json_is_object(v))
        return lease_wrong(p, member, "an object");
    json_decref(*(json_t **)field);
    *(json_t **)field = json_deep_copy(v);
    return 0;
}

/* -- The bodies ----------------------------------------------------------------------------------------- */

#define OF(route) (1u << LEASE_ROUTE_##route)
#define OF_ALL    ((1u << _LEASE_ROUTE_MAX) - 1)
#define FIELD(f)  offsetof(struct lease_body, f)

static const struct {
    const char *name;
    int (*take)(const json_t *v, const char *member, void *field, struct problem *p);
    size_t offset;
    unsigned of, needed; /* routes */
} lease_members[] = {
    {"session", lease_take_uuid, FIELD(session), OF_ALL, OF_ALL},
    {"coordinator", lease_take_coordinator, 0, OF(GRANT), OF(GRANT)},
    {"actor", lease_take_text, FIELD(actor), OF(GRANT), OF(GRANT)},
    {"lease_ns", lease_take_length, FIELD(lease_ns), OF(GRANT), OF(GRANT)},
    {"workers", lease_take_urls, 0, OF(GRANT) | OF(STOP), OF(GRANT)},
    {"workers", lease_take_prepared, 0, OF(PREPARE), OF(PREPARE)},
    {"workers", lease_take_started, 0, OF(START), OF(START)},
    {"request", lease_take_request, FIELD(request), OF(PREPARE), OF(PREPARE)},
    {"at_mono_ns", lease_take_moment, FIELD(at_mono_ns), OF(START), OF(START)},
    {"boot_id", lease_take_text, FIELD(boot_id), OF(START), OF(START)},
    {"clock", lease_take_clock, 0, OF(START), 0},
    {"deadline_ns", lease_take_length, FIELD(deadline_ns), OF(START) | OF(RENEW), OF(START) | OF(RENEW)},
    {"rolled_back", lease_take_bool, FIELD(rolled_back), OF(STOP), 0},
};

static int lease_take_member(enum lease_route route, const char *name, const json_t *v, struct lease_body *b,
                             struct problem *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(lease_members); i++)
        if ((lease_members[i].of & (1u << route)) && streq(lease_members[i].name, name))
            return lease_members[i].take(v, name, (char *)b + lease_members[i].offset, p);
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"%s\" is not a member of this request", name);
}

static int lease_body_take(enum lease_route route, const json_t *j, struct lease_body *b, struct problem *p)
{
    const char *name;
    json_t *value;
    int r = 0;

    if (!json_is_object(j))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the request's body must be a JSON object");
    json_object_foreach((json_t *)j, name, value) {
        r = lease_take_member(route, name, value, b, p);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < ARRAY_SIZE(lease_members); i++)
        if ((lease_members[i].needed & (1u << route)) && !json_object_get(j, lease_members[i].name))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"%s\" is missing", lease_members[i].name);
    return 0;
}

static int lease_compare_urls(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char **lease_sorted_urls(const struct lease_body *b)
{
    const char **urls = xcalloc(b->n_workers + 1, sizeof(*urls));

    for (size_t i = 0; i < b->n_workers; i++)
        urls[i] = b->workers[i].url;
    qsort(urls, b->n_workers, sizeof(*urls), lease_compare_urls);
    return urls;
}

static int lease_check_unique(const struct lease_body *b, struct problem *p)
{
    _cleanup_(freep) const char **urls = lease_sorted_urls(b);

    for (size_t i = 1; i < b->n_workers; i++)
        if (streq(urls[i - 1], urls[i]))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s is named twice", urls[i]);
    return 0;
}

int lease_body_parse(enum lease_route route, const json_t *j, struct lease_body *ret, struct problem *p)
{
    struct lease_body b = {0};
    int r = lease_body_take(route, j, &b, p);

    if (r == 0)
        r = lease_check_unique(&b, p);
    if (r < 0) {
        lease_body_done(&b);
        return r;
    }
    *ret = b;
    return 0;
}

void lease_body_done(struct lease_body *b)
{
    free(b->sender);
    for (size_t i = 0; i < b->n_workers; i++) {
        free(b->workers[i].url);
        free(b->workers[i].profile_id);
        free(b->workers[i].output_dir);
    }
    free(b->workers);
    free(b->session);
    free(b->coordinator);
    free(b->coordinator_name);
    free(b->actor);
    free(b->boot_id);
    json_decref(b->request);
    *b = (struct lease_body){0};
}
