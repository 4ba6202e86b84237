/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows traces in ui.perfetto.dev without sending them anywhere: the page runs in the user's browser. A trace of a profd with a
 * web page of its own is handed over by that page, within the browser. Anything else the page takes from this machine's
 * loopback.
 *
 * For that, the page's Content-Security-Policy allows one local port only, so the port is fixed. Anything else on this
 * machine, and any page the browser has open, could ask that port too: hence a path that cannot be guessed,
 * and Host and Origin that must be the expected ones (the former against DNS rebinding).
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/local/browser.h"
#include "client/traces/columns_cache.h"
#include "client/traces/exporting.h"
#include "client/traces/instances.h"
#include "client/traces/ranks.h"
#include "client/transport/download.h"
#include "client/verbs/verbs.h"
#include "client/verbs/web.h"
#include "trace/read/format.h"
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/wait.h>

#define SERVE_ADDRESS   "127.0.0.1"
#define SERVE_PORT      9001
#define TIMEOUT_DEFAULT (600 * NS_PER_S)
#define TOKEN_BYTES     16

struct open_options {
    int64_t timeout;
    bool perfetto, no_browser;
};

/* clang-format off */
static const struct option_def open_options[] = {
    {"timeout", 0, "DURATION", OPTION_DURATION, offsetof(struct open_options, timeout), "Maximum wait for the browser, if profctl serves the trace (default: 10min)"},
    {"perfetto", 0, NULL, OPTION_FLAG, offsetof(struct open_options, perfetto), "Serve a single trace to Perfetto without the web page of profd"},
    {"no-browser", 0, NULL, OPTION_FLAG, offsetof(struct open_options, no_browser), "Print the link without opening a browser"},
};
/* clang-format on */

struct open_server {
    struct event_base *base;
    struct evhttp *http;
    char *path; /* "/TOKEN/name" */
    int fd;
    int64_t size;
    bool delivered, interrupted;
};

static void open_server_done(struct open_server *s)
{
    if (s->http)
        evhttp_free(s->http);
    if (s->base)
        event_base_free(s->base);
    free(s->path);
    closep(&s->fd);
}

static const char *open_header(struct evhttp_request *request, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(request), name);
}

static bool is_expected_host(const char *host)
{
    static const char *const names[] = {SERVE_ADDRESS, "localhost"};
    char expected[64];

    for (size_t i = 0; host && i < ARRAY_SIZE(names); i++) {
        snprintf(expected, sizeof(expected), "%s:%d", names[i], SERVE_PORT);
        if (streq(host, expected))
            return true;
    }
    return false;
}

static void open_add_cors(struct evhttp_request *request)
{
    static const char *const headers[][2] = {
        {"Access-Control-Allow-Origin", PERFETTO_ORIGIN},
        {"Access-Control-Allow-Methods", "GET, HEAD, OPTIONS"},
        {"Access-Control-Allow-Private-Network", "true"},
        {"Vary", "Origin"},
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
        evhttp_add_header(evhttp_request_get_output_headers(request), headers[i][0], headers[i][1]);
}

static void open_on_delivered(struct evhttp_request *request, void *arg)
{
    struct open_server *s = arg;
    s->delivered = true;
    /* Not at once: the connection is still being taken down. */
    event_base_loopexit(s->base, &(struct timeval){.tv_usec = 100000});
}

static void open_send_file(struct open_server *s, struct evhttp_request *request)
{
    struct evbuffer *body = evbuffer_new();
    int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);

    if (!body || fd < 0 || evbuffer_add_file(body, fd, 0, s->size) < 0) {
        evhttp_send_error(request, HTTP_INTERNAL, NULL);
    } else {
        evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type",
                          "application/octet-stream");
        evhttp_request_set_on_complete_cb(request, open_on_delivered, s);
        evhttp_send_reply(request, HTTP_OK, "OK", body);
    }
    if (body)
        evbuffer_free(body);
}

