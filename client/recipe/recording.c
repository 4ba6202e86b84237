/* SPDX-License-Identifier: Apache-2.0 */
#include "client/recipe/recording.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/door/follow.h"
#include "client/door/starting.h"
#include "client/recipe/phases.h"
#include "client/runs/measuring.h"
#include "client/runs/result.h"
#include <errno.h>

static int put_source(struct client *c, const struct recipe_order *o, json_t *request)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (o->labels)
        json_object_set(request, "labels", (json_t *)o->labels);
    return source_to_json(c, o->source, request, &p) < 0 ? client_fail(c, &p) : EXIT_DONE;
}

static int record_phase(struct client *c, const struct recipe *r, const struct recipe_order *o,
                        enum recipe_mode mode, const char *folder)
{
    _cleanup_json_ request = phase_request(r, mode, folder);
    _cleanup_(freep) char *name = source_name(o->source), *doubt = phase_doubt(r, mode);
    int status = put_source(c, o, request);

    if (status != EXIT_DONE)
        return status;
    client_say(c, "%s/profiles/%s", folder, recipe_mode_name(mode));
    if (doubt)
        client_say(c, "  %s", doubt);
    return session_start(c, name, request, true);
}

/* Without steps to record there is only the load: nsys records by its own clock, or nothing is recorded. */
static int load_only(struct client *c, const struct recipe *r, const struct recipe_order *o)
{
    enum recipe_mode mode = r->disaggregated ? RECIPE_PREFILL : RECIPE_AGGREGATED;
    _cleanup_json_ request = json_object();
    struct measured m = {0};

    json_object_set_new(request, "workload", phase_workload(r, mode));
    int status = put_source(c, o, request);
    if (status == EXIT_DONE)
        status = run_measure(c, o->source, request, &m);
    if (status == EXIT_DONE)
        status = m.was_left ? EXIT_FAILED : run_show_result(c, m.run);
    json_decref(m.run);
    if (r->type == RECIPE_NSYS_TIME)
        client_say(c, "nsys writes its reports when the workers end: profctl ingest takes them");
    return status;
}

int recipe_record(struct client *c, const struct recipe *r, const struct recipe_order *o)
{
    _cleanup_(freep) char *folder = recipe_folder(r, o->job_id, wall_ns());
    int worst = EXIT_DONE;

    follow_hold_signals();
    if (r->type == RECIPE_NONE || r->type == RECIPE_NSYS_TIME)
        return load_only(c, r, o);
    for (int m = 0; m < _RECIPE_MODE_MAX && worst != EXIT_FAILED; m++) {
        int status = r->phases[m].present ? record_phase(c, r, o, (enum recipe_mode)m, folder) : EXIT_DONE;
        worst = status == EXIT_DONE ? worst : status;
    }
    if (recipe_is_nsys(r))
        client_say(c, "nsys writes its reports when the workers end: profctl ingest takes them");
    return worst;
}
