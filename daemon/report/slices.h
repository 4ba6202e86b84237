/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices of sessions for other programs ([archive] slices=parquet): when a session has ended, the tables of its traces on this
 * host are written as Parquet files, one after the other, at the lowest priority, and handed to the archive.
 */
#pragma once

#include "base/offload.h"
#include "daemon/report/pool.h"

struct catalog;
struct session_slices;

/* Borrows all arguments. is_wanted: the setting, which may change. state_dir: files that wait for the archive are in its
 * directory slices. Begins with what an earlier profd left. */
int slices_new(struct event_base *base, struct catalog *catalog, struct offload *offload,
               struct reports *pool, const int *is_wanted, const char *state_dir,
               struct session_slices **ret);
/* wake() is called for each file that the archive may take. */
void slices_set_wake(struct session_slices *s, void (*wake)(void *arg), void *arg);
/* Ends its work; before the pool is freed. What is not written waits for the next start. */
void slices_close(struct session_slices *s);
/* After the catalog and the threads have ended. */
struct session_slices *slices_free(struct session_slices *s);
