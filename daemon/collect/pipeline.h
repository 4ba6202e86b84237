/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipeline from a worker's directory to the catalog, and the data that passes through it, once and
 * forward:
 *
 *   watch.c       which directories are scanned, and when: inotify, polling, pauses
 *   discover.c    one scan of a directory: which files there are, and which have changed; the known files
 *   admit.c       which of them are finished, trusted and within the limits: opens them as import jobs
 *   import.c      a job: profd-ingest with copy and columns, attribution, the store, the row
 *   attribute.c   whose a trace is, by evidence in order
 *   import_row.c  the row of the catalog
 *   columns.c, store.h   columns and copies, and their budget
 *   outcome.c     whether a target has all of its traces
 *
 * Calls go down this list; results come back by import_job.done(). Two more modules start jobs: reconcile.c
 * for files of the store, import_request.c for files that a client names. collector.c owns the objects.
 */
#pragma once

#include "daemon/collect/collector.h"
#include "daemon/collect/safe_open.h"
#include "trace/read/tracename.h"
#include <sys/stat.h>

#define FILE_OPENERS_MAX   8
#define N_TRACE_STAGES     (TRACE_STAGE_DECODE + 1)
#define SCAN_ENTRIES_MAX   100000 /* of one directory; further ones are overlooked, which is logged */
#define SCAN_PROCESSES_MAX 512    /* of one worker's process tree */
#define SCAN_TREES_MAX     64     /* bits of opened_by */

/* -- Directories and their files -- */

/* pytorch/kineto @114171df, libkineto/src/Config.cpp:196, defaultTraceFileName(): DIR/NAMEPID.json, whatever the
 * process's environment allows. */
#define KINETO_DEFAULT_DIR  "/tmp"
#define KINETO_DEFAULT_NAME "libkineto_activities_"

enum file_state {
    FILE_IGNORED,   /* older than the recording, or no trace: until it changes */
    FILE_GROWING,   /* not known to be finished */
    FILE_IMPORTING, /* an import job has it */
    FILE_DONE,      /* in the catalog */
};

/* The way in which a file is imported, chosen by the result of an earlier job. */
enum file_attempt {
    ATTEMPT_FIRST,
    ATTEMPT_WITH_ROOM, /* it is complete: older traces may be removed for it */
    ATTEMPT_IN_PLACE,  /* a copy could not be written: cataloged in place */
};

struct discovered_file {
    TAILQ_ENTRY(discovered_file) next;
    struct watched_dir *dir;
    char *name;
    struct trace_name parsed;
    enum file_state state; /* changed by file_set_state() */
    const char *kind;      /* file_kind() where it is no regular file; NULL */
    uint64_t seen_in;      /* number of the latest scan that listed it */
    int64_t size, mtime_ns;
    dev_t device;
    ino_t inode;
    uid_t uid;
    int64_t changed_ns;              /* monotonic: when it was last seen to differ */
    int64_t written_ns;              /* monotonic: changed_ns less its age by its own time */
    int64_t arrived_at;              /* wall: when it was seen to appear or change; 0: at the first scan */
    int64_t checked_size;            /* an earlier job found it unfinished at this size; -1 none */
    pid_t openers[FILE_OPENERS_MAX]; /* workers whose processes had it open */
    size_t n_openers;
    int64_t target_id; /* it was attributed to; 0 none */
    int64_t trace_id;  /* its row, where it was cataloged unfinished; 0 none */
    enum file_attempt attempt;
    bool counted; /* within the limit of traces without a request */
};
TAILQ_HEAD(discovered_list, discovered_file);
TAILQ_HEAD(collection_list, collection);

