/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to a small server in this process, on the same loop. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/fleet/call.h"
#include "daemon/fleet/names.h"
#include "tests/unit/cmocka-all.h"
#include "tests/unit/patience.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define LIMIT_S 10

struct outcome {
    struct event_base *base;
    unsigned n_done, wanted;
    struct call_result result; /* of the last one */
    char body[4096], error[512];
};

struct test {
    struct event_base *base;
    struct caller *caller;
    struct evhttp *http;
    struct evconnlistener *raw;        /* answers with raw_answer, then closes (or not) */
    const char *raw_answer, *raw_more; /* first, and then for ever */
    unsigned n_raw_requests;
    bool raw_keeps_open;
    int port, raw_port;
    struct outcome outcome;
};

/* What is sent for ever goes out in stretches of this: a slow machine is to reach a limit before a deadline.
 */
#define RAW_STRETCH 16384

/* Names below slow.invalid are those of a name server that does not answer; brief.invalid: that soon says no;
 * known.invalid: that answers, until it is silenced. */
#define SLOW_NAME_S  20
#define BRIEF_NAME_S 0.06

static atomic_int n_slow_names, n_known_names; /* that were asked for */
static atomic_bool is_silent;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;

    if (ends_with(name, ".slow.invalid")) {
        atomic_fetch_add(&n_slow_names, 1);
        sleep(SLOW_NAME_S);
        return EAI_AGAIN;
    }
    if (ends_with(name, ".brief.invalid")) {
        usleep((useconds_t)(BRIEF_NAME_S * 1e6));
        return EAI_NONAME;
    }
    if (ends_with(name, ".none.invalid"))
        return EAI_NONAME;
    if (strstr(name, ".known.invalid")) {
        atomic_fetch_add(&n_known_names, 1);
        if (atomic_load(&is_silent))
            return EAI_AGAIN;
        name = "127.0.0.1";
    }
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(name, service, hints, ret);
}

/* A thread that is put aside just behind its lock. */
static _Thread_local double rest_after_unlock_s;

int pthread_mutex_unlock(pthread_mutex_t *lock)
{
    int (*real)(pthread_mutex_t *) = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    int r = real(lock);
    usleep((useconds_t)(rest_after_unlock_s * 1e6));
    return r;
}

/* What libcurl says that it has room for. */
static size_t longest_receive;

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    longest_receive = MAX(longest_receive, size);
    return recvfrom(fd, buffer, size, flags, NULL, NULL);
}

static int64_t clock_ahead_s;

#define LONG_S 3600

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    long r = syscall(SYS_clock_gettime, clock, ret);
    ret->tv_sec += clock_ahead_s;
    return (int)r;
}

static void on_done(const struct call_result *r, void *arg)
{
    struct outcome *o = arg;
    o->result = *r;
    snprintf(o->body, sizeof(o->body), "%s", r->body);
    snprintf(o->error, sizeof(o->error), "%s", r->error ? r->error : "");
    if (++o->n_done == o->wanted)
        event_base_loopbreak(o->base);
}

static void on_request(struct evhttp_request *q, void *arg)
{
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(q));
    struct evkeyvalq *in = evhttp_request_get_input_headers(q), *out = evhttp_request_get_output_headers(q);
    struct evbuffer *body = evbuffer_new(), *sent = evhttp_request_get_input_buffer(q);
    int status = 200;

    if (streq(path, "/redirect")) {
        status = 302;
        evhttp_add_header(out, "Location", "/hello");
    } else if (streq(path, "/missing")) {
        status = 404;
        evbuffer_add_printf(body, "{\"error\":\n  \"no such \x01thing\"}");
    } else if (streq(path, "/date")) {
        evhttp_add_header(out, "Date", "Thu, 20 Nov 2025 14:02:11 GMT");
    } else if (streq(path, "/big")) {
        for (int i = 0; i < 5000; i++)
            evbuffer_add_printf(body, "0123456789");
    } else if (streq(path, "/echo")) {
        const char *keys[] = {"Content-Length", "Content-Type", "Authorization", "Expect"};
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
            const char *value = evhttp_find_header(in, keys[i]);
            evbuffer_add_printf(body, "%s=%s;", keys[i], value ? value : "-");
        }
        evbuffer_add_buffer(body, sent);
    } else {
        evbuffer_add_printf(body, "hello");
    }
    if (!streq(path, "/never"))
        evhttp_send_reply(q, status, NULL, body);
    evbuffer_free(body);
}

static void raw_write(struct bufferevent *bev, void *arg)
{
    struct test *t = arg;
    if (t->raw_more)
        while (evbuffer_get_length(bufferevent_get_output(bev)) < RAW_STRETCH)
            bufferevent_write(bev, t->raw_more, strlen(t->raw_more));
    else if (!t->raw_keeps_open)
        bufferevent_free(bev);
}

