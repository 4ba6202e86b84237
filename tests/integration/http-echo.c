/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that shows what the HTTP API hands to a handler, for test_http_api.py.
 *
 *     http-echo unix:PATH|tcp[:ADDRESS] [KEY=VALUE]...
 *
 * prints "listening PORT" (0 for a Unix socket) and answers. A byte on its stdin stops it accepting; the end
 * of stdin frees the server with whatever is open, and "freed" is printed. Keys are the limits in struct
 * http_limits (durations in ms), nofile, which lowers RLIMIT_NOFILE, and tls=CERT,KEY[,CA].
 *
 *     /echo        the request as JSON        /file?path=&size=     a download
 *     /later?ms=   the same, from a timer     /stream?ms=&bytes=    a stream, a write every ms (0: flood)
 *     /status?code=  an empty reply           /problem              a problem
 *     /state       connections and closed requests so far
 *     /denied...   403, before the body is read
 *
 * /file?elsewhere=1 is read on a thread; with elsewhere=dead that thread waits, as for a server that is gone,
 * until /revive.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/offload.h"
#include "daemon/api/http.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define STREAM_BYTES_MAX 65536
#define VALUES_MAX       16

struct app {
    struct event_base *base;
    struct offload *offload;
    struct http_server *server;
    int n_closed, n_dropped;
};

/* A request whose reply comes later. */
struct later {
    struct app *app;
    struct http_request *request;
    struct event *timer;
    size_t bytes;
    int64_t ms, n_left;
    bool streams;
};

static pthread_mutex_t mount = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_dead;

/* What the mount is asked. */
ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    ssize_t (*real)(int, void *, size_t, off_t) = NULL;

    if (atomic_load(&is_dead)) {
        pthread_mutex_lock(&mount);
        pthread_mutex_unlock(&mount);
    }
    *(void **)&real = dlsym(RTLD_NEXT, "pread");
    return real(fd, data, size, offset);
}

static void set_dead(bool dead)
{
    if (dead && !atomic_exchange(&is_dead, true))
        pthread_mutex_lock(&mount);
    else if (!dead && atomic_exchange(&is_dead, false))
        pthread_mutex_unlock(&mount);
}

static const char *const method_names[_HTTP_METHOD_MAX] = {"GET", "HEAD", "POST", "PUT", "DELETE"};

static int64_t query_int(struct http_request *r, const char *key, int64_t fallback)
{
    const char *text = http_query_get(r, key);
    return text ? strtoll(text, NULL, 10) : fallback;
}

static json_t *query_json(struct http_request *r)
{
    json_t *query = json_object();

    for (size_t i = 0; http_query_key(r, i); i++) {
        const char *key = http_query_key(r, i), *values[VALUES_MAX];
        size_t n = http_query_all(r, key, values, ARRAY_SIZE(values));
        json_t *list = json_array();
        for (size_t k = 0; k < MIN(n, ARRAY_SIZE(values)); k++)
            json_array_append_new(list, json_string(values[k]));
        json_object_set_new(query, key, list);
    }
    return query;
}

static json_t *echo(struct http_request *r)
{
    const struct http_peer *peer = http_peer(r);
    json_t *o = json_object();
    size_t size;
    const char *body = http_body(r, &size);

    json_put_str(o, "method", method_names[http_method(r)]);
    json_put_str(o, "path", http_path(r));
    json_object_set_new(o, "query", query_json(r));
    json_put_str(o, "x_test", http_header(r, "x-test"));
    json_put_int(o, "body_size", (int64_t)size);
    json_object_set_new(o, "body", json_stringn(body, MIN(size, 256)));
    json_put_bool(o, "local", peer->local);
    json_put_int(o, "uid", peer->local ? (int64_t)peer->uid : -1);
    json_put_int(o, "pid", peer->pid);
    json_put_str(o, "address", peer->address);
    return o;
}

static void later_free(struct later *l)
{
    event_free(l->timer);
    free(l);
}

static void on_close(struct http_request *r, void *arg)
{
    struct later *l = arg;
    l->app->n_closed++;
    later_free(l);
}

