/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command run to its end: as a transient unit of systemd, with the rights of whoever runs profctl, or as a
 * plain child. Its output is profctl's, its input is empty.
 *
 * Ctrl-C and SIGTERM, which the caller has blocked, interrupt it in order (SIGINT, to its first process
 * alone, which may have something to finish); a second one kills all of it.
 */
#pragma once

#include "client/local/systemd.h"
#include "client/transport/connection.h"

struct run_order {
    const char *unit;                      /* with its suffix */
    char **argv;                           /* the first is an absolute path */
    const struct option_list *environment; /* NAME or NAME=VALUE, beside what every unit gets */
};

/* Where *ret_status is set, the command ran: its exit status, 128 + N where signal N ended it. */
int run_in_unit(struct client *c, struct systemd *systemd, const struct run_order *o, int *ret_status,
                struct problem *p);
int run_as_child(struct client *c, const struct run_order *o, int *ret_status, struct problem *p);
