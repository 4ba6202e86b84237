/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rollouts sent to agents of NeMo Gym as ng_collect_rollouts sends them: each line of a JSONL file is one
 * POST of that object to the /run of the agent it names ("agent_ref": {"name": ...}), or else of a default
 * one; what comes back is a line of another file, with the line's _ng_task_index and agent_ref.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"

#define ROLLOUTS_MAX         100000
#define ROLLOUT_ANSWER_MAX   (64 << 20)
#define ROLLOUTS_AT_ONCE     8
#define ROLLOUTS_AT_ONCE_MAX 1024

struct rollouts {
    json_t *rows; /* objects, each with its agent_ref and indices */
};

/* At most `limit` lines (0: all). -EINVAL with the line where one is no object or names no agent. */
int rollouts_read(const char *path, const char *agent, size_t limit, struct rollouts *ret, struct problem *p);
void rollouts_done(struct rollouts *r);

struct rollouts_outcome {
    size_t done, failed;
    bool interrupted;
    char *failure; /* of the first that failed, NULL: none; the caller frees it */
};

/* workers is a Fleet of profd, whose models are the names of agents. -ENOENT where an agent is none of them.
 */
int rollouts_check(const struct rollouts *r, const json_t *workers, struct problem *p);
/*
 * Sends them, which were checked, at_once at a time, and writes each answer to out (NULL: nowhere) as it
 * comes. Ends early when interrupt_fd becomes readable (-1: never).
 */
void rollouts_send(const struct rollouts *r, const json_t *workers, size_t at_once, FILE *out,
                   int interrupt_fd, struct rollouts_outcome *ret);
