/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each engine is identified and how its profiler is worked: one file for each engine, one table of
 * operations.
 *
 * Everything here is pure: answers of a worker in, requests and classifications out. Nothing here calls a
 * worker.
 */
#pragma once

#include "base/problem.h"
#include "daemon/fleet/worker.h"

/*
 * What an unidentified worker is asked. All but one are GET, and free of side effects on every known engine. Paths of
 * profilers are asked of nothing but a proven vLLM: SGLang starts its profiler on GET too.
 */
enum question {
    QUESTION_NONE = -1,
    QUESTION_SERVER_INFO,
    QUESTION_VERSION,
    QUESTION_OPENAPI,
    QUESTION_MODELS,
    QUESTION_OLD_SERVER_INFO, /* of an SGLang that does not know the first */
    QUESTION_WORKERS,         /* of what may be a gateway in front of SGLang */
    QUESTION_SLEEPING,        /* of a vLLM in development mode */
    QUESTION_PROFILE_ROUTE,   /* HEAD, of a proven vLLM: 405 where it has /start_profile, 404 where not */
    QUESTION_WORKER_STATUS,   /* of an RTP-LLM */
    QUESTION_SYSTEM,          /* of a Dynamo worker's system server */
    QUESTION_METRICS,         /* of its engine */
    QUESTION_PROMETHEUS,      /* of a TensorRT-LLM, whose /metrics is JSON */
    QUESTION_KV_TRANSFER,     /* of an ATOM: its role */
    _QUESTION_MAX,
};
#define QUESTION_BIT(q) (1u << (q))
#define QUESTIONS_FIRST (QUESTION_BIT(QUESTION_OLD_SERVER_INFO) - 1)
/* Questions to a worker that answers, but whose engine the first questions do not identify. */
#define QUESTIONS_UNKNOWN                                                                                    \
    (QUESTION_BIT(QUESTION_OLD_SERVER_INFO) | QUESTION_BIT(QUESTION_WORKER_STATUS) |                         \
     QUESTION_BIT(QUESTION_SYSTEM) | QUESTION_BIT(QUESTION_METRICS))
const char *question_path(enum question q);
const char *question_method(enum question q);

/* Paths that openapi.json is searched for. */
enum engine_endpoint {
    ENDPOINT_START_PROFILE = 1 << 0,
    ENDPOINT_FLUSH_CACHE = 1 << 1, /* only SGLang has it together with /generate */
    ENDPOINT_GENERATE = 1 << 2,
    ENDPOINT_LOAD = 1 << 3, /* only vLLM has it together with /detokenize */
    ENDPOINT_DETOKENIZE = 1 << 4,
    ENDPOINT_ENGINES = 1 << 5,      /* of the router of vLLM's production stack */
    ENDPOINT_HEALTH_CHECK = 1 << 6, /* only TokenSpeed has it */
    ENDPOINT_EXTRA = 1 << 7,        /* the first of extra_endpoint_paths */
};

/* How names of metrics begin that /metrics is searched for. */
enum engine_metrics {
    METRICS_VLLM = 1 << 0,
    METRICS_VLLM_ENGINE = 1 << 1, /* one that routers, which have "vllm:" too, do not have */
    METRICS_SGLANG = 1 << 2,
    METRICS_DYNAMO = 1 << 3,
    METRICS_TRTLLM = 1 << 4, /* as Dynamo passes them on */
    METRICS_DYNAMO_FRONTEND = 1 << 5,
};

struct worker_answer {
    bool asked;
    int err;    /* as in struct call_result */
    char *text; /* what came, for people */
    int status;
    /* of a 200 that is JSON (of QUESTION_SYSTEM: a 404); never kept for openapi.json and /metrics */
    json_t *json;
};
/* All answers of one worker. They hold secrets (SGLang's server_info has its keys): never stored or logged.
 */
