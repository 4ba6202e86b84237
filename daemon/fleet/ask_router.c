/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/ask_router.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/http_reason.h"
#include "base/units.h"
#include "daemon/fleet/names.h"
#include "daemon/fleet/url.h"
#include <errno.h>

#define ANSWER_MAX (16 << 20) /* ten thousand entries have about four */
#define TEXT_MAX   300

struct router_ask {
    struct caller *caller;
    struct call *call;
    struct router_question q;
    char *url;
    size_t next;      /* dialect to try */
    const char *path; /* being asked, the first that has it is dialect */
    const struct router_dialect *dialect;
    char *tried; /* what each path answered */
    char *last;  /* what the latest did */
    bool was_denied;
    void (*done)(struct fleet *f, const struct problem *p, void *arg);
    void *arg;
};

static void router_ask_free(struct router_ask *a)
{
    free(a->url);
    free(a->tried);
    free(a->last);
    free(a);
}

static void router_ask_finish(struct router_ask *a, struct fleet *f, struct problem *p)
{
    a->done(f, p, a->arg);
    problem_done(p);
    router_ask_free(a);
}

/* "GET /workers, /list_workers answered 404 Not Found; GET /nodes/status answered HTML instead of JSON" */
static void router_ask_note(struct router_ask *a, const char *text)
{
    char *longer;

    if (streq(text, a->last))
        longer =
            xasprintf("%.*s, %s answered %s", (int)(strlen(a->tried) - strlen(" answered ") - strlen(text)),
                      a->tried, a->path, text);
    else
        longer = xasprintf("%s%sGET %s answered %s", a->tried ? a->tried : "", a->tried ? "; " : "", a->path,
                           text);
    free(a->tried);
    a->tried = longer;
    replace_str(&a->last, text);
}

/* A failure that another path would only repeat. */
static void router_ask_explain_failure(struct router_ask *a, const struct call_result *r, struct problem *p)
{
    char text[TEXT_MAX];

    problem_set(p, r->err, PROBLEM_UPSTREAM, "cannot list workers of %s: %s", a->url,
                call_result_text(r, text, sizeof(text)));
    if (r->remedy)
        problem_remedy(p, "%s", r->remedy);
    else if (r->err == -EACCES)
        problem_remedy(p, "Correct the file, or its permissions, or the key in profd.conf.");
    else if (r->err == -ECONNREFUSED)
        problem_remedy(p, "Check the port, and that the router is running. The port of vime's router changes "
                          "with every job: --router-log train.log finds it.");
    else
        problem_remedy(
            p, "Is the URL right, and the router up? --router-log train.log finds the router of a job.");
}

static void router_ask_explain_tried(struct router_ask *a, struct problem *p)
{
    _cleanup_(freep) char *names = router_dialect_names();

    if (a->was_denied) {
        problem_set(p, -EACCES, PROBLEM_UPSTREAM,
                    "cannot list workers of %s: credentials needed: token_file (%s)", a->url, a->tried);
        problem_remedy(p, "Add to profd.conf\n  [fleet NAME]\n  router = %s\n  token_file = FILE", a->url);
        return;
    }
    problem_set(p, -EPROTO, PROBLEM_UPSTREAM, "cannot list workers of %s: %s", a->url, a->tried);
    problem_remedy(
        p,
        "If that is a worker and not a router, use --worker %s.\n"
        "For a router that profd does not know, name its workers by --worker URL (repeatable), or in a "
        "[fleet NAME] section of profd.conf.\n"
        "If its port changed, --router-log train.log finds it. --dialect takes one of %s.",
        a->url, names);
}

/* A frontend of Dynamo that does not tell where its workers can be called. */
static void router_ask_explain_dynamo(const struct router_ask *a, int err, const char *why, struct problem *p)
{
    problem_set(p, err, PROBLEM_BAD_REQUEST, "cannot list workers of %s: %s", a->url, why);
    if (err == -EDESTADDRREQ)
        problem_remedy(p, "Add --system-port PORT, or system_port = PORT in [fleet NAME] of profd.conf: the "
                          "DYN_SYSTEM_PORT "
                          "with which the workers were started (the Dynamo operator sets 9090).\n"
                          "If their ports differ, name each worker: --worker http://HOST:PORT.");
    else
        problem_remedy(
            p,
            "Name each worker by --worker http://HOST:PORT, with its DYN_SYSTEM_PORT, or start frontend and "
            "workers with DYN_REQUEST_PLANE=tcp.");
}

/* Parses the answer as the list of workers. Returns 1 if it was taken or the query failed with a problem, 0
 * to try another path; the reason is then kept for the error. */
