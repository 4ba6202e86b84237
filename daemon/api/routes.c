/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/routes.h"

#include "base/text.h"
#include "daemon/api/handler.h"
#include "proto/names.h"
#include <errno.h>

/* Of lists that are searched and sorted. */
#define ROUTE_LISTED "search sort offset total label"

/* clang-format off */
static const struct route routes[] = {
    {HTTP_GET,    "/",                           RIGHT_NONE,    NULL,                      get_web_page, .everybody = true},
    {HTTP_GET,    "/web/{asset}",                RIGHT_NONE,    NULL,                      get_web_asset, .everybody = true},
    {HTTP_GET,    "/healthz",                    RIGHT_NONE,    NULL,                      get_health, .everybody = true},
    {HTTP_GET,    "/readyz",                     RIGHT_NONE,    NULL,                      get_readiness},
    {HTTP_GET,    "/metrics",                    RIGHT_NONE,    NULL,                      get_metrics},
    {HTTP_GET,    "/v1/version",                 RIGHT_READ,    NULL,                      get_version},
    {HTTP_GET,    "/v1/workers",                 RIGHT_READ,    ROUTE_SOURCE,                    get_workers, ROUTE_OPERATED},
    {HTTP_POST,   "/v1/workers",                 RIGHT_OPERATE, NULL,                      get_workers, .asks_fleet = true},
    {HTTP_GET,    "/v1/doctor",                  RIGHT_READ,    ROUTE_SOURCE,                    get_doctor, ROUTE_OPERATED},
    {HTTP_POST,   "/v1/doctor",                  RIGHT_OPERATE, NULL,                      get_doctor, .asks_fleet = true},
    {HTTP_GET,    "/v1/fleet/events",            RIGHT_READ,    ROUTE_SOURCE,                    get_fleet_events, ROUTE_OPERATED},
    {HTTP_GET,    "/v1/routers",                 RIGHT_READ,    NULL,                      get_routers},
    {HTTP_GET,    "/v1/sessions",                RIGHT_READ,    "limit before state " ROUTE_LISTED,      list_jobs, .job = &session_routes},
    {HTTP_POST,   "/v1/sessions",                RIGHT_OPERATE, NULL,                      start_job, .job = &session_routes, .body_max = ROUTE_WORKLOAD_MAX},
    {HTTP_GET,    "/v1/sessions/{session}",      RIGHT_READ,    NULL,                      get_job, .job = &session_routes},
    {HTTP_DELETE, "/v1/sessions/{session}",      RIGHT_ADMIN,   NULL,                      remove_job, .job = &session_routes},
    {HTTP_POST,   "/v1/sessions/{session}/stop", RIGHT_OPERATE, NULL,                      stop_job, .job = &session_routes},
    {HTTP_PUT,    "/v1/sessions/{session}/pin",  RIGHT_OPERATE, NULL,                      set_session_pin, .job = &session_routes},
    {HTTP_DELETE, "/v1/sessions/{session}/pin",  RIGHT_OPERATE, NULL,                      set_session_pin, .job = &session_routes},
    {HTTP_PUT,    "/v1/sessions/{session}/labels", RIGHT_OPERATE, NULL,                    set_labels, .job = &session_routes},
    {HTTP_GET,    "/v1/traces",                  RIGHT_READ,    "session worker since until unclaimed before limit state " ROUTE_LISTED, list_traces},
    {HTTP_POST,   "/v1/traces",                  RIGHT_OPERATE, NULL,                      import_trace},
    {HTTP_GET,    "/v1/traces/{trace}",          RIGHT_READ,    NULL,                      get_trace},
    {HTTP_DELETE, "/v1/traces/{trace}",          RIGHT_ADMIN,   NULL,                      remove_trace},
    {HTTP_POST,   "/v1/traces/{trace}/fetch",    RIGHT_READ,    "columns",                 fetch_trace},
    {HTTP_GET,    "/v1/traces/{trace}/file",     RIGHT_READ,    NULL,                      get_trace_file, .by_ticket = true},
    {HTTP_GET,    "/v1/traces/{trace}/columns",  RIGHT_READ,    NULL,                      get_trace_columns},
    {HTTP_GET,    "/v1/traces/{trace}/reports/{report}", RIGHT_READ, "from to step phase top", get_trace_report},
    {HTTP_GET,    "/v1/traces/{trace}/timeline", RIGHT_READ,    NULL,                      get_timeline},
    {HTTP_GET,    "/v1/traces/{trace}/timeline/steps", RIGHT_READ, "v",                    get_timeline_steps},
    {HTTP_GET,    "/v1/traces/{trace}/names/{block}", RIGHT_READ, "v",                     get_timeline_names},
    {HTTP_GET,    "/v1/traces/{trace}/tiles/{level}/{index}", RIGHT_READ, "lanes v",       get_timeline_tile},
    {HTTP_GET,    "/v1/traces/{trace}/counters/{counter}", RIGHT_READ, "from to points",   get_timeline_counter},
    {HTTP_GET,    "/v1/traces/{trace}/slice",    RIGHT_READ,    "lane at within slice",    get_timeline_slice},
    {HTTP_GET,    "/v1/traces/{trace}/search",   RIGHT_READ,    "name from to after limit", search_timeline},
    {HTTP_GET,    "/v1/traces/{trace}/selection", RIGHT_READ,   "from to lanes top",       get_timeline_selection},
    {HTTP_POST,   "/v1/traces/{trace}/query",    RIGHT_READ,    NULL,                      query_trace},
    {HTTP_PUT,    "/v1/traces/{trace}/pin",      RIGHT_OPERATE, NULL,                      set_trace_pin},
    {HTTP_DELETE, "/v1/traces/{trace}/pin",      RIGHT_OPERATE, NULL,                      set_trace_pin},
    {HTTP_PUT,    "/v1/traces/{trace}/labels",   RIGHT_OPERATE, NULL,                      set_labels},
    {HTTP_GET,    "/v1/traces/{trace}/flame",    RIGHT_READ,    "by from to thread",       get_trace_flame},
    {HTTP_GET,    "/v1/traces/{trace}/export",   RIGHT_READ,    "format from to",          export_trace_window, .by_ticket = true},
    {HTTP_POST,   "/v1/flame",                   RIGHT_READ,    NULL,                      make_flame},
    {HTTP_POST,   "/v1/compare",                 RIGHT_READ,    NULL,                      compare_sides},
    {HTTP_POST,   "/v1/reports",                 RIGHT_READ,    NULL,                      make_reports},
    {HTTP_GET,    "/v1/runs",                    RIGHT_READ,    "limit before session state " ROUTE_LISTED, list_jobs, .job = &run_routes},
    {HTTP_POST,   "/v1/runs",                    RIGHT_OPERATE, NULL,                      start_job, .job = &run_routes, .body_max = ROUTE_WORKLOAD_MAX},
    {HTTP_GET,    "/v1/runs/{run}",              RIGHT_READ,    NULL,                      get_job, .job = &run_routes},
    {HTTP_DELETE, "/v1/runs/{run}",              RIGHT_ADMIN,   NULL,                      remove_job, .job = &run_routes},
    {HTTP_POST,   "/v1/runs/{run}/stop",         RIGHT_OPERATE, NULL,                      stop_job, .job = &run_routes},
    {HTTP_PUT,    "/v1/runs/{run}/labels",       RIGHT_OPERATE, NULL,                      set_labels, .job = &run_routes},
    {HTTP_GET,    "/v1/runs/{run}/requests",     RIGHT_READ,    "format after limit",      get_requests, .by_ticket = true},
    {HTTP_GET,    "/v1/usage",                   RIGHT_READ,    NULL,                      get_usage},
    {HTTP_POST,   "/v1/vacuum",                  RIGHT_ADMIN,   NULL,                      vacuum_store},
    {HTTP_GET,    "/v1/archive",                 RIGHT_READ,    NULL,                      get_archive},
    {HTTP_POST,   "/v1/archive/restore",         RIGHT_ADMIN,   NULL,                      restore_archive},
    {HTTP_GET,    "/v1/mirror",                  RIGHT_READ,    NULL,                      get_mirror},
    {HTTP_GET,    "/v1/events",                  RIGHT_READ,    "session run after",       get_events},
    {HTTP_GET,    "/v1/refs",                    RIGHT_READ,    "ref",                     get_ref},
    {HTTP_POST,   "/v1/web/codes",               RIGHT_READ,    NULL,                      create_web_code, .body_max = ROUTE_LOGIN_MAX},
    {HTTP_POST,   "/v1/web/login",               RIGHT_NONE,    NULL,                      create_web_login, .everybody = true, .body_max = ROUTE_LOGIN_MAX},
    {HTTP_DELETE, "/v1/web/login",               RIGHT_READ,    NULL,                      remove_web_login},
    {HTTP_GET,    "/v1/web/me",                  RIGHT_READ,    NULL,                      get_web_user},
    {HTTP_POST,   "/v1/tickets",                 RIGHT_READ,    NULL,                      create_ticket, .body_max = ROUTE_LOGIN_MAX},
    {HTTP_GET,    "/v1/tickets/{ticket}",        RIGHT_NONE,    NULL,                      get_ticket, .everybody = true},
    {HTTP_GET,    "/v1/hosts",                   RIGHT_READ,    NULL,                      list_hosts},
    {HTTP_GET,    "/v1/host",                    RIGHT_PEER,    NULL,                      get_host},
    {HTTP_GET,    "/v1/host/clock",              RIGHT_PEER,    NULL,                      get_host_clock},
    {HTTP_POST,   "/v1/host/workers",            RIGHT_PEER,    NULL,                      get_host_workers, .asks_fleet = true},
    {HTTP_GET,    "/v1/leases",                  RIGHT_PEER,    "session",                 find_lease},
    {HTTP_POST,   "/v1/leases",                  RIGHT_PEER,    NULL,                      grant_lease},
    {HTTP_GET,    "/v1/leases/{lease}",          RIGHT_PEER,    "session after wait",      poll_lease},
    {HTTP_POST,   "/v1/leases/{lease}/prepare",  RIGHT_PEER,    NULL,                      prepare_lease},
    {HTTP_POST,   "/v1/leases/{lease}/start",    RIGHT_PEER,    NULL,                      start_lease},
    {HTTP_POST,   "/v1/leases/{lease}/renew",    RIGHT_PEER,    NULL,                      renew_lease},
    {HTTP_POST,   "/v1/leases/{lease}/stop",     RIGHT_PEER,    NULL,                      stop_lease},
    {HTTP_POST,   "/v1/leases/{lease}/release",  RIGHT_PEER,    NULL,                      release_lease},
};
/* clang-format on */

