/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a recipe and the types of their values, after the dataclasses of srt-slurm (src/srtctl/core/
 * schema.py and backends/ at c88ef73). Keys that srtctl requires and profd does not need may be missing.
 */
#include "extras/srtctl/schema.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include "extras/srtctl/recipe.h"
#include <errno.h>
#include <inttypes.h>

#define KEYS_MAX 64 /* of one section */

enum kind {
    KIND_TEXT,
    KIND_INTEGER,
    KIND_NUMBER,
    KIND_BOOLEAN,
    KIND_TEXTS,
    KIND_MAP,
    KIND_TEXT_MAP,
    KIND_INTEGERS_OR_TEXT,
    KIND_NUMBERS_OR_TEXT,
    KIND_TEXT_OR_INTEGER,
    KIND_BOOLEAN_OR_MAP,
    KIND_ANY,
    KIND_SECTION,
    KIND_BACKEND, /* a section by its "type" */
};

static const char *const expected[] = {
    [KIND_TEXT] = "a text",
    [KIND_INTEGER] = "an integer",
    [KIND_NUMBER] = "a number",
    [KIND_BOOLEAN] = "true or false",
    [KIND_TEXTS] = "a list of texts",
    [KIND_MAP] = "a section",
    [KIND_TEXT_MAP] = "a section of texts",
    [KIND_INTEGERS_OR_TEXT] = "a list of integers, or a text such as \"4x8\"",
    [KIND_NUMBERS_OR_TEXT] = "a list of numbers, or a text",
    [KIND_TEXT_OR_INTEGER] = "a text or an integer",
    [KIND_BOOLEAN_OR_MAP] = "true, false or a section",
    [KIND_ANY] = "a value",
    [KIND_SECTION] = "a section",
    [KIND_BACKEND] = "a section",
};

/* Flags of a key. */
enum {
    NULLABLE = 1 << 0, /* null is its absence */
    OLD = 1 << 1,      /* only in recipes whose load is in profiling or in its phases */
};

struct section;
struct key {
    const char *name;
    enum kind kind;
    unsigned flags;
    const struct section *section;
};
struct section {
    const struct key *keys;
    size_t n;
};
#define SECTION(name) static const struct section name = {name##_keys, ARRAY_SIZE(name##_keys)}

/* clang-format off */
static const struct key model_keys[] = {
    {"path", KIND_TEXT, 0, NULL}, {"container", KIND_TEXT, 0, NULL}, {"precision", KIND_TEXT, 0, NULL},
    {"stage_dir", KIND_TEXT, NULLABLE, NULL},
};
SECTION(model);

static const struct key resources_keys[] = {
    {"gpu_type", KIND_TEXT, 0, NULL}, {"gpus_per_node", KIND_INTEGER, 0, NULL},
    {"prefill_nodes", KIND_INTEGER, NULLABLE, NULL}, {"decode_nodes", KIND_INTEGER, NULLABLE, NULL},
    {"prefill_workers", KIND_INTEGER, NULLABLE, NULL}, {"decode_workers", KIND_INTEGER, NULLABLE, NULL},
    {"agg_nodes", KIND_INTEGER, NULLABLE, NULL}, {"agg_workers", KIND_INTEGER, NULLABLE, NULL},
    {"spread_workers", KIND_BOOLEAN, 0, NULL}, {"het_jobs", KIND_BOOLEAN, NULLABLE, NULL},
    {"gpus_per_prefill", KIND_INTEGER, NULLABLE, NULL}, {"gpus_per_decode", KIND_INTEGER, NULLABLE, NULL},
    {"gpus_per_agg", KIND_INTEGER, NULLABLE, NULL},
};
SECTION(resources);

static const struct key slurm_keys[] = {
    {"account", KIND_TEXT, NULLABLE, NULL}, {"partition", KIND_TEXT, NULLABLE, NULL}, {"time_limit", KIND_TEXT, NULLABLE, NULL},
};
SECTION(slurm);

