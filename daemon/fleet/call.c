/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/call.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/http_reason.h"
#include "base/log.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/credentials.h"
#include "daemon/fleet/curl_handle.h"
#include "daemon/fleet/curl_loop.h"
#include "daemon/fleet/names.h"
#include "daemon/fleet/url.h"
#include "version.h"
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/resource.h>

#define HEADER_VALUE_MAX           64
#define RETRY_AFTER_LONGEST_S      86400L
#define CONNECT_TIMEOUT_DEFAULT_NS (3 * NS_PER_S)
#define ANSWER_HEAD_MAX            (64 << 10)
/* The year 2116. A later date makes no sense, and twice its nanoseconds would overflow int64_t. */
#define DATE_MAX_S (INT64_MAX / NS_PER_S / 2)
/* A shorter one would be found in words that have nothing to do with it. */
#define TOKEN_HIDDEN_MIN 6
#define BODY_EXCERPT_MAX 400
/* Of the memory for answers: the share of one account, and how long an answer is read while others wait. */
#define ANSWERS_ACCOUNT_SHARE 2
#define ANSWER_TURN_NS        (10 * NS_PER_S)
/* What the kernel keeps of an answer that is not read: it may grow to megabytes of each connection otherwise.
 */
#define SOCKET_BUFFER_SIZE  (64 << 10)
#define RECEIVE_BUFFER_SIZE 8192L
#define OPEN_FILES_DEFAULT  1024
/* Idle connections may take 1/IDLE_CONNECTIONS_SHARE of the file descriptors. */
#define IDLE_CONNECTIONS_SHARE 4
/* Idle time after which connections are closed. curl does not watch idle connections: one that a worker has
 * closed would otherwise stay open until the next call, possibly for days. */
#define REST_NS (15 * NS_PER_S)

struct call {
    LIST_ENTRY(call) link;
    struct caller *caller;
    CURL *easy;
    struct curl_slist *headers, *addresses; /* of its name */
    bool in_multi;
    struct name_query *query; /* of its name, while it waits for that */
    struct event *failed;     /* it failed before it was sent, and ends in the next iteration */
    int64_t deadline_ns;
    bool once;         /* must not be sent a second time */
    unsigned n_sent;   /* how often it was */
    unsigned n_opened; /* sockets to addresses that the policy allows */
    size_t head_size;
    uint64_t account;
    struct answer_body body;
    char *own_error, *token;
    char *refused; /* why the policy refused an address, the latest one */
    const char *refused_remedy;
    char curl_error[CURL_ERROR_SIZE];
    struct call_result result;
    void (*done)(const struct call_result *result, void *arg);
    void *arg;
};
LIST_HEAD(call_list, call);

struct caller {
    struct event_base *base;
    struct curl_loop *loop; /* NULL before the first call and while there are none */
    struct event *rest;
    struct name_resolver *names;
    struct answer_budget *answers;
    struct call_list calls;
    struct network_policy policy;
    uint64_t n_refused;
};

static void call_mark_answered(struct call *call)
{
    call->result.answered_mono_ns = mono_ns();
    call->result.answered_at_ns = wall_ns();
}

/* -- The network policy ------------------------------------------------------------------------------- */

/* NULL: an address of neither IP. */
static bool call_refuse_address(struct call *call, const struct in6_addr *address)
{
    const struct network_refusal *refusal = network_refuses(&call->caller->policy, address);
    char text[ADDRESS_TEXT_SIZE] = "an address of another family";

    if (!refusal)
        return false;
    if (address)
        address_format(address, text);
    free(call->refused);
    call->refused = xasprintf("%s %s", text, refusal->why);
    call->refused_remedy = refusal->remedy;
    return true;
}

static curl_socket_t call_open_socket(const struct curl_sockaddr *address)
{
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);

    if (fd < 0)
        return CURL_SOCKET_BAD;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){SOCKET_BUFFER_SIZE}, sizeof(int));
    return fd;
}

/* Checks the address that curl connects to: what the name resolved to before does not matter. */
static curl_socket_t call_on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct call *call = arg;
    struct in6_addr ip;

    if (call_refuse_address(call, address_of_socket(&address->addr, &ip) ? &ip : NULL))
        return CURL_SOCKET_BAD;
    call->n_opened++;
    return call_open_socket(address);
}

/* A kept connection was opened under the policy of its time. */
static bool call_refuse_peer(struct call *call, const char *ip)
{
    _cleanup_(freep) char *plain = xstrndup(ip, strcspn(ip, "%")); /* without the link of a link-local one */
    struct in6_addr address;

    return !address_of_host(plain, &address) || call_refuse_address(call, &address);
}

