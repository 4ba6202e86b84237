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

/* How long a write waits for another process that writes (only profd's own user and root can). */
#define CATALOG_BUSY_TIMEOUT_MS 2000
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

/* upkeep.c */
void upkeep_checkpoint(struct catalog *c);
void upkeep_stop(struct catalog *c);
