/* SPDX-License-Identifier: Apache-2.0 */
/* The archive: its state, and what the doctor finds wrong with it. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/api/handler.h"
#include "daemon/archive/archiver.h"
#include "daemon/catalog/uploads.h"
#include "daemon/fleet/doctor.h"
#include <event2/event.h>
#include <inttypes.h>

/* A trace that waits longer for the archive is reported. */
#define LAG_WARN_NS (3600 * NS_PER_S)
/* How long a client that shows progress waits for an answer. */
#define FETCH_POLL_NS NS_PER_S

void get_archive(struct api *api, struct http_request *r, const struct route_match *match)
{
    http_reply_json(r, 200, archiver_to_json(api->modules.archiver));
}

/* -- Fetching ----------------------------------------------------------------------------------------- */

struct trace_fetch {
    struct later_reply *later;
    void (*handler)(struct api *api, struct http_request *r, const struct route_match *match);
};

static void trace_fetch_on_done(const struct problem *p, void *arg)
{
    _cleanup_(freep) struct trace_fetch *f = arg;
    struct later_reply v;

    if (!later_reply_end(f->later, &v))
        return;
    if (p)
        http_reply_problem(v.request, p);
    else
        f->handler(v.api, v.request, &v.match);
}

bool trace_fetch_then(struct api *api, struct http_request *r, const struct route_match *match,
                      const struct trace_record *t, bool columns,
                      void (*handler)(struct api *api, struct http_request *r,
                                      const struct route_match *match))
{
    struct trace_fetch *f;

    if (!trace_is_archived_only(t) || (columns && t->columns))
        return false;
    f = xcalloc(1, sizeof(*f));
    *f = (struct trace_fetch){later_reply_new(api, r, match), handler};
    archiver_fetch(api->modules.archiver, t->trace_id, columns, trace_fetch_on_done, f);
    return true;
}

/* One request of a client that shows progress: it is answered when the trace is there, or after FETCH_POLL_NS. */
struct fetch_poll {
    struct later_reply *later; /* NULL: answered; the fetch goes on */
    struct event *timer;
    int64_t size;
};

static void fetch_reply(const struct later_reply *v, int status, const char *state, int64_t bytes,
                        int64_t size)
{
    json_t *j = json_object();

    json_put_str(j, "state", state);
    json_put_int(j, "bytes", bytes);
    json_put_int(j, "size", size);
    http_reply_json(v->request, status, j);
}

static void fetch_poll_on_done(const struct problem *p, void *arg)
{
    struct fetch_poll *f = arg;
    struct later_reply v;

    if (f->later && later_reply_end(f->later, &v)) {
        if (p)
            http_reply_problem(v.request, p);
        else
            fetch_reply(&v, 200, "stored", f->size, f->size);
    }
    event_free(f->timer);
    free(f);
}

static void fetch_poll_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct fetch_poll *f = arg;
    struct later_reply v;

    if (later_reply_end(TAKE_PTR(f->later), &v))
        fetch_reply(&v, 202, "fetching",
                    MAX(archiver_fetched_bytes(v.api->modules.archiver, v.match.id), INT64_C(0)), f->size);
}

