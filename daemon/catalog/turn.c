/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transaction of the loop's turn. The first write begins it and activates an event without a delay, which
 * libevent runs after what is already active: there the turn is committed, or as a whole rolled back, and
 * what was queued behind it runs. There is no timer, and an idle catalog has nothing pending.
 *
 * A lock of another program is waited for once, for milliseconds. Then each turn only tries, until one gets
 * it; a timer tries too, for what waits in memory.
 */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/catalog/files.h"
#include "daemon/catalog/sqlite_error.h"
#include <errno.h>

static void end_of_turn(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    catalog_commit(arg, false);
}

static void look_at_lock_later(struct catalog *c)
{
    struct timeval tv = timeval_of(CATALOG_LOCK_LOOK_MS * NS_PER_MS);
    event_add(c->lock_look, &tv);
}

static void on_lock_look(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct catalog *c = arg;

    if (c->turn_error == 0)
        catalog_probe(c);
    if (c->locked && !c->lost)
        look_at_lock_later(c);
}

void turn_init(struct catalog *c)
{
    STAILQ_INIT(&c->waiting);
    STAILQ_INIT(&c->ready);
    STAILQ_INIT(&c->deferred);
    c->turn_end = event_new(c->base, -1, 0, end_of_turn, c);
    c->lock_look = event_new(c->base, -1, 0, on_lock_look, c);
}

static void decide_turn_later(struct catalog *c)
{
    event_active(c->turn_end, EV_TIMEOUT, 0);
}

void catalog_then(struct catalog *c, bool full_sync, void (*fn)(int err, void *arg), void *arg)
{
    struct decided_call *call = xcalloc(1, sizeof(*call));
    *call = (struct decided_call){.fn = fn, .arg = arg};
    STAILQ_INSERT_TAIL(&c->waiting, call, next);
    c->turn_full_sync |= full_sync;
    decide_turn_later(c);
}

/* -- Writing -- */

sqlite3_stmt *statement(struct catalog *c, enum statement s)
{
    return c->statements[s];
}

/* Remembers the first failure of the turn. */
static int refuse_turn(struct catalog *c, int err, const char *text)
{
    if (c->turn_error == 0) {
        c->turn_error = err;
        replace_str(&c->turn_error_text, text);
    }
    decide_turn_later(c);
    return c->turn_error;
}

/* The text is SQLite's while it is at hand. */
static int fail_turn(struct catalog *c, int rc)
{
    return refuse_turn(c, sqlite_errno(c->db, rc), sqlite3_errmsg(c->db));
}

static int run_plain(struct catalog *c, enum statement which)
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

static bool in_transaction(struct catalog *c)
{
    return !sqlite3_get_autocommit(c->db);
}

static int begin_turn(struct catalog *c)
{
    int rc;

    if (c->turn_error < 0)
        return c->turn_error;
    if (in_transaction(c))
        return 0;
    if (files_check(c) < 0)
        return refuse_turn(c, -ESTALE, c->lost);
    rc = run_plain(c, STATEMENT_BEGIN);
    if ((rc & 0xff) == SQLITE_BUSY && !c->locked) {
        c->locked = true;
        look_at_lock_later(c);
    }
    if (rc == SQLITE_OK) {
        c->locked = false;
        rc = deferred_write(c);
    }
    if (rc != SQLITE_OK)
        return fail_turn(c, rc);
    decide_turn_later(c);
    return 0;
}

int run_write(struct catalog *c, sqlite3_stmt *s)
{
    int r = begin_turn(c);
    if (r < 0)
        return r;
    if (sqlite3_step(s) == SQLITE_DONE)
        return 0;
    int rc = sqlite3_extended_errcode(c->db);
    /* SQLite may have rolled the whole transaction back, with what was written before. */
    if (sqlite_refused_value(rc) && in_transaction(c))
        return sqlite_errno(c->db, rc);
    return fail_turn(c, rc);
}

int next_row(struct catalog *c, sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);
    return rc == SQLITE_ROW    ? 1
           : rc == SQLITE_DONE ? 0
                               : sqlite_errno(c->db, sqlite3_extended_errcode(c->db));
}

/* -- Deciding -- */

/*
 * synchronous is NORMAL, so a commit writes to the log without an fsync, and the setting cannot be changed
 * inside the transaction that turns out to need one. What synchronous=FULL adds to a commit is an fsync of
 * the log; asking the log's own file for it afterwards comes to the same, and is owed by no other commit.
 */
