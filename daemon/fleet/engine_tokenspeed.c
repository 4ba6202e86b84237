/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TokenSpeed, at its control server (the gateway's port + 1, or --control-port). The control server passes starts and
 * stops on to the gateway, SMG, which calls the engine by gRPC: what the engine refuses comes back as 206 with the
 * reason. The members of a start are SGLang's; the gateway drops those that it does not know, the id among them.
 *
 * After lightseekorg/tokenspeed @f4d8ec6e: python/tokenspeed/runtime/entrypoints/control_server.py,
 * runtime/engine/request_handler.py (init_profile(), start_profile(), _profile_batch_predicate()); lightseekorg/smg
 * @73da68ca: crates/protocols/src/worker.rs (ProfileOptions, ProfileResult), model_gateway/src/worker/worker.rs,
 * grpc_servicer/smg_grpc_servicer/tokenspeed/servicer.py.
 */
#include "base/alloc.h"
#include "base/units.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/profiler_config.h"
#include <math.h>

#define START_PATH "/start_profile"

static const struct {
    const char *mode;
    enum role role;
} tokenspeed_roles[] = {
    {"null", ROLE_REGULAR}, {"prefill", ROLE_PREFILL}, {"decode", ROLE_DECODE}, {"encode", ROLE_ENCODE}};

/* All numbers of a protobuf Struct are doubles. */
static int tokenspeed_size(const json_t *arguments, const char *key)
{
    double n = json_number_value(json_object_get(arguments, key));
    return n >= 1 && n <= GROUP_SIZE_MAX && n == floor(n) ? (int)n : 0;
}

static void tokenspeed_take(struct worker *w, const struct answers *a)
{
    const json_t *info = answered(a, QUESTION_OLD_SERVER_INFO),
                 *arguments = json_object_get(info, "server_args");
    const char *mode = json_get_str(arguments, "disaggregation_mode"),
               *served = json_get_str(arguments, "served_model_name");

    replace_str(&w->version, json_get_str(info, "tokenspeed_version"));
    w->sizes.tp = tokenspeed_size(arguments, "attn_tp_size");
    w->sizes.dp = tokenspeed_size(arguments, "data_parallel_size");
    w->sizes.nodes = tokenspeed_size(arguments, "nnodes");
    if (w->sizes.nodes > 1)
        worker_join_group(w, json_get_str(arguments, "dist_init_addr"));
    take_model(w, a, served ? served : json_get_str(arguments, "model"));
    for (size_t i = 0; mode && i < ARRAY_SIZE(tokenspeed_roles); i++)
        if (w->role == ROLE_UNKNOWN && streq(mode, tokenspeed_roles[i].mode))
            w->role = tokenspeed_roles[i].role;
    w->profilable = true;
    if (a->has_openapi && !(a->endpoints & ENDPOINT_START_PROFILE))
        worker_refuse(w, "Update TokenSpeed.", "has no " START_PATH);
}

static unsigned tokenspeed_more_questions(const struct worker *w, const struct answers *a)
{
    return QUESTION_BIT(QUESTION_OLD_SERVER_INFO);
}

static void tokenspeed_review(const struct recording *rec, const struct worker *w, struct review *review)
{
    if (rec->by_stage && rec->steps <= 0)
        review_add(
            review, true, "--by-stage", "Add --steps N.",
            "the scheduler of TokenSpeed ends when it has to separate stages without a number of steps");
    /* _profile_batch_predicate() starts the profiler for the first batch of prompts without a look at one that runs. */
    if (rec->by_stage && rec->steps > 0 && w->role != ROLE_PREFILL && w->role != ROLE_DECODE)
        review_add(review, false, "--by-stage", "Leave it out while it serves, or start it while it is idle.",
                   "if it decodes when the recording begins, the first prompt starts a second profiler, and "
                   "torch's error can end the scheduler of TokenSpeed");
    /* A stop before that step fails and does not take the start back. */
    if (rec->start_step > 0 && rec->steps <= 0)
        review_add(review, true, "--start-step", "Add --steps N.",
                   "a start of TokenSpeed that waits for a step cannot be taken back: without a number of "
                   "steps it would record until somebody stops it");
    else if (rec->start_step > 0)
        review_add(
            review, false, "--start-step", NULL,
            "counts forward steps since the server's launch; if the session ends before, TokenSpeed still "
            "records its steps later");
    if (rec->activities & ACTIVITY_CUDA_PROFILER)
        review_add(review, false, "--activities",
                   "Start it under nsys profile --capture-range=cudaProfilerApi.",
                   "the CUDA profiler writes no file of its own");
    if (rec->with_stack && w->setup.with_stack == 0)
        review_add(review, true, "--with-stack",
                   "Unset TOKENSPEED_PROFILE_WITH_STACK in its environment and restart it.",
                   "its environment turns stacks off for every recording");
    if (w->sizes.nodes > 1)
        review_add(review, false, NULL, "Put output_dir of profd.conf on a file system that all nodes share.",
                   "runs on %d nodes: ranks of the other nodes write on their own disks", w->sizes.nodes);
}

/* {"status": "partial_success", "failed": [{"worker", "error"}]}: the reason of the one engine below the gateway. */
static char *tokenspeed_refusal(const char *body)
{
    char error[200];
    _cleanup_json_ j = json_parse(body, strlen(body), error);
    const char *status = json_get_str(j, "status"),
               *reason = json_get_str(json_array_get(json_object_get(j, "failed"), 0), "error"),
               *message = json_get_str(j, "message");

    if (!status || streq(status, "success"))
        return NULL;
    return xstrdup(reason ? reason : message ? message : body);
}

static const char *tokenspeed_start_remedy(const struct worker *w, int status)
{
    switch (status) {
    case 206:
        return "If somebody else records it: wait for the end, or end it with POST %s/stop_profile. See the "
               "log "
               "of the TokenSpeed engine for other causes.";
    case 404:
        return "Its gateway has no engine: is it still loading its model, or did it end? See the log of ts "
               "serve.";
    case 401:
    case 403:
        return TOKEN_REMEDY;
    default:
        return "See the logs of the gateway (smg) and of the TokenSpeed engine for the cause.";
    }
}

static void tokenspeed_read_launch(const char *version, const struct worker_launch *launch,
                                   struct profiler_launch *ret)
{
    static const char dir_variable[] = "TOKENSPEED_PROFILER_DIR";
    const char *dir = launch_variable(launch, dir_variable),
               *stack = launch_variable(launch, "TOKENSPEED_PROFILE_WITH_STACK");
    int on;

    ret->sizes.tp = launch_size(launch, "--tensor-parallel-size", "--attn-tp-size");
    ret->sizes.dp = launch_size(launch, "--data-parallel-size", NULL);
    if (!launch->env.data)
        return;
    ret->setup.kind = xstrdup("torch");
    ret->setup.with_stack = !stack || (parse_bool(stack, &on) == 0 && on);
    ret->setup.use_gzip = 1;
    ret->dir = xstrdup(dir);
    ret->source = dir ? dir_variable : NULL;
}

const struct engine_ops engine_tokenspeed = {
    .id = ENGINE_TOKENSPEED,
    .take = tokenspeed_take,
    .more_questions = tokenspeed_more_questions,
    .start_path = START_PATH,
    .stop_path = "/stop_profile",
    .takes_output_dir = true,
    .read_launch = tokenspeed_read_launch,
    .default_dir = "/tmp",
    .default_dir_source = "TokenSpeed's default",
    .running_metric = "tokenspeed:num_requests_running",
    .waiting_metric = "tokenspeed:num_requests_waiting",
    .stops_after_steps = true,
    .start_body = sglang_start_body,
    .review = tokenspeed_review,
    .ended_status = 206,
    .refusal = tokenspeed_refusal,
    .refused_start_is_none = true,
    .start_remedy = tokenspeed_start_remedy,
    .is_recorded_elsewhere = sglang_says_recorded,
};
