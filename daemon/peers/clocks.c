/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peers/clocks.h"

#include "base/clock.h"
#include <errno.h>
#include <sys/timex.h>

/* Readings of a host are bounded before they are added: 73 years of nanoseconds. */
#define READING_MAX (INT64_C(1) << 61)

static bool reading_is_time(int64_t t)
{
    return t >= 0 && t < READING_MAX;
}

static bool wall_is_time(int64_t t)
{
    return t > -READING_MAX && t < READING_MAX;
}

/* The time on the way; -1 where the readings contradict each other. */
static int64_t sample_rtt(const struct clock_sample *s)
{
    if (!reading_is_time(s->t0) || !reading_is_time(s->t1) || !reading_is_time(s->t2) ||
        !reading_is_time(s->t3) || !wall_is_time(s->own_wall_ns) || !wall_is_time(s->host_wall_ns))
        return -1;
    int64_t here = s->t3 - s->t0, there = s->t2 - s->t1;
    return here < 0 || there < 0 ? -1 : here - there;
}

int clock_estimate(const struct clock_sample *samples, size_t n, struct clock_estimate *ret)
{
    const struct clock_sample *best = NULL;
    int64_t best_rtt = -1;

    for (size_t i = 0; i < n; i++) {
        int64_t rtt = sample_rtt(&samples[i]);
        if (rtt >= 0 && (!best || rtt < best_rtt)) {
            best = &samples[i];
            best_rtt = rtt;
        }
    }
    if (!best)
        return -EINVAL;
    ret->offset_ns = ((best->t1 - best->t0) + (best->t2 - best->t3)) / 2;
    ret->wall_offset_ns = best->host_wall_ns - best->own_wall_ns + ret->offset_ns;
    ret->rtt_ns = best_rtt;
    ret->error_ns = (best_rtt + 1) / 2;
    ret->measured_mono_ns = best->t3;
    return 0;
}

struct clock_quality clock_own_quality(void)
{
    struct timex now = {0};

    if (adjtimex(&now) < 0)
        return (struct clock_quality){.maxerror_ns = -1};
    return (struct clock_quality){.maxerror_ns = now.maxerror * NS_PER_US, .unsync = now.status & STA_UNSYNC};
}
