/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `profctl start --recipe`: the phases of a job of srtctl under one load, or one after another if each has a load of its
 * own.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "client/runs/benchmark.h"
#include "client/verbs/extras.h"
#include "client/verbs/job.h"
#include "extras/srtctl/recipe.h"
#include <errno.h>

struct recipe_options {
    const char *file, *variant, *job_id;
    bool any_workers;
};

#define AT(member) offsetof(struct recipe_options, member)

/* clang-format off */
static const struct option_def recipe_options[] = {
    OPTION_GROUP("Load"),
    {"recipe", 0, "FILE", OPTION_TEXT, AT(file), "Job file of srtctl: record the steps of its phases under its load"},
    {"variant", 0, "NAME", OPTION_TEXT, AT(variant), "Job of --recipe; profctl check-recipe lists them"},
    {"job-id", 0, "ID", OPTION_TEXT, AT(job_id), "Prefix of the results' folder, with --recipe (default: $SLURM_JOB_ID, else 0)"},
    {"no-single-worker-limit", 0, NULL, OPTION_FLAG, AT(any_workers), "Allow several workers of a role with --recipe, which srtctl refuses"},
};
/* clang-format on */

/* Adds the workers and labels to a request. An exit status. */
static int recipe_add_choice(struct client *c, const struct start_choice *choice, json_t *request)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (choice->labels)
        json_object_set(request, "labels", choice->labels);
    return source_to_json(c, choice->source, request, &p) < 0 ? client_fail(c, &p) : EXIT_DONE;
}

static int recipe_record_phases(struct client *c, const struct recipe *r, const struct start_choice *choice,
                                unsigned modes, const char *folder)
{
    _cleanup_json_ request = phases_request(r, modes, folder);
    _cleanup_(freep) char *name = source_name(choice->source);
    int status = recipe_add_choice(c, choice, request);

    if (status != EXIT_DONE)
        return status;
    if (choice->allow_uncollected)
        json_put_bool(request, "allow_uncollected", true);
    for (int m = 0; m < _RECIPE_MODE_MAX; m++) {
        if (!(modes & 1u << m))
            continue;
        _cleanup_(freep) char *remark = phase_remark(r, (enum recipe_mode)m);
        client_note(c, "%s/profiles/%s", folder, recipe_mode_name((enum recipe_mode)m));
        if (remark)
            client_note(c, "  %s", remark);
    }
    return session_start(c, name, request, true, NULL);
}

/* Without steps to record there is only the load, at each of its concurrencies in turn: nsys records by its
 * own clock, or nothing is recorded. */
static int recipe_send_load(struct client *c, const struct recipe *r, const struct start_choice *choice)
{
    enum recipe_mode mode = r->disaggregated ? RECIPE_PREFILL : RECIPE_AGGREGATED;
    bool in_turn = r->type == RECIPE_NONE && r->generation == RECIPE_LOAD_IN_BENCHMARK;
    struct recipe one = *r; /* borrowed, but for the concurrency */
    int worst = EXIT_DONE;

    for (size_t i = 0; i < (in_turn ? r->n_concurrencies : 1) && worst != EXIT_FAILED; i++) {
        _cleanup_json_ request = json_object();
        struct job_end m = {0};
        if (in_turn)
            one.phases[mode].concurrency = r->concurrencies[i];
        json_object_set_new(request, "workload", phase_workload(&one, mode));
        int status = recipe_add_choice(c, choice, request);
        if (status == EXIT_DONE)
            status = run_measure(c, choice->source, request, &m);
        if (status == EXIT_DONE)
            status = m.was_left ? EXIT_FAILED : run_show_result(c, m.job);
        json_decref(m.job);
        worst = status == EXIT_DONE ? worst : status;
    }
    return worst;
}

/* The worst of the phases' exit statuses; one that failed is the last. */
static int recipe_record(struct client *c, const struct recipe *r, const struct start_choice *choice,
                         const char *job_id)
{
    _cleanup_(freep) char *folder = recipe_folder(r, job_id ? job_id : "0", wall_ns());
    unsigned left = 0;
    int worst = EXIT_DONE;

    client_hold_signals();
    if (r->type == RECIPE_NONE || r->type == RECIPE_NSYS_TIME)
        worst = recipe_send_load(c, r, choice);
    else
        for (int m = 0; m < _RECIPE_MODE_MAX; m++)
            left |= r->phases[m].present ? 1u << m : 0;
    while (left && worst != EXIT_FAILED) {
        unsigned now = phases_share_load(r) ? left : left & -left;
        int status = recipe_record_phases(c, r, choice, now, folder);
        worst = status == EXIT_DONE ? worst : status;
        left &= ~now;
    }
    if (recipe_is_nsys(r))
        client_note(c, "nsys writes its reports when the workers end: profctl ingest imports them");
    return worst;
}

static bool recipe_applies(const void *values)
{
    const struct recipe_options *o = values;
    return o->file;
}

static int recipe_run(struct client *c, const void *values, const void *start_values)
{
    const struct recipe_options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_done) struct recipe r = {0};
    struct start_choice choice;
    int status;

    if (start_read_choice(start_values, &choice, &p) < 0)
        status = client_fail(c, &p);
    else if (choice.chooses_recording)
        status = client_refuse(
            c, "With --recipe name only the workers (--router, --fleet, --worker), --job-id and --label.",
            "--recipe already defines what is recorded, and for how long");
    else if (recipe_read(o->file, o->variant, o->any_workers ? RECIPE_ANY_WORKERS : 0, &r, &p) < 0)
        status = client_fail(c, &p);
    else
        status = client_need_user_profd(c);
    if (status == EXIT_DONE)
        status = recipe_record(c, &r, &choice, o->job_id ? o->job_id : getenv("SLURM_JOB_ID"));
    json_decref(choice.labels);
    return status;
}

const struct verb_extension verb_start_recipe = {
    .verb = &verb_start,
    .options = recipe_options,
    .n_options = ARRAY_SIZE(recipe_options),
    .values_size = sizeof(struct recipe_options),
    .applies = recipe_applies,
    .run = recipe_run,
};
