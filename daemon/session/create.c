/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions as a kind of job: which workers are recorded, what is refused before anything is written, and the rows.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "base/uuid.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/fleet/shared_fs.h"
#include "daemon/session/internal.h"
#include <errno.h>
#include <inttypes.h>
#include <sys/random.h>

#define STEPS_PROBE_TIMEOUT_NS (1500 * NS_PER_MS)

static struct sessions *sessions_of(struct jobs *jobs)
{
    return (struct sessions *)jobs;
}

/* Whether another profd records it: the one of its host. */
static bool worker_is_elsewhere(const struct job_creation *c, const struct worker *w)
{
    return w->host_uuid && !streq(w->host_uuid, catalog_uuid(c->jobs->catalog));
}

/* -- Refusals -- */

static unsigned sessions_maximum(const struct jobs *jobs)
{
    return ((const struct sessions *)jobs)->settings->sessions_max;
}

static int session_check_request(const struct jobs *jobs, const struct job_request *request,
                                 struct problem *p)
{
    int64_t max_ns = ((const struct sessions *)jobs)->settings->session_limit_ns;
    char limit[UNIT_TEXT_MAX];

    if (request->recording.duration_ns <= max_ns)
        return sessions_admit((const struct sessions *)jobs, p);
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the duration is longer than the limit of %s",
                format_duration(limit, max_ns));
    problem_remedy(p, "[timeouts] session= in profd.conf sets the limit; a trace of minutes is gigabytes.");
    return -EINVAL;
}

static int refuse_held(const struct worker *w, const char *holder, int64_t until_at, struct problem *p)
{
    char until[UNIT_TEXT_MAX];

    problem_set(p, -EBUSY, PROBLEM_BUSY, "%s is held by %s%s%s", w->url, holder,
                until_at != RECORD_NONE ? ", until " : "",
                until_at != RECORD_NONE ? format_time(until, until_at) : "");
    problem_remedy(p, "--queue waits for it.");
    return -EBUSY;
}

/* By sessions that another host coordinates, or that hold a worker of another host. */
static int session_check_leases(const struct job_creation *c, struct problem *p)
{
    for (size_t i = 0; i < c->plan.n_chosen && !c->request.queue && !c->request.lease; i++) {
        const struct worker *w = &c->fleet->workers[c->plan.chosen[i]];
        int64_t until_at;
        const char *holder = sessions_lease_holder(sessions_of(c->jobs), w, NULL, &until_at);
        if (holder)
            return refuse_held(w, holder, until_at, p);
        if (w->held_by)
            return refuse_held(w, w->held_by, RECORD_NONE, p);
    }
    return 0;
}

/* What a lease was granted for has no other holder: sessions that wait are not asked, as they wait for it. */
static int session_check_leased(const struct job_creation *c, struct problem *p)
{
    for (size_t i = 0; i < c->plan.n_chosen; i++) {
        const struct worker *w = &c->fleet->workers[c->plan.chosen[i]];
        if (!lease_worker_find(c->request.lease, w->url))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s is not a worker of the lease", w->url);
        if (worker_is_elsewhere(c, w))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s is not a worker of this host", w->url);
    }
    return 0;
}

