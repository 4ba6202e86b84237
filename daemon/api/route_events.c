/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes as server-sent events.
 *
 * A stream is a position in the catalog's audit log: what was committed after it is read from there in pages,
 * whether it is history that a client asks for or something that happened this moment. The next page is read
 * when the client has read most of the one before: a burst of a thousand workers reaches a client as fast as
 * it reads, profd keeps little for one that reads slowly, and nothing is sent that might still be rolled
 * back.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/api/handler.h"
#include "daemon/api/routes.h"
#include "daemon/catalog/records.h"
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <sys/queue.h>

#define COMMENT_INTERVAL_NS (15 * NS_PER_S)
#define PAGE_EVENTS         200
#define PAGE_INTERVAL_NS    (10 * NS_PER_MS)
/* Bytes that wait for a client before its next event is written: well below what drops it. */
#define WAITING_MAX (64 << 10)
/* Between two checks of whether a client with unread output has read it. */
#define BEHIND_INTERVAL_NS (50 * NS_PER_MS)

struct event_subscriber {
    LIST_ENTRY(event_subscriber) next;
    struct event_hub *hub;
    struct http_request *request;
    int64_t session_id, run_id; /* whose events it wants; RECORD_NONE: all */
    int64_t last_id;            /* sent, or before the first to send */
    bool dropped;               /* its end is on its way */
};

struct event_hub {
    struct api *api;
    LIST_HEAD(, event_subscriber) streams;
    struct event *pump, *comment;
    int64_t pump_at_ns;   /* monotonic, where the pump is pending */
    int64_t committed_id; /* the newest event that is sure */
};

static bool stream_is_behind(const struct event_subscriber *s)
{
    return http_stream_waiting(s->request) >= WAITING_MAX;
}

/* Events that are not kept have no id, so a client that reconnects does not get them again. */
static void stream_write(struct event_subscriber *s, const json_t *event, int64_t id)
{
    _cleanup_(freep) char *data = json_dumps(event, JSON_COMPACT);
    _cleanup_(freep) char *number = id > 0 ? xasprintf("id: %" PRId64 "\n", id) : xstrdup("");
    _cleanup_(freep) char *text =
        xasprintf("%sevent: %s\ndata: %s\n\n", number, json_get_str(event, "kind"), data);

    if (http_stream_write(s->request, text, strlen(text)) < 0)
        s->dropped = true;
}

/* Until it is to be pumped again; DEADLINE_NEVER: not before something happens. */
static int64_t stream_pump(struct event_subscriber *s)
{
    _cleanup_json_ events = NULL;
    json_t *event;
    size_t i;

    if (s->dropped || s->last_id >= s->hub->committed_id)
        return DEADLINE_NEVER;
    if (stream_is_behind(s))
        return BEHIND_INTERVAL_NS;
    if (catalog_events_json(s->hub->api->modules.catalog, s->session_id, s->run_id, s->last_id, PAGE_EVENTS,
                            &events) < 0)
        return DEADLINE_NEVER;
    json_array_foreach(events, i, event) {
        int64_t id = json_get_int(event, "event_id", 0);
        if (id > s->hub->committed_id)
            return DEADLINE_NEVER;
        if (stream_is_behind(s))
            return BEHIND_INTERVAL_NS;
        s->last_id = id;
        stream_write(s, event, id);
        if (s->dropped)
            return DEADLINE_NEVER;
    }
    return json_array_size(events) == PAGE_EVENTS ? PAGE_INTERVAL_NS : DEADLINE_NEVER;
}

/* A pump that is planned earlier stays so. */
static void hub_schedule_pump(struct event_hub *h, int64_t delay_ns)
{
    struct timeval tv = timeval_of(delay_ns);
    int64_t at_ns = mono_ns() + delay_ns;

    if (evtimer_pending(h->pump, NULL) && h->pump_at_ns <= at_ns)
        return;
    h->pump_at_ns = at_ns;
    evtimer_add(h->pump, &tv);
}

static void hub_on_pump(evutil_socket_t fd, short what, void *arg)
{
    struct event_hub *h = arg;
    struct event_subscriber *s;
    int64_t delay_ns = DEADLINE_NEVER;

    LIST_FOREACH(s, &h->streams, next) {
        int64_t wanted_ns = stream_pump(s);
        delay_ns = MIN(delay_ns, wanted_ns);
    }
    if (delay_ns != DEADLINE_NEVER)
        hub_schedule_pump(h, delay_ns);
}

/* Proxies and clients give up connections that are silent. A page's token ends at a time: what it opened ends soon after. */
static void hub_on_comment(evutil_socket_t fd, short what, void *arg)
{
    static const char comment[] = ": still here\n\n";
    struct event_hub *h = arg;
    struct event_subscriber *s;

    event_hub_recheck(h);
    LIST_FOREACH(s, &h->streams, next) {
        if (!s->dropped && http_stream_write(s->request, comment, sizeof(comment) - 1) < 0)
            s->dropped = true;
    }
}

