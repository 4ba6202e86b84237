/* SPDX-License-Identifier: Apache-2.0 */
/* `profctl audit`: benchmarks a served model and writes a report. */
#include "extras/audit/audit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "client/cli/output.h"
#include "client/local/worker_options.h"
#include "client/runs/benchmark.h"
#include "client/runs/plan.h"
#include "client/runs/requests.h"
#include "client/runs/workload.h"
#include "client/verbs/job.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "client/views/run.h"
#include "extras/audit/onnx_worker.h"
#include <errno.h>

#define REPEAT       5
#define SWEEP        "concurrency=1,2,4,8,16,32"
#define NO_SWEEP     "none"
#define SWEPT_ROUNDS 4 /* minimum number of requests per concurrent slot: a load needs time to settle */

struct audit_options {
    struct source source;
    struct workload_options workload;
    const char *sweep, *batch_sizes, *output, *onnx, *tokenizer;
    double price;
    bool dry_run;
    struct option_list labels;
};

#define AT(member) offsetof(struct audit_options, member)

/* clang-format off */
static const struct option_def audit_options[] = {
    WORKER_OPTIONS(struct audit_options),
    {"onnx", 0, "FILE", OPTION_TEXT, AT(onnx), "ONNX model to serve on this machine and measure, instead of a fleet"},
    {"tokenizer", 0, "DIR", OPTION_TEXT, AT(tokenizer), "Directory with the tokenizer.json of --onnx"},
    OPTION_GROUP("Load"),
    WORKLOAD_OPTIONS(struct audit_options, workload),
    {"sweep", 0, "LIST", OPTION_TEXT, AT(sweep), "Loads to measure one after another; none for no others (default: " SWEEP ")"},
    {"batch-sizes", 0, "LIST", OPTION_TEXT, AT(batch_sizes), "Requests in flight to measure one after another: 1,4,16; the same as --sweep concurrency=LIST"},
    {"dry-run", 0, NULL, OPTION_FLAG, AT(dry_run), "Print what would be sent, with an estimate of the time, and send nothing"},
    OPTION_GROUP("Output"),
    {"output", 'o', "FILE", OPTION_TEXT, AT(output), "Report to write: audit.md, or audit.html with plots (default: Markdown on standard output)"},
    {"price-per-hour", 0, "PRICE", OPTION_REAL, AT(price), "Price of the hardware per hour, for the cost of tokens"},
    {"label", 0, "KEY=VALUE", OPTION_LIST, AT(labels), "Label to store with the benchmark runs (repeatable)"},
};
/* clang-format on */

/* -- Measuring ---------------------------------------------------------------------------------------- */

struct audit {
    struct client *c;
    const struct audit_options *o;
    struct source source; /* of the options, or the worker of --onnx; borrowed */
    struct sweep sweep;   /* n 0: none */
    struct run_plan plan; /* the main run, then those of the sweep */
    json_t *request;      /* of the main run */
    json_t *facts;
    bool was_cut; /* by the user: the results so far are written */
    struct onnx_worker onnx;
    char *profile_dir;
};

static void audit_done(struct audit *a)
{
    run_plan_done(&a->plan);
    json_decref(a->request);
    json_decref(a->facts);
}

static int audit_make_request(struct audit *a, struct problem *p)
{
    struct workload_options w = a->o->workload;
    json_t *workload;

    if (w.prompts && w.repeat == OPTION_ABSENT && w.requests == OPTION_ABSENT && w.duration == OPTION_ABSENT)
        w.repeat = REPEAT;
    int r = workload_of_options(&w, &workload, p);
    if (r < 0)
        return r;
    json_object_set_new(a->request, "workload", workload);
    return labels_to_json(&a->o->labels, a->request, p);
}

static int audit_choose_sweep(struct audit *a, struct problem *p)
{
    const char *text = a->o->sweep ? a->o->sweep : SWEEP;
    _cleanup_(freep) char *batches = NULL;

    if (a->o->sweep && a->o->batch_sizes)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--batch-sizes and --sweep exclude each other");
    if (a->o->batch_sizes) {
        batches = xasprintf("concurrency=%s", a->o->batch_sizes);
        text = batches;
    }
    if (streq(text, NO_SWEEP))
        return 0;
    int r = sweep_parse(text, &a->sweep, p);
    if (r == 0 && !streq(a->sweep.member, "concurrency"))
        r = problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--sweep: an audit varies concurrency, not %s",
                        a->sweep.member);
    return r;
}

