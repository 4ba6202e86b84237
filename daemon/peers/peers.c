/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peers/peers.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/catalog/catalog.h"
#include "daemon/catalog/records.h"
#include "daemon/fleet/url.h"
#include "daemon/peers/identity.h"
#include "daemon/peers/internal.h"
#include <errno.h>

/* Hellos in flight: each is a TLS handshake at first. */
#define HELLOS_MAX           64
#define UNREACHABLE_PATIENCE 3
/* A peer of a source is forgotten when nothing has named it for this long. */
#define PEER_FORGOTTEN_NS (600 * NS_PER_S)

struct peers_refreshing {
    LIST_ENTRY(peers_refreshing) link;
    void (*done)(void *arg);
    void *arg;
};

const char *peer_state_name(enum peer_state s)
{
    static const char *const names[_PEER_STATE_MAX] = {
        [PEER_UNKNOWN] = "unknown",     [PEER_OK] = "ok",           [PEER_UNREACHABLE] = "unreachable",
        [PEER_REFUSED] = "refused",     [PEER_INVALID] = "invalid", [PEER_SELF] = "self",
        [PEER_DUPLICATE] = "duplicate",
    };
    return names[s];
}

/* -- The list ------------------------------------------------------------------------------------------ */

static void peer_free(struct peer *peer)
{
    LIST_REMOVE(peer, link);
    peer->peers->n_peers--;
    peer_query_cancel(peer->hello_query);
    peer_hello_done(&peer->hello);
    problem_done(&peer->problem);
    problem_done(&peer->silence);
    free(peer->host_uuid);
    free(peer->bound_uuid);
    free(peer->name);
    free(peer->verify);
    free(peer->url);
    free(peer);
}

static struct peer *peers_at(const struct peers *p, const char *url)
{
    struct peer *peer;

    LIST_FOREACH(peer, &p->peers, link) {
        if (streq(peer->url, url))
            return peer;
    }
    return NULL;
}

/* The configured ones come first, in the order of the file. */
static void peers_insert(struct peers *p, struct peer *peer)
{
    struct peer *last = NULL, *other;

    LIST_FOREACH(other, &p->peers, link) {
        if (other->config || !peer->config)
            last = other;
    }
    if (last)
        LIST_INSERT_AFTER(last, peer, link);
    else
        LIST_INSERT_HEAD(&p->peers, peer, link);
    p->n_peers++;
}

struct peer *peers_put(struct peers *p, const char *name, const char *url, const struct peer_config *config)
{
    struct peer *peer = peers_at(p, url);

    if (!peer && p->n_peers >= PEERS_MAX)
        return NULL;
    if (!peer) {
        peer = xcalloc(1, sizeof(*peer));
        *peer = (struct peer){.peers = p, .url = xstrdup(url), .config = config};
        peers_insert(p, peer);
    }
    /* A source never takes the credentials from what the operator wrote. */
    if (config || !peer->config) {
        peer->config = config;
        replace_str(&peer->name, name);
    }
    if (config) {
        free(peer->bound_uuid);
        peer->bound_uuid = catalog_host_at(p->catalog, url);
    }
    peer->wanted_mono_ns = mono_ns();
    return peer;
}

const struct peer *peers_find(const struct peers *p, const char *host_uuid)
{
    const struct peer *peer;

    LIST_FOREACH(peer, &p->peers, link) {
        if (host_uuid && streq(peer->host_uuid, host_uuid))
            return peer;
    }
    return NULL;
}

/* Nobody has been asked there yet, and nothing is known of it that contradicts. */
static bool peer_may_be(const struct peer *peer, const char *host_uuid)
{
    const char *expected = identity_expected(peer);

    return !peer->host_uuid && (peer->state == PEER_UNKNOWN || peer->state == PEER_UNREACHABLE) &&
           (!expected || streq(expected, host_uuid));
}

const struct peer *peers_find_at(struct peers *p, const char *host_uuid, const char *url)
{
    const struct peer *peer = peers_find(p, host_uuid);
    const char *name = url ? strstr(url, "://") : NULL;

    if (peer || !name)
        return peer;
    peer = peers_at(p, url);
    /* One of a source, which has not named it since the restart; tokens leave encrypted only. */
    if (!peer && p->settings->n_sources > 0 && (starts_with(url, "https://") || p->settings->plain_http))
        peer = peers_put(p, name + strlen("://"), url, NULL);
    return peer && peer_may_be(peer, host_uuid) ? peer : NULL;
}

const struct peer_list *peers_list(const struct peers *p)
{
    return &p->peers;
}

struct peers_self peers_self(const struct peers *p)
{
    return (struct peers_self){catalog_uuid(p->catalog), catalog_host(p->catalog), p->is_system};
}

void peers_metrics(const struct peers *p, struct peers_metrics *ret)
{
    const struct peer *peer;

    *ret = (struct peers_metrics){.calls = p->n_calls, .failures = p->n_failures};
    LIST_FOREACH(peer, &p->peers, link) {
        const int64_t offset = peer->clock.measured_mono_ns > 0 ? peer->clock.wall_offset_ns : 0;
        ret->states[peer->state]++;
        ret->clock_offset_ns = MAX(ret->clock_offset_ns, offset < 0 ? -offset : offset);
    }
}

bool peers_are_configured(const struct peers *p)
{
    return p->settings->n_peers > 0 || p->settings->n_sources > 0;
}

static void round_continue(struct peers *p);

/* Without name= the catalog keeps the name that its host had. */
static void peers_name_host(struct peers *p)
{
    const char *name = p->settings->name;
    int r = name && !streq(name, catalog_host(p->catalog)) ? catalog_set_host(p->catalog, name) : 0;

    if (r < 0)
        log_warning("[hosts] name=%s cannot be stored: %s", name, strerror(-r));
}

