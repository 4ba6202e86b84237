/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before a reply: what only other hosts know. A host that took part in a session over several hosts, without coordinating it, asks
 * all others for their traces of it, and each profd asks for a UUID that it does not have (daemon/hosts/peer_traces.h). Then the
 * request is dispatched again, and finds rows. Requests of other profds never lead to questions, so none goes in a circle.
 */
#include "base/alloc.h"
#include "daemon/api/handler.h"
#include "daemon/catalog/records.h"
#include "daemon/hosts/peer_traces.h"
#include "daemon/peers/peers.h"
#include <errno.h>
#include <inttypes.h>

static void elsewhere_on_answered(void *arg)
{
    struct later_reply later;

    if (later_reply_end(arg, &later))
        api_dispatch(later.api, later.request);
}

static void elsewhere_on_close(void *waiter)
{
    peer_waiter_cancel(waiter);
}

static bool elsewhere_ask(struct api *api, struct http_request *r, const struct route_match *match,
                          const char *word, bool is_session)
{
    struct peer_traces_asked asked;

    if (peer_traces_were_asked(api->peer_traces, word, is_session, &asked))
        return false;
    struct later_reply *later = later_reply_new(api, r, match);
    later->work = peer_traces_ask(api->peer_traces, word, is_session, elsewhere_on_answered, later);
    later->cancel = elsewhere_on_close;
    if (later->work)
        return true;
    struct later_reply ended;
    later_reply_end(later, &ended);
    reply_refused(r, PROBLEM_TOO_MANY, "Try again in some seconds.",
                  "too many questions to other hosts are open");
    return true;
}

static bool elsewhere_may_ask(struct api *api, const struct http_request *r)
{
    return http_right(r) != RIGHT_PEER && peers_are_configured(api->modules.peers);
}

/* The UUID of a session that another host coordinates and that is over here; NULL: it is none. The caller frees it. */
static char *elsewhere_part(struct api *api, int64_t session_id)
{
    _cleanup_(session_record_done) struct session_record session;

    session_record_init(&session);
    if (session_id == RECORD_NONE || sessions_find(api->modules.sessions, session_id) ||
        catalog_get_session(api->modules.catalog, session_id, &session) < 0 || !session.coordinator)
        return NULL;
    return xstrdup(session.uuid);
}

bool elsewhere_ask_session(struct api *api, struct http_request *r, const struct route_match *match,
                           int64_t session_id)
{
    _cleanup_(freep) char *uuid = elsewhere_may_ask(api, r) ? elsewhere_part(api, session_id) : NULL;

    return uuid && elsewhere_ask(api, r, match, uuid, true);
}

bool elsewhere_ask_ref(struct api *api, struct http_request *r, const struct route_match *match,
                       const char *word)
{
    return elsewhere_may_ask(api, r) && uuid_is_prefix(word) && elsewhere_ask(api, r, match, word, false);
}

void elsewhere_put_missing(struct api *api, int64_t session_id, json_t *body)
{
    _cleanup_(freep) char *uuid = elsewhere_part(api, session_id);
    struct peer_traces_asked asked;

    if (uuid && peer_traces_were_asked(api->peer_traces, uuid, true, &asked))
        json_object_set(body, "missing_hosts", (json_t *)asked.missing);
}

void elsewhere_explain(struct api *api, const char *word, struct problem *p)
{
    struct peer_traces_asked asked;
    _cleanup_(freep) char *silent = NULL;

    if (!peer_traces_were_asked(api->peer_traces, word, false, &asked))
        return;
    const json_t *first = json_array_get(asked.elsewhere, 0);
    for (size_t i = 0; i < json_array_size(asked.missing); i++)
        append_str(&silent, "%s%s", silent ? ", " : "",
                   json_get_str(json_array_get(asked.missing, i), "host"));
    problem_done(p);
    if (first) {
        const char *host = json_get_str(first, "host");
        problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "%s %s is on %s, and this host has no part of it",
                    json_get_str(first, "kind"), json_get_str(first, "uuid"), host);
        problem_remedy(p, "Use profctl on %s.", host);
        return;
    }
    problem_set(p, -ENOENT, PROBLEM_NOT_FOUND,
                "there is no session, trace or run whose UUID begins with %s, here or on the hosts that "
                "answered%s%s",
                word, silent ? "; no answer of " : "", silent ? silent : "");
    problem_remedy(p, silent ? "profctl list-hosts shows why hosts do not answer."
                             : "profctl list-sessions --columns session,uuid lists them; so do list-traces "
                               "and list-runs.");
}
