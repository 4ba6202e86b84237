/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this room share: the catalog object, its turn and the running of prepared statements.
 * Everything here is used on the loop's thread only; upkeep.c says what crosses to the offload.
 */
#pragma once

#include "daemon/catalog/catalog.h"
#include "daemon/catalog/statements.h"
#include <event2/event.h>
#include <sqlite3.h>
#include <sys/queue.h>

/* How long a write waits for another process that writes (only profd's own user and root can): while the
 * catalog is opened or closed and in upkeep; and where it holds up the loop. */
#define CATALOG_BUSY_TIMEOUT_MS 2000
#define CATALOG_LOOP_WAIT_MS    20
/* Between two looks whether the lock is free. */
#define CATALOG_LOCK_LOOK_MS 50
/* A checkpoint is due each time the log has grown by so many pages of 4 KiB. */
#define CATALOG_CHECKPOINT_PAGES 256
#define CATALOG_PAGE_BYTES       4096
/* What a log that a reader held open for long is cut back to. */
#define CATALOG_WAL_KEPT_BYTES (64 * 1024 * 1024)

/* What runs when a commit is decided: functions of catalog_then(), and announcements of events. */
struct decided_call {
    STAILQ_ENTRY(decided_call) next;
    void (*fn)(int err, void *arg);
    void *arg;
    int err;
};
STAILQ_HEAD(call_queue, decided_call);

struct listener {
    catalog_event_fn fn;
    void *arg;
};

/* What a list says of a session without counting a thousand targets each time: true until the next write. */
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
struct upkeep_waiter;
STAILQ_HEAD(upkeep_waiters, upkeep_waiter);

struct catalog {
    char *path, *directory;
    struct event_base *base;
    struct offload *offload;
    int lock_fd; /* of PATH.lock */
    sqlite3 *db;
    sqlite3_stmt *statements[_STATEMENT_MAX];

    struct event *turn_end; /* active while the turn has something to decide */
    int turn_error;         /* the first write that failed in this turn */
    char *turn_error_text;
    bool turn_full_sync; /* someone asked for it */
    bool unsynced;       /* commits since the last fsync of the log */
    struct call_queue waiting, ready;
    bool running_ready;
    char *broken; /* why the last commit failed */
    int broken_err;

    bool locked;             /* another program has the write lock: it is tried again without waiting */
    bool patient;            /* nothing is held up by waiting for it: opening and closing */
    struct event *lock_look; /* pending while it is locked */
    struct deferred_rows deferred;
    size_t deferred_bytes;
    bool deferred_written; /* in the open transaction */

    struct catalog_file_id file_ids[CATALOG_FILES];
    struct sizes *sizes; /* when they were last looked at; NULL */
    int shm_fd, inotify_fd;
    struct event *watch, *tell_lost;
    int64_t shm_bytes; /* the most that the shared memory had */
    char *lost;        /* what happened to the files; NULL */
    bool is_cut;       /* and they are still the same */
    void (*lost_fn)(void *arg);
    void *lost_arg;

    struct kept_counts kept_counts[KEPT_COUNTS]; /* by session id */

    struct listener *listeners;
    size_t n_listeners, cap_listeners;

    int wal_pages, checkpoint_at_pages; /* as of the last commit */
    bool checkpoint_due;
    struct upkeep_job *upkeep; /* under way */
    struct upkeep_waiters upkeep_waiters;
    struct catalog_metrics metrics;
};

/* turn.c */
void turn_init(struct catalog *c);
void turn_done(struct catalog *c);
/* 0: the last commit succeeded. */
void turn_set_broken(struct catalog *c, int err);
/* Why a write fails with that error, and what to do about it. The caller frees both. */
void turn_explain(const struct catalog *c, int err, char **ret_why, char **ret_remedy);
/* The statement, reset and without values; give it back by _cleanup_reset_. */
sqlite3_stmt *statement(struct catalog *c, enum statement s);
/* Runs a statement that writes, inside the turn's transaction. */
int run_write(struct catalog *c, sqlite3_stmt *s);
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

/* deferred.c */
/* Runs a statement that adds a row. While the catalog is locked the row waits, and 0 is returned; -EBUSY
 * where too many do. The event (NULL: none) is announced with the row's id after its commit. */
int write_or_defer(struct catalog *c, sqlite3_stmt *s, json_t *event);
/* Writes what waits, in the transaction that just began; an SQLite result code. */
int deferred_write(struct catalog *c);
/* After that transaction. */
void deferred_decided(struct catalog *c, bool committed);
void deferred_done(struct catalog *c);

/* events.c */
void event_announce_later(struct catalog *c, json_t *event, int64_t event_id);

/* upkeep.c */
void upkeep_checkpoint(struct catalog *c);
void upkeep_stop(struct catalog *c);
