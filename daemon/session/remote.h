/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions over several hosts. A profd has one of two roles in each of them, and may have both at once:
 *
 * - The coordinator was asked for the session. Its targets on other hosts are remote: profd there starts, stops and
 *   collects them, and remote_ops (daemon/hosts/parts.c) is how this module asks for it.
 * - The host has granted a lease of its workers. What it records is an ordinary session of its own, created by
 *   session_create_leased(), which waits before its starts until session_go_at() names their moment.
 *
 * One moment T on the monotonic clock of each host starts all targets. Whatever is written to a catalog for that is
 * committed before T: at T only the starts are sent. The deadline of a lease is a moment of boot_ns(), and holds
 * from the creation of the leased session to the end of its recording, also after a restart of profd.
 *
 * This module sends nothing to another profd. It tells what is due, and what remote_ops and lease_ops answer comes
 * through the functions below.
 */
#pragma once

#include "daemon/session/sessions.h"

/* -- The coordinator ------------------------------------------------------------------------------------ */

/*
 * What the coordinator asks of other hosts. None of these calls back before it returns, except lease(). Where a member has
 * an answer, that comes once, and not after give_back() or forget().
 */
struct remote_ops {
    /* Ask every host for its workers: session_leased(), or session_lease_later(). */
    void (*lease)(struct session *s, void *remote);
    /* The leases are there: let each host create its session, clean, and prepare its directories. Ends in
     * session_remote_prepared(); workers that failed were passed to target_peer_failed() before. */
    void (*prepare)(struct session *s, void *remote);
    /*
     * All targets of this host and of the others are prepared, and that each may have a stop pending is durable: choose T (not
     * before session_planned_start()), call session_go_at() with it, then tell all hosts. A host that has not confirmed
     * T 50 ms before it is passed to target_peer_failed() by then: with require_all nothing starts.
     */
    void (*agree)(struct session *s, void *remote);
    /* End its recording; also where its start is not known to have worked. Ends in target_peer_stopped(), or in
     * target_peer_failed(). s->rolled_back: nothing of it is to be collected. */
    void (*stop)(struct target *t, void *remote);
    /* Its recording is over: take over its traces, then call target_collected(). */
    void (*collect)(struct target *t, void *remote);
    /* No start was sent here, and none will be: release the leases of all hosts, and answer nothing that was asked. */
    void (*give_back)(struct session *s, void *remote);
    /* The target is in a final state: it and its session may be freed in a later iteration of the event loop. A host
     * none of whose targets is left before T is to have its lease back. */
    void (*forget)(struct target *t, void *remote);
    /* As the host reported. */
    int64_t (*bytes_seen)(const struct target *t, void *remote);
    /* Why its host does not answer, until the next call; NULL: it does. *ret_since: wall time of its last answer. *ret_until:
     * how long the session waits for one; RECORD_NONE: it does not wait for the host, or until its calls have failed. */
    const char *(*silence)(const struct target *t, int64_t *ret_since, int64_t *ret_until, void *remote);
    /* The session was read from the catalog; what it needs of the above is called afterwards. */
    void (*resume)(struct session *s, void *remote);
};

void sessions_set_remote(struct sessions *all, const struct remote_ops *ops, void *remote);
/* Whether profd of another host records it. */
bool target_is_remote(const struct target *t);
bool session_has_remote(const struct session *s);

/* The answer to lease(). NULL: every lease is there but those of targets that target_peer_failed() was called for. With a
 * problem the session fails: it has given back what it had. */
void session_leased(struct session *s, const struct problem *p);
/* The answer to lease() where somebody holds a worker, and the leases were given back: it asks again in delay_ns. why is shown
 * until it has the leases. */
void session_lease_later(struct session *s, const char *why, int64_t delay_ns);
void session_remote_prepared(struct session *s);
/* The start time that was asked for, by this host's monotonic clock; 0: at once. */
int64_t session_planned_start(const struct session *s);
/* The wall clock at a monotonic moment of this host, by the one reading that all moments of the session's starts are
 * relative to. Of a session that has begun. */
int64_t session_wall_at(const struct session *s, int64_t mono_ns);

