/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/call.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/http_reason.h"
#include "base/log.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/call_internal.h"
#include "daemon/fleet/credentials.h"
#include "daemon/fleet/url.h"
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <sys/resource.h>
#include <time.h>

#define RETRY_AFTER_LONGEST_S      86400L
#define HTTP_OK                    200
#define CONNECT_TIMEOUT_DEFAULT_NS (3 * NS_PER_S)
/* The year 2116. A later date makes no sense, and twice its nanoseconds would overflow int64_t. */
#define DATE_MAX_S (INT64_MAX / NS_PER_S / 2)
/* A shorter one would be found in words that have nothing to do with it. */
#define TOKEN_HIDDEN_MIN 6
#define BODY_EXCERPT_MAX 400
/* Of the memory for answers: the share of one account, and how long an answer is read while others wait. */
#define ANSWERS_ACCOUNT_SHARE 2
#define ANSWER_TURN_NS        (10 * NS_PER_S)
#define OPEN_FILES_DEFAULT    1024
/* Idle connections may take 1/IDLE_CONNECTIONS_SHARE of the file descriptors. */
#define IDLE_CONNECTIONS_SHARE 4
/* Idle time after which connections are closed, and curl's memory is freed. */
#define REST_NS (15 * NS_PER_S)

/* -- What arrives ------------------------------------------------------------------------------------- */

void call_mark_sent(struct call *call)
{
    call->n_sent++;
    call->result.sent_mono_ns = mono_ns();
    call->result.sent_at_ns = wall_ns();
}

void call_mark_answered(struct call *call)
{
    call->result.answered_mono_ns = mono_ns();
    call->result.answered_at_ns = wall_ns();
}

void call_take_date(struct call *call, const char *value)
{
    struct tm date = {0};
    const char *rest = strptime(value, " %a, %d %b %Y %H:%M:%S GMT", &date);
    time_t when = rest ? timegm(&date) : 0;

    call->result.date_s = when > 0 && when < DATE_MAX_S ? when : 0;
}

void call_take_retry_after(struct call *call, const char *value)
{
    call->result.retry_after_s = MIN(MAX(strtol(value, NULL, 10), 0L), RETRY_AFTER_LONGEST_S);
}

/* What the sink does not take is cut. */
static void call_sink_body(struct call *call, const char *data, size_t size)
{
    struct call_result *r = &call->result;

    if ((int64_t)size > call->sink.size_max - r->sunk) {
        call->body.cut = true;
        return;
    }
    r->sink_err = pwrite_full(call->sink.fd, data, size, (uint64_t)r->sunk);
    call->body.cut = r->sink_err < 0;
    if (!call->body.cut)
        r->sunk += (int64_t)size;
}

enum answer_taken call_take_body(struct call *call, const char *data, size_t size)
{
    if (call->sink.fd >= 0 && call->result.status == HTTP_OK) {
        call_sink_body(call, data, size);
        return ANSWER_TAKEN;
    }
    const struct answer_asker asker = {call->caller->answers, call->account, call};
    return answer_body_add(&call->body, &asker, call->announced, data, size);
}

/* -- The network policy ------------------------------------------------------------------------------- */

bool call_refuse_address(struct call *call, const struct in6_addr *address)
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

