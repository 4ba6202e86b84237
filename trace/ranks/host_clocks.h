/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of one instance on several hosts, whose clocks differ. profd measures the difference before each recording, with
 * an uncertainty; collectives that the hosts share are more exact. So a host is aligned by them where they agree with
 * what was measured, else by the measured difference; people are told which, and how certain it is. Ranks of one host
 * have one clock and are moved together.
 */
#pragma once

#include "trace/ranks/rank_set.h"

/* Whether two ranks are on different hosts; of files nothing is known. */
bool host_clocks_differ(const struct set_rank *a, const struct set_rank *b);
/* Moves the hosts of each instance, and adds notes. by_collectives: false where only measured differences are wanted.
 * After shift_ns has the wall clock, corrected by the differences that are known. 0 or -ENOMEM. */
int host_clocks_align(struct rank_set *set, bool by_collectives);
