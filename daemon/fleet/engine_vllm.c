/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vLLM. Its profiler is set at launch and its start takes no options: the body is not even read. A start
 * while it is active is ignored, up to 0.28 also after it stopped by itself (max_iterations, vllm#51839), hence the
 * stop before each start. A body with options, and status 409 for a second start, are proposed (vllm#57875) and in no
 * release: nothing is sent, and a 409 is understood.
 */
#include "base/alloc.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/engine_version.h"
#include <strings.h>

#define START_PATH "/start_profile"
#define PROFILER_CONFIG                                                                                      \
    "--profiler-config "                                                                                     \
    "'{\"profiler\":\"torch\",\"torch_profiler_dir\":\"/var/tmp/traces\",\"ignore_frontend\":true}'"

/* The option that turns the profiler on; before, it was a variable (vllm#29912). */
static const struct version_change vllm_has_option = {"0.13.0.dev0", "0.13.0.dev0"};
/* A profiler of torch of its own for each recording, and torch_profiler_activities (vllm#57460, merged after
 * v0.30.0rc2). */
static const struct version_change vllm_has_rounds = {"0.30.0rc3", "0.31.0"};

/* How this worker is started with a profiler. */
static const char *vllm_profiler_remedy(const struct worker *w)
{
    if (version_has(w->version, &vllm_has_option) == VERSION_NO)
        return "The server runs without a profiler. Start vLLM with this in its environment\n"
               "  VLLM_TORCH_PROFILER_DIR=/var/tmp/traces";
    return "The server runs without a profiler. Start vLLM with\n  " PROFILER_CONFIG;
}

static int64_t vllm_flag(const json_t *object, const char *key)
{
    return json_is_boolean(json_object_get(object, key)) ? json_get_bool(object, key, false) : -1;
}

static void vllm_take_setup(struct worker *w, const json_t *config)
{
    struct profiler_setup *s = &w->setup;
    const char *kind = json_get_str(config, "profiler"), *dir = json_get_str(config, vllm_dir_key(kind));

    if (!json_is_object(config))
        return;
    replace_str(&s->kind, kind);
    free(s->activities);
    s->activities = vllm_activities(json_object_get(config, VLLM_ACTIVITIES_KEY));
    s->with_stack = vllm_flag(config, "torch_profiler_with_stack");
    s->record_shapes = vllm_flag(config, "torch_profiler_record_shapes");
    s->use_gzip = vllm_flag(config, "torch_profiler_use_gzip");
    s->ignore_frontend = vllm_flag(config, "ignore_frontend");
    s->delay_iterations = json_get_int(config, "delay_iterations", -1);
    s->max_iterations = json_get_int(config, "max_iterations", -1);
    s->wait_iterations = json_get_int(config, "wait_iterations", -1);
    s->warmup_iterations = json_get_int(config, "warmup_iterations", -1);
    s->active_iterations = json_get_int(config, "active_iterations", -1);
    if (dir && dir[0]) {
        replace_str(&w->location.dir, dir);
        replace_str(&w->location.found_by, "/server_info");
    }
}

/* The frontend in Rust shows its own configuration, which is flat (rust/src/server/src/config.rs, struct Config). */
#define VLLM_RUST_PROFILER_KEY "profiler"

static void vllm_take_rust_config(struct worker *w, const json_t *config)
{
    w->sizes.dp = json_get_size(config, "data_parallel_size");
    replace_str(&w->setup.kind, json_get_str(config, VLLM_RUST_PROFILER_KEY));
}

static void vllm_take_config(struct worker *w, const json_t *config)
{
    const json_t *parallel = json_object_get(config, "parallel_config");
    const char *kv_role = json_get_str(json_object_get(config, "kv_transfer_config"), "kv_role");

    w->sizes.tp = json_get_size(parallel, "tensor_parallel_size");
    w->sizes.pp = json_get_size(parallel, "pipeline_parallel_size");
    w->sizes.dp = json_get_size(parallel, "data_parallel_size");
    w->sizes.nodes = json_get_size(parallel, "nnodes");
    const char *first = json_get_str(parallel, "master_addr");
    if (w->sizes.nodes > 1 && first) {
        _cleanup_(freep) char *meet = xasprintf("%s:%d", first, json_get_size(parallel, "master_port"));
        worker_join_group(w, meet);
    }
    const char *master = json_get_str(parallel, "data_parallel_master_ip");
    if (w->sizes.dp > 1 && master) {
        _cleanup_(freep) char *meet =
            xasprintf("%s:%d", master, json_get_size(parallel, "data_parallel_rpc_port"));
        worker_join_group(w, meet);
    }
    if (json_get_bool(parallel, "enable_expert_parallel", false))
        w->sizes.ep = (int)MIN((int64_t)MAX(w->sizes.tp, 1) * MAX(w->sizes.dp, 1), INT32_MAX);
    w->speculative = json_is_object(json_object_get(config, "speculative_config"));
    if (w->role == ROLE_UNKNOWN && streq(kv_role, "kv_producer"))
        w->role = ROLE_PREFILL;
    if (w->role == ROLE_UNKNOWN && streq(kv_role, "kv_consumer"))
        w->role = ROLE_DECODE;
    vllm_take_setup(w, json_object_get(config, "profiler_config"));
}

/* Whether its profiler is on. */
enum vllm_profiler_state { VLLM_PROFILER_UNKNOWN, VLLM_PROFILER_OFF, VLLM_PROFILER_ON };

/* Each of these is known of some launches only; the first that knows decides. A Rust frontend has no openapi.json. */
static enum vllm_profiler_state vllm_profiler_state(const struct answers *a)
{
    const json_t *config = json_object_get(answered(a, QUESTION_SERVER_INFO), "vllm_config");
    const json_t *of_engine = json_object_get(json_object_get(config, "profiler_config"), "profiler");
    const json_t *profiler = of_engine ? of_engine : json_object_get(config, VLLM_RUST_PROFILER_KEY);
    const struct worker_answer *route = &a->items[QUESTION_PROFILE_ROUTE];

    if (json_is_null(profiler))
        return VLLM_PROFILER_OFF;
    if (a->has_openapi)
        return a->endpoints & ENDPOINT_START_PROFILE ? VLLM_PROFILER_ON : VLLM_PROFILER_OFF;
    if (json_is_string(profiler))
        return VLLM_PROFILER_ON;
    if (!route->asked || route->err != 0)
        return VLLM_PROFILER_UNKNOWN;
    return route->status == 405   ? VLLM_PROFILER_ON
           : route->status == 404 ? VLLM_PROFILER_OFF
                                  : VLLM_PROFILER_UNKNOWN;
}

static void vllm_classify(struct worker *w, const struct answers *a)
{
    enum vllm_profiler_state state = vllm_profiler_state(a);

    if (state == VLLM_PROFILER_OFF) {
        worker_refuse(w, vllm_profiler_remedy(w), "has no " START_PATH ": it was started without a profiler");
        return;
    }
    w->profilable = true;
    if (state == VLLM_PROFILER_UNKNOWN && a->items[QUESTION_PROFILE_ROUTE].asked)
        worker_add_note(w,
                        "whether its profiler is on shows only at a start, because it has no openapi.json");
}

static void vllm_take(struct worker *w, const struct answers *a)
{
    const json_t *config = json_object_get(answered(a, QUESTION_SERVER_INFO), "vllm_config");
    const json_t *sleeping = json_object_get(answered(a, QUESTION_SLEEPING), "is_sleeping");
    const char *version = json_get_str(answered(a, QUESTION_VERSION), "version");

    if (version)
        replace_str(&w->version, version);
    take_model(w, a, json_get_str(json_object_get(config, "model_config"), "model"));
    if (json_object_get(config, "parallel_config") || json_object_get(config, "profiler_config"))
        vllm_take_config(w, config);
    else if (json_is_object(config))
        vllm_take_rust_config(w, config);
    if (json_is_boolean(sleeping))
        w->sleeping = json_is_true(sleeping);
    vllm_classify(w, a);
}

/* Both /is_sleeping and /server_info are there in development mode only. */
static unsigned vllm_more_questions(const struct worker *w, const struct answers *a)
{
    unsigned wanted = answered(a, QUESTION_SERVER_INFO) ? QUESTION_BIT(QUESTION_SLEEPING) : 0;

    if (vllm_profiler_state(a) == VLLM_PROFILER_UNKNOWN)
        wanted |= QUESTION_BIT(QUESTION_PROFILE_ROUTE);
    return wanted;
}

/* The remedy for a version with --profiler-config, or the one by its environment for a version before that. */
static const char *vllm_setting_remedy(const struct worker *w, const char *by_option, const char *by_variable)
{
    return version_has(w->version, &vllm_has_option) == VERSION_NO ? by_variable : by_option;
}

static void vllm_review_stack(const struct recording *rec, const struct worker *w, struct review *review)
{
    int setup = w->setup.with_stack;
    const char *off =
        vllm_setting_remedy(w, "Add \"torch_profiler_with_stack\":false to its --profiler-config.",
                            "Set VLLM_TORCH_PROFILER_WITH_STACK=0 in its environment and restart it; older "
                            "versions, which do not "
                            "have this variable, always record stacks.");

    if (rec->with_stack && setup == 0)
        review_add(review, true, "--with-stack",
                   vllm_setting_remedy(
                       w, "Add \"torch_profiler_with_stack\":true to its --profiler-config and restart it.",
                       "Set VLLM_TORCH_PROFILER_WITH_STACK=1 in its environment and restart it."),
                   "it was started without Python stacks, and vLLM cannot turn them on later");
    else if (rec->with_stack && setup < 0)
        review_add(review, false, "--with-stack", NULL,
                   "vLLM decides on stacks at its launch, and how this one was launched is not known");
    else if (!rec->with_stack && setup > 0)
        review_add(review, false, NULL, off,
                   "profiles with Python stacks (torch_profiler_with_stack is vLLM's default): traces grow "
                   "tenfold and stop takes minutes");
    else if (!rec->with_stack && setup < 0)
        review_add(
            review, false, NULL, off,
            "may profile with Python stacks (vLLM's default; how it was launched is not known): traces "
            "grow tenfold and stop takes minutes");
}

static void vllm_review_shapes(const struct recording *rec, const struct worker *w, struct review *review)
{
    const char *remedy = vllm_setting_remedy(
        w, "Add \"torch_profiler_record_shapes\":true to its --profiler-config and restart it.",
        "Set VLLM_TORCH_PROFILER_RECORD_SHAPES=1 in its environment and restart it.");

    if (rec->record_shapes && w->setup.record_shapes == 0)
        review_add(review, true, "--record-shapes", remedy,
                   "it was started without shapes, and vLLM cannot turn them on later");
    else if (rec->record_shapes && w->setup.record_shapes < 0)
        review_add(review, false, "--record-shapes", remedy,
                   "vLLM decides on shapes at its launch (its default is off), and how this one was launched "
                   "is not known");
}

/* Of "CPU" and any device's name, the latter as ACTIVITY_CUDA. */
static unsigned vllm_set_activities(const char *names)
{
    unsigned bits = 0;

    for (const char *p = names; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
        bool is_cpu = strncasecmp(p, "cpu", 3) == 0 && strcspn(p, ",") == 3;
        bits |= is_cpu ? ACTIVITY_CPU : ACTIVITY_CUDA;
    }
    return bits;
}

/* Where CPU and CUDA are asked for, one of them alone, or neither. */
static void vllm_review_activities_set(const struct recording *rec, const struct worker *w,
                                       struct review *review)
{
    static const char remedy[] = "Set \"" VLLM_ACTIVITIES_KEY "\" in its --profiler-config and restart it.";
    const unsigned both = ACTIVITY_CPU | ACTIVITY_CUDA;
    unsigned asked = rec->activities & both,
             set = w->setup.activities ? vllm_set_activities(w->setup.activities) : both;
    bool can_be_set = version_has(w->version, &vllm_has_rounds) != VERSION_NO;

    if (w->setup.activities && asked != 0 && asked != set)
        review_add(review, false, "--activities", remedy,
                   "vLLM decides on activities at its launch, and this one records %s (" VLLM_ACTIVITIES_KEY
                   ")",
                   w->setup.activities);
    else if (w->setup.activities && !(set & ACTIVITY_CPU))
        review_add(review, false, NULL, remedy,
                   "records no CPU activities (" VLLM_ACTIVITIES_KEY
                   " is %s): its traces lack operators, steps and "
                   "Python stacks",
                   w->setup.activities);
    else if (!w->setup.activities && asked != 0 && asked != both && !can_be_set)
        review_add(review, false, "--activities", NULL, "vLLM always records CPU and CUDA together");
    else if (!w->setup.activities && asked != 0 && asked != both && w->setup.kind)
        review_add(review, false, "--activities", remedy,
                   "vLLM decides on activities at its launch, and this one records CPU and CUDA together");
    else if (!w->setup.activities && asked != 0 && asked != both)
        review_add(
            review, false, "--activities", remedy,
            "vLLM decides on activities at its launch (its default is CPU and CUDA), and how this one was "
            "launched is not known");
}

static void vllm_review_activities(const struct recording *rec, const struct worker *w, struct review *review)
{
    bool cuda_profiler = rec->activities & ACTIVITY_CUDA_PROFILER,
         torch = !w->setup.kind || streq(w->setup.kind, "torch");

    if (cuda_profiler && !streq(w->setup.kind, "cuda"))
        review_add(review, true, "--activities",
                   vllm_setting_remedy(w, "Start vLLM with --profiler-config '{\"profiler\":\"cuda\"}'.",
                                       "Update vLLM to 0.13 or later, and start it with --profiler-config "
                                       "'{\"profiler\":\"cuda\"}'."),
                   "vLLM controls the CUDA profiler only where it was launched for it");
    else if (rec->activities & ACTIVITY_MEM)
        review_add(
            review, true, "--activities",
            vllm_setting_remedy(
                w, "Add \"torch_profiler_with_memory\":true to its --profiler-config and leave mem out.",
                "Set VLLM_TORCH_PROFILER_WITH_PROFILE_MEMORY=1 in its environment, restart it, and leave "
                "mem out."),
            "vLLM takes no memory snapshots");
    else if (!cuda_profiler && torch)
        vllm_review_activities_set(rec, w, review);
}

/* The schedule of torch's profiler, which counts its steps from the start on. */
static void vllm_review_schedule(const struct recording *rec, const struct worker *w, struct review *review)
{
    static const char remedy[] = "Leave wait_iterations and warmup_iterations out of its --profiler-config.";
    const struct profiler_setup *s = &w->setup;
    int64_t skipped = MAX(s->wait_iterations, INT64_C(0)) + MAX(s->warmup_iterations, INT64_C(0));
    enum version_answer rounds = version_has(w->version, &vllm_has_rounds);

    if (skipped == 0)
        return;
    if (rounds == VERSION_NO)
        review_add(review, false, NULL, remedy,
                   "records only one session in the life of its process (wait_iterations or "
                   "warmup_iterations is set)");
    else if (rounds == VERSION_UNCERTAIN)
        review_add(
            review, false, NULL, remedy,
            "may record only one session in the life of its process (wait_iterations or warmup_iterations is "
            "set; vLLM before 0.31 may have one profiler for all)");
    if (s->active_iterations > 0 && (rec->steps == 0 || rec->steps > s->active_iterations))
        review_add(
            review, false, NULL, remedy,
            "records %lld iterations (active_iterations) after %lld that it skips, and nothing after that",
            (long long)s->active_iterations, (long long)skipped);
}

static void vllm_review_window(const struct recording *rec, const struct worker *w, struct review *review)
{
    const struct profiler_setup *s = &w->setup;

    if (rec->start_step > 0)
        review_add(review, true, "--start-step",
                   "Use --start-at, or --when-running, or delay_iterations in its --profiler-config.",
                   "vLLM starts at once, not at a step");
    if (rec->by_stage)
        review_add(review, true, "--by-stage", "Leave it out: prefill and decode are seen in one trace.",
                   "vLLM does not separate prefill and decode");
    if (rec->steps > 0)
        review_add(review, false, "--steps", NULL,
                   "approximate: vLLM cannot count, so profd watches " VLLM_STEPS_METRIC " and stops it");
    if (s->max_iterations > 0 && (rec->steps == 0 || rec->steps > s->max_iterations))
        review_add(review, false, NULL, "Leave max_iterations out of its --profiler-config.",
                   "stops by itself after %lld iterations (max_iterations)", (long long)s->max_iterations);
    if (s->delay_iterations > 0)
        review_add(
            review, false, NULL, "Send requests, or leave delay_iterations out of its --profiler-config.",
            "records only from %lld iterations after the start on (delay_iterations); idle, it never does",
            (long long)s->delay_iterations);
}

/* vllm/profiler/wrapper.py, class ProtonProfilerWrapper: one file for each rank and recording. */
static void vllm_review_proton(const struct recording *rec, struct review *review)
{
    static const char remedy[] = "Leave it out, or start vLLM with \"profiler\":\"torch\".";

    review_add(review, false, NULL, "Start vLLM with \"profiler\":\"torch\" for traces that profd analyzes.",
               "its profiler is \"proton\": profd collects its files (proton_*.hatchet, .hatchet_msgpack or "
               ".chrome_trace) and does not analyze them");
    if (rec->record_shapes)
        review_add(review, true, "--record-shapes", remedy, "Proton records no shapes");
    if (rec->with_stack)
        review_add(review, false, "--with-stack",
                   "Set \"proton_context\":\"python\" in its --profiler-config.",
                   "Proton decides on Python stacks at its launch (proton_context)");
}

static void vllm_review(const struct recording *rec, const struct worker *w, struct review *review)
{
    bool torch = !w->setup.kind || streq(w->setup.kind, "torch");

    if (w->sleeping > 0)
        review_add(review, false, NULL, "Wake it: POST /wake_up.",
                   "sleeps (/is_sleeping): nothing will be recorded");
    if (streq(w->setup.kind, "cuda"))
        review_add(review, false, NULL, "Start it under nsys profile --capture-range=cudaProfilerApi.",
                   "its profiler is \"cuda\": it writes no file of its own");
    if (streq(w->setup.kind, "proton"))
        vllm_review_proton(rec, review);
    if (torch) {
        vllm_review_stack(rec, w, review);
        vllm_review_shapes(rec, w, review);
        vllm_review_schedule(rec, w, review);
    }
    vllm_review_activities(rec, w, review);
    vllm_review_window(rec, w, review);
}

static const char *vllm_start_remedy(const struct worker *w, int status)
{
    switch (status) {
    case 404:
        return vllm_profiler_remedy(w);
    case 401:
    case 403:
        return TOKEN_REMEDY;
    case 409:
        return "Somebody else records it: wait until that is stopped. profd does not stop what it did not "
               "start.";
    default:
        return "See the log of the vLLM server for the cause.";
    }
}

const struct engine_ops engine_vllm = {
    .id = ENGINE_VLLM,
    .take = vllm_take,
    .more_questions = vllm_more_questions,
    .start_path = START_PATH,
    .stop_path = "/stop_profile",
    .read_launch = vllm_read_launch,
    VLLM_PROFILER,
    .review = vllm_review,
    .start_remedy = vllm_start_remedy,
};
