/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's own profd, started where none is: for a verb that needs one which stays when profctl has ended,
 * since a stop will be owed. A plain child, so that it is in whatever cgroup profctl is in, and ends with it:
 * a Slurm job's, a container's. It ends by itself when it was idle for long.
 *
 * Never in place of the system's: where this host has one as a service, it is said how to use that.
 */
#pragma once

#include "client/verb.h"

/* At the socket, where none answers. Says so. 0 also where somebody else was first; -ENOPKG where the program
 * is not installed. */
int own_profd_start(struct client *c, const char *socket, struct problem *p);
