/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this module share. Everything here is used on the loop's thread only; upkeep.c
 * documents the exceptions.
 */
#pragma once

#include "base/json.h"
#include "daemon/catalog/background.h"
#include "daemon/catalog/records.h"
#include <event2/event.h>
#include <sqlite3.h>
#include <sys/queue.h>

/* -- Statements --------------------------------------------------------------------------------------- */

/*
 * Every statement that the loop's connection runs, by name. They are prepared once, when the catalog is
 * opened, which also proves that the file has the tables it should have. Their texts are in statement_list.inc.
 */
#define STATEMENT(name, ...) STATEMENT_##name,
enum statement {
#include "daemon/catalog/statement_list.inc"
    STATEMENT_EXTRA, /* the first of extra_statements */
    _STATEMENT_MAX = STATEMENT_EXTRA + 4,
};
#undef STATEMENT
/* The SQL of optional modules (extras/), over tables that the schema always contains; NULL at the end. */
extern const char *const extra_statements[_STATEMENT_MAX - STATEMENT_EXTRA + 1];

/* How long a reader with a connection of its own waits for a checkpoint that restarts the log. */
#define READ_BUSY_MS 2000

/* -- Fields of records (records.c) -------------------------------------------------------------------- */

/*
 * Records as lists of fields, written once: the SQL texts, the binding of values, the reading of rows and the
 * JSON all follow from them.
 *
 * Each list takes three macros. F(type, name) is a struct member and a column of that name. R(member, table) is
 * a URL in the record and, in the row, the id of the router or worker that has it. K(name) is a UUID: a row gets a new
 * one where the added record has none, and keeps it when it is saved. The last column and the id are outside of the
 * lists, as SQL allows no comma after its last item.
 */
/* An SQL expression: a random UUID, as uuid_new() makes them. */
#define CATALOG_NEW_UUID                                                                                     \
    "lower(format('%s-%s-4%s-%s%s-%s', hex(randomblob(4)), hex(randomblob(2)), "                             \
    "substr(hex(randomblob(2)), 2), substr('89ab', 1 + (random() & 3), 1), "                                 \
    "substr(hex(randomblob(2)), 2), hex(randomblob(6))))"

enum record_field_type {
    FIELD_ID,    /* of the record itself; 0 or RECORD_NONE: to be given. Not rendered */
    FIELD_REF,   /* id of another row, not rendered */
    FIELD_INNER, /* internal to profd, not rendered */
    FIELD_INNER_TEXT,
    FIELD_SESSION, /* id of a session, rendered as "session": "s7" */
    FIELD_NUMBER,  /* RECORD_NONE where absent */
    FIELD_COUNT,   /* a number that is always there, 0 at first */
    FIELD_RANK,    /* a number rendered within "ranks" */
    FIELD_BOOL,
    FIELD_TEXT,
    FIELD_OBJECT,      /* JSON text, NULL is {} */
    FIELD_ARRAY,       /* JSON text, NULL is absent */
    FIELD_WORKER_JSON, /* JSON text, of which only what names the software is rendered */
    FIELD_STATE,
    FIELD_TRACE_STATE,
    FIELD_TRACE_KIND,
    FIELD_RUN_STATE,
};

struct record_field {
    enum record_field_type type;
    size_t offset;
    const char *name; /* in JSON */
};

struct record_fields {
    const struct record_field *fields;
    size_t n;
    size_t record_size; /* of the struct */
};

const struct record_fields *session_fields(void);
const struct record_fields *target_fields(void);
const struct record_fields *trace_fields(void);
const struct record_fields *run_fields(void);
const struct record_fields *request_fields(void);
const struct record_fields *host_fields(void);
const struct record_fields *lease_fields(void);
const struct record_fields *part_fields(void);
const struct record_fields *remote_trace_fields(void);

/* clang-format off */
#define SESSION_FIELDS(F, R, K)                                                                                       \
    F(STATE, state)                                                                                                   \
    R(router, router)                                                                                                 \
    F(TEXT, dialect) F(TEXT, fleet) F(OBJECT, options) F(OBJECT, labels) F(NUMBER, requested_at)                      \
    F(TEXT, requested_by) F(NUMBER, start_at) F(NUMBER, starts_sent_at) F(NUMBER, recording_at) F(NUMBER, stop_at)    \
    F(NUMBER, hard_stop_at) F(NUMBER, stopped_at) F(NUMBER, finished_at) F(NUMBER, skew_ns) F(TEXT, reason)           \
    F(TEXT, remedy) F(ARRAY, remarks) F(TEXT, name) F(ARRAY, skipped) F(INNER, begun_at) F(INNER_TEXT, boot_id)       \
    F(INNER, begun_boot_ns) F(INNER, stop_boot_ns) F(INNER, hard_stop_boot_ns) K(uuid) F(TEXT, coordinator)           \
    F(TEXT, coordinator_name) F(REF, lease_id) F(NUMBER, skew_error_ns)

