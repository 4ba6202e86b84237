/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the catalog as C records: written by session and collect, read by all modules. One file for each
 * family (sessions.c, traces.c, events.c).
 *
 * Writers return 0 or a negative errno value (-ENOSPC, -EROFS, -EIO) and join the transaction of the loop's
 * iteration. Readers see that transaction. Strings in records that a reader returns belong to the record;
 * *_record_done() frees them. In records that are written, strings are borrowed. Absent numbers are
 * RECORD_NONE.
 */
#pragma once

#include "base/uuid.h"
#include "daemon/catalog/catalog.h"
#include "daemon/fleet/worker.h"
#include "proto/names.h"

#define RECORD_NONE INT64_MIN

struct session_record {
    int64_t session_id; /* 0: to be given */
    enum state state;
    char *router;           /* URL, NULL for a static list */
    char *dialect;          /* of the router */
    char *fleet;            /* section of profd.conf */
    char *options, *labels; /* JSON texts */
    int64_t requested_at;
    char *requested_by;
    int64_t start_at, starts_sent_at, recording_at, stop_at, hard_stop_at, stopped_at, finished_at, skew_ns;
    char *reason, *remedy;
    char *remarks;    /* JSON array, NULL */
    char *name;       /* of a session that was made of ingested files, NULL */
    char *skipped;    /* JSON array of workers that were left out, NULL */
    int64_t begun_at; /* before the first start left */
    char *boot_id;    /* of the kernel whose boot_ns() these are */
    int64_t begun_boot_ns, stop_boot_ns, hard_stop_boot_ns;
    char *uuid; /* NULL: to be given; the record that is added stays without */
    char *coordinator,
        *coordinator_name; /* catalog and host of the profd that coordinates it; NULL: this one */
    int64_t lease_id;      /* of lease_record, where another profd coordinates it */
    int64_t skew_error_ns; /* uncertainty of skew_ns */
    bool pinned;
};

struct target_record {
    int64_t target_id, session_id;
    enum state state;
    char *worker_url;
    char *worker; /* JSON, worker_to_json() */
    char *profile_id, *output_dir, *trace_dir;
    int64_t ranks_expected;
    bool stop_pending;
    int64_t start_sent_at, start_answered_at, start_status, stop_sent_at, stop_answered_at, stop_status;
    char *failure;
    char *host, *host_uuid; /* name and catalog of the host that records it; NULL: this one */
    /* When the recording began: wall clock of the host minus that of the coordinator; its uncertainty; the round
     * trip of the exchange that it was taken from; the maximum error that the host's kernel states; 1 where that
     * kernel's clock is not synchronized. */
    int64_t clock_offset_ns, clock_error_ns, clock_rtt_ns, clock_maxerror_ns, clock_unsync;
    char *remedy;
};

struct trace_record {
    int64_t trace_id;
    int64_t session_id, target_id; /* RECORD_NONE: unclaimed */
    char *worker_url;              /* NULL: unknown or ambiguous */
    enum trace_kind kind;
    enum trace_state state;
    char *reason, *name, *path, *origin;
    bool stored;
    int64_t size;
    char *sha256, *format;
    int64_t uncompressed, rank, dp, pp, tp, ep;
    char *stage;
    int64_t world_size, pid, devices;
    char *device_name;
    int64_t events, first_event_at, span_ns;
    char *candidates; /* JSON array of worker URLs */
    int64_t owner_uid, recorded_at, collected_at;
    bool pinned;
    char *labels; /* JSON object */
    int64_t last_event_at;
    char *columns; /* path; NULL: there are none, and columns_reason may have the reason */
    int64_t columns_size, columns_version; /* RECORD_NONE: it was not tried to read them */
    char *columns_reason;
    int64_t slices, gpu_slices, threads, flows;
    char *defects;           /* JSON array */
    int64_t device, inode;   /* of the file that was read, where its worker wrote it */
    int64_t process_started; /* of the process whose root its path leads through; in ticks since boot */
    char *instance;          /* name of the engine instance, within its session; NULL: not known */
    int64_t disk_size;   /* bytes that its file in the store takes on the disk; 0 where it lies elsewhere */
    char *uuid;          /* as of a session */
    int64_t archived_at; /* when the archive was seen to have it; RECORD_NONE: it does not */
    char *archive_key;   /* name of its object there */
};

