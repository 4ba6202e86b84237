/* SPDX-License-Identifier: Apache-2.0 */
/* What many handlers do: tell who asks, read parameters and bodies, reply to errors. */
#include "base/alloc.h"
#include "daemon/api/api_internal.h"
#include "daemon/api/http_render.h"
#include "daemon/catalog/catalog.h"
#include "proto/names.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>

/* Only of /etc/passwd: a directory service may take its time, and this is the loop. */
static char *user_name(uid_t uid)
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
    _cleanup_(freep) char *name = user_name(peer->uid);
    return name ? xasprintf("uid %u (%s)", peer->uid, name) : xasprintf("uid %u", peer->uid);
}

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

void reply_missing(struct http_request *r, char kind, int64_t id)
{
    const char *what = kind == 's' ? "session" : kind == 'r' ? "run" : "trace";
    _cleanup_(freep) char *remedy = xasprintf("profctl list-%ss shows which there are.", what);

    reply_refused(r, PROBLEM_NOT_FOUND, remedy, "there is no %s %c%" PRId64, what, kind, id);
}

void reply_error(struct api *api, struct http_request *r, int err, const char *doing)
{
    _cleanup_(problem_done) struct problem p = {0};

    catalog_problem(api->modules.catalog, err, &p, "cannot %s", doing);
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

int query_ref(const struct http_request *r, const char *name, char kind, int64_t *ret, struct problem *p)
{
    const char *text = http_query_get(r, name);
    int64_t id;

    if (!text)
        return 0;
    if (parse_ref(text, kind, &id) != kind)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s=%s must be written %c7, or 7", name, text,
                           kind);
    *ret = id;
    return 0;
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
