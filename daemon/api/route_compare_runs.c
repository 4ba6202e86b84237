/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Benchmark runs compared, as profctl compare does it: the loop reads the runs, and a thread the requests of a side that is one
 * run, by a connection of its own, and computes. Where requests are too many for profd's memory, the figures are compared without
 * their spread.
 */
#include "base/alloc.h"
#include "base/run_compare.h"
#include "daemon/api/handler.h"
#include "daemon/api/report_request.h"
#include "daemon/catalog/records.h"
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>

/* Of each side. */
#define RUNS_MAX          100
#define REQUESTS_MAX      INT64_C(50000)
#define REQUEST_ROW_BYTES 2048 /* of JSON in memory, without gaps */
#define REQUESTS_BYTES    ((size_t)64 << 20)

struct compared_runs {
    json_t *runs;
    int64_t only_id; /* of the only run; RECORD_NONE: there are several */
    json_t *requests;
    size_t bytes;
    bool is_too_large;
};

struct runs_work {
    struct later_reply *later; /* NULL: the client left */
    struct catalog_reads *reads;
    struct catalog_read read;
    char *catalog;
    struct compared_runs a, b;
    int err;
    json_t *result;
    atomic_bool is_cancelled; /* nobody waits for it any more */
};

static void compared_runs_done(struct compared_runs *side)
{
    json_decref(side->runs);
    json_decref(side->requests);
}

static void runs_work_free(struct runs_work *w)
{
    compared_runs_done(&w->a);
    compared_runs_done(&w->b);
    json_decref(w->result);
    free(w->catalog);
    free(w);
}

/* -- On the loop ----------------------------------------------------------------------------------------- */

/* 0, or the reply was given. */
static int compare_add_run(struct api *api, struct http_request *r, const char *ref,
                           struct compared_runs *side)
{
    _cleanup_json_ run = NULL;
    int64_t id;

    if (!ref || parse_ref(ref, 'r', &id) != 'r') {
        reply_refused(r, PROBLEM_BAD_REQUEST, NULL, "\"runs\" must be ids of runs, such as r3");
        return -EINVAL;
    }
    int err = jobs_read(runs_jobs(api->modules.runs), id, true, &run);
    if (reply_failure(api, r, err, 'r', id, "read"))
        return err;
    if (!json_is_object(json_object_get(run, "metrics"))) {
        reply_refused(r, PROBLEM_CONFLICT, "profctl show prints the state of a run.",
                      "r%" PRId64 " has no measurements to compare", id);
        return -EINVAL;
    }
    /* A thread reads it: nothing of it is shared with the loop. */
    json_array_append_new(side->runs, json_deep_copy(run));
    side->only_id = json_array_size(side->runs) == 1 ? id : RECORD_NONE;
    return 0;
}

static int compare_add_runs(struct api *api, struct http_request *r, const json_t *side,
                            struct compared_runs *ret)
{
    const json_t *refs = json_object_get(side, "runs");
    json_t *ref;
    size_t i;

    ret->runs = json_array();
    if (!json_is_array(refs) || json_array_size(refs) == 0 || json_array_size(refs) > RUNS_MAX) {
        reply_refused(r, PROBLEM_BAD_REQUEST, NULL, "\"runs\" must be a list of 1 to %d runs", RUNS_MAX);
        return -EINVAL;
    }
    json_array_foreach((json_t *)refs, i, ref) {
        int err = compare_add_run(api, r, json_string_value(ref), ret);
        if (err < 0)
            return err;
    }
    return 0;
}

/* -- On a thread ----------------------------------------------------------------------------------------- */

static int compare_take_request(const struct request_row *row, void *arg)
{
    struct compared_runs *side = arg;

    side->bytes += REQUEST_ROW_BYTES + (row->gaps_us ? strlen(row->gaps_us) : 0);
    if (side->bytes > REQUESTS_BYTES) {
        side->is_too_large = true;
        return -E2BIG;
    }
    json_array_append_new(side->requests, request_row_to_json(row));
    return 0;
}

static int compare_read_requests(const char *catalog, struct compared_runs *side)
{
    if (side->only_id == RECORD_NONE)
        return 0;
    side->requests = json_array();
    int64_t n = requests_read(catalog, side->only_id, -1, REQUESTS_MAX, compare_take_request, side);
    side->is_too_large = side->is_too_large || n == REQUESTS_MAX;
    if (side->is_too_large) {
        json_decref(side->requests);
        side->requests = NULL;
        return 0;
    }
    return (int)MIN(n, INT64_C(0));
}

static void runs_work_run(void *arg)
{
    struct runs_work *w = arg;
    struct runs_comparison cmp;

    /* Whoever asks again and again, and leaves, must hold up nobody who waits. */
    if (atomic_load(&w->is_cancelled))
        return;
    w->err = compare_read_requests(w->catalog, &w->a);
    if (w->err == 0)
        w->err = compare_read_requests(w->catalog, &w->b);
    if (w->err < 0)
        return;
    const struct compared_side a = {w->a.runs, w->a.requests}, b = {w->b.runs, w->b.requests};
    runs_compare(&a, &b, &cmp);
    w->result = runs_comparison_json(&cmp);
    runs_comparison_done(&cmp);
    json_put_str(w->result, "kind", "runs");
    if (w->a.is_too_large || w->b.is_too_large)
        json_put_str(w->result, "note",
                     "too many requests to estimate from them how much a single run varies");
}

/* -- The reply ------------------------------------------------------------------------------------------- */

static void runs_work_cancel(void *work)
{
    struct runs_work *w = work;
    w->later = NULL;
    atomic_store(&w->is_cancelled, true);
    catalog_reads_cancel(w->reads, &w->read);
}

static void runs_work_on_done(void *arg)
{
    struct runs_work *w = arg;
    struct later_reply later;

    if (w->later && later_reply_end(w->later, &later)) {
        if (w->err < 0)
            reply_error(later.api, later.request, w->err, "read the requests of the runs");
        else
            http_reply_json(later.request, 200, TAKE_PTR(w->result));
    }
    runs_work_free(w);
}

/* Sides of a wrong kind count as none; they are refused later. */
static size_t compare_count_runs(const json_t *body)
{
    return json_array_size(json_object_get(json_object_get(body, "a"), "runs")) +
           json_array_size(json_object_get(json_object_get(body, "b"), "runs"));
}

void compare_runs(struct api *api, struct http_request *r, const struct route_match *match,
                  const json_t *body)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *user = request_actor(r);
    size_t n_runs = compare_count_runs(body);

    if (catalog_reads_check(&api->catalog_reads, user, n_runs, &p) < 0) {
        reply_computation_problem(r, &p);
        return;
    }
    struct runs_work *w = xcalloc(1, sizeof(*w));
    w->a.only_id = w->b.only_id = RECORD_NONE;
    if (compare_add_runs(api, r, json_object_get(body, "a"), &w->a) < 0 ||
        compare_add_runs(api, r, json_object_get(body, "b"), &w->b) < 0) {
        runs_work_free(w);
        return;
    }
    w->catalog = xstrdup(catalog_path(api->modules.catalog));
    w->reads = &api->catalog_reads;
    w->read = (struct catalog_read){.read = runs_work_run, .done = runs_work_on_done, .arg = w};
    w->later = later_reply_new(api, r, match);
    w->later->work = w;
    w->later->cancel = runs_work_cancel;
    catalog_reads_add(w->reads, &w->read, user, n_runs);
}
