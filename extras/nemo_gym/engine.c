/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers of NeMo Gym: resource servers, agents and models, each a program of Python that counts its
 * functions with yappi from its launch to its end, where profiling is on. There is nothing to start or stop:
 * GET /stats gives the sums so far (or writes them into files), and a recording is the difference of two.
 */
#include "daemon/fleet/engine.h"
#include "base/http_reason.h"

#define STATS_PATH "/stats"

static bool identify(struct worker *w, const struct answers *a)
{
    const unsigned marks = ENDPOINT_STATS | ENDPOINT_SEED_SESSION | ENDPOINT_AGGREGATE_METRICS;

    if (!a->has_openapi || !(a->endpoints & marks))
        return false;
    w->profilable = true;
    if (!(a->endpoints & ENDPOINT_STATS))
        worker_refuse(w,
                      "Start NeMo Gym with\n  +profiling_enabled=true "
                      "+profiling_results_dirpath=results/profiling",
                      "has no " STATS_PATH ": it was started without profiling");
    return true;
}

static json_t *start_body(const struct recording *rec, const struct worker *w)
{
    (void)rec;
    (void)w;
    return NULL;
}

static void review(const struct recording *rec, const struct worker *w, struct review *review)
{
    static const char remedy[] = "Leave it out for NeMo Gym.";

    (void)w;
    if (rec->steps > 0)
        review_add(review, true, "--steps", "Add --duration, or stop it yourself.",
                   "a server of NeMo Gym has no steps");
    if (rec->activities != 0)
        review_add(review, true, "--activities", remedy, "yappi counts functions of Python, nothing else");
    if (rec->by_stage)
        review_add(review, true, "--by-stage", remedy, "yappi knows no stages");
    review_add(review, false, NULL, NULL,
               "counts CPU time: what a function waits for (the network, a lock, a subprocess) is not seen");
}

static bool stop_failure_is_benign(const struct recording *rec, int status)
{
    (void)rec;
    (void)status;
    return false;
}

static void explain_start(const struct worker *w, int status, const char *body, struct problem *p)
{
    (void)w;
    (void)body;
    problem_set(p, 0, PROBLEM_UPSTREAM, "GET " STATS_PATH " answered %d %s", status, http_reason(status));
    problem_remedy(p, status == 404
                          ? "Start NeMo Gym with +profiling_enabled=true."
                          : "See the server's log for the cause: later versions need gprof2dot and graphviz "
                            "for their profiles.");
}

const struct engine_ops engine_nemo_gym = {
    .id = ENGINE_NEMO_GYM,
    .identify = identify,
    .start_path = STATS_PATH,
    .stop_path = STATS_PATH,
    .counts_functions = true,
    .start_body = start_body,
    .review = review,
    .stop_failure_is_benign = stop_failure_is_benign,
    .explain_start = explain_start,
};
