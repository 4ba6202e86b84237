/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks without a server on other hosts (daemon/fleet/process_ranks.h): every host that answers is asked for launches of the
 * groups of the fleet's servers, since nothing else says on which hosts they are. What a host reports is believed as far as
 * it is about a group that was asked for, and about an engine as its server has it. Nothing is taken before all hosts have
 * answered: no host gets the ranks of another one because it is quicker. What two of them report is of neither.
 */
#include "daemon/peers/rank_owners.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process_net.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/peers/internal.h"
#include "daemon/peers/owners.h"

/* A host looks at the command lines of its processes. */
#define RANKS_TIMEOUT_NS (15 * NS_PER_S)

struct rank_question {
    struct rank_search *search;
    struct peer_query *query; /* NULL: answered */
    char *uuid, *host, *name; /* of the peer */
    bool is_here;             /* another profd of this machine */
    struct fleet *answer;     /* NULL: none */
};

struct rank_search {
    struct fleet *fleet;
    size_t n_servers; /* the first workers: of these the groups are */
    struct rank_question *questions;
    size_t n_questions, n_pending;
    struct owner_claimant *claimants; /* by question */
    char *own_host;
    bool is_system; /* this profd */
    int *owners;    /* by worker after the servers: a question, OWNER_NONE (this profd), OWNER_CONFLICT */
    size_t cap_owners;
    struct event *none; /* there is nobody to ask */
    void (*done)(void *done_arg);
    void *done_arg;
};

static void rank_search_free(struct rank_search *s)
{
    for (size_t i = 0; i < s->n_questions; i++) {
        peer_query_cancel(s->questions[i].query);
        free(s->questions[i].uuid);
        free(s->questions[i].host);
        free(s->questions[i].name);
        fleet_free(s->questions[i].answer);
    }
    free(s->questions);
    free(s->claimants);
    free(s->owners);
    free(s->own_host);
    event_free(s->none);
    free(s);
}

static const struct worker *rank_search_server(const struct rank_search *s, const struct worker *theirs)
{
    _cleanup_(freep) char *group = NULL;
    int node;

    if (!ranks_url_parse(theirs->url, &group, &node))
        return NULL;
    for (size_t i = 0; i < s->n_servers; i++) {
        const struct worker *w = &s->fleet->workers[i];
        if (worker_may_have_ranks(w) && streq(w->group, group) && node > 0 && node < w->sizes.nodes &&
            theirs->engine == w->engine)
            return w;
    }
    return NULL;
}

/* Among those that follow the servers; -1: none. */
static int64_t rank_search_find(const struct rank_search *s, const char *url)
{
    for (size_t i = s->n_servers; i < s->fleet->n_workers; i++)
        if (streq(s->fleet->workers[i].url, url))
            return (int64_t)i;
    return -1;
}

void ranks_take(struct worker *w, struct worker *theirs, const struct worker *server)
{
    const unsigned all = worker_ranks_expected(server);

    w->url = TAKE_PTR(theirs->url);
    w->engine = server->engine;
    w->group = xstrdup(server->group);
    w->location = theirs->location;
    theirs->location = (struct trace_location){0};
    w->shared = theirs->shared;
    theirs->shared = (struct shared_dir){0};
    w->held_by = TAKE_PTR(theirs->held_by);
    w->pid = theirs->pid;
    w->uid = theirs->uid;
    w->profilable = true;
    w->sizes.nodes = server->sizes.nodes;
    w->sizes.ranks =
        theirs->sizes.ranks > 0 && (unsigned)theirs->sizes.ranks <= all ? theirs->sizes.ranks : 0;
    w->sizes.first_rank = theirs->sizes.first_rank > 0 && (unsigned)theirs->sizes.first_rank < all
                              ? theirs->sizes.first_rank
                              : 0;
    worker_join_server(w, server);
}

