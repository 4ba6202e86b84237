/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open traces of one connection. The only trace of a source stays open until the connection closes; of a catalog,
 * the few that were used last stay open.
 *
 * Tables, functions and the connection share one `struct traces` by reference counts; a cursor holds the trace that it
 * walks. For one thread at a time, like the connection.
 */
#pragma once

#include "base/util.h"
#include "trace/read/event_text.h"
#include "trace/sql/query.h"
#include <sqlite3ext.h>

#ifndef SQLITE_CORE
extern const sqlite3_api_routines *sqlite3_api;
#endif

#define HEADS_MAX 8

struct heads {
    int fd; /* the caller's; -1: there is no original */
    const struct columns *columns;
    struct {
        struct event_source *source;
        uint64_t offset; /* of the last text */
        uint64_t last_used;
    } items[HEADS_MAX];
    uint64_t clock;
};

/* Valid until the next call; -ENOENT if the original is gone, or is another file now. */
int heads_text(struct heads *h, uint64_t offset, struct text *ret);
void heads_done(struct heads *h);

/* Unused traces of a catalog that stay open. */
#define TRACES_IDLE_MAX 8

/* A power of two; less than a millisecond. */
#define STEPS_PER_LOOK (UINT64_C(1) << 14)

enum group_order {
    GROUPS_BY_NAME,     /* and category */
    GROUPS_BY_CATEGORY, /* and name */
    _GROUP_ORDER_MAX,
};

struct trace {
    int64_t id;
    struct columns *columns;
    /* Private. */
    struct traces *traces;
    struct heads heads;
    uint32_t *groups[_GROUP_ORDER_MAX];
    unsigned users;
    uint64_t last_used;
};

struct traces;

int traces_new(sqlite3 *db, struct sql_source source, struct traces **ret);
struct traces *traces_ref(struct traces *t);
struct traces *traces_unref(struct traces *t);
/* Whether there can be several traces: each table then has the column trace_id. */
bool traces_many(const struct traces *t);
/* Whether several traces are queried as one: rows are then numbered over all of them. */
bool traces_are_one(const struct traces *t);
/* The columns that tables have after their own, as a part of a declaration: ", trace_id integer hidden". */
const char *traces_columns(const struct traces *t);
/* The value of the i-th of them, for the trace with that id. */
void traces_result(const struct traces *t, int64_t id, int i, sqlite3_context *ctx);
/* The ids within a range; the caller frees them, and a message for people. If there can be only one, it is not checked
 * whether it exists. */
int traces_within(struct traces *t, int64_t min, int64_t max, int64_t **ret_ids, size_t *ret_n,
                  char **ret_error);
int traces_get(struct traces *t, int64_t id, struct trace **ret, char **ret_error);
void traces_put(struct traces *t, struct trace *trace);

/* Whether the statement must end, because of its time limit or an interruption. */
bool trace_look(const struct trace *trace);

/* The same within loops whose length depends on a file: checks every STEPS_PER_LOOK steps. */
static inline bool trace_is_over(const struct trace *trace, uint64_t step)
{
    return step % STEPS_PER_LOOK == STEPS_PER_LOOK - 1 && trace_look(trace);
}

/* The rows of table name as SQLite orders their texts, no category before any. An SQLite result code. */
int trace_groups(struct trace *trace, enum group_order order, const uint32_t **ret);
/* The damage of the columns, after which no value of the trace can be trusted, or NULL. The caller frees. */
char *trace_damage(const struct trace *trace);

DEFINE_CLEANUP(struct traces *, traces_unref)
