/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching a session or a run until it is over: a block that is drawn again on a terminal, lines of what
 * changed elsewhere. Survives a restart of profd.
 */
#pragma once

#include "client/transport/connection.h"

enum interrupt {
    INTERRUPT_LEAVES, /* Ctrl-C ends the watching */
    INTERRUPT_STOPS,  /* Ctrl-C stops it, a second one ends the watching */
};

/*
 * Follows a session (s7) or a benchmark run (r3). Returns EXIT_DONE with its last JSON; it is over unless the user
 * left. EXIT_FAILED or EXIT_NOT_FOUND after the problem was printed, if its state cannot be read. ret_was_stopped:
 * NULL, or whether the user stopped it.
 */
int follow_job(struct client *c, const char *id, struct screen *screen, enum interrupt on_interrupt,
               bool *ret_was_stopped, json_t **ret);
