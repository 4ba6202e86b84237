/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of this host's workers to coordinators on other hosts (lease_machine.h has their life).
 *
 * A lease has a number that only grows, and fences: it is in the catalog, on disk, before its coordinator learns it, and no
 * number of this catalog ever means another lease. Its deadline is a moment of boot_ns(), so that a coordinator that is
 * gone holds no worker and keeps no profiler running. What a lease records is an ordinary session of this host
 * (daemon/session/remote.h): this module creates it, names the moment of its starts and ends it.
 *
 * Nothing here calls another host: coordinators ask (daemon/api/route_leases.c), and poll what became of a session.
 * A peer is not trusted with anything that a lease does not name: it chooses among workers of this host, how they are
 * recorded, and when.
 */
#pragma once

#include "base/metrics.h"
#include "daemon/catalog/catalog.h"
#include "daemon/hosts/lease_body.h"
#include "daemon/hosts/lease_machine.h"
#include "daemon/session/remote.h"

struct leases;

struct leases_modules {
    struct event_base *base;
    struct catalog *catalog;
    struct fleet_finder *finder;
    struct offload *offload;
    struct sessions *sessions;
    const struct session_settings *settings;
};

/* Borrows the modules, and installs lease_ops. */
int leases_new(const struct leases_modules *modules, struct leases **ret);
/* Calls that wait end without an answer. */
struct leases *leases_free(struct leases *l);
/* After sessions_recover(): what was promised before a restart has expired, and what is being recorded keeps its
 * deadline. */
int leases_recover(struct leases *l);
/* Once a grant or a preparation in progress ends, it ends without an effect. */
void leases_close(struct leases *l);

/* Who holds a worker that was asked for. Texts are borrowed. */
struct lease_holder {
    const char *session; /* UUID */
    const char *host;    /* of its coordinator */
    int64_t until_at;    /* wall time, RECORD_NONE: not known */
};

/* Who holds this worker, by a lease or a session; false: nobody. */
bool leases_find_holder(struct leases *l, const struct worker *w, struct lease_holder *ret);

/* The answer to a request. */
struct lease_answer {
    int64_t lease_id;
    const char *state;                 /* word of lease_state_name() */
    bool is_new;                       /* granted by this request, or its session was created by it */
    bool is_late;                      /* of a problem: the start time has passed */
    int64_t left_ns;                   /* until its deadline */
    int64_t session_id;                /* of this host; RECORD_NONE: none */
    const struct problem *problem;     /* NULL: it succeeded */
    const struct lease_holder *holder; /* of a problem; NULL: nobody */
};
/* Pointers are borrowed for the call. */
typedef void (*lease_done)(const struct lease_answer *answer, void *arg);

/* A request whose answer comes later. */
struct lease_call;
/* The client left: done() does not come. What was begun goes on: its coordinator repeats the request. */
void lease_call_cancel(struct lease_call *call);

/*
 * Each copies what it needs of the body; done() comes once: before the call returns, which is NULL then, or later. A
 * lease belongs to the sender it was granted to: to everybody else it does not exist.
 */
struct lease_call *leases_grant(struct leases *l, const struct lease_body *b, lease_done done, void *arg);
struct lease_call *leases_prepare(struct leases *l, int64_t lease_id, const struct lease_body *b,
                                  lease_done done, void *arg);
struct lease_call *leases_start(struct leases *l, int64_t lease_id, const struct lease_body *b,
                                lease_done done, void *arg);
/* Those of a sender that may not ask any more are released, and what they record is stopped. */
void leases_end_of(struct leases *l, const char *sender);
/* These answer at once. */
void leases_renew(struct leases *l, int64_t lease_id, const struct lease_body *b, lease_done done, void *arg);
void leases_stop(struct leases *l, int64_t lease_id, const struct lease_body *b, lease_done done, void *arg);
/* The newest lease of a session: 0 with *ret_state NULL where the sender has none, or the catalog's error. */
int leases_find(struct leases *l, const char *session_uuid, const char *sender, int64_t *ret_lease_id,
                const char **ret_state);

/* -- lease_poll.c: what became of a lease -- */

/* Rows of one answer. */
#define LEASE_POLL_TRACES_MAX 256
/* A coordinator learns that a trace was archived when that is at most this long after the trace was collected. */
#define LEASE_ARCHIVE_WAIT_NS (24LL * 3600 * NS_PER_S)
#define LEASE_POLL_WAIT_MAX   (INT64_C(25) * 1000000000)

struct lease_poll;
/*
 * Everything that changed after the change `after` of this catalog: at once where there is such a thing or the lease is
 * over, else when there is, at the latest in wait_ns. done() gets the answer (a reference of its own) as of openapi.yaml,
 * LeaseChanges, or a problem; it is called later, once.
 */
struct lease_poll *leases_poll(struct leases *l, int64_t lease_id, const char *session_uuid,
                               const char *sender, int64_t after, int64_t wait_ns,
                               void (*done)(json_t *take_answer, const struct problem *p, void *arg),
                               void *arg);
void lease_poll_cancel(struct lease_poll *p);

/* -- For profd's operator; counts since profd's start -- */

struct lease_metrics {
    uint64_t granted, refused_busy, released, expired, late; /* late: starts whose time had passed */
};
const struct lease_metrics *leases_metrics(const struct leases *l);
/* By state, of those that are not over. */
void leases_count(const struct leases *l, uint64_t ret[static _LEASE_STATE_MAX]);
