/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes the trace of an import job to a target or a session, by the source of the job. */
#include "daemon/collect/attribute.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/collect/pipeline.h"
#include <errno.h>
#include <inttypes.h>

/* File times and the time of a start are both this host's, but file systems round. */
#define FILE_TIME_SLACK_NS (2 * NS_PER_S)

/* -- The decision -- */

static bool evidence_trace_id(const struct attribution_candidate *c, const struct attribution_evidence *e)
{
    return e->trace_id && c->trace_id && streq(e->trace_id, c->trace_id);
}

static bool evidence_id(const struct attribution_candidate *c, const struct attribution_evidence *e)
{
    /* SGLang may put a prefix before the id, see trace_name.profile_id. */
    return e->profile_id && c->profile_id && ends_with(e->profile_id, c->profile_id);
}

static bool evidence_open_file(const struct attribution_candidate *c, const struct attribution_evidence *e)
{
    return c->had_it_open;
}

static bool evidence_pid(const struct attribution_candidate *c, const struct attribution_evidence *e)
{
    for (size_t i = 0; i < c->n_pids && e->pid >= 0; i++)
        if (c->pids[i] == e->pid || c->inner_pids[i] == e->pid)
            return true;
    return false;
}

static bool evidence_owner(const struct attribution_candidate *c, const struct attribution_evidence *e)
{
    return c->uid_known && c->uid == e->owner;
}

static const struct {
    const char *name;
    bool (*matches)(const struct attribution_candidate *c, const struct attribution_evidence *e);
} evidence_rules[] = {
    {"the id in its metadata", evidence_trace_id},
    {"the id in its name", evidence_id},
    {"the process that wrote it", evidence_open_file},
    {"the process id in it", evidence_pid},
    {"its owner", evidence_owner},
};

/* By a worker of another host. */
static bool attribution_is_elsewhere(const struct attribution_candidate *c,
                                     const struct attribution_evidence *e)
{
    return c->shares_dir && !c->had_it_open && c->n_pids > 0 && e->pid >= 0 && !evidence_pid(c, e) &&
           !evidence_id(c, e);
}

/* No other evidence outweighs this: whoever may write to the directory can name a file as he likes. */
static bool attribution_is_refuted(const struct attribution_candidate *c,
                                   const struct attribution_evidence *e)
{
    if (attribution_is_elsewhere(c, e))
        return true;
    return c->trace_id && (e->trace_id ? !streq(e->trace_id, c->trace_id) : !c->has_given_name);
}

static size_t attribution_count(const bool *set, size_t n)
{
    size_t n_set = 0;
    for (size_t i = 0; i < n; i++)
        n_set += set[i];
    return n_set;
}

/*
 * A worker's next session starts after the stop of the previous one was answered, and so after its traces were
 * written: a file belongs to the latest session that had been started when it was written. Candidates of
 * several workers all stay. Returns how many are left.
 */
static size_t attribution_keep_latest_session(const struct attribution_candidate *candidates, size_t n,
                                              int64_t written_at, bool *left)
{
    size_t latest = n;

    for (size_t i = 0; i < n; i++) {
        if (!left[i])
            continue;
        if (latest < n && !streq(candidates[i].worker, candidates[latest].worker))
            return attribution_count(left, n);
        bool had_begun = candidates[i].started_at <= written_at;
        if (latest == n || (had_begun && candidates[i].started_at > candidates[latest].started_at) ||
            (candidates[latest].started_at > written_at &&
             candidates[i].started_at < candidates[latest].started_at))
            latest = i;
    }
    if (latest == n || !candidates[latest].worker)
        return attribution_count(left, n);
    memset(left, 0, n * sizeof(*left));
    left[latest] = true;
    return 1;
}

