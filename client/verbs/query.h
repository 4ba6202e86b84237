/* SPDX-License-Identifier: Apache-2.0 */
/* A query that has a name, run on a trace: what `profctl query --named` does, for other verbs. */
#pragma once

#include "client/verb.h"

/* limit: rows, or OPTION_ABSENT. Returns the exit status, having said why it is not EXIT_DONE. */
int query_run_named(struct client *c, const char *name, const char *trace, int64_t limit);
