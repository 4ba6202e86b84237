/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that are parts of a job of srtctl, where that would have put them:
 * <store>/<folder>/profiles/<phase> leads to the session's own directory, and <folder>/profile_<phase>.out
 * says what was done.
 */
#pragma once

#include "daemon/collect/store.h"
#include "daemon/session/sessions.h"

/* Of a session that is over; nothing for one that is no part of a job. */
void job_lay_out(const struct session *s, const struct store *store, struct offload *offload);
/* Blocks. What leads to sessions that are gone. */
void job_prune(const char *store_path);