static const struct key frontend_keys[] = {
    {"type", KIND_TEXT, 0, NULL}, {"enable_multiple_frontends", KIND_BOOLEAN, 0, NULL},
    {"num_additional_frontends", KIND_INTEGER, 0, NULL}, {"nginx_container", KIND_TEXT, 0, NULL},
    {"nginx_raise_ulimit", KIND_BOOLEAN, 0, NULL}, {"nginx_session_affinity", KIND_BOOLEAN, 0, NULL},
    {"nginx_session_affinity_header", KIND_TEXT, 0, NULL}, {"nginx_keepalive_timeout", KIND_TEXT, 0, NULL},
    {"args", KIND_MAP, NULLABLE, NULL}, {"env", KIND_TEXT_MAP, NULLABLE, NULL}, {"ctx_router", KIND_MAP, NULLABLE, NULL},
    {"gen_router", KIND_MAP, NULLABLE, NULL}, {"server_config_extra", KIND_MAP, NULLABLE, NULL},
    {"orchestrator_placement", KIND_TEXT, 0, NULL}, {"dedicated_node", KIND_BOOLEAN, 0, NULL},
    {"use_sglang_router", KIND_BOOLEAN, OLD, NULL}, {"sglang_router_args", KIND_MAP, OLD | NULLABLE, NULL},
    {"dynamo_frontend_args", KIND_MAP, OLD | NULLABLE, NULL},
};
SECTION(frontend);

static const struct key dynamo_keys[] = {
    {"install", KIND_BOOLEAN, 0, NULL}, {"version", KIND_TEXT, NULLABLE, NULL}, {"hash", KIND_TEXT, NULLABLE, NULL},
    {"top_of_tree", KIND_BOOLEAN, 0, NULL}, {"wheel", KIND_TEXT, NULLABLE, NULL}, {"request_plane", KIND_TEXT, 0, NULL},
    {"event_plane", KIND_TEXT, NULLABLE, NULL}, {"cargo_patches", KIND_TEXTS, NULLABLE, NULL},
};
SECTION(dynamo);

static const struct key benchmark_keys[] = {
    {"type", KIND_TEXT, 0, NULL}, {"isl", KIND_INTEGER, NULLABLE, NULL}, {"osl", KIND_INTEGER, NULLABLE, NULL},
    {"concurrencies", KIND_INTEGERS_OR_TEXT, NULLABLE, NULL}, {"req_rate", KIND_TEXT_OR_INTEGER, NULLABLE, NULL},
    {"client_placement", KIND_TEXT, 0, NULL}, {"client_dedicated_node", KIND_BOOLEAN, 0, NULL},
    {"colocate_with_frontend", KIND_BOOLEAN, 0, NULL}, {"sweep", KIND_MAP, NULLABLE, NULL},
    {"num_examples", KIND_INTEGER, NULLABLE, NULL}, {"max_tokens", KIND_INTEGER, NULLABLE, NULL},
    {"repeat", KIND_INTEGER, NULLABLE, NULL}, {"num_threads", KIND_INTEGER, NULLABLE, NULL},
    {"max_context_length", KIND_INTEGER, NULLABLE, NULL}, {"categories", KIND_TEXTS, NULLABLE, NULL},
    {"num_shots", KIND_INTEGER, NULLABLE, NULL}, {"temperature", KIND_NUMBER, NULLABLE, NULL}, {"top_p", KIND_NUMBER, NULLABLE, NULL},
    {"top_k", KIND_INTEGER, NULLABLE, NULL}, {"num_requests", KIND_INTEGER, NULLABLE, NULL},
    {"concurrency", KIND_INTEGER, NULLABLE, NULL}, {"prefix_ratios", KIND_NUMBERS_OR_TEXT, NULLABLE, NULL},
    {"mooncake_workload", KIND_TEXT, NULLABLE, NULL}, {"ttft_threshold_ms", KIND_INTEGER, NULLABLE, NULL},
    {"itl_threshold_ms", KIND_INTEGER, NULLABLE, NULL}, {"random_range_ratio", KIND_NUMBER, NULLABLE, NULL},
    {"num_prompts_mult", KIND_INTEGER, NULLABLE, NULL}, {"num_warmup_mult", KIND_INTEGER, NULLABLE, NULL},
    {"dataset_name", KIND_TEXT, NULLABLE, NULL}, {"dataset_path", KIND_TEXT, NULLABLE, NULL}, {"trace_file", KIND_TEXT, NULLABLE, NULL},
    {"custom_tokenizer", KIND_TEXT, NULLABLE, NULL}, {"use_chat_template", KIND_BOOLEAN, 0, NULL},
    {"reuse_http_connections", KIND_BOOLEAN, 0, NULL}, {"command", KIND_TEXT, NULLABLE, NULL},
    {"container_image", KIND_TEXT, NULLABLE, NULL}, {"env", KIND_TEXT_MAP, 0, NULL}, {"aiperf_package", KIND_TEXT, NULLABLE, NULL},
    {"aiperf_args", KIND_MAP, 0, NULL}, {"export_node_metrics", KIND_BOOLEAN, 0, NULL},
    {"slow_down_sleep_time", KIND_NUMBER, NULLABLE, NULL}, {"slow_down_wait_time", KIND_NUMBER, NULLABLE, NULL},
};
SECTION(benchmark);