void fetch_trace(struct api *api, struct http_request *r, const struct route_match *match)
{
    static const struct timeval poll = {.tv_sec = FETCH_POLL_NS / NS_PER_S};
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(problem_done) struct problem p = {0};
    struct fetch_poll *f;
    bool columns = false;

    trace_record_init(&t);
    if (query_bool(r, "columns", &columns, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    if (reply_failure(api, r, catalog_get_trace(api->modules.catalog, match->id, &t), 't', match->id, "read"))
        return;
    f = xcalloc(1, sizeof(*f));
    *f = (struct fetch_poll){.later = later_reply_new(api, r, match),
                             .timer = event_new(api->modules.base, -1, 0, fetch_poll_on_timer, f),
                             .size = t.size};
    event_add(f->timer, &poll);
    archiver_fetch(api->modules.archiver, match->id, columns, fetch_poll_on_done, f);
}

/* -- Restoring ---------------------------------------------------------------------------------------- */

static void restore_on_done(json_t *take_answer, const struct problem *p, void *arg)
{
    struct later_reply v;

    if (!later_reply_end(arg, &v))
        json_decref(take_answer);
    else if (p)
        http_reply_problem(v.request, p);
    else
        http_reply_json(v.request, 200, take_answer);
}

static void restore_on_close(void *work)
{
    archiver_restore_cancel(work);
}

void restore_archive(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ body = NULL;

    if (body_object(r, &body, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    json_t *after = json_object_get(body, "after");
    if (json_object_size(body) != (after ? 1 : 0) || (after && !json_is_string(after))) {
        reply_refused(r, PROBLEM_BAD_REQUEST, NULL, "a restore takes \"after\" only, a text");
        return;
    }
    if (!archiver_is_configured(api->modules.archiver)) {
        reply_refused(r, PROBLEM_CONFLICT, "Set [archive] url= in profd.conf to the archive that has them.",
                      "no archive is configured");
        return;
    }
    struct later_reply *later = later_reply_new(api, r, match);
    later->work = archiver_restore(api->modules.archiver, json_string_value(after), restore_on_done, later);
    later->cancel = restore_on_close;
    struct later_reply v;
    if (!later->work && later_reply_end(later, &v))
        reply_refused(
            v.request, PROBLEM_CONFLICT,
            "Set credentials that may read: [archive] credentials_file= or reader_credentials_file=.",
            "the archive cannot be read");
}

/* -- The doctor --------------------------------------------------------------------------------------- */

struct archive_check {
    struct api *api;
    struct checks *checks;
    void (*done)(void *arg);
    void *arg;
};

static void archive_check_lag(struct archive_check *k, const char *address)
{
    struct archiver *a = k->api->modules.archiver;
    char bytes[UNIT_TEXT_MAX], age[UNIT_TEXT_MAX];
    const struct problem *p = archiver_problem(a);
    struct archiver_metrics m;

    archiver_metrics(a, &m);
    bool is_late = m.waiting_files > 0 && m.lag_ns > LAG_WARN_NS;
    if (p)
        checks_add(k->checks, CHECK_FAIL, NULL, p->remedy, "%s", p->what);
    checks_add(k->checks, is_late ? CHECK_WARN : CHECK_OK, NULL,
               is_late ? "Raise [archive] rate= or transfers=; GET /v1/archive lists the uploads." : NULL,
               m.waiting_files > 0 ? "the archive %s%s%s answers; %" PRId64
                                     " traces (%s) wait for it, the oldest for %s"
                                   : "the archive %s%s%s answers and has all traces of the store",
               archiver_name(a), *address ? " at " : "", address, m.waiting_files,
               format_size(bytes, m.waiting_bytes), format_duration(age, m.lag_ns));
}

static void archive_check_on_probe(const struct archiver_probe *probe, void *arg)
{
    struct archive_check *k = arg;

    if (probe->problem)
        checks_add(k->checks, CHECK_FAIL, NULL, probe->problem->remedy, "%s%s%s", probe->problem->what,
                   *probe->address ? "; its address is " : "", probe->address);
    else
        archive_check_lag(k, probe->address);
    k->done(k->arg);
    free(k);
}

void archive_check_add(struct api *api, struct checks *c, void (*done)(void *arg), void *arg)
{
    struct archive_check *k;

    if (!archiver_is_configured(api->modules.archiver)) {
        done(arg);
        return;
    }
    k = xcalloc(1, sizeof(*k));
    *k = (struct archive_check){.api = api, .checks = c, .done = done, .arg = arg};
    archiver_probe(api->modules.archiver, archive_check_on_probe, k);
}
