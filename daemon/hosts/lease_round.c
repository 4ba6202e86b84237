/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/hosts/lease_round.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/util.h"

/* Between half of it and all of it: the latest first one is before the earliest other. The longest is what a session in a
 * queue loses after the one that it waits for was cancelled. */
static const struct backoff round_of_first = {200 * NS_PER_MS, 10 * NS_PER_S, .random_percent = 50},
                            round_of_others = {2 * NS_PER_S, 10 * NS_PER_S, .random_percent = 50};

int64_t lease_round_next(struct lease_round *round, const char *own, const char *holder, bool queue,
                         uint32_t random)
{
    bool first = own && holder && strcmp(own, holder) < 0;

    round->tries++;
    if (!queue && round->tries >= LEASE_ROUNDS_MAX)
        return -1;
    return backoff_ns(first ? &round_of_first : &round_of_others, round->tries, random);
}
