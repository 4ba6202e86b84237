/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profds of other hosts: which there are, what they are, and calls to them.
 *
 * Peers are those of [peer NAME] and of the sources of [hosts] peers=. A peer is known by the UUID of its catalog, which
 * it reports in its hello (GET /v1/host); two addresses with one UUID are one peer, and an address with our own is
 * this profd. Everything runs on the event loop.
 *
 * A pointer to a peer is valid until the next iteration of the loop: keep the UUID, and find it again. The peers own
 * all queries; a query that was started ends in done(), once, never before the call that starts it returns, unless it
 * is cancelled. No answer of a peer is trusted: it is JSON of bounded size, and its readers check every member.
 */
#pragma once

#include "base/json.h"
#include "base/offload.h"
#include "base/problem.h"
#include "base/uuid.h"
#include "daemon/peers/clocks.h"
#include "daemon/peers/settings.h"
#include <sys/queue.h>

/* The protocol between hosts that this profd speaks. */
#define PEER_PROTOCOL 1
/* Bytes of an answer: a fleet of 10,000 workers, or the rows of 256 traces. */
#define PEER_ANSWER_MAX (16 << 20)

struct catalog;
struct peers;
struct peer_query;

enum peer_state {
    PEER_UNKNOWN,     /* not asked yet */
    PEER_OK,          /* its last hello was answered */
    PEER_UNREACHABLE, /* no answer */
    PEER_REFUSED,     /* an answer with an error: the token, the name, the role */
    PEER_INVALID,     /* an answer that is no hello of a known protocol */
    PEER_SELF,        /* this very profd */
    PEER_DUPLICATE,   /* another address of a peer that is listed already */
    _PEER_STATE_MAX,
};
const char *peer_state_name(enum peer_state s);

/* What a peer reported in its last hello. Texts are NULL where absent. */
struct peer_hello {
    char catalog[UUID_SIZE];
    char *host, *version, *node;
    char boot_id[UUID_SIZE];
    struct in6_addr *addresses;
    size_t n_addresses;
    int64_t workers, sessions; /* -1 unknown */
    int64_t store_bytes, store_max_use, store_free;
    bool is_system;          /* the service of its host, not the profd of a user */
    json_t *upload, *mirror; /* objects for the list of hosts, as they came; NULL: none */
};

struct peer {
    LIST_ENTRY(peer) link;
    char *name;   /* of [peer NAME], else "HOST:PORT" */
    char *verify; /* the name in its certificate, where that is not the host of its URL; NULL */
    char *url;    /* normalised, of the scheme https:// unless the operator wants otherwise */
    char *
        host_uuid; /* UUID of its catalog; NULL before its first hello. Unique among states OK and UNREACHABLE */
    struct peer_hello hello; /* the last that came */
    enum peer_state state;
    struct problem problem;      /* of other states than OK */
    int64_t asked_mono_ns;       /* when its last hello was sent; 0 never */
    int64_t hello_at;            /* wall time of the last hello that came; 0 never */
    int64_t seen_at;             /* wall time of its last answer to any call since then; 0 never */
    struct in6_addr address;     /* that its last answered hello was sent to; :: unknown */
    struct clock_estimate clock; /* the newest; measured_mono_ns is 0 before the first */
    int64_t answered_mono_ns;    /* the last answer to any call, an error included; 0 never */
    int64_t silent_mono_ns;      /* the last call without an answer; 0 never */
    struct problem silence;      /* of that */
    /* The peers' own: */
    struct peers *peers;
    const struct peer_config *config; /* NULL: of a source */
    char *bound_uuid; /* that the catalog knows of the URL of a configured one; NULL: none (identity.h) */
    int64_t wanted_mono_ns; /* when it was named last; 0: no source does any more */
    struct peer_query *hello_query;
    int64_t saved_mono_ns; /* when its row in the catalog was written; 0: to be written */
};
LIST_HEAD(peer_list, peer);

/* Borrows all arguments. is_system: this profd is the service of its host, not the profd of one user. Names the host in the
 * catalog as the settings do. */
int peers_new(struct event_base *base, struct caller *caller, struct offload *offload,
              struct catalog *catalog, bool is_system, const struct hosts_settings *settings,
              struct peers **ret);
/* The settings were replaced: reads them again. */
void peers_renew(struct peers *p);
/* Queries end without done(). */
struct peers *peers_free(struct peers *p);
/* Whether any peer is configured, or a source of peers. */
bool peers_are_configured(const struct peers *p);
const struct peer_list *peers_list(const struct peers *p);
/* This profd among them; valid until the next iteration of the loop. */
struct peers_self {
    const char *uuid; /* of the catalog */
    const char *host;
    bool is_system;
};
struct peers_self peers_self(const struct peers *p);