static void raw_read(struct bufferevent *bev, void *arg)
{
    struct test *t = arg;
    struct evbuffer *in = bufferevent_get_input(bev);

    evbuffer_drain(in, evbuffer_get_length(in));
    t->n_raw_requests++;
    if (!t->raw_answer[0]) {
        bufferevent_free(bev);
        return;
    }
    bufferevent_write(bev, t->raw_answer, strlen(t->raw_answer));
    bufferevent_enable(bev, EV_WRITE);
}

static void raw_event(struct bufferevent *bev, short what, void *arg)
{
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        bufferevent_free(bev);
}

static void on_raw(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *address, int size,
                   void *arg)
{
    struct test *t = arg;
    struct bufferevent *bev = bufferevent_socket_new(t->base, fd, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(bev, raw_read, raw_write, raw_event, t);
    bufferevent_disable(bev, EV_WRITE);
    bufferevent_enable(bev, EV_READ);
}

static int port_of(evutil_socket_t fd)
{
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    return ntohs(address.sin_port);
}

static int setup(void **state)
{
    struct test *t = xcalloc(1, sizeof(*t));
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    t->base = event_base_new();
    t->outcome = (struct outcome){.base = t->base, .wanted = 1};
    assert_int_equal(caller_new(t->base, &t->caller), 0);
    t->http = evhttp_new(t->base);
    evhttp_set_gencb(t->http, on_request, t);
    struct evhttp_bound_socket *bound = evhttp_bind_socket_with_handle(t->http, "127.0.0.1", 0);
    t->port = port_of(evhttp_bound_socket_get_fd(bound));
    t->raw = evconnlistener_new_bind(t->base, on_raw, t, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE, -1,
                                     (struct sockaddr *)&loopback, sizeof(loopback));
    t->raw_port = port_of(evconnlistener_get_fd(t->raw));
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct test *t = *state;
    caller_free(t->caller);
    /* The raw server's connections end with those of the caller. */
    for (int i = 0; i < 10; i++)
        event_base_loop(t->base, EVLOOP_NONBLOCK);
    evhttp_free(t->http);
    if (t->raw)
        evconnlistener_free(t->raw);
    event_base_free(t->base);
    free(t);
    return 0;
}

static struct call_request request(const char *method, int64_t timeout_ns)
{
    return (struct call_request){
        .method = method,
        .connect_timeout_ns = patience_ns(NS_PER_S),
        /* A shorter one is a part of what is tested. */
        .deadline_ns = mono_ns() + (timeout_ns < 5 * NS_PER_S ? timeout_ns : patience_ns(timeout_ns))};
}

static void start(struct test *t, struct call_request q, int port, const char *path)
{
    _cleanup_(freep) char *url = xasprintf("http://127.0.0.1:%d%s", port, path);
    q.url = url;
    assert_non_null(call_start(t->caller, &q, on_done, &t->outcome));
}

static const struct call_result *wait_done(struct test *t)
{
    int64_t patience = patience_ns(LIMIT_S * NS_PER_S), deadline_ns = mono_ns() + patience;
    const struct timeval limit = timeval_of(patience);

    event_base_loopexit(t->base, &limit);
    /* The limit of an earlier wait may end this one. */
    do
        event_base_dispatch(t->base);
    while (t->outcome.n_done < t->outcome.wanted && mono_ns() < deadline_ns);
    assert_int_equal(t->outcome.n_done, t->outcome.wanted);
    return &t->outcome.result;
}

static const struct call_result *get(struct test *t, const char *path)
{
    t->outcome.n_done = 0;
    start(t, request("GET", 5 * NS_PER_S), t->port, path);
    assert_int_equal(t->outcome.n_done, 0);
    return wait_done(t);
}

static void test_answer(void **state)
{
    struct test *t = *state;
    int64_t before = wall_ns();
    const struct call_result *r = get(t, "/hello");

    assert_int_equal(r->err, 0);
    assert_int_equal(r->status, 200);
    assert_int_equal(r->body_size, 5);
    assert_string_equal(t->outcome.body, "hello");
    assert_true(r->sent_at_ns >= before && r->answered_at_ns >= r->sent_at_ns &&
                wall_ns() >= r->answered_at_ns);
    assert_true(r->answered_mono_ns >= r->sent_mono_ns && r->sent_mono_ns > 0);
    assert_false(r->cut);
}

static void test_redirect_is_not_followed(void **state)
{
    const struct call_result *r = get(*state, "/redirect");
    assert_int_equal(r->err, 0);
    assert_int_equal(r->status, 302);
}

static void test_date(void **state)
{
    struct test *t = *state;
    assert_int_equal(get(t, "/date")->date_s, 1763647331);
}

static void test_text(void **state)
{
    struct test *t = *state;
    char text[200], tiny[20];
    struct call_result r = *get(t, "/missing");

    r.body = t->outcome.body;
    assert_string_equal(call_result_text(&r, text, sizeof(text)),
                        "404 Not Found: {\"error\": \"no such thing\"}");
    assert_string_equal(call_result_text(&r, tiny, sizeof(tiny)), "404 Not Found: {\"er");
}

static void test_long_answer_is_cut(void **state)
{
    struct test *t = *state;
    struct call_request q = request("GET", 5 * NS_PER_S);

    q.answer_max = 1000;
    start(t, q, t->port, "/big");
    const struct call_result *r = wait_done(t);
    assert_int_equal(r->err, 0);
    assert_int_equal(r->status, 200);
    assert_true(r->cut);
    assert_int_equal(r->body_size, 1000);
}

/* A body beyond answer_max goes into a file; of an error it is in memory, and the rest of what the file does not take is cut. */
static void test_answer_into_a_file(void **state)
{
    struct test *t = *state;
    struct call_request q = request("GET", 5 * NS_PER_S);
    _cleanup_(closep) int fd = memfd_create("sink", MFD_CLOEXEC);
    struct call_sink sink = {.fd = fd, .size_max = INT64_MAX};
    struct stat st;

    q.answer_max = 1000;
    q.sink = &sink;
    start(t, q, t->port, "/big");
    const struct call_result *r = wait_done(t);
    assert_int_equal(r->err, 0);
    assert_false(r->cut);
    assert_int_equal(r->body_size, 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(r->sunk > 1000 && st.st_size == r->sunk);

    t->outcome.n_done = 0;
    start(t, q, t->port, "/missing");
    r = wait_done(t);
    assert_int_equal(r->status, 404);
    assert_int_equal(r->sunk, 0);
    assert_true(r->body_size > 0);

    t->outcome.n_done = 0;
    sink.size_max = 10;
    start(t, q, t->port, "/big");
    r = wait_done(t);
    assert_true(r->err == 0 && r->cut && r->sunk <= 10);
}

static const struct call_result *get_raw(struct test *t, const char *method)
{
    t->outcome.n_done = 0;
    start(t, request(method, 5 * NS_PER_S), t->raw_port, "/");
    return wait_done(t);
}

static void test_endless_body(void **state)
{
    struct test *t = *state;

    t->raw_answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    t->raw_more = "for ever and ever, and so on for a long time";
    const struct call_result *r = get_raw(t, "GET");
    assert_int_equal(r->err, 0);
    assert_int_equal(r->status, 200);
    assert_true(r->cut);
    assert_int_equal(r->body_size, CALL_ANSWER_MAX_DEFAULT);
}

static void test_endless_head(void **state)
{
    struct test *t = *state;

    t->raw_answer = "HTTP/1.1 200 OK\r\n";
    t->raw_more = "X-More: and more\r\n";
    assert_int_equal(get_raw(t, "GET")->err, -EPROTO);
    assert_string_equal(t->outcome.error, "head and trailers of the response are longer than 64 KiB");
}

static void test_endless_preludes(void **state)
{
    struct test *t = *state;

    t->raw_answer = t->raw_more = "HTTP/1.1 100 Continue\r\n\r\n";
    assert_int_equal(get_raw(t, "GET")->err, -EPROTO);
    assert_int_equal(t->outcome.result.status, 0);
}

static void test_no_answer(void **state)
{
    struct test *t = *state;
    int64_t before = mono_ns();

    start(t, request("GET", 200 * NS_PER_MS), t->port, "/never");
    const struct call_result *r = wait_done(t);
    assert_int_equal(r->err, -ETIMEDOUT);
    assert_int_equal(r->status, 0);
    assert_true(r->sent_at_ns > 0);
    assert_true(mono_ns() - before < patience_ns(3 * NS_PER_S));
}

static void test_past_deadline(void **state)
{
    struct test *t = *state;
    start(t, request("GET", -1), t->port, "/hello");
    assert_int_equal(t->outcome.n_done, 0);
    assert_int_equal(wait_done(t)->err, -ETIMEDOUT);
}

static void test_refused(void **state)
{
    struct test *t = *state;
    char text[100];

    evconnlistener_free(TAKE_PTR(t->raw));
    start(t, request("GET", 5 * NS_PER_S), t->raw_port, "/");
    struct call_result r = *wait_done(t);
    assert_int_equal(r.err, -ECONNREFUSED);
    assert_int_equal(r.sent_at_ns, 0);
    assert_string_equal(call_result_text(&r, text, sizeof(text)), "connection refused");
}

static void test_broken_answers(void **state)
{
    static const struct {
        const char *answer;
        int err;
    } cases[] = {
        {"", -ECONNRESET},
        {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", -ECONNRESET},
        {"SSH-2.0-OpenSSH_9.2\r\n\r\n", -EPROTO},
    };
    struct test *t = *state;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        t->raw_answer = cases[i].answer;
        assert_int_equal(get_raw(t, "GET")->err, cases[i].err);
        assert_true(t->outcome.error[0] != '\0');
    }
}

static void test_only_http(void **state)
{
    static const char *const urls[] = {"file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/",
                                       "http://user:pw@127.0.0.1:1/", "::"};
    struct test *t = *state;

    for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
        struct call_request q = request("GET", NS_PER_S);
        t->outcome.n_done = 0;
        q.url = urls[i];
        call_start(t->caller, &q, on_done, &t->outcome);
        const struct call_result *r = wait_done(t);
        assert_true(r->err < 0 && r->status == 0 && r->body_size == 0);
    }
}

static void test_environment_proxy_is_ignored(void **state)
{
    struct test *t = *state;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    int err = get(t, "/hello")->err;
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
    assert_int_equal(err, 0);
}

static void test_bodies(void **state)
{
    struct test *t = *state;
    struct call_request q = request("POST", 5 * NS_PER_S);

    start(t, q, t->port, "/echo");
    wait_done(t);
    assert_string_equal(t->outcome.body, "Content-Length=0;Content-Type=-;Authorization=-;Expect=-;");
    t->outcome.n_done = 0;
    q.body = "{\"a\":1}";
    start(t, q, t->port, "/echo");
    wait_done(t);
    assert_string_equal(t->outcome.body,
                        "Content-Length=7;Content-Type=application/json;Authorization=-;Expect=-;{\"a\":1}");
}

static void write_token(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static void call_with(struct test *t, const struct call_credentials *c, bool admin)
{
    struct call_request q = request("GET", 5 * NS_PER_S);
    q.credentials = c;
    q.admin = admin;
    t->outcome.n_done = 0;
    start(t, q, t->port, "/echo");
    wait_done(t);
}

static void test_tokens(void **state)
{
    struct test *t = *state;
    char path[] = "/tmp/call-token-XXXXXX", admin[] = "/tmp/call-token-XXXXXX";
    struct call_credentials c = {.token_file = path};

    close(mkstemp(path));
    close(mkstemp(admin));
    write_token(path, "sk-one\n");
    write_token(admin, "sk-root");
    call_with(t, &c, true);
    assert_non_null(strstr(t->outcome.body, "Authorization=Bearer sk-one;"));
    write_token(path, "sk-two");
    c.admin_token_file = admin;
    call_with(t, &c, false);
    assert_non_null(strstr(t->outcome.body, "Authorization=Bearer sk-two;"));
    call_with(t, &c, true);
    assert_non_null(strstr(t->outcome.body, "Authorization=Bearer sk-root;"));
    call_with(t, NULL, true);
    assert_non_null(strstr(t->outcome.body, "Authorization=-;"));
    write_token(path, "sk\r\nX-Evil: 1");
    call_with(t, &c, false);
    assert_int_equal(t->outcome.result.err, -EACCES);
    write_token(path, "");
    call_with(t, &c, false);
    assert_non_null(strstr(t->outcome.error, "token_file"));
    unlink(path);
    call_with(t, &c, false);
    assert_int_equal(t->outcome.result.err, -EACCES);
    assert_non_null(strstr(t->outcome.error, "cannot use token_file /tmp/call-token-"));
    assert_non_null(strstr(t->outcome.error, "No such file"));
    unlink(admin);
}

/* A server that ends the kept connection instead of answering gets a GET again, and a POST never. */
static void test_a_post_is_sent_once(void **state)
{
    static const char *const methods[] = {"GET", "POST"};
    struct test *t = *state;

    t->raw_keeps_open = true;
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        t->raw_answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        assert_int_equal(get_raw(t, methods[i])->err, 0);
        t->raw_answer = "";
        t->n_raw_requests = 0;
        assert_int_equal(get_raw(t, methods[i])->err, -ECONNRESET);
        assert_int_equal(t->n_raw_requests, i == 0 ? 2 : 1);
    }
}

static void test_cancel(void **state)
{
    struct test *t = *state;
    struct call_request q = request("GET", 5 * NS_PER_S);
    _cleanup_(freep) char *never = xasprintf("http://127.0.0.1:%d/never", t->port),
                          *late = xasprintf("http://127.0.0.1:%d/x", t->port);

    q.url = never;
    call_cancel(call_start(t->caller, &q, on_done, &t->outcome));
    struct call *running = call_start(t->caller, &q, on_done, &t->outcome);
    event_base_loop(t->base, EVLOOP_ONCE);
    event_base_loop(t->base, EVLOOP_ONCE);
    call_cancel(running);
    q.url = late;
    q.deadline_ns = 0;
    call_cancel(call_start(t->caller, &q, on_done, &t->outcome));
    assert_int_equal(get(t, "/hello")->status, 200);
    assert_int_equal(t->outcome.n_done, 1);
}

static void test_caller_ends_with_calls_under_way(void **state)
{
    struct test *t = *state;

    start(t, request("GET", 5 * NS_PER_S), t->port, "/never");
    start(t, request("GET", -1), t->port, "/never");
    event_base_loop(t->base, EVLOOP_NONBLOCK);
    caller_free(t->caller);
    unsigned n = t->outcome.n_done;
    assert_int_equal(caller_new(t->base, &t->caller), 0);
    event_base_loop(t->base, EVLOOP_NONBLOCK);
    assert_int_equal(t->outcome.n_done, n);
}

static void test_many_at_once(void **state)
{
    struct test *t = *state;

    t->outcome.wanted = 100; /* fewer than a listener's backlog */
    for (int round = 0; round < 2; round++) {
        t->outcome.n_done = 0;
        for (unsigned i = 0; i < t->outcome.wanted; i++)
            start(t, request("POST", 5 * NS_PER_S), t->port, "/hello");
        assert_int_equal(wait_done(t)->status, 200);
    }
}

#define PORTION 200 /* of calls at once */

/* Processor time of calls to n hosts, each another one, none of which listens. */
static int64_t cost_of_hosts(struct test *t, unsigned first, unsigned n)
{
    struct timespec begin, end;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    t->outcome.wanted = PORTION;
    for (unsigned i = first; i < first + n; i += PORTION) {
        t->outcome.n_done = 0;
        for (unsigned j = i; j < i + PORTION; j++) {
            _cleanup_(freep) char *url =
                xasprintf("http://127.%u.%u.1:9/server_info?config_format=json", 100 + j / 256, j % 256);
            struct call_request q = request("GET", 5 * NS_PER_S);
            q.url = url;
            call_start(t->caller, &q, on_done, &t->outcome);
        }
        assert_int_equal(wait_done(t)->err, -ECONNREFUSED);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    return (end.tv_sec - begin.tv_sec) * NS_PER_S + end.tv_nsec - begin.tv_nsec;
}

/* A router may list ten thousand, and there are more routers than one. */
static void test_a_call_costs_the_same_among_many_hosts(void **state)
{
    int64_t first = cost_of_hosts(*state, 0, 1000);

    cost_of_hosts(*state, 1000, 18000);
    int64_t last = cost_of_hosts(*state, 19000, 1000);
    print_message("a thousand hosts: %.3f s, after nineteen thousand: %.3f s\n", (double)first / NS_PER_S,
                  (double)last / NS_PER_S);
    assert_true(last < 4 * first);
}

static void test_a_silent_name_server_blocks_nobody(void **state)
{
    struct test *t = *state;
    struct call_request q = request("GET", NS_PER_S / 4);
    int64_t begin = mono_ns();

    q.url = "http://worker.slow.invalid:80/version";
    q.connect_timeout_ns = NS_PER_S / 4;
    call_start(t->caller, &q, on_done, &t->outcome);
    assert_int_equal(wait_done(t)->err, -ETIMEDOUT);
    call_start(t->caller, &q, on_done, &t->outcome);
    event_base_loop(t->base, EVLOOP_ONCE);
    t->caller = caller_free(t->caller);
    assert_true(mono_ns() - begin < SLOW_NAME_S * NS_PER_S / 2);
}

static void call_names(struct test *t, const char *format, int n, uint64_t origin, int64_t timeout_ns)
{
    for (int i = 0; i < n; i++) {
        struct call_request q = request("GET", timeout_ns);
        _cleanup_(freep) char *host = xasprintf("w%d.%s", i, format);
        _cleanup_(freep) char *url = xasprintf("http://%s:%d/hello", host, t->port);
        q.url = url;
        q.origin = origin;
        q.connect_timeout_ns = timeout_ns;
        call_start(t->caller, &q, on_done, &t->outcome);
    }
}

/* One fleet's dead names take its own share of threads; the names of others are resolved meanwhile. */
static void test_names_that_lead_nowhere(void **state)
{
    struct test *t = *state;
    struct outcome other = {.base = t->base, .wanted = 1};
    struct call_request q = request("GET", 60 * NS_PER_S);
    _cleanup_(freep) char *url = xasprintf("http://localhost:%d/hello", t->port);
    const int n = 3 * NAMES_EACH_MAX;

    atomic_store(&n_slow_names, 0);
    t->outcome.wanted = n;
    call_names(t, "slow.invalid", n, 1, NS_PER_S);
    q.url = url;
    q.origin = 2;
    call_start(t->caller, &q, on_done, &other);
    while (other.n_done == 0)
        event_base_loop(t->base, EVLOOP_ONCE);
    assert_int_equal(other.result.err, 0);
    assert_int_equal(wait_done(t)->err, -ETIMEDOUT);
    assert_int_equal(atomic_load(&n_slow_names), NAMES_EACH_MAX);
    /* Those threads are still there: the next of that fleet have no turn either. */
    t->outcome.n_done = 0;
    t->outcome.wanted = 1;
    call_names(t, "late.slow.invalid", 1, 1, NS_PER_S / 4);
    assert_int_equal(wait_done(t)->err, -ETIMEDOUT);
    assert_string_equal(t->outcome.error,
                        "too many host names of its fleet cannot be resolved; its own was not tried");
    assert_int_equal(atomic_load(&n_slow_names), NAMES_EACH_MAX);
}

/* However many: whoever waits has a turn when another's name is known, or known to be none. */
static void test_names_take_turns(void **state)
{
    struct test *t = *state;

    t->outcome.wanted = 5 * NAMES_EACH_MAX;
    call_names(t, "none.invalid", t->outcome.wanted, 1, 60 * NS_PER_S);
    assert_int_equal(wait_done(t)->err, -EHOSTUNREACH);
    t->outcome.n_done = 0;
    t->outcome.wanted = NAMES_EACH_MAX + NAMES_EACH_MAX / 2; /* fewer than a listener's backlog */
    call_names(t, "known.invalid", (int)t->outcome.wanted, 1, 60 * NS_PER_S);
    assert_int_equal(wait_done(t)->err, 0);
}

static void test_turns_are_given_back(void **state)
{
    struct test *t = *state;
    struct call *calls[2 * NAMES_EACH_MAX];
    struct call_request q = request("GET", 60 * NS_PER_S);

    q.url = "http://worker.slow.invalid:80/version";
    q.origin = 1;
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
        calls[i] = call_start(t->caller, &q, on_done, &t->outcome);
    for (size_t i = ARRAY_SIZE(calls); i > 0; i--)
        call_cancel(calls[i - 1]);
    assert_int_equal(get(t, "/hello")->status, 200);
    call_start(t->caller, &q, on_done, &t->outcome); /* waits, and goes with the caller */
}

/* Its handle goes on to another call; of the calls that fail, each leaves another state of libcurl behind. */
static void test_a_call_after_one_that_failed(void **state)
{
    static const char *const urls[] = {"http://user@127.0.0.1:9/", "http://[::1",
                                       "gopher://127.0.0.1:9",     "http:///",
                                       "http://127.0.0.1:9/",      "http://w.none.invalid/",
                                       "http://169.254.169.254/"};
    struct test *t = *state;

    for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
        struct call_request q = request("GET", 5 * NS_PER_S);
        t->outcome.n_done = 0;
        q.url = urls[i];
        call_start(t->caller, &q, on_done, &t->outcome);
        assert_int_not_equal(wait_done(t)->err, 0);
        longest_receive = 0;
        assert_int_equal(get(t, "/big")->body_size, 50000);
        assert_in_range(longest_receive, 1, 8192);
    }
}

/* Its thread ends while the call does. */
static void test_a_name_that_is_left(void **state)
{
    struct test *t = *state;
    struct call_request q = request("GET", 60 * NS_PER_S);

    q.url = "http://worker.brief.invalid:80/version";
    struct call *call = call_start(t->caller, &q, on_done, &t->outcome);
    event_base_loop(t->base, EVLOOP_NONBLOCK);
    rest_after_unlock_s = 4 * BRIEF_NAME_S;
    call_cancel(call);
    rest_after_unlock_s = 0;
    assert_int_equal(get(t, "/hello")->status, 200);
    assert_int_equal(t->outcome.n_done, 1);
}

/* One lookup for all who ask; curl takes the addresses, however the name is written. */
static void test_names_are_kept(void **state)
{
    static const char *const hosts[] = {"w1.known.invalid", "w1.known.invalid", "w1.known.invalid",
                                        "W1.known.invalid", "w1.known.invalid."};
    struct test *t = *state;

    atomic_store(&n_known_names, 0);
    t->outcome.wanted = ARRAY_SIZE(hosts);
    for (int round = 0; round < 2; round++) {
        t->outcome.n_done = 0;
        for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
            _cleanup_(freep) char *url = xasprintf("http://%s:%d/hello?x=%zu", hosts[i], t->port, i);
            struct call_request q = request("GET", 5 * NS_PER_S);
            q.url = url;
            call_start(t->caller, &q, on_done, &t->outcome);
        }
        assert_int_equal(wait_done(t)->status, 200);
    }
    assert_int_equal(atomic_load(&n_known_names), 3);
}