const struct route *route_at(size_t i)
{
    if (i < ARRAY_SIZE(routes))
        return &routes[i];
    return i < routes_count() ? &extra_routes[i - ARRAY_SIZE(routes)] : NULL;
}

size_t route_index(const struct route *route)
{
    size_t i = 0;

    while (i < routes_count() && route_at(i) != route)
        i++;
    return i;
}

size_t routes_count(void)
{
    return ARRAY_SIZE(routes) + n_extra_routes;
}

enum route_class route_class(const struct route *route)
{
    if (!route)
        return ROUTE_CLASS_NONE;
    if (route->operate || route->asks_fleet)
        return ROUTE_CLASS_FLEET;
    if (route->right == RIGHT_NONE)
        return ROUTE_CLASS_PROBE;
    bool reads = route->right == RIGHT_READ || (route->right == RIGHT_PEER && route->method == HTTP_GET);
    return reads ? ROUTE_CLASS_READ : ROUTE_CLASS_CHANGE;
}

const char *http_method_name(enum http_method m)
{
    static const char *const names[_HTTP_METHOD_MAX] = {
        [HTTP_GET] = "GET", [HTTP_HEAD] = "HEAD",     [HTTP_POST] = "POST",
        [HTTP_PUT] = "PUT", [HTTP_DELETE] = "DELETE",
    };
    return names[m];
}