static void open_on_request(struct evhttp_request *request, void *arg)
{
    struct open_server *s = arg;
    const char *origin = open_header(request, "Origin"), *uri = evhttp_request_get_uri(request);
    char size[24];

    if (!is_expected_host(open_header(request, "Host")) || (origin && !streq(origin, PERFETTO_ORIGIN))) {
        evhttp_send_error(request, 403, "Forbidden");
        return;
    }
    if (!streq(uri, s->path)) {
        evhttp_send_error(request, HTTP_NOTFOUND, "Not Found");
        return;
    }
    open_add_cors(request);
    switch (evhttp_request_get_command(request)) {
    case EVHTTP_REQ_GET:
        open_send_file(s, request);
        break;
    case EVHTTP_REQ_HEAD:
        snprintf(size, sizeof(size), "%lld", (long long)s->size);
        evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Length", size);
        evhttp_send_reply(request, HTTP_OK, "OK", NULL);
        break;
    default:
        evhttp_send_reply(request, HTTP_NOCONTENT, "No Content", NULL);
    }
}

static void open_on_signal(evutil_socket_t fd, short what, void *arg)
{
    struct open_server *s = arg;
    s->interrupted = true;
    event_base_loopbreak(s->base);
}

/* In memory it could be gigabytes. */
static int open_temp_file(struct problem *p)
{
    int fd = nameless_file();

    return fd < 0 ? problem_set(p, fd, PROBLEM_STORAGE, "cannot keep the trace in %s: %s", temp_dir(),
                                strerror(-fd))
                  : fd;
}

/* The name becomes the title of the page; characters that are special in a URL are replaced. */
static char *open_make_path(const char *name)
{
    unsigned char random[TOKEN_BYTES];
    char token[2 * TOKEN_BYTES + 1];

    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return NULL;
    for (size_t i = 0; i < sizeof(random); i++)
        sprintf(token + 2 * i, "%02x", random[i]);
    char *path = xasprintf("/%s/%s", token, name ? name : "trace");
    for (char *p = path + 1 + 2 * TOKEN_BYTES + 1; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", *p))
            *p = '_';
    return path;
}

static int open_listen_at(struct open_server *s, struct problem *p)
{
    s->base = event_base_new();
    s->http = s->base ? evhttp_new(s->base) : NULL;
    if (!s->http)
        return problem_set(p, -ENOMEM, PROBLEM_INTERNAL, "cannot create an HTTP server");
    evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_OPTIONS);
    evhttp_set_max_headers_size(s->http, 16 << 10);
    evhttp_set_max_body_size(s->http, 0);
    evhttp_set_gencb(s->http, open_on_request, s);
    if (evhttp_bind_socket(s->http, SERVE_ADDRESS, SERVE_PORT) == 0)
        return 0;
    problem_set(p, -errno, PROBLEM_BUSY, "cannot listen on " SERVE_ADDRESS ":%d: %s", SERVE_PORT,
                strerror(errno));
    problem_remedy(
        p, "ui.perfetto.dev can use only this port. Another profctl open, or trace_processor, may hold it:\n"
           "  ss -ltnp 'sport = :9001'\n"
           "Or download the trace with profctl get and open the file in the page.");
    return -EADDRINUSE;
}

static void open_print_link(struct client *c, const struct open_options *o, const struct open_server *s)
{
    _cleanup_(freep) char *link =
        xasprintf("%s/#!/?url=http://%s:%d%s", PERFETTO_ORIGIN, SERVE_ADDRESS, SERVE_PORT, s->path);

    if (c->json) {
        _cleanup_json_ answer = json_object();
        json_put_str(answer, "link", link);
        client_print_json(c, answer);
    } else {
        fprintf(c->out.file, "%s\n", link);
    }
    fflush(c->out.file);
    browser_show(c, link, SERVE_PORT, !o->no_browser);
}

static int open_serve(struct client *c, const struct open_options *o, struct open_server *s)
{
    int64_t timeout = o->timeout == OPTION_ABSENT ? TIMEOUT_DEFAULT : o->timeout;
    char text[UNIT_TEXT_MAX];
    struct event *interrupt = evsignal_new(s->base, SIGINT, open_on_signal, s);
    struct event *terminate = evsignal_new(s->base, SIGTERM, open_on_signal, s);

    event_add(interrupt, NULL);
    event_add(terminate, NULL);
    if (timeout != INT64_MAX)
        event_base_loopexit(s->base, &(struct timeval){.tv_sec = timeout / NS_PER_S,
                                                       .tv_usec = timeout % NS_PER_S / NS_PER_US});
    open_print_link(c, o, s);
    client_note(c, "serving the trace once, to that page only; Ctrl-C ends it");
    event_base_dispatch(s->base);
    event_free(interrupt);
    event_free(terminate);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    if (s->delivered) {
        client_note(c, "the page has loaded the trace");
        return EXIT_DONE;
    }
    client_note(c,
                s->interrupted ? "the page has not loaded the trace"
                               : "the page has not loaded the trace within %s",
                format_duration(text, timeout));
    return EXIT_FAILED;
}

