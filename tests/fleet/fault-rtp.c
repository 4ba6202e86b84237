/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RTP-LLM: a start is answered 200 whatever comes of it, a second one is ignored, nothing stops a recording
 * before its steps are done, and traces are plain JSON.
 */
#include "base/alloc.h"
#include "base/json.h"
#include "tests/fleet/fault-fleet.h"

#define STEP_S        0.010
#define STEPS_DEFAULT 3
#define STEPS_MAX     1000

static void worker_status(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    worker_answer_json(w, c,
                       json_pack("{s:i, s:i, s:i, s:i, s:b}", "frontend_available_concurrency", 32,
                                 "frontend_concurrency_limit", 32, "tp_size", (int)w->fleet->n_ranks,
                                 "dp_size", 1, "alive", true));
}

static void models(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    worker_answer_json(w, c,
                       json_pack("{s:s, s:[{s:s, s:s, s:s}]}", "object", "list", "data", "id", "fault-model",
                                 "object", "model", "owned_by", "owner"));
}

static void start(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    char error[200];
    _cleanup_json_ body = q->body_size ? json_parse(q->body, q->body_size, error) : json_object();
    const char *name = json_get_str(body, "trace_name");
    int64_t steps = json_get_int(body, "num_steps", 0);

    if (worker_has(w, FAULT_DRAINING)) {
        worker_answer(w, c, 503, rtp_llm_engine.type, "{\"error\":\"server is draining\"}");
        return;
    }
    if (worker_has(w, FAULT_ERROR_IN_BODY)) {
        worker_answer(w, c, 200, rtp_llm_engine.type, rtp_llm_engine.failed);
        return;
    }
    if (w->recording) {
        worker_answer(w, c, 200, rtp_llm_engine.type, rtp_llm_engine.started);
        return;
    }
    struct recording *r = xcalloc(1, sizeof(*r));
    r->dir = xstrdup(w->dir);
    r->profile_id = xstrdup(name && *name ? name : "normal_profiler");
    r->first_rank_only = !json_get_bool(body, "enable_all_rank", false);
    profile_start(w, c, r);
    if (w->recording && !worker_has(w, FAULT_IDLE))
        profile_stop_after(w, (double)(steps > 0 ? MIN(steps, STEPS_MAX) : STEPS_DEFAULT) * STEP_S);
}

static char *trace_name(struct fleet *f, const struct recording *r, unsigned rank, const char *stage,
                        bool copy)
{
    return xasprintf("%s_wr%u_%d", r->profile_id, rank, copy ? 2 : 1);
}

static const struct route routes[] = {
    {"/worker_status", "GET POST", worker_status},
    {"/rtp_llm/worker_status", "GET POST", worker_status},
    {"/v1/models", "GET", models},
    {"/health", "GET POST", worker_health},
    {"/start_profile", "POST", start},
    {"/rtp_llm/start_profile", "POST", start},
};

const struct engine_ops rtp_llm_engine = {
    .name = "rtp-llm",
    .routes = routes,
    .n_routes = ARRAY_SIZE(routes),
    .type = "application/json",
    .started = "{\"status\":\"ok\"}",
    .stopped = "",
    .failed = "{\"error\":\"Failed to start profile: the backend does not answer\"}",
    .not_found = "{\"detail\":\"Not Found\"}",
    .trace_name = trace_name,
    .trace_suffix = ".json",
    .plain_traces = true,
};
