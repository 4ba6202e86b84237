/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upkeep off the loop: checkpoints, deletion of old rows, statistics. A job on the offload works with
 * a connection of its own; of the catalog it knows the path only. One job at a time.
 *
 * A holder of the write lock delays the next write of the loop, so deletion runs in small transactions
 * with pauses between them, and the checkpoint that truncates the log follows one that does its work
 * without a lock, and does not wait for readers.
 */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

/* Events kept in the audit log, removed files that are remembered, requests of runs, leases, and changes after which the
 * deletion of a row is forgotten. */
#define ROWS_KEPT 1000000
/* Routers and workers that no session or trace needs are forgotten after this time: ports change with every
 * job. */
#define UNSEEN_KEPT_NS (90 * INT64_C(86400) * NS_PER_S)
/* Rows deleted in one transaction. */
#define DELETE_BATCH 500
/* Between two of them; several times as long as the loop waits between two tries for the lock. */
#define DELETE_PAUSE_US   5000
#define CHECKPOINT_PASSES 4
/* Entries of an index that ANALYZE looks at. */
#define ANALYSIS_LIMIT "400"

struct upkeep_job {
    struct catalog *catalog; /* the loop's; NULL once it was closed */
    char *path;
    bool full; /* else only a checkpoint */

    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool running;
    atomic_bool cancelled;
    int err;
};

/* -- On the offload's thread -- */

/* ?1 is a bound (of some), ?2 the size of a batch; each is run until it deletes nothing more. */
static const struct {
    const char *sql;
    bool by_age; /* ?1 is a time; else a number of rows */
} deletions[] = {
    {"delete from event_row where event_id in (select event_id from event_row where event_id <= "
     "(select max(event_id) from event_row) - ?1 order by event_id limit ?2)",
     false},
    {"delete from request_row where request_id in (select request_id from request_row where run_id in "
     "(select run_id from run_row where removed = 1) limit ?2)",
     false},
    {"delete from run_row where run_id in (select run_id from run_row n where removed = 1 and not "
     "exists "
     "(select 1 from request_row q where q.run_id = n.run_id) limit ?2)",
     false},
    /* What remains of a run whose requests are too old is what was counted of them. */
    {"delete from request_row where request_id in (select request_id from request_row where request_id <= "
     "(select max(request_id) from request_row) - ?1 order by request_id limit ?2)",
     false},
    {"delete from removed_row where removed_id in (select removed_id from removed_row where removed_id <= "
     "(select max(removed_id) from removed_row) - ?1 order by removed_id limit ?2)",
     false},
    {"delete from worker_row where worker_id in (select worker_id from worker_row w where last_seen_at < ?1 "
     "and not exists (select 1 from target_row t where t.worker_id = w.worker_id) "
     "and not exists (select 1 from trace_row t where t.worker_id = w.worker_id) "
     "and not exists (select 1 from function_row f where f.worker_id = w.worker_id) limit ?2)",
     true},
    {"delete from router_row where router_id in (select router_id from router_row r where last_seen_at < ?1 "
     "and not exists (select 1 from worker_row w where w.router_id = r.router_id) "
     "and not exists (select 1 from session_row s where s.router_id = r.router_id) "
     "and not exists (select 1 from run_row n where n.router_id = r.router_id) limit ?2)",
     true},
    {"delete from host_row where host_id in (select host_id from host_row h where last_seen_at < ?1 "
     "and not exists (select 1 from part_row p where p.host_uuid = h.host_uuid and p.open = 1) limit ?2)",
     true},
    {"delete from lease_row where lease_id in (select lease_id from lease_row where lease_id <= "
     "(select max(lease_id) from lease_row) - ?1 and state in ('over', 'released', 'expired') order by "
     "lease_id limit ?2)",
     false},
    {"delete from change_row where seq in (select seq from change_row where gone = 1 and seq <= "
     "(select max(seq) from change_row) - ?1 order by seq limit ?2)",
     false},
};

static int upkeep_delete_old(struct upkeep_job *job, sqlite3 *db, size_t i)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db, deletions[i].sql, -1, &s, NULL);
    bool deleted;

    do {
        if (rc != SQLITE_OK)
            break;
        sqlite3_bind_int64(s, 1, deletions[i].by_age ? wall_ns() - UNSEEN_KEPT_NS : ROWS_KEPT);
        sqlite3_bind_int(s, 2, DELETE_BATCH);
        /* A write that begins a transaction of its own waits for the loop's, and cannot meet an old snapshot.
         */
        rc = sqlite3_step(s) == SQLITE_DONE ? SQLITE_OK : sqlite3_extended_errcode(db);
        sqlite3_reset(s);
        deleted = rc == SQLITE_OK && sqlite3_changes(db) > 0;
        if (deleted)
            usleep(DELETE_PAUSE_US);
    } while (deleted && !atomic_load(&job->cancelled));
    sqlite3_finalize(s);
    return rc;
}