struct run_record {
    int64_t run_id;     /* 0: to be given */
    int64_t session_id; /* RECORD_NONE: no session records during the run */
    enum run_state state;
    char *router, *dialect, *fleet; /* as of a session */
    char *model;
    char *workload, *targets, *labels; /* JSON texts */
    int64_t requested_at;
    char *requested_by;
    int64_t started_at, ended_at;
    int64_t success, incomplete, error; /* requests by their outcome */
    char *reason, *remedy;
    char *notes;  /* JSON array, NULL */
    char *uuid;   /* as of a session */
    char *warmed; /* JSON array, NULL */
};

/* A row of the view `requests`. What did not come is RECORD_NONE. */
struct request_row {
    int64_t request_id;
    int64_t run_id, number, prompt;
    char *target; /* URL */
    bool cold;
    int64_t intended_ns, sent_ns, first_ns, last_ns, end_ns; /* since the run's started_at */
    int64_t ttft_ns, tpot_ns, e2e_ns, lateness_ns;
    int64_t input_tokens, output_tokens;
    char *input_source, *output_source, *outcome;
    int64_t status;
    char *error;
    char *gaps_us; /* JSON array */
};

/* -- Other hosts -- */

struct host_record {
    int64_t host_id;
    char *host_uuid; /* of its catalog */
    char *name, *url, *version;
    int64_t first_seen_at, last_seen_at;
    int64_t clock_offset_ns, clock_error_ns; /* its wall clock minus this host's, as last measured */
};

/* Workers of this host that a coordinator may record. */
struct lease_record {
    int64_t lease_id; /* the fencing number: never used again. 0: to be given */
    char *session_uuid;
    char *coordinator, *coordinator_name; /* UUID of its catalog; name of its host */
    char *actor;                          /* who asked the coordinator */
    char *state;                          /* granted, prepared, started; over, released, expired */
    char *workers;                        /* JSON array of URLs */
    int64_t granted_at, deadline_boot_ns;
    char *boot_id;      /* of the kernel whose boot_ns() the deadline is */
    int64_t session_id; /* that records them; RECORD_NONE */
    char *granted_to;   /* token or user that asked for it here */
};

/* What another host does of a session that this profd coordinates. */
struct part_record {
    int64_t part_id; /* 0: to be given */
    int64_t session_id;
    char *host_uuid, *peer, *url;
    int64_t lease_id; /* in the host's catalog; RECORD_NONE */
    char *state;
    int64_t delivered; /* number in the host's change_row up to which its rows were taken */
    int64_t answered_at, deadline_at;
    bool open; /* it may still deliver */
};

/* A trace of this catalog's sessions that another host keeps. Its number is one that no trace of this catalog has. */
struct remote_trace_record {
    int64_t trace_id; /* 0: to be given */
    char *uuid;
    int64_t session_id, target_id;
    char *host_uuid;
    int64_t remote_id; /* its number in the host's catalog */
    int64_t
        recorded_at; /* to be stored: by the host's clock; stored: by this one, where the difference was measured */
    char *facts; /* JSON object: the trace as the host's API shows it */
};

/* copy() gives `to` texts of its own, and frees nothing that `to` held. */
void session_record_init(struct session_record *r);
void session_record_done(struct session_record *r);
void session_record_copy(struct session_record *to, const struct session_record *from);
void target_record_init(struct target_record *r);
void target_record_done(struct target_record *r);
void target_record_copy(struct target_record *to, const struct target_record *from);
void trace_record_init(struct trace_record *r);
void trace_record_done(struct trace_record *r);
void run_record_init(struct run_record *r);
void run_record_done(struct run_record *r);
void request_row_init(struct request_row *r);
void request_row_done(struct request_row *r);
void host_record_init(struct host_record *r);
void host_record_done(struct host_record *r);
void lease_record_init(struct lease_record *r);
void lease_record_done(struct lease_record *r);
void part_record_init(struct part_record *r);
void part_record_done(struct part_record *r);
void remote_trace_record_init(struct remote_trace_record *r);
void remote_trace_record_done(struct remote_trace_record *r);

