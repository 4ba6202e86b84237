/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the row of a benchmark run to its last state, as profd-load reports:
 *
 *   warmed ... ready -> (the profilers are started) -> go -> request ..., live ... -> end
 *
 * To end it earlier, the child is sent a stop, which lets requests in flight end; a child that does
 * not obey is killed. Before "go" there is nothing worth waiting for, and the run is cancelled.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/runs/internal.h"
#include <errno.h>
#include <inttypes.h>

/* Beyond what requests under way may take, for the summary of millions of them. */
#define STOP_GRACE_NS (30 * NS_PER_S)
#define NOTES_MAX     100
#define RESAVE_NS     (2 * NS_PER_S)
#define WARMED_MAX    10000

/* -- States ------------------------------------------------------------------------------------------- */

void run_explain(struct benchmark_run *run, const char *remedy, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    job_explain(&run->record.reason, &run->record.remedy, remedy, format, ap);
    va_end(ap);
}

void run_note(struct benchmark_run *run, const char *text, const char *remedy)
{
    json_t *note = json_object();

    json_put_str(note, "text", text);
    json_put_str(note, "remedy", remedy);
    if (!run->notes)
        run->notes = json_array();
    if (json_array_size(run->notes) < NOTES_MAX)
        json_array_append(run->notes, note);
    json_decref(note);
}

static void replace_list(char **text, const json_t *list)
{
    free(*text);
    *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
}

void run_save(struct benchmark_run *run)
{
    replace_list(&run->record.notes, run->notes);
    replace_list(&run->record.warmed, run->warmed);
    int r = catalog_save_run(run->all->jobs.catalog, &run->record);
    if (r < 0) {
        _cleanup_(problem_done) struct problem p = {0};
        catalog_problem(run->all->jobs.catalog, r, &p, "the catalog cannot take its state");
        log_error("run r%" PRId64 ": %s", run->record.run_id, p.what);
    }
}

void run_report_state(struct benchmark_run *run)
{
    const char *reason = run->record.reason;

    catalog_add_run_event(run->all->jobs.catalog, "profd", run->record.run_id, run->record.session_id,
                          "%s%s%s", run_state_name(run->record.state), reason ? ": " : "",
                          reason ? reason : "");
}