#define TARGET_FIELDS(F, R, K)                                                                                        \
    F(SESSION, session_id)                                                                                            \
    R(worker_url, worker)                                                                                             \
    F(WORKER_JSON, worker) F(STATE, state) F(TEXT, profile_id) F(TEXT, output_dir) F(TEXT, trace_dir)                 \
    F(COUNT, ranks_expected) F(BOOL, stop_pending) F(NUMBER, start_sent_at) F(NUMBER, start_answered_at)                 \
    F(NUMBER, start_status) F(NUMBER, stop_sent_at) F(NUMBER, stop_answered_at) F(NUMBER, stop_status)                \
    F(TEXT, failure) F(TEXT, host) F(TEXT, host_uuid) F(NUMBER, clock_offset_ns) F(NUMBER, clock_error_ns)            \
    F(NUMBER, clock_rtt_ns) F(NUMBER, clock_maxerror_ns) F(NUMBER, clock_unsync)

#define TRACE_FIELDS(F, R, K)                                                                                         \
    F(SESSION, session_id) F(REF, target_id)                                                                          \
    R(worker_url, worker)                                                                                             \
    F(TRACE_KIND, kind) F(TRACE_STATE, state) F(TEXT, reason) F(TEXT, name) F(TEXT, path) F(TEXT, origin)             \
    F(BOOL, stored) F(COUNT, size) F(TEXT, sha256) F(TEXT, format) F(NUMBER, uncompressed) F(RANK, rank) F(RANK, dp)  \
    F(RANK, pp) F(RANK, tp) F(RANK, ep) F(TEXT, stage) F(NUMBER, world_size) F(NUMBER, pid) F(NUMBER, devices)        \
    F(TEXT, device_name) F(NUMBER, events) F(NUMBER, first_event_at) F(NUMBER, span_ns) F(ARRAY, candidates)          \
    F(NUMBER, owner_uid) F(NUMBER, recorded_at) F(NUMBER, collected_at) F(OBJECT, labels) F(NUMBER, last_event_at)    \
    F(TEXT, columns) F(NUMBER, columns_size) F(NUMBER, columns_version) F(TEXT, columns_reason) F(NUMBER, slices)     \
    F(NUMBER, gpu_slices) F(NUMBER, threads) F(NUMBER, flows) F(ARRAY, defects) F(INNER, device) F(INNER, inode)   \
    F(INNER, process_started) F(TEXT, instance) F(COUNT, disk_size) K(uuid) F(NUMBER, archived_at)                    \
    F(TEXT, archive_key)

#define RUN_FIELDS(F, R, K)                                                                                           \
    F(REF, session_id) F(RUN_STATE, state)                                                                            \
    R(router, router)                                                                                                 \
    F(TEXT, dialect) F(TEXT, fleet) F(TEXT, model) F(OBJECT, workload) F(ARRAY, targets) F(OBJECT, labels)            \
    F(NUMBER, requested_at) F(TEXT, requested_by) F(NUMBER, started_at) F(NUMBER, ended_at) F(COUNT, success)         \
    F(COUNT, incomplete) F(COUNT, error) F(TEXT, reason) F(TEXT, remedy) F(ARRAY, notes) K(uuid)

#define REQUEST_FIELDS(F, R, K)                                                                                       \
    F(REF, run_id) F(NUMBER, number) F(NUMBER, prompt) F(TEXT, target) F(BOOL, cold) F(NUMBER, intended_ns)           \
    F(NUMBER, sent_ns) F(NUMBER, first_ns) F(NUMBER, last_ns) F(NUMBER, end_ns) F(NUMBER, ttft_ns)                    \
    F(NUMBER, tpot_ns) F(NUMBER, e2e_ns) F(NUMBER, lateness_ns) F(NUMBER, input_tokens) F(NUMBER, output_tokens)      \
    F(TEXT, input_source) F(TEXT, output_source) F(TEXT, outcome) F(NUMBER, status) F(TEXT, error)

