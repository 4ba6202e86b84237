/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pager between stdout and the terminal: $PROFCTL_PAGER, else $PAGER, else less, which ends by itself
 * where everything fits on the screen. "cat" or an empty value: none.
 *
 * Never for what is drawn again or follows events, and only where stdout is a terminal.
 */
#pragma once

#include "client/cli/screen.h"

#include <sys/types.h>

struct pager {
    pid_t pid; /* 0: none */
};

/* From here on stdout leads to the pager. Does nothing where there is none, or s is no terminal. Ctrl-C is
 * the pager's from here on. */
void pager_start(struct pager *p, struct screen *s);
/* Closes stdout and waits until the user has left the pager. The exit status of a pager that could not be
 * run, else 0. */
int pager_wait(struct pager *p);