void peers_renew(struct peers *p)
{
    const struct hosts_settings *s = p->settings;
    struct peer *peer, *next;

    peers_name_host(p);
    if (p->n_looking > 0) {
        /* What is being looked up is of the settings before. */
        p->n_looking = 0;
        round_continue(p);
    }
    peer_sources_renew(p);
    LIST_FOREACH(peer, &p->peers, link) {
        /* Its section is gone with the settings before; a name of a later one may have another URL. */
        peer->wanted_mono_ns = peer->config ? 0 : peer->wanted_mono_ns;
        peer->config = NULL;
        peer->asked_mono_ns = 0;
    }
    for (size_t i = 0; i < s->n_peers; i++)
        if (s->peers[i].url)
            peers_put(p, s->peers[i].name, s->peers[i].url, &s->peers[i]);
    for (peer = LIST_FIRST(&p->peers); peer; peer = next) {
        next = LIST_NEXT(peer, link);
        if (!peer->config && peer->wanted_mono_ns == 0 && !peer->hello_query)
            peer_free(peer);
    }
}

static void peers_forget(struct peers *p)
{
    const int64_t until = mono_ns() - PEER_FORGOTTEN_NS;
    struct peer *peer, *next;

    for (peer = LIST_FIRST(&p->peers); peer; peer = next) {
        next = LIST_NEXT(peer, link);
        if (!peer->config && (peer->wanted_mono_ns == 0 || peer->wanted_mono_ns < until) &&
            !peer->hello_query)
            peer_free(peer);
    }
}

/* -- Rounds of hellos ---------------------------------------------------------------------------------- */

static bool peer_is_due(const struct peers *p, const struct peer *peer)
{
    if (peer->hello_query || peer->asked_mono_ns >= p->round_begun_ns)
        return false;
    /* One that does not answer costs each round the timeout of a call: it is asked less often. */
    const int64_t max_age_ns =
        peer->state == PEER_UNREACHABLE ? p->max_age_ns * UNREACHABLE_PATIENCE : p->max_age_ns;
    return peer->asked_mono_ns == 0 || p->round_begun_ns - peer->asked_mono_ns >= max_age_ns;
}

/* As many hellos as may be in flight; the end of the round when all are answered. */
static void round_continue(struct peers *p)
{
    struct peer *peer;

    LIST_FOREACH(peer, &p->peers, link) {
        if (p->n_hellos >= HELLOS_MAX)
            return;
        if (!peer_is_due(p, peer))
            continue;
        p->n_hellos++;
        peer_say_hello(peer);
    }
    if (p->n_hellos == 0)
        event_active(p->round_over, EV_TIMEOUT, 0);
}

void peers_on_source(struct peers *p)
{
    if (--p->n_looking == 0)
        round_continue(p);
}

void peers_on_hello(struct peers *p)
{
    p->n_hellos--;
    round_continue(p);
}

static void peers_on_round_over(evutil_socket_t fd, short what, void *arg)
{
    struct peers *p = arg;
    struct peers_refreshing_list over = p->refreshing;
    struct peers_refreshing *r;

    p->in_round = false;
    /* What is asked from within done() is another round. */
    LIST_INIT(&p->refreshing);
    if (LIST_FIRST(&over))
        LIST_FIRST(&over)->link.le_prev = &LIST_FIRST(&over);
    while ((r = LIST_FIRST(&over))) {
        LIST_REMOVE(r, link);
        r->done(r->arg);
        free(r);
    }
}

struct peers_refreshing *peers_refresh(struct peers *p, int64_t max_age_ns, void (*done)(void *arg),
                                       void *arg)
{
    struct peers_refreshing *r = xcalloc(1, sizeof(*r));

    *r = (struct peers_refreshing){.done = done, .arg = arg};
    LIST_INSERT_HEAD(&p->refreshing, r, link);
    if (p->in_round)
        return r;
    p->in_round = true;
    p->round_begun_ns = mono_ns();
    p->max_age_ns = max_age_ns;
    peers_forget(p);
    p->n_looking = peer_sources_look(p);
    if (p->n_looking == 0)
        round_continue(p);
    return r;
}

void peers_refresh_cancel(struct peers_refreshing *r)
{
    if (!r)
        return;
    LIST_REMOVE(r, link);
    free(r);
}

/* -- Life ---------------------------------------------------------------------------------------------- */

int peers_new(struct event_base *base, struct caller *caller, struct offload *offload,
              struct catalog *catalog, bool is_system, const struct hosts_settings *settings,
              struct peers **ret)
{
    struct peers *p = xcalloc(1, sizeof(*p));

    *p = (struct peers){.base = base,
                        .caller = caller,
                        .offload = offload,
                        .catalog = catalog,
                        .is_system = is_system,
                        .settings = settings};
    p->round_over = evtimer_new(base, peers_on_round_over, p);
    if (!p->round_over) {
        free(p);
        return -ENOMEM;
    }
    peers_renew(p);
    *ret = p;
    return 0;
}

struct peers *peers_free(struct peers *p)
{
    struct peers_refreshing *r;
    struct peer *peer;

    if (!p)
        return NULL;
    while ((r = LIST_FIRST(&p->refreshing)))
        peers_refresh_cancel(r);
    while (LIST_FIRST(&p->measurings))
        clock_measuring_cancel(LIST_FIRST(&p->measurings));
    peer_sources_free(p);
    while ((peer = LIST_FIRST(&p->peers)))
        peer_free(peer);
    while (LIST_FIRST(&p->queries))
        peer_query_cancel(LIST_FIRST(&p->queries));
    event_free(p->round_over);
    free(p);
    return NULL;
}
