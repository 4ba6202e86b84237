/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables as SQLite's virtual tables, under their own names without CREATE: those of sql_tables[], args
 * (args.h), and report_NAME for each report, computed when it is queried.
 */
#pragma once

#include "trace/sql/tables.h"

struct vtab {
    sqlite3_vtab base;
    const void *spec; /* struct sql_table, struct report */
    struct traces *traces;
};

/* Tells SQLite the columns of a table. An SQLite result code. */
typedef int vtab_declare_fn(sqlite3 *db, const void *spec, const struct traces *traces);
/* Declares "create table ...", which it finishes and frees. An SQLite result code. */
int vtab_declare(sqlite3 *db, sqlite3_str *declaration);

/* Methods that all tables have in common; vtab_best_index() is for a struct sql_table. */
int vtab_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                 char **ret_error);
int vtab_disconnect(sqlite3_vtab *vtab);
int vtab_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);
/* A negative errno as SQLite's error; the message, which may be NULL, is freed and becomes the statement's. */
int vtab_fail(sqlite3_vtab *vtab, int error, char *message);

/* declare: NULL where spec is a struct sql_table. An SQLite result code. */
int vtab_register(sqlite3 *db, const char *name, const sqlite3_module *methods, const void *spec,
                  vtab_declare_fn *declare, struct traces *traces);
/* All reports as tables. An SQLite result code. */
int report_tables_register(sqlite3 *db, struct traces *traces);
