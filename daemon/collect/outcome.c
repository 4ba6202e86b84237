/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of a target's recording: its traces are counted as they are cataloged; its collection ends when
 * every expected one is there and complete, or when no file has changed for a time after which nothing more
 * is expected. Then the session gets the outcome, with the missing ranks and the reasons, and each trace the
 * name of its engine instance (trace/read/instance.h): by the same evidence as profctl's analysis, as far as
 * the catalog has it.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process_info.h"
#include "base/units.h"
#include "daemon/collect/pipeline.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/fleet/url.h"
#include "trace/read/instance.h"
#include <errno.h>
#include <inttypes.h>

#define MISSING_LISTED_MAX 8
/* A file that still grows then is another program's, or will never end. */
#define COLLECTING_MAX_NS (1800 * NS_PER_S)
/* Files of one directory that are reported, with the reason why they are not collected. */
#define REPORTS_MAX         16
#define REPORTS_INTERVAL_NS (60 * NS_PER_S)
/* Each is compared with each. */
#define INSTANCE_TRACES_MAX 256

/* -- Traces of a collection -- */

static void outcome_note_damage(struct collection *k, const struct trace_record *row)
{
    const char *state = trace_state_name(row->state);
    bool names_state = row->reason && starts_with(row->reason, state);

    free(k->damage);
    k->damage = names_state ? xasprintf("t%" PRId64 " is %s", row->trace_id, row->reason)
                            : xasprintf("t%" PRId64 " is %s%s%s", row->trace_id, state,
                                        row->reason ? ": " : "", row->reason ? row->reason : "");
}

/* Whether the recording is waited for by such files. Proton's are kept and not read: they count by their names. */
static bool outcome_is_of_rank(const struct collection *k, const struct discovered_file *f,
                               const struct trace_record *row)
{
    bool is_proton = streq(k->target->worker.setup.kind, "proton");

    return row->kind == TRACE_KIND_TRACE || (is_proton && row->kind == TRACE_KIND_ATTACHMENT &&
                                             f->parsed.writer == TRACE_WRITER_VLLM && row->rank >= 0);
}

void outcome_count(struct discovered_file *f, const struct trace_record *row, bool again)
{
    struct collection *k;

    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir) {
        bool is_its_own = k->target->record.target_id == row->target_id;
        bool is_ambiguous = row->candidates && k->is_candidate;
        if (!is_its_own && !is_ambiguous)
            continue;
        k->last_news_ns = MAX(k->last_news_ns, f->changed_ns);
        if (!outcome_is_of_rank(k, f, row))
            continue;
        k->n_traces += !again;
        if (is_its_own && row->state == TRACE_COMPLETE) {
            k->n_complete_of[f->parsed.stage]++;
            k->n_complete = MAX(k->n_complete, k->n_complete_of[f->parsed.stage]);
            if (row->rank >= 0 && row->rank < 64)
                k->ranks |= UINT64_C(1) << row->rank;
        } else if (is_its_own && row->state != TRACE_DUPLICATE) {
            outcome_note_damage(k, row);
        }
    }
}

/* Anybody can make a hundred thousand files that are not collected: some are reported, then that there are
 * more. */
static bool outcome_may_report(struct watched_dir *d)
{
    int64_t now = mono_ns();

    if (d->n_reports == 0 || now - d->reports_since_ns >= REPORTS_INTERVAL_NS) {
        d->reports_since_ns = now;
        d->n_reports = 0;
    }
    if (d->n_reports++ == REPORTS_MAX)
        log_warning("more files in %s are not collected; they are not reported for a minute", d->path);
    return d->n_reports <= REPORTS_MAX;
}

void outcome_report_trouble(struct watched_dir *d, const struct discovered_file *f, const char *remedy,
                            const char *text)
{
    const struct collection *first = NULL;
    struct collection *k;

    TAILQ_FOREACH(k, &d->collections, next_in_dir) {
        if (f && !file_may_be_of(f, k))
            continue;
        first = first ? first : k;
        if (k->trouble)
            continue;
        k->trouble = xstrdup(text);
        replace_str(&k->trouble_remedy, remedy);
    }
    if (!outcome_may_report(d))
        return;
    log_warning("%s", text);
    catalog_add_event(d->collector->catalog, "trace-refused", "profd",
                      first ? first->target->record.session_id : RECORD_NONE, RECORD_NONE, RECORD_NONE, "%s",
                      text);
}

