/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/srtctl/recording.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/runs/benchmark.h"
#include "client/verbs/job.h"
#include "extras/srtctl/phases.h"
#include <errno.h>

static int put_source(struct client *c, const struct recipe_options *o, json_t *request)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (o->labels)
        json_object_set(request, "labels", (json_t *)o->labels);
    return source_to_json(c, o->source, request, &p) < 0 ? client_fail(c, &p) : EXIT_DONE;
}

static int record_phases(struct client *c, const struct recipe *r, const struct recipe_options *o,
                         unsigned modes, const char *folder)
{
    _cleanup_json_ request = phases_request(r, modes, folder);
    _cleanup_(freep) char *name = source_name(o->source);
    int status = put_source(c, o, request);

    if (status != EXIT_DONE)
        return status;
    if (o->allow_uncollected)
        json_put_bool(request, "allow_uncollected", true);
    for (int m = 0; m < _RECIPE_MODE_MAX; m++) {
        _cleanup_(freep) char *doubt = modes & 1u << m ? phase_doubt(r, (enum recipe_mode)m) : NULL;
        if (modes & 1u << m)
            client_note(c, "%s/profiles/%s", folder, recipe_mode_name((enum recipe_mode)m));
        if (doubt)
            client_note(c, "  %s", doubt);
    }
    return session_start(c, name, request, true, NULL);
}

static int send_load(struct client *c, const struct recipe *r, const struct recipe_options *o,
                     int64_t concurrency)
{
    enum recipe_mode mode = r->disaggregated ? RECIPE_PREFILL : RECIPE_AGGREGATED;
    struct recipe one = *r; /* borrowed, but for the concurrency */
    _cleanup_json_ request = json_object();
    struct job_end m = {0};

    one.phases[mode].concurrency = concurrency;
    json_object_set_new(request, "workload", phase_workload(&one, mode));
    int status = put_source(c, o, request);
    if (status == EXIT_DONE)
        status = run_measure(c, o->source, request, &m);
    if (status == EXIT_DONE)
        status = m.was_left ? EXIT_FAILED : run_show_result(c, m.job);
    json_decref(m.job);
    return status;
}

/* Without steps to record there is only the load, at each of its concurrencies in turn: nsys records by its
 * own clock, or nothing is recorded. */
static int load_only(struct client *c, const struct recipe *r, const struct recipe_options *o)
{
    enum recipe_mode mode = r->disaggregated ? RECIPE_PREFILL : RECIPE_AGGREGATED;
    bool in_turn = r->type == RECIPE_NONE && r->generation == RECIPE_LOAD_IN_BENCHMARK;
    int worst = EXIT_DONE;

    for (size_t i = 0; i < (in_turn ? r->n_concurrencies : 1) && worst != EXIT_FAILED; i++) {
        int status = send_load(c, r, o, in_turn ? r->concurrencies[i] : r->phases[mode].concurrency);
        worst = status == EXIT_DONE ? worst : status;
    }
    if (r->type == RECIPE_NSYS_TIME)
        client_note(c, "nsys writes its reports when the workers end: profctl ingest takes them");
    return worst;
}

/* The worst of the phases' exit statuses; one that failed is the last. */
static int recipe_record(struct client *c, const struct recipe *r, const struct recipe_options *o)
{
    _cleanup_(freep) char *folder = recipe_folder(r, o->job_id ? o->job_id : "0", wall_ns());
    unsigned present = 0;
    int worst = EXIT_DONE;

    client_hold_signals();
    if (r->type == RECIPE_NONE || r->type == RECIPE_NSYS_TIME)
        return load_only(c, r, o);
    for (int m = 0; m < _RECIPE_MODE_MAX; m++)
        present |= r->phases[m].present ? 1u << m : 0;
    if (phases_share_load(r))
        worst = record_phases(c, r, o, present, folder);
    for (int m = 0; m < _RECIPE_MODE_MAX && worst != EXIT_FAILED && !phases_share_load(r); m++) {
        int status = present & 1u << m ? record_phases(c, r, o, 1u << m, folder) : EXIT_DONE;
        worst = status == EXIT_DONE ? worst : status;
    }
    if (recipe_is_nsys(r))
        client_note(c, "nsys writes its reports when the workers end: profctl ingest takes them");
    return worst;
}

int recipe_record_file(struct client *c, const struct recipe_options *o)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_done) struct recipe r = {0};

    if (recipe_read(o->file, o->variant, o->any_workers ? RECIPE_ANY_WORKERS : 0, &r, &p) < 0)
        return client_fail(c, &p);
    int status = client_need_user_profd(c);
    return status == EXIT_DONE ? recipe_record(c, &r, o) : status;
}