static int session_check_free(struct job_creation *c, struct problem *p)
{
    char until[UNIT_TEXT_MAX];

    for (size_t i = 0; i < c->plan.n_chosen; i++)
        sessions_forget_replaced(sessions_of(c->jobs), &c->fleet->workers[c->plan.chosen[i]]);
    if (c->request.lease)
        return session_check_leased(c, p);
    for (size_t i = 0; i < c->plan.n_chosen && !c->request.queue; i++) {
        const struct worker *w = &c->fleet->workers[c->plan.chosen[i]];
        const char *url = w->url;
        const struct session *holder = sessions_holder(sessions_of(c->jobs), w, NULL);
        if (!holder)
            continue;
        const struct session_record *r = &holder->record;
        bool is_ending =
            r->state > STATE_RECORDING; /* its workers write their traces: nobody knows until when */
        int64_t end = is_ending ? RECORD_NONE : r->stop_at != RECORD_NONE ? r->stop_at : r->hard_stop_at;
        problem_set(p, -EBUSY, PROBLEM_BUSY, "%s is held by s%" PRId64 " of %s, which is %s%s%s", url,
                    r->session_id, r->requested_by, state_name(r->state), end != RECORD_NONE ? " until " : "",
                    end != RECORD_NONE ? format_time(until, end) : "");
        const char *coordinator = r->coordinator_name ? r->coordinator_name : "the host that coordinates it";
        if (is_ending)
            problem_remedy(p, "profctl status s%" PRId64 " shows how far it is; --queue waits for it.",
                           r->session_id);
        else if (session_is_leased(holder))
            problem_remedy(p, "On %s: profctl stop %s ends it on all hosts; --queue waits for it.",
                           coordinator, r->uuid);
        else if (worker_is_on_demand(w))
            problem_remedy(p, "profctl status s%" PRId64 " shows when it starts; --queue waits for it.",
                           r->session_id);
        else
            problem_remedy(p, "profctl stop s%" PRId64 " ends it; --queue waits for it.", r->session_id);
        return -EBUSY;
    }
    return session_check_leases(c, p);
}

/*
 * Processes on demand learn the start time beforehand, and all targets share it. Said in the answer to the request; a
 * session that has to wait for something first gets it when it begins.
 */
static void session_plan_start(struct job_creation *c)
{
    const int64_t lead_ns = sessions_lead_ns(sessions_of(c->jobs)), asked = c->request.start_at;
    bool waits = c->request.queue || c->request.workload, any = false;
    char text[UNIT_TEXT_MAX], lead[UNIT_TEXT_MAX];
    const char *because = "PyTorch processes fetch their request with their next poll, then warm up";

    for (size_t i = 0; i < c->plan.n_chosen; i++)
        any = any || worker_is_on_demand(&c->fleet->workers[c->plan.chosen[i]]);
    if (!any)
        return;
    format_duration(lead, lead_ns);
    if (waits) {
        plan_add_remark(&c->plan, NULL, NULL, "starts %s after its workers are free: %s", lead, because);
        return;
    }
    c->request.start_at = MAX(asked, wall_ns() + lead_ns);
    plan_add_remark(&c->plan, NULL, NULL, "all recordings start at %s%s%s%s: %s",
                    format_time(text, c->request.start_at), asked < c->request.start_at ? ", " : "",
                    asked < c->request.start_at ? lead : "",
                    asked < c->request.start_at ? " after the request" : "", because);
}

static int session_choose(struct job_creation *c, struct problem *p)
{
    int r = session_plan_make(c->fleet, &c->request, &c->plan, p);
    if (r == 0)
        r = session_check_free(c, p);
    if (r == 0)
        session_plan_start(c);
    return r;
}

static int session_check(struct job_creation *c, struct problem *p)
{
    const struct sessions *all = sessions_of(c->jobs);
    int r = session_check_free(c, p);

    if (r < 0 || !c->request.workload)
        return r;
    if (!all->loader_ops)
        return problem_set(p, -ENOTSUP, PROBLEM_UNSUPPORTED, "this profd cannot send a load");
    return all->loader_ops->check(&c->request, c->fleet, c->plan.chosen, c->plan.n_chosen, all->loader, p);
}

/* -- Engines that do not stop after N steps: whether profd can count the steps -- */

static void session_on_steps(const struct probe_answer *answers, void *arg)
{
    struct job_creation *c = arg;
    _cleanup_(problem_done) struct problem p = {0};

    for (size_t i = 0; i < c->plan.n_chosen && p.kind == PROBLEM_NONE; i++) {
        const struct worker *w = &c->fleet->workers[c->plan.chosen[i]];
        if (worker_ops(w)->stops_after_steps || answers[i].steps >= 0 || worker_is_elsewhere(c, w) ||
            worker_is_watched(w))
            continue;
        problem_set(&p, -EINVAL, PROBLEM_UNSUPPORTED,
                    "--steps on %s: %s ignores it, and its /metrics do not count steps", w->url,
                    engine_name(w->engine));
        problem_remedy(&p, "Use --duration.");
    }
    job_creation_continue(c, p.kind == PROBLEM_NONE ? NULL : &p);
}