static const struct key phase_keys[] = {
    {"start_step", KIND_INTEGER, NULLABLE, NULL}, {"stop_step", KIND_INTEGER, NULLABLE, NULL},
    {"isl", KIND_INTEGER, OLD | NULLABLE, NULL}, {"osl", KIND_INTEGER, OLD | NULLABLE, NULL},
    {"concurrency", KIND_INTEGER, OLD | NULLABLE, NULL},
};
SECTION(phase);

static const struct key profiling_keys[] = {
    {"type", KIND_TEXT, 0, NULL}, {"extra_nsys_args", KIND_TEXTS, NULLABLE, NULL},
    {"prefill", KIND_SECTION, NULLABLE, &phase}, {"decode", KIND_SECTION, NULLABLE, &phase},
    {"aggregated", KIND_SECTION, NULLABLE, &phase}, {"delay_secs", KIND_INTEGER, NULLABLE, NULL},
    {"duration_secs", KIND_INTEGER, NULLABLE, NULL}, {"benchmark_duration_secs", KIND_INTEGER, 0, NULL},
    {"isl", KIND_INTEGER, OLD | NULLABLE, NULL}, {"osl", KIND_INTEGER, OLD | NULLABLE, NULL},
    {"concurrency", KIND_INTEGER, OLD | NULLABLE, NULL}, {"phases", KIND_ANY, OLD | NULLABLE, NULL},
};
SECTION(profiling);

static const struct key output_keys[] = {{"log_dir", KIND_TEXT, 0, NULL}};
SECTION(output);
static const struct key health_check_keys[] = {{"max_attempts", KIND_INTEGER, 0, NULL}, {"interval_seconds", KIND_INTEGER, 0, NULL}};
SECTION(health_check);
static const struct key infra_keys[] = {
    {"etcd_nats_dedicated_node", KIND_BOOLEAN, 0, NULL}, {"nats_max_payload_mb", KIND_INTEGER, NULLABLE, NULL},
};
SECTION(infra);

