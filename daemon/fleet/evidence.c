/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/evidence.h"

#include "base/alloc.h"
#include "daemon/fleet/answer_text.h"

#define SEEN_TEXT_MAX  60 /* bytes of a text that a server sent */
#define SEEN_NAMES_MAX 6  /* names of members that are shown */

#define KINETO_REMEDY                                                                                        \
    "It has no profile endpoint. Its PyTorch processes can be recorded without one: start it with "          \
    "KINETO_USE_DAEMON=1, and see [kineto] in profd.conf(5)."
#define ROUTER_REMEDY "Name it by --router URL, or name its servers by --worker URL."

static const struct evidence_other lmdeploy = {"LMDeploy", KINETO_REMEDY};
static const struct evidence_other llama_cpp = {
    "llama.cpp", "It has no profile endpoint. Use a profiler of the system, such as perf or nsys."};
static const struct evidence_other production_stack = {"the router of vLLM's production stack",
                                                       ROUTER_REMEDY};
static const struct evidence_other dynamo_frontend = {
    "a frontend of Dynamo", "Name it by --router URL, or name the system port (DYN_SYSTEM_PORT) of each of "
                            "its workers by --worker URL."};
static const struct evidence_other gateway = {"a router in front of SGLang", ROUTER_REMEDY};
/*
 * Sources: owned_by: vllm-project/vllm vllm/entrypoints/openai/engine/protocol.py and
 * rust/src/server/src/routes/openai/models.rs, sgl-project/sglang python/sglang/srt/entrypoints/openai/protocol.py,
 * NVIDIA/TensorRT-LLM tensorrt_llm/serve/openai_protocol.py, ROCm/ATOM atom/entrypoints/openai/protocol.py,
 * InternLM/lmdeploy lmdeploy/serve/openai/protocol.py, ggml-org/llama.cpp tools/server/server-context.cpp. Paths:
 * vllm-project/production-stack src/vllm_router/routers/main_router.py.
 */
