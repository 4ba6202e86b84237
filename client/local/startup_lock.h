/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is to start a profd: of those that would have the user's catalog there is one at a time. A
 * lock on a file in the directory of its socket, which ends with the process at the latest.
 */
#pragma once

#include "client/verb.h"

/* Makes the directory. The descriptor is to be closed when the turn is over. Waits for 30 s at most. */
int turn_take(struct client *c, const char *directory, int *ret_fd, struct problem *p);
/* The directory of a socket; the caller frees it. */
char *turn_directory(const char *socket);
