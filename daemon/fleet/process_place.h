/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where one worker's traces appear, from what its process and its settings say. May block.
 */
#pragma once

#include "daemon/fleet/fleet.h"
#include "daemon/fleet/process.h"

/*
 * Fills setup and place of a worker whose pid and uid are set, and makes local_dir of the directory that is
 * known. A directory that is known already is kept. config may be NULL; remark ("" for none) says in found_by
 * how the process was found.
 */
void process_place(struct worker *w, const struct fleet_settings *settings, const struct fleet_config *config,
                   const char *remark);
/* The same for a worker whose process is not known, for the given reason, which is emptied. own_host: its URL
 * is one of this host. */
void process_place_unseen(struct worker *w, const struct fleet_settings *settings,
                          const struct fleet_config *config, bool own_host, struct problem *reason);
