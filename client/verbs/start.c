/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/local/worker_options.h"
#include "client/runs/workload.h"
#include "client/verbs/verbs.h"
#include "client/views/labels.h"
#include "client/views/session_start.h"
#include "extras/srtctl/recording.h"
#include <errno.h>

struct options {
    struct source source;
    int64_t steps, duration, start_at, start_step, count, when_running, timeout;
    const char *activities, *role, *workload, *through, *recipe, *variant, *job_id;
    struct option_list labels;
    bool allow_uncollected, with_stack, record_shapes, by_stage, one_per_role, stagger, include_unhealthy,
        require_all, queue, wait, detach, analyze, any_workers;
};

#define AT(member) offsetof(struct options, member)

/* clang-format off */
static const struct option_def options[] = {
    SOURCE_OPTIONS(struct options),
    {"duration", 0, "TIME", OPTION_DURATION, AT(duration), "how long to record: 5s (default), 500ms, 1min"},
    {"steps", 0, "N", OPTION_COUNT, AT(steps), "Number of engine steps to record instead; vLLM's are watched from outside and approximate"},
    {"start-at", 0, "TIME", OPTION_TIME, AT(start_at), "when to start: +10s, 14:02, \"2026-11-20 14:02:11\""},
    {"start-step", 0, "N", OPTION_COUNT, AT(start_step), "start at this step of the engine, with --workload of the load (SGLang, RTP-LLM)"},
    {"activities", 0, "LIST", OPTION_TEXT, AT(activities), "of cpu, cuda, mem, cuda-profiler; separated by commas"},
    {"with-stack", 0, NULL, OPTION_FLAG, AT(with_stack), "record Python stacks: traces grow tenfold"},
    {"record-shapes", 0, NULL, OPTION_FLAG, AT(record_shapes), "record the shapes of operands"},
    {"by-stage", 0, NULL, OPTION_FLAG, AT(by_stage), "prefill and decode apart (SGLang, with --steps)"},
    {"role", 0, "ROLE", OPTION_TEXT, AT(role), "only workers of this role: prefill, decode, encode, regular"},
    {"count", 0, "N", OPTION_COUNT, AT(count), "Maximum number of workers: the first N"},
    {"one-per-role", 0, NULL, OPTION_FLAG, AT(one_per_role), "only the first worker of each role"},
    {"include-unhealthy", 0, NULL, OPTION_FLAG, AT(include_unhealthy), "also workers that their router calls unhealthy"},
    {"workload", 0, "FILE", OPTION_TEXT, AT(workload), "send this load (YAML or JSON, docs/workload.md) while it records; see bench"},
    {"through", 0, "WHAT", OPTION_TEXT, AT(through), "with --workload: router or workers, as of bench"},
    {"recipe", 0, "FILE", OPTION_TEXT, AT(recipe), "run a job file of srtctl: record the steps of its phases under its load"},
    {"variant", 0, "NAME", OPTION_TEXT, AT(variant), "with --recipe: which of the file's jobs; profctl check-recipe lists them"},
    {"job-id", 0, "ID", OPTION_TEXT, AT(job_id), "with --recipe: the results' folder begins with it; default: $SLURM_JOB_ID, else 0"},
    {"no-single-worker-limit", 0, NULL, OPTION_FLAG, AT(any_workers), "with --recipe: any number of workers a role, which srtctl refuses"},
    {"stagger", 0, NULL, OPTION_FLAG, AT(stagger), "stop one worker after another, so that the fleet goes on serving"},
    {"when-running", 0, "N", OPTION_COUNT, AT(when_running), "Start when each worker has at least N requests running"},
    {"timeout", 0, "TIME", OPTION_DURATION, AT(timeout), "how long --when-running waits; default 5min"},
    {"require-all", 0, NULL, OPTION_FLAG, AT(require_all), "all workers or none: a failed start rolls the others back"},
    {"queue", 0, NULL, OPTION_FLAG, AT(queue), "wait while another session holds a worker"},
    {"allow-uncollected", 0, NULL, OPTION_FLAG, AT(allow_uncollected), "Record even if no trace can be collected"},
    {"label", 0, "KEY=VALUE", OPTION_LIST, AT(labels), "kept with the session (repeatable)"},
    {"wait", 'w', NULL, OPTION_FLAG, AT(wait), "show it until it is over; Ctrl-C stops it, a second one leaves it to profd"},
    {"analyze", 0, NULL, OPTION_FLAG, AT(analyze), "wait, then analyze what was recorded, as profctl analyze does"},
    {"detach", 'd', NULL, OPTION_FLAG, AT(detach), "do not wait (the default)"},
};

