/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The web page: its files, its log-in, and tickets for its downloads. Who gets what is decided by access_pages.c; the
 * files are served by web_page.c.
 */
#include "base/alloc.h"
#include "base/json.h"
#include "daemon/api/handler.h"
#include "daemon/api/web_page.h"
#include "proto/names.h"
#include "version.h"
#include <errno.h>

#define PAGE_FILE "index.html"
/* Bytes of the path and query that a ticket is for. */
#define TICKET_TARGET_MAX 1024
#define HOST_TEXT_SIZE    256

/* -- Files -------------------------------------------------------------------------------------------- */

void get_web_page(struct api *api, struct http_request *r, const struct route_match *match)
{
    const struct web_asset *page = web_asset_find(PAGE_FILE);

    if (page)
        web_asset_reply(r, page);
    else
        reply_refused(r, PROBLEM_NOT_FOUND, "Build profd with -Dweb=enabled.", "this profd has no web page");
}

void get_web_asset(struct api *api, struct http_request *r, const struct route_match *match)
{
    const struct web_asset *asset = web_asset_find(match->word);

    if (asset)
        web_asset_reply(r, asset);
    else
        reply_refused(r, PROBLEM_NOT_FOUND, "Reload the page: profd may have been updated.",
                      "the web page has no file %s", match->word);
}

/* -- Log-in ------------------------------------------------------------------------------------------- */

static void reply_grant(struct http_request *r, const char *name, const struct page_grant *g, const char *url)
{
    json_t *body = json_object();

    json_put_str(body, name, g->secret);
    json_put_str(body, "role", right_name(g->right));
    json_put_str(body, "user", g->user);
    json_put_int(body, "expires_at", g->expires_at);
    if (streq(name, "code")) {
        json_put_str(body, "url", url);
        json_object_set_new(body, "page", json_boolean(web_asset_find(PAGE_FILE)));
    }
    http_reply_header(r, "Cache-Control", "no-store");
    http_reply_json(r, 201, body);
}

static int code_read_role(const json_t *body, enum right *ret, struct problem *p)
{
    const json_t *value = json_object_get(body, "role");
    int role = json_is_string(value) ? right_from_name(json_string_value(value)) : -1;

    if (!value)
        return 0;
    if (role != RIGHT_READ && role != RIGHT_OPERATE && role != RIGHT_ADMIN)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"role\" must be read, operate or admin");
    *ret = (enum right)role;
    return 0;
}

void create_web_code(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(page_grant_done) struct page_grant code = {0};
    _cleanup_(freep) char *url = access_page_url(api->access);
    _cleanup_json_ body = NULL;
    enum right role = RIGHT_NONE;

    if (body_object(r, &body, &p) < 0 || code_read_role(body, &role, &p) < 0 ||
        access_new_code(api->access, r, role, &code, &p) < 0)
        http_reply_problem(r, &p);
    else
        reply_grant(r, "code", &code, url);
}

void create_web_login(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(page_grant_done) struct page_grant login = {0};
    _cleanup_json_ body = NULL;

    if (body_object(r, &body, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    const char *code = json_get_str(body, "code");
    if (!code)
        reply_refused(r, PROBLEM_BAD_REQUEST, NULL, "\"code\" must be a text");
    else if (access_log_in(api->access, r, code, &login, &p) < 0)
        http_reply_problem(r, &p);
    else
        reply_grant(r, "token", &login, NULL);
}

void remove_web_login(struct api *api, struct http_request *r, const struct route_match *match)
{
    if (access_log_out(api->access, r) < 0) {
        reply_refused(r, PROBLEM_CONFLICT, NULL, "the request shows no token of a page");
        return;
    }
    http_reply(r, 204, NULL, NULL, 0);
    api_recheck_streams(api);
}

void get_web_user(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(freep) char *actor = request_actor(r);
    int64_t expires_at = access_expires_at(api->access, r);
    const char *user = starts_with(actor, PAGE_USER_PREFIX) ? actor + strlen(PAGE_USER_PREFIX) : actor;
    enum right right = http_peer(r)->local ? RIGHT_ADMIN : http_right(r);
    char host[HOST_TEXT_SIZE] = "";
    json_t *body = json_object();

    gethostname(host, sizeof(host) - 1);
    json_put_str(body, "user", user);
    json_put_str(body, "role", right_name(right));
    if (expires_at > 0)
        json_put_int(body, "expires_at", expires_at);
    json_put_str(body, "perfetto", api->modules.settings->perfetto);
    json_put_str(body, "version", PROFD_VERSION);
    json_put_str(body, "host", host);
    http_reply_header(r, "Cache-Control", "no-store");
    http_reply_json(r, 200, body);
}

/* -- Tickets ------------------------------------------------------------------------------------------ */

/* The route of a file, which the right has. The request's own target, after http_request_retarget(). */
static int ticket_check_route(const struct route_match *match, enum right right, struct problem *p)
{
    if (!match->route->by_ticket)
        return problem_set(p, -EPERM, PROBLEM_DENIED, "\"path\" must be that of a file: %s is none",
                           match->route->pattern);
    if (!right_includes(right, match->route->right))
        return problem_set(p, -EPERM, PROBLEM_DENIED, "the download requires role %s",
                           right_name(match->route->right));
    return 0;
}

static int ticket_check_target(struct http_request *r, const char *target, struct problem *p)
{
    enum right right = http_peer(r)->local ? RIGHT_ADMIN : http_right(r);
    struct route_match match;

    if (strlen(target) > TICKET_TARGET_MAX)
        return problem_set(p, -E2BIG, PROBLEM_BAD_REQUEST, "\"path\" is longer than %d bytes",
                           TICKET_TARGET_MAX);
    if (http_request_retarget(r, target) < 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "\"path\" must be a path such as /v1/traces/t12/file");
    int err = route_find(HTTP_GET, http_path(r), &match, p);
    return err < 0 ? err : ticket_check_route(&match, right, p);
}

void create_ticket(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(page_grant_done) struct page_grant ticket = {0};
    _cleanup_json_ body = NULL;

    const char *target = body_object(r, &body, &p) == 0 ? json_get_str(body, "path") : NULL;
    if (!target)
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "\"path\" must be a text");
    if (!target || ticket_check_target(r, target, &p) < 0 ||
        access_new_ticket(api->access, r, target, &ticket, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    _cleanup_(freep) char *url = xasprintf("/v1/tickets/%s", ticket.secret);
    json_t *reply = json_object();
    json_put_str(reply, "url", url);
    json_put_int(reply, "expires_at", ticket.expires_at);
    http_reply_header(r, "Cache-Control", "no-store");
    http_reply_json(r, 201, reply);
}

/* The link of a page: the request goes on as one for the file, in the name of who asked for the ticket. */
void get_ticket(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *target = NULL;
    struct route_match found;

    if (http_method(r) != HTTP_GET) {
        problem_set(&p, -EOPNOTSUPP, PROBLEM_BAD_REQUEST, "a ticket is for one GET");
        http_reply_header(r, "Allow", "GET");
        reply_problem(r, 405, &p, NULL, NULL);
        return;
    }
    http_reply_header(r, "Content-Security-Policy", "sandbox");
    http_reply_header(r, "Cache-Control", "no-store");
    if (access_redeem_ticket(api->access, r, match->word, &target, &p) < 0 ||
        http_request_retarget(r, target) < 0 || route_find(HTTP_GET, http_path(r), &found, &p) < 0 ||
        ticket_check_route(&found, http_right(r), &p) < 0)
        http_reply_problem(r, &p);
    else
        api_dispatch(api, r);
}
