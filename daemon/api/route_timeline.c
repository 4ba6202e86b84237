/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline of a trace: each request becomes one line for a viewer (daemon/report/viewer.h), whose answer is passed on
 * unread. A handler checks what it passes on and names it; files are opened by threads, and only where no viewer has them. A
 * client that leaves ends the work.
 */
#include "base/alloc.h"
#include "daemon/api/route_reports_remote.h"
#include "daemon/api/web_page.h"
#include "daemon/catalog/records.h"
#include "daemon/collect/safe_open.h"
#include <ctype.h>
#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>

/* Of a name to search for. */
#define SEARCH_NAME_MAX 4096

struct timeline_request {
    struct viewers *viewers;
    struct later_reply *later;  /* NULL: the client left */
    struct view_request *asked; /* NULL: files are being opened */
    struct file_reference columns, source;
    int columns_fd, source_fd; /* -1: none; else a negative errno value */
    int64_t trace_id;
    json_t *ask; /* for the viewer */
    char *user;
};

static void timeline_request_free(struct timeline_request *q)
{
    reference_done(&q->columns);
    reference_done(&q->source);
    if (q->columns_fd >= 0)
        close(q->columns_fd);
    if (q->source_fd >= 0)
        close(q->source_fd);
    json_decref(q->ask);
    free(q->user);
    free(q);
}

/* -- The answer ----------------------------------------------------------------------------------------- */

/* Of certain columns it never changes. */
static bool timeline_is_immutable(const json_t *ask)
{
    return json_object_get(ask, "sum");
}

static void timeline_reply(struct http_request *r, const struct timeline_request *q, struct view_end *end)
{
    bool is_immutable = timeline_is_immutable(q->ask);

    if (is_immutable)
        http_reply_header(r, "Cache-Control", "private, max-age=31536000, immutable");
    http_reply_header(r, "Vary", is_immutable ? "Authorization, Accept-Encoding" : "Accept-Encoding");
    if (end->is_gzip)
        http_reply_header(r, "Content-Encoding", "gzip");
    http_reply_buffer(r, 200, end->is_json ? "application/json" : "application/octet-stream", end->body);
}

static void timeline_on_end(struct view_end *end, void *arg)
{
    struct timeline_request *q = arg;
    struct later_reply later;

    if (later_reply_end(q->later, &later)) {
        if (end->problem.kind != PROBLEM_NONE)
            reply_computation_problem(later.request, &end->problem);
        else
            timeline_reply(later.request, q, end);
    }
    timeline_request_free(q);
}

/* The later reply is freed by its caller. */
static void timeline_on_cancel(void *arg)
{
    struct timeline_request *q = arg;

    q->later = NULL;
    if (!q->asked)
        return;
    viewers_cancel(q->asked);
    timeline_request_free(q);
}

/* -- The question --------------------------------------------------------------------------------------- */

static void timeline_ask(struct timeline_request *q)
{
    _cleanup_(freep) char *text = json_dumps(q->ask, JSON_COMPACT);
    const struct view_job job = {.trace_id = q->trace_id,
                                 .user = q->user,
                                 .request = text,
                                 .columns_fd = TAKE_FD(q->columns_fd),
                                 .source_fd = TAKE_FD(q->source_fd)};

    q->asked = viewers_ask(q->viewers, &job, timeline_on_end, q);
}

static void timeline_open_files(void *arg)
{
    struct timeline_request *q = arg;
    struct stat st;

    q->columns_fd = reference_open(&q->columns, &st);
    /* Without the original, only arguments with columns are available. */
    if (q->source.path)
        q->source_fd = MAX(reference_open(&q->source, &st), -1);
}

static void timeline_on_opened(void *arg)
{
    struct timeline_request *q = arg;
    struct later_reply later;

    if (q->later && q->columns_fd >= 0) {
        timeline_ask(q);
        return;
    }
    if (q->later && later_reply_end(q->later, &later))
        reply_refused(later.request, PROBLEM_GONE, "Make them again: profctl ingest --again FILE.",
                      "the columns of t%" PRId64 " cannot be opened: %s", q->trace_id,
                      strerror(-q->columns_fd));
    timeline_request_free(q);
}

/* take_ask: for the viewer. Replies, at once or later. */
static void timeline_begin(struct api *api, struct http_request *r, const struct route_match *match,
                           json_t *take_ask)
{
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(remote_trace_record_done) struct remote_trace_record remote;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ ask = take_ask;
    _cleanup_(freep) char *user = request_actor(r);

    trace_record_init(&t);
    remote_trace_record_init(&remote);
    int err = trace_find_columns(api, r, match, match->route->handle, &t, &remote);
    if (err == -EREMOTE)
        timeline_pass_on(api, r, match, &remote, streq(json_get_str(ask, "ask"), "tile"));
    if (err < 0)
        return;
    if (viewers_check_room(api->modules.viewers, user, &p) < 0) {
        reply_computation_problem(r, &p);
        return;
    }
    json_object_set_new(ask, "trace", json_sprintf("t%" PRId64, match->id));
    json_put_bool(ask, "gzip", web_encoding_choose(http_header(r, "Accept-Encoding"), false) == WEB_GZIP);
    struct timeline_request *q = xcalloc(1, sizeof(*q));
    *q = (struct timeline_request){.viewers = api->modules.viewers,
                                   .columns_fd = -1,
                                   .source_fd = -1,
                                   .trace_id = match->id,
                                   .ask = TAKE_PTR(ask),
                                   .user = TAKE_PTR(user)};
    q->later = later_reply_new(api, r, match);
    q->later->cancel = timeline_on_cancel;
    q->later->work = q;
    if (viewers_know(q->viewers, q->trace_id)) {
        timeline_ask(q);
        return;
    }
    reference_of_stored(t.columns, &q->columns);
    if (t.path)
        reference_of(&t, &q->source);
    offload_run_in(api->modules.offload, offload_queue_of_file(q->columns.path), timeline_open_files,
                   timeline_on_opened, q);
}