static const struct evidence lines[] = {
    {ENGINE_VLLM, QUESTION_MODELS, EVIDENCE_OWNER, "vllm", .needs = QUESTION_VERSION},
    {ENGINE_VLLM, QUESTION_MODELS, EVIDENCE_OWNER, "vllm-frontend-rs", .needs = QUESTION_VERSION},
    {ENGINE_VLLM, QUESTION_VERSION, EVIDENCE_MEMBERS, "rust_frontend_version", TYPE_STRING,
     .needs = QUESTION_NONE},
    {ENGINE_VLLM, QUESTION_SERVER_INFO, EVIDENCE_MEMBERS, "vllm_config", TYPE_OBJECT | TYPE_STRING,
     .needs = QUESTION_NONE},
    {ENGINE_VLLM, QUESTION_OPENAPI, EVIDENCE_PATHS, .bits = ENDPOINT_LOAD | ENDPOINT_DETOKENIZE,
     .needs = QUESTION_VERSION},
    /* Dynamo passes the metrics of the engine in its workers on. */
    {ENGINE_VLLM, QUESTION_METRICS, EVIDENCE_METRICS, .bits = METRICS_VLLM_ENGINE, .but_not = METRICS_DYNAMO,
     .needs = QUESTION_VERSION},

    /* Its experimental router has "sglang" too, but no /server_info (sgl-project/sglang
     * experimental/sgl-router/src/server). */
    {ENGINE_SGLANG, QUESTION_MODELS, EVIDENCE_OWNER, "sglang", .needs = QUESTION_SERVER_INFO},
    {ENGINE_SGLANG, QUESTION_SERVER_INFO, EVIDENCE_MEMBERS, "internal_states", TYPE_ARRAY,
     .needs = QUESTION_NONE},
    {ENGINE_SGLANG, QUESTION_SERVER_INFO, EVIDENCE_MEMBERS,
     "mem_fraction_static chunked_prefill_size schedule_policy", ~0u, .needs = QUESTION_NONE},
    {ENGINE_SGLANG, QUESTION_OLD_SERVER_INFO, EVIDENCE_MEMBERS, "internal_states", TYPE_ARRAY,
     .needs = QUESTION_NONE},
    {ENGINE_SGLANG, QUESTION_OLD_SERVER_INFO, EVIDENCE_MEMBERS,
     "mem_fraction_static chunked_prefill_size schedule_policy", ~0u, .needs = QUESTION_NONE},
    /* TokenSpeed's control server has SGLang's paths and more. */
    {ENGINE_SGLANG, QUESTION_OPENAPI, EVIDENCE_PATHS, .bits = ENDPOINT_FLUSH_CACHE | ENDPOINT_GENERATE,
     .but_not = ENDPOINT_HEALTH_CHECK, .needs = QUESTION_NONE},

    /* A router may show its workers' owner, but no openapi.json, which each server of FastAPI has. */
    {ENGINE_TENSORRT_LLM, QUESTION_MODELS, EVIDENCE_OWNER, "tensorrt_llm", .needs = QUESTION_OPENAPI},
    {ENGINE_ATOM, QUESTION_MODELS, EVIDENCE_OWNER, "atom", .needs = QUESTION_OPENAPI},
    /* Its models have "owned_by": "self_hosted", which SMG reports for every model that it serves. */
    {ENGINE_TOKENSPEED, QUESTION_OLD_SERVER_INFO, EVIDENCE_MEMBERS, "tokenspeed_version server_args",
     TYPE_STRING | TYPE_OBJECT, .needs = QUESTION_NONE},
    {ENGINE_TOKENSPEED, QUESTION_OPENAPI, EVIDENCE_PATHS,
     .bits = ENDPOINT_HEALTH_CHECK | ENDPOINT_GENERATE | ENDPOINT_START_PROFILE, .needs = QUESTION_NONE},

    {ENGINE_RTP_LLM, QUESTION_WORKER_STATUS, EVIDENCE_MEMBERS, "frontend_available_concurrency", TYPE_INTEGER,
     .needs = QUESTION_NONE},
    {ENGINE_RTP_LLM, QUESTION_WORKER_STATUS, EVIDENCE_MEMBERS, "frontend_concurrency_limit", TYPE_INTEGER,
     .needs = QUESTION_NONE},

    /* ai-dynamo/dynamo lib/runtime/src/system_status_server.rs, engine_route_handler(): a route that no engine
     * registered. Other servers write errors alike, but without these metrics; a frontend has the metrics, and no
     * /engine/. */
    {ENGINE_DYNAMO, QUESTION_SYSTEM, EVIDENCE_ERROR, "Route not found", .bits = METRICS_DYNAMO,
     .needs = QUESTION_NONE},

    {ENGINE_UNKNOWN, QUESTION_MODELS, EVIDENCE_OWNER, "lmdeploy", .needs = QUESTION_NONE, .other = &lmdeploy},
    {ENGINE_UNKNOWN, QUESTION_MODELS, EVIDENCE_OWNER, "llamacpp", .needs = QUESTION_NONE,
     .other = &llama_cpp},
    /* Its /v1/models has owned_by "nvidia", as other servers' do. */
    {ENGINE_UNKNOWN, QUESTION_METRICS, EVIDENCE_METRICS, .bits = METRICS_DYNAMO_FRONTEND,
     .needs = QUESTION_NONE, .other = &dynamo_frontend},
    {ENGINE_UNKNOWN, QUESTION_WORKERS, EVIDENCE_MEMBERS, "workers", TYPE_ARRAY, .needs = QUESTION_NONE,
     .other = &gateway},
    {ENGINE_UNKNOWN, QUESTION_OPENAPI, EVIDENCE_PATHS, .bits = ENDPOINT_ENGINES, .needs = QUESTION_NONE,
     .other = &production_stack},
};

/* The core's lines, then those of extras; NULL after the last. */
static const struct evidence *evidence_at(size_t i)
{
    if (i < ARRAY_SIZE(lines))
        return &lines[i];
    return extra_evidence[i - ARRAY_SIZE(lines)].form ? &extra_evidence[i - ARRAY_SIZE(lines)] : NULL;
}

/* The next of the names in `what`, which are separated by spaces: copies it, and returns what follows; NULL after the
 * last. */
static const char *evidence_next_name(const char *what, char name[static SEEN_TEXT_MAX])
{
    size_t n = strcspn(what, " ");

    if (n == 0)
        return NULL;
    snprintf(name, SEEN_TEXT_MAX, "%.*s", (int)n, what);
    return what + n + strspn(what + n, " ");
}

