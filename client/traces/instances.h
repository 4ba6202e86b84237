/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine instances that the traces of named_ranks are of (trace/read/instance.h): the evidence is taken
 * from profd's catalog, from the traces' heads, from the files' names and from their collectives.
 */
#pragma once

#include "client/traces/ranks.h"
#include "trace/reports/analysis.h"

/*
 * Puts the ranks in order of their instances, numbers each within its own, and sets ranks->instances. ret:
 * one rank of an analysis for each, in that order, with what was read of it already; to be freed after
 * analysis_done(). as_one: takes all traces for ranks of one instance. EXIT_DONE, or an exit status
 * after the problem was printed.
 */
int ranks_find_instances(struct client *c, struct named_ranks *ranks, const struct kernel_patterns *patterns,
                         bool as_one, struct rank **ret);
/* method: auto, wall, collectives or start. Collectives are compared within an instance. */
int ranks_align(struct client *c, const char *method, struct named_ranks *ranks);
