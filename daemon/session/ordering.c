/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a user's request to a session in the catalog: discover the fleet, choose the workers, say what cannot
 * be honoured, refuse what is busy or too much, write the rows. Until the rows are committed the requester
 * may leave and nothing remains.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/session/internal.h"
#include "daemon/session/plan.h"
#include <errno.h>
#include <inttypes.h>

#define STEPS_PROBE_TIMEOUT_NS (1500 * NS_PER_MS)

struct session_order {
    struct sessions *all;
    struct start_request request;
    json_t *options;
    char *actor;
    void (*done)(const struct session_started *, void *arg);
    void *arg;
    struct event *refusal; /* in the next turn: done() comes later */
    struct discovery *discovery;
    struct probe *probe;
    struct fleet *fleet;
    struct plan plan;
    int64_t session_id;
    bool cancelled; /* too late to forget it: the rows are on their way to the disk */
};

static void order_free(struct session_order *o)
{
    if (o->refusal)
        event_free(o->refusal);
    if (o->discovery)
        discovery_cancel(o->discovery);
    probe_cancel(o->probe);
    fleet_free(o->fleet);
    plan_done(&o->plan);
    start_request_done(&o->request);
    json_decref(o->options);
    free(o->actor);
    free(o);
}

static void refuse(struct session_order *o, const struct problem *p)
{
    struct session_started answer = {.problem = p, .remarks = o->plan.remarks, .skipped = o->plan.skipped};
    o->done(&answer, o->arg);
    order_free(o);
}

/* -- The checks -- */

static int storage_problem(struct problem *p, const struct sessions *all, int err)
{
    return catalog_problem(all->catalog, err, p, "the catalog cannot take a session");
}

static int check_free(struct session_order *o, struct problem *p)
{
    char until[UNIT_TEXT_MAX];

    for (size_t i = 0; i < o->plan.n_chosen && !o->request.queue; i++) {
        const char *url = o->fleet->workers[o->plan.chosen[i]].url;
        const struct session *holder = sessions_holder(o->all, url, NULL);
        if (!holder)
            continue;
        int64_t end =
            holder->record.stop_at != RECORD_NONE ? holder->record.stop_at : holder->record.hard_stop_at;
        problem_set(p, -EBUSY, PROBLEM_BUSY, "%s is held by s%" PRId64 " of %s, which is %s%s%s", url,
                    holder->record.session_id, holder->record.requested_by, state_name(holder->record.state),
                    end != RECORD_NONE ? " until " : "", end != RECORD_NONE ? format_time(until, end) : "");
        problem_remedy(p, "profctl stop s%" PRId64 " ends it; --queue waits for it.",
                       holder->record.session_id);
        return -EBUSY;
    }
    return 0;
}

static int check_limits(const struct sessions *all, const struct start_request *request, struct problem *p)
{
    char limit[UNIT_TEXT_MAX];

    if (all->closing)
        return problem_set(p, -ESHUTDOWN, PROBLEM_CONFLICT, "profd is stopping");
    int r = catalog_probe(all->catalog);
    if (r < 0)
        return storage_problem(p, all, r);
    if (sessions_count(all) >= all->settings->sessions_max) {
        problem_set(p, -EAGAIN, PROBLEM_TOO_MANY, "%u sessions are under way, as many as may be",
                    sessions_count(all));
        problem_remedy(p, "[limits] sessions= in profd.conf; profctl status shows them.");
        return -EAGAIN;
    }
    if (request->recording.duration_ns > all->settings->session_limit_ns) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the duration is longer than the limit of %s",
                    format_duration(limit, all->settings->session_limit_ns));
        problem_remedy(p,
                       "[timeouts] session= in profd.conf sets the limit; a trace of minutes is gigabytes.");
        return -EINVAL;
    }
    return 0;
}

/* -- The rows -- */

/*
 * Where an engine is told where to write, each target gets a directory of its own below the one it was
 * started with: two workers that share a directory and an id would overwrite each other's files.
 */
static void place_output(struct target *t, int index)
{
    const struct trace_place *place = &t->worker.place;
    if (target_engine(t)->counts_functions)
        return; /* what lies there is no trace */
    const char *base = place->dir ? place->dir : "/tmp";
    _cleanup_(freep) char *below = xasprintf("profd/s%" PRId64 "-%" PRId64 "/w%d", t->record.session_id,
                                             t->session->record.requested_at / NS_PER_MS, index);

    if (!target_engine(t)->takes_output_dir) {
        t->record.trace_dir = xstrdup(place->local_dir);
        return;
    }
    t->record.output_dir = xasprintf("%s/%s", base, below);
    t->record.trace_dir = place->local_dir ? xasprintf("%s/%s", place->local_dir, below) : NULL;
}