/* i: the index in the plan. */
static int audit_measure(struct audit *a, size_t i, const json_t *request, json_t **ret)
{
    struct job_end m = {0};
    _cleanup_(freep) char *line = run_plan_next_line(&a->plan, i);

    if (a->plan.n > 1)
        client_note(a->c, "%s", line);
    int status = run_measure(a->c, &a->source, request, &m);

    if (status != EXIT_DONE)
        return status;
    if (m.was_left) {
        json_decref(m.job);
        return EXIT_FAILED;
    }
    a->was_cut = m.was_stopped;
    run_plan_measured(&a->plan, i, m.job);
    *ret = m.job;
    return EXIT_DONE;
}

/* The same prompts at another load, often enough that each concurrent slot is filled several times. */
static json_t *audit_swept_request(const struct audit *a, double concurrency)
{
    json_t *request = json_deep_copy(a->request), *workload = json_object_get(request, "workload");
    int64_t slots = SWEPT_ROUNDS * (int64_t)concurrency,
            prompts = (int64_t)json_array_size(json_object_get(workload, "prompts"));

    json_object_set_new(workload, "concurrency", json_integer((json_int_t)concurrency));
    json_object_set_new(workload, "requests", json_integer(MAX(slots, prompts)));
    json_object_del(workload, "duration");
    json_object_del(workload, "repeat");
    return request;
}

static int audit_measure_sweep(struct audit *a)
{
    json_t *points = json_array();

    json_object_set_new(a->facts, "sweep", points);
    for (size_t i = 0; i < a->sweep.n && !a->was_cut; i++) {
        _cleanup_json_ request = audit_swept_request(a, a->sweep.values[i]);
        json_t *run = NULL;
        int status = audit_measure(a, i + 1, request, &run);
        if (status != EXIT_DONE)
            return status;
        json_array_append_new(points,
                              json_pack("{s: f, s: o}", "concurrency", a->sweep.values[i], "run", run));
    }
    return EXIT_DONE;
}

/* Adds the facts that follow from the main run (takes ownership). Without answers of profd about workers and requests the
 * document contains less, and is written all the same. */
static void audit_add_facts(struct audit *a, json_t *take_run)
{
    const json_t *workload = json_object_get(a->request, "workload");
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xstrdup("/v1/workers");
    _cleanup_json_ workers = NULL;
    _cleanup_json_ requests = NULL;
    char ref[RUN_REF_MAX];

    if (source_to_query(a->c, &a->source, &path, &p) == 0)
        connection_call(a->c->connection, "GET", path, NULL, "asking for the workers", &workers, &p);
    bool has_requests = requests_get(a->c, run_ref(ref, take_run), &requests) == EXIT_DONE;
    json_t *facts =
        json_pack("{s: o, s: o, s: o, s: o, s: o, s: o, s: I}", "run", take_run, "prompts",
                  facts_prompts(take_run, json_object_get(workload, "prompts")), "rates",
                  has_requests ? facts_rates(requests) : json_null(), "model",
                  facts_model(take_run, json_object_get(workers, "workers")), "hardware",
                  facts_hardware(hardware_read(), take_run), "goal",
                  facts_goal(json_object_get(workload, "goodput")), "made_at", (json_int_t)wall_ns());
    if (a->o->onnx)
        json_put_str(json_object_get(facts, "model"), "engine", "ONNX Runtime");
    if (a->o->price > 0)
        json_object_set_new(facts, "price_per_hour", json_real(a->o->price));
    json_object_update_new(a->facts, facts);
}

static int audit_measure_all(struct audit *a)
{
    json_t *run = NULL;
    int status = audit_measure(a, 0, a->request, &run);

    if (status != EXIT_DONE)
        return status;
    audit_add_facts(a, run);
    return a->was_cut ? EXIT_DONE : audit_measure_sweep(a);
}

static int audit_write_out(struct audit *a)
{
    const char *path = a->o->output ? a->o->output : "-";
    _cleanup_(document_done) struct document d = {0};
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(output_done) struct output out = {0};
    bool is_html = ends_with(path, ".html") || ends_with(path, ".htm");

    if (a->c->json)
        return client_print_json(a->c, a->facts);
    audit_write(a->facts, &d);
    if (streq(path, "-")) {
        document_markdown(&d, a->c->out.file);
        return fflush(a->c->out.file) == 0 ? EXIT_DONE : EXIT_FAILED;
    }
    if (output_open_as_is(path, &out, &p) < 0)
        return client_fail(a->c, &p);
    (is_html ? document_html : document_markdown)(&d, out.file);
    if (output_keep(&out, &p) < 0)
        return client_fail(a->c, &p);
    client_note(a->c, "%s", path);
    return EXIT_DONE;
}

/* -- A model in ONNX ---------------------------------------------------------------------------------- */

