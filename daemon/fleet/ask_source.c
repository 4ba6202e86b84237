/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/ask_source.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/fleet/names.h"
#include <errno.h>

#define TEXT_MAX 300
/* For all pages together, and for what blocks: a mount whose server is gone never answers. */
#define SOURCE_PATIENCE_NS (60 * NS_PER_S)
#define LOOK_PATIENCE_S    15
/* Lists that change between their pages (410 Gone) are begun anew this often. */
#define RESTARTS_MAX 3
/* A server that is overloaded (429) is asked again this often, after the time that it names, up to a few seconds. */
#define RETRIES_MAX         3
#define RETRY_AFTER_MAX_S   5
#define RETRY_AFTER_USUAL_S 1
#define NOTES_SHOWN         3 /* where there are no workers */

/* Owned by the loop, except while a thread has it: then by on_looked(). */
struct source_ask {
    struct caller *caller;
    struct event *retry;
    struct event *timeout, *failure; /* of a thread; in the next iteration of the event loop */
    struct source_config config;
    struct source_question q;
    struct call *call;
    struct source_request request;
    struct fleet *fleet;
    char *next; /* page */
    size_t n_pages, n_bytes;
    int64_t deadline_ns;
    unsigned n_restarts, n_retries;
    bool offloaded, cancelled;
    int err;
    char why[SOURCE_WHY_MAX];
    void (*done)(struct fleet *f, const struct problem *p, void *arg);
    void *arg;
};

static void source_ask_free(struct source_ask *a)
{
    event_free(a->retry);
    event_free(a->timeout);
    event_free(a->failure);
    source_config_done(&a->config);
    source_request_done(&a->request);
    fleet_free(a->fleet);
    free(a->next);
    free(a);
}

/* Releases it, unless a thread has it. */
static void source_ask_release(struct source_ask *a)
{
    event_del(a->retry);
    event_del(a->timeout);
    event_del(a->failure);
    a->cancelled = true;
    if (!a->offloaded)
        source_ask_free(a);
}

static void source_ask_finish(struct source_ask *a, struct fleet *f, struct problem *p)
{
    a->done(f, p, a->arg);
    if (p)
        problem_done(p);
    source_ask_release(a);
}

/* -- Failures ------------------------------------------------------------------------------------------ */

static const struct {
    int err;
    const char *remedy;
} remedies[] = {
    {-EACCES, "Correct the file, its permissions, or the key in profd.conf."},
    {-ENOENT, "Correct the path in profd.conf."},
    {-ECONNREFUSED, "Check the URL, and that the server is running."},
    {-EHOSTUNREACH, "Check the host name: getent hosts NAME."},
    {-ETIMEDOUT, "Try again, or name workers by --worker URL."},
    {-EPROTO, "Check that the source has the form that profd.conf(5) describes."},
};

static const char *source_remedy(const struct source_ask *a, int err, int status)
{
    const struct fleet_source *s = a->config.source;
    const char *own = s->remedy ? s->remedy(&a->config, err, status) : NULL;

    for (size_t i = 0; i < ARRAY_SIZE(remedies) && !own; i++)
        if (remedies[i].err == err)
            own = remedies[i].remedy;
    return own ? own : "Check the source, or name workers by --worker URL.";
}

static void source_ask_fail(struct source_ask *a, int err, int status, const char *remedy, const char *why)
{
    _cleanup_(freep) char *text = source_config_text(&a->config);
    struct problem p = {0};

    if (err == -E2BIG) {
        problem_set(&p, err, PROBLEM_TOO_MANY, "%s has more than %zu workers", text, a->q.workers_max);
        remedy = "Raise workers= in section [limits] of profd.conf.";
    } else {
        /* The contents of a file that profctl has sent are the requester's; a file that is gone has no workers. */
        enum problem_kind kind = a->config.asked && a->config.value[0] == '[' ? PROBLEM_BAD_REQUEST
                                 : err == -ENOENT                             ? PROBLEM_NO_WORKERS
                                                                              : PROBLEM_UPSTREAM;
        problem_set(&p, err, kind, "cannot find workers by %s: %s", text, why);
    }
    problem_remedy(&p, "%s", remedy ? remedy : source_remedy(a, err, status));
    source_ask_finish(a, NULL, &p);
}