/* The segment of a path that is an id, where the pattern has "{session}": a noun, whose first letter is that of
 * its ids. */
struct id_text {
    const char *noun; /* NULL: there is none */
    const char *start;
    size_t size;
};

/* Segments that are names and not ids; at most two of a path. */
#define ROUTE_WORDS_MAX 2
static const char *const word_nouns[] = {"{report}", "{asset}", "{ticket}", "{block}",
                                         "{level}",  "{index}", "{counter}"};

static bool route_is_word(const char *segment)
{
    for (size_t i = 0; i < ARRAY_SIZE(word_nouns); i++)
        if (starts_with(segment, word_nouns[i]))
            return true;
    return false;
}

/* Segment by segment; any text fits where an id or a word belongs. */
static bool route_fits(const char *pattern, const char *path, struct id_text *ret,
                       struct id_text ret_words[static ROUTE_WORDS_MAX])
{
    size_t n_words = 0;

    *ret = (struct id_text){0};
    for (size_t i = 0; i < ROUTE_WORDS_MAX; i++)
        ret_words[i] = (struct id_text){0};
    while (*pattern || *path) {
        if (*pattern != '/' || *path != '/')
            return false;
        size_t n = strcspn(pattern + 1, "/"), k = strcspn(path + 1, "/");
        if (route_is_word(pattern + 1) && n_words < ROUTE_WORDS_MAX)
            ret_words[n_words++] = (struct id_text){pattern + 2, path + 1, k};
        else if (pattern[1] == '{')
            *ret = (struct id_text){pattern + 2, path + 1, k};
        else if (n != k || strncmp(pattern + 1, path + 1, n) != 0)
            return false;
        pattern += 1 + n;
        path += 1 + k;
    }
    return true;
}