struct answers {
    struct worker_answer items[_QUESTION_MAX];
    bool has_openapi;             /* openapi.json was there and could be read */
    unsigned endpoints;           /* of enum engine_endpoint, where has_openapi */
    unsigned metrics;             /* of enum engine_metrics */
    enum role metrics_role;       /* as SGLang's metrics have it */
    struct parallel metric_sizes; /* that metrics name (TensorRT-LLM) */
    bool has_token, has_admin_token;
    const char *refused; /* the remedy where profd itself did not call; static, NULL: it did */
};
/* Whether its answer with this status is kept as values, until the worker is identified. */
bool question_keeps_json(enum question q, int status);
void answers_set(struct answers *a, enum question q, int err, int status, const char *text, const char *body,
                 size_t size);
void answers_done(struct answers *a);

/*
 * Fills the worker's engine, version, sizes, setup, directory, and whether it can be profiled (or why not)
 * from the answers. Called again when there are more answers.
 */
void worker_identify(struct worker *w, const struct answers *a);
/* Which questions, not asked yet, are worth asking: bits 1 << question. */
unsigned worker_more_questions(const struct worker *w, const struct answers *a);

enum activity {
    ACTIVITY_CPU = 1 << 0,
    ACTIVITY_CUDA = 1 << 1,
    ACTIVITY_MEM = 1 << 2,
    ACTIVITY_CUDA_PROFILER = 1 << 3,
};

/* What a session asks one worker to record. Strings are borrowed. */
struct recording {
    int64_t steps;      /* 0: none, record for duration_ns */
    int64_t start_step; /* 0: at once */
    bool from_load; /* start_step counts from the beginning of the session's load, else as the engine does */
    int64_t duration_ns;
    unsigned activities; /* 0: the engine's default */
    bool with_stack, record_shapes, by_stage;
    const char *profile_id; /* unique for the target */
    const char *output_dir; /* of the target, on the worker's file system; NULL where the engine decides */
    /* Not what is served meanwhile but one request of profd's own is recorded; NULL: none. Its model may be
     * NULL. */
    const char *prompt, *model;
};

/* A remark about a recording that is reported before it starts. */
struct remark {
    bool refuses; /* the session cannot start like this */
    char *option; /* "--with-stack", NULL: the worker itself */
    char *text;
    char *remedy;
};
struct review {
    struct remark *items;
    size_t n, cap;
};
void review_add(struct review *r, bool refuses, const char *option, const char *remedy, const char *format,
                ...) _printf_(5, 6);
void review_done(struct review *r);

struct worker_launch;
struct profiler_launch;

