/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peers/owners.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/process_net.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/url.h"
#include "daemon/peers/internal.h"
#include "daemon/peers/rank_owners.h"

/* A hello that is this recent is not repeated for a discovery. */
#define HELLO_AGE_NS (10 * NS_PER_S)
/* A peer looks at its processes and asks its workers what they are. */
#define WORKERS_TIMEOUT_NS (15 * NS_PER_S)
/* Peers and workers that a fleet's notes name one by one. */
#define NOTES_MAX 3
/* Pairs of a worker and a peer, for workers that any peer may have: 20 MB of requests. */
#define ANY_QUESTIONS_MAX 500000

/* -- Asking ---------------------------------------------------------------------------------------------- */

struct owner_question {
    struct owner_description *description;
    struct peer_query *query; /* NULL: not sent, or answered */
    char *uuid, *host, *name; /* of the peer */
    json_t *urls;             /* NULL: nothing to ask */
};

struct owner_description {
    LIST_ENTRY(owner_description) link;
    struct peers *peers;
    struct fleet *fleet;
    struct peers_refreshing *refreshing;
    struct owner_question *questions; /* by peer, in the order of claimants */
    struct owner_claimant *claimants;
    size_t n_questions, n_pending;
    size_t n_any,
        n_not_asked; /* pairs of a worker and a peer without a rule; workers that were too many for it */
    struct hash_table by_url; /* numbers of `indices` */
    size_t *indices;          /* of workers; of a URL that is listed twice only the first */
    size_t n_indices;
    int *asked; /* by worker: whose answer is being read and had it in its question, plus 1 */
    struct owner_claims {
        int first, second;    /* questions, or OWNER_NONE */
        struct worker answer; /* of the first; of the second where that wins */
    } * claims;               /* by worker */
    struct event *none;       /* there is nothing to ask */
    void (*done)(void *done_arg);
    void *done_arg;
};

static void description_free(struct owner_description *d)
{
    for (size_t i = 0; i < d->n_questions; i++) {
        struct owner_question *q = &d->questions[i];
        peer_query_cancel(q->query);
        free(q->uuid);
        free(q->host);
        free(q->name);
        json_decref(q->urls);
    }
    for (size_t i = 0; d->claims && i < d->fleet->n_workers; i++)
        worker_done(&d->claims[i].answer);
    peers_refresh_cancel(d->refreshing);
    hash_table_done(&d->by_url);
    free(d->questions);
    free(d->claimants);
    free(d->claims);
    free(d->indices);
    free(d->asked);
    event_free(d->none);
    free(d);
}

static bool url_is_equal(const void *owner, size_t number, const void *url)
{
    const struct owner_description *d = owner;
    return streq(d->fleet->workers[d->indices[number]].url, url);
}

static void description_index(struct owner_description *d)
{
    d->indices = xcalloc(d->fleet->n_workers, sizeof(*d->indices));
    for (size_t i = 0; i < d->fleet->n_workers; i++) {
        const char *url = d->fleet->workers[i].url;
        d->indices[d->n_indices] = i;
        int64_t number = hash_table_number(&d->by_url, hash_bytes(url, strlen(url)), url_is_equal, d, url);
        if (number < 0)
            abort(); /* as base/alloc.h */
        d->n_indices += (size_t)number == d->n_indices;
    }
}

/* The worker with that URL; -1: none. */
static int64_t description_find(const struct owner_description *d, const char *url)
{
    const struct hash_slot *slot =
        hash_table_slot(&d->by_url, hash_bytes(url, strlen(url)), url_is_equal, d, url);

    return slot->number > 0 ? (int64_t)d->indices[slot->number - 1] : -1;
}

/* This profd sees its process. */
static bool worker_is_ours(const struct worker *w)
{
    return (w->local && w->pid > 0) || worker_is_on_demand(w) || url_is_loopback(w->url);
}

static void worker_set_owner(struct worker *w, const char *uuid, const char *host, const char *name)
{
    replace_str(&w->host_uuid, uuid);
    replace_str(&w->host, host);
    replace_str(&w->peer, name);
}

/* Its traces are where they are because its host does not answer, not because nobody connected the host. */
static void worker_note_silent(struct worker *w, const struct peer *peer)
{
    if (w->location.local_dir)
        return;
    free(w->location.note);
    w->location.note =
        xasprintf("traces are on %s, whose profd cannot be asked (state %s)",
                  peer->hello.host ? peer->hello.host : peer->name, peer_state_name(peer->state));
    replace_str(&w->location.remedy, peer->problem.remedy);
}

