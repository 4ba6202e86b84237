/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of fleets as server-sent events: a looker of daemon/fleet/watch.h for each stream. Nothing is stored, and a
 * client with unread output misses events instead of making profd keep them.
 */
#include "base/alloc.h"
#include "daemon/api/handler.h"
#include "daemon/fleet/watch.h"
#include "daemon/session/sessions.h"
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <sys/queue.h>

#define COMMENT_INTERVAL_NS (15 * NS_PER_S)

struct fleet_stream {
    LIST_ENTRY(fleet_stream) next;
    struct fleet_streams *all;
    struct http_request *request;
    struct fleet_looker *looker;
};

struct fleet_streams {
    struct api *api;
    struct fleet_watches *watches;
    json_t *sessions; /* by the URLs of workers: the session that records it */
    struct event *comment;
    LIST_HEAD(, fleet_stream) streams;
};

/* -- Which workers are recorded ------------------------------------------------------------------------ */

static void fleet_streams_find_sessions(void *arg)
{
    struct fleet_streams *all = arg;
    const struct live_job *job;

    json_object_clear(all->sessions);
    TAILQ_FOREACH(job, &sessions_jobs(all->api->modules.sessions)->list, next) {
        const struct session *s = (const struct session *)job;
        if (job->is_over)
            continue;
        _cleanup_(freep) char *ref = xasprintf("s%" PRId64, job->id);
        for (size_t i = 0; i < s->n_targets; i++)
            if (!state_is_final(s->targets[i].record.state))
                json_put_str(all->sessions, s->targets[i].worker.url, ref);
    }
}

static const char *fleet_streams_session_of(const char *url, void *arg)
{
    const struct fleet_streams *all = arg;
    return json_get_str(all->sessions, url);
}

/* -- Streams ------------------------------------------------------------------------------------------- */

static void fleet_stream_on_event(const char *data, void *arg)
{
    const struct fleet_stream *s = arg;
    static const char begin[] = "event: fleet\ndata: ", end[] = "\n\n";

    /* Of a client that has not read the event before, the next one is of more use. One that is gone or dropped leaves by
     * its on_close function. */
    if (http_stream_waiting(s->request) > 0)
        return;
    _cleanup_(freep) char *text = xasprintf("%s%s%s", begin, data, end);
    http_stream_write(s->request, text, strlen(text));
}

/* Proxies and clients give up connections that are silent, as during a discovery. A page's token ends at a time: what it opened
 * ends soon after. */
static void fleet_streams_on_comment(evutil_socket_t fd, short what, void *arg)
{
    static const char comment[] = ": still here\n\n";
    struct fleet_streams *all = arg;
    struct fleet_stream *s;

    fleet_streams_recheck(all);
    LIST_FOREACH(s, &all->streams, next)
        if (http_stream_waiting(s->request) == 0)
            http_stream_write(s->request, comment, sizeof(comment) - 1);
}

static void fleet_stream_end(struct fleet_stream *s)
{
    struct fleet_streams *all = s->all;

    fleet_look_end(s->looker);
    LIST_REMOVE(s, next);
    free(s);
    if (LIST_EMPTY(&all->streams))
        event_del(all->comment);
}

static void fleet_stream_on_close(struct http_request *r, void *arg)
{
    fleet_stream_end(arg);
}

static void fleet_stream_begin(struct fleet_streams *all, struct http_request *r,
                               const struct fleet_query *queries, size_t n)
{
    const struct timeval interval = timeval_of(COMMENT_INTERVAL_NS);
    struct fleet_stream *s = xcalloc(1, sizeof(*s));

    *s = (struct fleet_stream){.all = all, .request = r};
    http_on_close(r, fleet_stream_on_close, s);
    http_reply_header(r, "Cache-Control", "no-store");
    http_stream_begin(r, "text/event-stream");
    if (LIST_EMPTY(&all->streams))
        event_add(all->comment, &interval);
    LIST_INSERT_HEAD(&all->streams, s, next);
    s->looker = fleet_look(all->watches, queries, n, fleet_stream_on_event, s);
}

static bool query_names_nothing(const struct fleet_query *q)
{
    return !q->fleet && !q->router && !q->by.source && q->n_workers == 0 && !q->processes.wanted;
}

void get_fleet_events(struct api *api, struct http_request *r, const struct route_match *match)
{
    const struct fleet_settings *s = api->modules.fleet_settings;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(fleet_query_done) struct fleet_query q = {0};
    _cleanup_(freep) struct fleet_query *configured = xcalloc(MAX(s->n_fleets, 1u), sizeof(*configured));

    int err = request_fleet_query(r, &q, &p);
    bool all = err == 0 && query_names_nothing(&q) && s->n_fleets > 0;
    /* Borrowed: fleet_look() copies. */
    for (size_t i = 0; i < s->n_fleets; i++)
        configured[i] = (struct fleet_query){.fleet = s->fleets[i].name};
    if (err == 0 && !all)
        err = source_complete(api, &q, &p);
    if (err == 0 && q.fleet && !settings_fleet(s, q.fleet))
        err = problem_set(&p, -ENOENT, PROBLEM_NOT_FOUND, "profd.conf has no section [fleet %s]", q.fleet);
    if (err < 0)
        http_reply_problem(r, &p);
    else if (http_method(r) == HTTP_HEAD)
        http_reply(r, 200, "text/event-stream", NULL, 0);
    else
        fleet_stream_begin(api->fleet_streams, r, all ? configured : &q, all ? s->n_fleets : 1);
}

void fleet_streams_recheck(struct fleet_streams *all)
{
    struct route_match match;
    struct fleet_stream *s, *next;

    for (s = LIST_FIRST(&all->streams); s; s = next) {
        struct http_request *r = s->request;
        next = LIST_NEXT(s, next);
        if (route_find(http_method(r), http_path(r), &match, NULL) == 0 &&
            access_holds(all->api->access, r, match.route))
            continue;
        fleet_stream_end(s);
        http_stream_end(r);
    }
}

struct fleet_streams *fleet_streams_new(struct api *api)
{
    const struct api_modules *m = &api->modules;
    struct fleet_streams *all = xcalloc(1, sizeof(*all));

    *all = (struct fleet_streams){.api = api, .sessions = json_object()};
    LIST_INIT(&all->streams);
    all->comment = event_new(m->base, -1, EV_PERSIST, fleet_streams_on_comment, all);
    if (!all->comment ||
        fleet_watches_new(m->base, m->finder, m->caller, m->fleet_settings, &all->watches) < 0)
        abort(); /* as base/alloc.h */
    fleet_watches_set_busy(all->watches, fleet_streams_find_sessions, fleet_streams_session_of, all);
    return all;
}

struct fleet_streams *fleet_streams_free(struct fleet_streams *all)
{
    if (!all)
        return NULL;
    fleet_watches_free(all->watches);
    event_free(all->comment);
    json_decref(all->sessions);
    free(all);
    return NULL;
}
