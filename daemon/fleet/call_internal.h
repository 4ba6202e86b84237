/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call, for the files that implement calls only: call.c has its life, the policy, names and memory; it is sent by
 * call_plain.c over HTTP without TLS, by call_curl.c over everything else.
 */
#pragma once

#include "daemon/fleet/call.h"
#include "daemon/fleet/curl_loop.h"
#include "daemon/fleet/http1_pool.h"
#include "daemon/fleet/names.h"
#include <sys/queue.h>

/* Where a URL leads. */
struct call_destination {
    char *host; /* NULL: it cannot be read, which curl explains; IPv6 in brackets */
    int port;
    /* Of a plain one, in the URL: "/path?query", and "host:port" as it is written there. */
    const char *target, *authority;
    size_t n_authority;
};

struct call {
    LIST_ENTRY(call) link;
    struct caller *caller;
    char *url;
    struct call_destination to;
    const struct call_transport *transport;
    struct http1_request plain; /* until it is sent */
    struct http1_exchange *exchange;
    CURL *easy;                             /* NULL: it is plain */
    struct curl_slist *headers, *addresses; /* of its name */
    bool in_multi;
    bool fixed;               /* its address is given */
    struct name_query *query; /* of its name, while it waits for that */
    struct event *failed;     /* it failed before it was sent, and ends in the next iteration */
    int64_t deadline_ns, connect_timeout_ns;
    bool once;         /* must not be sent a second time */
    unsigned n_sent;   /* how often it was */
    unsigned n_opened; /* sockets to addresses that the policy allows */
    size_t head_size;
    int64_t announced; /* size of the body; < 0: the server did not announce it */
    uint64_t account;
    struct answer_body body;
    struct call_sink sink; /* fd -1: none */
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
    struct curl_loop *loop; /* NULL: no call needed curl since the last rest */
    struct http1_pool *plain;
    struct event *rest;
    struct name_resolver *names;
    struct answer_budget *answers;
    struct call_list calls;
    struct network_policy policy;
    uint64_t n_refused;
};

/* call.c: whether the policy refuses the address, and why in the call. NULL: an address of neither IP. */
bool call_refuse_address(struct call *call, const struct in6_addr *address);
/* Whether a name server has to be asked for it. */
bool call_is_to_name(const struct call *call);
void call_mark_sent(struct call *call);
void call_mark_answered(struct call *call);
/* Of the answer's fields. */
void call_take_date(struct call *call, const char *value);
void call_take_retry_after(struct call *call, const char *value);
enum answer_taken call_take_body(struct call *call, const char *data, size_t size);
/* With its result; the call is gone. */
void call_end(struct call *call);
/* As call_end(), where the policy refused all addresses. */
void call_end_refused(struct call *call);
/* Ends it in the next iteration of the event loop; own_error has the reason. */
void call_fail(struct call *call, int err);

/* How a call is sent. */
struct call_transport {
    /* Reads the credentials; negative with own_error. */
    int (*prepare)(struct call *call, const struct call_request *q);
    /* To the addresses of its name; NULL: its host is an address or localhost. Negative with own_error. */
    int (*send)(struct call *call, const struct name_answer *answer);
    /* The memory for its answer is granted. */
    void (*resume)(struct call *call);
    void (*release)(struct call *call);
};
extern const struct call_transport call_plain, call_curl;
/* Fills the destination where the URL is plain: http://, a host, a path, and nothing unusual. */
bool call_plain_takes(const char *url, struct call_destination *ret);
/* The host is NULL where curl will say why it cannot call the URL. */
void call_curl_destination(const char *url, struct call_destination *ret);
/* For calls by curl; out of memory aborts, as base/alloc.h. */
void caller_open_curl(struct caller *c);
/* Idle connections that are kept, by the limit of open files. */
long caller_idle_connections(void);
