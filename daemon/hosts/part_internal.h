/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that implement parts.h. */
#pragma once

#include "daemon/catalog/records.h"
#include "daemon/hosts/delivery.h"
#include "daemon/hosts/lease_round.h"
#include "daemon/hosts/part_machine.h"
#include "daemon/hosts/parts.h"
#include "daemon/session/remote.h"
#include <event2/event.h>
#include <sys/queue.h>

/* A target of a part, and what its host reported of it last. */
struct part_target {
    struct target *target; /* NULL: it is in a final state, or its session is over */
    int64_t target_id;
    char *url;
    bool known; /* something was reported */
    enum state reported;
    char *failure, *remedy; /* reported; NULL: none */
    int64_t bytes_seen;
    bool stop_asked, stop_sent;
    int64_t stop_asked_ns; /* monotonic; 0: it was not asked for alone */
};

enum part_call {
    PART_CALL_NONE,
    PART_CALL_LEASE,
    PART_CALL_PREPARE,
    PART_CALL_START,
    PART_CALL_STOP,
    PART_CALL_RELEASE,
};

TAILQ_HEAD(part_list, part);

struct part {
    TAILQ_ENTRY(part) next;
    struct parts *all;
    struct session_parts *of; /* NULL: its session is over */
    struct part_record record;
    enum part_state state;
    char *host; /* name of the host */
    char session_uuid[UUID_SIZE];
    struct part_target *targets;
    size_t n_targets;
    char *why, *remedy; /* of a refusal or a loss */
    char *holder;       /* UUID of the session that holds a worker of it; NULL: not known */
    bool is_busy;       /* refused because somebody holds a worker */

    enum part_call calling;
    struct peer_query *call; /* NULL: none in flight */
    bool is_abandoned;       /* calling is RELEASE, and the call in flight still asks for the lease */
    struct event *call_again;
    unsigned call_tries;
    int64_t call_sent_ns; /* monotonic */

    struct peer_query *poll;
    struct event *poll_again;
    unsigned poll_tries;
    int64_t poll_sent_ns;   /* monotonic */
    unsigned poll_quick;    /* answers in a row that came faster than a host that waits for changes has any */
    struct delivery report; /* the answer whose rows are being stored */
    bool storing;
    int64_t delivered_before; /* record.delivered, before that answer */
    int64_t n_traces;         /* rows of it in the catalog, at most; -1: not counted yet */
    unsigned n_remarks;       /* taken from its host */
    int64_t facts_bytes;      /* of all traces that it delivered to this profd, each time that one changed */
    int64_t delivering_ns;    /* monotonic: since then its traces are waited for; 0: not yet */

    struct peer_query *renewal;
    struct event *renew;

    struct clock_measuring *measuring;
    struct clock_estimate clock;
    bool measured, host_armed;
    unsigned clock_tries;

    int64_t lease_end_ns; /* monotonic: the lease is certain to hold until then */
    int64_t answered_ns;  /* monotonic: the last answer of its host */
    char *silence;        /* why there was none to the newest question; NULL: there was */
    int64_t slowest_ns;   /* of the calls that were answered */

    struct event *look; /* its targets are looked at in the next iteration */
    bool drained;       /* the last answer had all rows that there are */
    bool pending;       /* its session waits for it at a step */
    bool dropped;       /* freed in a later iteration */
};

/* The step whose answers a session waits for. */
enum parts_step {
    PARTS_IDLE,
    PARTS_LEASE,
    PARTS_PREPARE,
    PARTS_START,
};

/* The parts of a session that is not over. */
struct session_parts {
    TAILQ_ENTRY(session_parts) next;
    struct parts *all;
    struct session *session;
    int64_t session_id; /* of it: a later session may have its address */
    bool over;          /* none of its targets is left here: freed in a later iteration */
    struct part_list parts;
    struct lease_round round;
    enum parts_step step;
    unsigned n_pending; /* parts that have not arrived at the step */
    struct peers_refreshing *refreshing;
    struct event *timer;    /* a step ends at the latest then; or it ends in the next iteration */
    int64_t go_at_ns;       /* monotonic: T; 0: not agreed */
    int64_t prepared_by_ns; /* monotonic: in the step PARTS_PREPARE, hosts are waited for until then */
};
TAILQ_HEAD(session_parts_list, session_parts);

struct parts {
    struct event_base *base;
    struct peers *peers;
    struct sessions *sessions;
    struct catalog *catalog;
    const struct hosts_settings *settings;
    const struct session_settings *session_settings;
    struct session_parts_list sessions_parts;
    struct part_list late; /* whose session is over */
    struct event *sweep;   /* frees what was dropped */
    struct part_list dropped;
    struct parts_metrics metrics;
};

