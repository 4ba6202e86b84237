/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any process with PyTorch that registered for Kineto's on-demand recording (KINETO_USE_DAEMON). No answer proves it,
 * because nothing calls it over HTTP: daemon/kineto hands it the text of a configuration.
 *
 * Source: pytorch/kineto @114171dfba68 (2026-08-20), libkineto/src/Config.cpp.
 */
#include "base/alloc.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/profiler_config.h"
#include "daemon/kineto/config_text.h"

/* Only its own environment counts, not that of the process that started it. */
static void pytorch_read_launch(const char *version, const struct worker_launch *launch,
                                struct profiler_launch *ret)
{
    const char *dir = launch_variable(launch, KINETO_TRACE_DIR_VARIABLE);

    if (!launch->env.data)
        return;
    ret->dir = xstrdup(dir ? dir : KINETO_TRACE_DIR_DEFAULT);
    ret->source = dir ? KINETO_TRACE_DIR_VARIABLE : "Kineto's default";
}

/* What the review of an option says; it refuses the session, or is a remark. */
struct pytorch_limit {
    bool asked, refuses;
    const char *option, *text, *remedy;
};

static void pytorch_review(const struct recording *rec, const struct worker *w, struct review *review)
{
    const struct pytorch_limit limits[] = {
        {rec->steps > 0, true, "--steps",
         "profd records a PyTorch process for a duration, not for a number of steps", "Use --duration."},
        {rec->start_step > 0, true, "--start-step", "profd cannot count the steps of a PyTorch process",
         "Use --start-at."},
        {rec->by_stage, true, "--by-stage", "a PyTorch process has no stages that profd knows",
         "Leave it out, or record the processes in a session of their own."},
        {rec->activities & ACTIVITY_CUDA_PROFILER, true, "--activities cuda-profiler",
         "Kineto starts no other profiler", "Use cpu, cuda and mem."},
        {rec->duration_ns == 0 && rec->steps == 0, true, "--workload",
         "the recording of a PyTorch process cannot be stopped when the load ends", "Add --duration."},
        {rec->with_stack, false, "--with-stack",
         "PyTorch built before 2026-03-30 (pytorch#178830) may crash when stacks are recorded on demand",
         NULL},
    };

    (void)w;
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        if (limits[i].asked)
            review_add(review, limits[i].refuses, limits[i].option, limits[i].remedy, "%s", limits[i].text);
}

static const char *pytorch_start_remedy(const struct worker *w, int status)
{
    (void)w, (void)status;
    return "See the log of the process.";
}

const struct engine_ops engine_pytorch = {
    .id = ENGINE_PYTORCH,
    .read_launch = pytorch_read_launch,
    .names_traces = true,
    .on_demand = true,
    .start_path = "",
    .nothing_remedy = "Kineto drops a request without a word in three cases: it came too late for its "
                      "warm-up (is the clock of this "
                      "host steady, the process very busy?); another profiler was active in the process; or "
                      "the directory is not "
                      "one that the process may write to (KINETO_ONDEMAND_TRACE_DIR, else /tmp). The log of "
                      "the process names it.",
    .review = pytorch_review,
    .start_remedy = pytorch_start_remedy,
};
