/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/engine.h"

#include "base/alloc.h"
#include "base/http_reason.h"
#include "base/metrics.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/evidence.h"
#include <errno.h>

#define EXPLAIN_MAX 300
/* Of the text that an engine calls its version; that of a build from source has about 40. */
#define VERSION_BYTES_MAX 128
/* SGLang's /server_info repeats its few hundred settings for each data-parallel rank. */
#define ANSWER_VALUES_MAX 30000

#define ENGINE_LINE(name) &engine_##name,

static const struct engine_ops *const engines[] = {CORE_ENGINES(ENGINE_LINE)};

/* The core's engines, then those of extras; NULL after the last. */
static const struct engine_ops *engine_at(size_t i)
{
    return i < ARRAY_SIZE(engines) ? engines[i] : extra_engines[i - ARRAY_SIZE(engines)];
}

const struct engine_ops *engine_ops(enum engine e)
{
    const struct engine_ops *ops;

    for (size_t i = 0; (ops = engine_at(i)) && ops->id != e; i++)
        ;
    return ops;
}

const struct engine_ops *worker_ops(const struct worker *w)
{
    const struct engine_ops *ops;

    for (size_t i = 0; (ops = engine_at(i)); i++)
        if (ops->id == w->engine && ops->backend == w->backend)
            return ops;
    return engine_ops(w->engine);
}

bool worker_is_on_demand(const struct worker *w)
{
    const struct engine_ops *ops = worker_ops(w);
    return ops && ops->on_demand;
}

static const struct {
    const char *path, *method; /* method NULL: GET */
    bool no_json;              /* the answer is searched for texts, and not kept */
    int status;                /* besides 200, whose JSON is kept */
} questions[_QUESTION_MAX] = {
    [QUESTION_SERVER_INFO] = {"/server_info?config_format=json"},
    [QUESTION_VERSION] = {"/version"},
    [QUESTION_OPENAPI] = {"/openapi.json", .no_json = true},
    [QUESTION_MODELS] = {"/v1/models"},
    [QUESTION_OLD_SERVER_INFO] = {"/get_server_info"},
    [QUESTION_WORKERS] = {"/workers"},
    [QUESTION_SLEEPING] = {"/is_sleeping"},
    [QUESTION_PROFILE_ROUTE] = {"/start_profile", "HEAD", .no_json = true},
    [QUESTION_WORKER_STATUS] = {"/worker_status"},
    [QUESTION_SYSTEM] = {"/engine/profd", .status = 404},
    [QUESTION_METRICS] = {"/metrics", .no_json = true},
    [QUESTION_PROMETHEUS] = {TRTLLM_METRICS_PATH, .no_json = true},
    [QUESTION_KV_TRANSFER] = {"/kv_transfer_info"},
};

const char *question_path(enum question q)
{
    return questions[q].path;
}

const char *question_method(enum question q)
{
    return questions[q].method ? questions[q].method : "GET";
}

/* Bit i is enum engine_endpoint's bit i. */
static const char *const endpoint_paths[] = {"/start_profile", "/flush_cache", "/generate",    "/load",
                                             "/detokenize",    "/engines",     "/health_check"};
_Static_assert(1 << ARRAY_SIZE(endpoint_paths) == ENDPOINT_EXTRA, "a bit for each path");

static int find_endpoints(const char *body, size_t size, unsigned *ret)
{
    const char *paths[ARRAY_SIZE(endpoint_paths) + EXTRA_ENDPOINTS_MAX];
    size_t n = ARRAY_SIZE(endpoint_paths);

    memcpy(paths, endpoint_paths, sizeof(endpoint_paths));
    for (size_t i = 0; i < EXTRA_ENDPOINTS_MAX && extra_endpoint_paths[i]; i++)
        paths[n++] = extra_endpoint_paths[i];
    return openapi_find_paths(body, size, paths, n, ret);
}

/* Bit i is enum engine_metrics' bit i. The router of vLLM's production stack has "vllm:" metrics of its own
 * (vllm-project/production-stack src/vllm_router/services/metrics_service/__init__.py); what the engine does in its
 * steps it cannot know. */
static const char *const metric_prefixes[] = {
    "vllm:", "vllm:iteration_tokens_total", "sglang:", "dynamo_component_", "trtllm_", "dynamo_frontend_"};

static unsigned metrics_of(const char *body, size_t size)
{
    unsigned found = 0;

    for (size_t i = 0; i < ARRAY_SIZE(metric_prefixes); i++)
        if (metrics_has_prefix(body, size, metric_prefixes[i]))
            found |= 1u << i;
    return found;
}