/* -- part.c -- */

/* host is its name; session_uuid NULL: not known. */
struct part *part_alloc(struct parts *all, const char *host, const char *session_uuid);
/* It is in no list. */
void part_free(struct part *part);
/* It is in use by the caller: it is freed in a later iteration of the event loop, by parts_on_sweep(). */
void part_drop(struct part *part);
void parts_on_sweep(evutil_socket_t fd, short what, void *arg);
/* Something happened to it: its next state is saved, and what follows is done. */
void part_event(struct part *part, enum part_event event);
/* The step of its session waits for it. */
void part_await(struct part *part);
/* It does not any more: at most once for each part_await(). */
void part_arrive(struct part *part);
void part_save(struct part *part);
/* The text of a problem of a call without the name of its host, which part_explain() writes; otherwise: where it has none. */
const char *part_text_of(const struct part *part, const struct problem *p, const char *otherwise);
/* why is set once. */
void part_explain(struct part *part, const char *remedy, const char *format, ...) _printf_(3, 4);
void part_note_answer(struct part *part);
/* p may be NULL. */
void part_note_silence(struct part *part, const struct problem *p);
/* What its host did not report, and never will, has failed. */
void part_report_failed(struct part *part);
/* Its targets are looked at soon: the session module is not called back from within its own call. */
void part_look_later(struct part *part);
/* The host's peer, added by its URL where it is not known any more; NULL: there are too many. */
const struct peer *part_peer(const struct part *part);
bool part_is_open_ended(const struct part *part);
/* No answer came for so long that the session does not wait any more. */
bool part_is_overdue(const struct part *part);
/* Why it does not answer; NULL: it does. */
const char *part_silence(const struct part *part);
/* Monotonic: until then its session waits for an answer of a silent host; 0: it does not wait, or no time decides. */
int64_t part_waits_until_ns(const struct part *part);
/* Its host answers, but a stop or the traces after it take longer than any worker may. */
bool part_is_stuck(const struct part *part);
/* A stop of one of its targets was asked for. */
bool part_is_stopping(const struct part *part);
/* Its session waits no more for it, and has not ended yet. */
bool part_is_left(const struct part *part);

/* -- session_parts.c -- */

/* NULL: the session has none. */
struct session_parts *session_parts_find(const struct parts *all, const struct session *s);
struct session_parts *session_parts_get(struct parts *all, struct session *s);
/* Its session is over: what hosts have not delivered yet comes late. */
void session_parts_free(struct session_parts *of);
struct part *session_parts_find_part(struct session_parts *of, const char *host_uuid);
/* The part of a target's host, which is made where it is missing. */
struct part *session_parts_put_target(struct session_parts *of, struct target *t);
/* No part is left; leases are given back in the background. */
void session_parts_clear(struct session_parts *of);

/* -- parts_start.c: of remote_ops -- */

void parts_lease(struct session *s, void *remote);
void parts_prepare(struct session *s, void *remote);
void parts_agree(struct session *s, void *remote);
/* All parts have arrived at a step, or its time is over. */
void session_parts_on_timer(evutil_socket_t fd, short what, void *arg);

/* -- parts_recover.c -- */

void parts_resume(struct session *s, void *remote);

/* -- part_calls.c -- */

/* Of a call in flight. */
const char *part_call_text(const struct part *part);
void part_call(struct part *part, enum part_call call);
void part_renew_later(struct part *part);
void part_measure_clock(struct part *part);
void part_calls_end(struct part *part);

/* -- part_poll.c -- */

/* Asks its host for changes, now; one question at a time. */
void part_poll(struct part *part);
void part_poll_end(struct part *part);

/* -- part_delivery.c -- */

/* Rows of one host's part: more than the ranks of a host write in any session. */
#define PART_TRACES_MAX 100000
/* Of their facts, again each time that one changes. A trace of 2 KiB that changes eight times takes 16 KiB. */
#define PART_FACTS_BYTES_MAX (INT64_C(64) << 20)

/* Notes what is reported of targets, and remarks. */
void part_take_report(struct part *part, const struct delivery *d);
/* -EDQUOT: more than PART_TRACES_MAX; -EFBIG: more than PART_FACTS_BYTES_MAX; otherwise an error of the catalog. */
int part_take_traces(struct part *part, const struct delivery *d);
int64_t delivery_facts_bytes(const struct delivery *d);
/* Brings the targets to what was reported. */
void part_look(struct part *part);