void run_change_state(struct benchmark_run *run, enum run_state to)
{
    const char *reason = run->record.reason;

    run->record.state = to;
    run_save(run);
    run_report_state(run);
    log_info("run r%" PRId64 " is %s%s%s", run->record.run_id, run_state_name(to), reason ? ": " : "",
             reason ? reason : "");
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static void run_on_requests_saved(int err, void *arg)
{
    struct benchmark_run *run = arg;

    /* Of a locked catalog: they wait for the lock (catalog.h). */
    if (err < 0 && err != -EBUSY) {
        run->n_unsaved += run->n_in_batch;
        run->all->metrics.unsaved += (uint64_t)run->n_in_batch;
    } else {
        run->n_kept += run->n_in_batch;
    }
    run->n_in_batch = 0;
}

static void run_save_request(struct benchmark_run *run, struct request_row *request)
{
    struct catalog *c = run->all->jobs.catalog;

    if (run->n_kept + run->n_in_batch >= run->all->modules.settings->requests_max) {
        run->n_dropped++;
        return;
    }
    request->run_id = run->record.run_id;
    int r = catalog_add_request(c, request);
    /* The request's number already exists. For other errors, the entire commit batch fails and reports that.
     */
    if (r == -EINVAL || r == -EEXIST) {
        load_child_kill(run->child, "profd-load sent request %" PRId64 " twice", request->number);
        return;
    }
    /* Too many wait for a locked catalog. */
    if (r == -EBUSY) {
        run->n_unsaved++;
        run->all->metrics.unsaved++;
        return;
    }
    if (run->n_in_batch++ == 0)
        catalog_then(c, false, run_on_requests_saved, run);
}

/* -- The last state transition ------------------------------------------------------------------------ */

static void run_save_last(struct benchmark_run *run);

static void run_save_again(evutil_socket_t fd, short what, void *arg)
{
    /* An event is lost if its commit fails: add it again. */
    run_report_state(arg);
    run_save_last(arg);
}

static void run_on_last_saved(int err, void *arg)
{
    struct benchmark_run *run = arg;

    if (err < 0)
        run_timer(run, RESAVE_NS, run_save_again);
    else
        benchmark_run_free(run);
}

static void run_save_last(struct benchmark_run *run)
{
    struct catalog *c = run->all->jobs.catalog;
    _cleanup_(freep) char *summary = run->summary ? json_dumps(run->summary, JSON_COMPACT) : NULL;

    run_save(run);
    if (summary)
        catalog_set_run_summary(c, run->record.run_id, summary);
    catalog_then(c, false, run_on_last_saved, run);
}

/* -- Its end ------------------------------------------------------------------------------------------ */

static void run_note_requests(struct benchmark_run *run)
{
    if (run->n_dropped > 0) {
        _cleanup_(freep) char *text =
            xasprintf("%" PRId64 " further requests have no rows; the figures include them", run->n_dropped);
        run_note(run, text, "[load] requests_max= in profd.conf sets how many are kept.");
    }
    if (run->n_unsaved > 0) {
        _cleanup_(freep) char *text = xasprintf(
            "the catalog could not store %" PRId64 " requests; the figures include them", run->n_unsaved);
        run_note(run, text, "Free space on its file system.");
    }
}

/* The final state of a run whose child sent its summary. */
static enum run_state run_classify(struct benchmark_run *run)
{
    const struct run_record *r = &run->record;
    int64_t n = r->success + r->incomplete + r->error;

    if (run->lasted && r->success > 0 && r->error == 0)
        return RUN_COMPLETE;
    if (run->stopped_by)
        run_explain(run, NULL, "stopped by %s", run->stopped_by);
    else if (n == 0)
        run_explain(run, "A schedule without requests, or a very short duration: see its workload.",
                    "no request was sent");
    else if (r->success < n)
        run_explain(run, "profctl show has what went wrong, by how often.",
                    "of %" PRId64 " requests %" PRId64 " failed and %" PRId64 " are incomplete", n, r->error,
                    r->incomplete);
    if (r->success == 0 && !run->stopped_by)
        return RUN_FAILED;
    return r->success < n || run->stopped_by ? RUN_PARTIAL : RUN_COMPLETE;
}

static void run_report_to_session(struct benchmark_run *run)
{
    bool failed = run->record.state == RUN_FAILED;
    struct session *s = run->record.session_id == RECORD_NONE
                            ? NULL
                            : sessions_find(run->all->modules.sessions, run->record.session_id);

    if (s)
        session_load_ended(s, failed ? run->record.reason : NULL, run->record.remedy);
}

static void run_finish(struct benchmark_run *run, enum run_state outcome)
{
    run->child = load_child_free(run->child);
    run->job.is_over = true;
    run->record.ended_at = wall_ns();
    if (run->timer)
        event_del(run->timer);
    run_note_requests(run);
    run_change_state(run, outcome);
    run->all->metrics.ended[outcome]++;
    run_save_last(run);
    run_report_to_session(run);
}

static void run_on_ended(const char *fate, void *arg)
{
    struct benchmark_run *run = arg;
    enum run_state outcome = RUN_FAILED;

    if (run->summary)
        outcome = run_classify(run);
    else if (run->stopped_by && !run->loads)
        outcome = RUN_CANCELLED;
    if (outcome == RUN_CANCELLED)
        run_explain(run, NULL, "stopped before it began, by %s", run->stopped_by);
    run_explain(run, "Start it again; see the journal of profd for details.", "%s",
                fate ? fate : "profd-load ended before the run did");
    if (outcome == RUN_COMPLETE) {
        replace_str(&run->record.reason, NULL);
        replace_str(&run->record.remedy, NULL);
    }
    run_finish(run, outcome);
}

void run_cut(struct benchmark_run *run, const char *remedy, const char *reason)
{
    run_explain(run, remedy, "%s", reason);
    run_finish(run, RUN_FAILED);
}

/* -- Lines from the child ----------------------------------------------------------------------------- */

static void run_on_warmed(struct benchmark_run *run, struct load_line *l)
{
    if (!run->warmed)
        run->warmed = json_array();
    if (json_array_size(run->warmed) < WARMED_MAX)
        json_array_append(run->warmed, l->object);
    run_save(run);
}

static void run_on_ready(struct benchmark_run *run, struct load_line *l)
{
    struct runs *all = run->all;

    replace_str(&run->record.model, l->text);
    run_save(run);
    if (run->record.session_id == RECORD_NONE) {
        run_go(run);
        return;
    }
    struct session *s = sessions_find(all->modules.sessions, run->record.session_id);
    if (s)
        session_warmed(s);
    else
        run_stop(run, "its session, which is over");
}

static void run_on_request(struct benchmark_run *run, struct load_line *l)
{
    static const char *const outcomes[] = {"success", "incomplete", "error"};
    int64_t *counts[] = {&run->record.success, &run->record.incomplete, &run->record.error};

    for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
        bool is = streq(outcomes[i], l->request.outcome);
        *counts[i] += is;
        run->all->metrics.requests[i] += is;
    }
    run_save_request(run, &l->request);
}