static int sync_log(struct catalog *c)
{
    sqlite3_file *log = NULL;
    int rc = sqlite3_file_control(c->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (rc == SQLITE_OK && log && log->pMethods)
        rc = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
    if (rc != SQLITE_OK) {
        replace_str(&c->turn_error_text, "the log cannot be synced");
        return sqlite_errno(NULL, rc);
    }
    c->unsynced = false;
    return 0;
}

void turn_explain(const struct catalog *c, int err, char **ret_why, char **ret_remedy)
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

void turn_set_broken(struct catalog *c, int err)
{
    _cleanup_(freep) char *why = NULL, *remedy = NULL;

    if (err == 0 && c->broken)
        log_notice("catalog %s can be written again", c->path);
    if (err < 0 && err != -EBUSY && err != -ESTALE)
        why = xasprintf("%s (%s)", strerror(-err), c->turn_error_text ? c->turn_error_text : "no detail");
    else if (err < 0)
        turn_explain(c, err, &why, &remedy);
    if (err < 0 && !c->broken && err != -ESTALE)
        log_error("catalog %s cannot be written: %s; no session is begun until it can", c->path, why);
    free(c->broken);
    c->broken = TAKE_PTR(why);
    c->broken_err = err;
}

/* Commits or rolls back what the turn wrote. */
static int decide_turn(struct catalog *c, bool full_sync)
{
    int r = c->turn_error;
    bool wrote = in_transaction(c);

    if (wrote && r == 0 && c->lost)
        r = -ESTALE;
    if (wrote && r == 0) {
        int rc = run_plain(c, STATEMENT_COMMIT);
        if (rc != SQLITE_OK)
            r = fail_turn(c, rc);
        else
            c->unsynced = true;
    }
    if (in_transaction(c))
        run_plain(c, STATEMENT_ROLLBACK);
    deferred_decided(c, wrote && r == 0);
    if (r == 0 && full_sync && c->unsynced) {
        wrote = true;
        r = sync_log(c);
    }
    if (wrote || r < 0)
        turn_set_broken(c, r);
    c->metrics.commits += wrote && r == 0;
    c->metrics.failed_commits += r < 0;
    c->turn_error = 0;
    replace_str(&c->turn_error_text, NULL);
    return r;
}

static void run_ready(struct catalog *c)
{
    struct decided_call *call;

    if (c->running_ready)
        return;
    c->running_ready = true;
    while ((call = STAILQ_FIRST(&c->ready))) {
        STAILQ_REMOVE_HEAD(&c->ready, next);
        call->fn(call->err, call->arg);
        free(call);
    }
    c->running_ready = false;
}

static void decide_calls(struct catalog *c, int err)
{
    struct decided_call *call;

    STAILQ_FOREACH(call, &c->waiting, next)
        call->err = err;
    STAILQ_CONCAT(&c->ready, &c->waiting);
    run_ready(c);
}

int catalog_commit(struct catalog *c, bool full_sync)
{
    full_sync |= c->turn_full_sync;
    c->turn_full_sync = false;
    int r = decide_turn(c, full_sync);
    event_del(c->turn_end);
    decide_calls(c, r);
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
    turn_explain(c, err, &why, &remedy);
    problem_set(p, err, PROBLEM_STORAGE, "%s: %s", what, why);
    problem_remedy(p, "%s", remedy);
    return err;
}

/* Functions may queue more behind themselves; a chain of them ends here. */
#define LAST_TURNS_MAX 16

static void free_calls(struct call_queue *q)
{
    struct decided_call *call;
    while ((call = STAILQ_FIRST(q))) {
        STAILQ_REMOVE_HEAD(q, next);
        free(call);
    }
}

void turn_done(struct catalog *c)
{
    c->patient = true;
    c->locked = false;
    if (c->db && !STAILQ_EMPTY(&c->deferred) && c->turn_error == 0)
        catalog_probe(c);
    if (c->db)
        for (int i = 0; i < LAST_TURNS_MAX && (in_transaction(c) || !STAILQ_EMPTY(&c->waiting)); i++)
            catalog_commit(c, false);
    deferred_done(c);
    free_calls(&c->ready);
    free_calls(&c->waiting);
    if (c->turn_end)
        event_free(c->turn_end);
    c->turn_end = NULL;
    if (c->lock_look)
        event_free(c->lock_look);
    c->lock_look = NULL;
    replace_str(&c->turn_error_text, NULL);
    replace_str(&c->broken, NULL);
}