static int add_target(struct target *t, const struct start_request *request, const struct worker *w,
                      int index)
{
    _cleanup_json_ facts = worker_to_json(w);
    struct session *s = t->session;

    worker_from_json(facts, &t->worker);
    t->record.session_id = s->record.session_id;
    t->record.state = STATE_REQUESTED;
    t->record.worker_url = xstrdup(w->url);
    t->record.worker = json_dumps(facts, JSON_COMPACT);
    /* A request is recorded by the rank that takes it. */
    t->record.ranks_expected = request->recording.prompt ? 1 : worker_ranks_expected(w);
    t->record.profile_id = xasprintf("s%" PRId64 "-w%d-%" PRId64, s->record.session_id, index,
                                     s->record.requested_at / NS_PER_MS);
    place_output(t, index);
    return catalog_add_target(s->all->catalog, &t->record);
}

/* A workload's prompts may be megabytes, and are nobody's but their owner's. */
static char *options_text(const struct session_order *o)
{
    _cleanup_json_ options = json_copy(o->options);

    if (o->request.workload)
        json_object_set_new(options, "workload", workload_kept(o->request.workload));
    return json_dumps(options, JSON_COMPACT);
}

static int add_rows(struct session_order *o, struct session *s)
{
    struct session_record *rec = &s->record;

    rec->state = STATE_REQUESTED;
    rec->router = xstrdup(o->fleet->router);
    rec->dialect = xstrdup(o->fleet->dialect);
    rec->fleet = xstrdup(o->fleet->name);
    rec->options = options_text(o);
    rec->labels = json_dumps(o->request.labels, JSON_COMPACT | JSON_SORT_KEYS);
    rec->requested_at = wall_ns();
    rec->requested_by = xstrdup(o->actor);
    if (json_array_size(o->plan.remarks) > 0) {
        s->remarks = json_deep_copy(o->plan.remarks);
        rec->remarks = json_dumps(s->remarks, JSON_COMPACT);
    }
    if (json_array_size(o->plan.skipped) > 0)
        rec->skipped = json_dumps(o->plan.skipped, JSON_COMPACT);
    if (o->request.start_at > 0)
        rec->start_at = o->request.start_at;
    int r = catalog_saw_fleet(o->all->catalog, o->fleet);
    if (r >= 0)
        r = catalog_add_session(o->all->catalog, rec);
    for (size_t i = 0; i < s->n_targets && r >= 0; i++)
        r = add_target(&s->targets[i], &o->request, &o->fleet->workers[o->plan.chosen[i]], (int)i);
    if (r >= 0)
        r = catalog_add_event(o->all->catalog, "session-requested", o->actor, rec->session_id, RECORD_NONE,
                              RECORD_NONE, "%zu workers of %s", s->n_targets,
                              rec->router ? rec->router : "a list");
    return r;
}

static int create_load(struct session_order *o, struct session *s)
{
    struct sessions *all = o->all;

    if (!s->request.workload)
        return 0;
    int r = all->loader_ops->create(s, o->fleet, o->plan.chosen, o->plan.n_chosen, o->actor, all->loader);
    json_t *kept = workload_kept(s->request.workload);
    json_decref(s->request.workload);
    s->request.workload = kept;
    return r;
}

static void forget_load(struct session *s)
{
    if (session_has_load(s))
        s->all->loader_ops->forget(s, s->all->loader);
}

static int check_load(struct session_order *o, struct problem *p)
{
    const struct sessions *all = o->all;

    if (!o->request.workload)
        return 0;
    if (!all->loader_ops)
        return problem_set(p, -ENOTSUP, PROBLEM_UNSUPPORTED, "this profd sends no load");
    return all->loader_ops->check(&o->request, o->fleet, o->plan.chosen, o->plan.n_chosen, all->loader, p);
}

static void on_created(int err, void *arg)
{
    struct session_order *o = arg;
    struct session *s = sessions_find(o->all, o->session_id);

    if (err < 0) {
        _cleanup_(problem_done) struct problem p = {0};
        storage_problem(&p, o->all, err);
        forget_load(s);
        session_free(s);
        if (o->cancelled)
            order_free(o);
        else
            refuse(o, &p);
        return;
    }
    s->created = true;
    if (o->cancelled) {
        sessions_stop(o->all, s->record.session_id, "its requester, who left");
        order_free(o);
        return;
    }
    struct session_started answer = {
        .session_id = o->session_id, .remarks = o->plan.remarks, .skipped = o->plan.skipped};
    o->done(&answer, o->arg);
    order_free(o);
    session_proceed(s);
}

