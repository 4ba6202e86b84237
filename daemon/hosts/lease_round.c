/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/hosts/lease_round.h"

#include "base/clock.h"
#include "base/util.h"

#define ROUND_FIRST_NS  (100 * NS_PER_MS)
#define ROUND_SECOND_NS NS_PER_S
#define ROUND_MAX_NS    (30 * NS_PER_S)

int64_t lease_round_next(struct lease_round *round, const char *own, const char *holder, bool queue,
                         uint32_t random)
{
    bool first = own && holder && strcmp(own, holder) < 0;
    int64_t pause = first ? ROUND_FIRST_NS : ROUND_SECOND_NS;

    round->tries++;
    if (!queue && round->tries >= LEASE_ROUNDS_MAX)
        return -1;
    for (unsigned i = 1; i < round->tries && pause < ROUND_MAX_NS; i++)
        pause *= 2;
    pause = MIN(pause, ROUND_MAX_NS);
    return pause + (int64_t)((double)pause * random / UINT32_MAX);
}
