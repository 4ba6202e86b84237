/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference between the clocks of two hosts, from exchanges of messages with four readings each (as NTP, RFC 5905,
 * section 8). Pure: peer_call.c makes the exchanges.
 *
 * Of several exchanges the one with the shortest round trip counts, because a message that waited says little about the
 * clocks. Nothing assumes that both ways take equally long: the offset is wrong by half of the round trip at most.
 */
#pragma once

#include "base/util.h"
#include "base/uuid.h"

/* All monotonic: t0 sent here, t1 received there, t2 sent there, t3 received here. */
struct clock_sample {
    int64_t t0, t1, t2, t3;
    int64_t own_wall_ns;  /* our wall clock less our monotonic clock, at t3 */
    int64_t host_wall_ns; /* theirs less theirs, at t2 */
};

/* What the kernel of a host knows about its wall clock (adjtimex). */
struct clock_quality {
    int64_t maxerror_ns; /* -1 unknown */
    bool unsync;         /* nothing disciplines the clock */
};

struct clock_estimate {
    int64_t offset_ns;      /* the host's monotonic clock minus ours */
    int64_t wall_offset_ns; /* the host's wall clock minus ours */
    int64_t error_ns;       /* of both, at most */
    int64_t rtt_ns;
    struct clock_quality quality;
    char boot_id[UUID_SIZE];  /* of the host: offset_ns holds until it boots */
    int64_t measured_mono_ns; /* our clock; 0: never */
};

/* Fills offsets, error, rtt and measured_mono_ns. -EINVAL where no sample is possible: readings that run backwards or are
 * no times. */
int clock_estimate(const struct clock_sample *samples, size_t n, struct clock_estimate *ret);

/* Of this host. */
struct clock_quality clock_own_quality(void);