/* -- What is shown ------------------------------------------------------------------------------------ */

/* Whether the page reads such a file itself; it knows no zstd, no databases of nsys and no columns. */
static bool is_for_perfetto(int fd)
{
    static const struct {
        const char *bytes;
        size_t size;
    } others[] = {
        {"\x28\xb5\x2f\xfd", 4}, {"SQLite format 3", 16}, {COLUMNS_MAGIC, sizeof(COLUMNS_MAGIC) - 1}};
    char head[16] = "";

    if (pread(fd, head, sizeof(head), 0) <= 0)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (memcmp(head, others[i].bytes, others[i].size) == 0)
            return false;
    return true;
}

/* The ranks as one trace in Chrome's format; s->fd is an empty file. An exit status. */
static int open_write_merged(struct client *c, struct named_ranks *ranks, struct open_server *s)
{
    _cleanup_(problem_done) struct problem p = {0};
    int status = ranks_settle(c, OPTION_ABSENT, ranks);

    client_release_profd(c);
    if (status == EXIT_DONE && ranks->n > 1)
        status = ranks_align(c, "auto", ranks);
    if (status != EXIT_DONE)
        return status;
    int copy = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = copy < 0 ? NULL : fdopen(copy, "w");
    if (!out) {
        problem_set(&p, -errno, PROBLEM_STORAGE, "cannot write a temporary file: %s", strerror(errno));
        closep(&copy);
        return client_fail(c, &p);
    }
    if (ranks->n > 1)
        client_note(c, "Merging %zu traces", ranks->n);
    int r = ranks_export(ranks, &EXPORT_ALL, out, NULL);
    if (fclose(out) < 0 && r >= 0)
        r = -errno;
    return r < 0 ? exporting_failed(c, "the traces", r) : EXIT_DONE;
}

/* Downloads a trace of profd into s->fd, an empty file, if the page can read its format. */
static int open_fetch_trace(struct client *c, const char *ref, struct open_server *s, bool *ret_readable)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xasprintf("/v1/traces/%s", ref);
    _cleanup_json_ trace = NULL;
    int status = client_need_profd(c);

    if (status == EXIT_DONE)
        status = client_get(c, path, NULL, &trace);
    if (status != EXIT_DONE)
        return status;
    *ret_readable = !streq(json_get_str(trace, "format"), format_name(FORMAT_NSYS_SQLITE));
    s->path = open_make_path(json_get_str(trace, "name"));
    if (!*ret_readable)
        return EXIT_DONE;
    if (download_trace(c, trace, s->fd, &p) < 0)
        return client_fail(c, &p);
    *ret_readable = is_for_perfetto(s->fd);
    return !*ret_readable && ftruncate(s->fd, 0) < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int open_file(struct client *c, const char *path, struct open_server *s, bool *ret_readable)
{
    const char *slash = strrchr(path, '/');
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return client_error(c, PROBLEM_STORAGE, NULL, "cannot open %s: %s", path, strerror(errno));
    s->path = open_make_path(slash ? slash + 1 : path);
    *ret_readable = is_for_perfetto(fd);
    if (*ret_readable) {
        close(s->fd);
        s->fd = TAKE_FD(fd);
    }
    return EXIT_DONE;
}

static int open_merge_words(struct client *c, int n_words, char **words, struct open_server *s)
{
    _cleanup_(ranks_done) struct named_ranks ranks = {0};
    int status = n_words > RANKS_MAX ? ranks_too_many(c) : EXIT_DONE;

    for (int i = 0; i < n_words && status == EXIT_DONE; i++) {
        int64_t id;
        bool is_session = access(words[i], F_OK) < 0 && parse_ref(words[i], 't', &id) == 's';
        status = is_session ? ranks_add_session(c, words[i], &ranks) : ranks_add_word(c, words[i], &ranks);
    }
    if (status == EXIT_DONE && ranks.n + ranks.n_left_out == 0) {
        return client_error(c, PROBLEM_NOT_FOUND, "profctl list-traces shows the traces.", "%s has no traces",
                            words[0]);
    }
    if (status == EXIT_DONE)
        status = open_write_merged(c, &ranks, s);
    if (status == EXIT_DONE && !s->path) {
        _cleanup_(freep) char *name = xasprintf("%s.json", n_words == 1 ? basename(words[0]) : "merged");
        s->path = open_make_path(name);
    }
    return status;
}