/* An answer with another status than 200, where the source knows what it means. */
static bool source_ask_explain(struct source_ask *a, const struct call_result *r)
{
    const struct fleet_source *s = a->config.source;
    struct problem p = {0};

    if (r->err != 0 || !s->explain || !s->explain(&a->config, r->status, r->body, r->body_size, &p))
        return false;
    source_ask_finish(a, NULL, &p);
    return true;
}

/* "no Service; no selector", of a fleet without workers. The caller frees it. */
static char *source_notes(const struct fleet *f)
{
    char *text = xstrdup("");

    for (size_t i = 0; i < f->n_notes && i < NOTES_SHOWN; i++)
        append_str(&text, "%s%s", i == 0 ? ": " : "; ", f->notes[i].text);
    return text;
}

/* All pages are here. */
static void source_ask_complete(struct source_ask *a)
{
    _cleanup_(freep) char *text = source_config_text(&a->config);
    struct fleet *f = a->fleet;
    struct problem p = {0};

    if (a->config.source->complete)
        a->config.source->complete(&a->config, f);
    if (f->n_workers > 0) {
        a->fleet = NULL;
        replace_str(&f->dialect, a->config.source->key);
        source_ask_finish(a, f, NULL);
        return;
    }
    const char *remedy = a->config.source->remedy ? a->config.source->remedy(&a->config, -ENOENT, 200) : NULL;
    _cleanup_(freep) char *notes = source_notes(f);
    problem_set(&p, -ENOENT, PROBLEM_NO_WORKERS, "%s has no workers%s", text, notes);
    problem_remedy(&p, "%s", remedy ? remedy : "Try again when workers are running.");
    source_ask_finish(a, NULL, &p);
}

/* -- HTTP ---------------------------------------------------------------------------------------------- */

static int source_ask_page(struct source_ask *a);

/* A list that changed while its pages were read begins anew (Kubernetes' 410 Gone). */
static bool source_ask_restart(struct source_ask *a, const struct call_result *r)
{
    if (r->err != 0 || r->status != 410 || a->n_restarts >= RESTARTS_MAX || !a->next)
        return false;
    a->n_restarts++;
    free(TAKE_PTR(a->next));
    fleet_free(a->fleet);
    a->fleet = xcalloc(1, sizeof(*a->fleet));
    a->n_pages = 0;
    return true;
}

/* Asks for the same page again, later. */
static bool source_ask_retry(struct source_ask *a, const struct call_result *r)
{
    struct timeval after = {.tv_sec = r->retry_after_s > 0 ? r->retry_after_s : RETRY_AFTER_USUAL_S};

    if (r->err != 0 || r->status != 429 || a->n_retries >= RETRIES_MAX || after.tv_sec > RETRY_AFTER_MAX_S)
        return false;
    a->n_retries++;
    event_add(a->retry, &after);
    return true;
}

/* Reads a page. 1: there are more. */
static int source_ask_take_page(struct source_ask *a, const struct call_result *r)
{
    char size[UNIT_TEXT_MAX];
    char *next = NULL;

    a->n_bytes += r->body_size;
    if (r->cut || a->n_bytes > SOURCE_BYTES_MAX) {
        snprintf(a->why, sizeof(a->why), "it answered more than %s",
                 format_size(size, r->cut ? SOURCE_ANSWER_MAX : SOURCE_BYTES_MAX));
        return -EPROTO;
    }
    int err =
        a->config.source->parse(&a->config, r->body, r->body_size, a->q.workers_max, a->fleet, &next, a->why);
    free(a->next);
    a->next = next;
    if (err < 0 || !next)
        return err;
    if (++a->n_pages < SOURCE_PAGES_MAX)
        return 1;
    snprintf(a->why, sizeof(a->why), "it has more than %d pages", SOURCE_PAGES_MAX);
    return -EPROTO;
}

static void source_ask_on_answer(const struct call_result *r, void *arg)
{
    struct source_ask *a = arg;
    char text[TEXT_MAX];
    int more = 0;

    a->call = NULL;
    if (source_ask_retry(a, r))
        return;
    if (source_ask_restart(a, r)) {
        more = 1;
    } else if (r->err != 0 || r->status != 200) {
        if (source_ask_explain(a, r))
            return;
        _cleanup_(freep) char *why = xasprintf(
            "GET %s: %s%s", a->request.url, call_result_text(r, text, sizeof(text)),
            r->err == 0 && r->status >= 300 && r->status < 400 ? " (redirects are not followed)" : "");
        source_ask_fail(a, r->err ? r->err : -EREMOTEIO, r->status, r->remedy, why);
        return;
    } else {
        a->fleet->latency_ns = MAX(r->answered_mono_ns - r->sent_mono_ns, INT64_C(1));
        more = source_ask_take_page(a, r);
    }
    if (more > 0)
        more = source_ask_page(a);
    else if (more == 0)
        source_ask_complete(a);
    if (more < 0)
        source_ask_fail(a, more, r->status, NULL, a->why);
}

