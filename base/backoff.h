/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delays between attempts that fail: each is twice the one before, up to a maximum, less a random share of it, because
 * clients that lost a server at the same moment must not all return to it at one moment. The caller counts its attempts
 * and owns the timer.
 */
#pragma once

#include <stdint.h>

struct backoff {
    int64_t first_ns, max_ns; /* both greater than 0 */
    unsigned random_percent;  /* of a delay: by how much it may be shorter; at most 100 */
};

/* The delay after the given number of failures in a row; 0 counts as 1. Pure: random is of backoff_random(). */
int64_t backoff_ns(const struct backoff *b, unsigned failures, uint32_t random);
/* Random bits. Without random numbers of the kernel, those of the clock. */
uint32_t backoff_random(void);
