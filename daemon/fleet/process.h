/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes behind workers of this host, read from /proc: who listens on a port, with which command line,
 * environment and directory, in which container, which children it has, and which of them has a file open.
 *
 * Everything here may block and is called on the offload's threads. Nothing is ever written to /proc, no
 * signal is ever sent.
 */
#pragma once

#include "base/process_info.h"
#include "daemon/fleet/fleet.h"

/* What lets a profd that is a service read what is others'. */
#define FOREIGN_DROP_IN "the drop-in collect-foreign.conf (profd(8), \"Installed\")"

/* Fills local, pid, uid, setup and place of each worker of the fleet that listens on this host (and keeps
 * what is known). */
void processes_inspect(struct fleet *fleet, const struct fleet_settings *settings);

/*
 * A path as the worker names it, turned into one that profd can open: itself where the worker shares profd's
 * root, by map_path, or below /proc/PID/root. Returns a new string, or NULL with the reason and the remedy in
 * p.
 */
char *process_resolve_path(const struct worker *w, const struct fleet_config *config, const char *path,
                           struct problem *p);
/* Whether the worker's user could write there: 1 yes, 0 no, -1 cannot be known. */
int process_can_write(const struct worker *w, const char *local_path);