static void description_apply(struct owner_description *d)
{
    const struct peers_self self = peers_self(d->peers);
    unsigned n_conflicts = 0;

    for (size_t i = 0; i < d->fleet->n_workers; i++) {
        struct worker *w = &d->fleet->workers[i];
        struct owner_claims *c = &d->claims[i];
        if (c->first == OWNER_NONE) {
            const struct peer *silent = owners_find_silent(w, &d->peers->peers);
            if (worker_is_ours(w))
                worker_set_owner(w, self.uuid, self.host, NULL);
            else if (silent)
                worker_note_silent(w, silent);
            continue;
        }
        int owner = owner_decide(d->claimants, c->first, c->second);
        if (owner == OWNER_CONFLICT) {
            const char *a = d->questions[c->first].host, *b = d->questions[c->second].host;
            log_warning("%s: the profds of %s and of %s both report it as theirs: it counts as of neither",
                        w->url, a, b);
            if (n_conflicts++ < NOTES_MAX)
                fleet_add_note_of(d->fleet, NOTE_WARNING,
                                  "%s: %s and %s both report it as theirs, so that neither records it",
                                  w->url, a, b);
            continue;
        }
        const struct owner_question *q = &d->questions[owner];
        owner_apply(w, &c->answer);
        worker_set_owner(w, q->uuid, q->host, q->name);
    }
}

static void description_finish(struct owner_description *d)
{
    void (*done)(void *done_arg) = d->done;
    void *done_arg = d->done_arg;

    description_apply(d);
    description_free(d);
    done(done_arg);
}

static void description_on_none(evutil_socket_t fd, short what, void *arg)
{
    description_finish(arg);
}

/* Only workers that the peer was asked about; each once. */
static void question_take(struct owner_question *q, struct fleet *answer)
{
    struct owner_description *d = q->description;
    const int number = (int)(q - d->questions);

    for (size_t k = 0; k < json_array_size(q->urls); k++) {
        int64_t at = description_find(d, json_string_value(json_array_get(q->urls, k)));
        if (at >= 0)
            d->asked[at] = number + 1;
    }
    for (size_t i = 0; i < answer->n_workers; i++) {
        struct worker *theirs = &answer->workers[i];
        int64_t at = description_find(d, theirs->url);
        if (at < 0 || d->asked[at] != number + 1)
            continue;
        struct owner_claims *c = &d->claims[at];
        d->asked[at] = 0;
        if (c->first != OWNER_NONE)
            c->second = number;
        else
            c->first = number;
        if (owner_decide(d->claimants, c->first, c->second) == number) {
            worker_done(&c->answer);
            c->answer = *theirs;
            worker_init(theirs);
        }
    }
}

static void question_on_answer(int status, const json_t *body, const struct problem *p, void *arg)
{
    struct owner_question *q = arg;
    struct owner_description *d = q->description;
    _cleanup_(fleet_freep) struct fleet *answer = xcalloc(1, sizeof(*answer));

    q->query = NULL;
    if (p)
        fleet_add_note_of(d->fleet, NOTE_WARNING, "%s", p->what);
    else if (owners_parse(body, answer) < 0)
        fleet_add_note_of(d->fleet, NOTE_WARNING, "%s: the answer has no workers", q->host);
    else
        question_take(q, answer);
    if (--d->n_pending == 0)
        description_finish(d);
}

static void question_add(struct owner_question *q, json_t *url)
{
    if (!q->urls)
        q->urls = json_array();
    json_array_append(q->urls, url);
}

/* All peers are asked about a worker that no rule finds one for: of a large fleet only about the first of those. */
static bool description_may_ask(struct owner_description *d, enum owner_rule rule, size_t n_candidates)
{
    if (rule != OWNER_RULE_ANY)
        return true;
    if (d->n_any + n_candidates > ANY_QUESTIONS_MAX) {
        d->n_not_asked++;
        return false;
    }
    d->n_any += n_candidates;
    return true;
}

/* The workers of one address have one answer to which peers may have them. */
static void description_choose(struct owner_description *d, const struct peer *const *peers, size_t n)
{
    _cleanup_(freep) size_t *candidates = xcalloc(n, sizeof(*candidates));
    enum owner_rule rule = OWNER_RULE_ANY;
    const struct worker *last = NULL;
    size_t n_candidates = 0;

    for (size_t i = 0; i < d->fleet->n_workers; i++) {
        const struct worker *w = &d->fleet->workers[i];
        if (worker_is_ours(w))
            continue;
        const char *port = strrchr(w->url, ':');
        size_t n_host = port ? (size_t)(port - w->url) : strlen(w->url);
        if (!last || strncmp(last->url, w->url, n_host + 1) != 0 || !streq(last->node, w->node))
            rule = owners_candidates(w, peers, n, candidates, &n_candidates);
        last = w;
        if (!description_may_ask(d, rule, n_candidates))
            continue;
        _cleanup_json_ url = json_text(w->url);
        for (size_t k = 0; k < n_candidates; k++)
            question_add(&d->questions[candidates[k]], url);
    }
    if (d->n_not_asked > 0)
        fleet_add_note_of(
            d->fleet, NOTE_WARNING,
            "%zu workers are at addresses of no known host, too many to ask all %zu hosts about "
            "each: set addresses= of [peer NAME] in profd.conf",
            d->n_not_asked, n);
}

