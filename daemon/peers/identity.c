/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peers/identity.h"

#include <errno.h>

const char *identity_expected(const struct peer *peer)
{
    const char *configured = peer->config ? peer->config->host_uuid : NULL;

    if (!peer->config || streq(configured, PEER_UUID_ANY))
        return NULL;
    return configured ? configured : peer->bound_uuid;
}

static bool peer_has_uuid(const struct peer *peer, const char *uuid)
{
    const char *expected = identity_expected(peer);

    return peer->state != PEER_DUPLICATE && streq(expected ? expected : peer->host_uuid, uuid);
}

/* A peer of a source that no source names any more. */
static bool peer_is_gone(const struct peer *peer)
{
    return !peer->config && peer->wanted_mono_ns == 0;
}

enum identity identity_decide(const struct peer_list *peers, const struct peer *peer, const char *uuid,
                              const char *self, struct peer **ret_other)
{
    const char *expected = identity_expected(peer);
    struct peer *other;

    *ret_other = NULL;
    if (expected && !streq(expected, uuid))
        return IDENTITY_CHANGED;
    if (streq(self, uuid))
        return IDENTITY_SELF;
    LIST_FOREACH(other, peers, link) {
        if (other == peer || !peer_has_uuid(other, uuid))
            continue;
        *ret_other = other;
        /* What the operator wrote stands before what a source lists. */
        if (peer_is_gone(other) || (peer->config && !other->config))
            return IDENTITY_EXPECTED;
        return other->state == PEER_OK ? IDENTITY_DUPLICATE : IDENTITY_CLAIMED;
    }
    return IDENTITY_EXPECTED;
}

void identity_explain(enum identity identity, const struct peer *peer, const char *uuid,
                      const struct peer *other, struct problem *ret)
{
    if (identity == IDENTITY_CHANGED) {
        problem_set(ret, -EREMOTEIO, PROBLEM_CONFLICT,
                    "%s (%s) has another catalog than before: %s, expected %s", peer->name, peer->url, uuid,
                    identity_expected(peer));
        problem_remedy(
            ret,
            "If its catalog was restored, emptied or moved, confirm it: set host_uuid=%s in [peer "
            "%s] of profd.conf, then systemctl reload profd. Otherwise somebody else answers there.",
            uuid, peer->name);
        return;
    }
    problem_set(ret, -EREMOTEIO, PROBLEM_CONFLICT,
                "%s (%s) reports the catalog of %s (%s), which does not answer", peer->name, peer->url,
                other->name, other->url);
    if (other->config)
        problem_remedy(
            ret,
            "If they are one host, correct url= of [peer %s] in profd.conf. If it is a copy of that "
            "host, remove the state directory of its profd.",
            other->name);
    else
        problem_remedy(
            ret, "If they are one host, wait until [hosts] peers= lists one of both addresses only. If it is "
                 "a copy of that host, remove the state directory of its profd.");
}