struct watched_dir {
    TAILQ_ENTRY(watched_dir) next;
    struct collector *collector;
    char *path;
    struct dir_location location; /* as long as it is used */
    char *refusal;                /* why the latest scan was refused, NULL */
    struct discovered_list files;
    void *by_name;      /* tsearch(3) tree of discovered_file */
    unsigned n_pending; /* files that grow or are imported */
    unsigned n_jobs;    /* import jobs of its files */
    unsigned n_opening; /* of them, those whose file a thread is opening */
    struct collection_list collections;
    unsigned n_targets; /* of its collections */
    int watch;          /* inotify, -1 none */
    bool remote;        /* inotify does not see other hosts */
    bool configured;    /* [collect] watch= */
    int64_t writer_uid; /* of the one user whose workers wrote here; -1 unknown or several */
    uint64_t queue;     /* of the offload */
    bool scanning;      /* a thread scans it, or the result is being merged */
    bool scan_again;    /* as soon as that is over */
    uint64_t n_scans;
    int64_t scanned_ns;       /* monotonic: when the latest completed scan began; 0 none */
    int64_t rests_until_ns;   /* monotonic: no scan before, the latest one was expensive */
    int64_t reports_since_ns; /* monotonic: begin of the minute in which n_reports files were reported */
    unsigned n_reports;
    bool was_scanned;     /* at least once, without an error */
    bool dirty;           /* changed since the latest scan */
    bool warned_overfull; /* that it has more than SCAN_ENTRIES_MAX files */
    int err;              /* of the latest scan */
};
TAILQ_HEAD(watched_dir_list, watched_dir);

struct scan_entry {
    char *name;
    const char *kind; /* file_kind() where it is no regular file; NULL */
    int64_t size, mtime_ns;
    dev_t device;
    ino_t inode;
    uid_t uid;
    uint64_t opened_by; /* bit i: a process of dir_scan.trees[i] has it open for writing */
};

/* The process tree of a worker, listed because several workers write to one directory. */
struct scan_tree {
    pid_t root;
    pid_t *pids, *inner_pids; /* filled by the scan */
    size_t n_pids;
};

/* One scan of one directory: a directory on a server that does not respond delays only its own scan. */
struct dir_scan {
    TAILQ_ENTRY(dir_scan) next;
    struct watched_dir *dir; /* not for the thread */
    int64_t began_ns;
    /* Request. */
    char *path;
    struct dir_location location; /* filled where it is empty */
    int inotify_fd;               /* to watch it by, < 0 where it is watched or cannot be */
    bool with_rank_dirs;          /* the directories of ranks below it too */
    int64_t newer_than_ns;        /* openers are looked for only among files modified since */
    struct scan_tree *trees;
    size_t n_trees;
    /* Result. */
    int err;       /* -ENOENT, -EACCES, ... */
    char *refusal; /* why the path is not to be trusted */
    int watch;     /* or -1 with watch_err */
    int watch_err;
    bool remote;
    dev_t device;
    struct scan_entry *entries;
    size_t n_entries, cap_entries;
    size_t n_rank_dirs;
    /* It is merged in portions: directories may hold a hundred thousand names. */
    enum merge_phase { MERGE_NEW, MERGE_ENTRIES, MERGE_VANISHED, MERGE_ADMIT, MERGE_OVER } phase;
    size_t entry;                 /* the next one to be merged */
    struct discovered_file *file; /* the next one of the directory */
    int64_t merged_ns;            /* duration of merging so far */
};
TAILQ_HEAD(dir_scan_list, dir_scan);

/* -- Targets -- */

/* The state of collecting one target of a session. */
struct collection {
    TAILQ_ENTRY(collection) next, next_in_dir;
    struct target *target;
    struct watched_dir *dir; /* NULL: not visible on this host */
    bool collecting;         /* the target was stopped, at began_ns */
    int64_t began_ns;
    bool scanned_since_stop;
    bool is_candidate;    /* of an ambiguous file */
    int64_t last_news_ns; /* monotonic: stop, or latest change of one of its files */
    unsigned
        n_complete_of[N_TRACE_STAGES]; /* complete rank traces, by stage: engines may split each rank's */
    unsigned n_complete;               /* the maximum of them */
    unsigned n_traces;                 /* of any state, with ambiguous ones of its directory */
    uint64_t ranks;                    /* bit of each rank below 64 that has a trace */
    char *damage;                      /* defect of its latest damaged trace */
    char *trouble;                     /* why a file could not be imported, the first reason */
    char *trouble_remedy;
    char *
        left_file; /* name of one that a process of another host wrote, by the process id in it; NULL: none */
    pid_t *pids, *inner_pids;
    size_t n_pids;
};

