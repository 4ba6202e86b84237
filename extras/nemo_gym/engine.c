/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers of NeMo Gym: resource servers, agents and models, each a Python program that counts its functions
 * with yappi from its launch to its end, if profiling is on. There is nothing to start or stop: GET /stats
 * returns the sums so far (or writes them into files), and a recording is the difference of two.
 *
 * The head server lists the others: GET /server_instances returns a plain array of {"process_name": ...,
 * "server_type": "resources_servers", "url": ..., "pid": ...}; url is null until the server has a port.
 */
#include "extras/nemo_gym/engine.h"

#include "base/alloc.h"
#include "base/yaml_json.h"
#include "daemon/fleet/profiler_config.h"

#define STATS_PATH "/stats"

static void nemo_gym_take(struct worker *w, const struct answers *a)
{
    w->profilable = true;
    if (!(a->endpoints & NEMO_GYM_STATS))
        worker_refuse(w,
                      "Start NeMo Gym with\n  +profiling_enabled=true "
                      "+profiling_results_dirpath=results/profiling",
                      "has no " STATS_PATH ": it was started without profiling");
}

/* The entire configuration is in the environment, as YAML. */
static void nemo_gym_read_launch(const char *version, const struct worker_launch *launch,
                                 struct profiler_launch *ret)
{
    static const char *const dict_variable = "NEMO_GYM_CONFIG_DICT";
    const char *text = launch_variable(launch, dict_variable);
    char error[200];
    _cleanup_json_ dict = text ? yaml_parse(text, strlen(text), error) : NULL;
    const char *dir = json_get_str(dict, "profiling_results_dirpath");

    ret->server = xstrdup(launch_variable(launch, "NEMO_GYM_CONFIG_PATH"));
    if (text && !dict)
        ret->error = xasprintf("%s: %s", dict_variable, error);
    if (!dir || !json_get_bool(dict, "profiling_enabled", false))
        return;
    ret->dir = xstrdup(dir);
    ret->source = "profiling_results_dirpath";
}

static void nemo_gym_review(const struct recording *rec, const struct worker *w, struct review *review)
{
    static const char remedy[] = "Remove it for NeMo Gym.";

    if (rec->steps > 0)
        review_add(review, true, "--steps", "Use --duration, or stop the session by profctl stop.",
                   "a server of NeMo Gym has no steps");
    if (rec->activities != 0)
        review_add(review, true, "--activities", remedy, "yappi only counts Python functions");
    if (rec->by_stage)
        review_add(review, true, "--by-stage", remedy, "yappi knows no stages");
    review_add(review, false, NULL, NULL,
               "counts CPU time: time that a function waits (for the network, a lock, a subprocess) is not "
               "included");
}

static const char *nemo_gym_start_remedy(const struct worker *w, int status)
{
    return status == 404
               ? "Start NeMo Gym with +profiling_enabled=true."
               : "See the server's log for the cause: later versions need gprof2dot and graphviz for their "
                 "profiles.";
}

const struct engine_ops engine_nemo_gym = {
    .id = ENGINE_NEMO_GYM,
    .take = nemo_gym_take,
    .start_path = STATS_PATH,
    .stop_path = STATS_PATH,
    .method = "GET",
    .writes_no_traces = true,
    .read_launch = nemo_gym_read_launch,
    /* A server runs two directories below its checkout, and writes relative to the checkout. */
    .root_mark = "../../pyproject.toml",
    .review = nemo_gym_review,
    .start_remedy = nemo_gym_start_remedy,
};

static const json_t *nemo_gym_entries(const json_t *root)
{
    return json_is_array(root) ? root : NULL;
}

static bool nemo_gym_recognise(const json_t *root)
{
    return json_is_array(root) &&
           (json_array_size(root) == 0 || json_get_str(json_array_get(root, 0), "server_type"));
}

const struct router_dialect router_nemo_gym = {
    .name = "nemo-gym",
    .path = "/server_instances",
    .recognise = nemo_gym_recognise,
    .entries = nemo_gym_entries,
};
