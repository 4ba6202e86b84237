/* SPDX-License-Identifier: Apache-2.0 */
/* Why a GPU was idle: what the host was doing, told from calls and names. */
#pragma once

#include "trace/reports/rules/scene.h"

/* Fills rank->gaps and rank->causes; all else of it is there. -ENOMEM. */
int idle_read(struct analysis *a, struct scene_rank *rank);

/* What a name on the host tells of the time in it; IDLE_UNKNOWN where it tells nothing. Pure. */
enum idle_cause idle_cause_of_name(struct text name);
