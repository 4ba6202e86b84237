/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorRT-LLM's trtllm-serve. A start schedules a window of iterations, which the engine counts from the start and
 * ends by itself; a second start is refused (409) while one runs or is scheduled. Only the executor of the PyTorch
 * backend has a profiler; others accept a start and record nothing. It always records shapes, and never stacks.
 *
 * After NVIDIA/TensorRT-LLM: pull request 13872, tensorrt_llm/_torch/pyexecutor/profiling.py,
 * tests/unittest/llmapi/apps/_test_trtllm_serve_profile.py @34e5d02d (the bodies of answers),
 * tensorrt_llm/serve/openai_protocol.py @0076e939, tensorrt_llm/metrics/collector.py @050f80de. The model of a start's
 * body was not seen: it is sent the four members that the pull request names, and no others.
 */
#include "base/alloc.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/profiler_config.h"

#define START_PATH "/start_profile"
#define OLDER_REMEDY                                                                                         \
    "Update TensorRT-LLM, or start it with TLLM_PROFILE_START_STOP=A-B and "                                 \
    "TLLM_TORCH_PROFILE_TRACE=FILE: it records iterations A to B and writes FILE."
#define BACKEND_REMEDY "Start it with --backend pytorch."

static void tensorrt_llm_take(struct worker *w, const struct answers *a)
{
    replace_str(&w->version, json_get_str(answered(a, QUESTION_VERSION), "version"));
    take_model(w, a, NULL);
    /* Its metrics have the sizes where it was started with return_perf_metrics; /server_info has none. */
    w->sizes.tp = MAX(w->sizes.tp, a->metric_sizes.tp);
    w->sizes.pp = MAX(w->sizes.pp, a->metric_sizes.pp);
    w->profilable = true;
    if (a->has_openapi && !(a->endpoints & ENDPOINT_START_PROFILE))
        worker_refuse(w, OLDER_REMEDY, "has no " START_PATH);
}

static unsigned tensorrt_llm_more_questions(const struct worker *w, const struct answers *a)
{
    return QUESTION_BIT(QUESTION_PROMETHEUS);
}

static json_t *tensorrt_llm_start_body(const struct recording *rec, const struct worker *w)
{
    static const struct {
        enum activity activity;
        const char *name;
    } names[] = {{ACTIVITY_CPU, "CPU"}, {ACTIVITY_CUDA, "GPU"}, {ACTIVITY_CUDA_PROFILER, "CUDA_PROFILER"}};
    json_t *body = json_object(), *activities = json_array();

    json_put_str(body, "output_dir", rec->output_dir);
    if (rec->steps > 0)
        json_put_int(body, "num_steps", rec->steps);
    if (rec->start_step > 0)
        json_put_int(body, "start_step", rec->start_step);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (rec->activities & names[i].activity)
            json_array_append_new(activities, json_string(names[i].name));
    if (json_array_size(activities) > 0)
        json_object_set(body, "activities", activities);
    json_decref(activities);
    return body;
}

static void tensorrt_llm_review(const struct recording *rec, const struct worker *w, struct review *review)
{
    const struct {
        bool asked;
        const char *option, *text;
    } unknown[] = {
        {rec->with_stack, "--with-stack", "TensorRT-LLM records no Python stacks"},
        {rec->by_stage, "--by-stage", "TensorRT-LLM does not separate prefill and decode"},
        {rec->activities & ACTIVITY_MEM, "--activities", "TensorRT-LLM takes no memory snapshots"},
    };

    if (streq(w->setup.kind, "none"))
        review_add(review, true, NULL, BACKEND_REMEDY,
                   "only the PyTorch backend of TensorRT-LLM has a profiler: this one answers a start and "
                   "records nothing");
    for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
        if (unknown[i].asked)
            review_add(review, true, unknown[i].option, "Leave it out for this worker.", "%s",
                       unknown[i].text);
    if (rec->start_step > 0)
        review_add(review, false, "--start-step", NULL,
                   "counts iterations since the start; an idle server never gets there");
    if (rec->activities == ACTIVITY_CUDA_PROFILER)
        review_add(review, false, "--activities",
                   "Start it under nsys profile --capture-range=cudaProfilerApi.",
                   "the CUDA profiler writes no file of its own");
    /* profile_step() asserts that no window begins during another one. */
    if (w->setup.own_windows == 1)
        review_add(review, false, NULL,
                   "Make sure that these iterations are over, or unset the variable and restart it.",
                   "its environment has TLLM_PROFILE_START_STOP: if such a window begins during this "
                   "recording, the executor of TensorRT-LLM ends");
}

static const char *tensorrt_llm_start_remedy(const struct worker *w, int status)
{
    switch (status) {
    case 404:
        return OLDER_REMEDY;
    case 409:
        return "Somebody else records it, or has a start pending: wait for the end, or end it with POST "
               "%s/stop_profile.";
    case 400:
    case 422:
        return "This version of TensorRT-LLM rejects one of the options: see its log.";
    case 401:
    case 403:
        return TOKEN_REMEDY;
    default:
        return "See the log of the TensorRT-LLM server for the cause. Can it write to the directory?";
    }
}

/* Sizes and backend are options of trtllm-serve (tensorrt_llm/commands/serve.py), which may be in a YAML file too. */
static void tensorrt_llm_read_launch(const char *version, const struct worker_launch *launch,
                                     struct profiler_launch *ret)
{
    static const char dir_variable[] = "TLLM_TORCH_PROFILER_DIR";
    const char *backend = flag_value(&launch->args, "--backend");

    ret->sizes.tp = launch_size(launch, "--tp-size", "--tensor-parallel-size");
    ret->sizes.pp = launch_size(launch, "--pp-size", "--pipeline-parallel-size");
    /* AutoDeploy has the same executor. */
    if (backend && (streq(backend, "tensorrt") || streq(backend, "trt")))
        ret->setup.kind = xstrdup("none");
    if (!launch->env.data)
        return;
    const char *dir = launch_variable(launch, dir_variable);
    if (!ret->setup.kind)
        ret->setup.kind = xstrdup("torch");
    ret->setup.record_shapes = 1;
    ret->setup.with_stack = ret->setup.use_gzip = 0;
    ret->setup.own_windows = launch_variable(launch, "TLLM_PROFILE_START_STOP") != NULL;
    ret->dir = xstrdup(dir);
    ret->source = dir ? dir_variable : NULL;
}

const struct engine_ops engine_tensorrt_llm = {
    .id = ENGINE_TENSORRT_LLM,
    .take = tensorrt_llm_take,
    .more_questions = tensorrt_llm_more_questions,
    .start_path = START_PATH,
    .stop_path = "/stop_profile",
    .takes_output_dir = true,
    .read_launch = tensorrt_llm_read_launch,
    .default_dir = "/tmp",
    .default_dir_source = "TensorRT-LLM's default",
    .metrics_path = TRTLLM_METRICS_PATH,
    .running_metric = "trtllm_num_requests_running",
    .waiting_metric = "trtllm_num_requests_waiting",
    .stops_after_steps = true,
    .start_body = tensorrt_llm_start_body,
    .review = tensorrt_llm_review,
    .no_profiler_remedy = BACKEND_REMEDY,
    .nothing_remedy =
        "Start it with --backend pytorch; see its log for \"start_profile\". Was it idle? It records "
        "iterations.",
    .start_remedy = tensorrt_llm_start_remedy,
    .is_recorded_elsewhere = sglang_says_recorded,
};