/* The log stays readable where a router lists a thousand of them. */
static void call_note_refusal(struct call *call)
{
    struct caller *c = call->caller;
    char *url = NULL;

    curl_easy_getinfo(call->easy, CURLINFO_EFFECTIVE_URL, &url);
    c->n_refused++;
    if ((c->n_refused & (c->n_refused - 1)) == 0)
        log_warning("%s: %s (%" PRIu64 " calls refused so far)", url ? url : "?", call->refused,
                    c->n_refused);
}

void caller_set_policy(struct caller *c, const struct network_policy *policy)
{
    network_done(&c->policy);
    network_copy(policy, &c->policy);
}

void caller_fix_name(struct caller *c, const char *host, const struct name_answer *answer)
{
    names_fix(c->names, host, answer);
}

uint64_t caller_refusals(const struct caller *c)
{
    return c->n_refused;
}

/* -- What curl calls ---------------------------------------------------------------------------------- */

/* Before each sending. libcurl sends again by itself where a kept connection turned out to be closed. */
static int call_on_before_send(void *arg, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
    struct call *call = arg;

    if (call_refuse_peer(call, remote_ip)) {
        call->n_opened = 0;
        return CURL_PREREQFUNC_ABORT;
    }
    if (call->once && call->n_sent > 0)
        return CURL_PREREQFUNC_ABORT;
    call->n_sent++;
    call->result.sent_mono_ns = mono_ns();
    call->result.sent_at_ns = wall_ns();
    return CURL_PREREQFUNC_OK;
}

/* The value of a header line that has this name ("date:"), up to its bound; "" where it is another header. */
static void header_value(const char *line, size_t size, const char *name, char value[static HEADER_VALUE_MAX])
{
    size_t n = strlen(name);

    value[0] = '\0';
    if (size > n && strncasecmp(line, name, n) == 0)
        snprintf(value, HEADER_VALUE_MAX, "%.*s", (int)(size - n), line + n);
}

static size_t call_on_header(char *line, size_t size, size_t n, void *arg)
{
    struct call *call = arg;
    char value[HEADER_VALUE_MAX];

    size *= n;
    call->head_size += size;
    if (call->head_size > ANSWER_HEAD_MAX) {
        replace_str(&call->own_error, "the answer's head is too long");
        return 0;
    }
    call_mark_answered(call);
    header_value(line, size, "date:", value);
    if (value[0]) {
        time_t when = curl_getdate(value, NULL);
        call->result.date_s = when > 0 && when < DATE_MAX_S ? when : 0;
    }
    header_value(line, size, "retry-after:", value);
    if (value[0]) {
        long after = strtol(value, NULL, 10);
        call->result.retry_after_s = MIN(MAX(after, 0L), RETRY_AFTER_LONGEST_S);
    }
    return size;
}

/* libcurl keeps a piece that is refused, and delivers it again: eight kilobytes at most, for nothing that it
 * is requested here is compressed. */