struct engine_ops {
    enum engine id;
    enum engine backend; /* as in struct worker */
    /* Fills the worker, which the answers prove to be of this engine (evidence.h). Called again when there are more. */
    void (*take)(struct worker *w, const struct answers *a);
    /* Which questions are worth asking where it is this engine: QUESTION_BIT()s, also of those asked already. NULL: none.
     */
    unsigned (*more_questions)(const struct worker *w, const struct answers *a);
    /* A start must be preceded by a stop whose failure is ignored (vLLM); its opposite is: never start twice
     * (SGLang). */
    bool stop_before_start;
    bool takes_output_dir; /* the start's body names where to write */
    bool has_rank_dirs;    /* each rank writes into a directory of its own below the worker's (ATOM) */
    bool names_traces;     /* the names of a recording's traces begin with its profile_id, and no others do */
    const char *start_path, *stop_path; /* stop_path NULL: it ends by itself and cannot be stopped */
    const char *older_start_path, *older_stop_path; /* to try where these are 404; NULL: none */
    const char *request_path; /* of a request that records itself, whose body start_body makes; NULL: none */
    const char *method;       /* of start and stop; NULL: POST */
    bool takes_no_requests; /* its URL is where its profiler is controlled: requests go through its router */
    bool writes_no_traces;  /* what it records is in the answers to start and stop */
    /* Its processes register by themselves (daemon/kineto) and are called by nobody: no HTTP, no stop. They do not make
     * the directory of their traces. */
    bool on_demand;
    /* Reads how its profiler was set at its launch into an empty struct; NULL: its launch says nothing. */
    void (*read_launch)(const char *version, const struct worker_launch *launch, struct profiler_launch *ret);
    /* A path from the working directory, "../../pyproject.toml": where this file exists, a relative trace directory
     * begins next to it. NULL: in the working directory. */
    const char *root_mark;
    /* Where traces appear if the launch names no directory, relative to the working directory, and whose choice that
     * is. NULL: not known. */
    const char *default_dir, *default_dir_source;
    const char *metrics_path; /* of its Prometheus text; NULL: /metrics */
    /* Metrics there (summed over labels): requests being run, and steps done so far; NULL where there
     * is none. */
    const char *running_metric, *waiting_metric, *steps_metric;
    /* True where the engine ends a recording of N steps by itself; else profd watches steps_metric and stops
     * it. */
    bool stops_after_steps;
    /* Steps done since its launch, as its /metrics count them; < 0 where they do not. For an engine whose
     * start_step counts from its launch: where a recording's counts from its load, these are added. NULL for
     * all others. */
    double (*steps_since_launch)(const char *metrics, size_t size, const struct worker *w);
    /* The start's JSON body (of a recording with a prompt: the request's). NULL: it is empty. */
    json_t *(*start_body)(const struct recording *rec, const struct worker *w);
    /* Adds what this worker cannot honour, or will do badly. */
    void (*review)(const struct recording *rec, const struct worker *w, struct review *review);
    int ended_status; /* of a stop after the engine ended a recording of N steps by itself; 0: it succeeds */
    /* Members of start_body that older versions do not know, and that a start can do without; NULL at the end. NULL:
     * none. */
    const char *const *newer_keys;
    /* What went wrong though a start or a stop was answered with status 2xx, which the caller frees; gives NULL where
     * nothing did. May be NULL. */
    char *(*refusal)(const char *body);
    bool refused_start_is_none; /* a start that was refused so has started nothing: no stop is owed */
    /* What to do where it was started without a profiler (kind "none") and answers a start all the same; NULL: it does
     * not. */
    const char *no_profiler_remedy;
    /* True where a start's failed answer proves that somebody else's recording was running, and that nothing of this
     * start runs: a stop would end what profd did not start. message is the text of the error. NULL: none proves it. */
    bool (*is_recorded_elsewhere)(const struct recording *rec, const struct worker *w, int status,
                                  const char *message);
    /* What to do where a recording gave no trace; NULL: look into its log. */
    const char *nothing_remedy;
    /* What to do about a start that was answered with this status: a format that may contain the worker's URL as %s. */
    const char *(*start_remedy)(const struct worker *w, int status);
};

/* Of optional modules (extras/): engines, NULL at the end; their titles, which continue a list (", ENGINE"); and the
 * paths that openapi.json is searched for in addition to the core's. */
#define EXTRA_ENDPOINTS_MAX 8
extern const struct engine_ops *const extra_engines[];
extern const char extra_engine_titles[];
extern const char *const extra_endpoint_paths[EXTRA_ENDPOINTS_MAX];

/* NULL for ENGINE_UNKNOWN. */
const struct engine_ops *engine_ops(enum engine e);
/* Of its engine, with the backend that it has. */
const struct engine_ops *worker_ops(const struct worker *w);
/* Whether it registered by itself and is called by nobody. */
bool worker_is_on_demand(const struct worker *w);
/* Fills p, which is empty: what a failed start was answered, and what to do. */
void engine_explain_start(const struct engine_ops *ops, const struct worker *w, int status, const char *body,
                          struct problem *p);
/* Whether a start failed because somebody else records, as in struct engine_ops; message NULL: it is in the body. */
bool engine_is_recorded_elsewhere(const struct recording *rec, const struct worker *w, int status,
                                  const char *body, const char *message);