/* Not for the audit log, but for the subscribers of events. */
static void run_on_live(struct benchmark_run *run, struct load_line *l)
{
    _cleanup_json_ event = json_deep_copy(l->object);
    int64_t planned = json_get_int(l->object, "planned", 0);

    json_decref(run->live);
    run->live = json_incref(l->object);
    if (run->record.state == RUN_LOADING && planned > 0 && json_get_int(l->object, "sent", 0) >= planned)
        run_change_state(run, RUN_DRAINING);
    else
        run_save(run);
    json_put_str(event, "kind", "run");
    json_put_int(event, "at", wall_ns());
    json_put_int(event, "run", run->record.run_id);
    if (run->record.session_id != RECORD_NONE) {
        char ref[32];
        snprintf(ref, sizeof(ref), "s%" PRId64, run->record.session_id);
        json_put_str(event, "session", ref);
    }
    json_put_str(event, "state", run_state_name(run->record.state));
    catalog_announce(run->all->jobs.catalog, event);
}

static void run_on_note(struct benchmark_run *run, struct load_line *l)
{
    run_note(run, l->text, l->remedy);
}

static void run_on_failed(struct benchmark_run *run, struct load_line *l)
{
    run_explain(run, l->remedy, "%s", l->text);
}

static void run_on_end(struct benchmark_run *run, struct load_line *l)
{
    _cleanup_(freep) char *text = json_dumps(l->object, JSON_COMPACT);

    if (!text || strlen(text) > LOAD_SUMMARY_MAX)
        load_child_kill(run->child, "profd-load sent a summary of more than %d bytes", LOAD_SUMMARY_MAX);
    else
        run->summary = json_incref(l->object);
}

static const struct {
    bool before_go, after_go;
    void (*take)(struct benchmark_run *run, struct load_line *l);
} line_handlers[_LOAD_LINE_MAX] = {
    [LOAD_LINE_WARMED] = {true, false, run_on_warmed},   [LOAD_LINE_READY] = {true, false, run_on_ready},
    [LOAD_LINE_REQUEST] = {false, true, run_on_request}, [LOAD_LINE_LIVE] = {false, true, run_on_live},
    [LOAD_LINE_NOTE] = {true, true, run_on_note},        [LOAD_LINE_FAILED] = {true, true, run_on_failed},
    [LOAD_LINE_END] = {false, true, run_on_end},
};

static void run_on_line(const char *text, size_t size, void *arg)
{
    struct benchmark_run *run = arg;
    _cleanup_(load_line_done) struct load_line l = {0};
    _cleanup_(freep) char *reason = NULL;

    if (load_line_parse(text, size, &l, &reason) < 0) {
        load_child_kill(run->child, "profd-load sent an invalid line: %s", reason);
    } else if (run->summary ||
               !(run->loads ? line_handlers[l.kind].after_go : line_handlers[l.kind].before_go)) {
        load_child_kill(run->child, "profd-load sent an unexpected line");
    } else {
        line_handlers[l.kind].take(run, &l);
    }
}

/* -- Commands to the child ---------------------------------------------------------------------------- */

static void run_on_stop_overdue(evutil_socket_t fd, short what, void *arg)
{
    struct benchmark_run *run = arg;
    load_child_kill(run->child, "profd-load did not end after its stop");
}

static void run_on_limit(evutil_socket_t fd, short what, void *arg)
{
    struct benchmark_run *run = arg;
    run_stop(run, "profd, at the limit of a run's length");
}

void run_begin(struct benchmark_run *run)
{
    const struct runs_modules *modules = &run->all->modules;
    const struct load_child_handlers handlers = {.line = run_on_line, .ended = run_on_ended, .arg = run};

    int r = load_child_start(modules->base, run->all->program, modules->settings->memory_max, run->load_spec,
                             strlen(run->load_spec), &handlers, &run->child);
    free(TAKE_PTR(run->load_spec));
    if (r < 0) {
        run_explain(run, "It is installed with profd; install both anew.", "cannot start %s: %s",
                    run->all->program, strerror(-r));
        run_finish(run, RUN_FAILED);
        return;
    }
    run_timer(run, modules->settings->run_limit_ns, run_on_limit);
    run_change_state(run, RUN_WARMING);
}

void run_go(struct benchmark_run *run)
{
    run->loads = true;
    run->record.started_at = wall_ns();
    run_change_state(run, RUN_LOADING);
    load_child_command(run->child, "go");
}

void run_stop(struct benchmark_run *run, const char *actor)
{
    if (run->job.is_over || run->stopped_by)
        return;
    run->stopped_by = xstrdup(actor);
    if (!run->child) {
        run_explain(run, NULL, "stopped before it began, by %s", actor);
        run_finish(run, RUN_CANCELLED);
    } else if (!run->loads) {
        load_child_kill(run->child, "stopped");
    } else {
        load_child_command(run->child, "stop");
        if (run->record.state == RUN_LOADING)
            run_change_state(run, RUN_DRAINING);
        run_timer(run, run->drain_ns + STOP_GRACE_NS, run_on_stop_overdue);
    }
}
