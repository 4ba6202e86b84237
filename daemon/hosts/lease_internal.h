/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that implement leases.h. */
#pragma once

#include "daemon/hosts/leases.h"

#include "daemon/catalog/records.h"
#include <event2/event.h>
#include <sys/queue.h>

/* One that is not over. */
struct lease {
    TAILQ_ENTRY(lease) next;
    struct leases *all;
    struct lease_record record;
    enum lease_state state; /* its own; lease_state_now() adds what its session does */
    char **urls;            /* as its coordinator named the workers */
    size_t n_urls;
    struct fleet *fleet; /* its workers, as they were found when it was granted; NULL after a restart */
    bool committed;      /* its row is on disk */
    struct job_creation *creation; /* of its session, in progress */
    int64_t granted_boot_ns;       /* 0: before profd's start */
    int64_t start_mono_ns;         /* the moment of the starts; 0: not known */
    int64_t wanted_mono_ns;        /* the same, while it is being committed */
};
TAILQ_HEAD(lease_list, lease);

/* What a call waits for. */
enum lease_wait {
    LEASE_WAITS_FLEET,    /* a search or a discovery of its own */
    LEASE_WAITS_COMMIT,   /* the row of its lease */
    LEASE_WAITS_CREATION, /* the session of its lease */
    LEASE_WAITS_START,    /* the row with the start time */
};

struct lease_call {
    TAILQ_ENTRY(lease_call) next;
    struct leases *all;
    enum lease_wait wait;
    int64_t lease_id;            /* 0: not granted yet */
    struct lease_body body;      /* of a grant */
    struct lease_search *search; /* of a grant, then: */
    struct discovery *discovery;
    bool is_new; /* it caused what it waits for */
    lease_done done;
    void *arg;
};
TAILQ_HEAD(lease_call_list, lease_call);

TAILQ_HEAD(lease_poll_list, lease_poll);

struct leases {
    struct leases_modules modules;
    char *boot_id; /* of this kernel; NULL: not known */
    struct lease_list list;
    struct lease_call_list calls;
    struct lease_poll_list polls;
    struct event *deadline; /* the earliest of a lease that has not started */
    struct event *look;     /* polls are looked at in the next iteration of the event loop */
    char *holder_text;      /* the latest answer of lease_ops.holder */
    struct lease_metrics metrics;
    bool closing;
};

/* -- leases.c -- */

/* NULL: it is over, or never was. */
struct lease *lease_by_id(const struct leases *l, int64_t lease_id);
struct lease *lease_by_session(const struct leases *l, const char *session_uuid);
/* The session of this host that belongs to it, as long as that is not over. */
struct session *lease_session(const struct lease *lease);
/* With what its session does meanwhile. */
enum lease_state lease_state_now(const struct lease *lease);
/* The lease of a request, from memory or its row. */
struct lease_found {
    struct lease *lease; /* NULL: it is over */
    enum lease_state state;
    int64_t session_id; /* of this host; RECORD_NONE: none */
};
/* False with a problem (PROBLEM_GONE) where this catalog has no such lease of that session, or granted it to another
 * sender. */
bool lease_find(struct leases *l, int64_t lease_id, const char *session_uuid, const char *sender,
                struct lease_found *ret, struct problem *p);
/* Its row with its state is saved with the next commit. */
void lease_save(struct lease *lease);
void lease_set_state(struct lease *lease, enum lease_state to);
/* Applies an event, and carries its action out on the session. A lease that is over by then is gone. */
void lease_apply(struct lease *lease, enum lease_event event);
void lease_set_deadline(struct lease *lease, int64_t from_now_ns);
/* How long from now it may last, whatever its coordinator asks for. at_mono_ns: of a start; 0: none is being asked for. */
int64_t lease_latest_ns(const struct lease *lease, int64_t at_mono_ns);
/* Until its starts must have left: from now, negative: they should have. */
int64_t lease_start_within_ns(const struct lease *lease);
/* Re-arms the timer of deadlines. */
void leases_arm(struct leases *l);
struct lease *lease_alloc(struct leases *l);
/* Calls that wait for it end with the answer that it is gone. */
void lease_free(struct lease *lease);

/* -- lease_holders.c -- */

/* As lease_ops.holder of sessions. */
const char *leases_holder_text(const struct worker *w, const struct session *asking, int64_t *ret_until_at,
                               void *arg);
/* A worker of the fleet that somebody else holds: sets *ret. NULL: they are all free. */
const struct worker *leases_find_held(struct leases *l, const struct fleet *fleet, struct lease_holder *ret);

/* -- lease_grant.c -- */

struct lease_call *lease_call_new(struct leases *l, enum lease_wait wait, int64_t lease_id, lease_done done,
                                  void *arg);
/* Removes and frees it. */
void lease_call_free(struct lease_call *call);
/* Calls its done() with the answer, and frees it. */
void lease_call_end(struct lease_call *call, const struct lease *lease, const struct problem *p);
/* All calls that wait for that of a lease. */
void lease_calls_end(struct leases *l, enum lease_wait wait, int64_t lease_id, const struct lease *lease,
                     const struct problem *p);
/* lease NULL: it is over. */
void lease_answer_now(const struct lease *lease, int64_t lease_id, enum lease_state state,
                      const struct problem *p, lease_done done, void *arg);
/* "anna of login1". The caller frees it. */
char *lease_actor(const struct lease *lease);

/* -- lease_steps.c -- */

/* Where both are known: the session is armed, and the moment of its starts. */
void lease_go(struct lease *lease);

/* -- lease_poll.c -- */

/* Something changed: the polls of the lease are looked at soon. */
void leases_wake_polls(struct leases *l);
void leases_on_event(const json_t *event, void *arg);
void leases_on_look(evutil_socket_t fd, short what, void *arg);
void lease_polls_free(struct leases *l);