/* SGLang labels its metrics with what it does (python/sglang/srt/observability/scheduler_metrics_mixin.py). */
static const struct {
    const char *engine_type;
    enum role role;
} engine_types[] = {{"unified", ROLE_REGULAR}, {"prefill", ROLE_PREFILL}, {"decode", ROLE_DECODE}};

static enum role metrics_role_of(const char *body, size_t size)
{
    struct prometheus_text samples = prometheus_text(body, size);
    struct prometheus_sample sample;

    while (prometheus_next(&samples, &sample)) {
        const char *type = "";
        size_t len = 0;
        if (!prometheus_is(&sample, "sglang:num_running_reqs") ||
            !prometheus_label(&sample, "engine_type", &type, &len))
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(engine_types); i++)
            if (strlen(engine_types[i].engine_type) == len &&
                memcmp(engine_types[i].engine_type, type, len) == 0)
                return engine_types[i].role;
    }
    return ROLE_UNKNOWN;
}

/* The number in a label; 0 for nonsense. */
static int metrics_label_size(const struct prometheus_sample *sample, const char *label)
{
    const char *text;
    size_t n;
    int size = 0;

    if (!prometheus_label(sample, label, &text, &n))
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || size > GROUP_SIZE_MAX)
            return 0;
        size = 10 * size + text[i] - '0';
    }
    return size <= GROUP_SIZE_MAX ? size : 0;
}

/* Labels of TensorRT-LLM's metrics/collector.py, log_config_info(). */
static struct parallel metrics_sizes(const char *body, size_t size)
{
    struct prometheus_text samples = prometheus_text(body, size);
    struct prometheus_sample sample;
    struct parallel sizes = {0};

    while (prometheus_next(&samples, &sample))
        if (prometheus_is(&sample, "trtllm_parallel_config_info")) {
            sizes.tp = metrics_label_size(&sample, "tensor_parallel_size");
            sizes.pp = metrics_label_size(&sample, "pipeline_parallel_size");
        }
    return sizes;
}

bool question_keeps_json(enum question q, int status)
{
    return !questions[q].no_json && (status == 200 || (status != 0 && status == questions[q].status));
}

void answers_set(struct answers *a, enum question q, int err, int status, const char *text, const char *body,
                 size_t size)
{
    struct worker_answer *item = &a->items[q];
    char error[200];

    item->asked = true;
    item->err = err;
    item->status = status;
    replace_str(&item->text, text);
    json_decref(item->json);
    item->json = NULL;
    if (err != 0)
        return;
    if (status == 200 && q == QUESTION_OPENAPI) {
        a->has_openapi = find_endpoints(body, size, &a->endpoints) == 0;
        return;
    }
    if (status == 200 && q == QUESTION_METRICS) {
        a->metrics = metrics_of(body, size);
        a->metrics_role = metrics_role_of(body, size);
        return;
    }
    if (status == 200 && q == QUESTION_PROMETHEUS) {
        a->metric_sizes = metrics_sizes(body, size);
        return;
    }
    if (!question_keeps_json(q, status))
        return;
    item->json = json_parse_bounded(body, size, ANSWER_VALUES_MAX, error);
    if (status != 200)
        return;
    replace_str(&item->text, item->json                    ? "JSON of another kind"
                             : looks_like_html(body, size) ? "HTML"
                                                           : "something that is not JSON");
}

void answers_done(struct answers *a)
{
    for (int q = 0; q < _QUESTION_MAX; q++) {
        free(a->items[q].text);
        json_decref(a->items[q].json);
    }
    *a = (struct answers){0};
}

static bool any_status(const struct answers *a, int low, int high, const struct worker_answer **ret)
{
    for (int q = 0; q < _QUESTION_MAX; q++) {
        const struct worker_answer *item = &a->items[q];
        if (!item->asked || item->err != 0 || item->status < low || item->status > high)
            continue;
        *ret = item;
        return true;
    }
    return false;
}

void worker_refuse(struct worker *w, const char *remedy, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    w->profilable = false;
    free(w->reason);
    w->reason = xvasprintf(format, ap);
    va_end(ap);
    replace_str(&w->remedy, remedy);
}

void worker_needs_credentials(struct worker *w, const char *key)
{
    _cleanup_(freep) char *remedy =
        xasprintf("Add to profd.conf\n  [worker %s]\n  %s = FILE\nor the key to its [fleet NAME] "
                  "section.",
                  w->url, key);
    worker_refuse(w, remedy, "credentials needed: %s", key);
}

