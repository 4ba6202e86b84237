/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profd for the time of one call, where none is running: `profd --transient` on a socket of its own beside
 * the one where the user's profd would have been, with the user's catalog. It listens nowhere else, and ends
 * when profctl does, however that ends: its stdin is a pipe that nobody else holds.
 */
#pragma once

#include "client/verb.h"

struct transient;

/* socket: where there was no profd. -ENOPKG where no program is installed, -EALREADY where there is one now.
 */
int transient_start(struct client *c, const char *socket, struct transient **ret, struct problem *p);
/* Lets it end, and waits for that. */
struct transient *transient_free(struct transient *t);
const char *transient_socket(const struct transient *t);

DEFINE_CLEANUP(struct transient *, transient_free)