static bool session_inquire(struct job_creation *c)
{
    _cleanup_(freep) const struct worker **workers = xcalloc(c->plan.n_chosen, sizeof(*workers));
    bool matters = false;

    for (size_t i = 0; i < c->plan.n_chosen; i++) {
        workers[i] = &c->fleet->workers[c->plan.chosen[i]];
        matters = matters || (c->request.recording.steps > 0 && !worker_ops(workers[i])->stops_after_steps &&
                              !worker_is_elsewhere(c, workers[i]) && !worker_is_watched(workers[i]));
    }
    if (matters)
        c->inquiry = probe_start(sessions_of(c->jobs), c->fleet->name, workers, c->plan.n_chosen,
                                 STEPS_PROBE_TIMEOUT_NS, session_on_steps, c);
    return matters;
}

static void session_inquire_cancel(struct job_creation *c)
{
    probe_cancel(c->inquiry);
}

/* -- The rows -- */

/*
 * Where an engine is told where to write, each target gets a directory of its own below the one it was
 * started with: two workers that share a directory and an id would overwrite each other's files.
 */
static void target_set_output_dir(struct target *t, int index)
{
    const struct trace_location *location = &t->worker.location;
    if (target_engine(t)->writes_no_traces)
        return; /* what lies there is no trace */
    if (target_is_remote(t))
        return; /* its host chooses it */
    if (worker_is_watched(&t->worker) && target_engine(t)->takes_output_dir)
        return; /* its server's: target_watch_dir() */
    const char *base = location->dir ? location->dir : "/tmp";
    /* Hosts may have the base in common, and the same numbers; the id of a lease's target is no other's. */
    _cleanup_(freep) char *below = session_is_leased(t->session)
                                       ? xasprintf("profd/%s", t->record.profile_id)
                                       : xasprintf("profd/s%" PRId64 "-%" PRId64 "/w%d", t->record.session_id,
                                                   t->session->record.requested_at / NS_PER_MS, index);

    if (!target_engine(t)->takes_output_dir) {
        t->record.trace_dir = xstrdup(location->local_dir);
        return;
    }
    t->record.output_dir = xasprintf("%s/%s", base, below);
    t->record.trace_dir = location->local_dir ? xasprintf("%s/%s", location->local_dir, below) : NULL;
}

/*
 * The id of a target's recording; files are named by it. Where a process on demand writes to /tmp, every user of the
 * host could make a link under a name that he can guess, which the process would follow where the kernel does not
 * protect it (fs.protected_symlinks). On another host, sessions of other coordinators have the same numbers; that of a lease
 * is its coordinator's. NULL without random numbers. The caller frees it.
 */
static char *target_profile_id(const struct target *t, const struct job_request *request, int index)
{
    const struct session_record *s = &t->session->record;
    const struct lease_worker *leased = lease_worker_find(request->lease, t->worker.url);
    uint64_t random;

    if (leased)
        return xstrdup(leased->profile_id);
    const struct target *server = target_server(t);
    if (server)
        return xstrdup(server->record.profile_id);
    char *id = xasprintf("s%" PRId64 "-w%d-%" PRId64, s->session_id, index, s->requested_at / NS_PER_MS);
    if (target_is_remote(t))
        append_str(&id, "-%.8s", s->uuid);
    if (!worker_is_on_demand(&t->worker))
        return id;
    if (getrandom(&random, sizeof(random), 0) == (ssize_t)sizeof(random))
        append_str(&id, "-%016" PRIx64, random);
    else
        free(TAKE_PTR(id));
    return id;
}

/*
 * Whether workers of another host that is recorded as well write to the same directory of a shared file system: what appears
 * there is then only collected for the worker that a file proves to be of.
 */
static bool worker_shares_dir(const struct job_creation *c, const struct worker *w)
{
    if (worker_ops(w)->takes_output_dir)
        return false; /* each gets one of its own */
    for (size_t i = 0; i < c->plan.n_chosen; i++) {
        const struct worker *other = &c->fleet->workers[c->plan.chosen[i]];
        if (other != w && !streq(other->host_uuid, w->host_uuid) &&
            shared_dir_is_same(&w->shared, &other->shared))
            return true;
    }
    return false;
}

