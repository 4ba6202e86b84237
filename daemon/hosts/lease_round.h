/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a coordinator that was refused a lease asks again. Two coordinators that want the same workers each give back
 * what they got; the one whose session has the smaller UUID asks first, so that one of them gets all of them. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Rounds of a session that does not wait in a queue. */
#define LEASE_ROUNDS_MAX 3

struct lease_round {
    unsigned tries; /* rounds so far, each of which asked all hosts */
};

/* The pause before the next round in ns, negative: give up. holder: the UUID of the session that holds the worker,
 * NULL where it is not known; random: 32 random bits. */
int64_t lease_round_next(struct lease_round *round, const char *own, const char *holder, bool queue,
                         uint32_t random);