/* -- Engine instances -- */

struct instance_traces {
    int64_t *members; /* targets of the group */
    size_t n_members, cap_members;
    const char *group;
    int64_t *traces;
    struct instance_clues *clues; /* with strings of its own */
    size_t n, cap, cap_traces;
};

static void instance_traces_done(struct instance_traces *g)
{
    for (size_t i = 0; i < g->n; i++) {
        free((char *)g->clues[i].worker);
        free((char *)g->clues[i].path);
        free((char *)g->clues[i].stage);
    }
    free(g->members);
    free(g->traces);
    free(g->clues);
}

static int outcome_add_member(const struct target_record *r, void *arg)
{
    struct instance_traces *g = arg;
    char error[200];
    _cleanup_json_ worker = r->worker ? json_parse(r->worker, strlen(r->worker), error) : NULL;
    const char *group = json_get_str(worker, "group");

    if (!group || !streq(group, g->group))
        return 0;
    VEC_GROW(g->members, g->n_members, g->cap_members);
    g->members[g->n_members++] = r->target_id;
    return 0;
}

static bool outcome_has_member(const struct instance_traces *g, int64_t target_id)
{
    for (size_t i = 0; i < g->n_members; i++)
        if (g->members[i] == target_id)
            return true;
    return false;
}

static int outcome_add_trace(const struct trace_record *r, void *arg)
{
    struct instance_traces *g = arg;

    if (r->kind != TRACE_KIND_TRACE || !outcome_has_member(g, r->target_id))
        return 0;
    if (g->n == INSTANCE_TRACES_MAX)
        return -E2BIG;
    size_t n = g->n;
    VEC_GROW(g->traces, n, g->cap_traces);
    VEC_GROW(g->clues, g->n, g->cap);
    g->traces[g->n] = r->trace_id;
    g->clues[g->n++] = (struct instance_clues){.worker = xstrdup(r->worker_url),
                                               .path = xstrdup(r->name),
                                               .stage = xstrdup(r->stage),
                                               .group = g->group,
                                               .rank = r->rank,
                                               .world_size = r->world_size,
                                               .dp = r->dp,
                                               .from_ns = r->first_event_at,
                                               .to_ns = r->last_event_at};
    return 0;
}

static int outcome_save_names(struct catalog *c, const struct instance_traces *g)
{
    _cleanup_(freep) size_t *numbers = xcalloc(g->n + 1, sizeof(*numbers));
    _cleanup_(freep) char(*names)[INSTANCE_NAME_MAX] = xcalloc(g->n + 1, sizeof(*names));
    int64_t n = instances_find(g->clues, g->n, NULL, NULL, numbers);
    int r = MIN((int)n, 0);

    if (n > 0)
        instances_name(g->clues, g->n, numbers, (size_t)n, names);
    for (size_t i = 0; i < g->n && r >= 0; i++)
        r = catalog_set_instance(c, g->traces[i], names[numbers[i]]);
    return r;
}

static void outcome_name_instances(struct catalog *c, const struct target *t)
{
    _cleanup_(instance_traces_done) struct instance_traces g = {.group = t->worker.group};
    struct trace_filter filter = {.session_id = t->record.session_id,
                                  .worker_url = g.group ? NULL : t->worker.url,
                                  .since = RECORD_NONE,
                                  .until = RECORD_NONE,
                                  .before_id = RECORD_NONE,
                                  .limit = RECORD_NONE};
    int r = 0;

    VEC_GROW(g.members, g.n_members, g.cap_members);
    g.members[g.n_members++] = t->record.target_id;
    if (g.group)
        r = catalog_each_target(c, t->record.session_id, outcome_add_member, &g);
    if (r >= 0)
        r = catalog_each_trace(c, &filter, outcome_add_trace, &g);
    if (r >= 0)
        r = outcome_save_names(c, &g);
    if (r < 0)
        log_warning("cannot save the engine instances of %s: %s", t->worker.url, strerror(-r));
}

/* -- The end of a collection -- */

