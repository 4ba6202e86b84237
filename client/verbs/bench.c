/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/runs/benchmark.h"
#include "client/runs/requests.h"
#include "client/runs/run_group.h"
#include "client/runs/save_as_files.h"
#include "client/runs/workload.h"
#include "client/verbs/job.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "client/views/run.h"
#include <errno.h>

struct bench_options {
    struct source source;
    struct workload_options workload;
    const char *sweep, *through, *role;
    int64_t count, repeat_runs;
    struct save_as_options save_as;
    struct option_list labels;
    bool wait, detach, dry_run;
};

#define AT(member) offsetof(struct bench_options, member)

/* clang-format off */
static const struct option_def bench_options[] = {
    WORKER_OPTIONS(struct bench_options),
    THROUGH_OPTION(struct bench_options),
    SELECTION_OPTIONS(struct bench_options),
    OPTION_GROUP("Load"),
    WORKLOAD_OPTIONS(struct bench_options, workload),
    {"sweep", 0, "LIST", OPTION_TEXT, AT(sweep), "Values of concurrency, rate, isl or osl, each a run: concurrency=1,2,4,8"},
    {"repeat-runs", 0, "N", OPTION_COUNT, AT(repeat_runs), "Number of runs of the same workload, to measure how much runs differ (default: 1)"},
    {"dry-run", 0, NULL, OPTION_FLAG, AT(dry_run), "Print the plan with an estimate of the duration, and send nothing"},
    OPTION_GROUP("Output"),
    SAVE_AS_OPTIONS(struct bench_options, save_as),
    LABEL_OPTION(struct bench_options, "run"),
    {"wait", 'w', NULL, OPTION_FLAG, AT(wait), "Follow the run to its end (default); Ctrl-C stops it and keeps its measurements"},
    {"detach", 'd', NULL, OPTION_FLAG, AT(detach), "Print the run's id and return without waiting"},
};
/* clang-format on */

static size_t count_rounds(const struct bench_options *o)
{
    return o->repeat_runs == OPTION_ABSENT ? 1 : (size_t)o->repeat_runs;
}

static bool has_several_runs(const struct bench_options *o)
{
    return o->sweep || count_rounds(o) > 1;
}

static int bench_check_sweep(const struct bench_options *o, const struct sweep *sweep, struct problem *p)
{
    const struct workload_options *w = &o->workload;
    bool is_given = (streq(sweep->member, "concurrency") && w->concurrency != OPTION_ABSENT) ||
                    (streq(sweep->member, "rate") && w->rate > 0) ||
                    (streq(sweep->member, "isl") && (w->isl != OPTION_ABSENT || w->prompts)) ||
                    (streq(sweep->member, "osl") && w->osl != OPTION_ABSENT);

    if (is_given)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--sweep sets %s: omit the option for it",
                           sweep->member);
    return 0;
}

static int bench_request(struct client *c, const struct bench_options *o, json_t *request,
                         struct sweep *sweep, struct problem *p)
{
    json_t *workload = NULL;

    if (o->wait && o->detach)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--wait and --detach exclude each other");
    if (has_several_runs(o) && o->detach)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "%s waits for each run before the next, so it excludes --detach",
                           o->sweep ? "--sweep" : "--repeat-runs");
    if (count_rounds(o) > RUN_GROUP_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--repeat-runs is at most %d", RUN_GROUP_MAX);
    if (o->save_as.format && (has_several_runs(o) || o->detach))
        return problem_set(
            p, -EINVAL, PROBLEM_BAD_REQUEST,
            "--save-as requires a single run that ends: later, profctl show r3 --save-as writes any");
    int r = through_check(o->through, p);
    if (r == 0)
        r = save_as_check(&o->save_as, p);
    if (r == 0 && o->sweep)
        r = sweep_parse(o->sweep, sweep, p);
    if (r == 0 && o->sweep)
        r = bench_check_sweep(o, sweep, p);
    if (r == 0)
        r = workload_of_options(&o->workload, &workload, p);
    if (r < 0)
        return r;
    json_object_set_new(request, "workload", workload);
    json_put_str(request, "load_through", o->through);
    options_to_json(OPTION_SET(bench_options, o), request);
    r = labels_to_json(&o->labels, request, p);
    return r < 0 ? r : source_to_json(c, &o->source, request, p);
}

