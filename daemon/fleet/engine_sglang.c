/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SGLang. Each start has all options. A second start during a recording loses the first recording, and
 * invalid combinations of options end the server, so profd refuses unsupported options before it sends a
 * start. Its answer to a stop after the requested steps, 500, is part of SGLANG_PROFILER (engine.h), which
 * other engines with SGLang's profiler share.
 */
#include "base/alloc.h"
#include "base/metrics.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/engine_version.h"
#include "daemon/fleet/profiler_config.h"
#include <strings.h>

#define START_PATH "/start_profile"

/* An immediate start recorded one step fewer than asked before (sglang#30215). */
static const struct version_change sglang_counts_right = {"0.5.16.dev0", "0.5.16"};
/* Stages on a decode server; it ended the server before (sglang#40098), and still does with SGLANG_PROFILE_V2
 * (sglang#40383). */
static const struct version_change sglang_has_decode_stages = {"0.5.20.dev0", "0.5.20"};

static const struct {
    enum activity activity;
    const char *name;
} activity_names[] = {
    {ACTIVITY_CPU, "CPU"},
    {ACTIVITY_CUDA, "GPU"},
    {ACTIVITY_MEM, "MEM"},
    {ACTIVITY_CUDA_PROFILER, "CUDA_PROFILER"},
};

static const struct {
    const char *mode;
    enum role role;
} disaggregation_roles[] = {
    {"null", ROLE_REGULAR},
    {"prefill", ROLE_PREFILL},
    {"decode", ROLE_DECODE},
    {"encode", ROLE_ENCODE},
};

static void sglang_take_info(struct worker *w, const json_t *info)
{
    const char *mode = json_get_str(info, "disaggregation_mode");
    const char *version = json_get_str(info, "version");

    if (version)
        replace_str(&w->version, version);
    w->sizes.tp = json_get_size(info, "tp_size");
    w->sizes.pp = json_get_size(info, "pp_size");
    w->sizes.dp = json_get_size(info, "dp_size");
    w->sizes.ep = json_get_size(info, "ep_size");
    w->sizes.nodes = json_get_size(info, "nnodes");
    if (w->sizes.nodes > 1)
        worker_join_group(w, json_get_str(info, "dist_init_addr"));
    w->speculative = json_get_str(info, "speculative_algorithm") != NULL;
    for (size_t i = 0; mode && i < ARRAY_SIZE(disaggregation_roles); i++)
        if (w->role == ROLE_UNKNOWN && streq(mode, disaggregation_roles[i].mode))
            w->role = disaggregation_roles[i].role;
}

static bool has_text(const json_t *object, const char *key)
{
    const char *text = json_get_str(object, key);
    return text && text[0];
}

/* The answer to /server_info, which older ones know by another name; NULL where neither was answered. */
static const json_t *sglang_info(const struct answers *a)
{
    const json_t *info = answered(a, QUESTION_SERVER_INFO);
    return json_get_str(info, "model_path") ? info : answered(a, QUESTION_OLD_SERVER_INFO);
}

/*
 * The server in Rust (rust/sglang-server/src/api_server/common.rs, v0.5.17 and v0.5.18) has no openapi.json and no routes
 * of the profiler; its /server_info has a few members of the other's hundreds.
 */
static bool sglang_is_rust_server(const json_t *info)
{
    return json_is_array(json_object_get(info, "internal_states")) &&
           !json_object_get(info, "mem_fraction_static") && !json_object_get(info, "tp_size");
}

static void sglang_take(struct worker *w, const struct answers *a)
{
    const json_t *info = sglang_info(a);
    bool known = json_get_size(info, "tp_size") > 0;
    const char *served = json_get_str(info, "served_model_name");

    take_model(w, a, served ? served : json_get_str(info, "model_path"));
    w->profilable = true;
    if (known)
        sglang_take_info(w, info);
    else if (info && json_get_str(info, "version"))
        replace_str(&w->version, json_get_str(info, "version"));
    else if (a->items[QUESTION_OLD_SERVER_INFO].asked)
        worker_add_note(w, "did not answer /server_info, so its parallel sizes are not known");
    if (sglang_is_rust_server(info))
        worker_refuse(w, "Unset SGLANG_RUST_SERVER in its environment and restart it.",
                      "has no " START_PATH ": its HTTP server is the one in Rust (SGLANG_RUST_SERVER)");
    else if (a->has_openapi && !(a->endpoints & ENDPOINT_START_PROFILE))
        worker_refuse(w, "Update SGLang.", "has no " START_PATH);
    else if (has_text(info, "admin_api_key") && !a->has_admin_token)
        worker_needs_credentials(w, "admin_token_file");
}

/* A gateway in front of SGLang passes /server_info on; it has a list of workers, and no openapi.json. */
static unsigned sglang_more_questions(const struct worker *w, const struct answers *a)
{
    const json_t *info = sglang_info(a);

    if (!info)
        return QUESTION_BIT(QUESTION_OLD_SERVER_INFO);
    return a->has_openapi || sglang_is_rust_server(info) ? 0 : QUESTION_BIT(QUESTION_WORKERS);
}