static void rank_question_fill(const struct rank_question *q, struct worker *w, struct worker *theirs,
                               const struct worker *server)
{
    ranks_take(w, theirs, server);
    w->host_uuid = xstrdup(q->uuid);
    w->host = xstrdup(q->host);
    w->peer = xstrdup(q->name);
}

/* Who has a worker that both report: the number of the question, or OWNER_NONE or OWNER_CONFLICT. */
static int rank_search_decide(const struct rank_search *s, int owner, int number)
{
    if (owner != OWNER_NONE)
        return owner_decide(s->claimants, owner, number);
    const bool is_theirs = s->claimants[number].is_system && !s->is_system;
    return s->questions[number].is_here ? (is_theirs ? number : OWNER_NONE) : OWNER_CONFLICT;
}

/* Listed, so that a person sees why it is not recorded, without what either host says of it. */
static void rank_search_contest(struct rank_search *s, size_t at, int owner, int number)
{
    const char *first = owner == OWNER_NONE ? s->own_host : s->questions[owner].host;
    const char *second = s->questions[number].host;
    struct worker *w = &s->fleet->workers[at], contested;

    worker_init(&contested);
    contested.url = TAKE_PTR(w->url);
    contested.group = TAKE_PTR(w->group);
    contested.ranks_of = TAKE_PTR(w->ranks_of);
    contested.engine = w->engine;
    contested.role = w->role;
    contested.health = w->health;
    contested.sizes.nodes = w->sizes.nodes;
    contested.reason =
        xasprintf("%s and %s both report it as theirs, so that neither records it", first, second);
    contested.remedy = xasprintf("end the launch that is not of %s", contested.ranks_of);
    worker_done(w);
    *w = contested;
    log_warning("%s: %s", w->url, w->reason);
    fleet_add_note(s->fleet, "%s: %s", w->url, w->reason);
}

static void rank_search_add(struct rank_search *s, int number, struct worker *theirs, size_t server)
{
    const size_t n = s->fleet->n_workers - s->n_servers;
    struct worker *w = fleet_add_worker(s->fleet); /* which may move the server */

    VEC_GROW(s->owners, n, s->cap_owners);
    s->owners[n] = number;
    rank_question_fill(&s->questions[number], w, theirs, &s->fleet->workers[server]);
}

static void rank_search_take_one(struct rank_search *s, int number, struct worker *theirs)
{
    const struct worker *server = rank_search_server(s, theirs);
    const int64_t at = server ? rank_search_find(s, theirs->url) : -1;

    if (!server)
        return;
    if (at < 0) {
        rank_search_add(s, number, theirs, (size_t)(server - s->fleet->workers));
        return;
    }
    int *owner = &s->owners[(size_t)at - s->n_servers];
    if (*owner == number || *owner == OWNER_CONFLICT)
        return;
    const int winner = rank_search_decide(s, *owner, number);
    if (winner == OWNER_CONFLICT) {
        rank_search_contest(s, (size_t)at, *owner, number);
    } else if (winner == number) {
        worker_done(&s->fleet->workers[at]);
        rank_question_fill(&s->questions[number], &s->fleet->workers[at], theirs, server);
    }
    *owner = winner;
}

static void rank_search_take(struct rank_search *s)
{
    for (size_t k = 0; k < s->n_questions; k++) {
        struct fleet *answer = s->questions[k].answer;
        for (size_t i = 0; answer && i < answer->n_workers; i++)
            rank_search_take_one(s, (int)k, &answer->workers[i]);
    }
}

static void rank_search_finish(struct rank_search *s)
{
    void (*done)(void *done_arg) = s->done;
    void *done_arg = s->done_arg;

    rank_search_take(s);
    rank_search_free(s);
    done(done_arg);
}

static void rank_search_on_none(evutil_socket_t fd, short what, void *arg)
{
    rank_search_finish(arg);
}

