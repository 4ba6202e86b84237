/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/handler.h"

#include "base/address.h"
#include "base/alloc.h"
#include "daemon/catalog/catalog.h"
#include "daemon/catalog/records.h"
#include "proto/names.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>

/* Only of /etc/passwd: a directory service may take its time, and this is the loop. */
static char *request_user_name(uid_t uid)
{
    _cleanup_(fclosep) FILE *f = fopen("/etc/passwd", "re");
    const struct passwd *pw;

    while (f && (pw = fgetpwent(f)))
        if (pw->pw_uid == uid)
            return xstrdup(pw->pw_name);
    return NULL;
}

char *request_actor(const struct http_request *r)
{
    const struct http_peer *peer = http_peer(r);

    if (http_user(r))
        return xstrdup(http_user(r));
    if (!peer->local) {
        const char *port = strrchr(peer->address, ':');
        return port ? xstrndup(peer->address, (size_t)(port - peer->address)) : xstrdup(peer->address);
    }
    if (peer->uid == (uid_t)-1)
        return xstrdup("unknown");
    _cleanup_(freep) char *name = request_user_name(peer->uid);
    return name ? xasprintf("uid %u (%s)", peer->uid, name) : xasprintf("uid %u", peer->uid);
}

/* -- Replies ------------------------------------------------------------------------------------------ */

void reply_refused(struct http_request *r, enum problem_kind kind, const char *remedy, const char *format,
                   ...)
{
    _cleanup_(problem_done) struct problem p = {0};
    va_list ap;

    va_start(ap, format);
    p.kind = kind;
    p.what = xvasprintf(format, ap);
    va_end(ap);
    p.remedy = xstrdup(remedy);
    http_reply_problem(r, &p);
}

const char *record_noun(char kind)
{
    return kind == 's' ? "session" : kind == 'r' ? "run" : kind == 'l' ? "lease" : "trace";
}

void reply_missing(struct http_request *r, char kind, int64_t id)
{
    const char *noun = record_noun(kind);
    _cleanup_(freep) char *remedy = xasprintf("profctl list-%ss lists them.", noun);

    reply_refused(r, PROBLEM_NOT_FOUND, remedy, "there is no %s %c%" PRId64, noun, kind, id);
}

void reply_error(struct api *api, struct http_request *r, int err, const char *doing, ...)
{
    _cleanup_(problem_done) struct problem p = {0};
    va_list ap;

    va_start(ap, doing);
    _cleanup_(freep) char *text = xvasprintf(doing, ap);
    va_end(ap);
    catalog_problem(api->modules.catalog, err, &p, "cannot %s", text);
    http_reply_problem(r, &p);
}

void reply_problem(struct http_request *r, int status, const struct problem *p, const char *member,
                   const json_t *value)
{
    int shown = status > 0 ? status : problem_http_status(p->kind);
    json_t *body = http_render_problem(shown, problem_code(p->kind), p->what, p->remedy);

    if (member && value)
        json_object_set(body, member, (json_t *)value);
    http_reply_problem_json(r, shown, body);
}

void reply_computation_problem(struct http_request *r, const struct problem *p)
{
    if (p->kind == PROBLEM_TOO_MANY)
        http_reply_header(r, "Retry-After", "1");
    http_reply_problem(r, p);
}

bool reply_failure(struct api *api, struct http_request *r, int err, char kind, int64_t id, const char *doing)
{
    if (err == -ENOENT)
        reply_missing(r, kind, id);
    else if (err < 0)
        reply_error(api, r, err, "%s %s %c%" PRId64, doing, record_noun(kind), kind, id);
    return err < 0;
}

void reply_list(struct http_request *r, const char *name, json_t *take_list)
{
    json_t *body = json_object();

    json_object_set_new(body, name, take_list);
    http_reply_json(r, 200, body);
}

static void later_reply_on_close(struct http_request *r, void *arg)
{
    struct later_reply *later = arg;

    later->request = NULL;
    if (later->cancel) {
        later->cancel(later->work);
        free(later);
    }
}

struct later_reply *later_reply_new(struct api *api, struct http_request *r, const struct route_match *match)
{
    struct later_reply *later = xcalloc(1, sizeof(*later));

    *later = (struct later_reply){.api = api, .request = r, .match = *match};
    http_on_close(r, later_reply_on_close, later);
    return later;
}

bool later_reply_end(void *arg, struct later_reply *ret)
{
    *ret = *(struct later_reply *)arg;
    free(arg);
    if (ret->request)
        http_on_close(ret->request, NULL, NULL);
    return ret->request;
}

/* -- Parameters and bodies ---------------------------------------------------------------------------- */

int query_number(const struct http_request *r, const char *name, int64_t min, int64_t max, int64_t *ret,
                 struct problem *p)
{
    const char *text = http_query_get(r, name);
    char *end;