static bool stream_wants(const struct event_subscriber *s, const json_t *event)
{
    const char *session = json_get_str(event, "session");
    int64_t session_id = RECORD_NONE;

    if (session)
        parse_ref(session, 's', &session_id);
    return !s->dropped && (s->session_id == RECORD_NONE || s->session_id == session_id) &&
           (s->run_id == RECORD_NONE || s->run_id == json_get_int(event, "run", RECORD_NONE));
}

static void hub_on_event(const json_t *event, void *arg)
{
    struct event_hub *h = arg;
    struct event_subscriber *s;

    if (!json_object_get(event, "event_id")) {
        /* A client with unread output does not get it at all. */
        LIST_FOREACH(s, &h->streams, next)
            if (stream_wants(s, event) && !stream_is_behind(s))
                stream_write(s, event, 0);
        return;
    }
    h->committed_id = MAX(h->committed_id, json_get_int(event, "event_id", 0));
    if (!LIST_EMPTY(&h->streams))
        hub_schedule_pump(h, 0);
}

static void stream_end(struct event_subscriber *s)
{
    struct event_hub *h = s->hub;

    LIST_REMOVE(s, next);
    free(s);
    if (LIST_EMPTY(&h->streams))
        event_del(h->comment);
}

static void stream_on_close(struct http_request *r, void *arg)
{
    stream_end(arg);
}

static void stream_begin(struct event_hub *h, struct http_request *r, int64_t session_id, int64_t run_id,
                         int64_t last_id)
{
    struct timeval interval = timeval_of(COMMENT_INTERVAL_NS);
    struct event_subscriber *s = xcalloc(1, sizeof(*s));

    *s = (struct event_subscriber){
        .hub = h, .request = r, .session_id = session_id, .run_id = run_id, .last_id = last_id};
    http_on_close(r, stream_on_close, s);
    http_reply_header(r, "Cache-Control", "no-store");
    http_stream_begin(r, "text/event-stream");
    if (LIST_EMPTY(&h->streams))
        event_add(h->comment, &interval);
    LIST_INSERT_HEAD(&h->streams, s, next);
    hub_schedule_pump(h, 0);
}

/* The header is what a browser's or a client's reconnect sends, and knows more than the address. */
static int events_read_position(const struct http_request *r, int64_t *ret_after, struct problem *p)
{
    const char *header = http_header(r, "Last-Event-ID");
    char *end;

    if (query_number(r, "after", 0, INT64_MAX, ret_after, p) < 0)
        return -EINVAL;
    if (!header || !*header)
        return 0;
    errno = 0;
    long long id = strtoll(header, &end, 10);
    if (*end || errno || id < 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "Last-Event-ID: %s is no id of an event", header);
    *ret_after = id;
    return 0;
}

void get_events(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(session_record_done) struct session_record session;
    _cleanup_(run_record_done) struct run_record run;
    int64_t session_id = RECORD_NONE, run_id = RECORD_NONE, after = api->hub->committed_id;

    session_record_init(&session);
    run_record_init(&run);
    if (query_ref(api->modules.catalog, r, "session", 's', &session_id, &p) < 0 ||
        query_ref(api->modules.catalog, r, "run", 'r', &run_id, &p) < 0 ||
        events_read_position(r, &after, &p) < 0)
        http_reply_problem(r, &p);
    else if (session_id != RECORD_NONE &&
             catalog_get_session(api->modules.catalog, session_id, &session) == -ENOENT)
        reply_missing(r, 's', session_id);
    else if (run_id != RECORD_NONE && catalog_get_run(api->modules.catalog, run_id, &run) == -ENOENT)
        reply_missing(r, 'r', run_id);
    else if (http_method(r) == HTTP_HEAD)
        http_reply(r, 200, "text/event-stream", NULL, 0);
    else
        stream_begin(api->hub, r, session_id, run_id, after);
}

void event_hub_recheck(struct event_hub *h)
{
    struct route_match match;
    struct event_subscriber *s, *next;

    for (s = LIST_FIRST(&h->streams); s; s = next) {
        struct http_request *r = s->request;
        next = LIST_NEXT(s, next);
        if (s->dropped || (route_find(http_method(r), http_path(r), &match, NULL) == 0 &&
                           access_holds(h->api->access, r, match.route)))
            continue;
        stream_end(s);
        http_stream_end(r);
    }
}

struct event_hub *event_hub_new(struct api *api)
{
    struct event_hub *h = xcalloc(1, sizeof(*h));
    _cleanup_json_ newest = NULL;

    catalog_events_json(api->modules.catalog, RECORD_NONE, RECORD_NONE, RECORD_NONE, 1, &newest);
    *h = (struct event_hub){.api = api,
                            .committed_id = json_get_int(json_array_get(newest, 0), "event_id", 0)};
    LIST_INIT(&h->streams);
    h->pump = evtimer_new(api->modules.base, hub_on_pump, h);
    h->comment = event_new(api->modules.base, -1, EV_PERSIST, hub_on_comment, h);
    catalog_on_event(api->modules.catalog, hub_on_event, h);
    return h;
}

void event_hub_close(struct event_hub *h)
{
    event_free(h->pump);
    event_free(h->comment);
    h->pump = h->comment = NULL;
}

struct event_hub *event_hub_free(struct event_hub *h)
{
    free(h);
    return NULL;
}
