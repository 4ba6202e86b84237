/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to all peers at once: their life, what is sent, and what was asked before. What is answered: peer_answers.c. */
#include "daemon/hosts/peer_traces_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "daemon/catalog/catalog.h"
#include "daemon/catalog/records.h"
#include "daemon/hosts/delivery.h"
#include "daemon/peers/peers.h"
#include "proto/names.h"
#include <errno.h>
#include <inttypes.h>

/* Peers that were heard of in this time are not greeted again. */
#define PEERS_AGE_NS (60 * NS_PER_S)
/* Of greeting them, of one answer, and of all answers together. */
#define GREET_NS  (2 * NS_PER_S)
#define ANSWER_NS (2 * NS_PER_S)
#define ASK_NS    (6 * NS_PER_S)
/* Hosts that are asked at a time; questions that are open. */
#define ASKS_MAX      64
#define QUESTIONS_MAX 16
/* -- What was asked ------------------------------------------------------------------------------------ */

static void asked_done(struct asked *a)
{
    free(a->word);
    json_decref(a->missing);
    json_decref(a->elsewhere);
    *a = (struct asked){0};
}

/* The newest question about one word is the one that counts. */
static void asked_add(struct peer_traces *t, const struct peer_question *q)
{
    struct asked *a = &t->asked[t->next_asked];

    for (size_t i = 0; i < ASKED_MAX; i++)
        if (streq(t->asked[i].word, q->word) && t->asked[i].is_session == q->is_session)
            asked_done(&t->asked[i]);
    asked_done(a);
    *a = (struct asked){.word = xstrdup(q->word),
                        .is_session = q->is_session,
                        .at_ns = mono_ns(),
                        .missing = json_incref(q->missing),
                        .elsewhere = json_incref(q->elsewhere)};
    t->next_asked = (t->next_asked + 1) % ASKED_MAX;
}

bool peer_traces_were_asked(const struct peer_traces *t, const char *word, bool is_session,
                            struct peer_traces_asked *ret)
{
    for (size_t i = 0; i < ASKED_MAX; i++) {
        const struct asked *a = &t->asked[i];
        if (!a->word || !streq(a->word, word) || a->is_session != is_session ||
            mono_ns() - a->at_ns > PEER_TRACES_AGE_NS)
            continue;
        *ret = (struct peer_traces_asked){.missing = a->missing, .elsewhere = a->elsewhere};
        return true;
    }
    return false;
}

/* -- Life of a question -------------------------------------------------------------------------------- */

static void question_free(struct peer_question *q)
{
    struct peer_waiter *w;

    while ((w = LIST_FIRST(&q->waiters))) {
        LIST_REMOVE(w, link);
        free(w);
    }
    peers_refresh_cancel(q->refreshing);
    for (size_t i = 0; i < q->n_asks; i++) {
        peer_query_cancel(q->asks[i].query);
        free(q->asks[i].host_uuid);
        free(q->asks[i].host);
    }
    free(q->asks);
    if (q->timer)
        event_free(q->timer);
    json_decref(q->missing);
    json_decref(q->elsewhere);
    json_decref(q->hosts);
    free(q->coordinator);
    free(q->word);
    free(q);
}

static void question_add_missing(struct peer_question *q, const char *host, const char *uuid,
                                 const char *reason, const char *remedy)
{
    json_t *one = json_object();

    json_put_str(one, "host", host);
    json_put_str(one, "host_uuid", uuid);
    json_put_str(one, "reason", reason);
    json_put_str(one, "remedy", remedy);
    json_array_append_new(q->missing, one);
}

/* Hosts that have no part of the session are not missed. */
static void question_choose_missing(struct peer_question *q)
{
    json_t *chosen = json_array(), *one;
    size_t i;

    json_array_foreach(q->missing, i, one) {
        const char *uuid = json_get_str(one, "host_uuid");
        bool is_of_it = !q->hosts || !uuid || json_object_get(q->hosts, uuid);
        if (is_of_it && json_array_size(chosen) < MISSING_MAX)
            json_array_append(chosen, one);
    }
    json_decref(q->missing);
    q->missing = chosen;
}

