/* SPDX-License-Identifier: Apache-2.0 */
#include "client/recipe/phases.h"

#include "base/alloc.h"
#include <inttypes.h>

json_t *phase_workload(const struct recipe *r, enum recipe_mode mode)
{
    const struct recipe_phase *phase = &r->phases[mode];
    json_t *w = json_object();

    json_put_int(w, "isl", phase->isl);
    json_put_int(w, "osl", phase->osl);
    json_put_int(w, "concurrency", phase->concurrency);
    if (r->type == RECIPE_NSYS_TIME) {
        _cleanup_(freep) char *duration = xasprintf("%" PRId64 "s", r->benchmark_duration_secs);
        json_put_str(w, "duration", duration);
    } else {
        json_put_int(w, "requests", MAX(phase->concurrency, (int64_t)RECIPE_REQUESTS));
    }
    return w;
}

static json_t *activities(const struct recipe *r)
{
    return r->type == RECIPE_TORCH ? json_pack("[s, s, s]", "cpu", "cuda", "mem")
                                   : json_pack("[s]", "cuda-profiler");
}

json_t *phase_request(const struct recipe *r, enum recipe_mode mode, const char *folder)
{
    const struct recipe_phase *phase = &r->phases[mode];
    json_t *request = json_object();

    json_put_int(request, "steps", phase->stop_step - phase->start_step);
    if (phase->start_step > 0)
        json_put_int(request, "start_step", phase->start_step);
    if (r->disaggregated)
        json_put_str(request, "role", recipe_mode_name(mode));
    json_object_set_new(request, "activities", activities(r));
    json_object_set_new(request, "workload", phase_workload(r, mode));
    json_object_set_new(request, "job",
                        json_pack("{s: s, s: s}", "folder", folder, "phase", recipe_mode_name(mode)));
    return request;
}

char *phase_doubt(const struct recipe *r, enum recipe_mode mode)
{
    int64_t steps = r->phases[mode].stop_step - r->phases[mode].start_step;

    if (steps >= RECIPE_STEPS_FEW && steps <= RECIPE_STEPS_MANY)
        return NULL;
    return xasprintf("%s: %" PRId64 " steps; %d to %d are usual", recipe_mode_name(mode), steps,
                     RECIPE_STEPS_FEW, RECIPE_STEPS_MANY);
}
