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

struct asking;

struct server {
    struct asking *asking;
    const struct worker *worker;
    struct call *call;
    bool reading; /* its answer, on a thread */
};

struct asking {
    struct api *api;
    struct http_request *request; /* NULL: the client left */
    struct fleet *fleet;
    struct server servers[SERVERS_MAX];
    size_t n, n_left, n_answered;
    json_t *said, *functions; /* of the answer */
    size_t bytes;             /* of these functions */
    struct problem problem;   /* of the first that failed */
};

static void asking_free(struct asking *q)
{
    fleet_free(q->fleet);
    json_decref(q->said);
    json_decref(q->functions);
    problem_done(&q->problem);
    free(q);
}

static bool anything_under_way(const struct asking *q)
{
    for (size_t i = 0; i < q->n; i++)
        if (q->servers[i].call || q->servers[i].reading)
            return true;
    return false;
}

static void reply(struct asking *q)
{
    http_on_close(q->request, NULL, NULL);
    if (q->n_answered == 0) {
        http_reply_problem(q->request, &q->problem);
    } else {
        json_t *body = json_object();
        json_object_set(body, "servers", q->said);
        json_object_set(body, "functions", q->functions);
        http_reply_json(q->request, 200, body);
    }
    asking_free(q);
}

/* Adds the result of one server. The result of the last server completes the response. */
static void settle(struct server *s, json_t *said)
{
    struct asking *q = s->asking;

    json_put_str(said, "worker", s->worker->url);
    json_put_str(said, "name", s->worker->model);
    json_array_append_new(q->said, said);
    if (--q->n_left == 0)
        reply(q);
}

static void fail(struct server *s, const struct problem *p)
{
    json_t *said = json_object();

    json_put_str(said, "reason", p->what);
    json_put_str(said, "remedy", p->remedy);
    problem_set(&s->asking->problem, -EREMOTEIO, p->kind, "%s: %s", s->worker->url, p->what);
    if (p->remedy && !s->asking->problem.remedy)
        problem_remedy(&s->asking->problem, "%s", p->remedy);
    settle(s, said);
}

/* False where the reply is full. */
static bool add_function(struct asking *q, const struct worker *w, const struct function *f)
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

static void on_snapshot(struct snapshot *snapshot, void *arg)
{
    struct server *s = arg;
    struct asking *q = s->asking;
    const struct function_list *l = snapshot->list;

    s->reading = false;
    if (!q->request) {
        if (!anything_under_way(q))
            asking_free(q);
        return;
    }
    if (!l) {
        fail(s, snapshot->problem);
        return;
    }
    json_t *said = json_object();
    json_object_set_new(said, "source", json_text(snapshot->source));
    json_put_str(said, "clock", function_clock_name(l->clock));
    if (l->pid > 0)
        json_put_int(said, "pid", l->pid);
    size_t n = 0;
    while (n < l->n && add_function(q, s->worker, &l->items[n]))
        n++;
    json_put_int(said, "unreadable", (int64_t)(l->n_unreadable + l->n - n));
    q->n_answered++;
    settle(s, said);
}

static void on_stats(const struct call_result *r, void *arg)
{
    struct server *s = arg;
    _cleanup_(problem_done) struct problem p = {0};
    char text[FAILURE_LENGTH];

    s->call = NULL;
    if (r->err == 0 && r->status / 100 == 2) {
        s->reading = true;
        snapshot_read(s->asking->api->modules.offload, s->worker, r, call_sent_at(r), on_snapshot, s);
        return;
    }
    if (r->err == 0)
        engine_explain_start(worker_ops(s->worker), s->worker, r->status, r->body, &p);
    else
        problem_set(&p, r->err, PROBLEM_UPSTREAM, "GET " SNAPSHOT_PATH ": %s",
                    call_result_text(r, text, sizeof(text)));
    fail(s, &p);
}

static void on_client_left(struct http_request *r, void *arg)
{
    struct asking *q = arg;

    (void)r;
    q->request = NULL;
    for (size_t i = 0; i < q->n; i++) {
        if (q->servers[i].call)
            call_cancel(q->servers[i].call);
        q->servers[i].call = NULL;
    }
    if (!anything_under_way(q))
        asking_free(q);
}

static void ask(struct server *s)
{
    struct api *api = s->asking->api;
    const struct fleet_settings *settings = api->modules.fleet_settings;
    _cleanup_(freep) char *url = url_join(s->worker->url, SNAPSHOT_PATH);
    const struct call_request request = {
        .method = "GET",
        .url = url,
        .credentials = settings_credentials(settings, s->asking->fleet->name, s->worker->url),
        .admin = true,
        .connect_timeout_ns = settings->connect_timeout_ns,
        .deadline_ns = mono_ns() + ANSWER_MAX_NS,
        .answer_max = SNAPSHOT_BYTES_MAX,
        .account = names_origin(s->asking->servers[0].worker->url),
    };
    s->call = call_start(api->modules.caller, &request, on_stats, s);
}

static bool counts(const struct worker *w)
{
    return w->profilable && w->engine == ENGINE_NEMO_GYM;
}

/* Why there is nothing to ask: the worker's own reason, where it is one that could count. */
static void refuse(struct http_request *r, const struct fleet *fleet)
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

static void on_fleet(struct api *api, struct http_request *r, struct fleet *fleet, const struct problem *p)
{
    struct asking *q;

    if (!fleet) {
        http_reply_problem(r, p);
        return;
    }
    q = xcalloc(1, sizeof(*q));
    *q = (struct asking){
        .api = api, .request = r, .fleet = fleet, .said = json_array(), .functions = json_array()};
    for (size_t i = 0; i < fleet->n_workers && q->n < SERVERS_MAX; i++)
        if (counts(&fleet->workers[i]))
            q->servers[q->n++] = (struct server){.asking = q, .worker = &fleet->workers[i]};
    q->n_left = q->n;
    if (q->n == 0) {
        refuse(r, fleet);
        asking_free(q);
        return;
    }
    http_on_close(r, on_client_left, q);
    for (size_t i = 0; i < q->n; i++)
        ask(&q->servers[i]);
}

static void get_functions(struct api *api, struct http_request *r, const struct route_match *match)
{
    (void)match->id;
    discover_for(api, r, on_fleet);
}

/* clang-format off */
const struct route extra_routes[] = {
    {HTTP_GET, "/v1/functions",                    RIGHT_READ, ROUTE_SOURCE, get_functions, ROUTE_OPERATED},
    {HTTP_GET, "/v1/sessions/{session}/functions", RIGHT_READ, "worker",     get_session_functions},
};
/* clang-format on */
const size_t n_extra_routes = ARRAY_SIZE(extra_routes);