static bool plan_has(const struct job_plan *plan, size_t number)
{
    for (size_t i = 0; i < plan->n_chosen; i++)
        if (plan->chosen[i] == number)
            return true;
    return false;
}

/* Hosts whose word it is that files of w's session are in its directory: of workers that are recorded as well, and of ranks of
 * w that are not, because the directory is said to have their files. The caller frees it; NULL: none. */
static char *worker_sharing_hosts(const struct job_creation *c, const struct worker *w)
{
    char *hosts = NULL;

    for (size_t i = 0; i < c->fleet->n_workers; i++) {
        const struct worker *other = &c->fleet->workers[i];
        bool is_expected = plan_has(&c->plan, i) ? w->shares_dir > 0
                                                 : worker_is_watched(other) && streq(other->ranks_of, w->url);
        if (!is_expected || !other->host || streq(other->host_uuid, w->host_uuid) ||
            !shared_dir_is_same(&w->shared, &other->shared) || (hosts && strstr(hosts, other->host)))
            continue;
        append_str(&hosts, "%s%s", hosts ? ", " : "", other->host);
    }
    return hosts;
}

/* A host that has leased its workers is told, and asks no router about their roles. */
static void session_note_shared_dirs(struct job_creation *c)
{
    for (size_t i = 0; i < c->plan.n_chosen; i++) {
        struct worker *w = &c->fleet->workers[c->plan.chosen[i]];
        const struct lease_worker *leased = lease_worker_find(c->request.lease, w->url);
        w->shares_dir = leased ? leased->shares_dir : worker_shares_dir(c, w);
        free(w->shares_with);
        w->shares_with = c->request.lease ? NULL : worker_sharing_hosts(c, w);
        if (leased && w->role == ROLE_UNKNOWN)
            w->role = leased->role;
    }
}

/* Ranks that are recorded as those of another host are not expected of their server. */
static unsigned worker_ranks_elsewhere(const struct job_creation *c, const struct worker *server)
{
    unsigned n = 0;

    for (size_t i = 0; i < c->plan.n_chosen; i++) {
        const struct worker *w = &c->fleet->workers[c->plan.chosen[i]];
        if (worker_is_watched(w) && streq(w->ranks_of, server->url))
            n += worker_ranks_expected(w);
    }
    return n;
}

static void session_share_ranks(struct job_creation *c)
{
    for (size_t i = 0; i < c->plan.n_chosen; i++) {
        struct worker *w = &c->fleet->workers[c->plan.chosen[i]];
        if (worker_is_watched(w))
            continue;
        const unsigned all = worker_ranks_expected(w), elsewhere = worker_ranks_elsewhere(c, w);
        const struct lease_worker *leased = lease_worker_find(c->request.lease, w->url);
        if (leased)
            w->sizes.ranks = leased->ranks;
        else if (elsewhere > 0 && elsewhere < all)
            w->sizes.ranks = (int)(all - elsewhere);
    }
}

static int session_add_target(struct target *t, const struct job_request *request, const struct worker *w,
                              bool is_elsewhere, int index)
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
    t->record.host = xstrdup(w->host);
    if (is_elsewhere)
        t->record.host_uuid = xstrdup(w->host_uuid);
    t->record.profile_id = target_profile_id(t, request, index);
    if (!t->record.profile_id)
        return -EIO;
    target_set_output_dir(t, index);
    return catalog_add_target(s->all->jobs.catalog, &t->record);
}

/* A workload's prompts may be megabytes, and are stored for nobody but their owner. */
static char *session_options_text(const struct job_creation *c)
{
    _cleanup_json_ options = json_copy(c->options);

    if (c->request.workload)
        json_object_set_new(options, "workload", workload_kept(c->request.workload));
    return json_dumps(options, JSON_COMPACT);
}

/* The deadline holds from the first row on: a later profd enforces it as well. */
static void session_take_lease(struct session *s, const struct lease_start *lease)
{
    struct session_record *rec = &s->record;

    replace_str(&rec->uuid, lease->session_uuid);
    rec->coordinator = xstrdup(lease->coordinator);
    rec->coordinator_name = xstrdup(lease->coordinator_name);
    rec->lease_id = lease->lease_id;
    replace_str(&rec->boot_id, s->all->boot_id);
    s->deadline_boot_ns = lease->deadline_boot_ns;
    session_limit_length(s, rec->requested_at, s->all->settings->session_limit_ns);
}

