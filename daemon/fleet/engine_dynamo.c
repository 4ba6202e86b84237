/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Dynamo worker, at its system server (DYN_SYSTEM_PORT). Dynamo forwards starts and stops to the engine
 * that runs in it: the body of a start and the limitations are those of the engine. Specific to Dynamo are
 * the paths, of which there are two generations, and the answers. The worker's metrics identify the engine.
 */
#include "base/alloc.h"
#include "daemon/fleet/engine.h"

#define START_PATH "/engine/control/start_profile"

static const enum engine backends[] = {ENGINE_SGLANG, ENGINE_VLLM};

static bool dynamo_identify(struct worker *w, const struct answers *a)
{
    const json_t *system = answered(a, QUESTION_SYSTEM);

    if (!streq(json_get_str(system, "object"), "list") || !json_is_array(json_object_get(system, "data")))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(backends) && w->backend == ENGINE_UNKNOWN; i++)
        if (a->metrics & 1u << backends[i])
            w->backend = backends[i];
    w->profilable = true;
    if (a->items[QUESTION_METRICS].asked && w->backend == ENGINE_UNKNOWN)
        worker_add_note(w, "its /metrics do not identify its engine: recordings use the engine's defaults");
    return true;
}

static json_t *dynamo_start_body(const struct recording *rec, const struct worker *w)
{
    const struct engine_ops *backend = engine_ops(w->backend);
    json_t *body = backend ? backend->start_body(rec, w) : NULL;
    return body ? body : json_object();
}

static void review(const struct recording *rec, const struct worker *w, struct review *review)
{
    const struct engine_ops *backend = engine_ops(w->backend);

    if (backend)
        backend->review(rec, w, review);
    else if (rec->with_stack || rec->record_shapes || rec->by_stage || rec->start_step > 0 || rec->activities)
        review_add(review, true, NULL, "Omit the recording options.",
                   "runs an engine that profd does not know: recording options are not supported");
}

static bool stop_failure_is_benign(const struct recording *rec, int status)
{
    return false;
}

/* An engine that stopped by itself makes the handler fail. */
static bool sglang_stop_failure_is_benign(const struct recording *rec, int status)
{
    return rec->steps > 0 && status == 500;
}

/* {"error": ..., "message": ...}; NULL for anything else. The caller frees it. */
static char *body_message(const char *body)
{
    char error[200];
    _cleanup_json_ j = json_parse(body, strlen(body), error);
    return xstrdup(json_get_str(j, "message"));
}

/* What a handler caught, it may give as its answer. */
static char *dynamo_start_refusal(const char *body)
{
    char error[200];
    _cleanup_json_ j = json_parse(body, strlen(body), error);
    const char *message = json_get_str(j, "message");

    return streq(json_get_str(j, "status"), "error") ? xstrdup(message ? message : body) : NULL;
}

static void dynamo_explain_start(const struct worker *w, int status, const char *body, struct problem *p)
{
    _cleanup_(freep) char *message = body_message(body);

    explain_answer(p, START_PATH, status, message ? message : body);
    if (status == 404)
        problem_remedy(p, "The engine in this worker registered no profile routes: start vLLM with "
                          "--profiler-config, or update Dynamo.");
    else if (status == 401 || status == 403)
        problem_remedy(p, "Set token_file for [worker %s] or its fleet in profd.conf.", w->url);
    else
        problem_remedy(p, "See the log of the Dynamo worker for what its engine refused.");
}

/* What all of them share. */
#define DYNAMO                                                                                               \
    .id = ENGINE_DYNAMO, .identify = dynamo_identify, .more_questions = 1u << QUESTION_METRICS,              \
    .start_path = START_PATH, .stop_path = "/engine/control/stop_profile",                                   \
    .older_start_path = "/engine/start_profile", .older_stop_path = "/engine/stop_profile",                  \
    .start_body = dynamo_start_body, .review = review, .start_refusal = dynamo_start_refusal,                \
    .explain_start = dynamo_explain_start

const struct engine_ops engine_dynamo = {
    DYNAMO,
    .stop_failure_is_benign = stop_failure_is_benign,
};

const struct engine_ops engine_dynamo_sglang = {
    DYNAMO,
    .backend = ENGINE_SGLANG,
    .takes_output_dir = true,
    .running_metric = "sglang:num_running_reqs",
    .waiting_metric = "sglang:num_queue_reqs",
    .stops_after_steps = true,
    .steps_since_launch = sglang_steps_since_launch,
    .stop_failure_is_benign = sglang_stop_failure_is_benign,
};

const struct engine_ops engine_dynamo_vllm = {
    DYNAMO,
    .backend = ENGINE_VLLM,
    .stop_before_start = true,
    .running_metric = "vllm:num_requests_running",
    .waiting_metric = "vllm:num_requests_waiting",
    .steps_metric = "vllm:iteration_tokens_total_count",
    .stop_failure_is_benign = stop_failure_is_benign,
};
