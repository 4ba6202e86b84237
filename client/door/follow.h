/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching a session until it is over: a block that is drawn again on a terminal, lines of what changed
 * elsewhere. Survives a restart of profd.
 */
#pragma once

#include "client/verb.h"

enum interrupt {
    INTERRUPT_LEAVES, /* Ctrl-C ends the watching */
    INTERRUPT_STOPS,  /* Ctrl-C stops the session, a second one ends the watching */
};

/* Ctrl-C and SIGTERM wait from here on until follow_session() looks for them; a call that is under way
 * meanwhile ends with -EINTR. */
void follow_hold_signals(void);

/*
 * Returns EXIT_DONE with the session's last JSON; it is over unless the user left. EXIT_FAILED or
 * EXIT_NOT_FOUND, having said why, where nothing more can be learnt.
 */
int follow_session(struct client *c, const char *session, struct screen *screen, enum interrupt on_interrupt,
                   json_t **ret);