#define HOST_FIELDS(F, R, K)                                                                                          \
    F(TEXT, host_uuid) F(TEXT, name) F(TEXT, url) F(TEXT, version) F(NUMBER, first_seen_at) F(NUMBER, last_seen_at)   \
    F(NUMBER, clock_offset_ns)

#define LEASE_FIELDS(F, R, K)                                                                                         \
    F(TEXT, session_uuid) F(TEXT, coordinator) F(TEXT, coordinator_name) F(TEXT, actor) F(TEXT, state)                \
    F(ARRAY, workers) F(NUMBER, granted_at) F(NUMBER, deadline_boot_ns) F(TEXT, boot_id)                              \
    F(TEXT, granted_to)

#define PART_FIELDS(F, R, K)                                                                                          \
    F(REF, session_id) F(TEXT, host_uuid) F(TEXT, peer) F(TEXT, url) F(NUMBER, lease_id) F(TEXT, state)               \
    F(COUNT, delivered) F(NUMBER, answered_at) F(NUMBER, deadline_at)

#define REMOTE_TRACE_FIELDS(F, R, K)                                                                                  \
    F(TEXT, uuid) F(REF, session_id) F(REF, target_id) F(TEXT, host_uuid) F(NUMBER, remote_id) F(NUMBER, recorded_at)
/* clang-format on */

void fields_done(const struct record_fields *l, void *record);
/* Parameters and columns are numbered as the list is. Texts are borrowed until the statement is reset. */
void fields_bind(const struct record_fields *l, sqlite3_stmt *s, const void *record);
void fields_read(const struct record_fields *l, sqlite3_stmt *s, void *record);
void fields_put_json(const struct record_fields *l, const void *record, json_t *object);
/* The same, replacing the members of an older state of the record. */
void fields_renew_json(const struct record_fields *l, const void *record, json_t *object);

/* Single values: NULL and RECORD_NONE are null. Parameters count from 1, columns from 0. */
void bind_text(sqlite3_stmt *s, int i, const char *text);
void bind_number(sqlite3_stmt *s, int i, int64_t number);
int64_t column_number(sqlite3_stmt *s, int i);
char *column_text_copy(sqlite3_stmt *s, int i); /* NULL for null */
const char *column_text(sqlite3_stmt *s, int i);
/* "s7", where the id is not RECORD_NONE. */
void put_ref(json_t *object, const char *key, char kind, int64_t id);

/* -- The catalog -------------------------------------------------------------------------------------- */

/* How long a write waits for another process that writes (only profd's own user and root can): while the
 * catalog is opened or closed and in upkeep; and where it holds up the loop. */
#define CATALOG_BUSY_TIMEOUT_MS 2000
#define CATALOG_LOOP_WAIT_MS    20
/* Between two tries for the lock. */
#define CATALOG_LOCK_RETRY_MS 50
/* A checkpoint is due each time the log has grown by this number of pages. */
#define CATALOG_CHECKPOINT_PAGES 256
#define CATALOG_PAGE_BYTES       4096
/* The size to which a log is truncated that a reader held open for long. */
#define CATALOG_WAL_KEPT_BYTES (64 * 1024 * 1024)

/* What runs after a commit or its failure: functions of catalog_then(), and announcements of events. */
struct batch_call {
    STAILQ_ENTRY(batch_call) next;
    void (*fn)(int err, void *arg);
    void *arg;
    int err;
};
STAILQ_HEAD(call_queue, batch_call);

struct listener {
    catalog_event_fn fn;
    void *arg;
};

/* Of catalog_on_background(). */
struct background_listener {
    void (*fn)(void *arg);
    void *arg;
};

/* Counts of a session's targets, for lists: valid until the next write. */
struct kept_counts {
    int64_t session_id, changes;
    json_t *counts;
};
#define KEPT_COUNTS 64

enum catalog_file {
    CATALOG_FILE_DATABASE,
    CATALOG_FILE_LOG,
    CATALOG_FILE_SHARED_MEMORY,
    CATALOG_FILES,
};

struct catalog_file_id {
    dev_t device;
    ino_t inode;
};

struct sizes;
struct deferred_row;
STAILQ_HEAD(deferred_rows, deferred_row);

struct upkeep_job;

struct catalog {
    char *path, *directory;
    struct event_base *base;
    struct offload *offload;
    int lock_fd; /* of PATH.lock */
    sqlite3 *db;
    sqlite3_stmt *statements[_STATEMENT_MAX]; /* NULL: not needed yet */