/* Fleet: remembers router and workers as seen by a discovery. */
int catalog_saw_fleet(struct catalog *c, const struct fleet *f);
/* Number of routers that no section of profd.conf names, and of workers, seen since that time. */
int catalog_count_fleet(struct catalog *c, int64_t since, int64_t *ret_routers, int64_t *ret_workers);
/* The router that a session used last, or NULL. The caller frees it. */
char *catalog_last_router(struct catalog *c);

/* Sessions. add gives r->session_id / r->target_id; save writes every column of an existing row. */
int catalog_add_session(struct catalog *c, struct session_record *r);
int catalog_save_session(struct catalog *c, const struct session_record *r);
int catalog_add_target(struct catalog *c, struct target_record *r);
int catalog_save_target(struct catalog *c, const struct target_record *r);
/* Sets the state of all targets of a session whose state is `from`, and whether their stop is pending. */
int catalog_move_targets(struct catalog *c, int64_t session_id, enum state from, enum state to,
                         bool stop_pending);
int catalog_get_session(struct catalog *c, int64_t id, struct session_record *ret); /* -ENOENT */
int catalog_find_session_by_name(struct catalog *c, const char *name,
                                 struct session_record *ret); /* -ENOENT */
/* Calls fn for each; fn returns 0 to go on, anything else ends the walk and is returned. */
int catalog_each_unfinished(struct catalog *c, int (*fn)(const struct session_record *r, void *arg),
                            void *arg);
/* Sessions whose removal began and was not finished. */
int catalog_each_half_removed(struct catalog *c, int (*fn)(const struct session_record *r, void *arg),
                              void *arg);
int catalog_each_target(struct catalog *c, int64_t session_id,
                        int (*fn)(const struct target_record *r, void *arg), void *arg);
int catalog_pin_session(struct catalog *c, int64_t id, bool pinned); /* -ENOENT */
int catalog_remove_session(struct catalog *c,
                           int64_t id); /* the row and, by cascade, its targets and traces */

/* Traces. */
int catalog_add_trace(struct catalog *c, struct trace_record *r);
int catalog_save_trace(struct catalog *c, const struct trace_record *r);
int catalog_get_trace(struct catalog *c, int64_t id, struct trace_record *ret); /* -ENOENT */
int catalog_remove_trace(struct catalog *c, int64_t id);
/* The name of the engine instance that the rank is of. */
int catalog_set_instance(struct catalog *c, int64_t trace_id, const char *instance);
int catalog_pin_trace(struct catalog *c, int64_t id, bool pinned);
/* The trace with this path, or the newest with this origin. -ENOENT. */
int catalog_find_trace_by_path(struct catalog *c, const char *path, struct trace_record *ret);
int catalog_find_trace_by_origin(struct catalog *c, const char *origin, struct trace_record *ret);

/* Another one with the same bytes that is not missing. -ENOENT. */
int catalog_find_trace_by_sha256(struct catalog *c, const char *sha256, struct trace_record *ret);
/* Whether a trace of that file was removed. */
struct removed_file {
    const char *origin;
    int64_t size, recorded_at, inode;
};
bool catalog_was_removed(struct catalog *c, const struct removed_file *f);
/* The newest trace with a lower id (RECORD_NONE: the newest of all) that was not read into columns of this
 * version yet. -ENOENT. */
int catalog_find_trace_without_columns(struct catalog *c, int64_t below_id, int64_t version,
                                       struct trace_record *ret);

struct trace_filter {
    int64_t session_id;     /* RECORD_NONE: any */
    const char *worker_url; /* NULL: any */
    int64_t since, until;   /* recorded_at; RECORD_NONE: any */
    int64_t
        before_id; /* for paging: only traces after this one in the list (-ENOENT if it is gone); RECORD_NONE: all */
    bool unclaimed; /* only those without a session */
    int64_t limit;  /* RECORD_NONE: all */
};
/* Newest first (recorded_at, then id). */
int catalog_each_trace(struct catalog *c, const struct trace_filter *f,
                       int (*fn)(const struct trace_record *r, void *arg), void *arg);
