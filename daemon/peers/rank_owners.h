/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks without a server on other hosts; see rank_owners.c. */
#pragma once

#include "daemon/fleet/worker.h"

/* As in struct owner_ops. */
void *owners_find_ranks(struct fleet *fleet, void (*done)(void *done_arg), void *done_arg, void *arg);
void owners_cancel_ranks(void *search, void *arg);

/* What a host's answer may say of ranks, for an empty worker. Empties theirs of what it takes. Pure. */
void ranks_take(struct worker *w, struct worker *theirs, const struct worker *server);
