/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What own profds of Slurm jobs left behind: each has a directory, which stays when its job is over so that
 * its traces can be fetched. One that nobody has used for long goes when the next own profd is started.
 *
 * Removed is only a directory of this user's with a job's name, in which nothing was written for
 * OLD_JOB_DAYS, whose catalog no profd holds, and of whose job no process of the user's runs here. Root's lie
 * where the service's user may write: no link is followed.
 */
#pragma once

#include "client/transport/connection.h"

#define OLD_JOB_DAYS 30

/* Says what went. What cannot be removed stays, for the next time. */
void old_jobs_remove(struct client *c);
