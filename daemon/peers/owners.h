/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On which host a worker runs. Its profd owns it: it finds the process and the directory, and no other profd records it.
 *
 * Peers are asked about workers whose process is not seen here (POST /v1/host/workers). Which ones, in this order: those on
 * the worker's node; those whose connection, section or URL has the worker's address; those that report the address;
 * all of them. So no peer's own words win over an address that was connected to. Where two peers claim a worker,
 * nobody owns it, unless both are profds of one machine (one boot id and one address that was connected to): then its
 * service does.
 *
 * An owner's answer sets location, process, sizes, group and note of its workers, and what the engine is where that could
 * not be asked from here. It never adds a worker, or changes a URL or role.
 */
#pragma once

#include "daemon/fleet/owners.h"
#include "daemon/peers/peers.h"

/* For fleet_finder_set_owners(); its arg is the struct peers. */
extern const struct owner_ops peers_owners;

/* -- Pure ---------------------------------------------------------------------------------------------- */

/* Why a peer is asked about a worker: an address that was connected to counts before what a peer reports of itself. */
enum owner_rule { OWNER_RULE_CONNECTED, OWNER_RULE_NODE, OWNER_RULE_REPORTED, OWNER_RULE_ANY };

/* The numbers of the peers that are asked about the worker, in ret (room for n). */
enum owner_rule owners_candidates(const struct worker *w, const struct peer *const *peers, size_t n,
                                  size_t *ret, size_t *ret_n);

/* The peer at the worker's address or node that does not answer, or refuses to; NULL: none. */
const struct peer *owners_find_silent(const struct worker *w, const struct peer_list *peers);

/* Who says that a worker is its. */
struct owner_claimant {
    char boot_id[UUID_SIZE];
    bool is_system;
    struct in6_addr address; /* that was connected to; :: unknown */
};
#define OWNER_NONE     (-1)
#define OWNER_CONFLICT (-2)
/* Of two claims, the number of the winner: first, second or OWNER_CONFLICT. */
int owner_decide(const struct owner_claimant *claimants, int first, int second);

/* The workers of an answer; those that are not well-formed or not of that host are left out. -EPROTO. */
int owners_parse(const json_t *body, struct fleet *ret);
/* What an owner's answer may set. Empties theirs of what it takes. */
void owner_apply(struct worker *w, struct worker *theirs);
