/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that registered for Kineto's on-demand recording, as workers of a fleet. */
#pragma once

#include "base/problem.h"
#include "daemon/fleet/process_query.h"
#include "daemon/fleet/worker.h"

struct kineto;

/* The dialect of a fleet that has registered processes and nothing else. */
#define KINETO_DIALECT "kineto"

/*
 * Adds those that the query selects and its author may record; of others only those that it names by pid, with the
 * reason why not. `kineto` may be NULL. A note says where none was added, and what a process needs to register.
 * Negative with the problem where profd does not listen for processes.
 */
int fleet_add_registered(struct fleet *f, const struct kineto *kineto, const struct process_query *q,
                         struct problem *p);
/* What a process must have in its environment to register with this profd: "KINETO_USE_DAEMON=1
 * KINETO_IPC_SOCKET_DIR=/run/profd/kineto", for a socket that is open, if there is one. NULL: [kineto] listen= names none.
 * The caller frees it. */
char *kineto_environment(const struct kineto *kineto);
