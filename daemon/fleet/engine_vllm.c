/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vLLM. Its profiler is set at launch and its start takes no options: the body is not even read. A start
 * while it is active is ignored, also after it stopped by itself (max_iterations), hence the stop before each
 * start.
 */
#include "base/alloc.h"
#include "daemon/fleet/engine.h"

#define START_PATH "/start_profile"
#define PROFILER_CONFIG                                                                                      \
    "--profiler-config "                                                                                     \
    "'{\"profiler\":\"torch\",\"torch_profiler_dir\":\"/var/tmp/traces\",\"ignore_frontend\":true}'"

/* The option that turns the profiler on came with 0.13, before it was a variable. */
#define CONFIG_SINCE_MAJOR 0
#define CONFIG_SINCE_MINOR 13

static bool vllm_is_before(const char *version, int major, int minor)
{
    int have_major, have_minor;
    if (!version || sscanf(version, "%d.%d", &have_major, &have_minor) != 2)
        return false;
    return have_major != major ? have_major < major : have_minor < minor;
}

/* How this worker is started with a profiler. */
static const char *vllm_profiler_remedy(const struct worker *w)
{
    if (vllm_is_before(w->version, CONFIG_SINCE_MAJOR, CONFIG_SINCE_MINOR))
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
    const char *dir = json_get_str(config, "torch_profiler_dir");

    if (!json_is_object(config))
        return;
    replace_str(&s->kind, json_get_str(config, "profiler"));
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

static void vllm_take_config(struct worker *w, const json_t *config)
{
    const json_t *parallel = json_object_get(config, "parallel_config");
    const char *kv_role = json_get_str(json_object_get(config, "kv_transfer_config"), "kv_role");

    w->sizes.tp = json_get_size(parallel, "tensor_parallel_size");
    w->sizes.pp = json_get_size(parallel, "pipeline_parallel_size");
    w->sizes.dp = json_get_size(parallel, "data_parallel_size");
    w->sizes.nodes = json_get_size(parallel, "nnodes");
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
    const json_t *profiler = json_object_get(json_object_get(config, "profiler_config"), "profiler");
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
    if (json_is_object(config))
        vllm_take_config(w, config);
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

static void vllm_review_stack(const struct recording *rec, const struct worker *w, struct review *review)
{
    int setup = w->setup.with_stack;

    if (rec->with_stack && setup == 0)
        review_add(review, true, "--with-stack",
                   "Add \"torch_profiler_with_stack\":true to its --profiler-config and restart it.",
                   "it was started without Python stacks, and vLLM cannot turn them on later");
    else if (rec->with_stack && setup < 0)
        review_add(review, false, "--with-stack", NULL,
                   "vLLM decides on stacks at its launch, and how this one was launched is not known");
    else if (!rec->with_stack && setup > 0)
        review_add(review, false, NULL, "Add \"torch_profiler_with_stack\":false to its --profiler-config.",
                   "profiles with Python stacks (torch_profiler_with_stack is vLLM's default): traces grow "
                   "tenfold and stop takes minutes");
    else if (!rec->with_stack && setup < 0)
        review_add(
            review, false, NULL, "Add \"torch_profiler_with_stack\":false to its --profiler-config.",
            "may profile with Python stacks (vLLM's default; how it was launched is not known): traces "
            "grow tenfold and stop takes minutes");
}

static void vllm_review_shapes(const struct recording *rec, const struct worker *w, struct review *review)
{
    static const char remedy[] =
        "Add \"torch_profiler_record_shapes\":true to its --profiler-config and restart it.";

    if (rec->record_shapes && w->setup.record_shapes == 0)
        review_add(review, true, "--record-shapes", remedy,
                   "it was started without shapes, and vLLM cannot turn them on later");
    else if (rec->record_shapes && w->setup.record_shapes < 0)
        review_add(review, false, "--record-shapes", remedy,
                   "vLLM decides on shapes at its launch (its default is off), and how this one was launched "
                   "is not known");
}

static void vllm_review_activities(const struct recording *rec, const struct worker *w, struct review *review)
{
    bool cuda_profiler = rec->activities & ACTIVITY_CUDA_PROFILER;

    if (cuda_profiler && !streq(w->setup.kind, "cuda"))
        review_add(review, true, "--activities",
                   "Start vLLM with --profiler-config '{\"profiler\":\"cuda\"}'.",
                   "vLLM controls the CUDA profiler only where it was launched for it");
    else if (rec->activities & ACTIVITY_MEM)
        review_add(review, true, "--activities",
                   "Add \"torch_profiler_with_memory\":true to its --profiler-config and leave mem out.",
                   "vLLM takes no memory snapshots");
    else if (rec->activities != 0 && !cuda_profiler && rec->activities != (ACTIVITY_CPU | ACTIVITY_CUDA))
        review_add(review, false, "--activities", NULL, "vLLM always records CPU and CUDA together");
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
    if (s->wait_iterations > 0 || s->warmup_iterations > 0)
        review_add(review, false, NULL,
                   "Leave wait_iterations and warmup_iterations out of its --profiler-config.",
                   "records only one session in the life of its process (wait_iterations or "
                   "warmup_iterations is set)");
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
    if (torch) {
        vllm_review_stack(rec, w, review);
        vllm_review_shapes(rec, w, review);
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