    struct event *batch_end; /* active while the batch has something to commit */
    int batch_error;         /* the first write that failed in this batch */
    char *batch_error_text;
    bool batch_full_sync; /* for a function of catalog_then() */
    bool unsynced;        /* commits since the last fsync of the log */
    struct call_queue waiting, ready;
    bool running_calls;
    char *broken; /* why the last commit failed */
    int broken_err;

    bool locked;              /* another program has the write lock: it is tried again without waiting */
    bool patient;             /* nothing is held up by waiting for it: opening and closing */
    struct event *lock_retry; /* pending while it is locked */
    struct deferred_rows deferred;
    size_t deferred_bytes;
    bool deferred_written; /* in the open transaction */

    struct catalog_file_id file_ids[CATALOG_FILES];
    struct sizes *sizes; /* when they were last looked at; NULL */
    int shm_fd, inotify_fd;
    struct event *watch, *announce_lost;
    int64_t shm_bytes; /* the most that the shared memory had */
    char *lost;        /* what happened to the files; NULL */
    bool is_cut;       /* and they are still the same */
    void (*lost_fn)(void *arg);
    void *lost_arg;

    struct kept_counts kept_counts[KEPT_COUNTS]; /* by session id */

    struct listener *listeners;
    size_t n_listeners, cap_listeners;
    struct background_listener background[_BACKGROUND_KIND_MAX];

    int wal_pages, checkpoint_at_pages; /* as of the last commit */
    bool checkpoint_due;
    struct upkeep_job *upkeep;  /* in progress */
    bool upkeep_due;            /* once that has ended */
    struct event *upkeep_timer; /* NULL: upkeep is not planned */
    int64_t upkeep_interval_ns;
    struct catalog_metrics metrics;

    char *uuid, *host; /* as in its row */
    bool keeps_unarchived;
};

/* -- errors.c ----------------------------------------------------------------------------------------- */

/*
 * -ENOSPC, -EROFS, -EIO (or the system's own error where SQLite kept it), -EUCLEAN for a damaged file,
 * -EMEDIUMTYPE for no database at all, -EBUSY, -EEXIST for a broken uniqueness, -EINVAL for any other value
 * that the schema refuses.
 */
int sqlite_errno(sqlite3 *db, int rc);
/* True where a failed statement leaves the transaction as it was: the value was wrong, not the disk. */
bool sqlite_refused_value(int rc);
/* Sets p from an errno value of above and the database's own message; returns err. */
int sqlite_problem(sqlite3 *db, int err, const char *path, struct problem *p);
/* What to do about it; the caller frees it. */
char *storage_remedy(int err, const char *path);
/* The same for an error of the operating system. */
int storage_problem(int err, const char *path, struct problem *p);

/* -- migrate.c ---------------------------------------------------------------------------------------- */

extern const char *const catalog_upgrades[];

/* Reads application_id and user_version without changing the file. -EMEDIUMTYPE for another application's
 * file, -ENOTSUP for a version above newest. */
int migrate_check(sqlite3 *db, const char *path, int newest, int *ret_version, struct problem *p);
/* Entry i of upgrades leads from version i to i + 1. */
int migrate(sqlite3 *db, const char *path, int version, const char *const *upgrades, int newest,
            struct problem *p);

/* -- commit_batch.c ----------------------------------------------------------------------------------- */

void batch_init(struct catalog *c);
void batch_done(struct catalog *c);
/* 0: the last commit succeeded. */
void batch_set_broken(struct catalog *c, int err);
/* Runs a statement that writes, inside the batch's transaction. */
int run_write(struct catalog *c, sqlite3_stmt *s);
/* Runs a statement that adds a row. While the catalog is locked the row waits, and 0 is returned; -EBUSY
 * where too many do. The event (NULL: none) is announced with the row's id after its commit. */
int write_or_defer(struct catalog *c, sqlite3_stmt *s, json_t *event);
/* The next row of a statement that reads: 1, 0 at the end. */
int next_row(struct catalog *c, sqlite3_stmt *s);

static inline void statement_resetp(sqlite3_stmt **s)
{
    if (*s) {
        sqlite3_reset(*s);
        sqlite3_clear_bindings(*s);
    }
}
#define _cleanup_reset_ _cleanup_(statement_resetp)

/* -- changes.c ---------------------------------------------------------------------------------------- */

/* Numbers the traces of a session that have none; negative errno. */
int changes_number_session(struct catalog *c, int64_t session_id);

/* -- statements.c ------------------------------------------------------------------------------------- */

