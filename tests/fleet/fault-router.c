/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router's port: lists the workers in one of two dialects, sums up their journals, and has faults of its
 * own.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "tests/fleet/fault-fleet.h"
#include <errno.h>

#define MANY_WORKERS 10000

struct router_fault_info {
    const char *name, *what;
    void (*answer)(struct fleet *f, struct http_conn *c); /* NULL: it shows elsewhere */
};

static void answer_html(struct fleet *f, struct http_conn *c)
{
    static const char page[] =
        "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body/></html>";
    http_answer(c, &(struct http_answer){
                       .status = 200, .type = "text/html", .body = page, .body_size = sizeof(page) - 1});
}

static void answer_wrong_json(struct fleet *f, struct http_conn *c)
{
    plain_answer_json(c, 200, json_pack("{s:i, s:s}", "workers", 42, "urls", "none"));
}

static void answer_endless(struct fleet *f, struct http_conn *c)
{
    http_flood(c,
               "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"workers\":[",
               "{\"url\":\"http://127.0.0.1:9\"},");
}

static void answer_never(struct fleet *f, struct http_conn *c)
{
}

/* Nothing in it is a worker: what a list should never be believed about. */
static void answer_hostile(struct fleet *f, struct http_conn *c)
{
    static const char *const urls[] = {"file:///etc/passwd",
                                       "http://user:secret@127.0.0.1:9",
                                       "http://[::1",
                                       "",
                                       "http://127.0.0.1:99999",
                                       "gopher://127.0.0.1:9",
                                       "http://127.0.0.1:9\r\nx: y",
                                       "http://\xc3\xa4.invalid:1",
                                       "-o/etc/passwd",
                                       "http://127.0.0.1:9/../../"};
    json_t *workers = json_array();
    for (size_t i = 0; i < ARRAY_SIZE(urls); i++)
        json_array_append_new(workers,
                              json_pack("{s:s, s:[], s:i}", "url", urls[i], "model_id", "priority", -1));
    json_array_append_new(workers, json_array());
    plain_answer_json(c, 200, json_pack("{s:o, s:i}", "workers", workers, "total", -7));
}

static void answer_redirect(struct fleet *f, struct http_conn *c)
{
    _cleanup_(freep) char *router = http_port_url(f->router);
    _cleanup_(freep) char *where = xasprintf("location: %s/redirected\r\n", router);
    http_answer(c, &(struct http_answer){.status = 302, .headers = where, .body = ""});
}

static const struct router_fault_info router_faults[] = {
    {"html", "a page of HTML", answer_html},
    {"wrong-json", "JSON of a wrong shape", answer_wrong_json},
    {"endless-body", "a list of workers that does not end", answer_endless},
    {"hostile", "lists what is no worker", answer_hostile},
    {"hang", "never answers", answer_never},
    {"redirect", "302 to /redirected", answer_redirect},
    {"refused", "does not listen", NULL},
    {"half", "lists every second worker", NULL},
    {"ten-thousand", "lists 10,000 workers: the real ones first, then some that are not there", NULL},
};

int router_set_fault(struct fleet *f, const char *name)
{
    const struct router_fault_info *found = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(router_faults) && name; i++)
        if (streq(router_faults[i].name, name))
            found = &router_faults[i];
    if (name && !found)
        return -EINVAL;
    f->router_fault = found;
    return found && streq(found->name, "refused") ? http_port_refuse(f->router, NULL)
                                                  : http_port_listen(f->router);
}

void router_fault_table_print(FILE *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(router_faults); i++)
        fprintf(out, "  %-24s %s\n", router_faults[i].name, router_faults[i].what);
}

static bool lists(const struct fleet *f, unsigned i)
{
    return i % 2 == 0 || !f->router_fault || !streq(f->router_fault->name, "half");
}

static bool lists_many(const struct fleet *f)
{
    return f->router_fault && streq(f->router_fault->name, "ten-thousand");
}