int attribution_decide(const struct attribution_candidate *candidates, size_t n,
                       const struct attribution_evidence *e, bool *left, const char **ret_evidence)
{
    const char *evidence = "its directory and time";
    size_t n_left, first = 0;

    for (size_t i = 0; i < n; i++)
        left[i] = !attribution_is_refuted(&candidates[i], e);
    n_left = attribution_count(left, n);
    /* A rule that fits no candidate is no evidence. */
    for (size_t r = 0; r < ARRAY_SIZE(evidence_rules) && n_left > 1; r++) {
        _cleanup_(freep) bool *fits = xcalloc(n, sizeof(*fits));
        for (size_t i = 0; i < n; i++)
            fits[i] = left[i] && evidence_rules[r].matches(&candidates[i], e);
        size_t n_fits = attribution_count(fits, n);
        if (n_fits == 0)
            continue;
        memcpy(left, fits, n * sizeof(*fits));
        n_left = n_fits;
        evidence = evidence_rules[r].name;
    }
    if (n_left > 1 && e->written_at > 0)
        n_left = attribution_keep_latest_session(candidates, n, e->written_at, left);
    if (n_left != 1)
        return n_left == 0 ? ATTRIBUTION_NONE : ATTRIBUTION_AMBIGUOUS;
    *ret_evidence = evidence;
    while (!left[first])
        first++;
    return (int)first;
}

/* -- Candidates for a discovered file -- */

static const enum engine engine_of_writer[_TRACE_WRITER_MAX] = {
    [TRACE_WRITER_VLLM] = ENGINE_VLLM,       [TRACE_WRITER_SGLANG] = ENGINE_SGLANG,
    [TRACE_WRITER_RTP_LLM] = ENGINE_RTP_LLM, [TRACE_WRITER_TENSORRT_LLM] = ENGINE_TENSORRT_LLM,
    [TRACE_WRITER_ATOM] = ENGINE_ATOM,       [TRACE_WRITER_TOKENSPEED] = ENGINE_TOKENSPEED,
};

static bool attribution_has_given_name(const struct discovered_file *f, const struct target *t)
{
    return starts_with(f->name, t->record.profile_id);
}

/* The peer credentials of a process on demand prove its user. On a network file system, the server decides which owner
 * a file shows. */
static bool attribution_owner_fits(const struct watched_dir *d, const struct target *t, uid_t owner)
{
    return !worker_is_on_demand(&t->worker) || d->remote || t->worker.uid == owner;
}

static bool attribution_writer_fits(const struct discovered_file *f, const struct target *t)
{
    enum engine writer = engine_of_writer[f->parsed.writer], profiler = worker_profiler(&t->worker);

    /* Where the process was not allowed to write to the requested path, Kineto's default; its content decides. */
    if (worker_is_on_demand(&t->worker))
        return attribution_has_given_name(f, t) ||
               (starts_with(f->name, KINETO_DEFAULT_NAME) && attribution_owner_fits(f->dir, t, f->uid));
    if (worker_ops(&t->worker)->names_traces)
        return attribution_has_given_name(f, t);
    return writer == ENGINE_UNKNOWN || profiler == ENGINE_UNKNOWN || writer == profiler;
}

/* No file of the target's recording was written before, by the times of files: the wall time of its start, or
 * the time that the clock as it is set now would have shown then where that is earlier. */
static int64_t attribution_began_at(const struct target *t)
{
    const struct session_record *s = &t->session->record;

    if (s->begun_boot_ns == RECORD_NONE)
        return s->begun_at;
    return wall_earliest(s->begun_at, boot_ns() - s->begun_boot_ns);
}

/* By directory and time. */
static bool attribution_recorded_then(const struct discovered_file *f, const struct collection *k)
{
    const struct target *t = k->target;
    const struct session_record *s = &t->session->record;

    if (k->dir != f->dir || s->begun_at == RECORD_NONE)
        return false;
    /* A file that has not changed since the start was sent is of an earlier session, whatever its time. */
    if (s->begun_boot_ns != RECORD_NONE && mono_ns() - f->changed_ns > boot_ns() - s->begun_boot_ns)
        return false;
    if (t->record.state < STATE_RECORDING || state_is_final(t->record.state))
        return false;
    /* Kineto renames a trace when it is complete; one that keeps its first name never will be. */
    if (worker_is_on_demand(&t->worker) && f->parsed.unfinished)
        return false;
    /* Another host's clock may be late, then the time at which it was seen here counts. */
    int64_t written_at = f->dir->remote ? MAX(f->mtime_ns, f->arrived_at) : f->mtime_ns;
    return written_at >= attribution_began_at(t) - FILE_TIME_SLACK_NS;
}

bool file_may_be_of(const struct discovered_file *f, const struct collection *k)
{
    return attribution_recorded_then(f, k) && attribution_writer_fits(f, k->target);
}