/* Into s->fd, and its name into s->path: a file as it is where the page can read it, everything else as one
 * trace of all ranks. */
static int open_gather(struct client *c, int n_words, char **words, struct open_server *s)
{
    struct stat st;
    bool is_path = n_words == 1 && stat(words[0], &st) == 0, is_readable = false;
    char ref[REF_TEXT_MAX];
    int64_t id;
    int status = EXIT_DONE;

    if (is_path && S_ISREG(st.st_mode)) {
        status = open_file(c, words[0], s, &is_readable);
    } else if (n_words == 1 && !is_path && parse_ref(words[0], 't', &id) == 't') {
        snprintf(ref, sizeof(ref), "t%lld", (long long)id);
        status = open_fetch_trace(c, ref, s, &is_readable);
    }
    return status != EXIT_DONE || is_readable ? status : open_merge_words(c, n_words, words, s);
}

/* What is not an id must be a file. */
static int open_check_words(struct client *c, int n_words, char **words)
{
    char ref[REF_TEXT_MAX];
    int64_t id;

    for (int i = 0; i < n_words; i++) {
        if (access(words[i], F_OK) == 0)
            continue;
        int err = errno;
        if (!parse_ref(words[i], 't', &id))
            return trace_file_cannot_open(c, words[i], err);
        if (client_parse_ref(c, words[i], 't', "st", ref) < 0)
            return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* The page of profd hands the trace to Perfetto. False, and nothing is done, where it has none. */
static bool open_on_page(struct client *c, const struct open_options *o, const char *word, int *ret_status)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ code = NULL;
    int64_t id;

    if (access(word, F_OK) == 0 || parse_ref(word, 't', &id) != 't')
        return false;
    *ret_status = client_need_profd(c);
    if (*ret_status != EXIT_DONE)
        return true;
    if (connection_is_on_bus(c->connection) || web_ask_code(c, NULL, &code, &p) < 0)
        return false;
    _cleanup_(freep) char *path = xasprintf("/traces/t%lld?perfetto=1", (long long)id);
    *ret_status = web_show(c, code, &(struct web_view){.path = path, .may_open = !o->no_browser});
    return true;
}

static int open_run(struct client *c, const void *values, int n_words, char **words)
{
    _cleanup_(problem_done) struct problem p = {0};
    const struct open_options *o = values;
    _cleanup_(open_server_done) struct open_server s = {.fd = -1};
    _cleanup_(freep) char *newest = NULL;
    int status = open_check_words(c, n_words, words);

    if (status == EXIT_DONE)
        status = client_words_or_newest(c, &n_words, &words, &newest);
    if (status != EXIT_DONE)
        return status;
    if (n_words == 1 && !o->perfetto && open_on_page(c, o, words[0], &status))
        return status;
    /* Before the download, which may take long: the port may be busy. */
    if (open_listen_at(&s, &p) < 0 || (s.fd = open_temp_file(&p)) < 0)
        return client_fail(c, &p);
    status = open_gather(c, n_words, words, &s);
    if (status != EXIT_DONE || !s.path)
        return status != EXIT_DONE ? status : EXIT_FAILED;
    client_release_profd(c);
    s.size = lseek(s.fd, 0, SEEK_END);
    return open_serve(c, o, &s);
}

const struct verb verb_open = {
    .name = "open",
    .summary = "Show traces in ui.perfetto.dev, in your browser only",
    .details = "Several traces and the ranks of a session become one trace on one clock, served over "
               "loopback; the web "
               "page of profd hands over a single trace. Default: the newest session that has traces.",
    .words = "[TRACE|SESSION|FILE...]",
    .default_kind = 't',
    .max_words = WORDS_UNLIMITED,
    VERB_OPTIONS(open_options, struct open_options),
    .run = open_run,
};
