/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

#include "base/clock.h"
#include "base/util.h"
#include <sys/random.h>

int64_t backoff_ns(const struct backoff *b, unsigned failures, uint32_t random)
{
    int64_t delay = MIN(b->first_ns, b->max_ns);

    for (unsigned i = 1; i < failures && delay < b->max_ns; i++)
        delay = delay > b->max_ns / 2 ? b->max_ns : delay * 2;
    /* All bits set is the complete delay. */
    return delay -
           (int64_t)((double)delay * b->random_percent / 100 * (UINT32_MAX - random) / (double)UINT32_MAX);
}

uint32_t backoff_random(void)
{
    uint32_t random;

    return getrandom(&random, sizeof(random), GRND_NONBLOCK) == sizeof(random) ? random : (uint32_t)mono_ns();
}