/* True for a stop that failed with this status although nothing is wrong. */
bool engine_has_ended(const struct engine_ops *ops, const struct recording *rec, int status);
/* True where the answer to a start proves that one of newer_keys is not known, and that therefore nothing started. */
bool engine_refuses_newer_keys(const struct engine_ops *ops, int status, const char *body);
/* Of its start and stop. */
static inline const char *engine_method(const struct engine_ops *ops)
{
    return ops->method ? ops->method : "POST";
}

/*
 * Shared by the files of the engines and the table of engines: the engines' operations, and the texts that
 * all engines have in common. Not for other modules, which use the declarations above.
 */

/* All engines of the core. */
#define CORE_ENGINES(X)                                                                                      \
    X(sglang)                                                                                                \
    X(vllm)                                                                                                  \
    X(rtp_llm) X(dynamo) X(dynamo_sglang) X(dynamo_vllm) X(tensorrt_llm) X(atom) X(tokenspeed) X(pytorch)
#define DECLARE_ENGINE(name) extern const struct engine_ops engine_##name;
CORE_ENGINES(DECLARE_ENGINE)

/* engine_vllm_launch.c: of the value of torch_profiler_activities, "CPU,CUDA", which the caller frees; NULL where it is
 * not set. */
#define VLLM_ACTIVITIES_KEY "torch_profiler_activities"
char *vllm_activities(const json_t *names);
/* Which key of --profiler-config names the directory of a kind of profiler; kind may be NULL. */
const char *vllm_dir_key(const char *kind);

/* As in struct engine_ops. */
void vllm_read_launch(const char *version, const struct worker_launch *launch, struct profiler_launch *ret);
json_t *sglang_start_body(const struct recording *rec, const struct worker *w);
/* Of engines whose profiler has SGLang's words for it, and answers with them. */
bool sglang_says_recorded(const struct recording *rec, const struct worker *w, int status,
                          const char *message);
double sglang_steps_since_launch(const char *metrics, size_t size, const struct worker *w);
/* What an engine and a Dynamo worker that runs it have in common. */
#define SGLANG_PROFILER                                                                                      \
    .takes_output_dir = true, .running_metric = "sglang:num_running_reqs",                                   \
    .waiting_metric = "sglang:num_queue_reqs", .stops_after_steps = true,                                    \
    .steps_since_launch = sglang_steps_since_launch, .ended_status = 500
#define VLLM_STEPS_METRIC "vllm:iteration_tokens_total_count"
#define VLLM_PROFILER                                                                                        \
    .stop_before_start = true, .running_metric = "vllm:num_requests_running",                                \
    .waiting_metric = "vllm:num_requests_waiting", .steps_metric = VLLM_STEPS_METRIC
#define TOKEN_REMEDY "Set token_file for [worker %s] or its fleet in profd.conf."
/* Marks a worker as not profilable, and why. */
void worker_refuse(struct worker *w, const char *remedy, const char *format, ...) _printf_(3, 4);
/* key is "token_file" or "admin_token_file". */
void worker_needs_credentials(struct worker *w, const char *key);
/* The JSON of an answer, NULL for anything else. */
const json_t *answered(const struct answers *a, enum question q);
/* True if the server answered, and its status means that the path does not exist. */
bool answered_absent(const struct answers *a, enum question q);
/* "owned_by" of the first model. */
const char *answered_model_owner(const struct answers *a);
/* The model's name where the router gave none: of /v1/models, else other (may be NULL). */
void take_model(struct worker *w, const struct answers *a, const char *other);
#define TRTLLM_METRICS_PATH "/prometheus/metrics"
#define GROUP_SIZE_MAX      65536 /* of a parallel group; more is nonsense */
/* Size of a parallel group; 0 for nonsense. */
int json_get_size(const json_t *object, const char *key);
