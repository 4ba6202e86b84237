/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a list of workers before they are called: URLs that only make sense on the router's host
 * are rewritten, entries of one server merged, those that HTTP cannot reach marked. Pure.
 */
#pragma once

#include "daemon/fleet/worker.h"

/* router_is_here: the router runs on this host, so its loopback is ours. Order stays as listed. */
void listing_settle(struct fleet *f, bool router_is_here);