    if (!text)
        return 0;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    bool is_number = isdigit((unsigned char)*text) || (*text == '-' && isdigit((unsigned char)text[1]));
    if (!is_number || *end || errno || n < min || n > max)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "%s=%s must be a whole number from %" PRId64 " to %" PRId64, name, text, min, max);
    *ret = n;
    return 0;
}

int query_bool(const struct http_request *r, const char *name, bool *ret, struct problem *p)
{
    const char *text = http_query_get(r, name);

    if (!text)
        return 0;
    if (!streq(text, "true") && !streq(text, "false"))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s=%s must be true or false", name, text);
    *ret = streq(text, "true");
    return 0;
}

int query_ref(struct catalog *c, const struct http_request *r, const char *name, char kind, int64_t *ret,
              struct problem *p)
{
    const char *text = http_query_get(r, name);
    int64_t id;

    if (!text)
        return 0;
    if (parse_ref(text, kind, &id) != kind && !uuid_is_prefix(text))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "%s=%s must be an id such as %c7, or 7, or a UUID", name, text, kind);
    return ref_find(c, text, kind, ret, p);
}

int body_object(const struct http_request *r, json_t **ret, struct problem *p)
{
    char error[200];
    size_t size;
    const char *body = http_body(r, &size);
    json_t *j = json_parse(body ? body : "", size, error);

    if (!j)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the request's body is not JSON: %s", error);
    if (!json_is_object(j)) {
        json_decref(j);
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the request's body must be a JSON object");
    }
    *ret = j;
    return 0;
}

void request_take_author(const struct http_request *r, struct process_query *q)
{
    const struct http_peer *peer = http_peer(r);
    bool known = peer->local && peer->uid != (uid_t)-1;
    bool on_socket = known && streq(peer->address, HTTP_PEER_UNIX);

    q->has_uid = known;
    q->uid = peer->uid;
    q->may_all = on_socket || (known && (peer->uid == 0 || peer->uid == geteuid() || peer->in_group)) ||
                 (!peer->local && http_right(r) == RIGHT_ADMIN);
}

/* -- The fleet of a request --------------------------------------------------------------------------- */

static int source_take_workers(const struct http_request *r, struct fleet_query *q, struct problem *p)
{
    const char *none[1];
    size_t n = http_query_all(r, "worker", none, 0);

    if (n == 0)
        return 0;
    if (n > REQUEST_WORKERS_MAX)
        return problem_set(p, -E2BIG, PROBLEM_BAD_REQUEST, "%zu workers are named, more than %d", n,
                           REQUEST_WORKERS_MAX);
    _cleanup_(freep) const char **urls = xcalloc(n, sizeof(*urls));
    http_query_all(r, "worker", urls, n);
    q->workers = xcalloc(n, sizeof(*q->workers));
    for (size_t i = 0; i < n; i++)
        q->workers[q->n_workers++] = xstrdup(urls[i]);
    return 0;
}

/* The parameters have the names of a request's members. */
static int source_take_source(const struct http_request *r, struct source_config *by, struct problem *p)
{
    _cleanup_(freep) char *reason = NULL;
    const char *value;

    for (size_t i = 0; source_at(i); i++) {
        value = http_query_get(r, source_at(i)->key);
        if (value && source_config_set(by, source_at(i), value, &reason) < 0)
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s", reason);
    }
    for (const struct source_setting *s = source_settings; s->name; s++)
        if (s->asked && (value = http_query_get(r, s->name)))
            replace_str((char **)(void *)((char *)by + s->offset), value);
    return 0;
}

static int source_take_system_port(const struct http_request *r, struct fleet_query *q, struct problem *p)
{
    const char *text = http_query_get(r, "system_port");

    q->system_port = port_parse(text);
    if (text && q->system_port == 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "system_port must be a port, 1 to 65535");
    return 0;
}

/* kineto=true, with pid=, slurm_job=, uid= and unit=, each repeatable: as the members of a request to record. */
static int source_take_processes(const struct http_request *r, struct process_query *ret, struct problem *p)
{
    static const struct {
        const char *parameter, *member;
        bool is_text;
    } lists[] = {{"pid", "pids", false},
                 {"slurm_job", "slurm_jobs", false},
                 {"uid", "uids", false},
                 {"unit", "units", true}};
    _cleanup_(freep) const char **values = xcalloc(PROCESS_QUERY_MAX, sizeof(*values));
    _cleanup_json_ j = json_object();
    bool wanted = false;

    if (query_bool(r, "kineto", &wanted, p) < 0)
        return -EINVAL;
    for (size_t i = 0; i < ARRAY_SIZE(lists) && wanted; i++) {
        size_t n = http_query_all(r, lists[i].parameter, values, PROCESS_QUERY_MAX);
        json_t *list = json_array();
        for (size_t k = 0; k < MIN(n, (size_t)PROCESS_QUERY_MAX); k++) {
            char *end = NULL;
            int64_t number = lists[i].is_text ? 0 : strtoll(values[k], &end, 10);
            json_array_append_new(list, end && end != values[k] && !*end ? json_integer(number)
                                                                         : json_text(values[k]));
        }
        if (n > 0)
            json_object_set(j, lists[i].member, list);
        json_decref(list);
    }
    return wanted ? process_query_parse(j, ret, p) : 0;
}

