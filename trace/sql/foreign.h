/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A SQLite database of unknown making, in memory, to be read only: nothing in its schema runs with trust, no
 * view, no trigger, no virtual table, no file.
 */
#pragma once

#include "base/util.h"

struct sqlite3;

/* data must outlive the connection. -EBADMSG with a reason, -ENOMEM. */
int foreign_open(const void *data, size_t size, struct sqlite3 **ret, char *ret_reason, size_t reason_size);
/* True for an ordinary table. Only such ones may be named in a statement. */
bool foreign_has_table(struct sqlite3 *db, const char *table);
bool foreign_has_column(struct sqlite3 *db, const char *table, const char *column);
