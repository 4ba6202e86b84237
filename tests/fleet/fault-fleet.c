/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/fault-fleet.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <sys/resource.h>

#define TEMPLATE_MAX      (1024L * 1024 * 1024)
#define FDS_PER_WORKER    2 /* its port, and a connection to it */
#define FDS_BESIDE        64
#define GARBAGE           "\x15\x03\x01 no HTTP, and no line that ends"
#define ITERATIONS_PER_S  100.0
#define UNHEALTHY_AFTER_S 20.0 /* SGLang's SGLANG_HEALTH_CHECK_TIMEOUT */
#define FLOOD_HEADER      "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
#define FLOOD_HEADER_LINE "x-filler: 0123456789abcdef0123456789abcdef0123456789abcdef\r\n"

/* ---- things that happen later ---- */

struct later {
    LIST_ENTRY(later) entry;
    struct worker *worker;
    struct http_conn *conn;
    struct event *timer;
    later_fn fn;
    void *arg;
    void (*drop)(void *arg);
};

static void later_free(struct later *l)
{
    LIST_REMOVE(l, entry);
    if (l->conn)
        http_watch(l->conn, NULL);
    event_free(l->timer);
    free(l);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct later l = *(struct later *)arg;
    later_free(arg);
    l.fn(l.worker, l.conn, l.arg);
}

void later(struct worker *w, struct http_conn *c, double seconds, later_fn fn, void *arg,
           void (*drop)(void *arg))
{
    struct later *l = xcalloc(1, sizeof(*l));
    *l = (struct later){.worker = w, .fn = fn, .arg = arg, .drop = drop};
    if (c)
        http_watch(c, &l->conn);
    LIST_INSERT_HEAD(&w->fleet->laters, l, entry);
    l->timer = evtimer_new(w->fleet->base, on_later, l);
    struct timeval delay = timeval_of((int64_t)(seconds * (double)NS_PER_S));
    event_add(l->timer, &delay);
}

static void laters_free(struct fleet *f)
{
    while (!LIST_EMPTY(&f->laters)) {
        struct later *l = LIST_FIRST(&f->laters);
        if (l->drop)
            l->drop(l->arg);
        later_free(l);
    }
}

/* ---- answers ---- */

void worker_answer(struct worker *w, struct http_conn *c, int status, const char *type, const char *text)
{
    http_answer(c,
                &(struct http_answer){
                    .status = status,
                    .type = type,
                    .body = text,
                    .body_size = strlen(text),
                    .drip = worker_has(w, FAULT_SLOW_BODY),
                    .cut = worker_has(w, FAULT_CUT_ANSWER),
                    .date_offset_s = worker_has(w, FAULT_CLOCK) ? (int64_t)w->faults.number[FAULT_CLOCK] : 0,
                });
}

void worker_answer_json(struct worker *w, struct http_conn *c, json_t *body)
{
    _cleanup_(freep) char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    worker_answer(w, c, 200, "application/json", text);
}

void plain_answer_json(struct http_conn *c, int status, json_t *body)
{
    _cleanup_(freep) char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    http_answer(c,
                &(struct http_answer){
                    .status = status, .type = "application/json", .body = text, .body_size = strlen(text)});
}

double worker_iterations(struct worker *w)
{
    int64_t now = mono_ns();
    bool steps = w->n_flushes == 0 && !worker_has(w, FAULT_IDLE) && !worker_has(w, FAULT_SLEEPING);
    if (steps)
        w->iterations += (double)(now - w->iterations_at_ns) / (double)NS_PER_S * ITERATIONS_PER_S;
    w->iterations_at_ns = now;
    return w->iterations;
}

double worker_busy_seconds(const struct worker *w)
{
    return MAX(0.0, (double)(w->busy_until_ns - mono_ns()) / (double)NS_PER_S);
}

void worker_die(struct worker *w)
{
    w->dead = true;
    w->recording = recording_free(w->recording);
    event_del(w->auto_stop);
    http_port_refuse(w->port, NULL);
}