/* Kineto's default is in a directory that is not watched for the target: a file there is not found. */
static const char *outcome_name_default(struct collection *k)
{
    const struct worker *w = &k->target->worker;
    const char *remedy = worker_ops(w)->nothing_remedy;

    if (!worker_is_on_demand(w) || streq(w->location.dir, KINETO_DEFAULT_DIR))
        return remedy;
    free(k->trouble_remedy);
    k->trouble_remedy = xasprintf(
        "%s A process that is not allowed to write to %s writes to " KINETO_DEFAULT_DIR
        "/" KINETO_DEFAULT_NAME "%" PRId64 ".json in its own view: profctl ingest imports that file.",
        remedy, w->location.dir, w->process.inner_pid > 0 ? w->process.inner_pid : (int64_t)w->pid);
    return k->trouble_remedy;
}

static void outcome_explain_nothing(struct collection *k, char **ret_reason, const char **ret_remedy)
{
    const struct target *t = k->target;
    char patience[UNIT_TEXT_MAX];

    if (k->trouble) {
        *ret_reason = xstrdup(k->trouble);
        *ret_remedy = k->trouble_remedy;
        return;
    }
    if (k->n_traces > 0) {
        *ret_reason = xasprintf("%u trace%s in %s may belong to this or another worker", k->n_traces,
                                k->n_traces == 1 ? "" : "s", k->dir->path);
        *ret_remedy = "Give each worker a directory of its own.";
        return;
    }
    if (k->left_file) {
        *ret_reason =
            xasprintf("recorded nothing: %s in %s is of a process that does not run on this host, and "
                      "workers of other hosts write there as well",
                      k->left_file, k->dir->path);
        *ret_remedy =
            "If it is of this worker, give each worker a directory of its own; profctl ingest imports "
            "the file.";
        return;
    }
    if (worker_is_on_demand(&t->worker) &&
        process_has_ended(t->worker.pid, (uint64_t)t->worker.process.start_ticks)) {
        *ret_reason =
            xasprintf("recorded nothing: the process ended before a trace appeared in %s", k->dir->path);
        *ret_remedy = "See its log for why it ended; a process must run until its trace is written.";
        return;
    }
    const char *err = k->dir->err < 0 ? strerror(-k->dir->err) : NULL;
    *ret_reason = xasprintf(
        "recorded nothing: %s no trace appeared in %s within %s%s%s",
        worker_ops(&t->worker)->stop_path ? "it was stopped, and" : "its time is over, and", k->dir->path,
        format_duration(patience, k->dir->collector->settings->settle_ns), err ? ": " : "", err ? err : "");
    if (worker_ops(&t->worker)->nothing_remedy)
        *ret_remedy = outcome_name_default(k);
    else
        *ret_remedy =
            t->worker.setup.wait_iterations > 0 || t->worker.setup.warmup_iterations > 0
                ? "With wait_iterations or warmup_iterations vLLM records only once in the life of its "
                  "process: restart it "
                  "without them."
                : "The worker's log has the reason: look for \"Failed to start profiler\" or \"Failed to "
                  "stop profiler\".";
}

static char *outcome_missing_ranks(const struct collection *k)
{
    char *list = xstrdup("");
    unsigned listed = 0;
    int64_t first = worker_is_watched(&k->target->worker) ? k->target->worker.sizes.first_rank : 0;
    int64_t end = MIN(first + k->target->record.ranks_expected, (int64_t)64);

    for (int64_t i = first; i < end && listed < MISSING_LISTED_MAX; i++) {
        if (k->ranks & UINT64_C(1) << i)
            continue;
        append_str(&list, "%s%" PRId64, listed++ > 0 ? ", " : "", i);
    }
    return list;
}

/* Some ranks are complete. */
static void outcome_explain_some(const struct collection *k, char **ret_reason, const char **ret_remedy)
{
    _cleanup_(freep) char *missing = outcome_missing_ranks(k);
    const char *why = k->trouble ? k->trouble : k->damage;

    *ret_reason =
        xasprintf("%u of %" PRId64 " ranks%s%s%s%s", k->n_complete, k->target->record.ranks_expected,
                  missing[0] ? "; missing or damaged: " : "", missing, why ? "; " : "", why ? why : "");
    *ret_remedy = k->target->worker.sizes.nodes > 1 && k->target->worker.sizes.ranks == 0
                      ? "Ranks of other nodes write to their own disks: a profd there collects them."
                      : k->trouble_remedy;
}