/* The log stays readable where a router lists a thousand of them. */
static void call_note_refusal(struct call *call)
{
    struct caller *c = call->caller;

    c->n_refused++;
    if ((c->n_refused & (c->n_refused - 1)) == 0)
        log_warning("%s: %s (%" PRIu64 " calls refused so far)", call->url, call->refused, c->n_refused);
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
    call->transport->release(call);
    answer_body_done(&call->body);
    free(call->own_error);
    free(call->refused);
    secret_free(call->token);
    free(call->to.host);
    free(call->url);
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

void call_end(struct call *call)
{
    struct call_result *r = &call->result;
    char text[160];

    if (r->err != 0 || r->answered_mono_ns == 0)
        call_mark_answered(call);
    if (call->body.share)
        answer_share_settle(call->body.share);
    call_hide_token(call);
    r->body = call->body.text ? call->body.text : "";
    r->body_size = call->body.size;
    r->call = call;
    log_debug("%s: %s", call->url, call_result_text(r, text, sizeof(text)));
    call->done(r, call->arg);
    call_cancel(call);
}

void call_end_refused(struct call *call)
{
    call_note_refusal(call);
    call->result.err = -EPERM;
    call->result.error = call->refused;
    call->result.remedy = call->refused_remedy;
    call_end(call);
}

static void call_on_failed(evutil_socket_t fd, short what, void *arg)
{
    call_end(arg);
}

void call_fail(struct call *call, int err)
{
    call->result.err = err;
    call->result.error = call->own_error;
    call->failed = evtimer_new(call->caller->base, call_on_failed, call);
    if (!call->failed)
        abort(); /* as base/alloc.h */
    event_active(call->failed, EV_TIMEOUT, 0);
}

/* -- The memory for answers --------------------------------------------------------------------------- */

static void call_on_granted(void *arg)
{
    struct call *call = arg;

    call->transport->resume(call);
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

/* -- Names ------------------------------------------------------------------------------------------- */

bool call_is_to_name(const struct call *call)
{
    const struct call_destination *to = &call->to;
    struct in6_addr address;

    return !call->fixed && to->host && to->port > 0 && !address_of_host(to->host, &address) &&
           !host_is_loopback(to->host);
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

static int call_use_addresses(struct call *call, const struct name_answer *answer)
{
    if (answer->err == 0)
        return call->transport->send(call, answer);
    free(call->own_error);
    call->own_error = name_error(answer, call->to.host);
    return answer->err == -EAGAIN ? -ETIMEDOUT : answer->err;
}

static void call_on_name(const struct name_answer *answer, void *arg)
{
    struct call *call = arg;

    call->query = NULL;
    int r = call_use_addresses(call, answer);
    if (r < 0)
        call_fail(call, r);
}

/* Asks for the name where it is not known. */
static int call_send_to_name(struct call *call, uint64_t origin)
{
    struct name_resolver *names = call->caller->names;
    struct name_answer answer;

    if (names_known(names, call->to.host, origin, &answer))
        return call_use_addresses(call, &answer);
    call->query = names_ask(names, call->to.host, origin, call->deadline_ns, call->connect_timeout_ns,
                            call_on_name, call);
    return 0;
}

static int call_send_to_address(struct call *call, const struct in6_addr *address)
{
    const struct name_answer answer = {.n = 1, .addresses = {*address}};

    return call->transport->send(call, &answer);
}

/* -- The caller --------------------------------------------------------------------------------------- */

long caller_idle_connections(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return OPEN_FILES_DEFAULT;
    return MAX(1L, (long)limit.rlim_cur / IDLE_CONNECTIONS_SHARE);
}

static void caller_on_rest(evutil_socket_t fd, short what, void *arg)
{
    struct caller *c = arg;

    if (!LIST_EMPTY(&c->calls))
        return;
    c->loop = curl_loop_free(c->loop);
    http1_pool_close_idle(c->plain);
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
    c->plain = http1_pool_new(base, (size_t)caller_idle_connections());
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
    http1_pool_free(c->plain);
    names_free(c->names);
    answer_budget_free(c->answers);
    network_done(&c->policy);
    if (c->rest)
        event_free(c->rest);
    free(c);
    return NULL;
}

struct call *call_start(struct caller *c, const struct call_request *q,
                        void (*done)(const struct call_result *result, void *arg), void *arg)
{
    struct call *call = xcalloc(1, sizeof(*call));

    *call = (struct call){
        .caller = c,
        .url = xstrdup(q->url),
        .deadline_ns = q->deadline_ns,
        .connect_timeout_ns = q->connect_timeout_ns > 0 ? q->connect_timeout_ns : CONNECT_TIMEOUT_DEFAULT_NS,
        .once = streq(q->method, "POST"),
        .fixed = q->address,
        .announced = -1,
        .account = q->account,
        .body = {.max = q->answer_max > 0 ? q->answer_max : CALL_ANSWER_MAX_DEFAULT},
        .sink = q->sink ? *q->sink : (struct call_sink){.fd = -1},
        .done = done,
        .arg = arg,
    };
    LIST_INSERT_HEAD(&c->calls, call, link);
    call->transport = call_plain_takes(call->url, &call->to) ? &call_plain : &call_curl;
    if (call->transport == &call_curl)
        call_curl_destination(call->url, &call->to);
    int r = call->transport->prepare(call, q);
    if (r == 0 && q->deadline_ns <= mono_ns()) {
        replace_str(&call->own_error, "no time was left to call");
        r = -ETIMEDOUT;
    }
    if (r == 0)
        r = q->address              ? call_send_to_address(call, q->address)
            : call_is_to_name(call) ? call_send_to_name(call, q->origin)
                                    : call->transport->send(call, NULL);
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