static const struct call_result *get_named(struct test *t, const char *host)
{
    t->outcome.n_done = 0;
    t->outcome.wanted = 1;
    _cleanup_(freep) char *url = xasprintf("http://%s:%d/hello", host, t->port);
    struct call_request q = request("GET", 5 * NS_PER_S);
    q.url = url;
    call_start(t->caller, &q, on_done, &t->outcome);
    return wait_done(t);
}

/* What the loop's timers were set for until then is over. */
static void let_time_pass(struct test *t)
{
    clock_ahead_s += LONG_S;
    event_base_loop(t->base, EVLOOP_NONBLOCK);
}

/* A stop is owed although the name server went meanwhile. */
static void test_a_name_server_that_goes(void **state)
{
    struct test *t = *state;

    atomic_store(&n_known_names, 0);
    assert_int_equal(get_named(t, "w.known.invalid")->status, 200);
    let_time_pass(t);
    assert_int_equal(get_named(t, "w.known.invalid")->status, 200);
    assert_int_equal(atomic_load(&n_known_names), 2);
    atomic_store(&is_silent, true);
    let_time_pass(t);
    assert_int_equal(get_named(t, "w.known.invalid")->status, 200);
    assert_int_equal(atomic_load(&n_known_names), 3);
    assert_int_equal(get_named(t, "other.known.invalid")->err, -ETIMEDOUT);
    assert_string_equal(t->outcome.error,
                        "no name server returned an address of other.known.invalid in time");
    atomic_store(&is_silent, false);
}

