/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --slurm of profctl: a job of Slurm, or a list of nodes, as the nodes' addresses for profd.
 *
 * profctl asks Slurm's own commands, with the user's rights; profd never does.
 */
#pragma once

#include "base/problem.h"

/*
 * The value in the form that is sent, to be freed: "NODES" or "NODES:PORTS" with the nodes' addresses (NodeAddr) where
 * those differ from their names. What stands before the ports may be
 *   a job's id, "4711", "4711_3", "4711+1": the nodes of its running parts, by squeue and sinfo;
 *   nothing: the job in which profctl runs ($SLURM_JOB_ID, $SLURM_JOB_NODELIST);
 *   a list of nodes: as it is, with addresses where sinfo knows all of them.
 */
int slurm_resolve(const char *value, char **ret, struct problem *p);