static int audit_check_onnx(const struct audit_options *o, struct problem *p)
{
    const struct source *s = &o->source;

    if (!o->onnx && o->tokenizer)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--tokenizer is for --onnx");
    if (!o->onnx)
        return 0;
    if (source_is_named(s))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "--onnx serves the model itself and excludes options that name workers");
    if (o->tokenizer)
        return 0;
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--onnx needs --tokenizer");
    problem_remedy(p, "Name the directory with the model's tokenizer.json.");
    return -EINVAL;
}

/* Only the worker is measured. */
static int audit_serve_onnx(struct audit *a, struct problem *p)
{
    if (!a->o->onnx)
        return 0;
    _cleanup_(freep) char *directory = xasprintf("%s/profctl-onnx-XXXXXX", temp_dir());
    if (!mkdtemp(directory))
        return problem_set(p, -errno, PROBLEM_STORAGE, "cannot make %s: %s", directory, strerror(errno));
    a->profile_dir = TAKE_PTR(directory);
    client_note(a->c, "Loading %s", a->o->onnx);
    int r = onnx_worker_start(a->o->onnx, a->o->tokenizer, a->profile_dir, &a->onnx, p);
    if (r < 0)
        return r;
    a->source.workers = (struct option_list){.items = (const char **)&a->onnx.url, .n = 1};
    return 0;
}

/* Imports its profile into the catalog; a profile that is not imported stays in place, and its path is
 * printed. */
static void audit_end_onnx(struct audit *a)
{
    _cleanup_(freep) char *profile = NULL;

    if (!a->profile_dir)
        return;
    if (a->onnx.url)
        onnx_worker_stop(&a->onnx, &profile);
    if (profile) {
        char *words[] = {profile, NULL};
        const char *label = "audit=onnx";
        const struct ingest_options o = {.labels = {.items = &label, .n = 1}};
        FILE *out = a->c->out.file;
        a->c->out.file = a->c->err.file;
        if (ingest_words(a->c, &o, 1, words) == EXIT_DONE)
            unlink(profile);
        a->c->out.file = out;
    }
    if (rmdir(a->profile_dir) < 0)
        client_note(a->c, "ONNX Runtime's profile is in %s", a->profile_dir);
    free(a->profile_dir);
}

static int audit_check_output(const struct audit_options *o, struct problem *p)
{
    static const char *const endings[] = {".md", ".markdown", ".txt", ".html", ".htm"};

    if (!o->output || streq(o->output, "-"))
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
        if (ends_with(o->output, endings[i]))
            return 0;
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--output: the name '%s' ends neither in .md nor in .html",
                o->output);
    problem_remedy(p, "Name it audit.md or audit.html; - is standard output.");
    return -EINVAL;
}

static int audit_make(struct audit *a, struct problem *p)
{
    if (audit_check_output(a->o, p) < 0 || audit_check_onnx(a->o, p) < 0 || audit_make_request(a, p) < 0 ||
        audit_choose_sweep(a, p) < 0)
        return client_fail(a->c, p);
    run_plan_add(&a->plan, json_object_get(a->request, "workload"));
    for (size_t i = 0; i < a->sweep.n; i++) {
        _cleanup_json_ request = audit_swept_request(a, a->sweep.values[i]);
        run_plan_add(&a->plan, json_object_get(request, "workload"));
    }
    if ((!a->o->dry_run && audit_serve_onnx(a, p) < 0) || source_to_json(a->c, &a->source, a->request, p) < 0)
        return client_fail(a->c, p);
    int status = a->o->dry_run ? EXIT_DONE : client_need_user_profd(a->c);
    if (status == EXIT_DONE)
        status = run_plan_show(a->c, a->request, a->o->dry_run, &a->plan);
    if (status != EXIT_DONE || a->o->dry_run)
        return status;
    client_hold_signals();
    status = audit_measure_all(a);
    return status == EXIT_DONE ? audit_write_out(a) : status;
}

static int audit_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct audit_options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(audit_done) struct audit a = {
        .c = c, .o = o, .source = o->source, .request = json_object(), .facts = json_object()};
    int status = audit_make(&a, &p);

    audit_end_onnx(&a);
    return status;
}

const struct verb verb_audit = {
    .name = "audit",
    .details = "Measures each prompt several times, then the same prompts at other loads. Ctrl-C ends "
               "measuring and writes the report of what was measured. --onnx measures a model in a file with "
               "ONNX Runtime, whose profile becomes a trace.",
    .words = "",
    .summary = "Benchmark a served model and write a report",
    VERB_OPTIONS(audit_options, struct audit_options),
    .run = audit_run,
};