/* What a process knows that may ask nobody. */
static void test_names_that_are_fixed(void **state)
{
    const struct name_answer here = {.n = 1, .addresses = {address_v4(htonl(INADDR_LOOPBACK))}},
                             nowhere = {.err = -EHOSTUNREACH};
    struct test *t = *state;

    atomic_store(&n_known_names, 0);
    caller_fix_name(t->caller, "here.known.invalid", &here);
    caller_fix_name(t->caller, "nowhere.known.invalid", &nowhere);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(get_named(t, "here.known.invalid")->status, 200);
        assert_int_equal(get_named(t, "nowhere.known.invalid")->err, -EHOSTUNREACH);
        assert_string_equal(t->outcome.error, "Could not resolve host: nowhere.known.invalid");
        let_time_pass(t);
    }
    assert_int_equal(atomic_load(&n_known_names), 0);
}

static void set_policy(struct test *t, const char *list)
{
    _cleanup_(network_done) struct network_policy p = {0};
    char *reason = NULL;
    assert_int_equal(network_add(&p, list, &reason), 0);
    caller_set_policy(t->caller, &p);
}

static void test_a_policy_that_changes(void **state)
{
    struct test *t = *state;

    assert_int_equal(get(t, "/hello")->status, 200);
    set_policy(t, "10.0.0.0/8");
    /* The connection of the first is kept, and not used. */
    const struct call_result *r = get(t, "/hello");
    assert_int_equal(r->err, -EPERM);
    assert_int_equal(r->status, 0);
    assert_int_equal(r->sent_at_ns, 0);
    assert_string_equal(t->outcome.error,
                        "127.0.0.1 is outside of [network] allow= in profd.conf: not called");
    assert_non_null(r->remedy);
    assert_int_equal(get(t, "/hello")->err, -EPERM);
    assert_int_equal(caller_refusals(t->caller), 2);
    set_policy(t, "127.0.0.1");
    r = get(t, "/hello");
    assert_int_equal(r->status, 200);
    assert_null(r->remedy);
}