/* A position in an order of traces: `at` is recorded_at in a listing, and collected_at where a budget takes traces,
 * because the time of a file is set by its writer. */
struct trace_position {
    int64_t at, trace_id; /* RECORD_NONE, 0: before the oldest */
};
/* From now on, no trace of the store that the archive does not have is given as one that a budget may remove. */
void catalog_keep_unarchived(struct catalog *c, bool keep);
/* Unpinned traces of finished sessions, and unclaimed ones, that are stored or have columns: what a budget may remove,
 * those that were collected first. */
int catalog_evictable_after(struct catalog *c, const struct trace_position *after, int64_t limit,
                            int (*fn)(const struct trace_record *r, void *arg), void *arg);
/* The others that are stored or have columns, collected until then: pinned, of pinned sessions, of sessions that are not
 * over, and not archived yet. At most limit. */
int catalog_each_protected(struct catalog *c, int64_t collected_until, int64_t limit,
                           int (*fn)(const struct trace_record *r, void *arg), void *arg);
/* Another complete trace of the session (and worker, where the record has one) with the same bytes. -ENOENT.
 */
int catalog_find_twin(struct catalog *c, const struct trace_record *r, int64_t *ret_id);
/* Of a target: the number of its complete traces, and of the events of model work in them: operators and what
 * a GPU did. */
int catalog_count_work(struct catalog *c, int64_t target_id, int64_t *ret_traces, int64_t *ret_work);
int catalog_usage(struct catalog *c, int64_t *ret_traces, int64_t *ret_bytes);
/* Without any session, run and trace. False where it cannot be read. */
bool catalog_is_empty(struct catalog *c);
/* Sets the allocated size of the file of a stored trace, if it differs from the row. */
int catalog_set_disk_size(struct catalog *c, int64_t trace_id, int64_t bytes);

/*
 * In whose share of the store a trace counts. A number above 0 is a user; one below 0 is a worker
 * whose files belong to root or nobody, so that their ownership identifies no user; HOLDER_OTHERS stands for
 * unknown holders, and for all workers that no discovery has seen since `seen_since`.
 */
#define HOLDER_OTHERS 0
struct holder_usage {
    int64_t holder;
    char *worker_url; /* NULL: not a worker */
    int64_t traces, bytes;
};
/* owner_uid may be RECORD_NONE and worker_url NULL. */
int catalog_find_holder(struct catalog *c, int64_t owner_uid, const char *worker_url, int64_t seen_since,
                        int64_t *ret_holder);
/* All holders with traces in the store, by descending size. The caller frees them. */
int catalog_list_holders(struct catalog *c, int64_t seen_since, struct holder_usage **ret, size_t *ret_n);
void holder_usage_free(struct holder_usage *list, size_t n);
/* Of one holder, the next that catalog_evictable_after() would give. -ENOENT. */
int catalog_next_evictable_of(struct catalog *c, int64_t holder, int64_t seen_since,
                              const struct trace_position *after, struct trace_record *ret);

/* The content of a trace as profd-ingest reported it ("names" and "categories" of
 * proto/ingest.h). set replaces what there was; put adds both keys to the object. */
int catalog_set_summary(struct catalog *c, int64_t trace_id, const json_t *facts);
int catalog_put_summary(struct catalog *c, int64_t trace_id, json_t *object);

/* What the report `steps` and the rules found in a trace: {"steps": [{"phase", "steps", "sum_ns", "p50_ns", "p99_ns",
 * "max_ns"}], "findings": [{"rule", "label", "what", "cost_ns", "share"}]}, findings in their order. Replaces what there was;
 * rows without what the schema requires are left out. -ENOENT: there is no such trace. */
int catalog_set_sums(struct catalog *c, int64_t trace_id, const json_t *sums);

