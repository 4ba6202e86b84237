/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All sessions that are not over, and the operations on them that the APIs offer.
 *
 * The sessions object owns every session and target. A session exists here from its request to its last state
 * transition; afterwards it is only in the catalog. Each state transition is in the catalog before it is
 * acted on. This module does not handle files: traces are collected by the collector, which main() installs
 * as collector_ops.
 */
#pragma once

#include "base/metrics.h"
#include "base/offload.h"
#include "daemon/catalog/records.h"
#include "daemon/fleet/fleet.h"
#include "daemon/jobs/jobs.h"

struct function_list;
struct sessions;
struct session;

struct session_settings {
    int64_t connect_timeout_ns; /* 3 s */
    int64_t start_timeout_ns;   /* 30 s */
    int64_t clean_timeout_ns;   /* of the stop that goes before a start, 60 s */
    int64_t stop_timeout_ns;    /* 1800 s */
    int64_t session_limit_ns;   /* 10 min: a recording never lasts longer */
    unsigned sessions_max;      /* at a time */
};

struct target {
    struct session *session;
    struct target_record record; /* its state and what the catalog knows of it */
    struct worker worker;        /* as discovered */
    /* With which its start was sent: a stop is never refused because profd.conf forgot them meanwhile. */
    struct call_credentials credentials;
    struct call *call;   /* under way: clean, start or stop */
    struct event *retry; /* of a stop that did not get through */
    unsigned stop_tries;
    unsigned stop_refusals;      /* of these, the latest ones whose connection was refused */
    unsigned stop_errors;        /* of these, those whose answer had status 2xx and said that it failed */
    int64_t stop_deadline_ns;    /* monotonic; 0 until the first stop leaves */
    bool start_settled;          /* its start was answered, or failed */
    bool start_unanswered;       /* its start left and was not answered: it may record */
    int64_t stop_sent_ns;        /* monotonic: its first stop; 0 none */
    bool recorded;               /* its start was accepted before its stop */
    bool stop_repeated;          /* an earlier stop may have succeeded: the traces decide */
    bool replaced;               /* another worker has its address: nothing is sent to it any more */
    bool stop_queued;            /* waits until others are stopped (--stagger) */
    bool inherited;              /* a profd before this one began it */
    double steps_before;         /* steps_metric when the recording began; < 0 unknown */
    double steps_before_load;    /* done since the engine's launch when its load began; < 0 unknown */
    bool probed;                 /* included in the running probe */
    bool files_complete;         /* the collector saw everything, though nobody stopped it */
    bool older_paths;            /* its engine is of the generation before */
    bool older_keys;             /* its engine does not know newer_keys */
    bool peer_records;           /* its host reported that it records, before the start was due here */
    bool peer_ended;             /* its host reported that it does no more */
    bool stop_asked;             /* a stop for it came before its start was answered */
    bool server_records;         /* of ranks: their server was not stopped yet */
    int64_t start_step;          /* counted by its coordinator; 0: as the request says */
    void *collecting;            /* the collector's own */
    void *recorder_state;        /* its answer recorder's own; NULL: none */
    struct on_demand *on_demand; /* of a process that polls; NULL: none */
};

struct session {
    struct live_job job; /* first: struct live_job is cast to this */
    struct sessions *all;
    struct session_record record;
    struct job_request request;
    struct target *targets;
    size_t n_targets;
    json_t *remarks;          /* what was noticed; NULL: nothing */
    char *waiting_for;        /* why a requested session has not started */
    struct event *timer;      /* of the state it is in */
    struct event *hard_timer; /* armed from the first start on */
    int64_t requested_ns;     /* monotonic */
    int64_t begun_ns;         /* monotonic: record.begun_at; 0: not by this profd */
    int64_t when_deadline_ns; /* monotonic, of --when-running */
    int64_t durable_until;    /* monotonic: until then the start waits for a locked catalog */
    bool prepared;            /* the directories were looked at */
    bool starts_left;         /* the starts were sent */
    bool stop_wanted;         /* a stop came before the starts had left */
    bool rolled_back;
    bool in_line; /* waits for a worker that another session holds */
    /* Of a session with remote targets: */
    bool leasing;   /* its hosts were asked for leases */
    bool leased;    /* and all granted one */
    bool lent;      /* leases may be there, and no start has left */
    bool preparing; /* its hosts prepare */
    /* Of these, and of leased sessions: */
    bool armed;               /* durable, and waits for the moment of the start */
    int64_t lease_again_ns;   /* monotonic: its hosts are not asked again before; 0: at once */
    int64_t go_at_ns;         /* that moment, monotonic; 0: not known yet */
    int64_t deadline_boot_ns; /* of its lease */
    int64_t limit_boot_ns;    /* of its length, which the deadline does not exceed */
    bool stops_asked;         /* its queued stops leave after the commit under way */
    bool unsaved;             /* the catalog could not store its last state transition */
    bool event_unsaved;       /* nor add its event (a locked catalog keeps events itself) */
    bool resaved;             /* it took it at a later try, which is not committed yet */
    bool finished_unsaved;    /* over, and only kept until the catalog has stored its last state transition */
    int64_t run_id;           /* of its load; 0: it has none */
    bool warming, warmed;     /* its load warms its workers up, or has */
    bool loads;               /* its load was started */
    bool load_over;
    bool load_lasted; /* until everything was recorded, as requested */
    struct probe *probe;
    void (*counted)(struct session *s); /* what follows session_count_steps() */
    unsigned n_outstanding;             /* calls of the phase it is in */
    /* Of thousands of targets, each answer looks at few: */
    unsigned n_stops_queued;      /* targets whose stop_queued is set */
    size_t n_stopped, n_finished; /* the first targets, of which all are stopped, or in a final state */
};

