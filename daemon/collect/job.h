/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that are parts of a job of srtctl, where that would have put them:
 * <store>/<folder>/profiles/<phase> leads to the session's own directory, or in a session of several phases
 * to each trace of the phase's workers, and <folder>/profile_<phase>.out reports what was done.
 */
#pragma once

#include "daemon/collect/store.h"
#include "daemon/session/sessions.h"

/* Of a session that is over; nothing for one that is no part of a job. */
void job_lay_out(const struct session *s, struct catalog *catalog, const struct store *store,
                 struct offload *offload);
/* Blocks. What leads to sessions that are gone. */
void job_prune(const char *store_path);