/*
 * What a host reports of a target, in whichever state that is here; a report that changes nothing is ignored. Facts go
 * into t->record before: start_sent_at and the other moments by session_wall_at(), output_dir, clock_*.
 */
void target_peer_recording(struct target *t);
/* It was stopped, or has ended: on to its traces. */
void target_peer_stopped(struct target *t);
/* may_record: it may have been started, so that its stop is pending. A target that is being collected ends as failed. */
void target_peer_failed(struct target *t, const char *failure, const char *remedy, bool may_record);
/* Its host is not waited for any more: what it recorded is with the host. since: the wall time of its last answer;
 * RECORD_NONE: it answers, and its stop or its traces take too long. */
void target_peer_lost(struct target *t, int64_t since);

/* -- The host ------------------------------------------------------------------------------------------- */

struct lease_ops {
    /* Who has leased the worker, for another one than the session that asks (NULL: somebody new): a text such as "the session of
     * uid 1000 on login1", which lasts until the next call; NULL: it is free. *ret_until_at: wall time, or RECORD_NONE. */
    const char *(*holder)(const struct worker *w, const struct session *asking, int64_t *ret_until_at,
                          void *leases);
    /* The leased session is prepared, and durable: it waits for session_go_at(). */
    void (*armed)(struct session *s, void *leases);
    /* It is in its final state, and freed in a later iteration of the event loop. */
    void (*ended)(struct session *s, void *leases);
};

void sessions_set_lease_ops(struct sessions *all, const struct lease_ops *ops, void *leases);
/* Whether a coordinator on another host leads it. */
bool session_is_leased(const struct session *s);

/*
 * The session of a lease. Copies `start`. request is what a coordinator may ask for: how to record, not whom, when or where
 * (StartRequest of openapi.yaml without workers, sources, directories, times and queues). The answer is as of job_create(). -EINVAL
 * with the problem, and no creation, where the request or an id is malformed.
 */
int session_create_leased(struct sessions *all, const struct lease_start *start,
                          void (*done)(const struct job_created *created, void *arg), void *arg,
                          struct job_creation **ret, struct problem *p);
/* Where the server of its ranks was told to write; -EINVAL: no directory that profd made up for a recording. Before
 * session_go_at(). */
int target_watch_dir(struct target *t, const char *output_dir);
/* Ranks whose directory that is, and not known yet. */
bool target_awaits_dir(const struct target *t);
/* The same, as the coordinator knows it; NULL: not known, or its engine decides. */
const char *target_watched_dir(const struct target *t);
/* Of a leased session: their server was stopped, elsewhere. */
void target_server_stopped(struct target *t);
/* Of a worker whose first step its coordinator counted. Before session_go_at(). */
void target_set_start_step(struct target *t, int64_t start_step);
/* The deadline of its lease moved, by boot_ns(); the limit of a session's length holds all the same. */
void session_extend(struct session *s, int64_t deadline_boot_ns);
/* The coordinator rolled it back: nothing of it is collected. */
void session_roll_back(struct session *s, const char *why);
/* Ends what these workers record, or the entire session where they are all that is left of it. */
void session_stop_workers(struct session *s, const char *const *urls, size_t n);
/* Which session has this worker, or has waited for it longer than the one that asks (NULL: somebody new). */
struct session *sessions_holder(struct sessions *all, const struct worker *w, const struct session *asking);
/* The event loop lets waiting sessions look soon whether their workers are free: a lease has ended. */
void sessions_wake(struct sessions *all);

/* -- Both ----------------------------------------------------------------------------------------------- */

/*
 * The moment of all starts, by this host's monotonic clock, once. The coordinator calls it from agree(), a host when it is
 * told; then the row is committed before it can start. A host whose moment has passed by more than
 * SESSION_LATE_NS starts nothing: its targets fail.
 */
#define SESSION_LATE_NS (INT64_C(1000000000))
void session_go_at(struct session *s, int64_t mono_ns);
/* Writes its row, in the open transaction. */
void target_save(struct target *t);
void session_save(struct session *s);
/* Adds a remark that is not a failure, about a target or (NULL) the entire session. The next save stores it. */
void session_remark(struct session *s, const struct target *t, const char *remedy, const char *format, ...)
    _printf_(4, 5);
