/* SPDX-License-Identifier: Apache-2.0 */
/* Calls over HTTP without TLS, which most workers speak, on connections of profd's own: libcurl takes four times as long
 * for one as the kernel. */
#include "base/address.h"
#include "base/alloc.h"
#include "daemon/fleet/call_internal.h"
#include "daemon/fleet/credentials.h"
#include "daemon/fleet/url.h"
#include "version.h"
#include <ctype.h>
#include <errno.h>

#define SCHEME       "http://"
#define PORT_DEFAULT 80

/* -- URLs --------------------------------------------------------------------------------------------- */

static bool call_plain_is_host(const char *host, size_t n)
{
    struct in6_addr address;

    if (n == 0 || n > HOST_SIZE_MAX)
        return false;
    if (host[0] == '[') {
        _cleanup_(freep) char *text = xstrndup(host, n);
        return address_of_host(text, &address);
    }
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)host[i]) && !strchr("-._", host[i]))
            return false;
    return true;
}

bool call_plain_takes(const char *url, struct call_destination *ret)
{
    if (!starts_with(url, SCHEME))
        return false;
    const char *host = url + strlen(SCHEME), *end = host + strcspn(host, "/");
    const char *bracket = memchr(host, ']', (size_t)(end - host)), *after = bracket ? bracket : host;
    const char *colon = memchr(after, ':', (size_t)(end - after));
    size_t n_host = (size_t)((colon ? colon : end) - host);
    _cleanup_(freep) char *port = colon ? xstrndup(colon + 1, (size_t)(end - colon - 1)) : NULL;
    int number = colon ? port_parse(port) : PORT_DEFAULT;

    if (!url_path_is_plain(end) || number <= 0 || !call_plain_is_host(host, n_host))
        return false;
    *ret = (struct call_destination){.host = xstrndup(host, n_host),
                                     .port = number,
                                     .target = end,
                                     .authority = host,
                                     .n_authority = (size_t)(end - host)};
    return true;
}

/* -- Exchanges ---------------------------------------------------------------------------------------- */

static bool call_plain_allows(void *arg, const struct in6_addr *address)
{
    struct call *call = arg;

    if (call_refuse_address(call, address))
        return false;
    call->n_opened++;
    call->result.address = *address;
    return true;
}

static void call_plain_on_sent(void *arg)
{
    call_mark_sent(arg);
}

static void call_plain_on_head(void *arg, const struct http1_response *head)
{
    struct call *call = arg;

    call->result.status = head->status;
    call->announced = head->has_length ? (int64_t)head->left : -1;
    if (head->date[0])
        call_take_date(call, head->date);
    if (head->retry_after[0])
        call_take_retry_after(call, head->retry_after);
}

static enum http1_taken call_plain_on_body(void *arg, const char *bytes, size_t size)
{
    struct call *call = arg;

    if (call_take_body(call, bytes, size) == ANSWER_WAITS)
        return HTTP1_WAITS;
    return call->body.cut ? HTTP1_ENOUGH : HTTP1_TAKEN;
}

static void call_plain_on_ended(void *arg, int err, const char *error)
{
    struct call *call = arg;

    if (err == -EPERM && call->refused && call->n_opened == 0) {
        call_end_refused(call);
        return;
    }
    call->result.err = err;
    call->result.error = error;
    call->result.cut = call->body.cut;
    call_end(call);
}

static int call_plain_prepare(struct call *call, const struct call_request *q)
{
    const struct call_destination *to = &call->to;
    const char *body = q->body ? q->body : "", *header = q->credentials ? q->credentials->token_header : NULL;
    struct http1_request *r = &call->plain;
    char *token = NULL, *fields = NULL;
    int err = call_credentials_use(q->credentials, q->admin, NULL, &call->token, &call->own_error);

    if (call->token)
        token = xasprintf("%s: %s%s\r\n", header ? header : "Authorization", header ? "" : "Bearer ",
                          call->token);
    if (call->once)
        fields = xasprintf("Content-Length: %zu\r\n%s", strlen(body),
                           *body ? "Content-Type: application/json\r\n" : "");
    else if (q->range)
        fields = xasprintf("Range: bytes=%s\r\n", q->range);
    *r = (struct http1_request){.port = to->port,
                                .head_only = streq(q->method, "HEAD"),
                                .once = call->once,
                                .connect_timeout_ns = call->connect_timeout_ns,
                                .deadline_ns = call->deadline_ns};
    r->text = xasprintf("%s %s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: profd/" PROFD_VERSION
                        "\r\nAccept: */*\r\n%s%s\r\n%s",
                        q->method, to->target, (int)to->n_authority, to->authority, token ? token : "",
                        fields ? fields : "", body);
    r->size = strlen(r->text);
    secret_free(token);
    free(fields);
    return err;
}

static int call_plain_send(struct call *call, const struct name_answer *answer)
{
    static const struct http1_ops ops = {call_plain_allows, call_plain_on_sent, call_plain_on_head,
                                         call_plain_on_body, call_plain_on_ended};
    struct in6_addr own[] = {address_v4(htonl(INADDR_LOOPBACK)), in6addr_loopback};
    struct http1_request *r = &call->plain;

    r->addresses = answer ? answer->addresses : own;
    r->n_addresses = answer ? answer->n : address_of_host(call->to.host, &own[0]) ? 1 : ARRAY_SIZE(own);
    call->exchange = http1_exchange_start(call->caller->plain, r, &ops, call);
    r->text = NULL;
    return 0;
}

static void call_plain_resume(struct call *call)
{
    http1_exchange_resume(call->exchange);
}

static void call_plain_release(struct call *call)
{
    http1_exchange_free(call->exchange);
    secret_free(call->plain.text);
}

const struct call_transport call_plain = {call_plain_prepare, call_plain_send, call_plain_resume,
                                          call_plain_release};
