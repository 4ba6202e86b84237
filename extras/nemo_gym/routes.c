/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of servers that count them: what a session kept, and what they have counted until this moment,
 * for which each server is asked.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/api/handler.h"
#include "daemon/catalog/records.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/names.h"
#include "daemon/fleet/url.h"
#include "daemon/session/sessions.h"
#include "extras/nemo_gym/engine.h"
#include "extras/nemo_gym/snapshot.h"
#include <errno.h>
#include <inttypes.h>

/* Servers of one question, and how long each may take to write its files. */
#define SERVERS_MAX    64
#define ANSWER_MAX_NS  (60 * NS_PER_S)
#define FAILURE_LENGTH 400
/* Memory for the functions of one reply, and what one takes without its texts. */
#define REPLY_BYTES_MAX ((size_t)64 << 20)
#define FUNCTION_BYTES  1000

/* -- What a session kept -- */

static void get_session_functions(struct api *api, struct http_request *r, const struct route_match *match)
{
    struct catalog *catalog = api->modules.catalog;
    _cleanup_(session_record_done) struct session_record record;
    json_t *functions = NULL;

    session_record_init(&record);
    int err = catalog_get_session(catalog, match->id, &record);
    if (err == 0)
        err = catalog_functions_json(catalog, match->id, http_query_get(r, "worker"), &functions);
    if (err < 0) {
        if (err == -ENOENT)
            reply_missing(r, 's', match->id);
        else
            reply_error(api, r, err, "read the functions");
        return;
    }
    _cleanup_(freep) char *name = xasprintf("s%" PRId64, match->id);
    json_t *body = json_object();
    json_put_str(body, "session", name);
    json_object_set_new(body, "functions", functions);
    http_reply_json(r, 200, body);
}

/* -- What servers have counted so far -- */

struct functions_query;

struct queried_server {
    struct functions_query *query;
    const struct worker *worker;
    struct call *call;
    bool reading; /* its answer, on a thread */
};

struct functions_query {
    struct api *api;
    struct http_request *request; /* NULL: the client left */
    struct fleet *fleet;
    struct queried_server servers[SERVERS_MAX];
    size_t n, n_left, n_answered;
    json_t *results, *functions; /* of the answer */
    size_t bytes;                /* of these functions */
    struct problem problem;      /* of the first that failed */
};

static void functions_query_free(struct functions_query *q)
{
    fleet_free(q->fleet);
    json_decref(q->results);
    json_decref(q->functions);
    problem_done(&q->problem);
    free(q);
}

static bool functions_query_is_busy(const struct functions_query *q)
{
    for (size_t i = 0; i < q->n; i++)
        if (q->servers[i].call || q->servers[i].reading)
            return true;
    return false;
}

static void functions_query_reply(struct functions_query *q)
{
    http_on_close(q->request, NULL, NULL);
    if (q->n_answered == 0) {
        http_reply_problem(q->request, &q->problem);
    } else {
        json_t *body = json_object();
        json_object_set(body, "servers", q->results);
        json_object_set(body, "functions", q->functions);
        http_reply_json(q->request, 200, body);
    }
    functions_query_free(q);
}

/* Adds the result of one server. The result of the last server completes the response. */
static void queried_server_end(struct queried_server *s, json_t *result)
{
    struct functions_query *q = s->query;

    json_put_str(result, "worker", s->worker->url);
    json_put_str(result, "name", s->worker->model);
    json_array_append_new(q->results, result);
    if (--q->n_left == 0)
        functions_query_reply(q);
}

static void queried_server_fail(struct queried_server *s, const struct problem *p)
{
    json_t *result = json_object();

    json_put_str(result, "reason", p->what);
    json_put_str(result, "remedy", p->remedy);
    problem_set(&s->query->problem, -EREMOTEIO, p->kind, "%s: %s", s->worker->url, p->what);
    if (p->remedy && !s->query->problem.remedy)
        problem_remedy(&s->query->problem, "%s", p->remedy);
    queried_server_end(s, result);
}

/* False where the reply is full. */
static bool functions_query_add(struct functions_query *q, const struct worker *w, const struct function *f)
{
    size_t bytes = FUNCTION_BYTES + strlen(f->name) + strlen(f->file);

    if (q->bytes + bytes > REPLY_BYTES_MAX)
        return false;
    q->bytes += bytes;
    json_t *j = json_object();

    json_put_str(j, "worker", w->url);
    json_object_set_new(j, "name", json_text(f->name));
    if (f->file[0])
        json_object_set_new(j, "file", json_text(f->file));
    if (f->line > 0)
        json_put_int(j, "line", f->line);
    json_put_int(j, "calls", f->calls);
    json_put_int(j, "tsub_ns", MAX(f->tsub_ns, INT64_C(0)));
    json_put_int(j, "ttot_ns", MAX(f->ttot_ns, INT64_C(0)));
    json_put_int(j, "tavg_ns", function_average_ns(f));
    json_array_append_new(q->functions, j);
    return true;
}

