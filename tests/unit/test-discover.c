/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery from end to end, with a router and a worker in this process. */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/fleet.h"
#include "tests/unit/cmocka-all.h"
#include "tests/unit/patience.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <event2/buffer.h>
#include <event2/http.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define LIMIT_S 200

/* A mount whose server is gone: whoever looks at it waits until it is back. */
#define DEAD_MOUNT "/dead-mount"

static pthread_mutex_t mount = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint n_stuck;

int stat(const char *path, struct stat *ret)
{
    int (*real)(const char *, struct stat *) = NULL;

    if (starts_with(path, DEAD_MOUNT)) {
        atomic_fetch_add(&n_stuck, 1);
        pthread_mutex_lock(&mount);
        pthread_mutex_unlock(&mount);
    }
    *(void **)&real = dlsym(RTLD_NEXT, "stat");
    return real(path, ret);
}

static atomic_long clock_ahead_s;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    long r = syscall(SYS_clock_gettime, clock, ret);
    ret->tv_sec += atomic_load(&clock_ahead_s);
    return (int)r;
}

struct test {
    struct event_base *base;
    struct evhttp *http; /* router and vLLM worker at once */
    struct caller *caller;
    struct offload *offload;
    struct fleet_settings settings;
    struct fleet_finder *finder;
    struct fleet_query query;
    char *url, *list; /* what GET /workers answers */
    unsigned n_done, n_requests, n_unsafe;
    struct fleet *fleet;
    struct problem problem;
};

static void on_request(struct evhttp_request *q, void *arg)
{
    struct test *t = arg;
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(q));
    const struct {
        const char *path, *body;
    } answers[] = {
        {"/workers", t->list},
        {"/version", "{\"version\":\"0.19.1\"}"},
        {"/v1/models", "{\"data\":[{\"id\":\"m\",\"owned_by\":\"vllm\"}]}"},
        {"/openapi.json", "{\"paths\":{\"/start_profile\":{}}}"},
        {"/server_info", "{\"vllm_config\":{}}"},
        {"/is_sleeping", "{\"is_sleeping\":false}"},
    };
    struct evbuffer *body = evbuffer_new();
    int status = 404;

    t->n_requests++;
    if (evhttp_request_get_command(q) != EVHTTP_REQ_GET || strstr(path, "profile"))
        t->n_unsafe++;
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
        if (answers[i].body && streq(path, answers[i].path)) {
            status = 200;
            evbuffer_add_printf(body, "%s", answers[i].body);
        }
    evhttp_send_reply(q, status, NULL, body);
    evbuffer_free(body);
}

static void on_done(struct fleet *f, const struct problem *p, void *arg)
{
    struct test *t = arg;

    t->n_done++;
    t->fleet = f;
    assert_true((f == NULL) == (p != NULL));
    if (p) {
        problem_set(&t->problem, 0, p->kind, "%s", p->what);
        problem_remedy(&t->problem, "%s", p->remedy);
        assert_non_null(p->remedy);
    }
    event_base_loopbreak(t->base);
}

static int setup(void **state)
{
    struct test *t = xcalloc(1, sizeof(*t));
    struct sockaddr_in address;
    socklen_t size = sizeof(address);

    t->base = event_base_new();
    t->http = evhttp_new(t->base);
    evhttp_set_gencb(t->http, on_request, t);
    struct evhttp_bound_socket *bound = evhttp_bind_socket_with_handle(t->http, "127.0.0.1", 0);
    assert_int_equal(getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&address, &size), 0);
    t->url = xasprintf("http://127.0.0.1:%d", ntohs(address.sin_port));
    t->settings = (struct fleet_settings){
        .connect_timeout_ns = NS_PER_S, .identify_timeout_ns = 5 * NS_PER_S, .workers_max = 3};
    assert_int_equal(caller_new(t->base, &t->caller), 0);
    assert_int_equal(offload_new(t->base, 1, &t->offload), 0);
    assert_int_equal(fleet_finder_new(t->base, t->caller, t->offload, &t->settings, &t->finder), 0);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct test *t = *state;

    offload_free(t->offload);
    fleet_finder_free(t->finder);
    caller_free(t->caller);
    evhttp_free(t->http);
    event_base_free(t->base);
    fleet_settings_done(&t->settings);
    fleet_query_done(&t->query);
    fleet_free(t->fleet);
    problem_done(&t->problem);
    free(t->url);
    free(t->list);
    free(t);
    return 0;
}

