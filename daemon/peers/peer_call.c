/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls to peers, and the exchanges that measure their clocks. Credentials, TLS and the network policy are those of
 * daemon/fleet/call.h; a peer's own authority is then the only one that is trusted.
 */
#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/fleet/call.h"
#include "daemon/fleet/names.h"
#include "daemon/fleet/url.h"
#include "daemon/peers/internal.h"
#include <errno.h>
#include <inttypes.h>

#define TEXT_MAX 300
#define HTTP_OK  200
/* Of one exchange that measures a clock. */
#define EXCHANGE_TIMEOUT_NS (2 * NS_PER_S)

struct peer_query {
    LIST_ENTRY(peer_query) link;
    struct peers *peers;
    struct call *call;
    char *name, *url; /* of the peer, for problems */
    struct peer_times times;
    peer_done done;
    peer_bytes_done bytes_done; /* of bytes of a file */
    size_t n_bytes;             /* 0: the complete answer */
    peer_file_done file_done;   /* of an answer that goes into a file */
    void *arg;
};

static void peer_query_free(struct peer_query *q)
{
    LIST_REMOVE(q, link);
    free(q->name);
    free(q->url);
    free(q);
}

/* -- Problems ----------------------------------------------------------------------------------------- */

static void query_explain_silence(const struct peer_query *q, const struct call_result *r, struct problem *p)
{
    char text[TEXT_MAX], now[UNIT_TEXT_MAX];
    bool tls = r->err == -EPROTO || r->err == -EKEYREJECTED || (r->error && strstr(r->error, "certificate"));

    problem_set(p, r->err, PROBLEM_UPSTREAM, "the profd of %s (%s) does not answer: %s", q->name, q->url,
                call_result_text(r, text, sizeof(text)));
    if (r->remedy)
        problem_remedy(p, "%s", r->remedy);
    else if (r->error && (strstr(r->error, "not yet valid") || strstr(r->error, "has expired")))
        problem_remedy(p,
                       "By the clock of this host it is %s. If that is wrong, correct it (timedatectl); "
                       "otherwise issue the certificate of %s anew, with a clock that is right.",
                       format_time(now, wall_ns()), q->name);
    else if (tls)
        problem_remedy(p, "Set ca_file= of [hosts], or of its [peer NAME], to the authority that signed its "
                          "certificate, which must have the host of its URL as an alternative name.");
    else if (r->err == -EACCES)
        problem_remedy(p, "Correct the file, its permissions, or the key in profd.conf.");
    else
        problem_remedy(p,
                       "Check on %s that profd runs (systemctl status profd) and that [profd] listen= has "
                       "the address and port of the URL.",
                       q->name);
}

static const char *query_remedy(const struct peer_query *q, int status)
{
    switch (status) {
    case 401:
        return "Its tokens file must have the token that this profd sends. profctl peer join prints a new "
               "token for "
               "both sides: add its line to the tokens file, or put it in place of the line of the same "
               "name.";
    case 403:
        return "The role of the token must be peer, and [http] host= of its profd.conf must have the name in "
               "the URL: profctl peer join prints both sides.";
    case 404:
        return "It was removed there, or profd there is too old for this request: profctl list-hosts shows "
               "its version.";
    case 429:
        return "Wait: wrong tokens were sent from this address.";
    default:
        return "Read the log of that profd: journalctl -u profd.";
    }
}

/* An answer with an error: its own words, with the host that they are of. */
static void query_explain_refusal(const struct peer_query *q, const struct call_result *r, const json_t *body,
                                  struct problem *p)
{
    const char *detail = json_get_str(body, "detail"), *code = json_get_str(body, "code");
    const char *remedy = json_get_str(body, "remedy");
    char text[TEXT_MAX];

    problem_set(p, -EREMOTEIO, code ? problem_kind_of(code) : PROBLEM_UPSTREAM, "%s: %s", q->name,
                detail ? detail : call_result_text(r, text, sizeof(text)));
    bool is_access = r->status == 401 || r->status == 403 || r->status == 404 || !remedy;
    problem_remedy(p, "%s", is_access ? query_remedy(q, r->status) : remedy);
}

static void query_explain(const struct peer_query *q, const struct call_result *r, const json_t *body,
                          const char *error, struct problem *p)
{
    if (r->err != 0)
        query_explain_silence(q, r, p);
    else if (r->status < 200 || r->status >= 300)
        query_explain_refusal(q, r, body, p);
    else if (r->cut)
        problem_set(p, -EMSGSIZE, PROBLEM_UPSTREAM, "%s: the answer is longer than %d MiB", q->name,
                    PEER_ANSWER_MAX >> 20);
    else if (!body)
        problem_set(p, -EPROTO, PROBLEM_UPSTREAM, "%s: the answer is not JSON: %s", q->name, error);
}