static void queried_server_on_snapshot(struct snapshot *snapshot, void *arg)
{
    struct queried_server *s = arg;
    struct functions_query *q = s->query;
    const struct function_list *l = snapshot->list;

    s->reading = false;
    if (!q->request) {
        if (!functions_query_is_busy(q))
            functions_query_free(q);
        return;
    }
    if (!l) {
        queried_server_fail(s, snapshot->problem);
        return;
    }
    json_t *result = json_object();
    json_object_set_new(result, "source", json_text(snapshot->source));
    json_put_str(result, "clock", function_clock_name(l->clock));
    if (l->pid > 0)
        json_put_int(result, "pid", l->pid);
    size_t n = 0;
    while (n < l->n && functions_query_add(q, s->worker, &l->items[n]))
        n++;
    json_put_int(result, "unreadable", (int64_t)(l->n_unreadable + l->n - n));
    q->n_answered++;
    queried_server_end(s, result);
}

static void queried_server_on_stats(const struct call_result *r, void *arg)
{
    struct queried_server *s = arg;
    _cleanup_(problem_done) struct problem p = {0};
    char text[FAILURE_LENGTH];

    s->call = NULL;
    if (r->err == 0 && r->status / 100 == 2) {
        s->reading = true;
        snapshot_read(s->query->api->modules.offload, s->worker, r, call_sent_at(r),
                      queried_server_on_snapshot, s);
        return;
    }
    if (r->err == 0)
        engine_explain_start(worker_ops(s->worker), s->worker, r->status, r->body, &p);
    else
        problem_set(&p, r->err, PROBLEM_UPSTREAM, "GET " SNAPSHOT_PATH ": %s",
                    call_result_text(r, text, sizeof(text)));
    queried_server_fail(s, &p);
}

static void functions_query_on_close(struct http_request *r, void *arg)
{
    struct functions_query *q = arg;

    (void)r;
    q->request = NULL;
    for (size_t i = 0; i < q->n; i++) {
        if (q->servers[i].call)
            call_cancel(q->servers[i].call);
        q->servers[i].call = NULL;
    }
    if (!functions_query_is_busy(q))
        functions_query_free(q);
}

static void queried_server_ask(struct queried_server *s)
{
    struct api *api = s->query->api;
    const struct fleet_settings *settings = api->modules.fleet_settings;
    _cleanup_(freep) char *url = url_join(s->worker->url, SNAPSHOT_PATH);
    const struct call_request request = {
        .method = "GET",
        .url = url,
        .credentials = settings_credentials(settings, s->query->fleet->name, s->worker->url),
        .admin = true,
        .connect_timeout_ns = settings->connect_timeout_ns,
        .deadline_ns = mono_ns() + ANSWER_MAX_NS,
        .answer_max = SNAPSHOT_BYTES_MAX,
        .account = names_origin(s->query->servers[0].worker->url),
    };
    s->call = call_start(api->modules.caller, &request, queried_server_on_stats, s);
}

static bool worker_counts_functions(const struct worker *w)
{
    return w->profilable && w->engine == ENGINE_NEMO_GYM;
}

/* Why there is nothing to ask: the worker's own reason, where it is one that could count. */
static void functions_refuse(struct http_request *r, const struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->n_workers; i++) {
        const struct worker *w = &fleet->workers[i];
        if (w->profilable || !w->reason)
            continue;
        reply_refused(r, PROBLEM_NO_WORKERS, w->remedy, "%s %s", w->url, w->reason);
        return;
    }
    reply_refused(r, PROBLEM_NO_WORKERS,
                  "Servers of NeMo Gym do, with +profiling_enabled=true; profctl start records the others.",
                  "none of these workers counts its functions");
}

static void functions_on_fleet(struct api *api, struct http_request *r, struct fleet *fleet,
                               const struct problem *p)
{
    struct functions_query *q;

    if (!fleet) {
        http_reply_problem(r, p);
        return;
    }
    q = xcalloc(1, sizeof(*q));
    *q = (struct functions_query){
        .api = api, .request = r, .fleet = fleet, .results = json_array(), .functions = json_array()};
    for (size_t i = 0; i < fleet->n_workers && q->n < SERVERS_MAX; i++)
        if (worker_counts_functions(&fleet->workers[i]))
            q->servers[q->n++] = (struct queried_server){.query = q, .worker = &fleet->workers[i]};
    q->n_left = q->n;
    if (q->n == 0) {
        functions_refuse(r, fleet);
        functions_query_free(q);
        return;
    }
    http_on_close(r, functions_query_on_close, q);
    for (size_t i = 0; i < q->n; i++)
        queried_server_ask(&q->servers[i]);
}

static void get_functions(struct api *api, struct http_request *r, const struct route_match *match)
{
    discover_for(api, r, functions_on_fleet, NULL);
}

/* clang-format off */
const struct route extra_routes[] = {
    {HTTP_GET, "/v1/functions",                    RIGHT_READ, ROUTE_SOURCE, get_functions, ROUTE_OPERATED},
    {HTTP_GET, "/v1/sessions/{session}/functions", RIGHT_READ, "worker",     get_session_functions},
};
/* clang-format on */
const size_t n_extra_routes = ARRAY_SIZE(extra_routes);