/* -- The memory for answers -- */

#define BIG_SIZE 50000 /* of /big */

/* A head, and more than is kept without asking; then nothing comes. */
static const char *silent_answer(void)
{
    static char text[ANSWER_EXCERPT_MAX + 4096];
    size_t n = (size_t)snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\n\r\n");

    memset(text + n, 'x', sizeof(text) - n - 1);
    return text;
}

/* Takes all the memory that there is, and does not end. */
static struct call *hold_memory(struct test *t, struct outcome *outcome)
{
    _cleanup_(freep) char *url = xasprintf("http://127.0.0.1:%d/", t->raw_port);
    struct call_request q = request("GET", 3600 * NS_PER_S);

    q.url = url;
    q.account = 1;
    t->raw_answer = silent_answer();
    t->raw_keeps_open = true;
    caller_set_answers_max(t->caller, 2 * BIG_SIZE);
    struct call *call = call_start(t->caller, &q, on_done, outcome);
    while (caller_answers(t->caller).held == 0)
        event_base_loop(t->base, EVLOOP_ONCE);
    return call;
}

static void start_big(struct test *t, int64_t timeout_ns)
{
    struct call_request q = request("GET", timeout_ns);

    q.account = 2;
    start(t, q, t->port, "/big");
    while (caller_answers(t->caller).waiting == 0)
        event_base_loop(t->base, EVLOOP_ONCE);
}

