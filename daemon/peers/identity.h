/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the profd that answers at a peer's URL is the one that is expected there. Pure.
 *
 * A profd is known by the UUID of its catalog, which every peer of it can read: a UUID proves nothing. What proves it is
 * the URL, whose certificate was checked. So the first answer at the url= of a [peer NAME] binds its UUID to it (also
 * across restarts, host_row of the catalog), and a UUID that is bound belongs to nobody else. A host whose catalog was
 * restored or emptied is refused until its [peer NAME] host_uuid= names the new one.
 *
 * URLs of sources are not bound: addresses of pods and of job nodes change hands. Such a peer never gets the UUID of a
 * configured one, and that of another one of a source only when no source names that one any more.
 */
#pragma once

#include "daemon/peers/peers.h"

enum identity {
    IDENTITY_EXPECTED,
    IDENTITY_SELF,      /* this very profd */
    IDENTITY_DUPLICATE, /* another address of a peer that answers */
    IDENTITY_CHANGED,   /* not the catalog that is bound to the URL */
    IDENTITY_CLAIMED,   /* the catalog of another peer, which does not answer */
};

/* self: the UUID of this profd. ret_other: the peer that has or had the UUID; NULL: none. */
enum identity identity_decide(const struct peer_list *peers, const struct peer *peer, const char *uuid,
                              const char *self, struct peer **ret_other);
/* Why it is refused, with the remedy. */
void identity_explain(enum identity identity, const struct peer *peer, const char *uuid,
                      const struct peer *other, struct problem *ret);
/* The UUID that must answer at the peer's URL; NULL: any. */
const char *identity_expected(const struct peer *peer);