static size_t call_on_body(char *data, size_t size, size_t n, void *arg)
{
    struct call *call = arg;
    const struct answer_asker asker = {call->caller->answers, call->account, call};
    size_t before = call->body.size;
    curl_off_t announced = -1;

    call_mark_answered(call);
    curl_easy_getinfo(call->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    if (answer_body_add(&call->body, &asker, announced, data, size * n) == ANSWER_WAITS)
        return CURL_WRITEFUNC_PAUSE;
    return call->body.size - before;
}

/* The body of an error answer is stored and shown. Masks the token in it, because a server may quote the
 * request.
 */
static void call_hide_token(struct call *call)
{
    size_t n = call->token ? strlen(call->token) : 0;

    if (!call->body.text || n < TOKEN_HIDDEN_MIN || call->result.status < 300)
        return;
    char *end = call->body.text + call->body.size, *at = call->body.text;
    while ((at = memmem(at, (size_t)(end - at), call->token, n))) {
        memset(at, '*', n);
        at += n;
    }
}

static void call_release(struct call *call)
{
    LIST_REMOVE(call, link);
    name_query_free(call->query);
    if (call->failed)
        event_free(call->failed);
    if (call->in_multi)
        curl_loop_remove(call->caller->loop, call->easy);
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    curl_slist_free_all(call->addresses);
    answer_body_done(&call->body);
    free(call->own_error);
    free(call->refused);
    secret_free(call->token);
    free(call);
}

void call_cancel(struct call *call)
{
    if (!call)
        return;
    struct caller *c = call->caller;
    call_release(call);
    if (LIST_EMPTY(&c->calls)) {
        struct timeval rest = timeval_of(REST_NS);
        event_add(c->rest, &rest);
    }
}

static void call_end(struct call *call)
{
    struct call_result *r = &call->result;
    char text[160], *url = NULL;

    if (r->err != 0 || r->answered_mono_ns == 0)
        call_mark_answered(call);
    if (call->body.share)
        answer_share_settle(call->body.share);
    call_hide_token(call);
    r->body = call->body.text ? call->body.text : "";
    r->body_size = call->body.size;
    r->call = call;
    curl_easy_getinfo(call->easy, CURLINFO_EFFECTIVE_URL, &url);
    log_debug("%s: %s", url ? url : "?", call_result_text(r, text, sizeof(text)));
    call->done(r, call->arg);
    call_cancel(call);
}

static void call_on_failed(evutil_socket_t fd, short what, void *arg)
{
    call_end(arg);
}

/* Ends the call in the next iteration of the event loop, without curl. */
static void call_fail(struct call *call, int err)
{
    call->result.err = err;
    call->result.error = call->own_error;
    call->failed = evtimer_new(call->caller->base, call_on_failed, call);
    if (!call->failed)
        abort(); /* as base/alloc.h */
    event_active(call->failed, EV_TIMEOUT, 0);
}

static void call_on_ended(void *private, CURLcode code)
{
    struct call *call = private;
    struct call_result *r = &call->result;
    long status = 0;

    r->cut = call->body.cut;
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    r->status = status >= 200 ? (int)status : 0;
    if (code == CURLE_OK && r->status == 0) {
        r->err = -EPROTO;
        r->error = "the answer has no HTTP status";
    } else if (code != CURLE_OK && call->refused && call->n_opened == 0) {
        call_note_refusal(call);
        r->err = -EPERM;
        r->error = call->refused;
        r->remedy = call->refused_remedy;
    } else if (code == CURLE_UNSUPPORTED_PROTOCOL && call->n_sent > 0) {
        r->err = -EPROTO;
        r->error = "the answer is not HTTP";
    } else if (code == CURLE_ABORTED_BY_CALLBACK) {
        r->err = -ECONNRESET;
        r->error = "the connection was closed before an answer came";
    } else if (code != CURLE_OK && !call->body.cut) {
        r->err = curl_handle_errno(call->easy, code);
        r->error = call->own_error       ? call->own_error
                   : call->curl_error[0] ? call->curl_error
                                         : curl_easy_strerror(code);
    }
    call_end(call);
}

/* -- The memory for answers --------------------------------------------------------------------------- */

static void call_on_granted(void *arg)
{
    struct call *call = arg;
    CURLcode code = curl_easy_pause(call->easy, CURLPAUSE_CONT);

    /* What libcurl had kept was delivered by this, and was too much or too late. */
    if (code != CURLE_OK)
        call_on_ended(call, code);
}

static void call_on_expired(void *arg)
{
    struct call *call = arg;

    call->result.err = -ENOBUFS;
    call->result.error = "its answer took too long while others waited for the memory that it held";
    call_end(call);
}

static struct answer_limits answer_limits_of(int64_t bytes)
{
    return (struct answer_limits){
        .all = (size_t)bytes, .each = (size_t)bytes / ANSWERS_ACCOUNT_SHARE, .turn_ns = ANSWER_TURN_NS};
}

void caller_set_answers_max(struct caller *c, int64_t bytes)
{
    const struct answer_limits limits = answer_limits_of(bytes);

    answer_budget_set_limits(c->answers, &limits);
}

struct answer_usage caller_answers(const struct caller *c)
{
    return answer_budget_usage(c->answers);
}

struct answer_body call_result_take(const struct call_result *r)
{
    struct answer_body body = r->call->body;

    r->call->body = (struct answer_body){0};
    return body;
}

/* -- Sending ----------------------------------------------------------------------------------------- */

static long idle_connections_max(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return OPEN_FILES_DEFAULT;
    return MAX(1L, (long)limit.rlim_cur / IDLE_CONNECTIONS_SHARE);
}

static void caller_on_broken(void *arg, CURLMcode code);

/* Out of memory aborts, as base/alloc.h. */
static void caller_open_loop(struct caller *c)
{
    static const struct curl_loop_ops ops = {call_on_ended, caller_on_broken};

    if (curl_loop_new(c->base, idle_connections_max(), &ops, c, &c->loop) < 0)
        abort();
}

static long timeout_ms(int64_t duration_ns)
{
    return (long)MAX(INT64_C(1), duration_ns / NS_PER_MS);
}

/* To curl; -EIO where it does not take the call. */
static int call_send(struct call *call)
{
    struct caller *c = call->caller;

    if (!c->loop)
        caller_open_loop(c);
    if (call->deadline_ns != DEADLINE_NEVER)
        curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, timeout_ms(call->deadline_ns - mono_ns()));
    int r = curl_loop_add(c->loop, call->easy);
    if (r < 0) {
        replace_str(&call->own_error, "libcurl did not take the call");
        return r;
    }
    call->in_multi = true;
    return 0;
}

