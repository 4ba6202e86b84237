/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/connection.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/cli/text.h"
#include "client/transport/bus.h"
#include "client/transport/endpoint.h"
#include "client/transport/unix_http.h"
#include "proto/bus_methods.h"
#include "version.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#define CONNECT_TIMEOUT_MS 5000L
/* Discovery of a large fleet with dead workers takes minutes. */
#define CALL_TIMEOUT_MS 600000L
/* A download without a byte for this time has failed; over a network, one that is slower than a byte per second. */
#define STALL_S       60L
#define SHOW_AFTER_NS NS_PER_S
#define EXCERPT_BYTES 200
#define BLOCK_BYTES   (256 << 10)

struct connection {
    struct endpoint endpoint; /* empty on a bus */
    struct credentials credentials;
    struct bus_connection *bus; /* NULL: by HTTP */
    CURL *curl;                 /* NULL before the first request over a network */
    pid_t curl_pid;             /* of the process that made it */
    CURL *inherited;            /* that of the parent, in a child of fork(): not to be used */
    pthread_mutex_t range_lock; /* of connection_download_range() */
    struct screen *talk;
    char *title; /* with its context; NULL: it has none */
    /* of the last response */
    long status;
    char *link; /* value of its Link field; NULL: none */
    char error[CURL_ERROR_SIZE];
};

int connection_new(const char *socket, const char *host, const struct credential_options *credentials,
                   struct screen *talk, struct connection **ret, struct problem *p)
{
    _cleanup_(endpoint_done) struct endpoint endpoint = {0};
    struct credentials shown = {0};

    int r = endpoint_find(socket, host, &endpoint, p);
    if (r == 0 && !endpoint.socket && credentials)
        r = credentials_find(credentials, endpoint.url, &shown, p);
    if (r < 0)
        return r;
    struct connection *d = xcalloc(1, sizeof(*d));
    pthread_mutex_init(&d->range_lock, NULL);
    d->endpoint = endpoint;
    endpoint = (struct endpoint){0};
    d->credentials = shown;
    d->talk = talk;
    *ret = d;
    return 0;
}

int connection_new_on_bus(const char *which, struct screen *talk, struct connection **ret, struct problem *p)
{
    struct bus_connection *bus;
    int r = bus_connection_new(which, &bus, p);
    if (r < 0)
        return r;
    struct connection *d = xcalloc(1, sizeof(*d));
    *d = (struct connection){.bus = bus, .talk = talk};
    *ret = d;
    return 0;
}

struct connection *connection_free(struct connection *d)
{
    if (!d)
        return NULL;
    bus_connection_free(d->bus);
    if (d->curl)
        curl_easy_cleanup(d->curl);
    free(d->link);
    endpoint_done(&d->endpoint);
    credentials_done(&d->credentials);
    free(d->title);
    free(d);
    return NULL;
}

void connection_set_context(struct connection *d, const char *name)
{
    free(d->title);
    d->title = xasprintf("%s (context %s)", d->endpoint.socket ? d->endpoint.socket : d->endpoint.url, name);
}

const char *connection_name(const struct connection *d)
{
    if (d->bus)
        return BUS_NAME;
    if (d->title)
        return d->title;
    return d->endpoint.socket ? d->endpoint.socket : d->endpoint.url;
}

bool connection_is_local(const struct connection *d)
{
    return d->bus || d->endpoint.socket;
}

bool connection_is_on_bus(const struct connection *d)
{
    return d->bus != NULL;
}

bool connection_has_events(const struct connection *d)
{
    return !d->bus;
}

const char *connection_socket(const struct connection *d)
{
    return d->endpoint.socket;
}

const char *connection_url(const struct connection *d)
{
    return d->endpoint.url;
}