/* What the collector does for sessions. */
struct collector_ops {
    /* Before any start leaves: remember which files are there. Calls session_prepared() later, once. */
    void (*prepare)(struct session *s, void *collector);
    /* A start was answered: files may appear. */
    void (*recording)(struct target *t, void *collector);
    /* The stop was answered, or never will be: import the traces that exist, then call target_collected(),
     * later, once. */
    void (*collect)(struct target *t, void *collector);
    /* The target ended without being collected, or its session is given up: forget it. */
    void (*forget)(struct target *t, void *collector);
    /* It is over, and all of its targets are. */
    void (*ended)(const struct session *s, void *collector);
    /* Bytes that its files have grown to so far. */
    int64_t (*bytes_seen)(const struct target *t, void *collector);
    /* Whether there is room for what a new session would record: -ENOSPC with the problem. NULL: always. */
    int (*admit)(void *collector, struct problem *p);
};

/* What the sender of a session's load does for it; each by the run in s->run_id. */
struct loader_ops {
    /* Whether the request's workload can be sent to that fleet; a problem where not. */
    int (*check)(const struct job_request *request, const struct fleet *fleet, const size_t *chosen,
                 size_t n_chosen, void *loader, struct problem *p);
    /* Writes the run in addition to the session's row, and sets s->run_id. 0 or -errno. */
    int (*create)(struct session *s, const struct fleet *fleet, const size_t *chosen, size_t n_chosen,
                  const char *actor, void *loader);
    /* The catalog did not take their rows. */
    void (*forget)(struct session *s, void *loader);
    /* Calls session_warmed() later, once, or session_load_ended(). */
    void (*warm_up)(struct session *s, void *loader);
    /* Sends what counts, and calls session_load_ended() at its end. */
    void (*go)(struct session *s, void *loader);
    /* Ends a load that was started, and cancels one that was not. session_load_ended() is called afterwards,
     * unless it was called before. */
    void (*stop)(struct session *s, void *loader);
};

int sessions_new(struct event_base *base, struct offload *offload, struct caller *caller,
                 struct fleet_finder *finder, struct catalog *catalog,
                 const struct fleet_settings *fleet_settings, const struct session_settings *settings,
                 struct sessions **ret);
struct sessions *sessions_free(struct sessions *all);
void sessions_set_collector(struct sessions *all, const struct collector_ops *ops, void *collector);
/* Whether a session may be begun, also one that another host coordinates: 0, or a negative errno value with the problem where its
 * traces could not be kept. */
int sessions_admit(const struct sessions *all, struct problem *p);
struct kineto;
struct kineto_settings;
/* Where processes register that are recorded on demand; kineto may be NULL. Both are borrowed. */
void sessions_set_kineto(struct sessions *all, struct kineto *kineto, const struct kineto_settings *settings);
void sessions_set_loader(struct sessions *all, const struct loader_ops *ops, void *loader);
/* Resumes what an earlier profd left unfinished: pending stops are sent, recordings go on until their planned end,
 * files are collected. */
int sessions_recover(struct sessions *all);

/* For job_create(), and for all that sessions have in common with benchmark runs. At a shutdown, stops that are still
 * pending stay in the catalog. */
struct jobs *sessions_jobs(struct sessions *all);
/* catalog_sessions_json() with the states that sessions are in, also where the catalog could not take them.
 */
int sessions_list_json(struct sessions *all, int64_t limit, int64_t before_id, const char *state,
                       json_t **ret);

/* For the loader. failure: why there is no load, or none any more; NULL: it came to its end. */
void session_warmed(struct session *s);
void session_load_ended(struct session *s, const char *failure, const char *remedy);

/* For the collector. */
struct session *sessions_find(struct sessions *all, int64_t session_id);
void session_prepared(struct session *s);
void target_collected(struct target *t, enum state outcome, const char *reason, const char *remedy);
/* All expected traces of the target exist and are complete: an engine that stops by itself has stopped. */
void target_files_complete(struct target *t);
/* Whether its recording is over when its traces are there, though nobody stops it. */
bool target_ends_by_itself(const struct target *t);
/* The recording that is requested of this target's engine; strings are borrowed from the target. */
struct recording target_recording(const struct target *t);

/* -- For profd's operator; counts since profd's start -- */

enum session_call { SESSION_CALL_START, SESSION_CALL_STOP, _SESSION_CALL_MAX };
enum call_outcome { CALL_OK, CALL_REFUSED, CALL_UNANSWERED, _CALL_OUTCOME_MAX };

struct session_metrics {
    uint64_t calls[_SESSION_CALL_MAX][_ENGINE_MAX][_CALL_OUTCOME_MAX]; /* each try of a stop */
    struct histogram call_durations[_SESSION_CALL_MAX];
    uint64_t ended[_STATE_MAX];
    struct histogram durations;   /* of a session, from its request to its end */
    struct histogram start_skews; /* between the first and the last start that left */
};

/* As it is. */
struct session_gauges {
    uint64_t sessions[_STATE_MAX]; /* that are not over */
    uint64_t targets[_STATE_MAX];  /* of those */
    uint64_t stops_pending;        /* recordings that are over, whose stop was not answered yet */
    int64_t oldest_stop_sent_ns;   /* monotonic; INT64_MAX: none */
};

const struct session_metrics *sessions_metrics(const struct sessions *all);
void sessions_gauges(const struct sessions *all, struct session_gauges *ret);
