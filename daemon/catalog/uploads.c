/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads to the archive: what waits, how far a transfer is, and of which traces only the archive has the file. */
#include "daemon/catalog/uploads.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/catalog/internal.h"
#include <errno.h>
#include <inttypes.h>

const char *upload_kind_name(enum upload_kind k)
{
    static const char *const names[_UPLOAD_KIND_MAX] = {
        [UPLOAD_TRACE] = "trace", [UPLOAD_SLICES] = "slices", [UPLOAD_MANIFEST] = "session"};
    return names[k];
}

static enum upload_kind upload_kind_from_name(const char *name)
{
    for (int k = 0; k < _UPLOAD_KIND_MAX; k++)
        if (streq(name, upload_kind_name((enum upload_kind)k)))
            return (enum upload_kind)k;
    return UPLOAD_TRACE;
}

void upload_record_done(struct upload_record *u)
{
    char *const texts[] = {u->path, u->key, u->sha256, u->s3_upload_id, u->parts, u->error, u->name};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        free(texts[i]);
    *u = (struct upload_record){0};
}

/* -- Rows ---------------------------------------------------------------------------------------------- */

static void upload_bind(sqlite3_stmt *s, const struct upload_record *u)
{
    bind_number(s, 3, u->trace_id);
    bind_number(s, 4, u->session_id);
    bind_text(s, 5, u->path ? u->path : "");
    bind_text(s, 6, u->key ? u->key : "");
    bind_number(s, 7, u->size);
    bind_text(s, 8, u->sha256);
    bind_text(s, 9, u->s3_upload_id);
    bind_text(s, 10, u->parts);
    bind_number(s, 11, u->tries);
    bind_number(s, 12, u->next_at);
    bind_text(s, 13, u->error);
    bind_number(s, 14, u->wanted_at);
}

static void upload_read(sqlite3_stmt *s, struct upload_record *ret)
{
    *ret = (struct upload_record){
        .upload_id = column_number(s, 0),
        .kind = upload_kind_from_name(column_text(s, 1)),
        .trace_id = column_number(s, 2),
        .session_id = column_number(s, 3),
        .path = column_text_copy(s, 4),
        .key = column_text_copy(s, 5),
        .size = column_number(s, 6),
        .sha256 = column_text_copy(s, 7),
        .s3_upload_id = column_text_copy(s, 8),
        .parts = column_text_copy(s, 9),
        .tries = column_number(s, 10),
        .next_at = column_number(s, 11),
        .error = column_text_copy(s, 12),
        .wanted_at = column_number(s, 13),
        .name = column_text_copy(s, 14),
        .disk_size = column_number(s, 15),
    };
}

static int upload_write(struct catalog *c, struct upload_record *u, enum statement update)
{
    bool is_new = u->upload_id == RECORD_NONE;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, is_new ? STATEMENT_ADD_UPLOAD : update);

    upload_bind(s, u);
    if (is_new)
        bind_text(s, 2, upload_kind_name(u->kind));
    else
        bind_number(s, 1, u->upload_id);
    int r = run_write(c, s);
    if (r >= 0 && is_new)
        u->upload_id = sqlite3_last_insert_rowid(c->db);
    return r;
}

int catalog_save_upload(struct catalog *c, struct upload_record *u)
{
    return upload_write(c, u, STATEMENT_SAVE_UPLOAD);
}

int catalog_remove_upload(struct catalog *c, const struct upload_record *u)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_REMOVE_UPLOAD);

    bind_number(s, 1, u->upload_id);
    bind_number(s, 2, u->wanted_at);
    int r = run_write(c, s);
    return r < 0 ? r : sqlite3_changes(c->db) > 0;
}

int catalog_want_upload(struct catalog *c, const struct upload_record *u)
{
    struct upload_record row = *u;
    sqlite3_stmt *s = statement(c, STATEMENT_FIND_SESSION_UPLOAD);

    bind_number(s, 1, u->session_id);
    bind_text(s, 2, upload_kind_name(u->kind));
    bind_text(s, 3, u->key);
    int r = next_row(c, s);
    row.upload_id = r == 1 ? column_number(s, 0) : RECORD_NONE;
    statement_resetp(&s);
    if (r < 0)
        return r;
    row.next_at = RECORD_NONE;
    row.wanted_at = wall_ns();
    row.s3_upload_id = row.parts = row.error = NULL;
    row.tries = 0;
    return upload_write(c, &row, STATEMENT_WANT_UPLOAD_AGAIN);
}

/* -- Lists --------------------------------------------------------------------------------------------- */

