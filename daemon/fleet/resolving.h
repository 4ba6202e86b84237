/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many names are being resolved, and for whom: each takes a thread of libcurl's, also when nobody waits
 * for it any more. A fleet whose names lead nowhere uses up its own share, and leaves the others theirs.
 * Pure: time is given.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Both are well below TasksMax= of the unit. */
#define RESOLVING_MAX      256
#define RESOLVING_EACH_MAX 64

/* A zeroed struct resolves nothing. */
struct resolving {
    struct resolving_slot {
        uint64_t origin; /* 0: free */
        int64_t left_until_ns;
    } slots[RESOLVING_MAX];
};

/* Of the text that names a fleet; never 0. */
uint64_t resolving_origin(const char *text);
/* A slot, or -EAGAIN while the origin or all together have too many. */
int resolving_begin(struct resolving *r, uint64_t origin, int64_t now_ns);
void resolving_end(struct resolving *r, int slot);
/* Nobody waits for its answer; its thread may go on for as long as a resolver takes to give up. */
void resolving_leave(struct resolving *r, int slot, int64_t now_ns);
/* When the first of those that were left is given up; INT64_MAX: there are none. */
int64_t resolving_next_ns(const struct resolving *r);