/* Whether the peer answers, for whoever asks next. A call that failed here, for the want of a token, counts as well. */
static void query_note(const struct peer_query *q, const struct call_result *r, const struct problem *p)
{
    struct peer *peer;

    LIST_FOREACH(peer, &q->peers->peers, link) {
        if (!streq(peer->url, q->url))
            continue;
        if (r->err == 0) {
            peer->answered_mono_ns = mono_ns();
            peer->silent_mono_ns = 0;
            /* Whether a hello is of the same host is decided when it is read. */
            if (peer->host_uuid && (q != peer->hello_query || r->status >= 300))
                peer->seen_at = wall_ns();
            continue;
        }
        peer->silent_mono_ns = mono_ns();
        problem_done(&peer->silence);
        problem_copy(&peer->silence, r->err, PROBLEM_UNREACHABLE, p);
    }
}

bool peer_has_answered(const struct peer *peer, int64_t age_ns)
{
    return peer->answered_mono_ns > 0 && peer->silent_mono_ns == 0 &&
           mono_ns() - peer->answered_mono_ns < age_ns;
}

const struct problem *peer_silence(const struct peer *peer, int64_t age_ns)
{
    bool is_silent = peer->silent_mono_ns > 0 && mono_ns() - peer->silent_mono_ns < age_ns;
    return is_silent ? &peer->silence : NULL;
}

/* -- Calls -------------------------------------------------------------------------------------------- */

static void query_on_result(const struct call_result *r, void *arg)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ body = NULL;
    struct peer_query *q = arg;
    char error[200] = "it is empty";

    q->call = NULL;
    if (r->err == 0 && !r->cut && r->body_size > 0)
        body = json_parse(r->body, r->body_size, error);
    if (body)
        json_clean_texts(body);
    query_explain(q, r, body, error, &p);
    query_note(q, r, &p);
    q->times = (struct peer_times){r->sent_mono_ns, r->err == 0 ? r->answered_mono_ns : 0, r->address};
    q->peers->n_failures += p.kind != PROBLEM_NONE;
    q->done(r->err == 0 ? r->status : 0, body, p.kind != PROBLEM_NONE ? &p : NULL, q->arg);
    peer_query_free(q);
}

/* Where its certificate has another name than its address, it is called by that name, at the address. */
static char *peer_call_url(const struct peer *peer, const char *path, struct in6_addr *ret_address)
{
    const char *reason;
    struct url u;

    if (!peer->verify || url_parse(peer->url, &u, &reason) < 0 || !address_of_host(u.host, ret_address))
        return url_join(peer->url, path);
    return xasprintf("%s://%s:%d%s", u.scheme, peer->verify, u.port, path);
}

/* range: of bytes, or NULL. Its done function is set by the caller, and called by on_result(). */
static struct peer_query *peer_query_start(struct peers *p, const struct peer *peer, const char *method,
                                           const char *path, const char *body, const char *range,
                                           const struct call_sink *sink, int64_t timeout_ns, uint64_t origin,
                                           void (*on_result)(const struct call_result *r, void *arg),
                                           void *arg)
{
    struct peer_query *q = xcalloc(1, sizeof(*q));
    struct in6_addr address;
    _cleanup_(freep) char *url = peer_call_url(peer, path, &address);
    /* Borrowed for the time of call_start(). */
    struct call_credentials credentials = *hosts_credentials(p->settings, peer->config);

    credentials.ca_alone = credentials.ca_file;
    const struct call_request request = {
        .method = method,
        .url = url,
        .address = peer->verify ? &address : NULL,
        .body = body,
        .range = range,
        .credentials = &credentials,
        .deadline_ns = mono_ns() + (timeout_ns > 0 ? timeout_ns : p->settings->call_ns),
        .answer_max = PEER_ANSWER_MAX,
        .sink = sink,
        .origin = origin,
        .account = names_origin(peer->url),
    };
    *q = (struct peer_query){.peers = p,
                             .name = xstrdup(peer->hello.host ? peer->hello.host : peer->name),
                             .url = xstrdup(peer->url),
                             .arg = arg};
    LIST_INSERT_HEAD(&p->queries, q, link);
    p->n_calls++;
    q->call = call_start(p->caller, &request, on_result, q);
    return q;
}

struct peer_query *peer_call(struct peers *p, const struct peer *peer, const char *method, const char *path,
                             const char *body, int64_t timeout_ns, uint64_t origin, peer_done done, void *arg)
{
    struct peer_query *q =
        peer_query_start(p, peer, method, path, body, NULL, NULL, timeout_ns, origin, query_on_result, arg);

    q->done = done;
    return q;
}