static int router_ask_take_answer(struct router_ask *a, const struct call_result *r, struct fleet *f,
                                  struct problem *p)
{
    char why[ROUTER_WHY_MAX], size[UNIT_TEXT_MAX];

    if (r->cut) {
        problem_set(p, -E2BIG, PROBLEM_UPSTREAM, "cannot list workers of %s: GET %s answered more than %s",
                    a->url, a->path, format_size(size, ANSWER_MAX));
        problem_remedy(p, "Is that a router? Else name its workers by --worker URL.");
        return 1;
    }
    int err = router_parse(a->q.dialect, a->path, r->body, r->body_size, &a->q.bounds, f, why);
    if (err == -E2BIG) {
        problem_set(p, err, PROBLEM_TOO_MANY, "%s lists more than %zu workers", a->url,
                    a->q.bounds.workers_max);
        problem_remedy(p, "Raise workers= in section [limits] of profd.conf.");
        return 1;
    }
    if (err == -EDESTADDRREQ || err == -EADDRNOTAVAIL) {
        router_ask_explain_dynamo(a, err, why, p);
        return 1;
    }
    if (err < 0) {
        router_ask_note(a, why);
        return 0;
    }
    if (f->n_workers == 0) {
        problem_set(p, -ENOENT, PROBLEM_NO_WORKERS, "the router %s lists no workers%s%s", a->url,
                    f->n_notes > 0 ? ": " : "", f->n_notes > 0 ? f->notes[0].text : "");
        problem_remedy(p, "Workers register with it when they are up: try again then.");
    }
    return 1;
}

static bool router_ask_next(struct router_ask *a);

static void router_ask_on_answer(const struct call_result *r, void *arg)
{
    struct router_ask *a = arg;
    struct problem p = {0};
    char status[96];

    a->call = NULL;
    if (r->err == -ETIMEDOUT && r->sent_at_ns > 0 && !a->q.dialect && a->dialect->asks_workers) {
        router_ask_note(a, "nothing in time");
        if (router_ask_next(a))
            return;
    }
    if (r->err != 0) {
        router_ask_explain_failure(a, r, &p);
        router_ask_finish(a, NULL, &p);
        return;
    }
    if (r->status == 200) {
        _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
        if (router_ask_take_answer(a, r, f, &p)) {
            f->router = xstrdup(a->url);
            f->latency_ns = MAX(r->answered_mono_ns - r->sent_mono_ns, INT64_C(1));
            router_ask_finish(a, p.kind == PROBLEM_NONE ? TAKE_PTR(f) : NULL, &p);
            return;
        }
    } else {
        a->was_denied |= r->status == 401 || r->status == 403;
        snprintf(status, sizeof(status), "%d %s%s", r->status, http_reason(r->status),
                 r->status >= 300 && r->status < 400 ? " (redirects are not followed)" : "");
        router_ask_note(a, status);
    }
    if (router_ask_next(a))
        return;
    router_ask_explain_tried(a, &p);
    router_ask_finish(a, NULL, &p);
}

static const struct router_dialect *router_ask_next_dialect(struct router_ask *a)
{
    const struct router_dialect *d;

    if (a->q.dialect)
        return a->path ? NULL : a->q.dialect;
    while ((d = router_dialect_at(a->next))) {
        a->next++;
        if (!streq(d->path, a->path))
            return d;
    }
    return NULL;
}

static bool router_ask_next(struct router_ask *a)
{
    a->dialect = router_ask_next_dialect(a);
    if (!a->dialect)
        return false;
    a->path = a->dialect->path;
    _cleanup_(freep) char *url = url_join(a->url, a->path);
    const struct call_request request = {
        .method = "GET",
        .url = url,
        .credentials = a->q.credentials,
        .connect_timeout_ns = a->q.connect_timeout_ns,
        .deadline_ns = mono_ns() + a->q.timeout_ns,
        .answer_max = ANSWER_MAX,
        .account = names_origin(a->url),
    };
    a->call = call_start(a->caller, &request, router_ask_on_answer, a);
    return true;
}

struct router_ask *router_ask_start(struct caller *caller, const struct router_question *q,
                                    void (*done)(struct fleet *f, const struct problem *p, void *arg),
                                    void *arg)
{
    struct router_ask *a = xcalloc(1, sizeof(*a));

    *a = (struct router_ask){.caller = caller, .q = *q, .url = xstrdup(q->url), .done = done, .arg = arg};
    router_ask_next(a);
    return a;
}

void router_ask_cancel(struct router_ask *a)
{
    if (!a)
        return;
    call_cancel(a->call);
    router_ask_free(a);
}