struct upload_list {
    struct upload_record *rows;
    size_t n, cap;
};

static void upload_list_done(struct upload_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        upload_record_done(&l->rows[i]);
    free(l->rows);
}

/* All of them first: fn() may write. */
static int uploads_of(struct catalog *c, enum statement which, int64_t now, int64_t limit,
                      struct upload_list *list)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    int r;

    bind_number(s, 1, now);
    bind_number(s, 2, limit);
    while ((r = next_row(c, s)) == 1) {
        VEC_GROW(list->rows, list->n, list->cap);
        upload_read(s, &list->rows[list->n++]);
    }
    return r;
}

static int uploads_hand_on(const struct upload_list *list,
                           int (*fn)(const struct upload_record *u, void *arg), void *arg)
{
    int r = 0;

    for (size_t i = 0; i < list->n && r == 0; i++)
        r = fn(&list->rows[i], arg);
    return MIN(r, 0);
}

int catalog_each_upload(struct catalog *c, int64_t now, int64_t limit,
                        int (*fn)(const struct upload_record *u, void *arg), void *arg)
{
    static const enum statement lists[] = {STATEMENT_UPLOADS_BEGUN, STATEMENT_UPLOADS_NEW,
                                           STATEMENT_UPLOADS_OF_FILES, STATEMENT_UPLOADS_FAILED};
    _cleanup_(upload_list_done) struct upload_list list = {0};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(lists) && r >= 0 && (int64_t)list.n < limit; i++)
        r = uploads_of(c, lists[i], now, limit - (int64_t)list.n, &list);
    return r < 0 ? r : uploads_hand_on(&list, fn, arg);
}

int catalog_each_refused_upload(struct catalog *c, int64_t limit,
                                int (*fn)(const struct upload_record *u, void *arg), void *arg)
{
    _cleanup_(upload_list_done) struct upload_list list = {0};
    int r = uploads_of(c, STATEMENT_UPLOADS_REFUSED, 1, limit, &list);

    return r < 0 ? r : uploads_hand_on(&list, fn, arg);
}

int64_t catalog_next_upload_at(struct catalog *c)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_NEXT_UPLOAD_AT);
    return next_row(c, s) == 1 ? column_number(s, 0) : RECORD_NONE;
}

int catalog_upload_lag(struct catalog *c, struct upload_lag *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_UPLOAD_LAG);
    int r = next_row(c, s);

    *ret = (struct upload_lag){.oldest_at = RECORD_NONE};
    if (r == 1)
        *ret = (struct upload_lag){column_number(s, 0), column_number(s, 1), column_number(s, 2)};
    return MIN(r, 0);
}

int catalog_session_waits_for_archive(struct catalog *c, int64_t session_id, int64_t since, bool *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SESSION_WAITS_FOR_ARCHIVE);
    int64_t waits = 0;

    bind_number(s, 1, session_id);
    bind_number(s, 2, since);
    int r = c->keeps_unarchived ? read_numbers(c, s, &waits, NULL) : 0;
    *ret = waits != 0;
    return r;
}

/* -- Traces -------------------------------------------------------------------------------------------- */

/* -ENOENT where the statement changed no row. */
static int upload_change(struct catalog *c, sqlite3_stmt *s)
{
    int r = run_write(c, s);
    return r < 0 ? r : sqlite3_changes(c->db) > 0 ? 0 : -ENOENT;
}

int catalog_set_archived(struct catalog *c, int64_t trace_id, const char *key, const char *sha256,
                         int64_t size, int64_t at)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SET_ARCHIVED);

    bind_number(s, 1, trace_id);
    bind_number(s, 2, at);
    bind_text(s, 3, key);
    bind_text(s, 4, sha256);
    bind_number(s, 5, size);
    return upload_change(c, s);
}

void trace_leave_to_archive(struct trace_record *t)
{
    t->stored = false;
    t->disk_size = 0;
    free(t->path);
    t->path = xasprintf(ARCHIVED_PATH "%s#t%" PRId64, t->archive_key, t->trace_id);
}

int catalog_set_fetched(struct catalog *c, int64_t trace_id, const char *path, int64_t disk_size)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_SET_FETCHED);

    bind_number(s, 1, trace_id);
    bind_text(s, 2, path);
    bind_number(s, 3, disk_size);
    return upload_change(c, s);
}

bool catalog_has_content(struct catalog *c, const char *sha256)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_HAS_CONTENT);

    bind_text(s, 1, sha256);
    return next_row(c, s) == 1;
}
