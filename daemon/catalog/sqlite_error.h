/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite's result codes as negative errno values, and as problems that say what to do.
 */
#pragma once

#include "base/problem.h"
#include <sqlite3.h>

/*
 * -ENOSPC, -EROFS, -EIO (or the system's own error where SQLite kept it), -EUCLEAN for a damaged file,
 * -EMEDIUMTYPE for no database at all, -EBUSY, -EEXIST for a broken uniqueness, -EINVAL for any other value
 * that the schema refuses.
 */
int sqlite_errno(sqlite3 *db, int rc);
/* True where a failed statement leaves the transaction as it was: the value was wrong, not the disk. */
bool sqlite_refused_value(int rc);
/* Sets p from an errno value of above and the database's own message; returns err. */
int sqlite_problem(sqlite3 *db, int err, const char *path, struct problem *p);
/* What to do about it; the caller frees it. */
char *storage_remedy(int err, const char *path);
/* The same for an error of the operating system. */
int storage_problem(int err, const char *path, struct problem *p);