json_t *sglang_start_body(const struct recording *rec, const struct worker *w)
{
    json_t *body = json_object();

    json_put_str(body, "output_dir", rec->output_dir);
    if (rec->steps > 0)
        json_put_int(body, "num_steps", rec->steps);
    if (rec->start_step > 0)
        json_put_int(body, "start_step", rec->start_step);
    if (rec->activities != 0) {
        json_t *names = json_array();
        for (size_t i = 0; i < ARRAY_SIZE(activity_names); i++)
            if (rec->activities & activity_names[i].activity)
                json_array_append_new(names, json_string(activity_names[i].name));
        json_object_set_new(body, "activities", names);
    }
    json_put_bool(body, "profile_by_stage", rec->by_stage);
    json_put_bool(body, "with_stack", rec->with_stack);
    json_put_bool(body, "record_shapes", rec->record_shapes);
    json_put_str(body, "profile_id", rec->profile_id);
    return body;
}

static void sglang_review_by_stage(const struct recording *rec, const struct worker *w, struct review *review)
{
    static const char remedy[] = "Leave --by-stage out for this worker.";

    if (rec->steps <= 0)
        review_add(review, true, "--by-stage", "Add --steps N.",
                   "SGLang ends by itself when it has to separate stages without a number of steps");
    if (w->role == ROLE_DECODE && version_has(w->version, &sglang_has_decode_stages) == VERSION_NO)
        review_add(review, true, "--by-stage",
                   "Leave --by-stage out for this worker, or update SGLang to 0.5.20.",
                   "ends a decode server (sglang#40098)");
    else if (w->role == ROLE_DECODE &&
             version_has(w->version, &sglang_has_decode_stages) == VERSION_UNCERTAIN)
        review_add(review, true, "--by-stage", remedy,
                   "ends a decode server before 0.5.20 (sglang#40098), and whether this one has the "
                   "correction is not "
                   "known");
    else if (w->role == ROLE_DECODE)
        review_add(review, false, "--by-stage", "Leave SGLANG_PROFILE_V2 unset in its environment.",
                   "ends a decode server that has SGLANG_PROFILE_V2 set (sglang#40383)");
    if (w->speculative)
        review_add(review, true, "--by-stage", remedy,
                   "never stops with speculative decoding (sglang#34942)");
}

/* Options that a start did not have from the beginning: older servers do not read them. */
static void sglang_review_old(const struct recording *rec, const struct worker *w, struct review *review)
{
    const struct {
        const char *option;
        bool asked;
        struct version_change since;
    } options[] = {
        {"--steps", rec->steps > 0, {"0.4.3.post3", "0.4.3.post3"}},           /* sglang#3988 */
        {"--by-stage", rec->by_stage, {"0.4.7", "0.4.7"}},                     /* sglang#6787 */
        {"--start-step", rec->start_step > 0, {"0.4.9.post2", "0.4.9.post2"}}, /* sglang#7608 */
    };

    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        if (options[i].asked && version_has(w->version, &options[i].since) == VERSION_NO)
            review_add(review, true, options[i].option, "Leave it out for this worker, or update SGLang.",
                       "SGLang %s does not read %s (%s does)", w->version, options[i].option,
                       options[i].since.since);
}

static void sglang_review_steps(const struct recording *rec, const struct worker *w, struct review *review)
{
    enum version_answer right = version_has(w->version, &sglang_counts_right);

    if (rec->steps <= 0 || rec->by_stage || rec->start_step > 0 || right == VERSION_YES)
        return;
    if (right == VERSION_NO)
        review_add(review, false, "--steps", "Ask for one more, or update SGLang to 0.5.16.",
                   "SGLang %s records one step fewer than asked (sglang#30215)", w->version);
    else if (w->version)
        review_add(review, false, "--steps", NULL,
                   "SGLang before 0.5.16 records one step fewer than asked (sglang#30215), and whether %s is "
                   "before or "
                   "after it is not known",
                   w->version);
}

static void sglang_review(const struct recording *rec, const struct worker *w, struct review *review)
{
    sglang_review_old(rec, w, review);
    sglang_review_steps(rec, w, review);
    if (rec->by_stage)
        sglang_review_by_stage(rec, w, review);
    if (rec->start_step > 0 && !rec->from_load)
        review_add(review, false, "--start-step", NULL,
                   "counts forward steps since the server's launch; an idle server never gets there");
    if (rec->activities & ACTIVITY_CUDA_PROFILER)
        review_add(review, false, "--activities",
                   "Start it under nsys profile --capture-range=cudaProfilerApi.",
                   "the CUDA profiler writes no file of its own");
    if (w->sizes.nodes > 1)
        review_add(review, false, NULL, "Put output_dir of profd.conf on a file system that all nodes share.",
                   "runs on %d nodes: ranks of the other nodes write on their own disks", w->sizes.nodes);
}

#define RANKS_MAX 256