static int session_add_rows(struct job_creation *c, struct session *s)
{
    struct session_record *rec = &s->record;
    struct catalog *catalog = c->jobs->catalog;

    rec->state = STATE_REQUESTED;
    rec->uuid = uuid_new();
    rec->router = xstrdup(c->fleet->router);
    rec->dialect = xstrdup(c->fleet->dialect);
    rec->fleet = xstrdup(c->fleet->name);
    rec->options = session_options_text(c);
    rec->labels = json_dumps(c->request.labels, JSON_COMPACT | JSON_SORT_KEYS);
    rec->requested_at = wall_ns();
    rec->requested_by = xstrdup(c->actor);
    if (json_array_size(c->plan.remarks) > 0) {
        s->remarks = json_deep_copy(c->plan.remarks);
        rec->remarks = json_dumps(s->remarks, JSON_COMPACT);
    }
    if (json_array_size(c->plan.skipped) > 0)
        rec->skipped = json_dumps(c->plan.skipped, JSON_COMPACT);
    if (c->request.start_at > 0)
        rec->start_at = c->request.start_at;
    if (c->request.lease)
        session_take_lease(s, c->request.lease);
    session_note_shared_dirs(c);
    session_share_ranks(c);
    int r = catalog_saw_fleet(catalog, c->fleet);
    if (r >= 0)
        r = catalog_add_session(catalog, rec);
    s->job.id = rec->session_id;
    for (size_t i = 0; i < s->n_targets && r >= 0; i++) {
        const struct worker *w = &c->fleet->workers[c->plan.chosen[i]];
        r = session_add_target(&s->targets[i], &c->request, w, worker_is_elsewhere(c, w), (int)i);
    }
    if (r >= 0)
        r = catalog_add_event(catalog, "session-requested", c->actor, rec->session_id, RECORD_NONE,
                              RECORD_NONE, "%zu workers of %s", s->n_targets,
                              rec->router ? rec->router : "a list");
    return r;
}

static void session_drop(struct live_job *job)
{
    struct session *s = (struct session *)job;

    if (session_has_load(s))
        s->all->loader_ops->forget(s, s->all->loader);
    session_free(s);
}

static int64_t session_add(struct job_creation *c)
{
    struct sessions *all = sessions_of(c->jobs);
    struct session *s = session_alloc(all, c->plan.n_chosen);
    int r = session_add_rows(c, s);

    s->request = c->request;
    c->request = (struct job_request){0};
    if (r >= 0 && s->request.workload) {
        r = all->loader_ops->create(s, c->fleet, c->plan.chosen, c->plan.n_chosen, c->actor, all->loader);
        json_t *kept = workload_kept(s->request.workload);
        json_decref(s->request.workload);
        s->request.workload = kept;
    }
    if (r >= 0)
        return s->record.session_id;
    session_drop(&s->job);
    return r;
}

static void session_on_created(struct live_job *job)
{
    struct session *s = (struct session *)job;

    if (session_is_leased(s))
        session_arm_hard_limit(s);
    session_proceed(s);
}

/* A session that has not begun is there when profd starts again. */
static void session_on_shutdown(struct live_job *job)
{
    struct session *s = (struct session *)job;

    if (s->record.state != STATE_REQUESTED || session_is_leased(s))
        session_stop(s);
    else
        session_give_back(s);
}

const struct job_ops session_job_ops = {
    .noun = "session",
    .limit_remedy = "[limits] sessions= in profd.conf sets the maximum; profctl status lists them.",
    .maximum = sessions_maximum,
    .check_request = session_check_request,
    .choose = session_choose,
    .inquire = session_inquire,
    .inquire_cancel = session_inquire_cancel,
    .check = session_check,
    .add = session_add,
    .drop = session_drop,
    .begin = session_on_created,
    .stop = session_stop_by,
    .read = session_read,
    .shutdown = session_on_shutdown,
    .delays_shutdown = session_has_pending_stop,
    .shutdown_over = sessions_log_pending_stops,
};