static void test_a_long_answer_waits_for_memory(void **state)
{
    struct test *t = *state;
    struct outcome holder = {.base = t->base};
    struct call *call = hold_memory(t, &holder);

    start_big(t, 60 * NS_PER_S);
    assert_int_equal(get(t, "/hello")->status, 200); /* a short one does not */
    assert_int_equal(caller_answers(t->caller).waiting, 1);
    t->outcome.n_done = 0;
    call_cancel(call);
    const struct call_result *r = wait_done(t);
    assert_int_equal(r->err, 0);
    assert_int_equal(r->body_size, BIG_SIZE);
    assert_int_equal(caller_answers(t->caller).held, 0);
}

static void test_a_deadline_holds_for_who_waits(void **state)
{
    struct test *t = *state;
    struct outcome holder = {.base = t->base};
    struct call *call = hold_memory(t, &holder);

    start_big(t, NS_PER_S);
    assert_int_equal(wait_done(t)->err, -ETIMEDOUT);
    assert_int_equal(caller_answers(t->caller).waiting, 0);
    call_cancel(call);
}

/* A server that sends nothing more does not keep the others from theirs. */
static void test_who_holds_memory_for_nothing_loses_it(void **state)
{
    struct test *t = *state;
    struct outcome holder = {.base = t->base};

    hold_memory(t, &holder);
    start_big(t, 3600 * NS_PER_S);
    clock_ahead_s += 60;
    assert_int_equal(wait_done(t)->body_size, BIG_SIZE);
    assert_int_equal(holder.n_done, 1);
    assert_int_equal(holder.result.err, -ENOBUFS);
    assert_non_null(strstr(holder.error, "while others waited"));
}

