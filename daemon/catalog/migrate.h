/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From whatever user_version a file has to the one that this profd speaks, one step at a time, each step in a
 * transaction of its own: a crash leaves the version before or the version after.
 *
 * Step i leads from version i to i + 1. Version 0 is the empty file, and its step is proto/catalog.sql, which
 * leads to the newest version at once: the file of a fresh start never went through older shapes. Before the
 * first step that changes an existing catalog, a copy PATH.vN.bak is made.
 */
#pragma once

#include "base/problem.h"
#include <sqlite3.h>

extern const char *const catalog_migrations[];

/* Reads application_id and user_version without changing the file. -EMEDIUMTYPE for another application's
 * file, -ENOTSUP for a newer version than n_steps. */
int migrate_check(sqlite3 *db, const char *path, int n_steps, int *ret_version, struct problem *p);
int migrate(sqlite3 *db, const char *path, int version, const char *const *steps, int n_steps,
            struct problem *p);
