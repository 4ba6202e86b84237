/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of a router's list, in all the ways that routers write them, into workers of a fleet.
 *
 * Pure. An entry that is no worker, or whose URL cannot be called, becomes a note of the fleet; nothing is
 * dropped in silence.
 */
#pragma once

#include "daemon/fleet/worker.h"

/*
 * entries is an array of URLs, an array of objects with "url", or an object keyed by URL. -E2BIG where there
 * are more than max, -EPROTO for anything else.
 */
int workers_from_json(struct fleet *f, const json_t *entries, size_t max);
/* One worker by its URL as a person or a router wrote it. -EINVAL with a few words in *reason. */
int fleet_add_url(struct fleet *f, const char *url, struct worker **ret, const char **reason);