static void answer_health(struct worker *w, struct http_conn *c, void *arg)
{
    bool ill = worker_has(w, FAULT_UNHEALTHY) || (w->fleet->engine->health_waits && w->n_flushes > 0);
    if (c)
        worker_answer(w, c, ill ? 503 : 200, NULL, "");
}

void worker_health(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    double delay_s = worker_has(w, FAULT_SLOW_HEALTH) ? w->faults.number[FAULT_SLOW_HEALTH] : 0;
    if (w->fleet->engine->health_waits)
        delay_s += MIN(worker_busy_seconds(w), UNHEALTHY_AFTER_S);
    if (delay_s > 0)
        later(w, c, delay_s, answer_health, NULL, NULL);
    else
        answer_health(w, c, NULL);
}

/* ---- what was asked ---- */

static void journal_entry_done(struct journal_entry *e)
{
    free(e->path);
    free(e->body);
}

static void journal_add(struct worker *w, const struct http_request *q)
{
    if (w->n_journal == JOURNAL_MAX) {
        journal_entry_done(&w->journal[0]);
        memmove(w->journal, w->journal + 1, --w->n_journal * sizeof(*w->journal));
    }
    VEC_GROW(w->journal, w->n_journal, w->cap_journal);
    w->journal[w->n_journal++] = (struct journal_entry){
        .path = xstrdup(q->path),
        .body = xstrndup(q->body, MIN(q->body_size, JOURNAL_BODY_MAX)),
        .at_ns = wall_ns(),
    };
}

json_t *worker_journal(const struct worker *w)
{
    json_t *requests = json_array();
    for (size_t i = 0; i < w->n_journal; i++) {
        const struct journal_entry *e = &w->journal[i];
        json_array_append_new(requests, json_pack("{s:o, s:I, s:o}", "path", json_text(e->path), "at_ns",
                                                  (json_int_t)e->at_ns, "body", json_text(e->body)));
    }
    return json_pack("{s:o, s:b, s:i, s:i, s:b}", "requests", requests, "profiling", w->recording != NULL,
                     "starts", (int)w->n_starts, "stops", (int)w->n_stops, "dead", w->dead);
}

/* ---- faults ---- */

/* The faults that are over when they have happened. */
static bool happen(struct worker *w, enum fault fault)
{
    switch (fault) {
    case FAULT_DIE:
        worker_die(w);
        return true;
    case FAULT_RELAUNCH:
        w->dead = false;
        return true;
    case FAULT_HANG_UP:
        http_port_hang_up(w->port);
        return true;
    default:
        return false;
    }
}

static int apply(struct worker *w, const struct fault_spec *spec)
{
    worker_iterations(w);
    if (!happen(w, spec->fault))
        fault_set_add(&w->faults, spec);
    bool open = !w->dead && !worker_has(w, FAULT_START_REFUSED);
    return open ? http_port_listen(w->port) : 0;
}

int fleet_add_fault(struct fleet *f, const struct fault_spec *spec)
{
    _cleanup_(freep) bool *chosen = xcalloc(f->n_workers, sizeof(*chosen));
    if (!spec->indexes)
        memset(chosen, true, f->n_workers);
    int r = spec->indexes ? indexes_parse(spec->indexes, chosen, f->n_workers) : 0;
    for (unsigned i = 0; i < f->n_workers && r == 0; i++)
        if (chosen[i])
            r = apply(&f->workers[i], spec);
    return r;
}

int fleet_change_faults(struct fleet *f, const char *indexes, const struct http_request *q)
{
    char error[200];
    _cleanup_json_ body = json_parse(q->body, q->body_size, error);
    const char *name = json_get_str(body, "fault");
    const json_t *arg = json_object_get(body, "arg");
    _cleanup_(freep) char *text = !arg || json_is_null(arg) ? NULL
                                  : json_is_string(arg)     ? xstrdup(json_string_value(arg))
                                                            : json_dumps(arg, JSON_ENCODE_ANY);
    _cleanup_(fault_spec_done) struct fault_spec spec = {};
    int r = name ? fault_spec_make(name, text, &spec) : -EINVAL;
    if (r < 0)
        return r;
    spec.indexes = xstrdup(indexes ? indexes : json_get_str(body, "workers"));
    return fleet_add_fault(f, &spec);
}

