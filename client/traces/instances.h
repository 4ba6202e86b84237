/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine instances of the traces of named_ranks (trace/read/instance.h), by evidence from profd's catalog, heads
 * and names of the files, and their collectives.
 */
#pragma once

#include "client/traces/ranks.h"
#include "trace/reports/analysis.h"

/*
 * Sorts the ranks by instance, numbers each within its own, and sets ranks->instances. *ret: a rank of an analysis for
 * each, in that order, with the data that was read already; the caller frees it after analysis_done(). as_one: all
 * traces are ranks of one instance. EXIT_DONE, or an exit status after the problem was printed.
 */
int ranks_find_instances(struct client *c, struct named_ranks *ranks, const struct kernel_patterns *patterns,
                         bool as_one, struct rank **ret);
/* The same without an analysis: instances and numbers of ranks alone. */
int ranks_set_instances(struct client *c, struct named_ranks *ranks);
/* method: auto, wall, collectives or start. Collectives are compared within an instance. */
int ranks_align(struct client *c, const char *method, struct named_ranks *ranks);