static int source_check(const struct fleet_query *q, struct problem *p)
{
    if (fleet_query_check(q, p) < 0)
        return -EINVAL;
    if (q->trace_dir && q->trace_dir[0] != '/')
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "trace_dir must be an absolute path, not %s",
                           q->trace_dir);
    return 0;
}

static int source_from_query(const struct http_request *r, struct fleet_query *ret, struct problem *p)
{
    struct fleet_query q = {.fleet = xstrdup(http_query_get(r, "fleet")),
                            .router = xstrdup(http_query_get(r, "router")),
                            .dialect = xstrdup(http_query_get(r, "dialect")),
                            .trace_dir = xstrdup(http_query_get(r, "trace_dir"))};
    int err = source_take_workers(r, &q, p);

    if (err == 0)
        err = source_take_source(r, &q.by, p);
    if (err == 0)
        err = source_take_system_port(r, &q, p);
    if (err < 0) {
        fleet_query_done(&q);
        return err;
    }
    *ret = q;
    return 0;
}

/* As a query, or as a body where it is too long for one. */
static int source_of_request(const struct http_request *r, struct fleet_query *ret, struct problem *p)
{
    _cleanup_json_ body = NULL;

    if (http_method(r) == HTTP_GET)
        return source_from_query(r, ret, p);
    int err = body_object(r, &body, p);
    return err < 0 ? err : fleet_request_parse(body, ret, p);
}

static int source_unknown(const struct fleet_settings *s, struct problem *p)
{
    _cleanup_(freep) char *names = NULL;

    for (size_t i = 0; i < s->n_fleets; i++) {
        char *longer = xasprintf("%s%s%s", names ? names : "", names ? ", " : "", s->fleets[i].name);
        free(names);
        names = longer;
    }
    if (names) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "no fleet named; profd.conf has %s", names);
        problem_remedy(p, "Choose one with --fleet NAME, or a router with --router URL.");
    } else {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                    "no router named; none is configured, and no session has used one yet");
        problem_remedy(p,
                       "Use --router http://HOST:PORT, --router-log FILE for a training job, or --worker URL "
                       "without a router.");
    }
    return -EDESTADDRREQ;
}

int source_complete(struct api *api, struct fleet_query *q, struct problem *p)
{
    const struct fleet_settings *s = api->modules.fleet_settings;

    int err = source_check(q, p);
    if (err < 0 || q->router || q->fleet || q->by.source || q->n_workers > 0 || q->processes.wanted)
        return err;
    if (s->n_fleets == 1)
        q->fleet = xstrdup(s->fleets[0].name);
    else
        q->router = catalog_last_router(api->modules.catalog);
    return q->fleet || q->router ? 0 : source_unknown(s, p);
}

struct api_discovery {
    struct api *api;
    struct http_request *request;
    struct discovery *discovery;
    void (*done)(struct api *api, struct http_request *r, struct fleet *fleet, const struct problem *p);
};

static void discovery_on_close(struct http_request *r, void *arg)
{
    struct api_discovery *w = arg;
    discovery_cancel(w->discovery);
    free(w);
}

static void discovery_on_done(struct fleet *fleet, const struct problem *p, void *arg)
{
    struct api_discovery w = *(struct api_discovery *)arg;

    free(arg);
    http_on_close(w.request, NULL, NULL);
    w.done(w.api, w.request, fleet, p);
}

int request_fleet_query(const struct http_request *r, struct fleet_query *ret, struct problem *p)
{
    struct fleet_query q = {0};

    int err = source_of_request(r, &q, p);
    if (err == 0 && !q.processes.wanted)
        err = source_take_processes(r, &q.processes, p);
    request_take_author(r, &q.processes);
    if (err < 0)
        fleet_query_done(&q);
    else
        *ret = q;
    return err;
}

void discover_for(struct api *api, struct http_request *r,
                  void (*done)(struct api *api, struct http_request *r, struct fleet *fleet,
                               const struct problem *p),
                  void (*unnamed)(struct api *api, struct http_request *r, const struct problem *p))
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(fleet_query_done) struct fleet_query q = {0};

    int err = request_fleet_query(r, &q, &p);
    if (err == 0)
        err = source_complete(api, &q, &p);
    if (err == -EDESTADDRREQ && unnamed) {
        unnamed(api, r, &p);
        return;
    }
    if (err < 0) {
        http_reply_problem(r, &p);
        return;
    }
    struct api_discovery *w = xcalloc(1, sizeof(*w));
    *w = (struct api_discovery){.api = api, .request = r, .done = done};
    w->discovery = fleet_discover(api->modules.finder, &q, discovery_on_done, w);
    http_on_close(r, discovery_on_close, w);
}
