/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a profd that no service manager started has its files: one answer for profd, which makes them, and
 * profctl, which looks there.
 *
 * In a Slurm job both are the job's own: two jobs of a user on one node do not meet, and the runtime
 * directory of a login, which goes with it, is left alone.
 */
#pragma once

#include "base/util.h"

#define SYSTEM_STATE_DIR "/var/lib/profd"
#define SYSTEM_SOCKET    "/run/profd/profd.sock"
#define JOB_DIR_PREFIX   "job-"

/* Its id; NULL outside of one. */
const char *slurm_job(void);
/* The step of it that somebody asked for, whose end is earlier; NULL in the job's own script or shell. */
const char *slurm_step(void);
/* Where the directories of this user's jobs are, each JOB_DIR_PREFIX and its id. As the next two the caller's
 * to free. NULL where the environment does not say where files of this user belong. */
char *user_jobs_dir(void);
char *user_state_dir(void);
/* The socket, beside the state where there is no better place. */
char *user_socket(const char *state_dir);