static void add_string(char ***list, size_t *n, size_t *cap, const char *text)
{
    VEC_GROW(*list, *n, *cap);
    (*list)[(*n)++] = xstrdup(text);
}

static void add_worker(struct test *t, const char *url)
{
    size_t cap = t->query.n_workers; /* grows at each */
    add_string(&t->query.workers, &t->query.n_workers, &cap, url);
}

static struct fleet_config *add_fleet(struct test *t, const char *name)
{
    struct fleet_settings *s = &t->settings;
    VEC_GROW(s->fleets, s->n_fleets, s->cap_fleets);
    struct fleet_config *f = &s->fleets[s->n_fleets++];
    *f = (struct fleet_config){.name = xstrdup(name)};
    return f;
}

static void run(struct test *t)
{
    struct timeval limit = timeval_of(patience_ns(LIMIT_S * NS_PER_S));

    t->n_done = 0;
    fleet_free(TAKE_PTR(t->fleet));
    problem_done(&t->problem);
    assert_non_null(fleet_discover(t->finder, &t->query, on_done, t));
    assert_int_equal(t->n_done, 0);
    event_base_loopexit(t->base, &limit);
    event_base_dispatch(t->base);
    assert_int_equal(t->n_done, 1);
}

static void list_itself(struct test *t)
{
    t->list =
        xasprintf("{\"workers\":[{\"url\":\"%s/\",\"worker_type\":\"decode\",\"connection_mode\":\"Http\"},"
                  "{\"url\":\"grpc://127.0.0.1:9\",\"connection_mode\":\"Grpc\"}],\"stats\":{}}",
                  t->url);
}

static void expect_itself(struct test *t)
{
    assert_non_null(t->fleet);
    const struct worker *w = &t->fleet->workers[0];
    assert_string_equal(w->url, t->url);
    assert_int_equal(w->engine, ENGINE_VLLM);
    assert_true(w->profilable);
    assert_int_equal(w->sleeping, 0);
    assert_true(w->latency_ns > 0);
    assert_true(w->local);
    assert_int_equal(w->pid, getpid());
    assert_int_equal(t->n_unsafe, 0);
}

static void test_router(void **state)
{
    struct test *t = *state;

    list_itself(t);
    t->query.router = xasprintf("%s/", t->url);
    run(t);
    expect_itself(t);
    assert_string_equal(t->fleet->router, t->url);
    assert_string_equal(t->fleet->dialect, "vllm-router");
    assert_true(t->fleet->latency_ns > 0);
    assert_int_equal(t->fleet->n_workers, 2);
    assert_int_equal(t->fleet->workers[0].role, ROLE_DECODE);
    assert_false(t->fleet->workers[1].profilable);
    assert_non_null(strstr(t->fleet->workers[1].reason, "gRPC"));
}

static void test_static_list(void **state)
{
    struct test *t = *state;
    _cleanup_(freep) char *rank = xasprintf("%s@1", t->url);

    add_worker(t, t->url);
    add_worker(t, rank);
    t->query.trace_dir = xstrdup("/tmp");
    run(t);
    expect_itself(t);
    assert_int_equal(t->fleet->n_workers, 1);
    assert_string_equal(t->fleet->dialect, "static");
    assert_null(t->fleet->router);
    assert_string_equal(t->fleet->workers[0].location.local_dir, "/tmp");
    assert_string_equal(t->fleet->workers[0].location.found_by, "--trace-dir");
}