static int route_read_id(const struct id_text *text, struct route_match *m, struct problem *p)
{
    char *copy = m->uuid;

    if (!text->noun)
        return 0;
    char kind = m->id_kind = *text->noun;
    snprintf(copy, sizeof(m->uuid), "%.*s", (int)MIN(text->size, sizeof(m->uuid)), text->start);
    bool is_complete = text->size < sizeof(m->uuid);
    if (is_complete && parse_ref(copy, kind, &m->id) == kind) {
        *copy = '\0';
        return 0;
    }
    m->id = 0;
    if (is_complete && uuid_is_prefix(copy))
        return 0;
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                       "\"%s\" is not the id of a %.*s, such as %c7 or 7, or its UUID", copy,
                       (int)strcspn(text->noun, "}"), text->noun, kind);
}

static int route_read_word(const struct id_text *text, char ret[static ROUTE_WORD_MAX], struct problem *p)
{
    snprintf(ret, ROUTE_WORD_MAX, "%.*s", (int)MIN(text->size, (size_t)ROUTE_WORD_MAX),
             text->noun ? text->start : "");
    return text->size < ROUTE_WORD_MAX ? 0
                                       : problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "unknown %.*s '%s'",
                                                     (int)strcspn(text->noun, "}"), text->noun, ret);
}

static void route_add_allowed(char allow[static ROUTE_ALLOW_MAX], const struct route *route)
{
    size_t n = strlen(allow);
    snprintf(allow + n, ROUTE_ALLOW_MAX - n, "%s%s%s", n ? ", " : "", http_method_name(route->method),
             route->method == HTTP_GET ? ", HEAD" : "");
}

int route_find(enum http_method method, const char *path, struct route_match *ret, struct problem *p)
{
    enum http_method wanted = method == HTTP_HEAD ? HTTP_GET : method;
    struct route_match m = {0};
    struct id_text id, words[ROUTE_WORDS_MAX];

    const struct route *route;

    for (size_t i = 0; (route = route_at(i)); i++) {
        if (!route_fits(route->pattern, path, &id, words))
            continue;
        route_add_allowed(m.allow, route);
        if (route->method != wanted)
            continue;
        m.route = route;
        int r = route_read_id(&id, &m, p);
        if (r == 0)
            r = route_read_word(&words[0], m.word, p);
        if (r == 0)
            r = route_read_word(&words[1], m.word_2, p);
        if (r == 0)
            *ret = m;
        return r;
    }
    if (!*m.allow)
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "no such path: %s", path);
    *ret = m;
    return problem_set(p, -EOPNOTSUPP, PROBLEM_BAD_REQUEST, "%s allows %s, not %s", path, m.allow,
                       http_method_name(method));
}

int route_check_parameter(const struct route *route, const char *name, struct problem *p)
{
    const char *rest = route->query ? route->query : "", *word;
    size_t size = strlen(name), n;

    while ((n = words_next(&rest, &word)) > 0)
        if (n == size && strncmp(word, name, n) == 0)
            return 0;
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s takes no parameter \"%s\"", route->pattern, name);
    if (route->query)
        problem_remedy(p, "It takes: %s.", route->query);
    return -EINVAL;
}