static void rank_question_on_answer(int status, const json_t *body, const struct problem *p, void *arg)
{
    struct rank_question *q = arg;
    struct rank_search *s = q->search;
    _cleanup_(fleet_freep) struct fleet *answer = xcalloc(1, sizeof(*answer));

    q->query = NULL;
    /* An older profd refuses the member; a host that does not answer was noted before. */
    if (p)
        log_debug("%s was not asked for ranks: %s", q->host, p->what);
    else if (owners_parse(body, answer) == 0)
        q->answer = TAKE_PTR(answer);
    if (--s->n_pending == 0)
        rank_search_finish(s);
}

static json_t *rank_search_body(const struct rank_search *s)
{
    json_t *body = json_object(), *groups = json_array();

    for (size_t i = 0; i < s->n_servers; i++) {
        const struct worker *w = &s->fleet->workers[i];
        if (!worker_may_have_ranks(w))
            continue;
        json_t *item = json_object();
        json_put_str(item, "worker", w->url);
        json_put_str(item, "group", w->group);
        json_array_append_new(groups, item);
    }
    json_object_set_new(body, "workers", json_array());
    json_object_set_new(body, "ranks_of", groups);
    return body;
}

/* This profd found these itself. */
static void rank_search_own(struct rank_search *s, struct peers *p)
{
    const struct peers_self self = peers_self(p);

    s->own_host = xstrdup(self.host);
    s->is_system = p->is_system;
    s->n_servers = s->fleet->n_workers;
    for (size_t i = 0; i < s->fleet->n_workers; i++) {
        struct worker *w = &s->fleet->workers[i];
        if (!worker_is_watched(w))
            continue;
        s->n_servers = MIN(s->n_servers, i);
        replace_str(&w->host_uuid, self.uuid);
        replace_str(&w->host, self.host);
    }
    for (size_t n = 0; n < s->fleet->n_workers - s->n_servers; n++) {
        VEC_GROW(s->owners, n, s->cap_owners);
        s->owners[n] = OWNER_NONE;
    }
}

/* The address is that of a connection whose certificate was checked; a boot id can be copied. */
static bool peer_is_of_machine(const struct peer *peer, const char *boot)
{
    return boot && *boot && streq(peer->hello.boot_id, boot) && net_address_is_own(&peer->address);
}

void *owners_find_ranks(struct fleet *fleet, void (*done)(void *done_arg), void *done_arg, void *arg)
{
    struct peers *p = arg;
    const struct peer *peer;

    if (!peers_are_configured(p))
        return NULL;
    struct rank_search *s = xcalloc(1, sizeof(*s));
    *s = (struct rank_search){.fleet = fleet, .done = done, .done_arg = done_arg};
    s->none = evtimer_new(p->base, rank_search_on_none, s);
    rank_search_own(s, p);
    s->questions = xcalloc(MAX(p->n_peers, (size_t)1), sizeof(*s->questions));
    s->claimants = xcalloc(MAX(p->n_peers, (size_t)1), sizeof(*s->claimants));
    _cleanup_(freep) char *boot = boot_id();
    s->n_pending = 1;
    LIST_FOREACH(peer, &p->peers, link) {
        if (peer->state != PEER_OK)
            continue;
        struct owner_claimant *claimant = &s->claimants[s->n_questions];
        struct rank_question *q = &s->questions[s->n_questions++];
        *claimant = (struct owner_claimant){.is_system = peer->hello.is_system, .address = peer->address};
        memcpy(claimant->boot_id, peer->hello.boot_id, UUID_SIZE);
        *q = (struct rank_question){.search = s,
                                    .uuid = xstrdup(peer->host_uuid),
                                    .host = xstrdup(peer->hello.host ? peer->hello.host : peer->name),
                                    .name = xstrdup(peer->name),
                                    .is_here = peer_is_of_machine(peer, boot)};
        s->n_pending++;
        q->query = peer_post(p, peer, "/v1/host/workers", rank_search_body(s), RANKS_TIMEOUT_NS,
                             rank_question_on_answer, q);
    }
    if (--s->n_pending == 0)
        event_active(s->none, EV_TIMEOUT, 0);
    return s;
}

void owners_cancel_ranks(void *search, void *arg)
{
    rank_search_free(search);
}
