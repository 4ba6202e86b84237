/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes behind workers of this host, read from /proc: who listens on a port, with which command line,
 * environment and directory, in which container, which children it has, and which of them has a file open.
 *
 * Everything here may block and is called on the offload's threads. Nothing is ever written to /proc, no
 * signal is ever sent.
 */
#pragma once

#include "daemon/fleet/fleet.h"

/* Fills local, pid, uid, setup and place of each worker of the fleet that listens on this host (and keeps
 * what is known). */
void processes_inspect(struct fleet *fleet, const struct fleet_settings *settings);

/* pid and all its descendants, at most max of them. Returns how many. */
size_t process_tree(pid_t pid, pid_t *ret, size_t max);
/* The regular files that one of the processes has open for writing, at most max of them. Returns how many. */
struct open_file {
    dev_t device;
    ino_t inode;
};
size_t process_open_files(const pid_t *pids, size_t n, struct open_file *ret, size_t max);
/* The pid inside its own (innermost) pid namespace, which is what a container's profiler writes into names
 * and events. */
pid_t process_inner_pid(pid_t pid);

/*
 * A path as the worker names it, turned into one that profd can open: itself where the worker shares profd's
 * root, by map_path, or below /proc/PID/root. Returns a new string, or NULL with the reason and the remedy in
 * p.
 */
char *process_resolve_path(const struct worker *w, const struct fleet_config *config, const char *path,
                           struct problem *p);
/* Whether the worker's user could write there: 1 yes, 0 no, -1 cannot be known. */
int process_can_write(const struct worker *w, const char *local_path);
