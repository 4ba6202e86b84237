/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of sql_tables[] as SQLite's virtual tables, under their own names without CREATE.
 */
#pragma once

#include "trace/sql/cells.h"
#include "trace/sql/tables.h"

/* The row that a column's value is asked for. */
struct row {
    const sqlite3_vtab *vtab;
    const struct sql_table *table;
    struct trace *trace;
    struct cells *cells;
    uint64_t number;
    uint64_t before; /* the row that was handed out before it, ROW_NONE at first */
    sqlite3_destructor_type text_lifetime;
};

/* The row's slice, ROW_NONE where it has none. */
uint64_t row_slice(const struct row *row);
/* The text with this number; false where it is empty or none, which damage could be the reason for. */
bool result_text(const struct row *row, sqlite3_context *ctx, int64_t number);

struct vtab {
    sqlite3_vtab base;
    const struct sql_table *table;
    struct traces *traces;
};

/* Methods that all tables have in common. */
int vtab_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                 char **ret_error);
int vtab_disconnect(sqlite3_vtab *vtab);
int vtab_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);
/* An error of this room as SQLite's; the message, which may be NULL, is freed and becomes the statement's. */
int vtab_fail(sqlite3_vtab *vtab, int error, char *message);

/* Both: an SQLite result code. */
int vtab_register(sqlite3 *db, const sqlite3_module *methods, const struct sql_table *table,
                  struct traces *traces);
int vtab_register_tables(sqlite3 *db, struct traces *traces);
