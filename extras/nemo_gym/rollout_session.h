/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session that records while rollouts run: profd records the servers, and profctl sends the rollouts, whose
 * file and agents it knows.
 */
#pragma once

#include "client/local/worker_options.h"

struct rollout_options {
    const char *file, *agent, *output; /* agent and output may be NULL */
    int64_t limit, at_once, longest_ns;
};

/* Starts it, sends all, stops it, and waits until it is over. Its id into ret. Returns an exit status: that
 * of the session, or EXIT_PARTIAL where rollouts failed. */
int rollout_session(struct client *c, const struct source *source, const struct rollout_options *o,
                    char ret[static REF_TEXT_MAX]);