/* Of one of the fleet's, or of the i-th that is not there: nothing listens on that address of loopback. */
static char *listed_url(const struct fleet *f, unsigned i)
{
    if (i < f->n_workers)
        return worker_url(&f->workers[i]);
    return xasprintf("http://127.%u.%u.1:9", 100 + i / 256, i % 256);
}

static json_t *listed_worker(const struct fleet *f, unsigned i)
{
    const struct worker *w = i < f->n_workers ? &f->workers[i] : NULL;
    _cleanup_(freep) char *url = listed_url(f, i);
    enum role role = w ? w->role : ROLE_REGULAR;
    bool healthy = w && !w->dead && !worker_has(w, FAULT_UNHEALTHY);
    json_t *o = json_pack("{s:s, s:s, s:s, s:b, s:i, s:s, s:i, s:f}", "url", url, "model_id",
                          f->router_dialect == ROUTER_SGLANG ? "fault-model" : "unknown", "worker_type",
                          role_name(role), "is_healthy", healthy, "load", 0, "connection_mode",
                          f->router_dialect == ROUTER_SGLANG ? "http" : "Http", "priority", 50, "cost", 1.0);
    if (role == ROLE_PREFILL)
        json_put_int(o, "bootstrap_port", 8998);
    if (f->router_dialect != ROUTER_SGLANG)
        return o;
    _cleanup_(freep) char *id = xasprintf("00000000-0000-4000-8000-%012u", i);
    json_put_str(o, "id", id);
    json_put_str(o, "runtime_type", f->engine->name);
    json_put_str(o, "status", healthy ? "ready" : "not_ready");
    json_object_set_new(o, "labels", json_object());
    return o;
}

static void list_workers(struct fleet *f, struct http_conn *c, const struct http_request *q)
{
    unsigned n = lists_many(f) ? MAX(f->n_workers, MANY_WORKERS) : f->n_workers;
    int by_role[_ROLE_MAX] = {};
    json_t *workers = json_array();
    for (unsigned i = 0; i < n; i++) {
        if (!lists(f, i))
            continue;
        json_array_append_new(workers, listed_worker(f, i));
        by_role[i < f->n_workers ? f->workers[i].role : ROLE_REGULAR]++;
    }
    plain_answer_json(c, 200,
                      json_pack("{s:o, s:i, s:{s:i, s:i, s:i}}", "workers", workers, "total", (int)n, "stats",
                                "prefill_count", by_role[ROLE_PREFILL], "decode_count", by_role[ROLE_DECODE],
                                "regular_count", by_role[ROLE_REGULAR]));
}

static void list_urls(struct fleet *f, struct http_conn *c, const struct http_request *q)
{
    unsigned n = lists_many(f) ? MAX(f->n_workers, MANY_WORKERS) : f->n_workers;
    json_t *urls = json_array();
    for (unsigned i = 0; i < n; i++) {
        if (!lists(f, i))
            continue;
        _cleanup_(freep) char *url = listed_url(f, i);
        json_array_append_new(urls, json_string(url));
    }
    plain_answer_json(c, 200, json_pack("{s:o}", "urls", urls));
}

static void health(struct fleet *f, struct http_conn *c, const struct http_request *q)
{
    http_answer(c, &(struct http_answer){.status = 200, .body = ""});
}

static void redirected(struct fleet *f, struct http_conn *c, const struct http_request *q)
{
    f->n_redirected++;
    plain_answer_json(c, 200, json_object());
}

static void answer_error(struct http_conn *c, int status, const char *why)
{
    plain_answer_json(c, status, json_pack("{s:s}", "error", why));
}

/* The workers that profile, and for how many seconds; with how long the longest recording was that has ended
 * since this was asked last. */
static void profiling(struct fleet *f, struct http_conn *c)
{
    json_t *workers = json_object();
    int64_t now = mono_ns(), longest = 0;
    for (unsigned i = 0; i < f->n_workers; i++) {
        struct worker *w = &f->workers[i];
        longest = MAX(longest, w->longest_ns);
        w->longest_ns = 0;
        if (!w->recording)
            continue;
        _cleanup_(freep) char *url = worker_url(w);
        json_object_set_new(workers, url,
                            json_real((double)(now - w->recording->since_ns) / (double)NS_PER_S));
    }
    plain_answer_json(
        c, 200, json_pack("{s:o, s:f}", "workers", workers, "longest", (double)longest / (double)NS_PER_S));
}