/* -- Parameters ----------------------------------------------------------------------------------------- */

static int timeline_put_number(json_t *ask, const char *name, const char *text, struct problem *p)
{
    char *end;

    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s must be a whole number, not '%s'", name,
                           text);
    json_put_int(ask, name, n);
    return 0;
}

/* Numbers of the query, separated by spaces, under their names. */
static int timeline_put_query(const struct http_request *r, json_t *ask, const char *const *names, size_t n,
                              struct problem *p)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = http_query_get(r, names[i]);
        int err = text ? timeline_put_number(ask, names[i], text, p) : 0;
        if (err < 0)
            return err;
    }
    return 0;
}

/* lanes=3-17, or lanes=3 */
static int timeline_put_lanes(const struct http_request *r, json_t *ask, struct problem *p)
{
    const char *text = http_query_get(r, "lanes");
    const char *dash = text ? strchr(text, '-') : NULL;

    if (!text)
        return 0;
    _cleanup_(freep) char *first = xstrndup(text, dash ? (size_t)(dash - text) : strlen(text));
    int err = timeline_put_number(ask, "first_lane", first, NULL);
    if (err == 0)
        err = timeline_put_number(ask, "last_lane", dash ? dash + 1 : first, NULL);
    if (err < 0)
        return problem_set(p, err, PROBLEM_BAD_REQUEST, "lanes=%s must be FIRST-LAST, such as 0-93", text);
    return 0;
}

/* v: the sum of the columns that the client knows. */
static void timeline_put_sum(const struct http_request *r, json_t *ask)
{
    json_put_str(ask, "sum", http_query_get(r, "v"));
}

/* err: of what was read before. */
static void timeline_begin_unless(int err, struct api *api, struct http_request *r,
                                  const struct route_match *match, json_t *take_ask, const struct problem *p)
{
    if (err == 0) {
        timeline_begin(api, r, match, take_ask);
        return;
    }
    http_reply_problem(r, p);
    json_decref(take_ask);
}

static json_t *timeline_ask_for(const char *what)
{
    return json_pack("{s:s}", "ask", what);
}

void get_timeline(struct api *api, struct http_request *r, const struct route_match *match)
{
    timeline_begin(api, r, match, timeline_ask_for("timeline"));
}

void get_timeline_steps(struct api *api, struct http_request *r, const struct route_match *match)
{
    json_t *ask = timeline_ask_for("steps");

    timeline_put_sum(r, ask);
    timeline_begin(api, r, match, ask);
}

void get_timeline_names(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    json_t *ask = timeline_ask_for("names");

    timeline_put_sum(r, ask);
    timeline_begin_unless(timeline_put_number(ask, "block", match->word, &p), api, r, match, ask, &p);
}

void get_timeline_tile(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    json_t *ask = timeline_ask_for("tile");

    timeline_put_sum(r, ask);
    int err = timeline_put_number(ask, "level", match->word, &p);
    if (err == 0)
        err = timeline_put_number(ask, "index", match->word_2, &p);
    if (err == 0)
        err = timeline_put_lanes(r, ask, &p);
    timeline_begin_unless(err, api, r, match, ask, &p);
}

void get_timeline_counter(struct api *api, struct http_request *r, const struct route_match *match)
{
    static const char *const numbers[] = {"from", "to", "points"};
    _cleanup_(problem_done) struct problem p = {0};
    json_t *ask = timeline_ask_for("counters");

    int err = timeline_put_number(ask, "track", match->word, &p);
    if (err == 0)
        err = timeline_put_query(r, ask, numbers, ARRAY_SIZE(numbers), &p);
    timeline_begin_unless(err, api, r, match, ask, &p);
}

void get_timeline_slice(struct api *api, struct http_request *r, const struct route_match *match)
{
    static const char *const numbers[] = {"lane", "at", "within", "slice"};
    _cleanup_(problem_done) struct problem p = {0};
    json_t *ask = timeline_ask_for("slice");

    int err = timeline_put_query(r, ask, numbers, ARRAY_SIZE(numbers), &p);
    if (err == 0 && !http_query_get(r, "slice") && (!http_query_get(r, "lane") || !http_query_get(r, "at")))
        err = problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "slice=, or lane= and at= are needed");
    timeline_begin_unless(err, api, r, match, ask, &p);
}

void search_timeline(struct api *api, struct http_request *r, const struct route_match *match)
{
    static const char *const numbers[] = {"from", "to", "after", "limit"};
    _cleanup_(problem_done) struct problem p = {0};
    const char *name = http_query_get(r, "name");
    json_t *ask = timeline_ask_for("search");

    json_put_str(ask, "name", name);
    int err = timeline_put_query(r, ask, numbers, ARRAY_SIZE(numbers), &p);
    if (err == 0 && (!name || !*name || strlen(name) > SEARCH_NAME_MAX))
        err = problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST,
                          "name= must be a part of a name, of at most %d bytes", SEARCH_NAME_MAX);
    timeline_begin_unless(err, api, r, match, ask, &p);
}

void get_timeline_selection(struct api *api, struct http_request *r, const struct route_match *match)
{
    static const char *const numbers[] = {"from", "to", "top"};
    _cleanup_(problem_done) struct problem p = {0};
    json_t *ask = timeline_ask_for("selection");

    int err = timeline_put_query(r, ask, numbers, ARRAY_SIZE(numbers), &p);
    if (err == 0)
        err = timeline_put_lanes(r, ask, &p);
    timeline_begin_unless(err, api, r, match, ask, &p);
}
