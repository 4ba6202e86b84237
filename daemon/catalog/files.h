/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of an open catalog as the file system shows them, next to SQLite: whether they are still those
 * that were opened and as long as they have to be, and which process holds the write lock. Never opens the
 * database or its log, and closes the shared memory after SQLite did: closing any descriptor of a file gives
 * up all locks that the process has on it.
 */
#pragma once

#include "daemon/catalog/internal.h"

/* An opening step: remembers the files, and watches their directory. Without inotify they are looked at once
 * a second. */
int files_open(struct catalog *c, struct problem *p);
/* After SQLite closed the files. */
void files_close(struct catalog *c);
/*
 * 0, or -ESTALE once the files are lost: nothing is written after the first such answer. The callback given
 * to catalog_on_lost() is called from the loop.
 */
int files_check(struct catalog *c);
/* Who holds the write lock, as "locked by ..." goes on; a remedy that names the process. The caller frees
 * both. */
void files_name_holder(const struct catalog *c, char **ret_holder, char **ret_remedy);
