/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/hosts/peer_traces.h"

#include "base/alloc.h"
#include "base/text.h"
#include "daemon/catalog/catalog.h"
#include "daemon/catalog/records.h"
#include "daemon/hosts/delivery.h"
#include "daemon/peers/peers.h"
#include "proto/names.h"
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <sys/queue.h>

/* Peers that were heard of in this time are not greeted again. */
#define PEERS_AGE_NS (60 * NS_PER_S)
/* Of greeting them, of one answer, and of all answers together. */
#define GREET_NS  (2 * NS_PER_S)
#define ANSWER_NS (2 * NS_PER_S)
#define ASK_NS    (6 * NS_PER_S)
/* Hosts that are asked at a time; questions that are open; questions that are remembered. */
#define ASKS_MAX      64
#define QUESTIONS_MAX 16
#define ASKED_MAX     64
/* Of one host: traces of a session, their facts, and traces that the beginning of a UUID stands for. */
#define HOST_TRACES_MAX      10000
#define HOST_FACTS_BYTES_MAX (INT64_C(32) << 20)
#define HOST_REFS_MAX        8
/* Hosts that an answer names. */
#define MISSING_MAX 64

struct peer_waiter {
    LIST_ENTRY(peer_waiter) link;
    void (*done)(void *arg);
    void *arg;
};

/* What one host is asked. */
struct peer_ask {
    struct peer_question *question;
    char *host_uuid, *host;
    struct peer_query *query; /* NULL: not sent, or answered */
    bool is_over;
    int64_t before;     /* the last trace of its page before; RECORD_NONE: none */
    int64_t session_id; /* the session, as this host calls it; RECORD_NONE: not known yet */
    int64_t n_traces, facts_bytes;
    char uuids[HOST_REFS_MAX][UUID_SIZE]; /* of traces that it is asked for one by one */
    size_t n_uuids, n_read;
    bool lists_hosts; /* it is the coordinator, asked last which hosts have parts of the session */
};

struct peer_question {
    LIST_ENTRY(peer_question) link;
    struct peer_traces *all; /* NULL: profd ends */
    char *word;
    bool is_session;
    char *coordinator; /* of the session */
    json_t *hosts;     /* {UUID: true}: those that have a part, as its coordinator reports; NULL: not known */
    struct peers_refreshing *refreshing;
    struct event *timer;
    struct peer_ask *asks;
    size_t n_asks, n_begun, n_running;
    json_t *missing, *elsewhere;
    LIST_HEAD(, peer_waiter) waiters;
};

struct asked {
    char *word; /* NULL: free */
    bool is_session;
    int64_t at_ns; /* monotonic */
    json_t *missing, *elsewhere;
};

LIST_HEAD(peer_question_list, peer_question);

struct peer_traces {
    struct event_base *base;
    struct peers *peers;
    struct catalog *catalog;
    struct peer_question_list questions;
    size_t n_questions;
    struct asked asked[ASKED_MAX];
    size_t next_asked;
};

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

/* -- Answers ------------------------------------------------------------------------------------------- */

/* A trace that this catalog keeps itself is no other host's. */
static bool trace_is_own(struct catalog *c, const char *uuid)
{
    _cleanup_(trace_record_done) struct trace_record t;
    struct catalog_ref ref;

    trace_record_init(&t);
    return catalog_find_refs(c, uuid, "t", &ref, 1) == 1 && catalog_get_trace(c, ref.id, &t) == 0;
}

/* Checks a trace that the host lists. -ENOENT: it is of another host, and nothing is taken. */
static int ask_check_trace(struct peer_ask *a, const json_t *trace, struct delivered_trace *ret,
                           const char **ret_reason)
{
    const char *session = json_get_str(trace, "session");
    int64_t id;

    *ret = (struct delivered_trace){0};
    if (json_object_get(trace, "host_uuid"))
        return -ENOENT;
    *ret_reason = "another catalog than the one that is known answers there";
    if (!streq(json_get_str(trace, "catalog"), a->host_uuid))
        return -EPROTO;
    *ret_reason = "it listed a trace of another session";
    if (a->question->is_session) {
        if (!session || parse_ref(session, 's', &id) != 's' ||
            (a->session_id != RECORD_NONE && a->session_id != id))
            return -EPROTO;
        a->session_id = id;
    }
    *ret_reason = "it listed a trace without its facts";
    if (delivered_trace_parse(trace, ret) < 0)
        return -EPROTO;
    a->n_traces++;
    a->facts_bytes += (int64_t)strlen(ret->facts);
    *ret_reason = "it listed more traces than a session has";
    return a->n_traces > HOST_TRACES_MAX || a->facts_bytes > HOST_FACTS_BYTES_MAX ? -EFBIG : 0;
}

static int ask_put_trace(const struct peer_ask *a, const struct delivered_trace *d, int64_t session_id)
{
    struct catalog *c = a->question->all->catalog;
    struct remote_trace_record r;

    if (trace_is_own(c, d->uuid))
        return 0;
    remote_trace_record_init(&r);
    r.uuid = (char *)d->uuid;
    r.session_id = session_id;
    r.host_uuid = a->host_uuid;
    r.remote_id = d->remote_id;
    r.recorded_at = d->recorded_at;
    r.facts = d->facts;
    return catalog_put_remote_trace(c, &r);
}

