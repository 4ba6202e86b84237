/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks without a server on other hosts (daemon/fleet/process_ranks.h): every host that answers is asked for launches of the
 * groups of the fleet's servers, since nothing else says on which hosts they are. What a host reports is believed as far as
 * it is about a group that was asked for, and about an engine as its server has it.
 */
#include "daemon/peers/rank_owners.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/peers/internal.h"
#include "daemon/peers/owners.h"

/* A host looks at the command lines of its processes. */
#define RANKS_TIMEOUT_NS (15 * NS_PER_S)

struct rank_question {
    struct rank_search *search;
    struct peer_query *query; /* NULL: answered */
    char *uuid, *host, *name; /* of the peer */
};

struct rank_search {
    struct fleet *fleet;
    size_t n_servers; /* the first workers: of these the groups are */
    struct rank_question *questions;
    size_t n_questions, n_pending;
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
    }
    free(s->questions);
    event_free(s->none);
    free(s);
}

static void rank_search_finish(struct rank_search *s)
{
    void (*done)(void *done_arg) = s->done;
    void *done_arg = s->done_arg;

    rank_search_free(s);
    done(done_arg);
}

static void rank_search_on_none(evutil_socket_t fd, short what, void *arg)
{
    rank_search_finish(arg);
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

static bool rank_search_knows(const struct rank_search *s, const char *url)
{
    for (size_t i = s->n_servers; i < s->fleet->n_workers; i++)
        if (streq(s->fleet->workers[i].url, url))
            return true;
    return false;
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

static void rank_question_take(struct rank_question *q, struct fleet *answer)
{
    struct rank_search *s = q->search;

    for (size_t i = 0; i < answer->n_workers; i++) {
        struct worker *theirs = &answer->workers[i];
        const struct worker *server = rank_search_server(s, theirs);
        if (!server)
            continue;
        if (rank_search_knows(s, theirs->url)) {
            fleet_add_note(s->fleet, "%s: %s reports it as well as another host, and is not asked for it",
                           theirs->url, q->host);
            continue;
        }
        const size_t number = (size_t)(server - s->fleet->workers);
        struct worker *w = fleet_add_worker(s->fleet); /* which may move the server */
        ranks_take(w, theirs, &s->fleet->workers[number]);
        w->host_uuid = xstrdup(q->uuid);
        w->host = xstrdup(q->host);
        w->peer = xstrdup(q->name);
    }
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
        rank_question_take(q, answer);
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

    s->n_servers = s->fleet->n_workers;
    for (size_t i = 0; i < s->fleet->n_workers; i++) {
        struct worker *w = &s->fleet->workers[i];
        if (!worker_is_watched(w))
            continue;
        s->n_servers = MIN(s->n_servers, i);
        replace_str(&w->host_uuid, self.uuid);
        replace_str(&w->host, self.host);
    }
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
    s->n_pending = 1;
    LIST_FOREACH(peer, &p->peers, link) {
        if (peer->state != PEER_OK)
            continue;
        struct rank_question *q = &s->questions[s->n_questions++];
        *q = (struct rank_question){.search = s,
                                    .uuid = xstrdup(peer->host_uuid),
                                    .host = xstrdup(peer->hello.host ? peer->hello.host : peer->name),
                                    .name = xstrdup(peer->name)};
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