static int64_t connect_timeout(const struct call_request *q)
{
    return q->connect_timeout_ns > 0 ? q->connect_timeout_ns : CONNECT_TIMEOUT_DEFAULT_NS;
}

/* -- Names ------------------------------------------------------------------------------------------- */

/* As curl will have it. */
struct destination {
    char *host;
    int port;
};

static void destination_done(struct destination *d)
{
    curl_free(d->host);
}

/* Leaves the result empty if the URL is invalid: curl reports that error. */
static void destination_of(const char *text, struct destination *ret)
{
    CURLU *url = curl_url();
    char *port = NULL;

    *ret = (struct destination){0};
    if (url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &ret->host, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK)
        ret->port = atoi(port);
    curl_free(port);
    curl_url_cleanup(url);
}

/* False for addresses, and for what curl knows without asking: localhost. */
static bool destination_is_name(const struct destination *d)
{
    struct in6_addr address;

    return d->host && d->port > 0 && !address_of_host(d->host, &address) && !host_is_loopback(d->host);
}

static char *name_error(const struct name_answer *answer, const char *host)
{
    switch (answer->err) {
    case -EAGAIN:
        return xstrdup("too many host names of its fleet cannot be resolved; its own was not tried");
    case -ETIMEDOUT:
        return xasprintf("no name server returned an address of %s in time", host);
    default:
        return xasprintf("Could not resolve host: %s", host);
    }
}

static int call_use_addresses(struct call *call, const struct destination *to,
                              const struct name_answer *answer)
{
    if (answer->err == 0) {
        call->addresses = curl_addresses(to->host, to->port, answer);
        curl_easy_setopt(call->easy, CURLOPT_RESOLVE, call->addresses);
        return call_send(call);
    }
    free(call->own_error);
    call->own_error = name_error(answer, to->host);
    return answer->err == -EAGAIN ? -ETIMEDOUT : answer->err;
}

static void call_on_name(const struct name_answer *answer, void *arg)
{
    _cleanup_(destination_done) struct destination to = {0};
    struct call *call = arg;
    char *url = NULL;

    call->query = NULL;
    curl_easy_getinfo(call->easy, CURLINFO_EFFECTIVE_URL, &url);
    destination_of(url, &to);
    int r = call_use_addresses(call, &to, answer);
    if (r < 0)
        call_fail(call, r);
}

/* Asks for the name where it is not known. */
static int call_send_to_name(struct call *call, const struct destination *to, const struct call_request *q)
{
    struct name_resolver *names = call->caller->names;
    struct name_answer answer;

    curl_easy_setopt(call->easy, CURLOPT_RESOLVER_START_FUNCTION, curl_refuse_to_resolve);
    if (names_known(names, to->host, q->origin, &answer))
        return call_use_addresses(call, to, &answer);
    call->query =
        names_ask(names, to->host, q->origin, q->deadline_ns, connect_timeout(q), call_on_name, call);
    return 0;
}

/* -- The caller --------------------------------------------------------------------------------------- */

/* Ends all calls in flight; the next one sets up curl again. */
static void caller_on_broken(void *arg, CURLMcode code)
{
    struct caller *c = arg;
    struct call *call;

    log_error("libcurl: %s; all calls in flight are canceled", curl_multi_strerror(code));
    LIST_FOREACH(call, &c->calls, link) {
        if (call->failed)
            continue;
        if (call->in_multi)
            curl_loop_remove(c->loop, call->easy);
        call->in_multi = false;
        call->query = name_query_free(call->query);
        replace_str(&call->own_error, curl_multi_strerror(code));
        call_fail(call, -EIO);
    }
    c->loop = curl_loop_free(c->loop);
}

static void caller_on_rest(evutil_socket_t fd, short what, void *arg)
{
    struct caller *c = arg;

    if (!LIST_EMPTY(&c->calls))
        return;
    c->loop = curl_loop_free(c->loop);
    /* Of the answers of thousands, holes are left between what is kept: the system gets them back. */
    malloc_trim(0);
}

