/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of traces for questions over many of them: after a trace was imported, the durations of its steps and its findings
 * are computed at the lowest priority, and become rows of the catalog (catalog_set_sums()). A trace whose sums cannot be
 * computed has none; a restart forgets those that wait.
 */
#pragma once

#include "base/offload.h"
#include "daemon/report/pool.h"

struct catalog;
struct sums;

/* Borrows all arguments, and listens to the events of the catalog from here on. */
int sums_new(struct catalog *catalog, struct offload *offload, struct reports *pool, struct sums **ret);
/* Ends its work; before the pool is freed. */
void sums_close(struct sums *s);
/* After the catalog and the threads have ended. */
struct sums *sums_free(struct sums *s);
