/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ATOM. A start has no body and lasts until a stop; nothing counts steps. It succeeds whatever comes of it: where the
 * server has no trace directory nothing is recorded, and where somebody else records already, that recording goes on
 * and profd's stop ends it, which nothing reports. Each rank writes into a directory of its own below the server's.
 *
 * After ROCm/ATOM @ffdf3bb5: atom/entrypoints/openai/api_server.py, atom/model_engine/model_runner.py (start_profiler(),
 * stop_profiler()), atom/model_engine/arg_utils.py, atom/entrypoints/openai/metrics.py. /server_info exists after
 * v0.1.6, /kv_transfer_info since v0.1.5. ATOM #2112 (open) brings a window and 409.
 */
#include "base/alloc.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/profiler_config.h"

#define START_PATH "/start_profile"
#define DIR_REMEDY                                                                                           \
    "Add --torch-profiler-dir DIR and restart it; the variable ATOM_TORCH_PROFILER_DIR has no effect on "    \
    "its server."
#define MORE_REMEDY "Set ATOM_PROFILER_MORE=1 in its environment and restart it."

/* As Atomesh, its router, reads kv_role. */
static const struct {
    const char *kv_role;
    enum role role;
} atom_roles[] = {{"kv_producer", ROLE_PREFILL}, {"kv_consumer", ROLE_DECODE}};

static void atom_take(struct worker *w, const struct answers *a)
{
    const json_t *transfer = answered(a, QUESTION_KV_TRANSFER), *info = answered(a, QUESTION_SERVER_INFO);
    const json_t *sizes = info ? info : transfer;
    const char *kv_role = json_get_str(transfer, "kv_role");

    w->sizes.tp = json_get_size(sizes, "tp_size");
    w->sizes.dp = json_get_size(sizes, "dp_size");
    take_model(w, a, json_get_str(info, "served_model_name"));
    if (w->role == ROLE_UNKNOWN && json_is_null(json_object_get(transfer, "kv_role")))
        w->role = ROLE_REGULAR;
    for (size_t i = 0; kv_role && i < ARRAY_SIZE(atom_roles); i++)
        if (w->role == ROLE_UNKNOWN && streq(kv_role, atom_roles[i].kv_role))
            w->role = atom_roles[i].role;
    w->profilable = true;
    if (a->has_openapi && !(a->endpoints & ENDPOINT_START_PROFILE))
        worker_refuse(w, "Update ATOM.", "has no " START_PATH);
    else
        worker_add_note(w, "does not report whether somebody else records: a stop would end that recording");
}

static unsigned atom_more_questions(const struct worker *w, const struct answers *a)
{
    return QUESTION_BIT(QUESTION_KV_TRANSFER);
}

/* What is set for the life of the server, by one switch. */
static void atom_review_details(const struct recording *rec, const struct worker *w, struct review *review)
{
    const struct {
        bool asked;
        int64_t set;
        const char *option, *what;
    } details[] = {{rec->with_stack, w->setup.with_stack, "--with-stack", "stacks"},
                   {rec->record_shapes, w->setup.record_shapes, "--record-shapes", "shapes"}};

    for (size_t i = 0; i < ARRAY_SIZE(details); i++)
        if (details[i].asked && details[i].set == 0)
            review_add(review, true, details[i].option, MORE_REMEDY,
                       "it was started without %s, and ATOM cannot turn them on later", details[i].what);
        else if (details[i].asked && details[i].set < 0)
            review_add(review, false, details[i].option, MORE_REMEDY,
                       "ATOM decides on %s at its launch (its default is off), and how this one was launched "
                       "is not known",
                       details[i].what);
}