int caller_new(struct event_base *base, struct caller **ret)
{
    static const struct answer_budget_ops answer_ops = {call_on_granted, call_on_expired};
    const struct answer_limits limits = answer_limits_of(CALL_ANSWERS_DEFAULT);
    struct caller *c = xcalloc(1, sizeof(*c));
    char *reason = NULL;
    c->base = base;
    network_add(&c->policy, NETWORK_DEFAULT, &reason);
    c->rest = evtimer_new(base, caller_on_rest, c);
    if (!c->rest || names_new(base, &c->names) < 0 ||
        answer_budget_new(base, &limits, &answer_ops, &c->answers) < 0) {
        caller_free(c);
        return -ENOMEM;
    }
    *ret = c;
    return 0;
}

struct caller *caller_free(struct caller *c)
{
    if (!c)
        return NULL;
    while (LIST_FIRST(&c->calls))
        call_release(LIST_FIRST(&c->calls));
    curl_loop_free(c->loop);
    names_free(c->names);
    answer_budget_free(c->answers);
    network_done(&c->policy);
    if (c->rest)
        event_free(c->rest);
    free(c);
    return NULL;
}

static void call_set_method(struct call *call, const struct call_request *q)
{
    size_t size = q->body ? strlen(q->body) : 0;

    curl_list_add(&call->headers, "Expect:");
    if (streq(q->method, "POST")) {
        call->once = true;
        curl_easy_setopt(call->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
        curl_easy_setopt(call->easy, CURLOPT_COPYPOSTFIELDS, size > 0 ? q->body : "");
        curl_list_add(&call->headers, size > 0 ? "Content-Type: application/json" : "Content-Type:");
    } else if (streq(q->method, "GET")) {
        curl_easy_setopt(call->easy, CURLOPT_HTTPGET, 1L);
    } else if (streq(q->method, "HEAD")) {
        curl_easy_setopt(call->easy, CURLOPT_NOBODY, 1L);
    } else {
        curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, q->method);
    }
}

static struct call *call_prepare(struct caller *c, const struct call_request *q)
{
    static const struct curl_callbacks callbacks = {call_on_open_socket, call_on_before_send, call_on_header,
                                                    call_on_body};
    struct call *call = xcalloc(1, sizeof(*call));

    *call = (struct call){.caller = c,
                          .easy = curl_easy_init(),
                          .deadline_ns = q->deadline_ns,
                          .account = q->account,
                          .body = {.max = q->answer_max > 0 ? q->answer_max : CALL_ANSWER_MAX_DEFAULT}};
    if (!call->easy)
        abort(); /* as base/alloc.h */
    LIST_INSERT_HEAD(&c->calls, call, link);
    curl_handle_prepare(call->easy, &callbacks, call, call->curl_error, "profd/" PROFD_VERSION);
    curl_easy_setopt(call->easy, CURLOPT_URL, q->url);
    curl_easy_setopt(call->easy, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER_SIZE);
    curl_easy_setopt(call->easy, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms(connect_timeout(q)));
    curl_easy_setopt(call->easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(call->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    call_set_method(call, q);
    return call;
}

struct call *call_start(struct caller *c, const struct call_request *q,
                        void (*done)(const struct call_result *result, void *arg), void *arg)
{
    _cleanup_(destination_done) struct destination to = {0};
    struct call *call = call_prepare(c, q);

    call->done = done;
    call->arg = arg;
    destination_of(q->url, &to);
    int r = call_credentials_use(q->credentials, q->admin, call->easy, &call->token, &call->own_error);
    if (r == 0 && call->token)
        curl_list_add_token(&call->headers, q->credentials->token_header, call->token);
    if (r == 0 && q->deadline_ns <= mono_ns()) {
        replace_str(&call->own_error, "no time was left to call");
        r = -ETIMEDOUT;
    }
    curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
    if (r == 0)
        r = destination_is_name(&to) ? call_send_to_name(call, &to, q) : call_send(call);
    if (r < 0)
        call_fail(call, r);
    return call;
}

char *call_result_text(const struct call_result *r, char *buf, size_t max)
{
    char body[BODY_EXCERPT_MAX] = "";
    char line[BODY_EXCERPT_MAX + CURL_ERROR_SIZE];

    if (r->err == -ECONNREFUSED) {
        snprintf(line, sizeof(line), "connection refused");
    } else if (r->err != 0) {
        snprintf(line, sizeof(line), "%s%s", r->err == -ETIMEDOUT ? "timed out: " : "",
                 r->error ? r->error : strerror(-r->err));
    } else {
        if (r->status >= 300)
            excerpt(r->body, r->body_size, body, sizeof(body));
        snprintf(line, sizeof(line), "%d %s%s%s", r->status, http_reason(r->status), body[0] ? ": " : "",
                 body);
    }
    return excerpt(line, strlen(line), buf, max);
}