static const struct key exporter_keys[] = {
    {"container_image", KIND_TEXT, 0, NULL}, {"port", KIND_INTEGER, 0, NULL}, {"command", KIND_TEXT, NULLABLE, NULL},
};
SECTION(exporter);
static const struct key tachometer_keys[] = {
    {"enabled", KIND_BOOLEAN, 0, NULL}, {"binary_path", KIND_TEXT, 0, NULL}, {"default_frequency", KIND_NUMBER, 0, NULL},
    {"sync_interval_secs", KIND_INTEGER, 0, NULL}, {"compaction_threads", KIND_INTEGER, 0, NULL},
    {"storage_subdir", KIND_TEXT, 0, NULL}, {"extra_metadata", KIND_TEXT_MAP, 0, NULL},
    {"dcgm_exporter", KIND_SECTION, NULLABLE, &exporter}, {"node_exporter", KIND_SECTION, NULLABLE, &exporter},
};
SECTION(tachometer);
static const struct key observability_keys[] = {
    {"enabled", KIND_BOOLEAN, 0, NULL}, {"enable_otel", KIND_BOOLEAN, 0, NULL}, {"otel_endpoint", KIND_TEXT, NULLABLE, NULL},
    {"scrape_metrics", KIND_BOOLEAN, NULLABLE, NULL}, {"scrape_interval_seconds", KIND_NUMBER, 0, NULL},
    {"scrape_output", KIND_TEXT, 0, NULL}, {"build_dashboard", KIND_BOOLEAN, NULLABLE, NULL},
    {"tachometer", KIND_SECTION, 0, &tachometer},
};
SECTION(observability);
static const struct key telemetry_keys[] = {
    {"enabled", KIND_BOOLEAN, 0, NULL}, {"dcgm_exporter", KIND_SECTION, NULLABLE, &exporter},
    {"default_frequency", KIND_NUMBER, 0, NULL}, {"storage_subdir", KIND_TEXT, 0, NULL}, {"required", KIND_BOOLEAN, 0, NULL},
    {"startup_timeout_seconds", KIND_NUMBER, 0, NULL}, {"request_timeout_seconds", KIND_NUMBER, 0, NULL},
    {"collector_join_timeout_seconds", KIND_NUMBER, NULLABLE, NULL},
};
SECTION(telemetry);

static const struct key identity_model_keys[] = {{"repo", KIND_TEXT, NULLABLE, NULL}, {"revision", KIND_TEXT, NULLABLE, NULL}};
SECTION(identity_model);
static const struct key identity_container_keys[] = {{"image", KIND_TEXT, NULLABLE, NULL}};
SECTION(identity_container);
static const struct key identity_keys[] = {
    {"model", KIND_SECTION, 0, &identity_model}, {"container", KIND_SECTION, 0, &identity_container},
    {"frameworks", KIND_TEXT_MAP, 0, NULL},
};
SECTION(identity);

static const struct key status_keys[] = {{"endpoint", KIND_TEXT, NULLABLE, NULL}, {"endpoints", KIND_TEXTS, NULLABLE, NULL}};
SECTION(status);
static const struct key ai_analysis_keys[] = {
    {"enabled", KIND_BOOLEAN, 0, NULL}, {"openrouter_api_key", KIND_TEXT, NULLABLE, NULL}, {"gh_token", KIND_TEXT, NULLABLE, NULL},
    {"repos_to_search", KIND_TEXTS, 0, NULL}, {"pr_search_days", KIND_INTEGER, 0, NULL}, {"prompt", KIND_TEXT, NULLABLE, NULL},
};
SECTION(ai_analysis);
static const struct key s3_keys[] = {
    {"bucket", KIND_TEXT, 0, NULL}, {"prefix", KIND_TEXT, NULLABLE, NULL}, {"region", KIND_TEXT, NULLABLE, NULL},
    {"endpoint_url", KIND_TEXT, NULLABLE, NULL}, {"access_key_id", KIND_TEXT, NULLABLE, NULL},
    {"secret_access_key", KIND_TEXT, NULLABLE, NULL},
};
SECTION(s3);
static const struct key reporting_keys[] = {
    {"status", KIND_SECTION, NULLABLE, &status}, {"ai_analysis", KIND_SECTION, NULLABLE, &ai_analysis},
    {"s3", KIND_SECTION, NULLABLE, &s3},
};
SECTION(reporting);

static const struct key modes_keys[] = {
    {"prefill", KIND_MAP, NULLABLE, NULL}, {"decode", KIND_MAP, NULLABLE, NULL}, {"aggregated", KIND_MAP, NULLABLE, NULL},
};
SECTION(modes);
static const struct key mooncake_keys[] = {
    {"container", KIND_TEXT, NULLABLE, NULL}, {"env", KIND_TEXT_MAP, 0, NULL}, {"master_extra_args", KIND_TEXTS, 0, NULL},
};
SECTION(mooncake);
static const struct key vllm_mooncake_keys[] = {
    {"container", KIND_TEXT, NULLABLE, NULL}, {"env", KIND_TEXT_MAP, 0, NULL}, {"master_extra_args", KIND_TEXTS, 0, NULL},
    {"store_config", KIND_MAP, NULLABLE, NULL},
};
SECTION(vllm_mooncake);