static bool is_get(const struct http_request *q)
{
    return streq(q->method, "GET") || streq(q->method, "HEAD");
}

static void gate_auth(struct worker *w, struct http_conn *c)
{
    worker_answer(w, c, 401, "application/json", "{\"error\":\"Unauthorized\"}");
}

static void gate_status(struct worker *w, struct http_conn *c)
{
    worker_answer(w, c, (int)w->faults.number[FAULT_STATUS], "text/plain", "said by who stands in front\n");
}

static void gate_garbage(struct worker *w, struct http_conn *c)
{
    http_raw(c, GARBAGE);
}

static void gate_redirect(struct worker *w, struct http_conn *c)
{
    _cleanup_(freep) char *router = http_port_url(w->fleet->router);
    _cleanup_(freep) char *where = xasprintf("location: %s/redirected\r\n", router);
    http_answer(c, &(struct http_answer){.status = 302, .headers = where, .body = ""});
}

static void gate_endless_header(struct worker *w, struct http_conn *c)
{
    http_flood(c, FLOOD_HEADER, FLOOD_HEADER_LINE);
}

static void gate_endless_body(struct worker *w, struct http_conn *c)
{
    http_flood(c, FLOOD_HEADER "connection: close\r\n\r\n{\"version\":[", "\"0.0.0\",");
}

static void gate_html(struct worker *w, struct http_conn *c)
{
    worker_answer(w, c, 200, "text/html",
                  "<!DOCTYPE html><html><head><title>Welcome</title></head><body>It works!</body></html>");
}

static void gate_wrong_json(struct worker *w, struct http_conn *c)
{
    worker_answer(w, c, 200, "application/json",
                  "{\"version\":{\"major\":1},\"tp_size\":\"four\",\"paths\":[],\"vllm_config\":7}");
}

/* What can stand before every route, in this order. */
static const struct {
    enum fault fault;
    bool gets_only;
    void (*answer)(struct worker *w, struct http_conn *c);
} gates[] = {
    {FAULT_STATUS, false, gate_status},
    {FAULT_GARBAGE, false, gate_garbage},
    {FAULT_AUTH, false, gate_auth},
    {FAULT_REDIRECT, false, gate_redirect},
    {FAULT_ENDLESS_HEADER, true, gate_endless_header},
    {FAULT_ENDLESS_BODY, true, gate_endless_body},
    {FAULT_HTML, true, gate_html},
    {FAULT_WRONG_JSON, true, gate_wrong_json},
};

static bool gate_open(const struct worker *w, const struct http_request *q, size_t i)
{
    if (!worker_has(w, gates[i].fault) || (gates[i].gets_only && !is_get(q)))
        return true;
    if (gates[i].fault != FAULT_AUTH)
        return false;
    return starts_with(q->path, "/health") || starts_with(q->path, "/metrics") ||
           streq(q->bearer, w->faults.token);
}

/* ---- a worker's requests ---- */

/* The tests' own fake, which no fault closes. */
static bool handle_control(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (streq(q->path, "/journal")) {
        plain_answer_json(c, 200, worker_journal(w));
        return true;
    }
    if (!streq(q->path, "/fault"))
        return false;
    char index[16];
    snprintf(index, sizeof(index), "%u", w->index);
    int r = streq(q->method, "POST") ? fleet_change_faults(w->fleet, index, q) : -EINVAL;
    plain_answer_json(c, r < 0 ? 400 : 200, json_pack("{s:s}", "fault", r < 0 ? strerror(-r) : "ok"));
    return true;
}

static void count(struct worker *w, const struct http_request *q)
{
    w->n_starts += ends_with(q->path, "/start_profile");
    w->n_stops += ends_with(q->path, "/stop_profile");
}

