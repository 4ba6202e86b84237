/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of rows (sessions.c, traces.c, workers.c) do for one another: records by their field lists.
 */
#pragma once

#include "daemon/catalog/fields.h"
#include "daemon/catalog/internal.h"

/* Inserts a record; its new id. */
int add_record(struct catalog *c, enum statement which, const struct field_list *l, const void *record,
               int64_t *ret_id);
/* The same for one whose id nobody needs; it waits while the catalog is locked. */
int append_record(struct catalog *c, enum statement which, const struct field_list *l, const void *record);
/* Updates an existing record; -ENOENT. */
int save_record(struct catalog *c, enum statement which, const struct field_list *l, const void *record);
/* The one record of a query whose parameter 1 is bound; -ENOENT. */
int get_record(struct catalog *c, sqlite3_stmt *s, const struct field_list *l, void *record);
/* Runs a write whose parameter 1 is the id, 2 (where used is not RECORD_NONE) a number; -ENOENT where it
 * changes nothing. */
int change_row(struct catalog *c, enum statement which, int64_t id, int64_t value);
/*
 * Reads what a query gives into a fresh array of records of that size, so that no statement is under way
 * while somebody else's function runs. The caller frees it by free_records().
 */
int read_records(struct catalog *c, sqlite3_stmt *s, const struct field_list *l, size_t record_size,
                 void **ret, size_t *ret_n);
void free_records(const struct field_list *l, size_t record_size, void *records, size_t n);

int saw_router(struct catalog *c, const char *url, const char *dialect, const char *fleet, int64_t at,
               int64_t used_at);
/* A row for a worker of which nothing but its URL may be known. */
int know_worker(struct catalog *c, const char *url);
