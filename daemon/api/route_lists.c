/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of traces, sessions and runs that are searched, sorted or paged by position: a thread finds the rows
 * (daemon/catalog/listing.h), and the loop renders those of one page, some at a time: a page of 1000 sessions counts the traces of
 * each.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/api/handler.h"
#include "daemon/catalog/listing.h"
#include "daemon/catalog/records.h"
#include <errno.h>
#include <inttypes.h>

#define LIST_SLICE_NS (3 * NS_PER_MS) /* of the loop, between two turns of others */

struct list_work {
    struct later_reply *later; /* NULL: the client left */
    struct catalog_reads *reads;
    struct catalog_read read;
    struct listing_request request;
    struct listing listing;
    struct problem problem;
    json_t *rows; /* so far; NULL: the thread has it, or it waits for its turn */
    size_t at;    /* of the next row in the listing */
    struct event *on_turn;
};

/* What makes a list one of these. state= does so where the plain list does not have it. */
static bool list_is_searched(const struct http_request *r, bool has_plain_state)
{
    static const char *const parameters[] = {"search", "sort", "offset", "total", "label"};

    for (size_t i = 0; i < ARRAY_SIZE(parameters); i++)
        if (http_query_get(r, parameters[i]))
            return true;
    return !has_plain_state && http_query_get(r, "state");
}

/* -- The request ----------------------------------------------------------------------------------------- */

static int list_take_labels(const struct http_request *r, struct listing_request *q, struct problem *p)
{
    const char *labels[LISTING_LABELS_MAX];
    size_t n = http_query_all(r, "label", labels, ARRAY_SIZE(labels));

    if (n > ARRAY_SIZE(labels))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "a list is selected by at most %d labels",
                           LISTING_LABELS_MAX);
    for (size_t i = 0; i < n; i++)
        q->labels[q->n_labels++] = xstrdup(labels[i]);
    return 0;
}

static int list_take_total(const struct http_request *r, struct listing_request *q, struct problem *p)
{
    const char *total = http_query_get(r, "total");

    if (total && !streq(total, "yes") && !streq(total, "no"))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "total=%s must be yes or no", total);
    q->wants_total = streq(total, "yes");
    return 0;
}

static int list_take_parameters(struct api *api, const struct http_request *r, char letter,
                                struct listing_request *q, struct problem *p)
{
    struct catalog *c = api->modules.catalog;

    q->path = xstrdup(catalog_path(c));
    q->search = xstrdup(http_query_get(r, "search"));
    q->sort = xstrdup(http_query_get(r, "sort"));
    q->state = xstrdup(http_query_get(r, "state"));
    q->worker_url = xstrdup(http_query_get(r, "worker"));
    q->limit = LIST_LIMIT_DEFAULT;
    /* Of parameters that a route does not have, there are none. */
    if (query_number(r, "limit", 1, LIST_LIMIT_MAX, &q->limit, p) < 0 ||
        query_number(r, "offset", 0, LISTING_OFFSET_MAX, &q->offset, p) < 0 ||
        query_number(r, "since", -INT64_MAX, INT64_MAX, &q->since, p) < 0 ||
        query_number(r, "until", -INT64_MAX, INT64_MAX, &q->until, p) < 0 ||
        query_bool(r, "unclaimed", &q->unclaimed, p) < 0 ||
        query_ref(c, r, "session", 's', &q->session_id, p) < 0 ||
        query_ref(c, r, "before", letter, &q->before_id, p) < 0 || list_take_total(r, q, p) < 0 ||
        list_take_labels(r, q, p) < 0)
        return -EINVAL;
    return listing_request_check(q, p);
}

/* -- Rows ------------------------------------------------------------------------------------------------ */

static int list_render_session(struct api *api, int64_t id, json_t **ret)
{
    int err = jobs_read(sessions_jobs(api->modules.sessions), id, false, ret);

    if (err == 0) {
        json_object_del(*ret, "remarks");
        json_object_del(*ret, "skipped");
    }
    return err;
}

static int list_render_run(struct api *api, int64_t id, json_t **ret)
{
    return catalog_run_row_json(api->modules.catalog, id, ret);
}

static const struct list_kind {
    const char *member;
    char letter;
    bool has_plain_state; /* the plain list is selected by state, too */
    int (*render)(struct api *api, int64_t id, json_t **ret);
} list_kinds[_LISTING_KIND_MAX] = {
    [LISTING_TRACES] = {"traces", 't', false, trace_read_json},
    [LISTING_SESSIONS] = {"sessions", 's', true, list_render_session},
    [LISTING_RUNS] = {"runs", 'r', false, list_render_run},
};

