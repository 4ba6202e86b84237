/* SPDX-License-Identifier: Apache-2.0 */
/* What Slurm's commands print, as nodes. Pure; slurm.h runs the commands. */
#pragma once

#include "base/problem.h"

/* Of squeue: a line for each part of a job (elements of an array, components of a heterogeneous job). */
#define SLURM_JOB_FORMAT "--format=%T|%i|%N"
/* Of sinfo --Node: a line for each node of each partition. */
#define SLURM_NODE_FORMAT "--format=%N|%o"

/* Whether a word is the id of a job: "4711", "4711_3" (of an array), "4711+1" (of a heterogeneous job). */
bool slurm_is_job_id(const char *word, size_t size);

/*
 * The nodes of a job out of squeue's lines, as a list of hosts that the caller frees. -ENOENT where no part of the job
 * is running; *ret_state is then the state of its first part, in lower case, to be freed, or NULL where there is none.
 * -EPROTO for other text.
 */
int slurm_parse_job(const char *text, size_t size, char **ret_nodes, char **ret_state);

/*
 * The addresses of nodes out of sinfo's lines: *ret_addresses is a list of hosts in the order of the lines, each once,
 * with ranges where their numbers follow, to be freed; NULL where every node's address is its name, or nothing is there.
 * *ret_n is the number of nodes. -EPROTO for other text.
 */
int slurm_parse_addresses(const char *text, size_t size, char **ret_addresses, size_t *ret_n);