static void bench_set_swept(json_t *request, const struct sweep *sweep, size_t i)
{
    double value = sweep->values[i];

    json_object_set_new(json_object_get(request, "workload"), sweep->member,
                        sweep->is_integer ? json_integer((json_int_t)value) : json_real(value));
}

static int bench_detached(struct client *c, const struct bench_options *o, const json_t *request)
{
    _cleanup_json_ answer = NULL;
    char ref[REF_TEXT_MAX];
    int status = run_create(c, &o->source, request, ref, &answer);

    return status == EXIT_DONE ? job_print_created(c, ref, answer) : status;
}

static int bench_once(struct client *c, const struct bench_options *o, const json_t *request)
{
    struct job_end m = {0};
    char ref[RUN_REF_MAX];
    int status = run_measure(c, &o->source, request, &m);

    if (status == EXIT_DONE)
        status = m.was_left                      ? EXIT_FAILED
                 : streq(o->save_as.output, "-") ? run_exit_status(m.job)
                                                 : run_show_result(c, m.job);
    fflush(c->out.file);
    if (o->save_as.format && m.job && !m.was_left) {
        int saved = save_as_write(c, &o->save_as, m.job);
        status = saved != EXIT_DONE ? saved : status;
    }
    if (m.job && !m.was_left && status != EXIT_FAILED)
        client_note(c, "Next: profctl show %s --requests, profctl compare %s OTHER", run_ref(ref, m.job),
                    ref);
    json_decref(m.job);
    return status;
}

static void bench_plan(const struct bench_options *o, json_t *request, const struct sweep *sweep,
                       struct run_plan *ret)
{
    const json_t *workload = json_object_get(request, "workload");

    for (size_t round = 0; round < count_rounds(o); round++) {
        for (size_t i = 0; i < sweep->n; i++) {
            bench_set_swept(request, sweep, i);
            run_plan_add(ret, workload);
        }
        if (sweep->n == 0)
            run_plan_add(ret, workload);
    }
}

/* Rounds of all swept values, so that slow drift of the machine affects each value alike. A run that was
 * stopped is the last: a user who stops one of them means all. */
static int bench_several(struct client *c, const struct bench_options *o, json_t *request,
                         const struct sweep *sweep, struct run_plan *plan)
{
    size_t n_values = o->sweep ? sweep->n : 1, n = n_values * count_rounds(o);
    _cleanup_json_ runs = json_array();
    struct job_end m = {0};
    int worst = EXIT_DONE;

    for (size_t i = 0; i < n && !m.was_stopped && !m.was_left; i++) {
        _cleanup_(freep) char *line = run_plan_next_line(plan, i);
        if (o->sweep)
            bench_set_swept(request, sweep, i % n_values);
        client_note(c, "%s", line);
        int status = run_measure(c, &o->source, request, &m);
        if (status != EXIT_DONE) {
            worst = status;
            break;
        }
        status = m.was_left ? EXIT_FAILED : run_exit_status(m.job);
        worst = worst == EXIT_FAILED || status == EXIT_DONE ? worst : status;
        run_plan_measured(plan, i, m.job);
        json_array_append_new(runs, m.job);
    }
    if (json_array_size(runs) > 0)
        runs_show_results(c, o->sweep ? sweep : NULL, runs);
    return worst;
}

static int bench_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct bench_options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ request = json_object();
    _cleanup_(run_plan_done) struct run_plan plan = {0};
    struct sweep sweep = {0};

    if (bench_request(c, o, request, &sweep, &p) < 0)
        return client_fail(c, &p);
    bench_plan(o, request, &sweep, &plan);
    if (o->dry_run)
        return run_plan_show(c, request, true, &plan);
    int status = client_need_user_profd(c);
    if (status != EXIT_DONE)
        return status;
    if (!o->detach)
        client_hold_signals();
    status = run_plan_show(c, request, false, &plan);
    if (status != EXIT_DONE)
        return status;
    return has_several_runs(o) ? bench_several(c, o, request, &sweep, &plan)
           : o->detach         ? bench_detached(c, o, request)
                               : bench_once(c, o, request);
}

const struct verb verb_bench = {
    .name = "bench",
    .words = "",
    .summary = "Send a workload to a fleet and measure user-visible latency",
    .details = "Latencies count from the moment a request was due. Exit status: 0 all requests succeeded, "
               "3 some did not, 1 failed. If no profd is running, your own is started.",
    VERB_OPTIONS(bench_options, struct bench_options),
    .run = bench_run,
};
