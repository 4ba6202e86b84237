/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What peers answer to a question about traces: pages of a session's traces, what a word stands for, which hosts have parts.
 * Each host speaks for itself and is not trusted: of a page all traces are taken, or none. Checked, they become rows of remote
 * traces. Sends nothing.
 */
#include "daemon/hosts/peer_traces_internal.h"

#include "base/alloc.h"
#include "daemon/catalog/catalog.h"
#include "daemon/catalog/records.h"
#include "daemon/hosts/delivery.h"
#include "proto/names.h"
#include <errno.h>

/* Of one host: traces of a session, and their facts. */
#define HOST_TRACES_MAX      10000
#define HOST_FACTS_BYTES_MAX (INT64_C(32) << 20)

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

int ask_take_answer(struct peer_ask *a, int status, const json_t *body, const char **ret_reason)
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
