/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of this module: the sessions object and the steps of a session's lifecycle, one file for
 * each phase.
 */
#pragma once

#include "daemon/fleet/engine.h"
#include "daemon/session/remote.h"

struct sessions {
    struct jobs jobs; /* first: struct jobs is cast to this */
    struct offload *offload;
    struct caller *caller;
    const struct fleet_settings *fleet_settings;
    const struct session_settings *settings;
    char *boot_id; /* of this kernel; NULL: not known */
    const struct collector_ops *collector_ops;
    void *collector;
    const struct loader_ops *loader_ops;
    void *loader;
    const struct remote_ops *remote_ops; /* NULL: other hosts are not known */
    void *remote;
    const struct lease_ops *lease_ops; /* NULL: nothing is leased to other hosts */
    void *leases;
    struct kineto *kineto; /* NULL: none */
    const struct kineto_settings *kineto_settings;
    struct event *resave;  /* armed while a session is unsaved */
    struct event *proceed; /* a worker became free: the queue moves on */
    struct session_metrics metrics;
};

#define SESSIONS_FOREACH(s, all)                                                                             \
    for ((s) = (struct session *)TAILQ_FIRST(&(all)->jobs.list); (s);                                        \
         (s) = (struct session *)TAILQ_NEXT(&(s)->job, next))

extern const struct job_ops session_job_ops;
/* create.c, plan.c: -EINVAL with a problem where no worker is left, where an engine cannot honour an option, with
 * require_all any is lost, or nothing could be collected. */
int session_plan_make(const struct fleet *fleet, const struct job_request *request, struct job_plan *ret,
                      struct problem *p);

/* A remark about one of its workers, or about the session: worker NULL. */
void plan_add_remark(struct job_plan *plan, const char *worker, const char *remedy, const char *format, ...)
    _printf_(4, 5);

/*
 * transition.c: every change of state, saved.
 *
 *   requested -> starting -> recording -> stopping -> collecting -> complete | partial | failed | cancelled
 */
bool transition_exists(enum state from, enum state to);
/* What a session whose targets all ended is: complete, partial, failed or cancelled. Pure. */
enum state session_outcome(const enum state *targets, size_t n);
void session_change_state(struct session *s, enum state to);
/* All targets of the session that have not ended, from one state to another that is not final; no stop is pending. */
void session_change_targets(struct session *s, enum state from, enum state to);
void target_change_state(struct target *t, enum state to);
/* Adds the event of its current state. */
void session_report_state(struct session *s);
/* Saves the state of all targets that were saved as `from` in one statement, and nothing else of them. */
void session_save_targets(struct session *s, enum state from, enum state to, bool stop_pending);
void target_fail(struct target *t, const char *failure, const char *remedy);
void session_explain(struct session *s, const char *remedy, const char *format, ...) _printf_(3, 4);
/* Of its targets. */
size_t session_count_state(const struct session *s, enum state state);
/* The first target with a failure; NULL: none. */
const struct target *session_first_failed(const struct session *s);
/* For a session whose starts have not left: its targets that have not ended do so in this state. */
void session_end_unstarted(struct session *s, enum state to);
/* Ends the session once all its targets ended; it is freed in a later iteration of the event loop. */
void session_check_finished(struct session *s);
void session_free(struct session *s);
struct session *session_alloc(struct sessions *all, size_t n_targets);

/* waiting.c: from the request to the moment when it begins. */
void session_proceed(struct session *s);
/* Its workers are free, and every lease is there. */
void session_begin_or_warm_up(struct session *s);
/* Takes the text. */
void session_wait_for(struct session *s, char *text);
/* Whether its worker is being recorded, or is about to be: not where it only waits. */
bool target_holds_worker(const struct target *t);