struct peer_query *peer_post(struct peers *p, const struct peer *peer, const char *path, json_t *take_body,
                             int64_t timeout_ns, peer_done done, void *arg)
{
    _cleanup_json_ body = take_body;
    _cleanup_(freep) char *text = json_dumps(body, JSON_COMPACT);

    return peer_call(p, peer, "POST", path, text, timeout_ns, 0, done, arg);
}

struct peer_query *peer_get(struct peers *p, const struct peer *peer, const char *path, int64_t timeout_ns,
                            peer_done done, void *arg)
{
    return peer_call(p, peer, "GET", path, NULL, timeout_ns, 0, done, arg);
}

/* -- Bytes of a file -- */

static void bytes_on_result(const struct call_result *r, void *arg)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct peer_query *q = arg;
    char error[200];
    bool is_there = r->err == 0 && (q->n_bytes > 0 ? r->status == 206 && r->body_size == q->n_bytes
                                                   : r->status == 200 && !r->cut);

    q->call = NULL;
    if (!is_there) {
        _cleanup_json_ body =
            r->err == 0 && r->status >= 400 ? json_parse(r->body, r->body_size, error) : NULL;
        if (body)
            json_clean_texts(body);
        if (r->err != 0 || r->status >= 300 || r->cut)
            query_explain(q, r, body, "", &p);
        else
            problem_set(&p, -EPROTO, PROBLEM_UPSTREAM, "%s sent another part of the file than was asked for",
                        q->name);
    }
    query_note(q, r, &p);
    q->peers->n_failures += !is_there;
    q->bytes_done(r->err == 0 ? r->status : 0, is_there ? r->body : NULL, is_there ? r->body_size : 0,
                  is_there ? NULL : &p, q->arg);
    peer_query_free(q);
}

struct peer_query *peer_get_bytes(struct peers *p, const struct peer *peer, const char *path, int64_t offset,
                                  size_t size, int64_t timeout_ns, peer_bytes_done done, void *arg)
{
    _cleanup_(freep) char *range = xasprintf("%" PRId64 "-%" PRId64, offset, offset + (int64_t)size - 1);
    struct peer_query *q =
        peer_query_start(p, peer, "GET", path, NULL, range, NULL, timeout_ns, 0, bytes_on_result, arg);

    q->bytes_done = done;
    q->n_bytes = size;
    return q;
}

struct peer_query *peer_get_all(struct peers *p, const struct peer *peer, const char *path,
                                int64_t timeout_ns, peer_bytes_done done, void *arg)
{
    struct peer_query *q =
        peer_query_start(p, peer, "GET", path, NULL, NULL, NULL, timeout_ns, 0, bytes_on_result, arg);

    q->bytes_done = done;
    return q;
}

/* -- Answers as files -- */

static void file_explain(const struct peer_query *q, const struct call_result *r, struct problem *p)
{
    _cleanup_json_ body = NULL;
    char error[200];

    if (r->err == 0 && r->status == HTTP_OK && r->sink_err < 0) {
        problem_set(p, r->sink_err, PROBLEM_STORAGE, "cannot keep the answer of %s: %s", q->name,
                    strerror(-r->sink_err));
    } else if (r->err == 0 && r->status == HTTP_OK && r->cut) {
        problem_remedy(p, "Free space on the disk of the catalog, or use profctl on %s.", q->name);
        problem_set(p, -ENOSPC, PROBLEM_STORAGE,
                    "the answer of %s is larger than the space that was reserved for it", q->name);
    } else if (r->err == 0 && r->status < 300) {
        problem_set(p, -EPROTO, PROBLEM_UPSTREAM, "%s sent no file (status %d)", q->name, r->status);
    } else {
        body = r->err == 0 ? json_parse(r->body, r->body_size, error) : NULL;
        if (body)
            json_clean_texts(body);
        query_explain(q, r, body, "", p);
    }
}

static void file_on_result(const struct call_result *r, void *arg)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct peer_query *q = arg;
    bool is_there = r->err == 0 && r->status == HTTP_OK && !r->cut;

    q->call = NULL;
    if (!is_there)
        file_explain(q, r, &p);
    query_note(q, r, &p);
    q->peers->n_failures += !is_there;
    q->file_done(r->err == 0 ? r->status : 0, is_there ? r->sunk : -1, is_there ? NULL : &p, q->arg);
    peer_query_free(q);
}

struct peer_query *peer_get_file(struct peers *p, const struct peer *peer, const char *path, int fd,
                                 int64_t size_max, int64_t timeout_ns, peer_file_done done, void *arg)
{
    const struct call_sink sink = {.fd = fd, .size_max = size_max};
    struct peer_query *q =
        peer_query_start(p, peer, "GET", path, NULL, NULL, &sink, timeout_ns, 0, file_on_result, arg);

    q->file_done = done;
    return q;
}