/* Calls for the page a->next. */
static int source_ask_page(struct source_ask *a)
{
    source_request_done(&a->request);
    int r = a->config.source->request(&a->config, a->next, &a->request, a->why);
    if (r < 0)
        return r;
    const struct call_credentials credentials = {
        .token_file = (char *)a->request.token_file,
        .ca_file = (char *)a->request.ca_file,
        .ca_alone = a->request.ca_alone,
        .prefix = a->request.keys,
        .token_header = a->request.token_header,
    };
    const struct call_request request = {
        .method = "GET",
        .url = a->request.url,
        .credentials = &credentials,
        .connect_timeout_ns = a->q.connect_timeout_ns,
        .deadline_ns = MIN(mono_ns() + a->q.timeout_ns, a->deadline_ns),
        .answer_max = SOURCE_ANSWER_MAX,
        .account = names_origin(a->config.value),
    };
    a->call = call_start(a->caller, &request, source_ask_on_answer, a);
    return 0;
}

/* -- Threads ------------------------------------------------------------------------------------------- */

static void source_look_work(void *arg)
{
    struct source_ask *a = arg;
    a->err = a->config.source->look(&a->config, a->q.workers_max, a->fleet, a->why);
}

static void source_look_done(void *arg)
{
    struct source_ask *a = arg;

    a->offloaded = false;
    if (a->cancelled)
        source_ask_free(a);
    else if (a->err < 0)
        source_ask_fail(a, a->err, 0, NULL, a->why);
    else
        source_ask_complete(a);
}

/* The thread keeps it until it is let go. */
static void source_on_timeout(evutil_socket_t fd, short what, void *arg)
{
    struct source_ask *a = arg;
    _cleanup_(freep) char *why = xasprintf("no answer within %d s", LOOK_PATIENCE_S);

    source_ask_fail(a, -ETIMEDOUT, 0, NULL, why);
}

static void source_on_failure(evutil_socket_t fd, short what, void *arg)
{
    struct source_ask *a = arg;
    source_ask_fail(a, a->err, 0, NULL, a->why);
}

static void source_on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct source_ask *a = arg;
    int r = source_ask_page(a);

    if (r < 0)
        source_ask_fail(a, r, 0, NULL, a->why);
}

/* -- Life ---------------------------------------------------------------------------------------------- */

struct source_ask *source_ask_start(struct event_base *base, struct caller *caller, struct offload *offload,
                                    const struct source_question *q,
                                    void (*done)(struct fleet *f, const struct problem *p, void *arg),
                                    void *arg)
{
    const struct timeval patience = {.tv_sec = LOOK_PATIENCE_S};
    struct source_ask *a = xcalloc(1, sizeof(*a));
    const struct fleet_source *s = q->config->source;

    *a = (struct source_ask){.caller = caller,
                             .q = *q,
                             .fleet = xcalloc(1, sizeof(*a->fleet)),
                             .deadline_ns = mono_ns() + SOURCE_PATIENCE_NS,
                             .done = done,
                             .arg = arg};
    source_config_copy(q->config, &a->config);
    a->q.config = &a->config;
    a->timeout = evtimer_new(base, source_on_timeout, a);
    a->failure = evtimer_new(base, source_on_failure, a);
    a->retry = evtimer_new(base, source_on_retry, a);
    int r = s->request ? source_ask_page(a) : -EOPNOTSUPP;
    if (r == -EOPNOTSUPP) {
        a->offloaded = true;
        event_add(a->timeout, &patience);
        /* Those of one source wait for each other: a dead mount holds one thread. Who asks can invent as many names as
         * there are threads: all of one kind wait for each other. */
        offload_run_in(offload, names_origin(a->config.asked ? s->key : a->config.value), source_look_work,
                       source_look_done, a);
    } else if (r < 0) {
        a->err = r;
        event_active(a->failure, EV_TIMEOUT, 0);
    }
    return a;
}

void source_ask_cancel(struct source_ask *a)
{
    if (!a)
        return;
    call_cancel(a->call);
    source_ask_release(a);
}