/* Rows are on disk, where other connections find them. */
static void question_on_committed(int err, void *arg)
{
    struct peer_question *q = arg;
    struct peer_waiter *w;

    if (q->all) {
        asked_add(q->all, q);
        LIST_REMOVE(q, link);
        q->all->n_questions--;
    }
    while (q->all && (w = LIST_FIRST(&q->waiters))) {
        struct peer_waiter v = *w;
        LIST_REMOVE(w, link);
        free(w);
        v.done(v.arg);
    }
    question_free(q);
}

/* Hosts that have not answered by now did not answer. */
static void question_finish(struct peer_question *q)
{
    for (size_t i = 0; i < q->n_asks; i++) {
        struct peer_ask *a = &q->asks[i];
        if (a->is_over)
            continue;
        peer_query_cancel(TAKE_PTR(a->query));
        question_add_missing(q, a->host, a->host_uuid, "it did not answer in time", NULL);
    }
    question_choose_missing(q);
    event_free(TAKE_PTR(q->timer));
    catalog_then(q->all->catalog, false, question_on_committed, q);
}

static void question_arm(struct peer_question *q, int64_t ns)
{
    const struct timeval tv = timeval_of(ns);
    event_add(q->timer, &tv);
}

/* -- Requests ------------------------------------------------------------------------------------------ */

static void ask_on_answer(int status, const json_t *body, const struct problem *p, void *arg);

/* The caller frees it. */
static char *ask_path(const struct peer_ask *a)
{
    const struct peer_question *q = a->question;
    char *path = a->lists_hosts   ? xasprintf("/v1/sessions/%s", q->word)
                 : q->is_session  ? xasprintf("/v1/traces?session=%s&limit=%d", q->word, DELIVERY_TRACES_MAX)
                 : a->n_uuids > 0 ? xasprintf("/v1/traces/%s", a->uuids[a->n_read])
                                  : xasprintf("/v1/refs?ref=%s", q->word);

    if (a->before != RECORD_NONE && !a->lists_hosts)
        append_str(&path, "&before=t%" PRId64, a->before);
    return path;
}

/* False where the host is no peer any more, which is noted. */
static bool ask_send(struct peer_ask *a)
{
    struct peers *peers = a->question->all->peers;
    const struct peer *peer = peers_find(peers, a->host_uuid);
    _cleanup_(freep) char *path = ask_path(a);

    if (peer) {
        a->query = peer_get(peers, peer, path, ANSWER_NS, ask_on_answer, a);
        return true;
    }
    question_add_missing(a->question, a->host, a->host_uuid, "it is no peer any more", NULL);
    a->is_over = true;
    return false;
}

static void question_continue(struct peer_question *q)
{
    while (q->n_begun < q->n_asks && q->n_running < ASKS_MAX)
        q->n_running += ask_send(&q->asks[q->n_begun++]);
    if (q->n_running == 0)
        question_finish(q);
}

static void ask_end(struct peer_ask *a)
{
    a->is_over = true;
    a->question->n_running--;
    question_continue(a->question);
}

static void ask_on_answer(int status, const json_t *body, const struct problem *p, void *arg)
{
    struct peer_ask *a = arg;
    const char *reason = NULL;
    /* Several that begin with the word are an answer, and so is that there is none. */
    bool is_several = status == 409 && !a->question->is_session && a->n_uuids == 0 && body;
    bool is_none = status == 404;
    int r = 0;

    a->query = NULL;
    if (p && !is_several && !is_none)
        question_add_missing(a->question, a->host, a->host_uuid, p->what, p->remedy);
    else if (!is_none || a->n_uuids > 0)
        r = ask_take_answer(a, status, body, &reason);
    if (r < 0)
        question_add_missing(a->question, a->host, a->host_uuid, reason, NULL);
    if (r != 1)
        ask_end(a);
    else if (!ask_send(a))
        ask_end(a);
}

/* -- Questions ----------------------------------------------------------------------------------------- */

static const char *peer_host(const struct peer *peer)
{
    return peer->hello.host ? peer->hello.host : peer->name;
}

/* A host that was unreachable may be back; one that is refused, or was never heard of, is named. */
static bool peer_may_be_asked(const struct peer *peer)
{
    return peer->host_uuid && (peer->state == PEER_OK || peer->state == PEER_UNREACHABLE);
}