/* The same of a file that was read and opened: the id in its metadata counts whatever its name is. */
static bool attribution_is_candidate(const struct import_job *job, const struct collection *k,
                                     const char *trace_id)
{
    const struct target *t = k->target;
    const struct discovered_file *f = job->file;

    if (!attribution_recorded_then(f, k) || !attribution_owner_fits(f->dir, t, job->st.st_uid))
        return false;
    return attribution_writer_fits(f, t) ||
           (worker_is_on_demand(&t->worker) && trace_id && streq(trace_id, t->record.profile_id));
}

static struct attribution_candidate attribution_candidate_of(const struct collection *k,
                                                             const struct discovered_file *f)
{
    const struct target *t = k->target;
    const struct worker *w = &t->worker;
    bool is_on_demand = worker_is_on_demand(w);
    struct attribution_candidate candidate = {.trace_id = is_on_demand ? t->record.profile_id : NULL,
                                              .has_given_name = attribution_has_given_name(f, t),
                                              .profile_id =
                                                  t->record.output_dir ? t->record.profile_id : NULL,
                                              .pids = k->pids,
                                              .inner_pids = k->inner_pids,
                                              .n_pids = k->n_pids,
                                              .shares_dir = w->shares_dir > 0,
                                              .uid_known = w->pid > 0,
                                              .uid = w->uid,
                                              .worker = w->url,
                                              .started_at = attribution_began_at(t)};
    for (size_t i = 0; i < f->n_openers; i++)
        candidate.had_it_open = candidate.had_it_open || f->openers[i] == w->pid;
    return candidate;
}

/* The session is known where all candidates are of one. */
static void attribute_ambiguous(struct trace_record *row, struct collection **collections, size_t n,
                                const bool *left)
{
    _cleanup_json_ urls = json_array();
    const struct target *first = NULL;
    bool one_session = true;

    for (size_t i = 0; i < n; i++) {
        if (!left[i])
            continue;
        collections[i]->is_candidate = true;
        const struct target *t = collections[i]->target;
        json_array_append_new(urls, json_text(t->worker.url));
        first = first ? first : t;
        one_session = one_session && t->session == first->session;
    }
    if (one_session && first)
        row->session_id = first->record.session_id;
    free(row->candidates);
    row->candidates = json_dumps(urls, JSON_COMPACT);
}

/* Why a target whose name the file has gets nothing from it. */
static void attribute_explain_refuted(const struct import_job *job, struct collection **collections, size_t n,
                                      const char *trace_id)
{
    for (size_t i = 0; i < n; i++) {
        struct collection *k = collections[i];
        const struct target *t = k->target;
        if (trace_id && worker_is_on_demand(&t->worker) && !k->trouble &&
            attribution_has_given_name(job->file, t) && !streq(trace_id, t->record.profile_id))
            k->trouble = xasprintf("%s has the name of its trace and is another recording's, by its trace_id",
                                   job->origin);
    }
}

static int attribute_discovered(struct import_job *job)
{
    struct discovered_file *f = job->file;
    struct trace_record *row = &job->row;
    const char *trace_id = json_get_str(job->facts, "request_trace_id");
    const struct attribution_evidence e = {.trace_id = trace_id,
                                           .profile_id =
                                               f->parsed.profile_id[0] ? f->parsed.profile_id : NULL,
                                           .pid = row->pid == RECORD_NONE ? -1 : row->pid,
                                           .owner = f->uid,
                                           .written_at = f->dir->remote ? 0 : f->mtime_ns};
    size_t max = f->dir->n_targets, n = 0;
    _cleanup_(freep) struct collection **collections = xcalloc(max, sizeof(struct collection *));
    _cleanup_(freep) struct attribution_candidate *candidates = xcalloc(max, sizeof(*candidates));
    _cleanup_(freep) bool *left = xcalloc(max, sizeof(*left));
    struct collection *k;
    const char *evidence;

    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir)
        if (attribution_is_candidate(job, k, trace_id)) {
            collections[n] = k;
            candidates[n++] = attribution_candidate_of(k, f);
        }
    int which = attribution_decide(candidates, n, &e, left, &evidence);
    if (which >= 0) {
        const struct target *t = collections[which]->target;
        row->session_id = t->record.session_id;
        row->target_id = f->target_id = t->record.target_id;
        replace_str(&row->worker_url, t->worker.url);
        /* Of a process without process groups, only its environment has the rank. */
        if (row->rank < 0 && t->worker.process.rank >= 0)
            row->rank = t->worker.process.rank;
        log_debug("%s/%s belongs to %s, by %s", f->dir->path, f->name, row->worker_url, evidence);
    } else if (which == ATTRIBUTION_AMBIGUOUS) {
        attribute_ambiguous(row, collections, n, left);
    }
    attribute_explain_refuted(job, collections, n, trace_id);
    bool is_elsewhere = which == ATTRIBUTION_NONE && n > 0;
    for (size_t i = 0; i < n; i++)
        is_elsewhere = is_elsewhere && attribution_is_elsewhere(&candidates[i], &e);
    if (is_elsewhere)
        log_debug("%s/%s is of a worker of another host", f->dir->path, f->name);
    for (size_t i = 0; i < n && is_elsewhere; i++)
        replace_str(&collections[i]->left_file, f->name);
    return is_elsewhere;
}