#define EVERY_BACKEND                                                                                                  \
    {"type", KIND_TEXT, 0, NULL}, {"prefill_environment", KIND_TEXT_MAP, 0, NULL},                                     \
    {"decode_environment", KIND_TEXT_MAP, 0, NULL}, {"aggregated_environment", KIND_TEXT_MAP, 0, NULL}

static const struct key sglang_keys[] = {
    EVERY_BACKEND, {"gpu_type", KIND_TEXT, NULLABLE, NULL}, {"sglang_config", KIND_SECTION, NULLABLE, &modes},
    {"kv_events_config", KIND_BOOLEAN_OR_MAP, NULLABLE, NULL}, {"mooncake_kv_store", KIND_SECTION, NULLABLE, &mooncake},
    {"enable_multiple_frontends", KIND_BOOLEAN, OLD, NULL}, {"num_additional_frontends", KIND_INTEGER, OLD, NULL},
    {"use_sglang_router", KIND_BOOLEAN, OLD, NULL}, {"enable_config_dump", KIND_BOOLEAN, OLD, NULL},
    {"sglang_router_args", KIND_MAP, OLD | NULLABLE, NULL}, {"script_variant", KIND_TEXT, OLD | NULLABLE, NULL},
};
SECTION(sglang);
static const struct key trtllm_keys[] = {
    EVERY_BACKEND, {"trtllm_config", KIND_SECTION, NULLABLE, &modes}, {"publish_events_and_metrics", KIND_BOOLEAN, 0, NULL},
    {"sequential_node_start", KIND_INTEGER, 0, NULL}, {"numa_memory_bind", KIND_BOOLEAN, NULLABLE, NULL},
};
SECTION(trtllm);
static const struct key vllm_keys[] = {
    EVERY_BACKEND, {"vllm_config", KIND_SECTION, NULLABLE, &modes}, {"set_cuda_visible_devices", KIND_BOOLEAN, 0, NULL},
    {"connector", KIND_TEXT, NULLABLE, NULL}, {"mooncake_kv_store", KIND_SECTION, NULLABLE, &vllm_mooncake},
    {"kv_events_config", KIND_BOOLEAN_OR_MAP, NULLABLE, NULL}, {"allow_prefill_decode_colocation", KIND_BOOLEAN, 0, NULL},
    {"allow_prefill_decode_colocation_across_nodes", KIND_BOOLEAN, 0, NULL}, {"dp_launch_mode", KIND_TEXT, 0, NULL},
};
SECTION(vllm);
static const struct key mocker_keys[] = {
    EVERY_BACKEND, {"engine_type", KIND_TEXT, 0, NULL}, {"speedup_ratio", KIND_NUMBER, 0, NULL},
    {"decode_speedup_ratio", KIND_NUMBER, 0, NULL}, {"num_gpu_blocks_override", KIND_INTEGER, 0, NULL},
    {"max_num_seqs", KIND_INTEGER, 0, NULL}, {"max_num_batched_tokens", KIND_INTEGER, 0, NULL},
    {"block_size", KIND_INTEGER, NULLABLE, NULL}, {"data_parallel_size", KIND_INTEGER, 0, NULL},
    {"num_workers", KIND_INTEGER, 0, NULL}, {"startup_time", KIND_NUMBER, NULLABLE, NULL},
    {"kv_transfer_bandwidth", KIND_NUMBER, NULLABLE, NULL}, {"kv_cache_dtype", KIND_TEXT, NULLABLE, NULL},
    {"enable_prefix_caching", KIND_BOOLEAN, 0, NULL}, {"enable_chunked_prefill", KIND_BOOLEAN, 0, NULL},
    {"preemption_mode", KIND_TEXT, NULLABLE, NULL}, {"mocker_config", KIND_SECTION, NULLABLE, &modes},
};
SECTION(mocker);

