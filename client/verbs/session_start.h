/* SPDX-License-Identifier: Apache-2.0 */
/* A session, from its request to what became of it, as `profctl start` shows it. */
#pragma once

#include "client/transport/connection.h"

/* Creates it (POST /v1/sessions), prints what begins and, with wait, follows it to its end, with the load that
 * was sent meanwhile; else prints its id. source is what its workers come from, in words. An exit status.
 * ret_recorded: NULL, or (at least REF_TEXT_MAX bytes) gets the id of a session that was waited for and has
 * traces, else
 * "". */
int session_start(struct client *c, const char *source, const json_t *request, bool wait, char *ret_recorded);
