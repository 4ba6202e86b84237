/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pure: which peers are asked about a worker, whose claim wins, and what an owner's answer may change.
 */
#include "base/address.h"
#include "base/alloc.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/url.h"
#include "daemon/peers/owners.h"
#include <errno.h>
#include <strings.h>

/* -- Whom to ask ---------------------------------------------------------------------------------------- */

static bool peer_has_address(const struct peer *peer, const struct in6_addr *address)
{
    const struct peer_config *c = peer->config;

    if (IN6_ARE_ADDR_EQUAL(&peer->address, address))
        return true;
    for (size_t i = 0; c && i < c->n_addresses; i++)
        if (IN6_ARE_ADDR_EQUAL(&c->addresses[i], address))
            return true;
    return false;
}

static bool peer_reports_address(const struct peer *peer, const struct in6_addr *address)
{
    for (size_t i = 0; i < peer->hello.n_addresses; i++)
        if (IN6_ARE_ADDR_EQUAL(&peer->hello.addresses[i], address))
            return true;
    return false;
}

static bool peer_has_host(const struct peer *peer, const char *host)
{
    const char *reason;
    struct url u;

    return url_parse(peer->url, &u, &reason) == 0 && strcasecmp(u.host, host) == 0;
}

static bool peer_matches(const struct peer *peer, enum owner_rule rule, const struct worker *w,
                         const char *host, const struct in6_addr *address)
{
    switch (rule) {
    case OWNER_RULE_NODE:
        return w->node && (streq(peer->hello.node, w->node) || streq(peer->hello.host, w->node));
    case OWNER_RULE_CONNECTED:
        return peer_has_host(peer, host) || (address && peer_has_address(peer, address));
    case OWNER_RULE_REPORTED:
        return address ? peer_reports_address(peer, address)
                       : peer->hello.host && strcasecmp(peer->hello.host, host) == 0;
    default:
        return true;
    }
}

enum owner_rule owners_candidates(const struct worker *w, const struct peer *const *peers, size_t n,
                                  size_t *ret, size_t *ret_n)
{
    struct in6_addr ip;
    const char *reason;
    struct url u = {0};
    enum owner_rule rule = OWNER_RULE_CONNECTED;
    const bool known = url_parse(w->url, &u, &reason) == 0;
    const struct in6_addr *address = known && address_of_host(u.host, &ip) ? &ip : NULL;

    *ret_n = 0;
    for (; rule <= OWNER_RULE_ANY && *ret_n == 0; rule++)
        for (size_t i = 0; i < n; i++)
            if (peer_matches(peers[i], rule, w, u.host, address))
                ret[(*ret_n)++] = i;
    return (enum owner_rule)(rule - 1);
}

const struct peer *owners_find_silent(const struct worker *w, const struct peer_list *peers)
{
    struct in6_addr ip;
    const char *reason;
    struct url u = {0};
    const struct peer *peer;

    if (url_parse(w->url, &u, &reason) < 0)
        return NULL;
    const struct in6_addr *address = address_of_host(u.host, &ip) ? &ip : NULL;
    LIST_FOREACH(peer, peers, link) {
        bool is_silent =
            peer->state == PEER_UNREACHABLE || peer->state == PEER_REFUSED || peer->state == PEER_INVALID;
        if (is_silent && (peer_matches(peer, OWNER_RULE_CONNECTED, w, u.host, address) ||
                          peer_matches(peer, OWNER_RULE_NODE, w, u.host, address)))
            return peer;
    }
    return NULL;
}

/* -- Answers --------------------------------------------------------------------------------------------- */

int owner_decide(const struct owner_claimant *claimants, int first, int second)
{
    if (second == OWNER_NONE)
        return first;
    const struct owner_claimant *a = &claimants[first], *b = &claimants[second];
    /* Anybody can report the boot id of another host. The address is that of a connection whose certificate was checked. */
    bool same_machine = *a->boot_id && streq(a->boot_id, b->boot_id) &&
                        IN6_ARE_ADDR_EQUAL(&a->address, &b->address) && !address_is_wildcard(&a->address);
    if (!same_machine || a->is_system == b->is_system)
        return OWNER_CONFLICT;
    return a->is_system ? first : second;
}

int owners_parse(const json_t *body, struct fleet *ret)
{
    const json_t *list = json_object_get(body, "workers");
    json_t *one;
    size_t i;

    if (!json_is_array(list))
        return -EPROTO;
    json_array_foreach(list, i, one) {
        const json_t *holder = json_object_get(one, "holder"), *traces = json_object_get(one, "traces");
        struct worker w;
        if (worker_from_json(one, &w) < 0)
            continue;
        if (!w.local) {
            worker_done(&w);
            continue;
        }
        w.location.blocked_here = json_get_bool(traces, "blocked", false);
        /* Of a worker that its host knows, nobody else is told who holds it. */
        replace_str(&w.held_by, NULL);
        const char *session = json_get_str(holder, "session"), *host = json_get_str(holder, "host");
        /* The host knows the session by the beginning of its UUID. */
        if (session && host)
            w.held_by =
                xasprintf("session %.*s of %.64s", uuid_is(session) ? UUID_PREFIX_LENGTH : 40, session, host);
        *fleet_add_worker(ret) = w;
    }
    return 0;
}

static void text_take(char **to, char **from)
{
    free(*to);
    *to = TAKE_PTR(*from);
}

/* What the worker is, where it could not be asked from here: the network of pods may end at their node. */
static void owner_apply_identity(struct worker *w, struct worker *theirs)
{
    const bool unknown = w->engine == ENGINE_UNKNOWN && theirs->engine != ENGINE_UNKNOWN;

    if (unknown) {
        w->engine = theirs->engine;
        w->backend = theirs->backend;
        w->speculative = theirs->speculative;
        w->sleeping = theirs->sleeping;
        text_take(&w->version, &theirs->version);
        if (!w->model)
            text_take(&w->model, &theirs->model);
        if (w->health == HEALTH_UNKNOWN)
            w->health = theirs->health;
    }
    /* Its process may show that it cannot be recorded although it answers. */
    if (unknown || (theirs->engine == w->engine && w->profilable && !theirs->profilable)) {
        w->profilable = theirs->profilable;
        text_take(&w->reason, &theirs->reason);
        text_take(&w->remedy, &theirs->remedy);
    }
}

void owner_apply(struct worker *w, struct worker *theirs)
{
    char *note = TAKE_PTR(theirs->note);
    struct trace_location location = w->location;
    struct profiler_setup setup = w->setup;
    struct shared_dir shared = w->shared;

    owner_apply_identity(w, theirs);
    w->location = theirs->location;
    w->setup = theirs->setup;
    theirs->location = location;
    theirs->setup = setup;
    w->shared = theirs->shared;
    theirs->shared = shared;
    w->sizes = theirs->sizes;
    w->pid = theirs->pid;
    w->uid = theirs->uid;
    w->local = false;
    text_take(&w->held_by, &theirs->held_by);
    if (theirs->group)
        text_take(&w->group, &theirs->group);
    if (note)
        worker_add_note(w, "%s", note);
    free(note);
}
