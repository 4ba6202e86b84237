/* SPDX-License-Identifier: Apache-2.0 */
/* Starts profd-ingest: its descriptors, its arguments, its limits (proto/ingest.h). */
#pragma once

#include "base/util.h"
#include "proto/ingest.h"

struct child_order {
    int fds[INGEST_FD_GROUP + 1]; /* by the number that each gets; -1 where it gets none */
    int64_t source_size;          /* for the time that it may take */
    int64_t size_max;
    int64_t memory_max; /* 0: its own, and no limit of the next */
    int64_t columns_room;
    bool background;
};

/* The child is known by its pidfd alone. The descriptors stay the caller's, under numbers that may differ. */
int child_start(const char *program, struct child_order *order, int *ret_pid_fd);
void child_order_done(struct child_order *order);
