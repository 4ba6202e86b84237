/* SPDX-License-Identifier: Apache-2.0 */
/* Calls by libcurl: those over TLS, and those with unusual URLs, about which it reports what is wrong. */
#include "base/address.h"
#include "base/alloc.h"
#include "base/curl_handle.h"
#include "base/log.h"
#include "daemon/fleet/call_internal.h"
#include "daemon/fleet/credentials.h"
#include "daemon/fleet/curl_names.h"
#include "version.h"
#include <errno.h>
#include <strings.h>

#define HEADER_VALUE_MAX 64
/* What the kernel keeps of an answer that is not read: it may grow to megabytes of each connection otherwise.
 */
#define SOCKET_BUFFER_SIZE  (64 << 10)
#define RECEIVE_BUFFER_SIZE 8192L

static curl_socket_t call_curl_open_socket(const struct curl_sockaddr *address)
{
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);

    if (fd < 0)
        return CURL_SOCKET_BAD;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){SOCKET_BUFFER_SIZE}, sizeof(int));
    return fd;
}

/* Checks the address that curl connects to: what the name resolved to before does not matter. */
static curl_socket_t call_curl_on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct call *call = arg;
    struct in6_addr ip;

    if (call_refuse_address(call, address_of_socket(&address->addr, &ip) ? &ip : NULL))
        return CURL_SOCKET_BAD;
    call->n_opened++;
    return call_curl_open_socket(address);
}

/* A kept connection was opened under the policy of its time. */
static bool call_curl_refuse_peer(struct call *call, const char *ip)
{
    _cleanup_(freep) char *plain = xstrndup(ip, strcspn(ip, "%")); /* without the link of a link-local one */
    struct in6_addr address;

    if (!address_of_host(plain, &address) || call_refuse_address(call, &address))
        return true;
    call->result.address = address;
    return false;
}

/* -- What curl calls ---------------------------------------------------------------------------------- */

/* Before each sending. libcurl sends again by itself where a kept connection turned out to be closed. */
static int call_curl_on_before_send(void *arg, char *remote_ip, char *local_ip, int remote_port,
                                    int local_port)
{
    struct call *call = arg;

    if (call_curl_refuse_peer(call, remote_ip)) {
        call->n_opened = 0;
        return CURL_PREREQFUNC_ABORT;
    }
    if (call->once && call->n_sent > 0)
        return CURL_PREREQFUNC_ABORT;
    call_mark_sent(call);
    return CURL_PREREQFUNC_OK;
}

/* The value of a header line that has this name ("date:"), up to its bound; "" where it is another header. */
static void call_curl_header(const char *line, size_t size, const char *name,
                             char value[static HEADER_VALUE_MAX])
{
    size_t n = strlen(name);

    value[0] = '\0';
    if (size > n && strncasecmp(line, name, n) == 0)
        snprintf(value, HEADER_VALUE_MAX, "%.*s", (int)(size - n), line + n);
}

static size_t call_curl_on_header(char *line, size_t size, size_t n, void *arg)
{
    struct call *call = arg;
    char value[HEADER_VALUE_MAX];

    size *= n;
    call->head_size += size;
    if (call->head_size > HTTP1_HEAD_MAX) {
        replace_str(&call->own_error, "the answer's head is too long");
        return 0;
    }
    call_mark_answered(call);
    call_curl_header(line, size, "date:", value);
    if (value[0])
        call_take_date(call, value);
    call_curl_header(line, size, "retry-after:", value);
    if (value[0])
        call_take_retry_after(call, value);
    return size;
}

/* libcurl keeps a piece that is refused, and delivers it again: eight kilobytes at most, for nothing that it
 * is requested here is compressed. */