void connection_prepare(const struct connection *d, CURL *curl, const char *path)
{
    _cleanup_(freep) char *url = xasprintf("%s%s", d->endpoint.url, path);

    curl_easy_setopt(curl, CURLOPT_URL, url);
    /* Of a stream of events: calls do without libcurl. */
    if (d->endpoint.socket)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, d->endpoint.socket);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "profctl/" PROFD_VERSION);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    credentials_prepare(&d->credentials, curl);
}

#define NO_CONNECTION  "cannot reach profd at %s: %s"
#define NO_RESPONSE    "incomplete response from profd at %s: %s"
#define TLS_FAILED     "TLS handshake with profd at %s failed: %s"
#define TLS_UNVERIFIED "TLS certificate verification failed for %s: %s"

/* What failed and what to do about it, by the error of curl and, where it is not 0, that of the system; the first
 * line that fits. */
static const struct transfer_failure {
    CURLcode code;
    int os_error;
    const char *what, *remedy;
} transfer_failures[] = {
    {CURLE_COULDNT_RESOLVE_HOST, 0, NO_CONNECTION,
     "Check the host name in the URL: getent hosts NAME shows whether this machine resolves it."},
    {CURLE_COULDNT_CONNECT, ECONNREFUSED, NO_CONNECTION,
     "Check the port; profd listens on TCP only if profd.conf sets [profd] listen=."},
    {CURLE_COULDNT_CONNECT, 0, NO_CONNECTION,
     "Check the address, and that no firewall between the machines blocks the port."},
    {CURLE_PEER_FAILED_VERIFICATION, 0, TLS_UNVERIFIED,
     "Pass the CA that signed the certificate with --cacert FILE; the certificate must contain the host name "
     "of "
     "the URL."},
    {CURLE_SSL_CACERT_BADFILE, 0, "cannot use the CA certificates for %s: %s",
     "Pass a file of CA certificates in PEM with --cacert FILE."},
    {CURLE_SSL_CERTPROBLEM, 0, "cannot use the client certificate for %s: %s",
     "Pass your certificate with --cert FILE and its private key with --key FILE."},
    {CURLE_SSL_CONNECT_ERROR, 0, TLS_FAILED,
     "Try http://: profd serves https:// only if profd.conf sets [http] cert_file=."},
};

static int socket_problem(const struct connection *d, int os_error, struct problem *p)
{
    if (os_error == EACCES || os_error == EPERM)
        problem_remedy(
            p, "Members of group profd may use it: sudo usermod -aG profd \"$USER\", then log in again.");
    else if (os_error == ENOENT && d->endpoint.is_named)
        problem_remedy(p, d->title ? "Check the socket of the context: profctl context list shows it."
                                   : "Check --socket or $PROFD_SOCKET, or unset it.");
    else
        problem_remedy(p, "Start it: systemctl enable --now profd, or run profd in another terminal;\n"
                          "name another with --socket PATH or --host URL.");
    return problem_set(p, -EIO, PROBLEM_UPSTREAM, NO_CONNECTION, connection_name(d), strerror(os_error));
}

static int response_problem(const struct connection *d, const char *why, struct problem *p)
{
    problem_remedy(p, "Retry; journalctl -u profd shows whether profd ended.");
    return problem_set(p, -EIO, PROBLEM_UPSTREAM, NO_RESPONSE, connection_name(d), why);
}

static int transfer_problem(const struct connection *d, CURLcode code, struct problem *p)
{
    long os_error = 0;
    curl_off_t connected_us = 0;
    bool is_cut = code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR;
    const char *why = *d->error ? d->error : curl_easy_strerror(code);

    curl_easy_getinfo(d->curl, CURLINFO_OS_ERRNO, &os_error);
    curl_easy_getinfo(d->curl, CURLINFO_CONNECT_TIME_T, &connected_us);
    if (code == CURLE_OPERATION_TIMEDOUT && connected_us == 0)
        code = CURLE_COULDNT_CONNECT;
    else if (code == CURLE_COULDNT_CONNECT && os_error)
        why = strerror((int)os_error);
    for (size_t i = 0; i < ARRAY_SIZE(transfer_failures); i++) {
        const struct transfer_failure *f = &transfer_failures[i];
        if (f->code != code || (f->os_error && f->os_error != os_error))
            continue;
        problem_remedy(p, "%s", f->remedy);
        return problem_set(p, -EIO, PROBLEM_UPSTREAM, f->what, connection_name(d), why);
    }
    /* A port that requires TLS, or a client certificate, closes the connection. */
    if (is_cut && starts_with(d->endpoint.url, "https:"))
        problem_remedy(p, "profd may require a client certificate: --cert FILE and --key FILE.");
    else if (is_cut)
        problem_remedy(p, "Try --host https://: the port may require TLS.");
    else
        return response_problem(d, why, p);
    return problem_set(p, -EIO, PROBLEM_UPSTREAM, NO_RESPONSE, connection_name(d), why);
}

