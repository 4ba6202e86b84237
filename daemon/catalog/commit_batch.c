/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit batch: the writes of one iteration of the loop share a transaction. The first write begins it
 * and activates an event without a delay, which libevent runs after everything that is already active: there
 * the batch is committed, or rolled back entirely, and the functions that wait for it run. There is no timer,
 * and an idle catalog has nothing pending.
 *
 * A lock of another program is waited for once, for milliseconds. Then each batch only tries, until one gets
 * the lock; a timer tries too, for rows that wait in memory: events, requests of runs, functions, which are
 * only ever added, and whose ids no caller waits for. They are written in order, before anything else, by the
 * first transaction that gets the lock. States are not among them: their owners save them again.
 */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>

/* Bytes of waiting rows, about 40,000 requests. Rows beyond that are refused as without this queue. */
#define DEFERRED_BYTES_MAX (16 << 20)
/* Functions may queue further ones; at the end of profd such a chain is cut here. */
#define LAST_BATCHES_MAX 16

static void batch_on_end(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    catalog_commit(arg, false);
}

static void batch_retry_lock_later(struct catalog *c)
{
    struct timeval tv = timeval_of(CATALOG_LOCK_RETRY_MS * NS_PER_MS);
    event_add(c->lock_retry, &tv);
}

static void batch_on_lock_retry(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct catalog *c = arg;

    if (c->batch_error == 0)
        catalog_probe(c);
    if (c->locked && !c->lost)
        batch_retry_lock_later(c);
}

void batch_init(struct catalog *c)
{
    STAILQ_INIT(&c->waiting);
    STAILQ_INIT(&c->ready);
    STAILQ_INIT(&c->deferred);
    c->batch_end = event_new(c->base, -1, 0, batch_on_end, c);
    c->lock_retry = event_new(c->base, -1, 0, batch_on_lock_retry, c);
}

static void batch_end_later(struct catalog *c)
{
    event_active(c->batch_end, EV_TIMEOUT, 0);
}

void catalog_then(struct catalog *c, bool full_sync, void (*fn)(int err, void *arg), void *arg)
{
    struct batch_call *call = xcalloc(1, sizeof(*call));
    *call = (struct batch_call){.fn = fn, .arg = arg};
    STAILQ_INSERT_TAIL(&c->waiting, call, next);
    c->batch_full_sync |= full_sync;
    batch_end_later(c);
}

/* -- Rows that wait for a lock ------------------------------------------------------------------------ */

struct deferred_row {
    STAILQ_ENTRY(deferred_row) next;
    size_t bytes;
    json_t *event; /* to be announced; NULL */
    char sql[];    /* with its values */
};

static void deferred_drop_first(struct catalog *c)
{
    struct deferred_row *row = STAILQ_FIRST(&c->deferred);

    STAILQ_REMOVE_HEAD(&c->deferred, next);
    c->deferred_bytes -= row->bytes;
    json_decref(row->event);
    free(row);
}

static int deferred_add(struct catalog *c, sqlite3_stmt *s, json_t *event)
{
    char *sql = sqlite3_expanded_sql(s);
    size_t bytes = sql ? sizeof(struct deferred_row) + strlen(sql) + 1 : 0;

    if (!sql || bytes > DEFERRED_BYTES_MAX - c->deferred_bytes) {
        sqlite3_free(sql);
        return -EBUSY;
    }
    struct deferred_row *row = xcalloc(1, bytes);
    row->bytes = bytes;
    row->event = json_incref(event);
    memcpy(row->sql, sql, strlen(sql) + 1);
    sqlite3_free(sql);
    c->deferred_bytes += bytes;
    STAILQ_INSERT_TAIL(&c->deferred, row, next);
    return 0;
}

static int deferred_write(struct catalog *c)
{
    struct deferred_row *row;

    STAILQ_FOREACH(row, &c->deferred, next) {
        int rc = sqlite3_exec(c->db, row->sql, NULL, NULL, NULL);
        if (rc == SQLITE_OK && row->event)
            event_announce_later(c, row->event, sqlite3_last_insert_rowid(c->db));
        else if (sqlite_refused_value(rc))
            log_debug("a row that waited for the catalog no longer fits: %s", sqlite3_errmsg(c->db));
        else if (rc != SQLITE_OK)
            return sqlite3_extended_errcode(c->db);
        c->deferred_written = true;
    }
    return SQLITE_OK;
}

static void deferred_decided(struct catalog *c, bool committed)
{
    while (committed && c->deferred_written && !STAILQ_EMPTY(&c->deferred))
        deferred_drop_first(c);
    c->deferred_written = false;
}