/* starting.c, recording.c, stopping.c: the phases. */
void session_begin(struct session *s);
/* Ends in session_prepared(). */
void session_prepare_directories(struct session *s);
/* After a restart of profd: its targets left are processes that have their texts. */
void session_resume_start(struct session *s);
/* Ends a session whose starts have not left. */
void session_give_up(struct session *s);
/* The moment of the start has come. */
void session_send_starts(struct session *s);
/* The same where the catalog cannot take what has to be durable before. */
void session_refuse_start(struct session *s, int err);
/* answered: the target whose start was just answered; NULL: none yet. */
void session_check_started(struct session *s, const struct target *answered);
/* Plans its latest end: limit_ns from now, which is `at` by the wall clock. */
void session_limit_length(struct session *s, int64_t at, int64_t limit_ns);
void session_arm_hard_limit(struct session *s);
void session_record(struct session *s);
void session_resume_recording(struct session *s);
/* Until its planned end, where it has one; negative after it. */
int64_t session_left_ns(const struct session *s);
void session_stop_all(struct session *s);
void target_stop(struct target *t);
/* Its stop is sent by session_send_queued_stops(). */
void target_queue_stop(struct target *t);
/* For a target whose stop is pending after the others were stopped. */
void session_stop_late(struct target *t);
/*
 * Ends what is recorded of workers whose address this one has by now, by their identities: such a worker is gone with its
 * profiler, and its stop would reach this one.
 */
void sessions_forget_replaced(struct sessions *all, const struct worker *now);
/* Sends the queued stops; with --stagger, one at a time. */
void session_send_queued_stops(struct session *s);
void session_check_stopped(struct session *s);

/*
 * How a target is reached: over HTTP, by what polls profd (Kineto), by the profd of its host, or not at all,
 * where its server starts it.
 */
struct target_transport {
    /* The start time has come: ends in target_settle_start(). */
    void (*start)(struct target *t);
    /* Its stop is due: ends in target_stopped(). */
    void (*stop)(struct target *t);
};
extern const struct target_transport transport_kineto; /* on_demand.c */
extern const struct target_transport transport_peer;   /* remote.c */
/* watched.c: ranks that their server starts and stops. */
extern const struct target_transport transport_watched;
/* The target of the server of such ranks, in the same session; NULL: it is none, or its server is another host's. */
struct target *target_server(const struct target *t);
/* The stop of its server was not answered yet: its ranks may still be writing. */
bool target_server_records(const struct target *t);
/* The target's state has changed: the ranks of a server that has ended follow. */
void target_lead(struct target *server);
const struct target_transport *target_transport(const struct target *t);
void target_send_start(struct target *t); /* starting.c, over HTTP */
void target_send_stop(struct target *t);  /* stopping.c, over HTTP */
/* Its start was accepted, or failed. */
void target_settle_start(struct target *t, bool ok);
/* Nothing is to be waited for any more: on to its files. */
void target_stopped(struct target *t);
/* Its recording is over: on to its files. */
void target_collect(struct target *t);
/* The same from within a transport's stop(), which the others follow. */
void target_leave_stopping(struct target *t);
/* Its stop leaves: the first time is noted. */
void target_note_stop(struct target *t);

/* remote.c: targets on other hosts, and sessions of other hosts' coordinators. */
/* Ends in session_begin_or_warm_up(), or the session waits or fails. */
void session_request_leases(struct session *s);
/* No start has left: the hosts may lend their workers to others. Once is enough. */
void session_give_back(struct session *s);
/* Counts as outstanding until its hosts are prepared. */
void session_prepare_remote(struct session *s);
/* A stop came while its hosts prepare. False where they do not. */
bool session_stop_preparing(struct session *s);
/* Its starts are durable: waits for the moment of the start. */
void session_arm(struct session *s);
/* A stop before its host reported whether the start worked. */
void target_stop_unheard(struct target *t);
/* Who has leased the worker, if this session (NULL: somebody new) may not have it. */
const char *sessions_lease_holder(struct sessions *all, const struct worker *w, const struct session *asking,
                                  int64_t *ret_until_at);
/* After a restart: false where its hosts cannot be asked any more, and its remote targets have failed. */
bool session_resume_remote(struct session *s);
int64_t target_bytes_seen(const struct target *t);
/* remote_ops.silence; NULL of a target of this host. */
const char *target_silence(const struct target *t, int64_t *ret_since, int64_t *ret_until);
/* leased.c: NULL: there is no lease, or it does not have the worker. */
const struct lease_worker *lease_worker_find(const struct lease_start *lease, const char *worker_url);

