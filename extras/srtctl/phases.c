/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/srtctl/recipe.h"

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
    } else if (r->type == RECIPE_TORCH) {
        /* It ends when the traces are complete; the requests then in flight are of no use. */
        json_put_str(w, "duration", "10min");
        json_put_str(w, "drain", "2s");
    } else {
        /* sa-bench sends a multiple of the concurrency; the loads before it, 128. */
        json_put_int(w, "requests",
                     r->generation == RECIPE_LOAD_IN_BENCHMARK
                         ? phase->concurrency * MAX(r->requests_of_each, (int64_t)1)
                         : MAX(phase->concurrency, (int64_t)RECIPE_REQUESTS));
    }
    return w;
}

static json_t *phase_activities(const struct recipe *r)
{
    return r->type == RECIPE_TORCH ? json_pack("[s, s, s]", "cpu", "cuda", "mem")
                                   : json_pack("[s]", "cuda-profiler");
}

json_t *phases_request(const struct recipe *r, unsigned modes, const char *folder)
{
    enum recipe_mode first = _RECIPE_MODE_MAX;
    json_t *request = json_object(), *phases = json_object();

    for (int m = _RECIPE_MODE_MAX - 1; m >= 0; m--) {
        const struct recipe_phase *phase = &r->phases[m];
        if (!(modes & 1u << m))
            continue;
        first = (enum recipe_mode)m;
        json_object_set_new(phases, recipe_mode_name(first),
                            json_pack("{s: I, s: I}", "start_step", (json_int_t)phase->start_step, "steps",
                                      (json_int_t)(phase->stop_step - phase->start_step)));
    }
    json_object_set_new(request, "activities", phase_activities(r));
    json_object_set_new(request, "workload", phase_workload(r, first));
    json_object_set_new(request, "load", json_pack("{s: s}", "until", "recorded"));
    json_object_set_new(request, "job", json_pack("{s: s, s: o}", "folder", folder, "phases", phases));
    return request;
}

/* In recipes of 2025 each phase may have a load of its own, and srtctl ran it as a job of its own. */
bool phases_share_load(const struct recipe *r)
{
    const struct recipe_phase *p = &r->phases[RECIPE_PREFILL], *d = &r->phases[RECIPE_DECODE];

    return !p->present || !d->present ||
           (p->isl == d->isl && p->osl == d->osl && p->concurrency == d->concurrency);
}

char *phase_remark(const struct recipe *r, enum recipe_mode mode)
{
    int64_t steps = r->phases[mode].stop_step - r->phases[mode].start_step;

    if (steps >= RECIPE_STEPS_FEW && steps <= RECIPE_STEPS_MANY)
        return NULL;
    return xasprintf("%s: %" PRId64 " steps; %d to %d are usual", recipe_mode_name(mode), steps,
                     RECIPE_STEPS_FEW, RECIPE_STEPS_MANY);
}