struct crowd {
    struct event_base *base;
    struct caller *caller;
    unsigned n_left;
    size_t most_held;
};

static void on_crowd_done(const struct call_result *r, void *arg)
{
    struct crowd *c = arg;

    assert_int_equal(r->err, 0);
    assert_int_equal(r->body_size, BIG_SIZE);
    for (size_t i = 0; i < r->body_size; i++)
        assert_int_equal(r->body[i], '0' + i % 10);
    c->most_held = MAX(c->most_held, caller_answers(c->caller).held);
    if (--c->n_left == 0)
        event_base_loopbreak(c->base);
}

static char *chunked_answer(void)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    fprintf(out, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < BIG_SIZE / 1000; i++) {
        fprintf(out, "3e8\r\n");
        for (int k = 0; k < 100; k++)
            fprintf(out, "0123456789");
        fprintf(out, "\r\n");
    }
    fprintf(out, "0\r\n\r\n");
    fclose(out);
    return text;
}

/* Each gets all of its answer, of a known length or in pieces, though the memory is enough for two. */
static void test_a_crowd_takes_turns(void **state)
{
    struct test *t = *state;
    _cleanup_(freep) char *chunked = chunked_answer();
    struct crowd crowd = {.base = t->base, .caller = t->caller, .n_left = 60};
    const struct timeval limit = timeval_of(patience_ns(LIMIT_S * NS_PER_S));

    t->raw_answer = chunked;
    caller_set_answers_max(t->caller, 2 * BIG_SIZE);
    for (unsigned i = 0; i < 60; i++) {
        _cleanup_(freep) char *url = xasprintf("http://127.0.0.1:%d/big", i % 2 ? t->port : t->raw_port);
        struct call_request q = request("GET", 60 * NS_PER_S);
        q.url = url;
        q.account = i % 3;
        q.answer_max = BIG_SIZE;
        call_start(t->caller, &q, on_crowd_done, &crowd);
    }
    event_base_loopexit(t->base, &limit);
    event_base_dispatch(t->base);
    assert_int_equal(crowd.n_left, 0);
    assert_in_range(crowd.most_held, 1, 2 * BIG_SIZE);
    assert_int_equal(caller_answers(t->caller).held, 0);
}

