/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who knows on which hosts workers run: installed by the module of peers, called by discovery for workers that are not of
 * this host. Without it, a discovery knows its own host only.
 */
#pragma once

#include "daemon/fleet/worker.h"

struct owner_ops {
    /* Fills host, host_uuid, peer, held_by and what the hosts know of the fleet's workers. done() comes later, once.
     * The fleet stays in place until then. NULL: there is nobody to ask, and done() does not come. */
    void *(*describe)(struct fleet *fleet, void (*done)(void *done_arg), void *done_arg, void *arg);
    /* Without done(). */
    void (*cancel)(void *description, void *arg);
    /* Whether there are other hosts. */
    bool (*has_others)(const void *arg);
    /* Adds ranks without a server of groups of the fleet's workers (process_ranks.h) on other hosts. As describe(). */
    void *(*find_ranks)(struct fleet *fleet, void (*done)(void *done_arg), void *done_arg, void *arg);
    void (*cancel_ranks)(void *search, void *arg);
};