struct connection_request {
    const char *method, *path, *json; /* NULL: no body */
    const char *range;                /* "0-99"; NULL: all */
};

/* The response of one call. */
struct answer {
    struct connection *connection;
    const char *doing;
    int64_t begin_ns;
    char *data;
    size_t size, capacity;
    /* of a download: receives the body of a successful response */
    int (*write)(const void *data, size_t size, void *arg);
    void *arg;
    int error;
};

static int answer_keep(struct answer *a, const char *data, size_t n)
{
    if (a->size + n > ANSWER_BYTES_MAX)
        return -EFBIG;
    if (a->size + n + 1 > a->capacity) {
        a->capacity = MAX(2 * a->capacity, a->size + n + 1);
        a->data = xrealloc(a->data, a->capacity, 1);
    }
    memcpy(a->data + a->size, data, n);
    a->size += n;
    a->data[a->size] = '\0';
    return 0;
}

static int answer_take(long status, const char *data, size_t n, void *arg)
{
    struct answer *a = arg;

    a->error = a->write && status < 300 ? a->write(data, n, a->arg) : answer_keep(a, data, n);
    return a->error;
}

/* Called while waiting for a response; a negative value ends the call. */
static int answer_on_tick(void *arg)
{
    struct answer *a = arg;
    int64_t elapsed_ns = mono_ns() - a->begin_ns;
    sigset_t pending;

    if (sigpending(&pending) == 0 && (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM))) {
        a->error = -EINTR;
        return -EINTR;
    }
    if (a->doing && a->connection->talk && a->connection->talk->is_terminal && elapsed_ns >= SHOW_AFTER_NS) {
        _cleanup_(freep) char *line = xasprintf("%s (%d s)\n", a->doing, (int)(elapsed_ns / NS_PER_S));
        screen_draw(a->connection->talk, line);
    }
    return 0;
}

/* -- Over a socket ------------------------------------------------------------------------------------- */

static int connection_exchange_local(struct connection *d, const struct connection_request *call,
                                     struct answer *a, struct problem *p)
{
    const struct unix_request q = {.socket = d->endpoint.socket,
                                   .method = call->method,
                                   .path = call->path,
                                   .json = call->json,
                                   .range = call->range,
                                   .timeout_ns = a->write ? 0 : CALL_TIMEOUT_MS * NS_PER_MS,
                                   .silence_ns = a->write ? STALL_S * NS_PER_S : 0,
                                   .tick = answer_on_tick,
                                   .take = answer_take,
                                   .arg = a};
    struct unix_response response;
    int r = unix_exchange(&q, &response);

    d->status = response.status;
    d->link = response.link;
    if (r == 0 || a->error < 0)
        return 0;
    return response.is_connected ? response_problem(d, response.why, p) : socket_problem(d, -r, p);
}

/* -- Over a network ------------------------------------------------------------------------------------ */

static size_t answer_on_body(char *data, size_t one, size_t n, void *arg)
{
    struct answer *a = arg;
    long status = 0;

    curl_easy_getinfo(a->connection->curl, CURLINFO_RESPONSE_CODE, &status);
    return answer_take(status, data, n, arg) < 0 ? 0 : n;
}