static const struct key root_keys[] = {
    {"name", KIND_TEXT, 0, NULL}, {"model", KIND_SECTION, 0, &model}, {"resources", KIND_SECTION, 0, &resources},
    {"slurm", KIND_SECTION, 0, &slurm}, {"backend", KIND_BACKEND, 0, NULL}, {"frontend", KIND_SECTION, 0, &frontend},
    {"dynamo", KIND_SECTION, 0, &dynamo}, {"benchmark", KIND_SECTION, 0, &benchmark},
    {"profiling", KIND_SECTION, 0, &profiling}, {"output", KIND_SECTION, 0, &output},
    {"health_check", KIND_SECTION, 0, &health_check}, {"infra", KIND_SECTION, 0, &infra},
    {"observability", KIND_SECTION, 0, &observability}, {"telemetry", KIND_SECTION, 0, &telemetry},
    {"environment", KIND_TEXT_MAP, 0, NULL}, {"container_mounts", KIND_TEXT_MAP, 0, NULL},
    {"extra_mount", KIND_TEXTS, NULLABLE, NULL}, {"srun_options", KIND_TEXT_MAP, 0, NULL},
    {"sbatch_directives", KIND_TEXT_MAP, 0, NULL}, {"enable_config_dump", KIND_BOOLEAN, 0, NULL},
    {"setup_script", KIND_TEXT, NULLABLE, NULL}, {"identity", KIND_SECTION, 0, &identity},
    {"reporting", KIND_SECTION, NULLABLE, &reporting}, {"lock", KIND_ANY, NULLABLE, NULL},
};
SECTION(root);
/* clang-format on */

static const struct {
    const char *type;
    const struct section *section;
} backends[] = {{"sglang", &sglang}, {"trtllm", &trtllm}, {"vllm", &vllm}, {"mocker", &mocker}};

/* -- Types -------------------------------------------------------------------------------------------- */

/* As marshmallow takes them: a text of digits is a number, as a sweep leaves them. */
static bool is_integer(const json_t *v)
{
    const char *text = json_string_value(v);
    char *end;

    if (json_is_integer(v))
        return true;
    if (json_is_real(v))
        return json_real_value(v) >= -1e15 && json_real_value(v) <= 1e15 &&
               (double)(int64_t)json_real_value(v) == json_real_value(v);
    if (!text || !*text)
        return false;
    strtoll(text, &end, 10);
    return !*end;
}

static bool is_number(const json_t *v)
{
    const char *text = json_string_value(v);
    char *end;

    if (json_is_number(v))
        return true;
    if (!text || !*text)
        return false;
    strtod(text, &end);
    return !*end;
}

static bool each_is(const json_t *list, bool (*is)(const json_t *v))
{
    size_t i;
    json_t *v;

    json_array_foreach((json_t *)list, i, v)
        if (!is(v))
            return false;
    return json_is_array(list);
}

static bool is_text(const json_t *v)
{
    return json_is_string(v);
}

static bool has_kind(const json_t *v, enum kind kind, bool old)
{
    const char *key;
    json_t *value;

    switch (kind) {
    case KIND_TEXT:
        return json_is_string(v);
    case KIND_INTEGER:
        return is_integer(v);
    case KIND_NUMBER:
        return is_number(v);
    case KIND_BOOLEAN:
        return json_is_boolean(v);
    case KIND_TEXTS:
        return each_is(v, is_text);
    case KIND_INTEGERS_OR_TEXT:
        return json_is_string(v) || each_is(v, is_integer) || (old && json_is_integer(v));
    case KIND_NUMBERS_OR_TEXT:
        return json_is_string(v) || each_is(v, is_number);
    case KIND_TEXT_OR_INTEGER:
        return json_is_string(v) || is_integer(v);
    case KIND_BOOLEAN_OR_MAP:
        return json_is_boolean(v) || json_is_object(v);
    case KIND_TEXT_MAP:
        json_object_foreach((json_t *)v, key, value)
            if (!json_is_string(value) && !old)
                return false;
        return json_is_object(v);
    case KIND_ANY:
        return true;
    default:
        return json_is_object(v);
    }
}

/* -- The check ---------------------------------------------------------------------------------------- */

struct check {
    const struct recipe *recipe;
    bool old;
    struct problem *p;
};