/* What a UUID names, or its beginning (uuid_is_prefix()). */
struct catalog_ref {
    char kind; /* s session, t trace here or on another host, r run, l lease by its session */
    int64_t id;
    char uuid[UUID_SIZE];
};
/* The rows of these kinds, at most `max`; their number, or a negative errno value. */
int catalog_find_refs(struct catalog *c, const char *uuid, const char *kinds, struct catalog_ref *ret,
                      size_t max);

/* Hosts. saw adds or renews the row of r->host_uuid; what r has not (NULL, RECORD_NONE) stays as it was. */
int catalog_saw_host(struct catalog *c, const struct host_record *r);
/* The UUID of the host that answered at the URL last; NULL: none. The caller frees it. */
char *catalog_host_at(struct catalog *c, const char *url);

/* Leases that this host granted. add gives r->lease_id, a larger number than any before; a lease is answered only after
 * the commit with full_sync. each: those whose state is not final, or of the session, oldest first. */
int catalog_add_lease(struct catalog *c, struct lease_record *r);
int catalog_save_lease(struct catalog *c, const struct lease_record *r);
int catalog_get_lease(struct catalog *c, int64_t id, struct lease_record *ret); /* -ENOENT */
int catalog_find_lease(struct catalog *c, const char *session_uuid,
                       struct lease_record *ret); /* the newest of the session; -ENOENT */
int catalog_each_open_lease(struct catalog *c, int (*fn)(const struct lease_record *r, void *arg), void *arg);

/* What a coordinator has not seen yet: numbers of change_row. The last one of the session and its targets (0: none); each trace of the
 * session that changed after a number, in the order of the changes. */
int catalog_session_change(struct catalog *c, int64_t session_id, int64_t *ret_seq);
int catalog_each_changed_trace(struct catalog *c, int64_t session_id, int64_t after, int64_t limit,
                               int (*fn)(const struct trace_record *r, int64_t seq, void *arg), void *arg);

/* Parts of sessions on other hosts. save adds a part whose id is 0, and gives it. */
int catalog_save_part(struct catalog *c, struct part_record *r);
int catalog_each_part(struct catalog *c, int64_t session_id,
                      int (*fn)(const struct part_record *r, void *arg), void *arg);
int catalog_each_open_part(struct catalog *c, int (*fn)(const struct part_record *r, void *arg), void *arg);

/* Traces on other hosts. put adds a trace or replaces the facts of the one with that UUID, whose number it gives. */
int catalog_put_remote_trace(struct catalog *c, struct remote_trace_record *r);
/* How many of a session one host has delivered. */
int catalog_count_remote_traces(struct catalog *c, int64_t session_id, const char *host_uuid, int64_t *ret);
int catalog_get_remote_trace(struct catalog *c, int64_t id, struct remote_trace_record *ret); /* -ENOENT */
/* In the order of catalog_each_trace(), whose filters apply; unclaimed finds none. before_id may be of either list. */
int catalog_each_remote_trace(struct catalog *c, const struct trace_filter *f,
                              int (*fn)(const struct remote_trace_record *r, void *arg), void *arg);
/* The facts with the number, session, host and worker of this catalog. */
int catalog_remote_trace_json(struct catalog *c, const struct remote_trace_record *r, json_t **ret);

/* Runs. add gives r->run_id; save writes every column of an existing row but its summary, a JSON object. */
int catalog_add_run(struct catalog *c, struct run_record *r);
int catalog_save_run(struct catalog *c, const struct run_record *r);
int catalog_set_run_summary(struct catalog *c, int64_t run_id, const char *summary);
int catalog_get_run(struct catalog *c, int64_t id, struct run_record *ret); /* -ENOENT */
int catalog_each_unfinished_run(struct catalog *c, int (*fn)(const struct run_record *r, void *arg),
                                void *arg);
