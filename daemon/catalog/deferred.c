/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that wait for a lock of another program: events, requests of runs, functions, which are only ever
 * added, and whose ids nobody waits for. They are written in order, before anything else, by the first
 * transaction that gets the lock. States are not among them: whoever has one saves it again.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "daemon/catalog/internal.h"
#include "daemon/catalog/sqlite_error.h"
#include <errno.h>

/* About 40,000 requests. What comes beyond that is refused as without this queue. */
#define DEFERRED_BYTES_MAX (16 << 20)

struct deferred_row {
    STAILQ_ENTRY(deferred_row) next;
    size_t bytes;
    json_t *event; /* to be announced; NULL */
    char sql[];    /* with its values */
};

static void drop_first(struct catalog *c)
{
    struct deferred_row *row = STAILQ_FIRST(&c->deferred);

    STAILQ_REMOVE_HEAD(&c->deferred, next);
    c->deferred_bytes -= row->bytes;
    json_decref(row->event);
    free(row);
}

static int defer(struct catalog *c, sqlite3_stmt *s, json_t *event)
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

int write_or_defer(struct catalog *c, sqlite3_stmt *s, json_t *event)
{
    int r = run_write(c, s);

    if (r == -EBUSY && c->locked)
        return defer(c, s, event);
    if (r >= 0 && event)
        event_announce_later(c, event, sqlite3_last_insert_rowid(c->db));
    return r;
}

int deferred_write(struct catalog *c)
{
    struct deferred_row *row;

    STAILQ_FOREACH(row, &c->deferred, next) {
        int rc = sqlite3_exec(c->db, row->sql, NULL, NULL, NULL);
        if (rc == SQLITE_OK && row->event)
            event_announce_later(c, row->event, sqlite3_last_insert_rowid(c->db));
        else if (sqlite_refused_value(rc))
            log_debug("a row that waited for the catalog does not fit any more: %s", sqlite3_errmsg(c->db));
        else if (rc != SQLITE_OK)
            return sqlite3_extended_errcode(c->db);
        c->deferred_written = true;
    }
    return SQLITE_OK;
}

void deferred_decided(struct catalog *c, bool committed)
{
    while (committed && c->deferred_written && !STAILQ_EMPTY(&c->deferred))
        drop_first(c);
    c->deferred_written = false;
}

void deferred_done(struct catalog *c)
{
    while (!STAILQ_EMPTY(&c->deferred))
        drop_first(c);
}