static void create(struct session_order *o)
{
    _cleanup_(problem_done) struct problem p = {0};

    /* Looked at before, but somebody may have been quicker meanwhile. */
    if (check_limits(o->all, &o->request, &p) < 0 || check_free(o, &p) < 0 || check_load(o, &p) < 0) {
        refuse(o, &p);
        return;
    }
    struct session *s = session_alloc(o->all, o->plan.n_chosen);
    int r = add_rows(o, s);
    s->request = o->request;
    o->request = (struct start_request){0};
    if (r >= 0)
        r = create_load(o, s);
    if (r < 0) {
        storage_problem(&p, o->all, r);
        forget_load(s);
        session_free(s);
        refuse(o, &p);
        return;
    }
    o->session_id = s->record.session_id;
    catalog_then(o->all->catalog, false, on_created, o);
}

static void on_steps_known(const struct probe_answer *answers, void *arg)
{
    struct session_order *o = arg;
    _cleanup_(problem_done) struct problem p = {0};

    o->probe = NULL;
    for (size_t i = 0; i < o->plan.n_chosen; i++) {
        const struct worker *w = &o->fleet->workers[o->plan.chosen[i]];
        if (worker_ops(w)->stops_after_steps || answers[i].steps >= 0)
            continue;
        problem_set(&p, -EINVAL, PROBLEM_UNSUPPORTED,
                    "--steps on %s: %s ignores it, and its /metrics do not count steps", w->url,
                    engine_name(w->engine));
        problem_remedy(&p, "Use --duration.");
        refuse(o, &p);
        return;
    }
    create(o);
}

static bool must_watch_steps(const struct session_order *o)
{
    for (size_t i = 0; i < o->plan.n_chosen; i++)
        if (!worker_ops(&o->fleet->workers[o->plan.chosen[i]])->stops_after_steps)
            return o->request.recording.steps > 0;
    return false;
}

static void on_fleet(struct fleet *fleet, const struct problem *problem, void *arg)
{
    struct session_order *o = arg;
    _cleanup_(problem_done) struct problem p = {0};

    o->discovery = NULL;
    if (!fleet) {
        refuse(o, problem);
        return;
    }
    o->fleet = fleet;
    if (plan_make(fleet, &o->request, &o->plan, &p) < 0 || check_free(o, &p) < 0) {
        refuse(o, &p);
        return;
    }
    if (!must_watch_steps(o)) {
        create(o);
        return;
    }
    _cleanup_(freep) const struct worker **workers = xcalloc(o->plan.n_chosen, sizeof(*workers));
    for (size_t i = 0; i < o->plan.n_chosen; i++)
        workers[i] = &fleet->workers[o->plan.chosen[i]];
    o->probe = probe_start(o->all, fleet->name, workers, o->plan.n_chosen, STEPS_PROBE_TIMEOUT_NS,
                           on_steps_known, o);
}

static void on_refuse_turn(evutil_socket_t fd, short what, void *arg)
{
    struct session_order *o = arg;
    _cleanup_(problem_done) struct problem p = {0};
    check_limits(o->all, &o->request, &p);
    if (p.kind == PROBLEM_NONE)
        problem_set(&p, -EAGAIN, PROBLEM_TOO_MANY, "profd was at a limit a moment ago");
    refuse(o, &p);
}

struct session_order *sessions_start(struct sessions *all, struct start_request *take_request,
                                     json_t *options, const char *actor,
                                     void (*done)(const struct session_started *, void *arg), void *arg)
{
    struct session_order *o = xcalloc(1, sizeof(*o));
    _cleanup_(problem_done) struct problem p = {0};

    *o = (struct session_order){.all = all,
                                .request = *take_request,
                                .options = json_incref(options),
                                .actor = xstrdup(actor),
                                .done = done,
                                .arg = arg};
    *take_request = (struct start_request){0};
    if (check_limits(all, &o->request, &p) < 0) {
        o->refusal = event_new(all->base, -1, 0, on_refuse_turn, o);
        event_active(o->refusal, EV_TIMEOUT, 0);
        return o;
    }
    o->discovery = fleet_discover(all->finder, &o->request.source, on_fleet, o);
    return o;
}

void session_order_cancel(struct session_order *o)
{
    if (o->refusal || o->discovery || o->probe)
        order_free(o);
    else
        o->cancelled = true;
}
