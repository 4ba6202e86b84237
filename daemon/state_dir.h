/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the state directory: its file system and its owner. SQLite's write-ahead log is shared memory between
 * profd and the readers of the catalog, and locks; network file systems support neither reliably.
 */
#pragma once

#include "base/problem.h"

/* The file system's type of the mount with that device in the text of a mountinfo; false where there is none.
 * Pure. */
bool mountinfo_type(const char *text, unsigned major, unsigned minor, char *buf, size_t size);

/* -EREMOTE with a problem that names the file system; -EPERM for root where it is another user's. The
 * directory need not be there yet. */
int state_dir_check(const char *path, struct problem *p);