/*
 * After srt/observability/metrics_collector.py and scheduler_output_processor_mixin.py: each pass of a
 * scheduler is counted by whether a CUDA graph ran. Passes of prompts are in it since mode has values for
 * them; before, it counts decode passes only, which are all that a decode worker does. Each data-parallel
 * rank has a count of its own: the highest one, as SGLang's start_step is one number for all of them.
 */
double sglang_steps_since_launch(const char *metrics, size_t size, const struct worker *w)
{
    struct prometheus_text samples = prometheus_text(metrics, size);
    struct prometheus_sample sample;
    double ranks[RANKS_MAX] = {0}, most = -1;
    bool with_prompts = w->role == ROLE_DECODE;

    while (prometheus_next(&samples, &sample)) {
        const char *mode = "", *rank = "";
        size_t mode_len = 0, rank_len = 0;
        if (!prometheus_is(&sample, "sglang:cuda_graph_passes_total"))
            continue;
        prometheus_label(&sample, "mode", &mode, &mode_len);
        prometheus_label(&sample, "dp_rank", &rank, &rank_len);
        with_prompts = with_prompts || (mode_len > 7 && memcmp(mode, "prefill", 7) == 0);
        size_t i = rank_len > 0 && rank_len < 4 ? (size_t)strtoul(rank, NULL, 10) : 0;
        if (i >= RANKS_MAX)
            continue;
        ranks[i] += sample.value;
        most = MAX(most, ranks[i]);
    }
    return with_prompts ? most : -1;
}

bool sglang_says_recorded(const struct recording *rec, const struct worker *w, int status,
                          const char *message)
{
    return strstr(message, "Profiling is already in progress") != NULL;
}

/*
 * SGLang's server answers everything that its scheduler refuses with the same 500 (tokenizer_manager.py and
 * tokenizer_control_mixin.py, _execute_profile()). Of a start that waits for a step or separates stages, and of every
 * start before 0.4.7, the scheduler refuses but one thing: that it records already, which goes on
 * (scheduler_profiler_mixin.py and profiler_manager.py, _init_profile(), v0.4.7 to v0.5.18; scheduler.py,
 * start_profile(), v0.4.3.post4 to v0.4.6.post5). A start at once loses the other recording, and its 500 may have
 * other causes. The answer is that of one data-parallel rank; another one may have taken the start.
 */
static bool sglang_is_recorded_elsewhere(const struct recording *rec, const struct worker *w, int status,
                                         const char *message)
{
    static const struct version_change starts_at_once = {"0.4.7", "0.4.7"};
    bool waits = rec->by_stage || rec->start_step > 0;

    if (sglang_says_recorded(rec, w, status, message))
        return true;
    return status == 500 && streq(message, "Internal Server Error") && w->sizes.dp == 1 &&
           (waits || version_has(w->version, &starts_at_once) == VERSION_NO);
}

static const char *sglang_start_remedy(const struct worker *w, int status)
{
    switch (status) {
    case 401:
    case 403:
        return "Set admin_token_file for [worker %s] or its fleet in profd.conf.";
    case 404:
        return "Is this still an SGLang server? Update it if so; with SGLANG_RUST_SERVER set it has no "
               "profiler.";
    case 400:
        return "This version of SGLang rejects one of the options: see its log.";
    default:
        return "Another user may be profiling it (POST /stop_profile ends that), or torch refuses a second "
               "profiler in "
               "its processes (nsys, ncu and DCGM use the same interface). The log of the SGLang server has "
               "the cause.";
    }
}

/* Variables that are on where they are not set. */
static const struct {
    const char *variable;
    size_t offset;
} sglang_switches[] = {
    {"SGLANG_PROFILE_WITH_STACK", offsetof(struct profiler_setup, with_stack)},
    {"SGLANG_PROFILE_RECORD_SHAPES", offsetof(struct profiler_setup, record_shapes)},
};

static void sglang_read_launch(const char *version, const struct worker_launch *launch,
                               struct profiler_launch *ret)
{
    static const char dir_variable[] = "SGLANG_TORCH_PROFILER_DIR";
    const char *dir = launch_variable(launch, dir_variable);

    if (!launch->env.data)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(sglang_switches); i++) {
        const char *value = env_value(&launch->env, sglang_switches[i].variable);
        *setup_value(&ret->setup, sglang_switches[i].offset) =
            !value || strcasecmp(value, "true") == 0 || streq(value, "1");
    }
    ret->setup.use_gzip = 1;
    ret->setup.kind = xstrdup("torch");
    ret->dir = xstrdup(dir);
    ret->source = dir ? dir_variable : NULL;
}

const struct engine_ops engine_sglang = {
    .id = ENGINE_SGLANG,
    .take = sglang_take,
    .more_questions = sglang_more_questions,
    .start_path = START_PATH,
    .stop_path = "/stop_profile",
    .read_launch = sglang_read_launch,
    .default_dir = "/tmp",
    .default_dir_source = "SGLang's default",
    SGLANG_PROFILER,
    .start_body = sglang_start_body,
    .review = sglang_review,
    .start_remedy = sglang_start_remedy,
    .is_recorded_elsewhere = sglang_is_recorded_elsewhere,
};