/* A session that waits for a scan of its directories. */
struct preparing_session {
    int64_t session_id, asked_ns;
    size_t n_scanned; /* its first targets, whose directories were scanned since */
};

/* Number of traces without a request within a minute. */
struct unrequested_limit {
    int64_t began_ns; /* monotonic, of the minute; 0: there was none */
    unsigned n_admitted, skipped;
    uint64_t skipped_total;
    char *latest; /* path of the latest skipped one */
    struct event *minute_over;
};

TAILQ_HEAD(import_job_list, import_job);

struct collector {
    struct event_base *base;
    struct offload *offload;
    struct catalog *catalog;
    struct sessions *sessions;
    struct store *store;
    struct ingest *ingest;
    const struct collect_settings *settings;

    /* watch.c */
    struct watched_dir_list dirs;
    void *dirs_by_path;         /* tsearch(3) tree of watched_dir */
    struct dir_scan_list scans; /* that are being merged */
    int inotify_fd;
    bool warned_unwatched; /* that inotify's watches are used up */
    struct event *inotify_event, *tick, *arm, *merge;
    struct preparing_session *preparing;
    size_t n_preparing, cap_preparing;

    struct collection_list collections;
    struct unrequested_limit unrequested;
    unsigned n_opening; /* files that threads are opening for admit.c */

    /* import.c */
    unsigned n_importing;
    struct import_job_list unsaved; /* of them, those whose row the catalog could not take */
    struct event *resave;

    /* reconcile.c */
    unsigned n_recovering;       /* files of the store on their way to a row */
    struct event *background;    /* activated whenever a job ends: background work may continue */
    struct reconcile *reconcile; /* NULL: not running */
    struct reread *reread;       /* NULL: not running */
    bool skipped_session;        /* reconcile skipped a session that was not over */
    bool session_ended;          /* one has ended since */
    bool closing;
};

/* -- The import job -- */

/* Of a client's struct import_request; strings are owned. */
struct import_options {
    bool reference, again;
    char *labels;       /* JSON, or NULL */
    int64_t session_id; /* or RECORD_NONE */
    char *session_name; /* or NULL */
    void (*report)(const struct import_result *result, void *arg);
    void *arg;
};

enum import_source {
    IMPORT_DISCOVERED,
    IMPORT_RECOVERED,
    IMPORT_REQUESTED,
    IMPORT_REREAD, /* a cataloged file, only for its columns: ends as IMPORT_READ, and nothing is saved */
};

enum import_outcome {
    IMPORT_SAVED,     /* its row is in the catalog */
    IMPORT_READ,      /* job.read */
    IMPORT_UNSAVED,   /* job.err: the catalog refused it */
    IMPORT_EXISTED,   /* of a request: its bytes are in the catalog, as row.trace_id */
    IMPORT_REFUSED,   /* of a request: job.problem has the reason */
    IMPORT_ELSEWHERE, /* IMPORT_DISCOVERED: a worker of another host wrote it, whose profd collects it */
    IMPORT_POSTPONED, /* try again; job.postponed or job.err has the reason */
    IMPORT_CANCELLED, /* profd ends */
};

enum import_postponed {
    POSTPONED_BUSY,         /* too many files wait, or too few descriptors */
    POSTPONED_STORE_FAILED, /* the copy could not be written */
    POSTPONED_CHANGED,      /* it changed while it was read */
    POSTPONED_UNFINISHED,   /* its writer may still be writing it */
    POSTPONED_WORTHWHILE,   /* it is complete, and the store needs room for it */
};

/* Columns that are being written, see columns.c. */
struct import_columns {
    char *path; /* NULL: none */
    struct store *store;
    int64_t lent_bytes; /* of the disk */
};

/* A file on its way to its row. The module that starts it fills the first part, opens the file and calls
 * import_start(). */
struct import_job {
    TAILQ_ENTRY(import_job) next_unsaved;
    struct collector *collector;
    enum import_source source;
    void (*done)(struct import_job *job); /* on the loop, once; the job is freed after it */
    struct discovered_file *file;         /* IMPORT_DISCOVERED */