/* Replaces the labels, a JSON object, of a session, trace or run: kind is the letter of its ids. -ENOENT. */
int catalog_set_labels(struct catalog *c, char kind, int64_t id, const char *labels);
/* The run that was sent while a session recorded. -ENOENT. */
int catalog_find_run_of_session(struct catalog *c, int64_t session_id, int64_t *ret_id);
/* Hides the run at once; the next upkeep deletes it and its requests. -ENOENT. */
int catalog_remove_run(struct catalog *c, int64_t id);
/* Requests of a run in the order of their numbers, those after after_number (-1: all); limit: at most. */
int catalog_add_request(struct catalog *c, struct request_row *r);
int catalog_each_request(struct catalog *c, int64_t run_id, int64_t after_number, int64_t limit,
                         int (*fn)(const struct request_row *r, void *arg), void *arg);

/* The same, with a connection of its own, on any thread: the number of rows, or a negative errno value, also of fn(). */
int64_t requests_read(const char *path, int64_t run_id, int64_t after_number, int64_t limit,
                      int (*fn)(const struct request_row *r, void *arg), void *arg);

/* Events: the audit log. session/target/trace ids may be RECORD_NONE. Listeners hear of it after the commit.
 */
int catalog_add_event(struct catalog *c, const char *kind, const char *actor, int64_t session_id,
                      int64_t target_id, int64_t trace_id, const char *format, ...) _printf_(7, 8);
/* The same of a run, of kind "run". */
int catalog_add_run_event(struct catalog *c, const char *actor, int64_t run_id, int64_t session_id,
                          const char *format, ...) _printf_(5, 6);
/* Passes an event to the listeners that is not stored in the audit log. */
void catalog_announce(struct catalog *c, const json_t *event);

/* JSON as in openapi.yaml. A session's "targets" and "traces" counts are included; with_targets adds the
 * list. */
int catalog_session_json(struct catalog *c, int64_t id, bool with_targets, json_t **ret); /* -ENOENT */
/* Newest first; before_id pages (RECORD_NONE: from the start); state NULL: any, "active": all that are not
 * over, -EINVAL for no state. Gives an array. */
int catalog_sessions_json(struct catalog *c, int64_t limit, int64_t before_id, const char *state,
                          json_t **ret);
json_t *trace_record_to_json(const struct trace_record *r);
/* From such JSON, which is not trusted (record_parse.c): -EINVAL with an empty record. Ids, routers and all that is not of the JSON
 * are as in an empty record, and the worker of a target is its URL only. */
int session_record_parse(const json_t *object, struct session_record *ret);
int target_record_parse(const json_t *object, struct target_record *ret);
int trace_record_parse(const json_t *object, struct trace_record *ret);
/* Replaces the members of such JSON by a later state of the record, which the catalog could not save;
 * of a session with the states of all its targets, which are counted. */
void session_json_renew(json_t *session, const struct session_record *r, const enum state *targets, size_t n);
void target_json_renew(json_t *target, const struct target_record *r);
void run_json_renew(json_t *run, const struct run_record *r);
/* Oldest first; what came after after_id, or the newest where that is RECORD_NONE. Of a run or of a session,
 * where one is named. */
int catalog_events_json(struct catalog *c, int64_t session_id, int64_t run_id, int64_t after_id,
                        int64_t limit, json_t **ret);
int catalog_routers_json(struct catalog *c, json_t **ret);
/* A run with its summary; a list has of that the counts and the figures, and none of its parts that are long.
 */
int catalog_run_json(struct catalog *c, int64_t id, json_t **ret);     /* -ENOENT */
int catalog_run_row_json(struct catalog *c, int64_t id, json_t **ret); /* as a list has it; -ENOENT */
/* Newest first; before_id and session_id may be RECORD_NONE. Gives an array. */
int catalog_runs_json(struct catalog *c, int64_t limit, int64_t before_id, int64_t session_id, json_t **ret);
json_t *request_row_to_json(const struct request_row *r);

/* Upkeep off the loop: events beyond the limit and workers and routers that nobody saw for long and no row
 * needs are deleted, statistics renewed, the log checkpointed and truncated. Once more after one in progress. */
void catalog_upkeep(struct catalog *c);
/* The same after first_ns, and then every interval_ns, until the catalog is closed. To be called once. */
void catalog_upkeep_every(struct catalog *c, int64_t first_ns, int64_t interval_ns);