static void stream_on(struct later *l)
{
    static const char text[STREAM_BYTES_MAX];
    int error = 0;

    while (l->n_left > 0 && error == 0) {
        l->n_left--;
        error = http_stream_write(l->request, text, l->bytes);
        if (l->ms > 0)
            break;
    }
    if (error < 0) {
        l->app->n_dropped++;
        return;
    }
    if (l->n_left == 0) {
        http_stream_end(l->request);
        later_free(l);
        return;
    }
    struct timeval interval = timeval_of(l->ms * NS_PER_MS);
    evtimer_add(l->timer, &interval);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct later *l = arg;

    if (l->streams)
        return stream_on(l);
    http_reply_json(l->request, 200, echo(l->request));
    later_free(l);
}

static void reply_later(struct app *app, struct http_request *r, bool streams)
{
    struct later *l = xcalloc(1, sizeof(*l));

    *l = (struct later){
        .app = app,
        .request = r,
        .bytes = (size_t)MIN(query_int(r, "bytes", 64), STREAM_BYTES_MAX),
        .ms = query_int(r, "ms", 50),
        .n_left = query_int(r, "n", INT64_MAX),
        .streams = streams,
    };
    l->timer = evtimer_new(app->base, on_later, l);
    http_on_close(r, on_close, l);
    if (streams)
        http_stream_begin(r, "text/event-stream");
    struct timeval delay = timeval_of(l->ms * NS_PER_MS);
    evtimer_add(l->timer, &delay);
}

static void reply_file(struct app *app, struct http_request *r)
{
    const char *path = http_query_get(r, "path"), *elsewhere = http_query_get(r, "elsewhere");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return http_reply(r, 404, "text/plain", "no file\n", 8);
    if (streq(elsewhere, "dead"))
        set_dead(true);
    http_reply_file(r, &(struct http_download){.fd = fd,
                                               .st = &st,
                                               .size = query_int(r, "size", st.st_size),
                                               .content_type = "application/octet-stream",
                                               .name = http_query_get(r, "name"),
                                               .offload = elsewhere ? app->offload : NULL,
                                               .queue = 1});
}

static void reply_problem(struct http_request *r)
{
    struct problem p = {0};
    problem_set(&p, -EBUSY, PROBLEM_BUSY, "worker %s is busy", "w\xff");
    problem_remedy(&p, "wait");
    http_reply_problem(r, &p);
    problem_done(&p);
}

/* What it turns away is everything under /denied; every token is right. */
static bool admit(struct http_request *r, void *arg)
{
    struct problem p = {0};

    if (!starts_with(http_path(r), "/denied")) {
        if (http_header(r, "Authorization"))
            http_set_user(r, "somebody");
        return true;
    }
    problem_set(&p, -EPERM, PROBLEM_DENIED, "not here");
    http_reply_problem(r, &p);
    problem_done(&p);
    return false;
}

static void handle(struct http_request *r, void *arg)
{
    struct app *app = arg;
    const char *path = http_path(r);

    if (streq(path, "/file"))
        return reply_file(app, r);
    if (streq(path, "/revive"))
        set_dead(false);
    if (streq(path, "/later"))
        return reply_later(app, r, false);
    if (streq(path, "/stream"))
        return reply_later(app, r, true);
    if (streq(path, "/problem"))
        return reply_problem(r);
    if (streq(path, "/status"))
        return http_reply(r, (int)query_int(r, "code", 200), NULL, NULL, 0);
    if (streq(path, "/state"))
        return http_reply_json(r, 200,
                               json_pack("{s:i,s:i,s:i}", "connections", http_connections(app->server),
                                         "closed", app->n_closed, "dropped", app->n_dropped));
    http_reply_header(r, "X-Echo", "a\r\nInjected: b");
    http_reply_json(r, 200, echo(r));
}