/* Options that a StartRequest takes as they are. */
static const struct { const char *key; size_t offset; } numbers[] = {
    {"steps", AT(steps)}, {"duration_ns", AT(duration)}, {"start_at", AT(start_at)}, {"start_step", AT(start_step)},
    {"count", AT(count)}, {"when_running", AT(when_running)}, {"when_timeout_ns", AT(timeout)},
}, flags[] = {
    {"with_stack", AT(with_stack)}, {"record_shapes", AT(record_shapes)}, {"by_stage", AT(by_stage)},
    {"one_per_role", AT(one_per_role)}, {"include_unhealthy", AT(include_unhealthy)}, {"stagger", AT(stagger)},
    {"require_all", AT(require_all)}, {"queue", AT(queue)},
    {"allow_uncollected", AT(allow_uncollected)},
};
/* clang-format on */

static void put_activities(json_t *request, const char *list)
{
    json_t *activities = json_array();
    for (const char *p = list; p;) {
        size_t n = strcspn(p, ",");
        _cleanup_(freep) char *word = xstrndup(p, n);
        json_array_append_new(activities, json_text(word));
        p = p[n] ? p + n + 1 : NULL;
    }
    json_object_set_new(request, "activities", activities);
}

static int put_workload(const struct options *o, json_t *request, struct problem *p)
{
    json_t *workload;

    if (!o->workload)
        return o->through ? problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--through is for --workload") : 0;
    int r = workload_read(o->workload, &workload, p);
    if (r < 0)
        return r;
    json_object_set_new(request, "workload", workload);
    if (!o->through)
        return 0;
    json_object_set_new(request, "load", json_pack("{s:s}", "through", o->through));
    return 0;
}

static int make_request(struct client *c, const struct options *o, json_t *request, struct problem *p)
{
    if ((o->wait || o->analyze) && o->detach)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--%s and --detach exclude each other",
                           o->wait ? "wait" : "analyze");
    if (o->timeout != OPTION_ABSENT && o->when_running == OPTION_ABSENT)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--timeout is for --when-running");
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        int64_t n = *(const int64_t *)((const char *)o + numbers[i].offset);
        if (n != OPTION_ABSENT)
            json_put_int(request, numbers[i].key, n);
    }
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        if (*((const bool *)((const char *)o + flags[i].offset)))
            json_put_bool(request, flags[i].key, true);
    if (o->activities)
        put_activities(request, o->activities);
    json_put_str(request, "role", o->role);
    int r = put_workload(o, request, p);
    if (r == 0)
        r = labels_to_json(&o->labels, request, p);
    return r < 0 ? r : source_to_json(c, &o->source, request, p);
}

/* What a recipe says itself. */
static bool names_a_recording(const struct options *o)
{
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (*(const int64_t *)((const char *)o + numbers[i].offset) != OPTION_ABSENT)
            return true;
    return o->activities || o->role || o->workload || o->detach || o->analyze;
}

static int run_recipe(struct client *c, const struct options *o)
{
    const char *job_id = o->job_id ? o->job_id : getenv("SLURM_JOB_ID");
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_json_ labels = json_object();

    if (names_a_recording(o)) {
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST,
                    "--recipe says itself what is recorded, and for how long");
        problem_remedy(&p,
                       "Beside it stand who is meant (--router, --fleet, --worker), --job-id and --label.");
        return client_fail(c, &p);
    }
    if (labels_to_json(&o->labels, labels, &p) < 0 ||
        recipe_read(o->recipe, o->variant, o->any_workers ? RECIPE_ANY_WORKERS : 0, &r, &p) < 0)
        return client_fail(c, &p);
    int status = client_need_user_profd(c);
    if (status != EXIT_DONE)
        return status;
    return recipe_record(c, &r,
                         &(struct recipe_order){
                             .source = &o->source,
                             .labels = json_object_get(labels, "labels"),
                             .job_id = job_id ? job_id : "0",
                             .allow_uncollected = o->allow_uncollected,
                         });
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ request = json_object();

    if (o->recipe)
        return run_recipe(c, o);
    if (make_request(c, o, request, &p) < 0)
        return client_fail(c, &p);
    int status = client_need_user_profd(c);
    if (status != EXIT_DONE)
        return status;
    bool wait = o->wait || o->analyze;
    if (wait)
        client_hold_signals();
    _cleanup_(freep) char *name = source_name(&o->source);
    char recorded[REF_TEXT_MAX], *of_session[] = {recorded, NULL};
    status = session_start(c, name, request, wait, o->analyze ? recorded : NULL);
    if (!o->analyze || !*recorded)
        return status;
    if (!c->json)
        fputc('\n', c->out.file);
    int analyzed = verb_call(c, &verb_analyze, 1, of_session);
    return status == EXIT_DONE ? analyzed : status;
}

const struct verb verb_start = {
    .name = "start",
    .words = "",
    .summary = "Record all workers of a fleet at the same time",
    .details =
        "Prints the session's id, or with --wait what became of it. Exit status with --wait: 0 complete,\n"
        "3 partial, 1 failed or cancelled. Where no profd answers, one of your own is started.",
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .run = run,
};