const char *statement_text(enum statement s);
/* Whether the schema has what each statement needs; an SQLite result code. Prepared together, they would take 1 MiB. */
int statements_check(sqlite3 *db);
/* The statement, reset and without values; give it back by _cleanup_reset_. It is prepared when it is first needed, and kept.
 * NULL where memory is short: SQLite refuses to run it (SQLITE_MISUSE). */
sqlite3_stmt *statement(struct catalog *c, enum statement which);
void statements_finalize(sqlite3_stmt **statements);

/* Inserts a record; its new id. */
int add_record(struct catalog *c, enum statement which, const struct record_fields *l, const void *record,
               int64_t *ret_id);
/* The same for one whose id nobody needs; it waits while the catalog is locked. */
int append_record(struct catalog *c, enum statement which, const struct record_fields *l, const void *record);
/* Updates an existing record; -ENOENT. */
int save_record(struct catalog *c, enum statement which, const struct record_fields *l, const void *record);
/* The one record of a query whose parameter 1 is bound; -ENOENT. */
int get_record(struct catalog *c, sqlite3_stmt *s, const struct record_fields *l, void *record);
/* The first numbers of a query's only row; ret_second may be NULL. -ENOENT, and they stay as they are. */
int read_numbers(struct catalog *c, sqlite3_stmt *s, int64_t *ret_first, int64_t *ret_second);
/* Runs a write whose parameter 1 is the id, 2 (where used is not RECORD_NONE) a number; -ENOENT where it
 * changes nothing. */
int change_row(struct catalog *c, enum statement which, int64_t id, int64_t value);
/* The one record of a query whose only parameter is an id; -ENOENT. */
int get_record_by_id(struct catalog *c, enum statement which, int64_t id, const struct record_fields *l,
                     void *record);
/* Runs a write whose parameter 1 is the id and 2 a text. */
int set_text(struct catalog *c, enum statement which, int64_t id, const char *text);

struct record_list {
    const struct record_fields *fields;
    char *items;
    size_t n;
};
/* Reads all that a query gives and resets it, so that no statement is active while somebody else's function runs.
 * On an error there are none. */
int records_read(struct catalog *c, sqlite3_stmt *s, const struct record_fields *l, struct record_list *ret);
void *record_at(const struct record_list *r, size_t i);
void records_done(struct record_list *r);

/* -- sessions.c --------------------------------------------------------------------------------------- */

int saw_router(struct catalog *c, const char *url, const char *dialect, const char *fleet, int64_t at,
               int64_t used_at);
/* A row for a worker of which nothing but its URL may be known. */
int know_worker(struct catalog *c, const char *url);

/* -- traces.c ----------------------------------------------------------------------------------------- */

/* The position in a list of traces after which a filter wants rows. -ENOENT: its before_id is gone. */
int trace_first_position(struct catalog *c, const struct trace_filter *f, struct trace_position *ret);
/* Statements of listings share the numbers of their parameters, and not all use all of them. */
void bind_trace_filter(sqlite3_stmt *s, const struct trace_filter *f, const struct trace_position *after,
                       int64_t limit);

/* -- hosts.c ------------------------------------------------------------------------------------------ */

/* An opening step: the row that names this catalog, which a new one lacks. */
int hosts_open(struct catalog *c, struct problem *p);

/* -- files.c ------------------------------------------------------------------------------------------ */

/*
 * The files of an open catalog as the file system shows them: whether they are still those that were opened
 * and as long as they have to be, and which process holds the write lock. Never opens the database or its
 * log, and closes the shared memory after SQLite did: closing any descriptor of a file gives up all locks
 * that the process has on it.
 */

/* An opening step: remembers the files, and watches their directory. Without inotify they are checked once a
 * second. */
int files_open(struct catalog *c, struct problem *p);
/* After SQLite closed the files. */
void files_close(struct catalog *c);
/*
 * 0, or -ESTALE once the files are lost: nothing is written after the first such answer. The callback given
 * to catalog_on_lost() is called from the loop.
 */
int files_check(struct catalog *c);
/* Who holds the write lock, as "locked by ..." goes on; a remedy that names the process. The caller frees
 * both. */
void files_name_holder(const struct catalog *c, char **ret_holder, char **ret_remedy);

/* -- events.c ----------------------------------------------------------------------------------------- */

void event_announce_later(struct catalog *c, json_t *event, int64_t event_id);

/* -- upkeep.c ----------------------------------------------------------------------------------------- */

void upkeep_checkpoint(struct catalog *c);
void upkeep_stop(struct catalog *c);
