/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pseudo-random numbers that are the same for the same seed on every machine: for schedules, prompts and the
 * bootstrap. Not for secrets. Pure.
 */
#pragma once

#include <stdint.h>

struct random {
    uint64_t state;
};

/* Different streams of one seed are independent. */
void random_init(struct random *r, uint64_t seed, uint64_t stream);
uint64_t random_next(struct random *r);
/* 0 to n - 1; n > 0 and far below 2^64, where the bias of a remainder is too small to be seen. */
uint64_t random_below(struct random *r, uint64_t n);
double random_exponential(struct random *r);         /* mean 1 */
double random_gamma(struct random *r, double shape); /* scale 1, mean `shape` > 0 */
