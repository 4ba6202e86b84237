/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of traces for questions over many of them: after columns of a trace were written, for the first time or again, the durations
 * of its steps and its findings are computed at the lowest priority, and become rows of the catalog (catalog_set_sums()). A
 * trace whose sums cannot be computed has none.
 */
#pragma once

#include "base/offload.h"
#include "daemon/report/pool.h"

struct catalog;
struct sums;

/* Borrows all arguments. Begins with what an earlier profd left. */
int sums_new(struct event_base *base, struct catalog *catalog, struct offload *offload, struct reports *pool,
             struct sums **ret);
/* Ends its work; before the pool is freed. What is not computed waits for the next start. */
void sums_close(struct sums *s);
/* After the catalog and the threads have ended. */
struct sums *sums_free(struct sums *s);
