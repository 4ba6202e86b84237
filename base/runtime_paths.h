/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of a profd that was started without a service manager, for profd, which creates the files, and
 * profctl, which opens them.
 *
 * In a Slurm job, state directory and socket belong to the job: two jobs of a user on one node do not share
 * them, and the runtime directory of a login session, which is removed at logout, is not used.
 */
#pragma once

#include "base/util.h"

#define SYSTEM_STATE_DIR "/var/lib/profd"
#define SYSTEM_SOCKET    "/run/profd/profd.sock"
#define JOB_DIR_PREFIX   "job-"

/* The id of the Slurm job; NULL outside of one. */
const char *slurm_job(void);
/* The id of the job's step (srun), which ends before the job; NULL in the job's batch script or shell. */
const char *slurm_step(void);
/* The directory with one directory for each job of this user, JOB_DIR_PREFIX and the job's id. The caller frees
 * this path and the next two. NULL if neither XDG_STATE_HOME nor HOME is usable. */
char *user_jobs_dir(void);
char *user_state_dir(void);
/* The path of the socket, in state_dir if there is no better directory. */
char *user_socket(const char *state_dir);
/* Bytes of a directory in which profd listens for Kineto, which writes DIR, "/" and a name of 52 bytes into the 108 of an
 * address, without a check. */
#define KINETO_DIR_MAX 54
/* The directory in which a per-user profd listens for Kineto (KINETO_IPC_SOCKET_DIR of the user's processes), next to
 * the socket. */
char *user_kineto_dir(const char *state_dir);
