/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Dynamo worker, at its system server (DYN_SYSTEM_PORT). Dynamo forwards starts and stops to the engine
 * that runs in it: the body of a start and the limitations are those of the engine. Specific to Dynamo are
 * the paths, of which there are two generations, and the answers. The worker's metrics identify the engine.
 */
#include "base/alloc.h"
#include "daemon/fleet/engine.h"

static const struct {
    enum engine_metrics metrics;
    enum engine engine;
} dynamo_backends[] = {
    {METRICS_SGLANG, ENGINE_SGLANG}, {METRICS_VLLM, ENGINE_VLLM}, {METRICS_TRTLLM, ENGINE_TENSORRT_LLM}};

static void dynamo_take(struct worker *w, const struct answers *a)
{
    for (size_t i = 0; i < ARRAY_SIZE(dynamo_backends) && w->backend == ENGINE_UNKNOWN; i++)
        if (a->metrics & dynamo_backends[i].metrics)
            w->backend = dynamo_backends[i].engine;
    if (w->role == ROLE_UNKNOWN)
        w->role = a->metrics_role;
    w->profilable = true;
    if (a->items[QUESTION_METRICS].asked && w->backend == ENGINE_UNKNOWN)
        worker_add_note(w, "its /metrics do not identify its engine: recordings use the engine's defaults");
}

static unsigned dynamo_more_questions(const struct worker *w, const struct answers *a)
{
    return QUESTION_BIT(QUESTION_METRICS);
}

static json_t *dynamo_start_body(const struct recording *rec, const struct worker *w)
{
    const struct engine_ops *backend = engine_ops(w->backend);
    return backend && backend->start_body ? backend->start_body(rec, w) : json_object();
}

static void dynamo_review(const struct recording *rec, const struct worker *w, struct review *review)
{
    const struct engine_ops *backend = engine_ops(w->backend);

    if (backend)
        backend->review(rec, w, review);
    else if (rec->with_stack || rec->record_shapes || rec->by_stage || rec->start_step > 0 || rec->activities)
        review_add(review, true, NULL, "Omit the recording options.",
                   "runs an engine that profd does not know: recording options are not supported");
}

/* What a handler caught, it may give as its answer to a start and to a stop: that of vLLM does
 * (components/src/dynamo/vllm/handlers.py, start_profile() and stop_profile()). */
static char *dynamo_refusal(const char *body)
{
    char error[200];
    _cleanup_json_ j = json_parse(body, strlen(body), error);
    const char *message = json_get_str(j, "message");

    return streq(json_get_str(j, "status"), "error") ? xstrdup(message ? message : body) : NULL;
}

static const char *dynamo_start_remedy(const struct worker *w, int status)
{
    switch (status) {
    case 404:
        return w->backend == ENGINE_TENSORRT_LLM
                   ? "Dynamo has no profile routes for TensorRT-LLM: record from its launch on, with "
                     "TLLM_PROFILE_START_STOP=FIRST-LAST and TLLM_TORCH_PROFILE_TRACE=FILE in its "
                     "environment."
                   : "The engine in this worker registered no profile routes. Update Dynamo: its workers of "
                     "SGLang have them "
                     "since December 2025, of vLLM since April 2026, of TensorRT-LLM not at all.";
    case 401:
    case 403:
        return TOKEN_REMEDY;
    case 200:
        return w->backend == ENGINE_VLLM
                   ? "If profiling is not enabled: start the worker with --profiler-config. Else see "
                     "the log of the Dynamo worker for the cause."
                   : "See the log of the Dynamo worker for the cause.";
    default:
        return "See the log of the Dynamo worker for what its engine refused.";
    }
}

#define DYNAMO                                                                                               \
    .id = ENGINE_DYNAMO, .take = dynamo_take, .more_questions = dynamo_more_questions,                       \
    .start_path = "/engine/control/start_profile", .stop_path = "/engine/control/stop_profile",              \
    .older_start_path = "/engine/start_profile", .older_stop_path = "/engine/stop_profile",                  \
    .takes_no_requests = true, .start_body = dynamo_start_body, .review = dynamo_review,                     \
    .refusal = dynamo_refusal, .start_remedy = dynamo_start_remedy,                                          \
    .is_recorded_elsewhere = sglang_says_recorded

/* The handler of SGLang calls ProfileReq(**body), and before 402e4af78 (July 2026) start_profile(**body), which has no
 * argument profile_id (components/src/dynamo/sglang/request_handlers/handler_base.py). */
static const char *const sglang_newer_keys[] = {"profile_id", NULL};

const struct engine_ops engine_dynamo = {DYNAMO};
const struct engine_ops engine_dynamo_sglang = {DYNAMO, .backend = ENGINE_SGLANG, SGLANG_PROFILER,
                                                .newer_keys = sglang_newer_keys};
const struct engine_ops engine_dynamo_vllm = {DYNAMO, .backend = ENGINE_VLLM, VLLM_PROFILER};
