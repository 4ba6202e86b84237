/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of per-user instances of finished Slurm jobs. They stay after the job so that its traces can be
 * downloaded; unused ones are deleted when the next per-user instance is started.
 *
 * Deletes only a directory of this user with the name of a job, in which nothing was written for OLD_JOB_DAYS,
 * whose catalog no profd holds, and of whose job no process of the user runs here. No link is followed: those
 * of root are where the service's user may write.
 */
#pragma once

#include "client/transport/connection.h"

#define OLD_JOB_DAYS 30

/* Prints the deleted directories. A directory that cannot be deleted is tried again the next time. */
void old_jobs_remove(struct client *c);