static void handle(struct http_conn *c, const struct http_request *q, void *arg)
{
    struct worker *w = arg;
    if (handle_control(w, c, q))
        return;
    journal_add(w, q);
    for (size_t i = 0; i < ARRAY_SIZE(gates); i++)
        if (!gate_open(w, q, i)) {
            gates[i].answer(w, c);
            return;
        }

    const struct engine_ops *e = w->fleet->engine;
    const char *method = is_get(q) ? "GET" : q->method;
    for (size_t i = 0; i < e->n_routes; i++) {
        if (!streq(e->routes[i].path, q->path))
            continue;
        if (!strstr(e->routes[i].methods, method)) {
            worker_answer(w, c, 405, "application/json", "{\"detail\":\"Method Not Allowed\"}");
            return;
        }
        count(w, q);
        e->routes[i].handle(w, c, q);
        return;
    }
    if (e->missing)
        e->missing(w, c, q);
    else
        worker_answer(w, c, 404, "application/json", e->not_found);
}

/* ---- the fleet ---- */

static void on_auto_stop(evutil_socket_t fd, short what, void *arg)
{
    profile_stop(arg, NULL, 200);
}

/* Every worker has a port, and a client that fans out a connection to each. */
static int raise_fd_limit(unsigned n_workers)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -errno;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -errno;
    return limit.rlim_cur < (rlim_t)n_workers * FDS_PER_WORKER + FDS_BESIDE ? -EMFILE : 0;
}

static int worker_init(struct worker *w, struct fleet *f, unsigned index, const struct fleet_options *o)
{
    *w = (struct worker){.fleet = f, .index = index, .iterations_at_ns = mono_ns()};
    w->role = index < o->n_prefill                 ? ROLE_PREFILL
              : index < o->n_prefill + o->n_decode ? ROLE_DECODE
                                                   : ROLE_REGULAR;
    w->dir = f->shared_dir ? xstrdup(f->dir) : xasprintf("%s/w%u", f->dir, index);
    w->auto_stop = evtimer_new(f->base, on_auto_stop, w);
    return http_port_new(f->base, o->address, handle, w, &w->port);
}

static void worker_done(struct worker *w)
{
    http_port_free(w->port);
    recording_free(w->recording);
    fault_set_clear(&w->faults);
    for (size_t i = 0; i < w->n_journal; i++)
        journal_entry_done(&w->journal[i]);
    free(w->journal);
    if (w->auto_stop)
        event_free(w->auto_stop);
    free(w->dir);
}

int fleet_new(struct event_base *base, const struct fleet_options *o, struct fleet **ret)
{
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    *f = (struct fleet){
        .base = base,
        .engine = o->engine,
        .router_dialect = o->router_dialect,
        .shared_dir = o->shared_dir,
        .dir = realpath(o->dir, NULL),
        .n_ranks = o->n_ranks,
        .n_nodes = o->n_nodes,
        .meet = o->meet,
    };
    LIST_INIT(&f->laters);
    if (!f->dir)
        return -errno;
    int r = raise_fd_limit(o->n_workers);
    if (r == 0 && o->trace)
        r = read_file(AT_FDCWD, o->trace, TEMPLATE_MAX, &f->template, &f->template_size);
    if (r >= 0)
        r = http_port_new(base, o->address, router_handle, f, &f->router);
    if (r >= 0)
        r = http_port_new(base, o->address, control_handle, f, &f->control);
    if (r < 0)
        return r;

    f->workers = xcalloc(o->n_workers, sizeof(*f->workers));
    for (unsigned i = 0; i < o->n_workers; i++) {
        f->n_workers++;
        r = worker_init(&f->workers[i], f, i, o);
        if (r < 0)
            return r;
    }
    *ret = TAKE_PTR(f);
    return 0;
}

struct fleet *fleet_free(struct fleet *f)
{
    if (!f)
        return NULL;
    laters_free(f);
    for (unsigned i = 0; i < f->n_workers; i++)
        worker_done(&f->workers[i]);
    http_port_free(f->router);
    http_port_free(f->control);
    free(f->workers);
    free(f->template);
    free(f->dir);
    free(f);
    return NULL;
}

char *worker_url(const struct worker *w)
{
    return http_port_url(w->port);
}

int64_t fleet_stamp_ns(struct fleet *f)
{
    f->last_stamp_ns = MAX(wall_ns(), f->last_stamp_ns + 1);
    return f->last_stamp_ns;
}
