/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the processes that registered for Kineto's on-demand recording a request is about, and whose processes its
 * author may record (docs/security.md). Pure.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "base/util.h"
#include <sys/types.h>

/* Of each list of a request. */
#define PROCESS_QUERY_MAX 4096

/* Values of one kind are alternatives, the kinds combine; an empty list selects all. */
struct process_query {
    bool wanted; /* else the request is about no processes */
    int64_t *pids, *jobs, *uids;
    size_t n_pids, n_jobs, n_uids;
    char **units; /* patterns as of fnmatch(3); ".service" may be left out */
    size_t n_units;
    /* Of the author: */
    bool may_all; /* root, members of profd's group, tokens of administrators */
    bool has_uid;
    uid_t uid;
};

/* {"pids": [N], "slurm_jobs": [N], "uids": [N], "units": [TEXT]}, each may be absent. -EINVAL with the problem. */
int process_query_parse(const json_t *j, struct process_query *ret, struct problem *p);
void process_query_copy(const struct process_query *q, struct process_query *ret);
void process_query_done(struct process_query *q);

/* What of a process is selected by; borrowed. */
struct process_facts {
    pid_t pid;
    uid_t uid;
    int64_t job;      /* of Slurm; 0: none */
    const char *unit; /* NULL unknown */
};
bool process_query_selects(const struct process_query *q, const struct process_facts *f);
/* Whether its author may record it. */
bool process_query_may_record(const struct process_query *q, uid_t uid);
/* Whether the request names this very process. */
bool process_query_names(const struct process_query *q, pid_t pid);