    char *dir_path, *name, *origin;
    char *stored_name;               /* its name in store and catalog; NULL: name */
    struct dir_location location;    /* IMPORT_DISCOVERED */
    struct file_reference reference; /* IMPORT_RECOVERED, IMPORT_REREAD */
    int64_t process_started;         /* of the process through whose root its path leads, or RECORD_NONE */
    int fd;                          /* or a negative errno value */
    char *refusal;                   /* of safe_open_dir() */
    const char *kind;                /* of safe_open_file() */
    struct stat st;                  /* when it was opened */
    int64_t holes;                   /* file_holes() */

    char *actor;      /* for events: "profd", or the client */
    char *queue_user; /* fair queue of profd-ingest: the file's owner, or the client */
    char *holder_url; /* the worker in whose share of the store it counts; NULL: its owner decides */
    bool copy;        /* into the store */
    bool in_place;    /* it is cataloged at its path, which needs no explanation */
    bool remove_original;
    bool may_be_unfinished; /* postponed unless it is complete */
    bool check_first;       /* no room is made for a file that may be incomplete */
    /* A session or a client waits for it. Otherwise traces that were collected after it was written are not removed
     * for it: an old file in a directory must not displace recent ones. */
    bool displaces_newer;
    bool no_columns;
    char *store_note;              /* why it is left in place */
    int64_t replaces_id;           /* its row so far; 0: the one with its path, if any */
    struct import_options options; /* IMPORT_REQUESTED */

    /* The job's own. */
    bool started;
    int64_t size, mtime_ns;
    int64_t displaces_until;
    int64_t holder, expected_bytes; /* counted by store_incoming() */
    char *incoming;                 /* path of the copy; NULL none */
    struct import_columns columns;
    char *columns_reason;             /* why there are none, where profd-ingest could not report it */
    bool columns_used_up;             /* its time or memory, by them */
    json_t *facts;                    /* of profd-ingest */
    const struct ingest_result *read; /* IMPORT_READ: borrowed until done() returns */
    bool changed;                     /* while it was read */
    struct trace_record row;
    char *store_dir;
    char *outdated_path, *outdated_columns; /* of the previous row, removed after the commit */

    int err;
    enum import_outcome outcome;
    enum import_postponed postponed;
    struct problem problem;
};

/* -- watch.c -- */

struct watched_dir *watch_dir(struct collector *c, const char *path);
void watch_dir_free(struct watched_dir *d);
void watch_init(struct collector *c);
void watch_close(struct collector *c);
void watch_free(struct collector *c);
/* Scans the directories that may have changed. */
void watch_scan(struct collector *c);
/* Plans the next tick by what is expected; once for all calls of one iteration of the loop. */
static inline void watch_arm_tick(struct collector *c)
{
    event_active(c->arm, EV_TIMEOUT, 0);
}
/* The next tick is at most that far away. */
void watch_tick_within(struct collector *c, int64_t interval_ns);
/* Calls session_prepared() after a scan of the session's directories. */
void watch_prepare(struct collector *c, const struct session *s);

/* -- discover.c -- */

/* Blocks. Fills the result of a struct dir_scan; uses only that and, to add a watch, the inotify descriptor. */
void discover_scan(void *scan);
/* False: more is to be merged, call it again. */
bool discover_merge(struct dir_scan *scan, int64_t until_ns);
void dir_scan_free(struct dir_scan *scan);

struct discovered_file *file_find(struct watched_dir *d, const char *name);
struct discovered_file *file_new(struct watched_dir *d, const char *name);
void file_free(struct discovered_file *f);
void file_set_state(struct discovered_file *f, enum file_state state);
/* The catalog has the file as it is now, or had it, and its row was removed. */
bool file_is_cataloged(const struct discovered_file *f);
/* Files that may become traces, of one collection or (NULL) of any. */
bool dir_has_pending(const struct watched_dir *d, const struct collection *of);

/* -- admit.c -- */

/* Starts an import job for a growing file that is finished. */
void admit_file(struct discovered_file *f);
void unrequested_init(struct collector *c);
void unrequested_done(struct collector *c);

