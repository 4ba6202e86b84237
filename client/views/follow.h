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
 * Returns EXIT_DONE with its last JSON; it is over unless the user left. EXIT_FAILED or
 * EXIT_NOT_FOUND after the problem was printed, where its state cannot be read.
 */
int follow_session(struct client *c, const char *session, struct screen *screen, enum interrupt on_interrupt,
                   json_t **ret);
/* The same of a run; and whether the user stopped it. */
int follow_run(struct client *c, const char *run, struct screen *screen, enum interrupt on_interrupt,
               bool *ret_was_stopped, json_t **ret);