static int upkeep_run_checkpoint(sqlite3 *db, bool truncate)
{
    int rc = SQLITE_OK, in_log = 1, written_back = 0;

    /* What was committed meanwhile is written back too: the next commit begins the log anew only where all
     * was. */
    for (int i = 0; i < CHECKPOINT_PASSES && rc == SQLITE_OK && written_back < in_log; i++)
        rc = sqlite3_wal_checkpoint_v2(db, "main", SQLITE_CHECKPOINT_PASSIVE, &in_log, &written_back);
    if (rc == SQLITE_OK && truncate) {
        sqlite3_busy_timeout(db, 0);
        rc = sqlite3_wal_checkpoint_v2(db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    /* A reader is in the way: the next one will do it. */
    return (rc & 0xff) == SQLITE_BUSY ? SQLITE_OK : rc;
}

static int upkeep_work_with(struct upkeep_job *job, sqlite3 *db)
{
    int keep = 1, rc;

    sqlite3_extended_result_codes(db, 1);
    sqlite3_busy_timeout(db, CATALOG_BUSY_TIMEOUT_MS);
    sqlite3_wal_autocheckpoint(db, 0);
    rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
    if (rc == SQLITE_OK)
        rc =
            sqlite3_exec(db,
                         "pragma synchronous = normal; pragma foreign_keys = on; pragma secure_delete = off; "
                         "pragma analysis_limit = " ANALYSIS_LIMIT,
                         NULL, NULL, NULL);
    for (size_t i = 0; job->full && i < ARRAY_SIZE(deletions) && rc == SQLITE_OK; i++)
        rc = upkeep_delete_old(job, db, i);
    if (job->full && rc == SQLITE_OK && !atomic_load(&job->cancelled))
        rc = sqlite3_exec(db, "analyze", NULL, NULL, NULL);
    if (rc == SQLITE_OK && !atomic_load(&job->cancelled))
        rc = upkeep_run_checkpoint(db, job->full);
    return rc;
}

static void upkeep_work(void *arg)
{
    struct upkeep_job *job = arg;
    sqlite3 *db = NULL;

    pthread_mutex_lock(&job->lock);
    job->running = !atomic_load(&job->cancelled);
    bool run = job->running;
    pthread_mutex_unlock(&job->lock);
    job->err = -ECANCELED;
    if (!run)
        return;
    int rc = sqlite3_open_v2(job->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = upkeep_work_with(job, db);
    job->err = rc == SQLITE_OK && atomic_load(&job->cancelled) ? -ECANCELED : sqlite_errno(db, rc);
    sqlite3_close(db);
    pthread_mutex_lock(&job->lock);
    job->running = false;
    pthread_cond_signal(&job->ended);
    pthread_mutex_unlock(&job->lock);
}

/* -- On the loop -- */

static void upkeep_begin(struct catalog *c, bool full);

static void upkeep_done(void *arg)
{
    struct upkeep_job *job = arg;
    struct catalog *c = job->catalog;

    if (job->full && job->err < 0 && job->err != -ECANCELED)
        log_warning("catalog %s: upkeep failed: %s", job->path, strerror(-job->err));
    pthread_mutex_destroy(&job->lock);
    pthread_cond_destroy(&job->ended);
    free(job->path);
    free(job);
    if (!c)
        return;
    c->upkeep = NULL;
    if (c->upkeep_due)
        upkeep_begin(c, true);
}

/* Nothing for lost files: the job's connection would open other ones of that name. */
static void upkeep_begin(struct catalog *c, bool full)
{
    if (files_check(c) < 0)
        return;
    struct upkeep_job *job = xcalloc(1, sizeof(*job));
    job->catalog = c;
    job->path = xstrdup(c->path);
    job->full = full;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->ended, NULL);
    atomic_init(&job->cancelled, false);
    c->upkeep = job;
    c->upkeep_due = c->upkeep_due && !full;
    c->checkpoint_due = false;
    c->checkpoint_at_pages = c->wal_pages + CATALOG_CHECKPOINT_PAGES;
    offload_run(c->offload, upkeep_work, upkeep_done, job);
}

void upkeep_checkpoint(struct catalog *c)
{
    if (!c->upkeep)
        upkeep_begin(c, false);
}

void catalog_upkeep(struct catalog *c)
{
    c->upkeep_due = true;
    if (!c->upkeep)
        upkeep_begin(c, true);
}

static void upkeep_plan(struct catalog *c, int64_t delay_ns)
{
    struct timeval tv = timeval_of(delay_ns);
    evtimer_add(c->upkeep_timer, &tv);
}

static void upkeep_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct catalog *c = arg;

    catalog_upkeep(c);
    upkeep_plan(c, c->upkeep_interval_ns);
}

void catalog_upkeep_every(struct catalog *c, int64_t first_ns, int64_t interval_ns)
{
    c->upkeep_interval_ns = interval_ns;
    c->upkeep_timer = evtimer_new(c->base, upkeep_on_timer, c);
    upkeep_plan(c, first_ns);
}

void upkeep_stop(struct catalog *c)
{
    struct upkeep_job *job = c->upkeep;

    if (c->upkeep_timer)
        event_free(c->upkeep_timer);
    if (!job)
        return;
    pthread_mutex_lock(&job->lock);
    atomic_store(&job->cancelled, true);
    while (job->running)
        pthread_cond_wait(&job->ended, &job->lock);
    pthread_mutex_unlock(&job->lock);
    job->catalog = NULL;
    c->upkeep = NULL;
}
