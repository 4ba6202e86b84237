/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RTP-LLM. A start has the number of steps to record, and a recording cannot be stopped earlier: it is over
 * when its traces exist. The start's answer always has status 200, and its body reports whether the start
 * failed. A start during another recording is silently ignored. A request can also ask to be recorded.
 *
 * Pure: see engine.h.
 */
#include "base/alloc.h"
#include "base/units.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/profiler_config.h"

#include <inttypes.h>

#define START_PATH    "/start_profile"
#define REQUEST_PATH  "/"
#define STEPS_DEFAULT 3 /* RTP-LLM's own */
#define STEPS_MAX     1000

static int64_t rtp_llm_steps(const struct recording *rec)
{
    return rec->steps > 0 ? rec->steps : STEPS_DEFAULT;
}

static void rtp_llm_take(struct worker *w, const struct answers *a)
{
    const json_t *status = answered(a, QUESTION_WORKER_STATUS);

    take_model(w, a, NULL);
    /* The other data-parallel ranks have frontends of their own, which are workers of their own. */
    w->sizes.tp = json_get_size(status, "tp_size");
    w->profilable = true;
    if (a->has_openapi && !(a->endpoints & ENDPOINT_START_PROFILE))
        worker_refuse(w, "Update RTP-LLM.", "has no " START_PATH);
    else
        worker_add_note(w, "records a number of steps, after which it ends by itself: it cannot be stopped");
}

static json_t *rtp_llm_request_body(const struct recording *rec, const struct worker *w)
{
    json_t *body = json_object(), *config = json_object();

    json_put_str(body, "prompt", rec->prompt);
    json_put_str(body, "model", rec->model ? rec->model : w->model);
    json_put_bool(config, "gen_timeline", true);
    json_put_int(config, "profile_step", rtp_llm_steps(rec));
    json_put_str(config, "profile_trace_name", rec->profile_id);
    /* As many tokens as there are steps to record: it answers when they are done. */
    json_put_int(config, "max_new_tokens", rtp_llm_steps(rec));
    json_put_int(config, "min_new_tokens", rtp_llm_steps(rec));
    json_object_set_new(body, "generate_config", config);
    return body;
}

static json_t *rtp_llm_start_body(const struct recording *rec, const struct worker *w)
{
    if (rec->prompt)
        return rtp_llm_request_body(rec, w);
    json_t *body = json_object();
    json_put_str(body, "trace_name", rec->profile_id);
    json_put_int(body, "start_step", rec->start_step);
    json_put_int(body, "num_steps", rtp_llm_steps(rec));
    json_put_bool(body, "enable_all_rank", true);
    return body;
}

static void rtp_llm_review_options(const struct recording *rec, struct review *review)
{
    const struct {
        bool asked;
        const char *option, *text;
    } unknown[] = {
        {rec->with_stack, "--with-stack", "RTP-LLM records no Python stacks"},
        {rec->record_shapes, "--record-shapes", "RTP-LLM decides on shapes itself"},
        {rec->by_stage, "--by-stage", "RTP-LLM does not separate prefill and decode"},
        {rec->activities & (ACTIVITY_MEM | ACTIVITY_CUDA_PROFILER), "--activities",
         "RTP-LLM records CPU and CUDA, and nothing else"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
        if (unknown[i].asked)
            review_add(review, true, unknown[i].option, "Leave it out for this worker.", "%s",
                       unknown[i].text);
}

static void rtp_llm_review(const struct recording *rec, const struct worker *w, struct review *review)
{
    rtp_llm_review_options(rec, review);
    if (rec->steps > STEPS_MAX)
        review_add(review, true, "--steps", "Record fewer steps: traces of this length take gigabytes.",
                   "RTP-LLM records at most %d steps", STEPS_MAX);
    if (rec->steps == 0)
        review_add(
            review, false, "--duration", "Set the number of steps with --steps N.",
            "RTP-LLM records a number of steps and cannot be stopped earlier: profd waits until %d steps "
            "are recorded",
            STEPS_DEFAULT);
}

/* The text of "error", NULL where the body has none. The caller frees it. */
static char *rtp_llm_refusal(const char *body)
{
    char error[200];
    _cleanup_json_ j = json_parse(body, strlen(body), error);
    return xstrdup(json_get_str(j, "error"));
}

static const char *rtp_llm_start_remedy(const struct worker *w, int status)
{
    switch (status) {
    case 503:
        return "It is draining: it takes no more work and ends. Record the worker that takes its place.";
    case 404:
        return "This RTP-LLM has no profile endpoint: update it.";
    default:
        return "See the log of the RTP-LLM server for the cause; its frontend waits three seconds for its "
               "backend.";
    }
}

/* A switch of its parser, which stands for itself or has a value; -1: it is not there. */
static int rtp_llm_switch(const struct worker_launch *launch, const char *flag, const char *variable)
{
    const char *value = flag_value(&launch->args, flag), *set = launch_variable(launch, variable);
    int on;

    if (flag_is_there(&launch->args, flag))
        return value && parse_bool(value, &on) == 0 ? on : 1;
    return set && parse_bool(set, &on) == 0 ? on : -1;
}

/* An option beats its variable. */
static void rtp_llm_read_launch(const char *version, const struct worker_launch *launch,
                                struct profiler_launch *ret)
{
    static const char dir_flag[] = "--torch-cuda-profiler-dir", dir_variable[] = "TORCH_CUDA_PROFILER_DIR";
    const char *flag = flag_value(&launch->args, dir_flag), *variable = launch_variable(launch, dir_variable);
    int each_request = rtp_llm_switch(launch, "--gen-timeline-sync", "GEN_TIMELINE_SYNC");

    if (!flag && !variable && each_request < 0)
        return;
    ret->setup.kind = xstrdup("torch");
    ret->setup.each_request = each_request;
    ret->dir = xstrdup(flag ? flag : variable);
    ret->source = flag ? dir_flag : dir_variable;
}

const struct engine_ops engine_rtp_llm = {
    .id = ENGINE_RTP_LLM,
    .read_launch = rtp_llm_read_launch,
    .default_dir = ".",
    .default_dir_source = "RTP-LLM's default, where it was started",
    .take = rtp_llm_take,
    .names_traces = true,
    .start_path = START_PATH,
    .request_path = REQUEST_PATH,
    .stops_after_steps = true,
    .nothing_remedy = "An idle server makes no steps: send requests meanwhile, or --steps less. A start "
                      "while another recording "
                      "goes on is ignored without a word; the trace of that one may come as unclaimed.",
    .start_body = rtp_llm_start_body,
    .review = rtp_llm_review,
    .refusal = rtp_llm_refusal,
    .start_remedy = rtp_llm_start_remedy,
};
