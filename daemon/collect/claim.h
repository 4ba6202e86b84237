/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose file is this? Decided from evidence, never guessed. Pure.
 *
 * In order of strength: the id in its name that profd gave (SGLang), the process that has it open, the
 * process id in its name or events against the worker's process tree, its owner; and where only one worker
 * could have written it there at that time, the place and time alone. Sessions of that worker follow one
 * another, so the time tells which. What stays open is ambiguous, with the candidates.
 */
#pragma once

#include "base/util.h"
#include <sys/types.h>

/* A target that could have written the file: same directory, and recording at that time. */
struct claimant {
    const char *profile_id; /* NULL where the engine does not take one */
    bool had_it_open;
    const pid_t *pids, *inner_pids; /* its process tree; n_pids 0: not known */
    size_t n_pids;
    bool uid_known;
    uid_t uid;
    const char *worker; /* its URL */
    int64_t started_at; /* wall ns */
};

struct claim_evidence {
    const char *profile_id; /* in the name; NULL none */
    int64_t pid;            /* in the name or the events; < 0 unknown */
    uid_t owner;
    int64_t written_at; /* by the clock of started_at; 0 unknown */
};

enum claim_result {
    CLAIM_NONE = -1,      /* nobody asked for it */
    CLAIM_AMBIGUOUS = -2, /* those that are set in candidates */
};

/* The claimant's index or one of claim_result. Fills candidates, an array of n. */
int claim_decide(const struct claimant *claimants, size_t n, const struct claim_evidence *e, bool *candidates,
                 const char **ret_how);