static int refuse(const struct check *c, const char *where, const char *format, ...) _printf_(3, 4);
static int refuse(const struct check *c, const char *where, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    return recipe_refuse(c->recipe, where, text, c->p);
}

static int refuse_key(const struct check *c, const struct section *s, const char *where, const char *name)
{
    const char *names[KEYS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < s->n && n < KEYS_MAX; i++)
        if (c->old || !(s->keys[i].flags & OLD))
            names[n++] = s->keys[i].name;
    const char *nearest = nearest_name(name, names, n);
    int r = refuse(c, where, "%s: srtctl has no such key", where);
    if (nearest)
        problem_remedy(c->p, "Did you mean %s?", nearest);
    else
        problem_remedy(c->p, "Remove it, or see docs/config-reference.md of srt-slurm for the keys.");
    return r;
}

/* Which entry of a section of texts is none. */
static int refuse_entry(const struct check *c, const json_t *v, const char *where)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)v, key, value) {
        if (json_is_string(value))
            continue;
        _cleanup_(freep) char *path = xasprintf("%s.%s", where, key);
        _cleanup_(freep) char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        int r = refuse(c, path, "%s must be a text", path);
        problem_remedy(c->p, "Quote it: %s: \"%.60s\".", key, text);
        return r;
    }
    return refuse(c, where, "%s must be a section of texts", where);
}

static int refuse_value(const struct check *c, const struct key *key, const json_t *v, const char *where)
{
    if (key->kind == KIND_TEXT_MAP && json_is_object(v))
        return refuse_entry(c, v, where);
    int r = refuse(c, where, "%s must be %s", where, expected[key->kind]);
    if (json_is_null(v))
        problem_remedy(c->p, "It is empty: remove it, or give it a value.");
    else if (key->kind == KIND_TEXT && json_is_number(v))
        problem_remedy(c->p, "Quote it.");
    else
        problem_remedy(c->p, "docs/config-reference.md of srt-slurm describes it.");
    return r;
}

static int check_section(const struct check *c, const struct section *s, const json_t *v, const char *where);

static int check_backend(const struct check *c, const json_t *v, const char *where)
{
    const char *type = json_get_str(v, "type"), *names[ARRAY_SIZE(backends)];

    if (!type && json_is_object(json_object_get(v, "vllm_config")) && c->old)
        type = "vllm";
    for (size_t i = 0; i < ARRAY_SIZE(backends); i++) {
        names[i] = backends[i].type;
        if (streq(type ? type : "sglang", backends[i].type))
            return check_section(c, backends[i].section, v, where);
    }
    const char *nearest = nearest_name(type, names, ARRAY_SIZE(names));
    int r = refuse(c, "backend.type", "backend.type is '%s', but must be one of sglang, trtllm, vllm, mocker",
                   type);
    problem_remedy(c->p, nearest ? "Did you mean %s?" : "profd knows srt-slurm's backends at c88ef73.",
                   nearest);
    return r;
}

static int check_key(const struct check *c, const struct key *key, const json_t *v, const char *where)
{
    if (json_is_null(v) && (key->flags & NULLABLE || c->old))
        return 0;
    if (!has_kind(v, key->kind, c->old))
        return refuse_value(c, key, v, where);
    if (key->kind == KIND_BACKEND)
        return check_backend(c, v, where);
    return key->kind == KIND_SECTION ? check_section(c, key->section, v, where) : 0;
}

static int check_section(const struct check *c, const struct section *s, const json_t *v, const char *where)
{
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)v, name, value) {
        _cleanup_(freep) char *path = *where ? xasprintf("%s.%s", where, name) : xstrdup(name);
        const struct key *key = NULL;
        for (size_t i = 0; i < s->n && !key; i++)
            if (streq(s->keys[i].name, name) && (c->old || !(s->keys[i].flags & OLD)))
                key = &s->keys[i];
        r = key ? check_key(c, key, value, path) : refuse_key(c, s, path, name);
        if (r < 0)
            break;
    }
    return r;
}

int recipe_check_schema(const struct recipe *r, bool old, struct problem *p)
{
    const struct check c = {.recipe = r, .old = old, .p = p};
    return check_section(&c, &root, r->root, "");
}