void peer_query_cancel(struct peer_query *q)
{
    if (!q)
        return;
    call_cancel(q->call);
    peer_query_free(q);
}

struct peer_times peer_query_times(const struct peer_query *q)
{
    return q->times;
}

/* -- Clocks ------------------------------------------------------------------------------------------- */

struct clock_measuring {
    LIST_ENTRY(clock_measuring) link;
    struct peers *peers;
    char *url; /* finds the peer again */
    struct peer_query *query;
    struct clock_sample samples[CLOCK_EXCHANGES_MAX];
    unsigned n, n_wanted, n_asked;
    struct clock_estimate estimate;
    void (*done)(const struct clock_estimate *e, const struct problem *problem, void *arg);
    void *arg;
};

static void clock_measuring_free(struct clock_measuring *m)
{
    LIST_REMOVE(m, link);
    free(m->url);
    free(m);
}

void clock_measuring_cancel(struct clock_measuring *m)
{
    if (!m)
        return;
    peer_query_cancel(m->query);
    clock_measuring_free(m);
}

static struct peer *clock_peer(const struct clock_measuring *m)
{
    struct peer *peer;

    LIST_FOREACH(peer, &m->peers->peers, link) {
        if (streq(peer->url, m->url))
            return peer;
    }
    return NULL;
}

static void clock_finish(struct clock_measuring *m, const struct problem *p)
{
    struct peer *peer = clock_peer(m);

    if (!p && peer) {
        if (peer->clock.measured_mono_ns == 0)
            peer->saved_mono_ns = 0;
        peer->clock = m->estimate;
        if (peer->host_uuid)
            peer_save(peer);
    }
    m->done(p ? NULL : &m->estimate, p, m->arg);
    clock_measuring_free(m);
}

static void clock_fail(struct clock_measuring *m, const char *what)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -EPROTO, PROBLEM_UPSTREAM, "the clock of %s cannot be measured: %s", m->url, what);
    clock_finish(m, &p);
}

static void clock_exchange(struct clock_measuring *m);

/* The samples of one boot of the host: its monotonic clock begins anew with each. */
static void clock_take(struct clock_measuring *m, const struct clock_sample *s,
                       const struct clock_estimate *facts)
{
    if (m->n > 0 && !streq(m->estimate.boot_id, facts->boot_id))
        m->n = 0;
    m->estimate = *facts;
    m->samples[m->n++] = *s;
}

static void clock_on_answer(int status, const json_t *body, const struct problem *p, void *arg)
{
    struct clock_measuring *m = arg;
    const struct peer_times times = peer_query_times(m->query);
    struct clock_estimate facts = {0};
    struct clock_sample s = {.t0 = times.sent_mono_ns, .t3 = times.answered_mono_ns};

    m->query = NULL;
    if (p) {
        clock_finish(m, p);
        return;
    }
    if (peer_clock_parse(body, &s, &facts) < 0) {
        clock_fail(m, "the answer has no readings");
        return;
    }
    s.own_wall_ns = wall_ns() - mono_ns();
    clock_take(m, &s, &facts);
    if (m->n < m->n_wanted)
        clock_exchange(m);
    else if (clock_estimate(m->samples, m->n, &m->estimate) < 0)
        clock_fail(m, "its readings contradict each other");
    else
        clock_finish(m, NULL);
}

static void clock_exchange(struct clock_measuring *m)
{
    const struct peer *peer = clock_peer(m);

    if (!peer)
        clock_fail(m, "it is no peer any more");
    else if (++m->n_asked > 2 * CLOCK_EXCHANGES_MAX)
        clock_fail(m, "each of its answers is of another boot");
    else
        m->query = peer_get(m->peers, peer, "/v1/host/clock", EXCHANGE_TIMEOUT_NS, clock_on_answer, m);
}

struct clock_measuring *peer_measure_clock(struct peers *p, const struct peer *peer, unsigned n,
                                           void (*done)(const struct clock_estimate *e,
                                                        const struct problem *problem, void *arg),
                                           void *arg)
{
    struct clock_measuring *m = xcalloc(1, sizeof(*m));

    *m = (struct clock_measuring){.peers = p,
                                  .url = xstrdup(peer->url),
                                  .n_wanted = MIN(MAX(n, 1u), (unsigned)CLOCK_EXCHANGES_MAX),
                                  .done = done,
                                  .arg = arg};
    LIST_INSERT_HEAD(&p->measurings, m, link);
    clock_exchange(m);
    return m;
}