static size_t call_curl_on_body(char *data, size_t size, size_t n, void *arg)
{
    struct call *call = arg;
    size_t before = call->body.size;
    int64_t sunk = call->result.sunk;
    curl_off_t announced = -1;
    long status = 0;

    call_mark_answered(call);
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    call->result.status = (int)status;
    curl_easy_getinfo(call->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    call->announced = announced;
    if (call_take_body(call, data, size * n) == ANSWER_WAITS)
        return CURL_WRITEFUNC_PAUSE;
    return call->body.size - before + (size_t)(call->result.sunk - sunk);
}

static void call_curl_on_ended(void *private, CURLcode code)
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
        call_end_refused(call);
        return;
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

/* -- Sending ----------------------------------------------------------------------------------------- */

static long call_curl_timeout_ms(int64_t duration_ns)
{
    return (long)MAX(INT64_C(1), duration_ns / NS_PER_MS);
}

static void caller_on_broken(void *arg, CURLMcode code);

void caller_open_curl(struct caller *c)
{
    static const struct curl_loop_ops ops = {call_curl_on_ended, caller_on_broken};

    if (curl_loop_new(c->base, caller_idle_connections(), &ops, c, &c->loop) < 0)
        abort();
}

/* Ends all calls in flight; curl is set up again for the next one. */
static void caller_on_broken(void *arg, CURLMcode code)
{
    struct caller *c = arg;
    struct call *call;

    log_error("libcurl: %s; its calls in flight are canceled", curl_multi_strerror(code));
    LIST_FOREACH(call, &c->calls, link) {
        if (!call->in_multi)
            continue;
        curl_loop_remove(c->loop, call->easy);
        call->in_multi = false;
        replace_str(&call->own_error, curl_multi_strerror(code));
        call_fail(call, -EIO);
    }
    c->loop = curl_loop_free(c->loop);
}

void call_curl_destination(const char *text, struct call_destination *ret)
{
    CURLU *url = curl_url();
    char *host = NULL, *port = NULL;

    *ret = (struct call_destination){0};
    if (url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK)
        *ret = (struct call_destination){.host = xstrdup(host), .port = atoi(port)};
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(url);
}

static void call_curl_set_method(struct call *call, const struct call_request *q)
{
    size_t size = q->body ? strlen(q->body) : 0;

    curl_list_add(&call->headers, "Expect:");
    if (streq(q->method, "POST")) {
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

static int call_curl_prepare(struct call *call, const struct call_request *q)
{
    static const struct curl_callbacks callbacks = {call_curl_on_open_socket, call_curl_on_before_send,
                                                    call_curl_on_header, call_curl_on_body};

    call->easy = curl_easy_init();
    if (!call->easy)
        abort(); /* as base/alloc.h */
    curl_handle_prepare(call->easy, &callbacks, call, call->curl_error, "profd/" PROFD_VERSION);
    curl_easy_setopt(call->easy, CURLOPT_URL, call->url);
    curl_easy_setopt(call->easy, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER_SIZE);
    curl_easy_setopt(call->easy, CURLOPT_CONNECTTIMEOUT_MS, call_curl_timeout_ms(call->connect_timeout_ns));
    curl_easy_setopt(call->easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(call->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    if (call_is_to_name(call))
        curl_easy_setopt(call->easy, CURLOPT_RESOLVER_START_FUNCTION, curl_refuse_to_resolve);
    call_curl_set_method(call, q);
    if (q->range)
        curl_easy_setopt(call->easy, CURLOPT_RANGE, q->range);
    int r = call_credentials_use(q->credentials, q->admin, call->easy, &call->token, &call->own_error);
    if (r == 0 && call->token)
        curl_list_add_token(&call->headers, q->credentials->token_header, call->token);
    curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
    return r;
}

/* -EIO where curl does not take the call. */
static int call_curl_send(struct call *call, const struct name_answer *answer)
{
    struct caller *c = call->caller;

    if (call->fixed) {
        /* A kept connection to another address of the name is not this server. */
        char address[ADDRESS_TEXT_SIZE];
        address_format(&answer->addresses[0], address);
        _cleanup_(freep) char *to = xasprintf("::%s:%d", address, call->to.port);
        curl_list_add(&call->addresses, to);
        curl_easy_setopt(call->easy, CURLOPT_CONNECT_TO, call->addresses);
    } else if (answer) {
        call->addresses = curl_addresses(call->to.host, call->to.port, answer);
        curl_easy_setopt(call->easy, CURLOPT_RESOLVE, call->addresses);
    }
    if (call->deadline_ns != DEADLINE_NEVER)
        curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, call_curl_timeout_ms(call->deadline_ns - mono_ns()));
    if (!c->loop)
        caller_open_curl(c);
    int r = curl_loop_add(c->loop, call->easy);
    if (r < 0) {
        replace_str(&call->own_error, "libcurl did not take the call");
        return r;
    }
    call->in_multi = true;
    return 0;
}

static void call_curl_resume(struct call *call)
{
    CURLcode code = curl_easy_pause(call->easy, CURLPAUSE_CONT);

    /* What libcurl had kept was delivered by this, and was too much or too late. */
    if (code != CURLE_OK)
        call_curl_on_ended(call, code);
}

static void call_curl_release(struct call *call)
{
    if (call->in_multi)
        curl_loop_remove(call->caller->loop, call->easy);
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    curl_slist_free_all(call->addresses);
}

const struct call_transport call_curl = {call_curl_prepare, call_curl_send, call_curl_resume,
                                         call_curl_release};
