/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/catalog/background.h"

#include "daemon/catalog/internal.h"

static const char *background_kind_name(enum background_kind kind)
{
    static const char *const names[_BACKGROUND_KIND_MAX] = {
        [BACKGROUND_SUMS] = "sums", [BACKGROUND_SLICES] = "slices", [BACKGROUND_REQUESTS] = "requests"};
    return names[kind];
}

void catalog_on_background(struct catalog *c, enum background_kind kind, void (*fn)(void *arg), void *arg)
{
    c->background[kind] = (struct background_listener){fn, arg};
}

static void background_on_committed(int err, void *arg)
{
    const struct background_listener *l = arg;

    if (err == 0 && l->fn)
        l->fn(l->arg);
}

int catalog_want_background(struct catalog *c, enum background_kind kind, int64_t id)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_WANT_BACKGROUND);

    bind_text(s, 1, background_kind_name(kind));
    bind_number(s, 2, id);
    int r = run_write(c, s);
    if (r >= 0 && c->background[kind].fn)
        catalog_then(c, false, background_on_committed, &c->background[kind]);
    return r;
}

int catalog_next_background(struct catalog *c, enum background_kind kind, int64_t now,
                            struct background_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_NEXT_BACKGROUND);

    bind_text(s, 1, background_kind_name(kind));
    bind_number(s, 2, now);
    int r = next_row(c, s);
    if (r == 1)
        *ret = (struct background_record){column_number(s, 0), column_number(s, 1), column_number(s, 2)};
    return r;
}

int64_t catalog_next_background_at(struct catalog *c, enum background_kind kind)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_NEXT_BACKGROUND_AT);

    bind_text(s, 1, background_kind_name(kind));
    return next_row(c, s) == 1 ? column_number(s, 0) : RECORD_NONE;
}

int catalog_delay_background(struct catalog *c, const struct background_record *b, int64_t next_at)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_DELAY_BACKGROUND);

    bind_number(s, 1, b->background_id);
    bind_number(s, 2, b->tries + 1);
    bind_number(s, 3, next_at);
    return run_write(c, s);
}

int catalog_end_background(struct catalog *c, int64_t background_id)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_END_BACKGROUND);

    bind_number(s, 1, background_id);
    return run_write(c, s);
}

bool catalog_background_is_due(struct catalog *c, int64_t now)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_BACKGROUND_IS_DUE);

    bind_number(s, 1, now);
    return next_row(c, s) == 1 && column_number(s, 0) == 1;
}