static void deferred_done(struct catalog *c)
{
    while (!STAILQ_EMPTY(&c->deferred))
        deferred_drop_first(c);
}

/* -- Writing ------------------------------------------------------------------------------------------ */

/* Remembers the first failure of the batch. */
static int batch_refuse(struct catalog *c, int err, const char *text)
{
    if (c->batch_error == 0) {
        c->batch_error = err;
        replace_str(&c->batch_error_text, text);
    }
    batch_end_later(c);
    return c->batch_error;
}

/* The text is SQLite's while it is at hand. */
static int batch_fail(struct catalog *c, int rc)
{
    return batch_refuse(c, sqlite_errno(c->db, rc), sqlite3_errmsg(c->db));
}

static int batch_run_plain(struct catalog *c, enum statement which)
{
    sqlite3_stmt *s = statement(c, which);
    int rc = sqlite3_step(s);
    if (rc != SQLITE_DONE)
        rc = sqlite3_extended_errcode(c->db);
    else
        rc = SQLITE_OK;
    sqlite3_reset(s);
    return rc;
}

static bool batch_in_transaction(struct catalog *c)
{
    return !sqlite3_get_autocommit(c->db);
}

static int batch_begin(struct catalog *c)
{
    int rc;

    if (c->batch_error < 0)
        return c->batch_error;
    if (batch_in_transaction(c))
        return 0;
    if (files_check(c) < 0)
        return batch_refuse(c, -ESTALE, c->lost);
    rc = batch_run_plain(c, STATEMENT_BEGIN);
    if ((rc & 0xff) == SQLITE_BUSY && !c->locked) {
        c->locked = true;
        batch_retry_lock_later(c);
    }
    if (rc == SQLITE_OK) {
        c->locked = false;
        rc = deferred_write(c);
    }
    if (rc != SQLITE_OK)
        return batch_fail(c, rc);
    batch_end_later(c);
    return 0;
}

int run_write(struct catalog *c, sqlite3_stmt *s)
{
    int r = batch_begin(c);
    if (r < 0)
        return r;
    if (sqlite3_step(s) == SQLITE_DONE)
        return 0;
    int rc = sqlite3_extended_errcode(c->db);
    /* SQLite may have rolled back the entire transaction, including earlier writes. */
    if (sqlite_refused_value(rc) && batch_in_transaction(c))
        return sqlite_errno(c->db, rc);
    return batch_fail(c, rc);
}

int write_or_defer(struct catalog *c, sqlite3_stmt *s, json_t *event)
{
    int r = run_write(c, s);

    if (r == -EBUSY && c->locked)
        return deferred_add(c, s, event);
    if (r >= 0 && event)
        event_announce_later(c, event, sqlite3_last_insert_rowid(c->db));
    return r;
}

int next_row(struct catalog *c, sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);
    return rc == SQLITE_ROW    ? 1
           : rc == SQLITE_DONE ? 0
                               : sqlite_errno(c->db, sqlite3_extended_errcode(c->db));
}

/* -- Committing --------------------------------------------------------------------------------------- */

/*
 * synchronous is NORMAL, so a commit writes to the log without an fsync, and the setting cannot be changed
 * inside the transaction that turns out to need one. What synchronous=FULL adds to a commit is an fsync of
 * the log; asking the log's own file for it afterwards comes to the same, and no other commit pays for it.
 */