/* "?worker=N": that worker's own, which may be out of reach itself. "?profiling": those that do. */
static void journal(struct fleet *f, struct http_conn *c, const struct http_request *q)
{
    unsigned index;
    if (streq(q->query, "profiling")) {
        profiling(f, c);
        return;
    }
    if (sscanf(q->query, "worker=%u", &index) == 1) {
        if (index < f->n_workers)
            plain_answer_json(c, 200, worker_journal(&f->workers[index]));
        else
            answer_error(c, 404, "no such worker");
        return;
    }
    int profiling = 0, starts = 0, stops = 0;
    for (unsigned i = 0; i < f->n_workers; i++) {
        profiling += f->workers[i].recording != NULL;
        starts += (int)f->workers[i].n_starts;
        stops += (int)f->workers[i].n_stops;
    }
    plain_answer_json(c, 200,
                      json_pack("{s:i, s:i, s:i, s:i}", "profiling", profiling, "starts", starts, "stops",
                                stops, "redirected", (int)f->n_redirected));
}

/* {"router_fault":NAME or "none"}, or a worker fault with "workers":INDEXES. */
static void change_fault(struct fleet *f, struct http_conn *c, const struct http_request *q)
{
    char error[200];
    _cleanup_json_ body = json_parse(q->body, q->body_size, error);
    const char *name = json_get_str(body, "router_fault");
    int r = name ? router_set_fault(f, streq(name, "none") ? NULL : name) : fleet_change_faults(f, NULL, q);
    answer_error(c, r < 0 ? 400 : 200, r < 0 ? strerror(-r) : "none");
}

#define LISTING_ROUTERS (1 << ROUTER_VLLM | 1 << ROUTER_SGLANG)
#define DYNAMO_ROUTERS  (1 << ROUTER_DYNAMO | 1 << ROUTER_DYNAMO_RL | 1 << ROUTER_DYNAMO_NATS)
#define OURS            0 /* the API of the tests, which every dialect has and no fault closes */

static const struct {
    const char *path;
    unsigned whose; /* bits 1 << enum router_dialect */
    void (*handle)(struct fleet *f, struct http_conn *c, const struct http_request *q);
} routes[] = {
    {"/workers", LISTING_ROUTERS, list_workers},
    {"/list_workers", LISTING_ROUTERS, list_urls},
    {"/health", LISTING_ROUTERS, health},
    {"/health", DYNAMO_ROUTERS, dynamo_frontend_health},
    {"/v1/rl/workers", 1 << ROUTER_DYNAMO_RL, dynamo_frontend_workers},
    {"/redirected", OURS, redirected},
    {"/journal", OURS, journal},
    {"/fault", OURS, change_fault},
};

static size_t find_route(const struct fleet *f, const struct http_request *q)
{
    size_t i = 0;
    while (i < ARRAY_SIZE(routes) &&
           (!streq(routes[i].path, q->path) ||
            (routes[i].whose != OURS && !(routes[i].whose & 1u << f->router_dialect))))
        i++;
    return i;
}

void control_handle(struct http_conn *c, const struct http_request *q, void *arg)
{
    size_t i = find_route(arg, q);
    if (i < ARRAY_SIZE(routes) && routes[i].whose == OURS)
        routes[i].handle(arg, c, q);
    else
        answer_error(c, 404, "not found");
}

void router_handle(struct http_conn *c, const struct http_request *q, void *arg)
{
    struct fleet *f = arg;
    size_t i = find_route(arg, q);
    bool ours = i < ARRAY_SIZE(routes) && routes[i].whose == OURS;
    if (!ours && f->router_fault && f->router_fault->answer)
        f->router_fault->answer(f, c);
    else if (i < ARRAY_SIZE(routes))
        routes[i].handle(f, c, q);
    else
        answer_error(c, 404, "not found");
}