static void atom_review(const struct recording *rec, const struct worker *w, struct review *review)
{
    const struct {
        bool asked;
        const char *option, *text, *remedy;
    } unknown[] = {
        {rec->steps > 0, "--steps",
         "ATOM records until it is stopped, and its metrics do not count steps: nobody knows when to stop it",
         "Use --duration for this worker."},
        {rec->start_step > 0, "--start-step", "ATOM starts at once, not at a step",
         "Use --start-at or --when-running."},
        {rec->by_stage, "--by-stage", "ATOM does not separate prefill and decode",
         "Leave it out for this worker."},
        {rec->activities & (ACTIVITY_MEM | ACTIVITY_CUDA_PROFILER), "--activities",
         "ATOM records CPU and GPU, and nothing else", "Leave it out for this worker."},
    };

    if (streq(w->setup.kind, "none"))
        review_add(
            review, true, NULL, DIR_REMEDY,
            "it was started without --torch-profiler-dir: ATOM then answers a start and records nothing");
    for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
        if (unknown[i].asked)
            review_add(review, true, unknown[i].option, unknown[i].remedy, "%s", unknown[i].text);
    if (rec->activities == ACTIVITY_CPU || rec->activities == ACTIVITY_CUDA)
        review_add(review, false, "--activities", NULL, "ATOM always records CPU and GPU together");
    atom_review_details(rec, w, review);
}

static const char *atom_start_remedy(const struct worker *w, int status)
{
    switch (status) {
    case 404:
        return "Is this still an ATOM server, and not its router? Name the server itself.";
    case 409:
        return "Somebody else records it: wait for the end, or end it with POST %s/stop_profile.";
    case 401:
    case 403:
        return TOKEN_REMEDY;
    default:
        return "See the log of the ATOM server for the cause; it waits five minutes for its ranks.";
    }
}

/* Whether it is the command line of ATOM's server: that of a proxy which holds its port proves nothing. */
static bool atom_is_launch(const struct worker_launch *launch)
{
    static const char *const marks[] = {"atom.entrypoints", "atom/entrypoints"};

    for (const char *arg = string_list_next(&launch->args, NULL); arg;
         arg = string_list_next(&launch->args, arg))
        for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
            if (strstr(arg, marks[i]))
                return true;
    return false;
}

/*
 * The engine's Config would take ATOM_TORCH_PROFILER_DIR as its default, but EngineArgs of the server always passes the
 * option's value, also None (arg_utils.py, _get_engine_kwargs()), although docs/environment_variables.md promises it.
 */
static void atom_read_launch(const char *version, const struct worker_launch *launch,
                             struct profiler_launch *ret)
{
    static const char dir_flag[] = "--torch-profiler-dir";
    const char *dir = flag_value(&launch->args, dir_flag);

    if (!atom_is_launch(launch))
        return;
    ret->sizes.tp = launch_size(launch, "--tensor-parallel-size", "-tp");
    ret->sizes.pp = launch_size(launch, "--pipeline-parallel-size", "-pp");
    ret->sizes.dp = launch_size(launch, "--data-parallel-size", "-dp");
    ret->setup.kind = xstrdup(dir ? "torch" : "none");
    ret->setup.use_gzip = 1;
    if (launch->env.data)
        ret->setup.with_stack = ret->setup.record_shapes =
            streq(launch_variable(launch, "ATOM_PROFILER_MORE"), "1");
    ret->dir = xstrdup(dir);
    ret->source = dir ? dir_flag : NULL;
}

const struct engine_ops engine_atom = {
    .id = ENGINE_ATOM,
    .take = atom_take,
    .more_questions = atom_more_questions,
    .start_path = START_PATH,
    .stop_path = "/stop_profile",
    .has_rank_dirs = true,
    .read_launch = atom_read_launch,
    .running_metric = "atom:requests_running",
    .waiting_metric = "atom:requests_waiting",
    .review = atom_review,
    .no_profiler_remedy = DIR_REMEDY,
    .nothing_remedy = "Was it started with --torch-profiler-dir? Without it a start is answered, and nothing "
                      "is recorded.",
    .start_remedy = atom_start_remedy,
};