static int batch_sync_log(struct catalog *c)
{
    sqlite3_file *log = NULL;
    int rc = sqlite3_file_control(c->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (rc == SQLITE_OK && log && log->pMethods)
        rc = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
    if (rc != SQLITE_OK) {
        replace_str(&c->batch_error_text, "the log cannot be synced");
        return sqlite_errno(NULL, rc);
    }
    c->unsynced = false;
    return 0;
}

/* Why a write fails with that error, and its remedy. The caller frees both. */
static void batch_explain(const struct catalog *c, int err, char **ret_why, char **ret_remedy)
{
    _cleanup_(freep) char *holder = NULL;

    if (err == -EBUSY) {
        files_name_holder(c, &holder, ret_remedy);
        *ret_why = xasprintf("catalog.db is locked by %s", holder);
        return;
    }
    if (err == -ESTALE && c->lost)
        *ret_why = xstrdup(c->lost);
    else
        *ret_why = xstrdup(err == c->broken_err && c->broken ? c->broken : strerror(-err));
    *ret_remedy = storage_remedy(err, c->path);
}

void batch_set_broken(struct catalog *c, int err)
{
    _cleanup_(freep) char *why = NULL, *remedy = NULL;

    if (err == 0 && c->broken)
        log_notice("catalog %s can be written again", c->path);
    if (err < 0 && err != -EBUSY && err != -ESTALE)
        why = xasprintf("%s (%s)", strerror(-err), c->batch_error_text ? c->batch_error_text : "no detail");
    else if (err < 0)
        batch_explain(c, err, &why, &remedy);
    if (err < 0 && !c->broken && err != -ESTALE)
        log_error("catalog %s cannot be written: %s; no session starts until it can", c->path, why);
    free(c->broken);
    c->broken = TAKE_PTR(why);
    c->broken_err = err;
}

/* Commits or rolls back the batch. */
static int batch_decide(struct catalog *c, bool full_sync)
{
    int r = c->batch_error;
    bool wrote = batch_in_transaction(c);

    if (wrote && r == 0 && c->lost)
        r = -ESTALE;
    if (wrote && r == 0) {
        int rc = batch_run_plain(c, STATEMENT_COMMIT);
        if (rc != SQLITE_OK)
            r = batch_fail(c, rc);
        else
            c->unsynced = true;
    }
    if (batch_in_transaction(c))
        batch_run_plain(c, STATEMENT_ROLLBACK);
    deferred_decided(c, wrote && r == 0);
    if (r == 0 && full_sync && c->unsynced) {
        wrote = true;
        r = batch_sync_log(c);
    }
    if (wrote || r < 0)
        batch_set_broken(c, r);
    c->metrics.commits += wrote && r == 0;
    c->metrics.failed_commits += r < 0;
    c->batch_error = 0;
    replace_str(&c->batch_error_text, NULL);
    return r;
}

static void batch_run_calls(struct catalog *c)
{
    struct batch_call *call;

    if (c->running_calls)
        return;
    c->running_calls = true;
    while ((call = STAILQ_FIRST(&c->ready))) {
        STAILQ_REMOVE_HEAD(&c->ready, next);
        call->fn(call->err, call->arg);
        free(call);
    }
    c->running_calls = false;
}

static void batch_decide_calls(struct catalog *c, int err)
{
    struct batch_call *call;

    STAILQ_FOREACH(call, &c->waiting, next)
        call->err = err;
    STAILQ_CONCAT(&c->ready, &c->waiting);
    batch_run_calls(c);
}

int catalog_commit(struct catalog *c, bool full_sync)
{
    full_sync |= c->batch_full_sync;
    c->batch_full_sync = false;
    int r = batch_decide(c, full_sync);
    event_del(c->batch_end);
    batch_decide_calls(c, r);
    if (c->checkpoint_due)
        upkeep_checkpoint(c);
    return r;
}

int catalog_probe(struct catalog *c)
{
    if (!c->broken)
        return 0;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_PROBE);
    int r = run_write(c, s);
    statement_resetp(&s);
    int committed = catalog_commit(c, true);
    return r < 0 ? r : committed;
}

bool catalog_is_broken(const struct catalog *c)
{
    return c->broken != NULL;
}

int catalog_error(const struct catalog *c)
{
    return c->broken_err;
}

const char *catalog_broken_reason(const struct catalog *c)
{
    return c->broken;
}

int catalog_problem(const struct catalog *c, int err, struct problem *p, const char *format, ...)
{
    _cleanup_(freep) char *why = NULL, *remedy = NULL;
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *what = xvasprintf(format, ap);
    va_end(ap);
    batch_explain(c, err, &why, &remedy);
    problem_set(p, err, PROBLEM_STORAGE, "%s: %s", what, why);
    problem_remedy(p, "%s", remedy);
    return err;
}

static void batch_free_calls(struct call_queue *q)
{
    struct batch_call *call;
    while ((call = STAILQ_FIRST(q))) {
        STAILQ_REMOVE_HEAD(q, next);
        free(call);
    }
}

void batch_done(struct catalog *c)
{
    c->patient = true;
    c->locked = false;
    if (c->db && !STAILQ_EMPTY(&c->deferred) && c->batch_error == 0)
        catalog_probe(c);
    if (c->db)
        for (int i = 0; i < LAST_BATCHES_MAX && (batch_in_transaction(c) || !STAILQ_EMPTY(&c->waiting)); i++)
            catalog_commit(c, false);
    deferred_done(c);
    batch_free_calls(&c->ready);
    batch_free_calls(&c->waiting);
    if (c->batch_end)
        event_free(c->batch_end);
    c->batch_end = NULL;
    if (c->lock_retry)
        event_free(c->lock_retry);
    c->lock_retry = NULL;
    replace_str(&c->batch_error_text, NULL);
    replace_str(&c->broken, NULL);
}