static void test_sections(void **state)
{
    struct test *t = *state;

    list_itself(t);
    add_fleet(t, "one")->router = xstrdup(t->url);
    run(t); /* the only one */
    expect_itself(t);
    assert_string_equal(t->fleet->name, "one");

    struct fleet_config *two = add_fleet(t, "two");
    add_string(&two->workers, &two->n_workers, &two->cap_workers, t->url);
    run(t);
    assert_null(t->fleet);
    assert_non_null(strstr(t->problem.remedy, "one, two"));
    t->query.fleet = xstrdup("two");
    run(t);
    expect_itself(t);
    assert_string_equal(t->fleet->dialect, "static");
    replace_str(&t->query.fleet, "three");
    run(t);
    assert_int_equal(t->problem.kind, PROBLEM_NOT_FOUND);
    /* A router that a section has is that section's. */
    replace_str(&t->query.fleet, NULL);
    t->query.router = xstrdup(t->url);
    run(t);
    assert_string_equal(t->fleet->name, "one");
}

static void test_router_log(void **state)
{
    struct test *t = *state;
    char path[] = "/tmp/discover-log-XXXXXX";
    int fd = mkstemp(path);

    list_itself(t);
    dprintf(fd, "Router launched at 127.0.0.1:1\nRouter launched at %s, Prometheus port: 1\n",
            t->url + strlen("http://"));
    add_fleet(t, "job")->router_log = xstrdup(path);
    run(t);
    expect_itself(t);
    assert_string_equal(t->fleet->router, t->url);
    assert_int_equal(ftruncate(fd, 0), 0);
    run(t);
    assert_null(t->fleet);
    assert_non_null(strstr(t->problem.what, path));
    close(fd);
    unlink(path);
}

static void expect_problem(struct test *t, enum problem_kind kind, const char *part)
{
    run(t);
    assert_null(t->fleet);
    assert_int_equal(t->problem.kind, kind);
    assert_non_null(strstr(t->problem.what, part));
}

static void test_problems(void **state)
{
    struct test *t = *state;

    expect_problem(t, PROBLEM_BAD_REQUEST, "no router, fleet or worker");
    t->query.router = xstrdup("ftp://x");
    expect_problem(t, PROBLEM_BAD_REQUEST, "neither http nor https");
    replace_str(&t->query.router, "grpc://x:1");
    expect_problem(t, PROBLEM_BAD_REQUEST, "neither http nor https");
    replace_str(&t->query.router, "http://127.0.0.1:1");
    expect_problem(t, PROBLEM_UPSTREAM, "cannot list workers of http://127.0.0.1:1: connection refused");
    assert_non_null(strstr(t->problem.remedy, "--router-log"));
    replace_str(&t->query.router, t->url);
    expect_problem(t, PROBLEM_UPSTREAM, "404 Not Found");
    assert_non_null(strstr(t->problem.remedy, "--worker"));
    replace_str(&t->list, "<html>");
    expect_problem(t, PROBLEM_UPSTREAM, "GET /workers answered HTML instead of JSON; GET /list_workers");
    replace_str(&t->list, "[]");
    expect_problem(t, PROBLEM_NO_WORKERS, "lists no workers");
    replace_str(&t->list, "[\"http://a:1\",\"http://b:1\",\"http://c:1\",\"http://d:1\"]");
    expect_problem(t, PROBLEM_TOO_MANY, "more than 3 workers");
    t->query.dialect = xstrdup("abacus");
    expect_problem(t, PROBLEM_BAD_REQUEST, "abacus");
    assert_non_null(strstr(t->problem.remedy, "vllm-router"));
    t->n_requests = 0;
    replace_str(&t->query.dialect, "lmdeploy");
    expect_problem(t, PROBLEM_UPSTREAM, "GET /nodes/status answered 404");
    assert_int_equal(t->n_requests, 1);
}