static int answer_on_progress(void *arg, curl_off_t total, curl_off_t done, curl_off_t up_total,
                              curl_off_t up)
{
    return answer_on_tick(arg) < 0;
}

static struct curl_slist *connection_prepare_call(struct connection *d, const struct connection_request *call,
                                                  struct answer *a)
{
    struct curl_slist *headers = curl_slist_append(NULL, "Expect:");

    /* A child of fork() must not go on with the connection of its parent: it is left to the parent, not closed. */
    if (d->curl && d->curl_pid != getpid())
        d->inherited = TAKE_PTR(d->curl);
    if (!d->curl && !(d->curl = curl_easy_init()))
        abort();
    d->curl_pid = getpid();
    curl_easy_reset(d->curl);
    connection_prepare(d, d->curl, call->path);
    if (call->json)
        headers = curl_slist_append(headers, "Content-Type: application/json");
    if (!streq(call->method, "GET"))
        curl_easy_setopt(d->curl, CURLOPT_POSTFIELDS, call->json ? call->json : "");
    curl_easy_setopt(d->curl, CURLOPT_CUSTOMREQUEST, call->method);
    curl_easy_setopt(d->curl, CURLOPT_RANGE, call->range);
    curl_easy_setopt(d->curl, CURLOPT_HTTPHEADER, headers);
    if (a->write) {
        curl_easy_setopt(d->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(d->curl, CURLOPT_LOW_SPEED_TIME, STALL_S);
    } else {
        curl_easy_setopt(d->curl, CURLOPT_TIMEOUT_MS, CALL_TIMEOUT_MS);
    }
    curl_easy_setopt(d->curl, CURLOPT_ERRORBUFFER, d->error);
    curl_easy_setopt(d->curl, CURLOPT_WRITEFUNCTION, answer_on_body);
    curl_easy_setopt(d->curl, CURLOPT_WRITEDATA, a);
    curl_easy_setopt(d->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(d->curl, CURLOPT_XFERINFOFUNCTION, answer_on_progress);
    curl_easy_setopt(d->curl, CURLOPT_XFERINFODATA, a);
    return headers;
}

static int connection_exchange_remote(struct connection *d, const struct connection_request *call,
                                      struct answer *a, struct problem *p)
{
    struct curl_slist *headers = connection_prepare_call(d, call, a);
    struct curl_header *link;

    *d->error = '\0';
    CURLcode code = curl_easy_perform(d->curl);
    curl_slist_free_all(headers);
    curl_easy_getinfo(d->curl, CURLINFO_RESPONSE_CODE, &d->status);
    if (curl_easy_header(d->curl, "Link", 0, CURLH_HEADER, -1, &link) == CURLHE_OK)
        replace_str(&d->link, link->value);
    return code == CURLE_OK || a->error < 0 ? 0 : transfer_problem(d, code, p);
}

/* -- Responses ----------------------------------------------------------------------------------------- */

/* Adds profd's remarks to the remedy, without those that the error contains already. */
static void problem_add_remarks(const json_t *remarks, const char *detail, struct problem *p)
{
    size_t i;
    json_t *remark;

    json_array_foreach(remarks, i, remark) {
        const char *text = json_get_str(remark, "text"), *worker = json_get_str(remark, "worker");
        const char *remedy = json_get_str(remark, "remedy"), *before = p->remedy ? p->remedy : "";
        if (!json_get_bool(remark, "refuses", false) || !text || strstr(detail, text) || strstr(before, text))
            continue;
        append_str(&p->remedy, "%s%s%s%s%s%s", *before ? "\n" : "", worker ? worker : "", worker ? ": " : "",
                   text, remedy ? "\n  " : "", remedy ? remedy : "");
    }
}

int problem_from_answer(long http_status, const char *data, size_t size, struct problem *p)
{
    char error[200];
    _cleanup_json_ j = json_parse(data ? data : "", size, error);
    const char *code = json_get_str(j, "code"), *detail = json_get_str(j, "detail");

    if (!code || !detail) {
        _cleanup_(freep) char *text = xstrndup(data ? data : "", MIN(size, (size_t)EXCERPT_BYTES));
        problem_remedy(p, "Check that a profd of the same version listens there: profctl status");
        return problem_set(p, -EPROTO, http_status == 404 ? PROBLEM_NOT_FOUND : PROBLEM_INTERNAL,
                           "unexpected response %ld from profd%s%s", http_status, size ? ": " : "", text);
    }
    const char *remedy = json_get_str(j, "remedy");
    problem_set(p, -EREMOTEIO, problem_kind_of(code), "%s", detail);
    if (remedy)
        problem_remedy(p, "%s", remedy);
    problem_add_remarks(json_object_get(j, "remarks"), detail, p);
    return -EREMOTEIO;
}

static int answer_check(struct connection *d, const struct answer *a, struct problem *p)
{
    if (a->error == -EFBIG)
        return problem_set(p, -EFBIG, PROBLEM_UPSTREAM, "the response of profd at %s is larger than %u MiB",
                           connection_name(d), ANSWER_BYTES_MAX >> 20);
    if (a->error == -EINTR)
        return problem_set(p, -EINTR, PROBLEM_INTERNAL, "interrupted");
    if (a->error < 0)
        return problem_set(p, a->error, PROBLEM_STORAGE, "cannot write the downloaded data: %s",
                           strerror(-a->error));
    if (d->status >= 300)
        return problem_from_answer(d->status, a->data, a->size, p);
    return 0;
}

static int connection_exchange(struct connection *d, const struct connection_request *call, struct answer *a,
                               struct problem *p)
{
    replace_str(&d->link, NULL);
    int r = d->endpoint.socket ? connection_exchange_local(d, call, a, p)
                               : connection_exchange_remote(d, call, a, p);
    if (a->doing && d->talk)
        screen_clear(d->talk);
    return r < 0 ? r : answer_check(d, a, p);
}

/* -- On a bus ----------------------------------------------------------------------------------------- */

static int answer_copy(int fd, int64_t size, struct answer *a)
{
    _cleanup_(freep) char *block = xcalloc(BLOCK_BYTES, 1);
    ssize_t n = 1;

    while (size > 0 && n > 0 && a->error == 0) {
        n = read(fd, block, (size_t)MIN(size, (int64_t)BLOCK_BYTES));
        if (n > 0) {
            a->error = a->write(block, (size_t)n, a->arg);
            size -= n;
        }
        if (a->error == 0)
            answer_on_tick(a);
    }
    return n < 0 ? -errno : 0;
}

static int connection_download_on_bus(struct connection *d, const char *path, struct answer *a,
                                      struct problem *p)
{
    const struct bus_request q = {.method = "GET", .path = path, .tick = answer_on_tick, .arg = a};
    _cleanup_(closep) int fd = -1;
    int64_t size;

    int r = bus_connection_open(d->bus, &q, &fd, &size, p);
    if (r >= 0)
        r = answer_copy(fd, size, a);
    if (r < 0 && p->kind == PROBLEM_NONE)
        return problem_set(p, r, PROBLEM_STORAGE, "cannot read the file that profd opened: %s", strerror(-r));
    d->status = 200;
    return r < 0 ? r : answer_check(d, a, p);
}

/* -- Calls -------------------------------------------------------------------------------------------- */

int connection_call(struct connection *d, const char *method, const char *path, const json_t *body,
                    const char *doing, json_t **ret, struct problem *p)
{
    struct answer a = {.connection = d, .doing = doing, .begin_ns = mono_ns()};
    char error[200];

    if (d->bus) {
        int called = bus_connection_call(
            d->bus, &(struct bus_request){method, path, body, answer_on_tick, &a}, ret, &d->status, p);
        if (doing && d->talk)
            screen_clear(d->talk);
        return called;
    }
    _cleanup_(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    int r = connection_exchange(d, &(struct connection_request){method, path, text}, &a, p);
    if (r == 0 && ret) {
        *ret = json_parse(a.data ? a.data : "", a.size, error);
        if (!*ret)
            r = problem_set(p, -EPROTO, PROBLEM_UPSTREAM, "invalid JSON from profd at %s: %s",
                            connection_name(d), error);
    }
    free(a.data);
    return r;
}

long connection_status(const struct connection *d)
{
    return d->status;
}

int connection_download(struct connection *d, const char *path,
                        int (*write)(const void *data, size_t size, void *arg), void *arg, struct problem *p)
{
    struct answer a = {.connection = d, .begin_ns = mono_ns(), .write = write, .arg = arg};

    if (d->bus)
        return connection_download_on_bus(d, path, &a, p);
    int r = connection_exchange(d, &(struct connection_request){"GET", path, NULL}, &a, p);
    free(a.data);
    return r;
}

int connection_download_range(struct connection *d, const char *path, int64_t offset, int64_t size,
                              int (*write)(const void *data, size_t size, void *arg), void *arg,
                              struct problem *p)
{
    struct answer a = {.connection = d, .begin_ns = mono_ns(), .write = write, .arg = arg};
    char range[64];

    if (d->bus)
        return problem_set(p, -EOPNOTSUPP, PROBLEM_UNSUPPORTED, "a bus has no parts of files");
    snprintf(range, sizeof(range), "%lld-%lld", (long long)offset, (long long)(offset + size - 1));
    pthread_mutex_lock(&d->range_lock);
    int r = connection_exchange(d, &(struct connection_request){"GET", path, NULL, range}, &a, p);
    if (r == 0 && d->status != 206)
        r = problem_set(p, -EPROTO, PROBLEM_UPSTREAM, "profd at %s answers %ld instead of a part of a file",
                        connection_name(d), d->status);
    pthread_mutex_unlock(&d->range_lock);
    free(a.data);
    return r;
}

char *connection_next_page(const struct connection *d)
{
    const char *end = d->link ? strstr(d->link, ">; rel=\"next\"") : NULL;

    return end && starts_with(d->link, "</") ? xstrndup(d->link + 1, (size_t)(end - d->link - 1)) : NULL;
}

bool connection_came_from_archive(const struct connection *d)
{
    return d->link && starts_with(d->link, "</v1/archive>; rel=\"via\"");
}

void url_add(char **path, const char *key, const char *value)
{
    if (!value)
        return;
    append_str(path, "%c%s=", strchr(*path, '?') ? '&' : '?', key);
    append_url_escaped(path, value);
}

void url_add_int(char **path, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    url_add(path, key, text);
}

void url_add_members(char **path, const json_t *members)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)members, key, value) {
        if (json_is_integer(value))
            url_add_int(path, key, json_integer_value(value));
        else if (json_is_array(value))
            for (size_t i = 0; i < json_array_size(value); i++)
                url_add(path, key, json_string_value(json_array_get(value, i)));
        else
            url_add(path, key, json_is_true(value) ? "true" : json_string_value(value));
    }
}

char *ref_path(const char *ref)
{
    return xasprintf("/v1/%s/%s", ref[0] == 's' ? "sessions" : ref[0] == 'r' ? "runs" : "traces", ref);
}

int client_call(struct client *c, const char *method, const char *path, const json_t *body, const char *doing,
                json_t **ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    json_t *j = NULL;

    if (connection_call(c->connection, method, path, body, doing, &j, &p) < 0)
        return client_fail(c, &p);
    *ret = j;
    return EXIT_DONE;
}

int client_get(struct client *c, const char *path, const char *doing, json_t **ret)
{
    return client_call(c, "GET", path, NULL, doing, ret);
}

int client_get_ref(struct client *c, const char *ref, json_t **ret)
{
    _cleanup_(freep) char *path = ref_path(ref);

    return client_get(c, path, NULL, ret);
}