/* -- import.c -- */

struct import_job *import_job_new(struct collector *c, enum import_source source, const char *path,
                                  void (*done)(struct import_job *job));
/* Without a call of done(). */
void import_job_free(struct import_job *job);
static inline const char *import_stored_name(const struct import_job *job)
{
    return job->stored_name ? job->stored_name : job->name;
}
/* "uid 1000": the user of the fair queue to whom the files of an owner count. The caller frees it. */
char *import_queue_user(uid_t owner);
/* Takes the job, with its open file. */
void import_start(struct import_job *job);
void import_init(struct collector *c);
/* Cancels the jobs whose rows the catalog could not take. */
void import_close(struct collector *c);

/* -- attribute.c, with attribute.h -- */

/* Whether the target could have written the file: by directory, time and the pattern of its name. */
bool file_may_be_of(const struct discovered_file *f, const struct collection *k);
/* Puts session, target and worker into the job's row. Negative with job.problem: a request's session cannot
 * be used. 1: a worker of another host wrote it to a directory that both hosts have. */
int attribute_job(struct import_job *job);

/* -- import_row.c -- */

/* Fills the row with the facts that profd-ingest and the file's name report. */
void row_fill(struct import_job *job, const struct ingest_result *r);
void row_set_facts(struct trace_record *row, const json_t *facts);
/* Finds a request's bytes in the catalog: the row's trace_id is then that trace, its columns and session are
 * completed. Negative with job.problem: that could not be saved; 0: there are none. */
int row_find_same(struct import_job *job);
/* Not committed. */
int row_save(struct import_job *job);
/* The commit failed: undoes what row_save() changed besides the catalog. */
void row_unsave(struct import_job *job);
/* After the commit: removes the files that only the previous row had. */
void row_committed(struct import_job *job);

/* -- columns.c -- */

struct columns_result {
    const json_t *facts;
    const char *reason; /* why there are none, if the facts do not have the reason; else NULL */
    bool used_up;       /* time or memory of the child */
};
void columns_open_draft(struct import_columns *draft, struct store *s, unsigned n_readers,
                        struct ingest_columns *ret);
void columns_drop_draft(struct import_columns *draft);
/* The result, into the row; drops a draft that is none or has no room in the store. */
void columns_settle(struct import_columns *draft, struct store *s, const struct columns_result *result,
                    int64_t displaces_until, struct trace_record *row);
/* Names the draft after the row's id and saves row and summary; without a draft only the summary. Not
 * committed. */
int columns_publish(struct import_columns *draft, struct store *s, const json_t *facts,
                    struct trace_record *row);
/* The row was not committed: makes a draft of its columns again. */
void columns_unpublish(struct import_columns *draft, struct store *s, struct trace_record *row);
/* All of this for a trace that was read again, instead of its columns; committed. Where there is a result,
 * its facts are in the row. */
int columns_renew(struct import_columns *draft, struct store *s, const struct columns_result *result,
                  struct trace_record *row);
/* Of which trace a file of that name would be the columns. */
bool columns_trace_of(const char *file_name, int64_t *ret_trace_id);

/* -- original.c -- */

/* Removes a worker's file after its copy was cataloged, later, on a thread. */
void original_remove(const struct import_job *job);

/* -- outcome.c -- */

/* Counts a new row for the collections of its directory. again: it replaces one. */
void outcome_count(struct discovered_file *f, const struct trace_record *row, bool again);
/* Reports why a file (NULL: the directory) is not imported, to the collections that may wait for it. */
void outcome_report_trouble(struct watched_dir *d, const struct discovered_file *f, const char *remedy,
                            const char *text);
/* Ends the collections that have everything, or waited for long enough. */
void outcome_check_all(struct collector *c);
void outcome_check_dir(struct watched_dir *d);

/* -- reconcile.c -- */

void reconcile_init(struct collector *c);
void reconcile_free(struct collector *c);
/* Compares store and catalog, then reads traces without columns. */
void reconcile_begin(struct collector *c);
/* A session ended: files that were skipped because of it may be compared, once nothing is collected. */
void reconcile_skipped(struct collector *c);