/* All traces of a page, or none. */
static int ask_take_traces(struct peer_ask *a, const json_t *traces, int64_t session_id,
                           const char **ret_reason)
{
    size_t n = json_array_size(traces);
    struct delivered_trace *list = xcalloc(n + 1, sizeof(*list));
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++) {
        r = ask_check_trace(a, json_array_get(traces, i), &list[i], ret_reason);
        r = r == -ENOENT ? 0 : r;
    }
    for (size_t i = 0; i < n && r >= 0; i++) {
        if (!list[i].facts)
            continue;
        r = ask_put_trace(a, &list[i], session_id);
        *ret_reason = "its traces cannot be noted in the catalog of this host";
    }
    for (size_t i = 0; i < n; i++)
        delivered_trace_done(&list[i]);
    free(list);
    return MIN(r, 0);
}

/* A page of the traces of a session. 1: another one follows. */
static int ask_take_page(struct peer_ask *a, const json_t *body, const char **ret_reason)
{
    const json_t *traces = json_object_get(body, "traces");
    const char *next = json_get_str(body, "next");
    struct catalog_ref session;

    *ret_reason = "it sent no list of traces";
    if (!json_is_array(traces) || json_array_size(traces) > DELIVERY_TRACES_MAX)
        return -EPROTO;
    /* It may have been removed meanwhile. */
    if (catalog_find_refs(a->question->all->catalog, a->question->word, "s", &session, 1) != 1)
        return 0;
    int r = ask_take_traces(a, traces, session.id, ret_reason);
    if (r < 0 || !next)
        return r;
    *ret_reason = "its list of traces has no end";
    int64_t before = a->before;
    if (parse_ref(next, 't', &a->before) != 't' || json_array_size(traces) == 0 || a->before == before)
        return -EPROTO;
    return 1;
}

static void ask_take_ref(struct peer_ask *a, const json_t *ref)
{
    const char *name = json_get_str(ref, "ref"), *uuid = json_get_str(ref, "uuid");
    const char *word = a->question->word;
    int64_t id;
    char kind = name ? parse_ref(name, 0, &id) : 0;

    if (!kind || !uuid_is(uuid) || strncmp(uuid, word, strlen(word)) != 0)
        return;
    if (kind == 't' && a->n_uuids < HOST_REFS_MAX)
        snprintf(a->uuids[a->n_uuids++], UUID_SIZE, "%s", uuid);
    else if (kind != 't' && json_array_size(a->question->elsewhere) < MISSING_MAX)
        json_array_append_new(a->question->elsewhere,
                              json_pack("{s:s,s:s,s:s}", "kind", kind == 's' ? "session" : "run", "uuid",
                                        uuid, "host", a->host));
}

/* What the word stands for there: one row, or several. */
static void ask_take_refs(struct peer_ask *a, const json_t *body)
{
    const json_t *candidates = json_object_get(body, "candidates");

    if (!candidates)
        ask_take_ref(a, body);
    for (size_t i = 0; i < MIN(json_array_size(candidates), (size_t)HOST_REFS_MAX); i++)
        ask_take_ref(a, json_array_get(candidates, i));
}

/* One trace that the word stands for. */
static int ask_take_found(struct peer_ask *a, const json_t *body, const char **ret_reason)
{
    _cleanup_json_ traces = json_array();

    *ret_reason = "it sent another trace than was asked for";
    if (!streq(json_get_str(body, "uuid"), a->uuids[a->n_read]))
        return -EPROTO;
    json_array_append(traces, (json_t *)body);
    return ask_take_traces(a, traces, RECORD_NONE, ret_reason);
}

/* Which hosts have parts of the session. A coordinator that says nothing about that has none missed. */
static void ask_take_hosts(struct peer_ask *a, const json_t *body)
{
    struct peer_question *q = a->question;
    const json_t *targets = json_object_get(body, "targets");

    if (!json_is_array(targets))
        return;
    q->hosts = json_object();
    json_object_set_new(q->hosts, a->host_uuid, json_true());
    for (size_t i = 0; i < MIN(json_array_size(targets), (size_t)DELIVERY_TARGETS_MAX); i++) {
        const char *uuid = json_get_str(json_array_get(targets, i), "host_uuid");
        if (uuid_is(uuid))
            json_object_set_new(q->hosts, uuid, json_true());
    }
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

/* 1: more is to be asked. */
static int ask_take_answer(struct peer_ask *a, int status, const json_t *body, const char **ret_reason)
{
    bool is_read = a->n_uuids > 0;
    int r = 0;

    if (a->lists_hosts) {
        ask_take_hosts(a, body);
        return 0;
    }
    if (a->question->is_session) {
        r = ask_take_page(a, body, ret_reason);
        a->lists_hosts = r == 0 && streq(a->host_uuid, a->question->coordinator);
        return a->lists_hosts ? 1 : r;
    }
    if (!is_read) {
        ask_take_refs(a, body);
        return a->n_uuids > 0;
    }
    if (status == 200)
        r = ask_take_found(a, body, ret_reason);
    return r < 0 ? r : ++a->n_read < a->n_uuids;
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