static int listen_on(const char *where, unsigned *ret_port)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool local = starts_with(where, "unix:");
    if (starts_with(where, "tcp:"))
        inet_pton(AF_INET, where + strlen("tcp:"), &in.sin_addr);
    socklen_t size = sizeof(in);
    int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM, 0);

    if (local)
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", where + strlen("unix:"));
    if (bind(fd, local ? (void *)&un : (void *)&in, local ? sizeof(un) : sizeof(in)) < 0 ||
        listen(fd, 128) < 0)
        return -errno;
    if (!local)
        getsockname(fd, (struct sockaddr *)&in, &size);
    *ret_port = local ? 0 : ntohs(in.sin_port);
    return fd;
}

static void set_limit(struct http_limits *l, const char *arg)
{
    static const struct {
        const char *key;
        size_t offset;
        bool ms;
    } keys[] = {
        {"head_max", offsetof(struct http_limits, head_max), false},
        {"headers_max", offsetof(struct http_limits, headers_max), false},
        {"body_max", offsetof(struct http_limits, body_max), false},
        {"stream_lag_max", offsetof(struct http_limits, stream_lag_max), false},
        {"head_ms", offsetof(struct http_limits, head_deadline_ns), true},
        {"body_ms", offsetof(struct http_limits, body_deadline_ns), true},
        {"idle_ms", offsetof(struct http_limits, idle_ns), true},
        {"stall_ms", offsetof(struct http_limits, send_stall_ns), true},
    };
    size_t n = strcspn(arg, "=");
    int64_t value = strtoll(arg + n + 1, NULL, 10);

    if (starts_with(arg, "anonymous_share="))
        l->anonymous_share = (unsigned)value;
    if (starts_with(arg, "connections_max="))
        l->connections_max = (unsigned)value;
    if (starts_with(arg, "nofile="))
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)value, (rlim_t)value});
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (strlen(keys[i].key) == n && strncmp(keys[i].key, arg, n) == 0)
            *(int64_t *)((char *)l + keys[i].offset) = keys[i].ms ? value * NS_PER_MS : value;
}

static void on_stdin(evutil_socket_t fd, short what, void *arg)
{
    struct app *app = arg;
    char c;

    if (read(fd, &c, 1) <= 0)
        event_base_loopbreak(app->base);
    else
        http_server_stop_accepting(app->server);
}

/* "CERT,KEY[,CA]" */
static int set_tls(struct http_server *server, char *files)
{
    struct problem p = {0};
    SSL_CTX *context;
    char *cert = strsep(&files, ","), *key = strsep(&files, ",");

    if (http_tls_new(&(struct http_tls_files){cert, key, files}, &context, &p) < 0) {
        fprintf(stderr, "%s\n", p.what);
        problem_done(&p);
        return -EINVAL;
    }
    http_server_set_tls(server, context);
    SSL_CTX_free(context);
    return 0;
}

int main(int argc, char **argv)
{
    struct http_limits limits = http_limits_default;
    struct app app = {0};
    const struct http_handlers handlers = {.admit = admit, .handle = handle, .arg = &app};
    unsigned port = 0;

    if (argc < 2)
        return EXIT_FAILURE;
    for (int i = 2; i < argc; i++)
        set_limit(&limits, argv[i]);
    app.base = event_base_new();
    int fd = listen_on(argv[1], &port);
    if (fd < 0 || offload_new(app.base, 1, &app.offload) < 0 ||
        http_server_new(app.base, &limits, &handlers, &app.server) < 0)
        return EXIT_FAILURE;
    for (int i = 2; i < argc; i++)
        if (starts_with(argv[i], "tls=") && set_tls(app.server, argv[i] + strlen("tls=")) < 0)
            return EXIT_FAILURE;
    if (http_server_listen(app.server, fd) < 0)
        return EXIT_FAILURE;
    struct event *end = event_new(app.base, STDIN_FILENO, EV_READ | EV_PERSIST, on_stdin, &app);
    event_add(end, NULL);
    printf("listening %u\n", port);
    fflush(stdout);
    event_base_dispatch(app.base);
    http_server_free(app.server);
    set_dead(false);
    offload_free(app.offload);
    event_free(end);
    event_base_free(app.base);
    libevent_global_shutdown();
    printf("freed\n");
    return EXIT_SUCCESS;
}