/* on_demand.c: targets that are processes which poll profd. */
bool target_is_on_demand(const struct target *t);
bool session_has_on_demand(const struct session *s);
/* How far ahead a start time must be, so that each process has fetched its text and warmed up. */
int64_t sessions_lead_ns(const struct sessions *all);
/* Hands each process its text. May end the session. */
void session_arm_targets(struct session *s);
/* At the start time: who has not fetched its text does not record. False: the session ended. */
bool session_drop_unfetched(struct session *s);
/* A stop before the start time: false where nobody fetched a text, and all can be cancelled. */
bool session_stop_unfetched(struct session *s);
/* Until the end of its recording; 0 for all other targets. */
int64_t on_demand_left_ns(const struct target *t);
/* False, with a remark, for one that goes on until its end. */
bool target_may_stop(struct target *t);
void on_demand_rebuild(struct target *t);
void on_demand_resume(struct target *t);
void on_demand_free(struct target *t);

/* loading.c: the load that a session is recorded under. */
static inline bool session_has_load(const struct session *s)
{
    return s->run_id > 0;
}
void session_warm_up(struct session *s);
/* Before its load begins: asks the engines whose start_step counts from their launch how many steps they have
 * done, where that matters. then() comes later, unless the session is given up. */
void session_count_steps(struct session *s, void (*then)(struct session *s));
void session_load(struct session *s);
void session_stop_load(struct session *s);
/* Says where nothing was done, although requests were sent. */
void target_check_empty(struct target *t);

/* sessions.c: stops it in whichever state it is. */
void session_stop(struct session *s);
void session_stop_by(struct live_job *job, const char *actor);
int session_read(struct jobs *jobs, int64_t id, bool full, json_t **ret);
bool session_has_pending_stop(const struct live_job *job);
void sessions_log_pending_stops(struct jobs *jobs);

/* Arms s->timer to call fn(s). */
void session_timer(struct session *s, int64_t deadline_ns, void (*fn)(struct session *s));
void session_timer_off(struct session *s);
struct call *target_call(struct target *t, const char *path, json_t *body, int64_t timeout_ns,
                         void (*done)(const struct call_result *result, void *arg));
/* For calls to come, should a reload take them out of the settings. */
void target_keep_credentials(struct target *t);
static inline const struct engine_ops *target_engine(const struct target *t)
{
    return worker_ops(&t->worker);
}
/* Which path a start or stop goes to. */
const char *target_start_path(const struct target *t);
const char *target_stop_path(const struct target *t);
/* True where the engine does not know the path and has an older one, to which the call is to go again. */
bool target_goes_older(struct target *t, const struct call_result *r);
/* True where the start is to go again without the members that the engine does not know. */
bool target_drops_newer_keys(struct target *t, const struct call_result *r);
/* What went wrong though the answer to a start or stop has status 2xx; NULL: nothing. The caller frees it. */
char *target_refusal(const struct target *t, const struct call_result *r);

/*
 * Records an engine with writes_no_traces by what it answers to start and stop, into the catalog. done() comes later,
 * once, unless the session is gone then; failures are those of the target.
 */
struct answer_recorder {
    enum engine engine;
    size_t answer_max; /* bytes */
    void (*start)(struct target *t, const struct call_result *result,
                  void (*done)(struct target *t, bool ok));
    /* result NULL: the worker is gone. */
    void (*stop)(struct target *t, const struct call_result *result, void (*done)(struct target *t, bool ok));
    void (*forget)(struct target *t); /* frees recorder_state */
};
/* Of optional modules (extras/), NULL at the end. */
extern const struct answer_recorder *const extra_recorders[];
/* NULL: the target writes traces. */
const struct answer_recorder *target_recorder(const struct target *t);

/* is_refused: in spite of its status. */
void sessions_count_call(struct target *t, enum session_call call, const struct call_result *r,
                         bool is_refused);
void sessions_count_end(const struct session *s);

/* target.c: the remedy for a call that was not answered; key of [timeouts]. The caller frees it. */
char *unanswered_remedy(const struct call_result *r, const char *timeout_key);

/* probe.c: /metrics of several workers at once. */
struct probe_answer {
    double running, waiting, steps; /* < 0: the worker does not report it */
    double since_launch;            /* steps, of an engine with steps_since_launch() */
};
struct probe *probe_start(struct sessions *all, const char *fleet_name, const struct worker *const *workers,
                          size_t n, int64_t timeout_ns,
                          void (*done)(const struct probe_answer *answers, void *arg), void *arg);
/* Probes all targets of a session as s->probe; done() gets the session and an answer for each target. */
void session_probe(struct session *s, int64_t timeout_ns,
                   void (*done)(const struct probe_answer *answers, void *arg));
/* NULL is fine. */
void probe_cancel(struct probe *p);