static void question_begin(struct peer_question *q)
{
    const struct peer *peer;
    size_t n = 0;

    LIST_FOREACH(peer, peers_list(q->all->peers), link) {
        n++;
    }
    q->asks = xcalloc(n + 1, sizeof(*q->asks));
    LIST_FOREACH(peer, peers_list(q->all->peers), link) {
        if (peer->state == PEER_SELF || peer->state == PEER_DUPLICATE)
            continue;
        if (!peer_may_be_asked(peer))
            question_add_missing(q, peer_host(peer), peer->host_uuid ? peer->host_uuid : peer->bound_uuid,
                                 peer->problem.what ? peer->problem.what : "it did not answer in time",
                                 peer->problem.remedy);
        else if (q->n_asks < n)
            q->asks[q->n_asks++] = (struct peer_ask){.question = q,
                                                     .host_uuid = xstrdup(peer->host_uuid),
                                                     .host = xstrdup(peer_host(peer)),
                                                     .before = RECORD_NONE,
                                                     .session_id = RECORD_NONE};
    }
    question_arm(q, ASK_NS);
    question_continue(q);
}

static void question_on_refreshed(void *arg)
{
    struct peer_question *q = arg;

    q->refreshing = NULL;
    question_begin(q);
}

static void question_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct peer_question *q = arg;

    if (!q->refreshing) {
        question_finish(q);
        return;
    }
    peers_refresh_cancel(TAKE_PTR(q->refreshing));
    question_begin(q);
}

/* NULL: not known. The caller frees it. */
static char *session_read_coordinator(struct catalog *c, const char *uuid)
{
    _cleanup_(session_record_done) struct session_record session;
    struct catalog_ref ref;

    session_record_init(&session);
    return catalog_find_refs(c, uuid, "s", &ref, 1) == 1 && catalog_get_session(c, ref.id, &session) == 0
               ? xstrdup(session.coordinator)
               : NULL;
}

static struct peer_question *question_new(struct peer_traces *t, const char *word, bool is_session)
{
    struct peer_question *q = xcalloc(1, sizeof(*q));

    *q = (struct peer_question){.all = t,
                                .word = xstrdup(word),
                                .is_session = is_session,
                                .coordinator = is_session ? session_read_coordinator(t->catalog, word) : NULL,
                                .missing = json_array(),
                                .elsewhere = json_array()};
    LIST_INIT(&q->waiters);
    q->timer = event_new(t->base, -1, 0, question_on_timer, q);
    if (!q->timer)
        abort(); /* as base/alloc.h */
    LIST_INSERT_HEAD(&t->questions, q, link);
    t->n_questions++;
    question_arm(q, GREET_NS);
    q->refreshing = peers_refresh(t->peers, PEERS_AGE_NS, question_on_refreshed, q);
    return q;
}

struct peer_waiter *peer_traces_ask(struct peer_traces *t, const char *word, bool is_session,
                                    void (*done)(void *arg), void *arg)
{
    struct peer_question *q;

    LIST_FOREACH(q, &t->questions, link) {
        if (streq(q->word, word) && q->is_session == is_session)
            break;
    }
    if (!q && t->n_questions == QUESTIONS_MAX)
        return NULL;
    if (!q)
        q = question_new(t, word, is_session);
    struct peer_waiter *w = xcalloc(1, sizeof(*w));
    *w = (struct peer_waiter){.done = done, .arg = arg};
    LIST_INSERT_HEAD(&q->waiters, w, link);
    return w;
}

void peer_waiter_cancel(struct peer_waiter *w)
{
    LIST_REMOVE(w, link);
    free(w);
}

/* -- Life ---------------------------------------------------------------------------------------------- */

struct peer_traces *peer_traces_new(struct event_base *base, struct peers *peers, struct catalog *catalog)
{
    struct peer_traces *t = xcalloc(1, sizeof(*t));

    *t = (struct peer_traces){.base = base, .peers = peers, .catalog = catalog};
    LIST_INIT(&t->questions);
    return t;
}

struct peer_traces *peer_traces_free(struct peer_traces *t)
{
    struct peer_question *q;

    if (!t)
        return NULL;
    while ((q = LIST_FIRST(&t->questions))) {
        LIST_REMOVE(q, link);
        q->all = NULL;
        /* Without its timer, it waits for the commit, which frees it. */
        if (q->timer)
            question_free(q);
    }
    for (size_t i = 0; i < ASKED_MAX; i++)
        asked_done(&t->asked[i]);
    free(t);
    return NULL;
}