static struct answer_body taken;

static void on_done_taking(const struct call_result *r, void *arg)
{
    taken = call_result_take(r);
    on_done(r, arg);
}

/* What was taken counts until it is freed, which may be after the caller is. */
static void test_a_body_is_taken(void **state)
{
    struct test *t = *state;
    _cleanup_(freep) char *url = xasprintf("http://127.0.0.1:%d/big", t->port);
    struct call_request q = request("GET", 5 * NS_PER_S);

    q.url = url;
    call_start(t->caller, &q, on_done_taking, &t->outcome);
    assert_int_equal(wait_done(t)->body_size, BIG_SIZE);
    assert_int_equal(taken.size, BIG_SIZE);
    assert_int_equal(caller_answers(t->caller).held, BIG_SIZE);
    t->caller = caller_free(t->caller);
    assert_int_equal(taken.text[BIG_SIZE - 1], '9');
    answer_body_done(&taken);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_answer),
        TEST(test_redirect_is_not_followed),
        TEST(test_a_long_answer_waits_for_memory),
        TEST(test_a_deadline_holds_for_who_waits),
        TEST(test_who_holds_memory_for_nothing_loses_it),
        TEST(test_a_crowd_takes_turns),
        TEST(test_a_body_is_taken),
        TEST(test_date),
        TEST(test_text),
        TEST(test_long_answer_is_cut),
        TEST(test_answer_into_a_file),
        TEST(test_endless_body),
        TEST(test_endless_head),
        TEST(test_endless_preludes),
        TEST(test_no_answer),
        TEST(test_past_deadline),
        TEST(test_refused),
        TEST(test_broken_answers),
        TEST(test_only_http),
        TEST(test_environment_proxy_is_ignored),
        TEST(test_bodies),
        TEST(test_tokens),
        TEST(test_a_post_is_sent_once),
        TEST(test_cancel),
        TEST(test_caller_ends_with_calls_under_way),
        TEST(test_many_at_once),
        TEST(test_a_call_costs_the_same_among_many_hosts),
        TEST(test_a_policy_that_changes),
        TEST(test_a_silent_name_server_blocks_nobody),
        TEST(test_names_that_lead_nowhere),
        TEST(test_names_take_turns),
        TEST(test_turns_are_given_back),
        TEST(test_a_call_after_one_that_failed),
        TEST(test_a_name_that_is_left),
        TEST(test_names_are_kept),
        TEST(test_a_name_server_that_goes),
        TEST(test_names_that_are_fixed),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