/* What came, in short: a page of HTML is not repeated. */
static char *answer_in_short(const struct worker_answer *item)
{
    if (item->err == 0 && item->status != 0 && item->status != 200)
        return xasprintf("%d %s", item->status, http_reason(item->status));
    return xstrdup(item->text ? item->text : "nothing");
}

/* What answers is no engine that profd knows. */
static void explain_other(struct worker *w, const struct answers *a)
{
    const struct worker_answer *version = &a->items[QUESTION_VERSION],
                               *info = &a->items[QUESTION_SERVER_INFO];
    _cleanup_(freep) char *seen = evidence_seen(a), *version_text = answer_in_short(version),
                          *info_text = answer_in_short(info);
    _cleanup_(freep) char *remedy = xasprintf(
        "profd profiles servers of vLLM, SGLang, TensorRT-LLM, ATOM, RTP-LLM%s, TokenSpeed at its control "
        "port (the gateway's port + 1), and Dynamo workers at their system port (DYN_SYSTEM_PORT). Is this "
        "the URL of one, and not of a router or frontend?",
        extra_engine_titles);

    if (seen)
        worker_refuse(w, remedy, "is not an engine that profd knows: it answers with %s", seen);
    else
        worker_refuse(w, remedy, "is not an engine that profd knows: /version answered %s, /server_info %s",
                      version_text, info_text);
}

/* Explains why no engine is proven. */
static void explain_unknown(struct worker *w, const struct answers *a)
{
    const struct worker_answer *version = &a->items[QUESTION_VERSION],
                               *info = &a->items[QUESTION_SERVER_INFO];
    const struct worker_answer *some;

    if (any_status(a, 401, 401, &some) || any_status(a, 403, 403, &some)) {
        if (a->has_token)
            worker_refuse(w, "Does token_file in profd.conf hold this server's key?",
                          "credentials needed: token_file is not accepted (%s)", some->text);
        else
            worker_needs_credentials(w, "token_file");
    } else if (a->refused && version->err != 0) {
        worker_refuse(w, a->refused, "%s", version->text);
    } else if (version->err == -EACCES && info->err == -EACCES) {
        worker_refuse(w, "Correct the file, or its permissions, or the key in profd.conf.", "%s",
                      version->text);
    } else if (version->err != 0 && info->err != 0) {
        worker_refuse(w,
                      version->err == -ETIMEDOUT
                          ? "A server that loads its model or writes a trace answers late: try again."
                      : version->err == -EHOSTUNREACH
                          ? "profd's host must know this name: getent hosts NAME."
                          : "Is this server up? Its router or source may list it although it is gone.",
                      "does not answer: %s", version->text);
    } else if (any_status(a, 300, 399, &some)) {
        worker_refuse(w, "Name the URL that it redirects to.",
                      "answers with a redirect (%s), which is not followed", some->text);
    } else {
        explain_other(w, a);
    }
}

static void explain_contradiction(struct worker *w, const struct evidence_result *r)
{
    _cleanup_(freep) char *one = evidence_describe(r->proof), *other = evidence_describe(r->contradiction);

    worker_refuse(w,
                  "A router or proxy in front of several engines answers like this. Name each server itself.",
                  "its answers contradict each other: %s, but %s", one, other);
}

void worker_identify(struct worker *w, const struct answers *a)
{
    const struct evidence_result found = evidence_judge(a);

    w->engine = w->backend = ENGINE_UNKNOWN;
    w->profilable = false;
    /* More answers may have shown that it is another one. */
    w->sizes = (struct parallel){0};
    replace_str(&w->version, NULL);
    replace_str(&w->reason, NULL);
    replace_str(&w->remedy, NULL);
    if (!found.proof) {
        explain_unknown(w, a);
    } else if (found.proof->other) {
        worker_refuse(w, found.proof->other->remedy, "is %s, which profd cannot profile",
                      found.proof->other->title);
    } else if (found.contradiction) {
        explain_contradiction(w, &found);
    } else {
        w->engine = found.proof->engine;
        engine_ops(w->engine)->take(w, a);
    }
    /* Not a version, and as wide as a table can be. */
    if (w->version && strlen(w->version) > VERSION_BYTES_MAX)
        replace_str(&w->version, NULL);
}

