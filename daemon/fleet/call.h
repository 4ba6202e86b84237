/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP call out, to a router or a worker, on the event loop: over connections of profd's own (http1_pool.h), over TLS
 * by libcurl.
 *
 * Only http and https, no redirects, no proxies of the environment, answers bounded, and a POST is sent at
 * most once. A call that was started always ends in done(), once, never before call_start() returns; its
 * result is borrowed for the time of done(). The caller (one a process) owns all calls; call_cancel() ends
 * one without done(), and so does caller_free(). Neither is called from within done() for the same call.
 *
 * An address outside of the network policy is refused before anything connects to it, and a connection that
 * was kept before anything is sent on it: a token goes nowhere else.
 *
 * Calls that are started in one iteration of the event loop are sent together, in the next iteration. Each
 * call has a connection of its own; idle connections stay open for later calls, up to a share of
 * RLIMIT_NOFILE.
 *
 * All answers together use a bounded amount of memory. When it is used up, reading a long answer pauses until
 * its turn (answer_budget.h). The pause delays neither the sending of a call nor an answer of up to
 * ANSWER_EXCERPT_MAX; it does not extend the deadline.
 */
#pragma once

#include "base/clock.h"
#include "base/util.h"
#include "daemon/fleet/answer_budget.h"
#include "daemon/fleet/network.h"
#include <event2/event.h>

#define CALL_ANSWER_MAX_DEFAULT (1 << 20)
/* Default limit of the memory for answers. */
#define CALL_ANSWERS_DEFAULT (INT64_C(64) << 20)

struct caller;
struct call;
struct credentials_kept;
struct name_answer;

/* Files of a fleet's or worker's credentials, see profd.conf(5); any may be NULL. Read anew for every call,
 * or kept by call_credentials_keep(). */
struct call_credentials {
    char *token_file;       /* bearer token for ordinary endpoints */
    char *admin_token_file; /* bearer token for profile endpoints; token_file where absent */
    char *ca_file, *cert_file, *key_file;
    bool ca_alone;      /* trusts ca_file only, and no authority of the system */
    const char *prefix; /* static: of the keys of token_file and ca_file, for errors; NULL: none */
    /* static: the header that has the token; NULL: Authorization, as bearer token */
    const char *token_header;
    struct credentials_kept *kept;
};

/* credentials.c */
bool call_credentials_any(const struct call_credentials *c);
void call_credentials_copy(const struct call_credentials *c, struct call_credentials *ret);
void call_credentials_done(struct call_credentials *c);

/* A file that takes the body of an answer of status 200, as it comes, from its beginning on: no memory for answers is used,
 * and answer_max does not count. */
struct call_sink {
    int fd; /* borrowed until the call ends */
    int64_t size_max;
};

struct call_request {
    const char *method; /* "GET", "HEAD", "POST" */
    const char *url;
    /* Where the server is; NULL: at the address that the URL's host has or resolves to. The host is then what its
     * certificate must name, and is not looked up. */
    const struct in6_addr *address;
    const char *body;  /* NULL: none; a POST then has Content-Length: 0 */
    const char *range; /* of bytes, "0-99": the answer is 206; NULL: all */
    const struct call_credentials *credentials;
    bool admin;                   /* use the admin token */
    int64_t connect_timeout_ns;   /* of the connection alone, and before that of its name */
    int64_t deadline_ns;          /* absolute, monotonic, of the entire call */
    size_t answer_max;            /* 0: CALL_ANSWER_MAX_DEFAULT; a longer answer is cut, see `cut` */
    const struct call_sink *sink; /* copied; NULL: the answer is kept in memory */
    /* The origin on whose behalf the name is resolved; each origin has a share of the resolver's threads: see
     * names.h. A call that gets no thread until its deadline ends then. 0: it gets a thread at once. */
    uint64_t origin;
    /* The account of the answer's memory. Each account has at most half of it, and accounts take turns. */
    uint64_t account;
};

struct call_result {
    /* 0 if a complete answer (or answer_max of it) arrived, else -ETIMEDOUT, -ECONNREFUSED, -ECONNRESET,
     * -EPROTO, ..., the error of a credentials file, -ENOBUFS where others waited too long for the memory of
     * its answer, or -EPERM with a remedy where the network policy refuses. */
    int err;
    const char *error;  /* curl's own words, NULL when err is 0 */
    const char *remedy; /* where profd itself did not call; static, else NULL */
    int status;         /* HTTP status, 0 when none came; may have come although err is not 0 */
    const char *body;   /* NUL-terminated, never NULL */
    size_t body_size;
    bool cut;               /* the answer was longer than answer_max, or than its sink takes */
    int64_t sunk;           /* bytes that the sink has; body is empty then */
    int sink_err;           /* 0, or why the sink took no more */
    struct call *call;      /* for call_result_take() */
    int64_t sent_at_ns;     /* wall time when the request left; 0: it never did */
    int64_t answered_at_ns; /* wall time of the answer's last byte, else when the call ended */
    int64_t sent_mono_ns, answered_mono_ns;
    struct in6_addr address; /* that it was sent to; :: where it never left */
    int64_t date_s;          /* the answer's Date header, seconds since the epoch; 0 when absent */
    int64_t retry_after_s;   /* its Retry-After header in seconds; 0 when absent, or a date */
};

int caller_new(struct event_base *base, struct caller **ret);
struct caller *caller_free(struct caller *c);
/* Copies it; holds from the next connection and the next request on. Until then it is NETWORK_DEFAULT. */
void caller_set_policy(struct caller *c, const struct network_policy *policy);
/* The host's addresses, or that it has none, from now on: no name server is asked (names_fix()). */
void caller_fix_name(struct caller *c, const char *host, const struct name_answer *answer);
/* Bytes of memory for answers, from the next one on. Until then it is CALL_ANSWERS_DEFAULT. */
void caller_set_answers_max(struct caller *c, int64_t bytes);
struct answer_usage caller_answers(const struct caller *c);
/* How many calls the policy refused. */
uint64_t caller_refusals(const struct caller *c);
struct call *call_start(struct caller *c, const struct call_request *request,
                        void (*done)(const struct call_result *result, void *arg), void *arg);
void call_cancel(struct call *call);
/* Within done(): the body, with the memory that it holds, is the receiver's from here on, and counts as an
 * answer until its answer_body_done(), which may come after caller_free(). */
struct answer_body call_result_take(const struct call_result *r);

/* "404 Not Found: {"error":..." or curl's words: one line of at most max bytes for people. Returns buf. */
char *call_result_text(const struct call_result *r, char *buf, size_t max);
/* When the request left, to be compared with the times of files that were written since. */
static inline int64_t call_sent_at(const struct call_result *r)
{
    return wall_earliest(r->sent_at_ns, mono_ns() - r->sent_mono_ns);
}