static void test_bad_worker_urls(void **state)
{
    struct test *t = *state;

    add_worker(t, "http://u:p@h:1");
    expect_problem(t, PROBLEM_BAD_REQUEST, "user name");
    replace_str(&t->query.workers[0], "http://127.0.0.1:1");
    run(t);
    assert_non_null(t->fleet);
    assert_string_equal(t->fleet->workers[0].reason, "does not answer: connection refused");
    for (int i = 0; i < 3; i++)
        add_worker(t, "http://127.0.0.1:1");
    expect_problem(t, PROBLEM_TOO_MANY, "4 workers are named");
}

static void test_credentials_file(void **state)
{
    struct test *t = *state;
    struct fleet_config *f = add_fleet(t, "locked");

    list_itself(t);
    f->router = xstrdup(t->url);
    f->credentials.token_file = xstrdup("/nonexistent/token");
    expect_problem(t, PROBLEM_UPSTREAM, "token_file /nonexistent/token");
    assert_int_equal(t->n_requests, 0);
}

/* At every turn of the loop: nothing is called back, nothing leaks. */
static void test_cancel(void **state)
{
    struct test *t = *state;

    list_itself(t);
    t->query.router = xstrdup(t->url);
    for (int turns = 0; turns < 40; turns += 3) {
        struct discovery *d = fleet_discover(t->finder, &t->query, on_done, t);
        struct timeval brief = {.tv_usec = 2000};
        for (int i = 0; i < turns && t->n_done == 0; i++) {
            event_base_loopexit(t->base, &brief);
            event_base_loop(t->base, EVLOOP_ONCE);
        }
        if (t->n_done > 0)
            break;
        discovery_cancel(d);
    }
    fleet_free(TAKE_PTR(t->fleet));
    t->n_done = 0;
    /* One more is left to fleet_finder_free(). */
    fleet_discover(t->finder, &t->query, on_done, t);
    event_base_loop(t->base, EVLOOP_ONCE);
    assert_int_equal(t->n_done, 0);
}

struct passing {
    unsigned n_stuck; /* time passes when so many are */
    bool is_over;
};

/* Once, when the fleet was asked all that it is asked. */
static void let_time_pass(evutil_socket_t fd, short what, void *arg)
{
    struct passing *p = arg;

    if (atomic_load(&n_stuck) < p->n_stuck || p->is_over)
        return;
    atomic_fetch_add(&clock_ahead_s, 61);
    p->is_over = true;
}

/* The requester is told whose directory it is, and other fleets are not held up. */
static void test_a_dead_mount(void **state)
{
    struct test *t = *state;
    const struct timeval interval = {.tv_usec = 200000};
    struct passing passing = {.n_stuck = 1};
    struct event *clock = event_new(t->base, -1, EV_PERSIST, let_time_pass, &passing);

    pthread_mutex_lock(&mount);
    event_add(clock, &interval);
    add_worker(t, t->url);
    t->query.trace_dir = xstrdup(DEAD_MOUNT "/traces");
    expect_problem(t, PROBLEM_UPSTREAM, "its file system gave no answer within 10 s");
    assert_non_null(strstr(t->problem.what, t->url));
    /* Who tries again holds another thread, and after that nobody. */
    passing = (struct passing){.n_stuck = 2};
    expect_problem(t, PROBLEM_UPSTREAM, "its file system gave no answer within 10 s");
    passing = (struct passing){.n_stuck = 2};
    expect_problem(t, PROBLEM_UPSTREAM, "nor the looks before this one");
    assert_int_equal(atomic_load(&n_stuck), 2);
    event_free(clock);
    replace_str(&t->query.workers[0], "http://127.0.0.1:1");
    replace_str(&t->query.trace_dir, "/tmp");
    run(t);
    assert_non_null(t->fleet);
    pthread_mutex_unlock(&mount);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_router),           TEST(test_static_list), TEST(test_sections),
        TEST(test_router_log),       TEST(test_problems),    TEST(test_bad_worker_urls),
        TEST(test_credentials_file), TEST(test_cancel),      TEST(test_a_dead_mount),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
