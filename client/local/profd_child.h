/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profd that profctl starts: its process, until it has said on stdout that it serves, and what it said on
 * stderr where it never does. What becomes of it then is for whoever started it: transient.h, own.h.
 */
#pragma once

#include "base/problem.h"
#include <sys/types.h>

struct profd_order {
    const char *program;
    const char *purpose; /* "one for this call", for the error */
    char *const *argv;
    int stdin_fd;      /* borrowed */
    bool is_to_stay;   /* apart from profctl's terminal and directory */
    unsigned patience; /* in seconds */
};

/* Forks, waits, and says what went wrong. Where that is the time, the process still runs: *ret is set. */
int profd_child_start(const struct profd_order *o, pid_t *ret, struct problem *p);