/* There are traces, and none of them is complete and its own. */
static void outcome_explain_damaged(const struct collection *k, char **ret_reason, const char **ret_remedy)
{
    if (k->n_traces == 1)
        *ret_reason = xasprintf("its trace is incomplete: %s", k->damage);
    else
        *ret_reason = xasprintf("none of its %u traces is complete; %s", k->n_traces, k->damage);
    *ret_remedy = "profctl list-traces prints the state of each.";
}

static void outcome_explain_pending(struct collection *k)
{
    if (k->dir->n_opening > 0) {
        k->trouble = xasprintf("%s does not respond", k->dir->path);
        replace_str(&k->trouble_remedy,
                    "Check the server of its file system: ls of the directory would hang as well.");
    } else {
        k->trouble = xasprintf("a file in %s is still growing, long after the stop", k->dir->path);
    }
}

static void outcome_end(struct collection *k)
{
    _cleanup_(freep) char *reason = NULL;
    const char *remedy = NULL;
    enum state outcome = STATE_PARTIAL;

    if (dir_has_pending(k->dir, k) && !k->trouble)
        outcome_explain_pending(k);
    if (k->n_complete >= k->target->record.ranks_expected) {
        outcome = STATE_COMPLETE;
    } else if (k->n_complete > 0) {
        outcome_explain_some(k, &reason, &remedy);
    } else if (k->damage) {
        outcome_explain_damaged(k, &reason, &remedy);
    } else {
        outcome = k->n_traces > 0 && !k->trouble ? STATE_PARTIAL : STATE_FAILED;
        outcome_explain_nothing(k, &reason, &remedy);
    }
    outcome_name_instances(k->dir->collector->catalog, k->target);
    target_collected(k->target, outcome, reason, remedy);
}

/* Where the trace of a worker on another host is, as far as that is known; NULL: on this host, or not known. */
static char *outcome_place_elsewhere(const struct target *t)
{
    const struct worker *w = &t->worker;
    const char *dir = t->record.output_dir ? t->record.output_dir : w->location.dir;
    const char *reason;
    struct url url;

    if (!dir || w->local || w->pid > 0 || url_is_loopback(w->url) || url_parse(w->url, &url, &reason) < 0)
        return NULL;
    return xasprintf("%s:%s", url.host, dir);
}

static void outcome_end_invisible(struct collection *k)
{
    const struct trace_location *location = &k->target->worker.location;
    _cleanup_(freep) char *place = outcome_place_elsewhere(k->target);
    _cleanup_(freep) char *reason =
        place ? xasprintf("recorded; its trace is on %s, not collected", place)
              : xasprintf("recorded, but its traces cannot be collected from here: %s",
                          location->note ? location->note : "its trace directory is not known");

    target_collected(
        k->target, STATE_PARTIAL, reason,
        location->remedy
            ? location->remedy
            : "Name the directory: trace_dir= in [fleet] or [worker URL] of profd.conf, or --trace-dir.");
}

static bool outcome_is_over(const struct collection *k)
{
    if (mono_ns() - k->began_ns >= COLLECTING_MAX_NS)
        return true;
    if (!k->scanned_since_stop || dir_has_pending(k->dir, k))
        return false;
    if (k->n_complete >= k->target->record.ranks_expected)
        return true;
    if (k->target->server_records)
        return false; /* they are written until the server has answered its stop */
    return mono_ns() - k->last_news_ns >= k->dir->collector->settings->settle_ns;
}

/* May end it, which frees it. */
static void outcome_check(struct collection *k)
{
    if (k->collecting && !k->dir)
        outcome_end_invisible(k);
    else if (k->collecting && outcome_is_over(k))
        outcome_end(k);
    /* A recording whose engine stops by itself is over when its files are. */
    else if (!k->collecting && k->dir && k->target->record.state == STATE_RECORDING &&
             k->n_complete >= k->target->record.ranks_expected && !dir_has_pending(k->dir, k))
        target_files_complete(k->target);
}

void outcome_check_all(struct collector *c)
{
    struct collection *k, *next;

    for (k = TAILQ_FIRST(&c->collections); k; k = next) {
        next = TAILQ_NEXT(k, next);
        outcome_check(k);
    }
}

void outcome_check_dir(struct watched_dir *d)
{
    struct collection *k, *next;

    for (k = TAILQ_FIRST(&d->collections); k; k = next) {
        next = TAILQ_NEXT(k, next_in_dir);
        outcome_check(k);
    }
}