/* For profd's operator. */
struct peers_metrics {
    uint64_t states[_PEER_STATE_MAX]; /* peers in each */
    uint64_t calls, failures;         /* so far, of all modules; without an answer, or with an error */
    int64_t clock_offset_ns;          /* the largest of a wall clock to ours, as last measured */
};
void peers_metrics(const struct peers *p, struct peers_metrics *ret);

/* The peer with that UUID, in state OK or UNREACHABLE; NULL: none is known, which a refresh may change. */
const struct peer *peers_find(const struct peers *p, const char *host_uuid);
/*
 * The peer with that UUID, else the one at the URL that the catalog noted of it, which after a restart has not been asked
 * yet. NULL where the settings name it no more, or where another profd answers there: it gets no call, and no token.
 */
const struct peer *peers_find_at(struct peers *p, const char *host_uuid, const char *url);

/*
 * Asks the sources for peers, and all peers for their hello whose last one is older than max_age_ns. done() comes later,
 * once, when all have answered or failed; at most the timeout of a call after that of the sources.
 */
struct peers_refreshing *peers_refresh(struct peers *p, int64_t max_age_ns, void (*done)(void *arg),
                                       void *arg);
/* Without done(). NULL is nothing. */
void peers_refresh_cancel(struct peers_refreshing *r);

/*
 * One call to a peer. path begins with '/', and may have a query. timeout_ns 0: [hosts] call=. A POST is sent once, so
 * every POST of the protocol is idempotent and its caller repeats it.
 *
 * done(): status 0 where no answer came. body is the JSON of the answer, also of an error (its members beyond
 * problem+json), NULL where there is none; p is set unless the status is 2xx and a body came. All are borrowed.
 */
typedef void (*peer_done)(int status, const json_t *body, const struct problem *p, void *arg);
struct peer_query *peer_post(struct peers *p, const struct peer *peer, const char *path, json_t *take_body,
                             int64_t timeout_ns, peer_done done, void *arg);
struct peer_query *peer_get(struct peers *p, const struct peer *peer, const char *path, int64_t timeout_ns,
                            peer_done done, void *arg);
/* The same of a part of a file, which is never JSON: data is NULL with the problem, unless all bytes came. */
typedef void (*peer_bytes_done)(int status, const char *data, size_t size, const struct problem *p,
                                void *arg);
struct peer_query *peer_get_bytes(struct peers *p, const struct peer *peer, const char *path, int64_t offset,
                                  size_t size, int64_t timeout_ns, peer_bytes_done done, void *arg);
/* The same of an answer that is not JSON, of at most PEER_ANSWER_MAX bytes. */
struct peer_query *peer_get_all(struct peers *p, const struct peer *peer, const char *path,
                                int64_t timeout_ns, peer_bytes_done done, void *arg);
/* The same of an answer that goes into a file as it comes, of at most size_max bytes: fd is borrowed until done(), which gets the
 * size, -1 with the problem. */
typedef void (*peer_file_done)(int status, int64_t size, const struct problem *p, void *arg);
struct peer_query *peer_get_file(struct peers *p, const struct peer *peer, const char *path, int fd,
                                 int64_t size_max, int64_t timeout_ns, peer_file_done done, void *arg);
void peer_query_cancel(struct peer_query *q);
/* Of calls of all modules: whether the peer answered in the last age_ns, and has not failed to since. */
bool peer_has_answered(const struct peer *peer, int64_t age_ns);
/* Why it did not answer its last call, if that ended in the last age_ns; NULL: it did, or nobody asked. Borrowed. */
const struct problem *peer_silence(const struct peer *peer, int64_t age_ns);
/* Within done(): when the call left and its answer had arrived, monotonic; 0 where that never happened. */
struct peer_times {
    int64_t sent_mono_ns, answered_mono_ns;
    struct in6_addr address;
};
struct peer_times peer_query_times(const struct peer_query *q);

/*
 * Measures the clock of a peer by n exchanges, one after another on one connection. done() gets the estimate, which is
 * the peer's newest too, or NULL with the problem.
 */
#define CLOCK_EXCHANGES_DEFAULT 8
#define CLOCK_EXCHANGES_MAX     32
struct clock_measuring *peer_measure_clock(struct peers *p, const struct peer *peer, unsigned n,
                                           void (*done)(const struct clock_estimate *e,
                                                        const struct problem *problem, void *arg),
                                           void *arg);
void clock_measuring_cancel(struct clock_measuring *m);

/* -- Answers of peers, pure -- */

/* GET /v1/host. -EPROTO with the reason (the caller frees it). */
int peer_hello_parse(const json_t *j, struct peer_hello *ret, char **ret_reason);
void peer_hello_done(struct peer_hello *h);
/* GET /v1/host/clock: fills t1, t2 and host_wall_ns of the sample, and quality and boot_id of the estimate. -EPROTO. */
int peer_clock_parse(const json_t *j, struct clock_sample *ret, struct clock_estimate *ret_facts);