/* Renders until the slice is over: 1 where rows are left. One that was removed meanwhile is left out. */
static int list_render(struct api *api, struct list_work *w)
{
    int64_t end_ns = mono_ns() + LIST_SLICE_NS;

    for (; w->at < w->listing.n && mono_ns() < end_ns; w->at++) {
        json_t *row = NULL;
        int err = list_kinds[w->request.kind].render(api, w->listing.ids[w->at], &row);
        if (err == 0)
            json_array_append_new(w->rows, row);
        else if (err != -ENOENT)
            return err;
    }
    return w->at < w->listing.n;
}

static json_t *list_body(struct api *api, const struct list_work *w)
{
    const struct listing *l = &w->listing;
    const struct list_kind *kind = &list_kinds[w->request.kind];
    struct store_usage usage;
    json_t *body = json_object();

    if (w->request.kind == LISTING_RUNS)
        runs_describe_list(api->modules.runs, w->rows);
    json_object_set(body, kind->member, w->rows);
    if (l->has_more && !w->request.sort) {
        _cleanup_(freep) char *next = xasprintf("%c%" PRId64, kind->letter, l->ids[l->n - 1]);
        json_put_str(body, "next", next);
    }
    if (l->has_more)
        json_put_bool(body, "more", true);
    if (l->total != RECORD_NONE)
        json_put_int(body, "total", l->total);
    if (w->request.kind == LISTING_TRACES && store_usage(api->modules.store, &usage) == 0)
        json_object_set_new(body, "usage", usage_to_json(&usage));
    if (w->request.kind == LISTING_TRACES)
        elsewhere_put_missing(api, w->request.session_id, body);
    return body;
}

/* -- Work ------------------------------------------------------------------------------------------------ */

static void list_work_free(struct list_work *w)
{
    listing_request_done(&w->request);
    listing_done(&w->listing);
    problem_done(&w->problem);
    json_decref(w->rows);
    if (w->on_turn)
        event_free(w->on_turn);
    free(w);
}

static void list_read(void *arg)
{
    struct list_work *w = arg;

    if (!atomic_load(&w->request.is_cancelled))
        listing_read(&w->request, &w->listing, &w->problem);
}

static void list_cancel(void *work)
{
    struct list_work *w = work;

    w->later = NULL;
    atomic_store(&w->request.is_cancelled, true);
    if (w->rows)
        list_work_free(w);
    else
        catalog_reads_cancel(w->reads, &w->read);
}

static void list_go_on(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct list_work *w = arg;
    bool is_refused = w->problem.kind != PROBLEM_NONE;
    int err = is_refused ? 0 : list_render(w->later->api, w);
    struct later_reply later;

    if (err > 0) {
        /* A timer: what is activated without one precedes all others. */
        event_add(w->on_turn, &(struct timeval){0});
        return;
    }
    if (later_reply_end(w->later, &later)) {
        if (is_refused)
            http_reply_problem(later.request, &w->problem);
        else if (err < 0)
            reply_error(later.api, later.request, err, "list the %s", list_kinds[w->request.kind].member);
        else
            http_reply_json(later.request, 200, list_body(later.api, w));
    }
    list_work_free(w);
}

static void list_on_read(void *arg)
{
    struct list_work *w = arg;

    if (!w->later) {
        list_work_free(w);
        return;
    }
    w->rows = json_array();
    w->on_turn = evtimer_new(w->later->api->modules.base, list_go_on, w);
    list_go_on(-1, 0, w);
}

bool list_searched(struct api *api, struct http_request *r, const struct route_match *match,
                   enum listing_kind kind)
{
    const struct list_kind *k = &list_kinds[kind];
    _cleanup_(problem_done) struct problem p = {0};

    if (!list_is_searched(r, k->has_plain_state))
        return false;
    struct list_work *w = xcalloc(1, sizeof(*w));
    listing_request_init(&w->request, kind);
    if (list_take_parameters(api, r, k->letter, &w->request, &p) < 0) {
        http_reply_problem(r, &p);
        list_work_free(w);
        return true;
    }
    _cleanup_(freep) char *user = request_actor(r);
    if (catalog_reads_check(&api->catalog_reads, user, 0, &p) < 0) {
        reply_computation_problem(r, &p);
        list_work_free(w);
        return true;
    }
    w->reads = &api->catalog_reads;
    w->read = (struct catalog_read){.read = list_read, .done = list_on_read, .arg = w};
    w->later = later_reply_new(api, r, match);
    w->later->work = w;
    w->later->cancel = list_cancel;
    catalog_reads_add(w->reads, &w->read, user, 0);
    return true;
}