/* Whether all of the names are members of one of the types. */
static bool evidence_members(const json_t *object, const char *what, unsigned types)
{
    char name[SEEN_TEXT_MAX];

    for (const char *rest = evidence_next_name(what, name); rest; rest = evidence_next_name(rest, name)) {
        const json_t *value = json_object_get(object, name);
        if (!value || !(types & 1u << json_typeof(value)))
            return false;
    }
    return true;
}

static bool evidence_holds(const struct evidence *e, const struct answers *a)
{
    const json_t *json = answered(a, e->question);
    const char *message = json_get_str(json, "message");

    if (e->needs != QUESTION_NONE && answered_absent(a, e->needs))
        return false;
    switch (e->form) {
    case EVIDENCE_OWNER:
        return streq(answered_model_owner(a), e->what);
    case EVIDENCE_MEMBERS:
        return json_is_object(json) && evidence_members(json, e->what, e->types);
    case EVIDENCE_ERROR:
        return streq(json_get_str(json, "error"), e->what) && message &&
               strstr(message, question_path(e->question)) && (a->metrics & e->bits) == e->bits;
    case EVIDENCE_PATHS:
        return a->has_openapi && (a->endpoints & e->bits) == e->bits && !(a->endpoints & e->but_not);
    case EVIDENCE_ANY_PATH:
        return a->has_openapi && (a->endpoints & e->bits) != 0;
    case EVIDENCE_METRICS:
        return (a->metrics & e->bits) == e->bits && !(a->metrics & e->but_not);
    }
    return false;
}

struct evidence_result evidence_judge(const struct answers *a)
{
    struct evidence_result r = {0};
    const struct evidence *e;

    for (size_t i = 0; (e = evidence_at(i)); i++) {
        if (!evidence_holds(e, a))
            continue;
        if (!r.proof || e->other)
            r.proof = e;
        else if (e->engine != r.proof->engine && !r.contradiction)
            r.contradiction = e;
    }
    return r;
}

/* "/server_info" */
static char *evidence_path(enum question q)
{
    const char *path = question_path(q);
    return xstrndup(path, strcspn(path, "?"));
}

char *evidence_describe(const struct evidence *e)
{
    _cleanup_(freep) char *path = evidence_path(e->question);
    const char *name = engine_name(e->engine);

    switch (e->form) {
    case EVIDENCE_OWNER:
        return xasprintf("owned_by \"%s\" in %s is of %s", e->what, path, name);
    case EVIDENCE_MEMBERS:
        return xasprintf("\"%s\" in %s is of %s", e->what, path, name);
    case EVIDENCE_ERROR:
        return xasprintf("\"%s\" at %s is of %s", e->what, path, name);
    case EVIDENCE_PATHS:
    case EVIDENCE_ANY_PATH:
    case EVIDENCE_METRICS:
        break;
    }
    return xasprintf("%s is of %s", path, name);
}

/* The names of an object's first members. */
static char *evidence_names(const json_t *object)
{
    char *text = xstrdup("");
    const char *name;
    json_t *value;
    size_t n = 0;

    json_object_foreach((json_t *)object, name, value) {
        char shown[SEEN_TEXT_MAX];
        _cleanup_(freep) char *before = text;
        excerpt(name, strlen(name), shown, sizeof(shown));
        text = xasprintf("%s%s%s", before, n > 0 ? ", " : "", n < SEEN_NAMES_MAX ? shown : "...");
        if (++n > SEEN_NAMES_MAX)
            break;
    }
    return text;
}

char *evidence_seen(const struct answers *a)
{
    static const enum question shown[] = {QUESTION_VERSION, QUESTION_SERVER_INFO};
    const char *owner = answered_model_owner(a);
    char text[SEEN_TEXT_MAX] = "";
    char *seen = NULL;

    if (owner) {
        excerpt(owner, strlen(owner), text, sizeof(text));
        seen = xasprintf("owned_by \"%s\" in /v1/models", text);
    }
    for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
        const json_t *json = answered(a, shown[i]);
        if (!json_is_object(json) || json_object_size(json) == 0)
            continue;
        _cleanup_(freep) char *before = seen, *names = evidence_names(json), *path = evidence_path(shown[i]);
        seen = xasprintf("%s%s%s in %s", before ? before : "", before ? "; " : "", names, path);
    }
    return seen;
}