/* A user's profd leaves its workers to the service of the same machine, which others ask too. */
static void description_choose_own(struct owner_description *d, const struct peer *const *peers, size_t n)
{
    _cleanup_(freep) char *boot = boot_id();

    for (size_t k = 0; k < n && !d->peers->is_system; k++) {
        struct owner_question *q = &d->questions[k];
        if (!peers[k]->hello.is_system || !streq(peers[k]->hello.boot_id, boot) ||
            !net_address_is_own(&peers[k]->address))
            continue;
        for (size_t i = 0; i < d->fleet->n_workers; i++) {
            const struct worker *w = &d->fleet->workers[i];
            if (!w->local || w->pid == 0 || worker_is_on_demand(w) || url_is_loopback(w->url))
                continue;
            _cleanup_json_ url = json_text(w->url);
            question_add(q, url);
        }
    }
}

static void description_send(struct owner_description *d, const struct peer *const *peers)
{
    d->n_pending = 1;
    for (size_t i = 0; i < d->n_questions; i++) {
        struct owner_question *q = &d->questions[i];
        if (!q->urls)
            continue;
        json_t *body = json_object();
        json_object_set(body, "workers", q->urls);
        d->n_pending++;
        q->query = peer_post(d->peers, peers[i], "/v1/host/workers", body, WORKERS_TIMEOUT_NS,
                             question_on_answer, q);
    }
    if (--d->n_pending == 0)
        event_active(d->none, EV_TIMEOUT, 0);
}

/* Peers that are missing are named: their workers are of no host that can be asked. */
static void description_note_missing(struct owner_description *d)
{
    const struct peer *peer;
    unsigned n = 0;

    LIST_FOREACH(peer, &d->peers->peers, link) {
        if (peer->state == PEER_UNREACHABLE || peer->state == PEER_REFUSED || peer->state == PEER_INVALID)
            if (n++ < NOTES_MAX)
                fleet_add_note_of(d->fleet, NOTE_HOST, "%s", peer->problem.what);
    }
    if (n > NOTES_MAX)
        fleet_add_note_of(d->fleet, NOTE_HOST, "%u more hosts do not answer: profctl list-hosts",
                          n - NOTES_MAX);
}

static void description_on_refreshed(void *arg)
{
    struct owner_description *d = arg;
    _cleanup_(freep) const struct peer **peers = xcalloc(MAX(d->peers->n_peers, (size_t)1), sizeof(*peers));
    const struct peer *peer;
    size_t n = 0;

    d->refreshing = NULL;
    LIST_FOREACH(peer, &d->peers->peers, link) {
        if (peer->state == PEER_OK)
            peers[n++] = peer;
    }
    d->n_questions = n;
    d->questions = xcalloc(MAX(n, (size_t)1), sizeof(*d->questions));
    d->claimants = xcalloc(MAX(n, (size_t)1), sizeof(*d->claimants));
    for (size_t i = 0; i < n; i++) {
        const struct peer_hello *h = &peers[i]->hello;
        d->questions[i] = (struct owner_question){.description = d,
                                                  .uuid = xstrdup(peers[i]->host_uuid),
                                                  .host = xstrdup(h->host ? h->host : peers[i]->name),
                                                  .name = xstrdup(peers[i]->name)};
        memcpy(d->claimants[i].boot_id, h->boot_id, UUID_SIZE);
        d->claimants[i].address = peers[i]->address;
        d->claimants[i].is_system = h->is_system;
    }
    description_note_missing(d);
    if (n > 0) {
        description_choose(d, peers, n);
        description_choose_own(d, peers, n);
    }
    description_send(d, peers);
}

static void *owners_describe(struct fleet *fleet, void (*done)(void *done_arg), void *done_arg, void *arg)
{
    struct peers *p = arg;

    if (!peers_are_configured(p) || fleet->n_workers == 0)
        return NULL;
    struct owner_description *d = xcalloc(1, sizeof(*d));
    *d = (struct owner_description){.peers = p, .fleet = fleet, .done = done, .done_arg = done_arg};
    d->none = evtimer_new(p->base, description_on_none, d);
    d->claims = xcalloc(fleet->n_workers, sizeof(*d->claims));
    d->asked = xcalloc(fleet->n_workers, sizeof(*d->asked));
    for (size_t i = 0; i < fleet->n_workers; i++) {
        d->claims[i].first = d->claims[i].second = OWNER_NONE;
        worker_init(&d->claims[i].answer);
    }
    description_index(d);
    peer_sources_take_fleet(p, fleet);
    d->refreshing = peers_refresh(p, HELLO_AGE_NS, description_on_refreshed, d);
    return d;
}

static void owners_cancel(void *description, void *arg)
{
    description_free(description);
}

static bool owners_has_others(const void *arg)
{
    return peers_are_configured(arg);
}

const struct owner_ops peers_owners = {.has_others = owners_has_others,
                                       .describe = owners_describe,
                                       .cancel = owners_cancel,
                                       .find_ranks = owners_find_ranks,
                                       .cancel_ranks = owners_cancel_ranks};
