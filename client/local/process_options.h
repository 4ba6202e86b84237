/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that select processes which registered for Kineto's on-demand recording, and their form in a request:
 * member "kineto" (openapi.yaml, ProcessSelection).
 */
#pragma once

#include "client/cli/client.h"

struct process_options {
    bool kineto;
    struct option_list pids, jobs, uids;
};

/* Lines of an option table; type has a member `struct source source`. */
/* clang-format off */
#define PROCESS_OPTIONS(type) \
    {"kineto", 0, NULL, OPTION_FLAG, offsetof(type, source.processes.kineto), "PyTorch processes that registered with profd, in addition to workers that are named"}, \
    {"pid", 0, "PID", OPTION_LIST, offsetof(type, source.processes.pids), "With --kineto, only this process (repeatable)"}, \
    {"slurm-job", 0, "JOB", OPTION_LIST, offsetof(type, source.processes.jobs), "With --kineto, only processes of this Slurm job (repeatable)"}, \
    {"uid", 0, "USER", OPTION_LIST, offsetof(type, source.processes.uids), "With --kineto, only processes of this user, by name or number (repeatable)"}
/* clang-format on */

/* Whether processes are wanted: any of these options implies --kineto. */
bool process_options_wanted(const struct process_options *o);
/* The member "kineto" of a request; units are patterns of --unit. *ret is NULL where no processes are wanted. 0 or the
 * problem. */
int process_options_to_json(const struct process_options *o, const struct option_list *units, json_t **ret,
                            struct problem *p);
/* As parameters of a query: kineto=true, pid=, slurm_job=, uid=, unit=. Takes nothing. */
void process_options_to_query(const json_t *kineto, json_t *members);
