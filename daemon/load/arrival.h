/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives bytes together with the moment when they arrived at this machine, from the kernel (SO_TIMESTAMPNS): how long the
 * process slept, and what it did before it read them, does not count. Where the kernel has no moment, the clock is read.
 *
 * The kernel's moments are of the wall clock: they are converted with the offset to the monotonic clock of the last
 * 100 ms, and never lie outside of what is possible, even where somebody sets the clock.
 */
#pragma once

#include "base/util.h"

/* A zeroed one is ready. */
struct arrival_clock {
    int64_t offset_ns;  /* of the wall clock, to CLOCK_MONOTONIC */
    int64_t checked_ns; /* when it was determined; 0: never */
};

/* Has the kernel note the moments of a socket. */
void arrival_enable(int fd);
/* As recv(). *ret_ns, of CLOCK_MONOTONIC: when the last of these bytes arrived, not before earliest_ns. */
ssize_t arrival_receive(struct arrival_clock *c, int fd, void *bytes, size_t size, int64_t earliest_ns,
                        int64_t *ret_ns);
