/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of peers, [hosts] peers=: the addresses of a name, the nodes of a Slurm job, the hosts of workers.
 *
 * A peer of a source is called with the credentials of [hosts], and its certificate must be of the authority of [hosts]
 * ca_file= (the configuration insists on one): a router or a name server that names somebody else's machine gives it no
 * token. The peers of a name share that name in their certificates; each is called at its own address.
 */
#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/host_list.h"
#include "base/log.h"
#include "daemon/fleet/ask_source.h"
#include "daemon/fleet/url.h"
#include "daemon/peers/internal.h"

/* A name is looked up again after this time. */
#define LOOK_AGE_NS    (30 * NS_PER_S)
#define NODELIST       "SLURM_JOB_NODELIST"
#define SLURM_DIALECT  "slurm"
#define SOURCE_DNS     "dns:"
#define SOURCE_SLURM   "slurm"
#define SOURCE_WORKERS "workers:"

struct peer_source {
    struct peers *peers;
    struct source_ask *ask; /* NULL: not being looked up */
    char *text;
    struct source_config config; /* of dns: */
    int64_t looked_mono_ns;      /* 0 never */
};

/* "dns:profd.ns.svc:9460" has ":9460". */
static int source_port(const char *text)
{
    const char *colon = strrchr(text, ':');
    int port = colon ? port_parse(colon + 1) : 0;
    return port > 0 ? port : PEER_PORT_DEFAULT;
}

/* verify: the name in its certificate; NULL: host. */
static void source_put(struct peers *p, const char *scheme, const char *host, int port, const char *verify)
{
    _cleanup_(freep) char *at = url_host_port(host, port);
    _cleanup_(freep) char *text = xasprintf("%s://%s", scheme, at), *url = NULL;
    const char *reason;

    if (url_normalise(text, &url, &reason) < 0 || url_is_loopback(url))
        return;
    struct peer *peer = peers_put(p, at, url, NULL);
    if (!peer)
        log_warning("more than %d peers: %s is left out", PEERS_MAX, at);
    else if (!peer->config)
        replace_str(&peer->verify, verify);
}

static const char *source_scheme(const struct peers *p)
{
    return p->settings->plain_http ? "http" : "https";
}

/* -- Names ----------------------------------------------------------------------------------------------- */

/* Addresses that the name had: a pod that moved has another one, by which it is the same host. */
static void source_drop_others(const struct peer_source *s, const char *name)
{
    struct peer *peer;

    LIST_FOREACH(peer, &s->peers->peers, link) {
        if (!peer->config && streq(peer->verify, name) && peer->wanted_mono_ns < s->looked_mono_ns)
            peer->wanted_mono_ns = 0;
    }
}

static void source_on_looked(struct fleet *f, const struct problem *problem, void *arg)
{
    struct peer_source *s = arg;
    struct peers *p = s->peers;
    _cleanup_(fleet_freep) struct fleet *found = f;
    const char *reason, *value = s->config.value;
    const char *colon = strrchr(value, ':');
    _cleanup_(freep) char *name = xstrndup(value, (size_t)(colon - value));
    struct url u;

    s->ask = NULL;
    if (!found) {
        /* Without "cannot find workers by dns=...": these are none. */
        const char *why = strstr(problem->what, ": ");
        log_warning("[hosts] peers=%s: %s", s->text, why ? why + 2 : problem->what);
    }
    for (size_t i = 0; found && i < found->n_workers; i++)
        if (url_parse(found->workers[i].url, &u, &reason) == 0)
            source_put(p, source_scheme(p), u.host, u.port, name);
    if (found)
        source_drop_others(s, name);
    peers_on_source(p);
}

/* -- Slurm ----------------------------------------------------------------------------------------------- */

static void source_look_slurm(struct peer_source *s)
{
    const char *nodes = getenv(NODELIST), *reason = "";
    struct host_list list = {0};

    if (!nodes)
        return;
    if (host_list_expand(nodes, strlen(nodes), PEERS_MAX, &list, &reason) < 0)
        log_warning("[hosts] peers=%s: $" NODELIST "%s", s->text, reason);
    for (size_t i = 0; i < list.n; i++)
        source_put(s->peers, source_scheme(s->peers), list.names[i], source_port(s->text), NULL);
    host_list_done(&list);
}

/* -- All ------------------------------------------------------------------------------------------------- */

static bool source_look(struct peer_source *s)
{
    const struct source_question q = {.config = &s->config,
                                      .connect_timeout_ns = s->peers->settings->call_ns,
                                      .timeout_ns = s->peers->settings->call_ns,
                                      .workers_max = PEERS_MAX};

    s->looked_mono_ns = mono_ns();
    if (starts_with(s->text, SOURCE_SLURM))
        source_look_slurm(s);
    if (!starts_with(s->text, SOURCE_DNS))
        return false;
    s->ask = source_ask_start(s->peers->base, s->peers->caller, s->peers->offload, &q, source_on_looked, s);
    return true;
}

unsigned peer_sources_look(struct peers *p)
{
    unsigned n = 0;

    for (size_t i = 0; i < p->n_sources; i++) {
        struct peer_source *s = &p->sources[i];
        if (s->ask)
            n++;
        else if (s->looked_mono_ns == 0 || mono_ns() - s->looked_mono_ns >= LOOK_AGE_NS)
            n += source_look(s);
    }
    return n;
}

void peer_sources_take_fleet(struct peers *p, const struct fleet *fleet)
{
    struct url last = {0}, u;
    const char *reason;

    for (size_t k = 0; k < p->n_sources; k++) {
        const struct peer_source *s = &p->sources[k];
        bool is_slurm = starts_with(s->text, SOURCE_SLURM) && streq(fleet->dialect, SLURM_DIALECT);
        if (!is_slurm && !starts_with(s->text, SOURCE_WORKERS))
            continue;
        *last.host = '\0';
        for (size_t i = 0; i < fleet->n_workers; i++) {
            const struct worker *w = &fleet->workers[i];
            if (w->local || url_parse(w->url, &u, &reason) < 0 || streq(u.host, last.host))
                continue;
            /* Whoever lists workers must not get the token in plain text to a machine of its choice. */
            source_put(p, "https", u.host, source_port(s->text), NULL);
            last = u;
        }
    }
}

void peer_sources_renew(struct peers *p)
{
    const struct hosts_settings *settings = p->settings;

    peer_sources_free(p);
    p->sources = xcalloc(MAX(settings->n_sources, (size_t)1), sizeof(*p->sources));
    p->n_sources = settings->n_sources;
    for (size_t i = 0; i < p->n_sources; i++) {
        const char *text = settings->sources[i];
        p->sources[i] = (struct peer_source){.peers = p, .text = xstrdup(text)};
        if (starts_with(text, SOURCE_DNS))
            p->sources[i].config =
                (struct source_config){.source = &source_dns, .value = xstrdup(text + strlen(SOURCE_DNS))};
    }
}

void peer_sources_free(struct peers *p)
{
    for (size_t i = 0; i < p->n_sources; i++) {
        source_ask_cancel(p->sources[i].ask);
        source_config_done(&p->sources[i].config);
        free(p->sources[i].text);
    }
    free(p->sources);
    p->sources = NULL;
    p->n_sources = 0;
}
