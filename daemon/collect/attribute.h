/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To which target a file belongs: decided from evidence, never guessed. Pure.
 *
 * Evidence in order of strength: the id in its metadata that profd gave (Kineto), the id in its name that profd gave
 * (SGLang), the process that has it open, the
 * process id in its name or events against the worker's process tree, its owner; and where only one worker
 * could have written it there at that time, directory and time alone. Sessions of one worker follow one
 * another, so the time decides between them. A file with several candidates left is ambiguous. A directory that workers of
 * several hosts have in common (shares_dir) has candidates on each of them: what another's process wrote is none of ours.
 */
#pragma once

#include "base/util.h"
#include <sys/types.h>

/* A target that could have written the file: it writes to its directory, and recorded at that time. */
struct attribution_candidate {
    /* That its recording was requested with, and that its trace has in its metadata; NULL where the engine takes
     * none. Such a candidate is no file's without a proof: this id, or, in a file without an id, its name. */
    const char *trace_id;
    bool has_given_name;    /* the file has a name that profd gave to this recording */
    const char *profile_id; /* NULL where the engine does not take one */
    bool had_it_open;
    const pid_t *pids, *inner_pids; /* its process tree; n_pids 0: not known */
    size_t n_pids;
    /* Workers of other hosts, whose candidates are there, write to the same directory: a file with the id of a process that
     * is not of its tree is one of theirs. */
    bool shares_dir;
    bool uid_known;
    uid_t uid;
    const char *worker; /* its URL */
    int64_t started_at; /* wall ns */
};

struct attribution_evidence {
    const char *trace_id;   /* in the metadata; NULL none. Untrusted. */
    const char *profile_id; /* in the name; NULL none */
    int64_t pid;            /* in the name or the events; < 0 unknown */
    uid_t owner;
    int64_t written_at; /* by the clock of started_at; 0 unknown */
};

enum attribution_result {
    ATTRIBUTION_NONE = -1,      /* no target recorded it */
    ATTRIBUTION_AMBIGUOUS = -2, /* to one of those whose bit in `left` is set */
};

/* The candidate's index or one of attribution_result. Fills left, an array of n; *ret_evidence is set with an
 * index. */
int attribution_decide(const struct attribution_candidate *candidates, size_t n,
                       const struct attribution_evidence *e, bool *left, const char **ret_evidence);