unsigned worker_more_questions(const struct worker *w, const struct answers *a)
{
    const struct engine_ops *ops = engine_ops(w->engine);
    unsigned wanted = 0;
    const struct worker_answer *some;

    if (ops && ops->more_questions)
        wanted = ops->more_questions(w, a);
    else if (!ops && !evidence_judge(a).proof && any_status(a, 404, 405, &some))
        wanted = QUESTIONS_UNKNOWN;
    for (int q = 0; q < _QUESTION_MAX; q++)
        if (a->items[q].asked)
            wanted &= ~QUESTION_BIT(q);
    return wanted;
}

int json_get_size(const json_t *object, const char *key)
{
    int64_t n = json_get_int(object, key, 0);
    return n > 0 && n <= GROUP_SIZE_MAX ? (int)n : 0;
}

const json_t *answered(const struct answers *a, enum question q)
{
    return a->items[q].json;
}

bool answered_absent(const struct answers *a, enum question q)
{
    const struct worker_answer *item = &a->items[q];
    return item->asked && item->err == 0 && (item->status == 404 || item->status == 405);
}

/* The first model of /v1/models; NULL where there is none. */
static const json_t *first_model(const struct answers *a)
{
    return json_array_get(json_object_get(answered(a, QUESTION_MODELS), "data"), 0);
}

const char *answered_model_owner(const struct answers *a)
{
    return json_get_str(first_model(a), "owned_by");
}

void take_model(struct worker *w, const struct answers *a, const char *other)
{
    const char *id = json_get_str(first_model(a), "id");
    if (!w->model)
        replace_str(&w->model, id ? id : other);
}

/* The text of an error, as the engines' servers write it: {"error": {"message": ...}}, {"message": ...}, {"error": ...}
 * or {"detail": ...}. Borrowed; NULL: none of these. */
static const char *error_message(const json_t *body)
{
    static const char *const keys[] = {"message", "error", "detail"};
    const char *message = json_get_str(json_object_get(body, "error"), "message");

    for (size_t i = 0; i < ARRAY_SIZE(keys) && !message; i++)
        message = json_get_str(body, keys[i]);
    return message;
}

void engine_explain_start(const struct engine_ops *ops, const struct worker *w, int status, const char *body,
                          struct problem *p)
{
    char text[EXPLAIN_MAX], error[200];
    _cleanup_json_ json = json_parse(body, strlen(body), error);
    const char *message = error_message(json), *reason = http_reason(status);

    if (!message)
        message = body;
    excerpt(message, strlen(message), text, sizeof(text));
    bool adds = text[0] && !streq(text, reason);
    problem_set(p, 0, PROBLEM_UPSTREAM, "%s %s answered %d %s%s%s", engine_method(ops), ops->start_path,
                status, reason, adds ? ": " : "", adds ? text : "");
    problem_remedy(p, ops->start_remedy(w, status), w->url);
}

bool engine_is_recorded_elsewhere(const struct recording *rec, const struct worker *w, int status,
                                  const char *body, const char *message)
{
    const struct engine_ops *ops = worker_ops(w);
    char error[200];

    if (!ops || !ops->is_recorded_elsewhere)
        return false;
    _cleanup_json_ json = json_parse(body, strlen(body), error);
    if (!message)
        message = error_message(json);
    return ops->is_recorded_elsewhere(rec, w, status, message ? message : body);
}

bool engine_refuses_newer_keys(const struct engine_ops *ops, int status, const char *body)
{
    char error[200];

    if (status != 500 || !ops->newer_keys)
        return false;
    _cleanup_json_ json = json_parse(body, strlen(body), error);
    const char *message = error_message(json);
    for (const char *const *key = ops->newer_keys; message && *key; key++) {
        /* As Python refuses an argument that a function does not have. */
        _cleanup_(freep) char *refused = xasprintf("got an unexpected keyword argument '%s'", *key);
        if (strstr(message, refused))
            return true;
    }
    return false;
}

bool engine_has_ended(const struct engine_ops *ops, const struct recording *rec, int status)
{
    return ops->ended_status != 0 && status == ops->ended_status && rec->steps > 0;
}

void review_add(struct review *r, bool refuses, const char *option, const char *remedy, const char *format,
                ...)
{
    va_list ap;
    va_start(ap, format);
    VEC_GROW(r->items, r->n, r->cap);
    r->items[r->n++] = (struct remark){
        .refuses = refuses,
        .option = xstrdup(option),
        .text = xvasprintf(format, ap),
        .remedy = xstrdup(remedy),
    };
    va_end(ap);
}

void review_done(struct review *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->items[i].option);
        free(r->items[i].text);
        free(r->items[i].remedy);
    }
    free(r->items);
    *r = (struct review){0};
}