/* -- Files of the store, and of clients -- */

/* A file of the store belongs to the session in whose directory it is. */
static int attribute_recovered(struct import_job *job)
{
    struct collector *c = job->collector;
    const char *slash = strrchr(job->dir_path, '/');
    struct session_record session;
    int64_t id;

    session_record_init(&session);
    if (store_holds(c->store, job->origin) && slash && slash[1] == 's' &&
        parse_ref(slash + 1, 's', &id) == 's' && catalog_get_session(c->catalog, id, &session) == 0)
        job->row.session_id = id;
    session_record_done(&session);
    return 0;
}

/* A session without a recording: it is complete, and has no targets. */
static int attribute_add_session(struct import_job *job, int64_t *ret_id)
{
    struct catalog *catalog = job->collector->catalog;
    struct import_options *options = &job->options;
    struct session_record s;

    session_record_init(&s);
    s.state = STATE_COMPLETE;
    s.options = (char *)"{}";
    s.labels = options->labels ? options->labels : (char *)"{}";
    s.requested_at = s.finished_at = wall_ns();
    s.requested_by = job->actor;
    s.name = options->session_name;
    int r = catalog_add_session(catalog, &s);
    if (r >= 0)
        r = catalog_add_event(catalog, "session-ingested", job->actor, s.session_id, RECORD_NONE, RECORD_NONE,
                              "%s", options->session_name);
    *ret_id = s.session_id;
    return r;
}

/* The session that the client named; one that is named and does not exist is created. */
static int attribute_requested(struct import_job *job)
{
    struct catalog *catalog = job->collector->catalog;
    struct import_options *options = &job->options;
    struct problem *p = &job->problem;
    struct session_record s;

    job->row.kind = TRACE_KIND_TRACE;
    replace_str(&job->row.labels, options->labels);
    if (!options->session_name && options->session_id == RECORD_NONE)
        return 0;
    int r = options->session_name ? catalog_find_session_by_name(catalog, options->session_name, &s)
                                  : catalog_get_session(catalog, options->session_id, &s);
    if (r >= 0) {
        bool is_over = state_is_final(s.state);
        job->row.session_id = s.session_id;
        session_record_done(&s);
        return is_over ? 0
                       : problem_set(p, -EBUSY, PROBLEM_CONFLICT,
                                     "session s%" PRId64 " is still being recorded", job->row.session_id);
    }
    if (r == -ENOENT && !options->session_name)
        return problem_set(p, r, PROBLEM_NOT_FOUND, "there is no session s%" PRId64, options->session_id);
    if (r == -ENOENT)
        r = attribute_add_session(job, &job->row.session_id);
    return r < 0 ? catalog_problem(catalog, r, p, "cannot catalog the session of %s", job->origin) : 0;
}

int attribute_job(struct import_job *job)
{
    static int (*const by_source[])(struct import_job * job) = {
        [IMPORT_DISCOVERED] = attribute_discovered,
        [IMPORT_RECOVERED] = attribute_recovered,
        [IMPORT_REQUESTED] = attribute_requested,
    };

    return by_source[job->source](job);
}
