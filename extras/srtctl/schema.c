/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a recipe and the types of their values, after the dataclasses of srt-slurm (src/srtctl/core/
 * schema.py and backends/ at c88ef73). Keys that srtctl requires and profd does not need may be missing.
 */
#include "extras/srtctl/recipe.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include <errno.h>

#define SECTION_KEYS_MAX 64

/* Types that a value has: as marshmallow converts them, a text of digits is a number, too (a sweep leaves those). */
enum {
    TYPE_TEXT = 1 << 0,
    TYPE_INTEGER = 1 << 1,
    TYPE_NUMBER = 1 << 2,
    TYPE_BOOLEAN = 1 << 3,
    TYPE_LIST = 1 << 4,
    TYPE_MAP = 1 << 5,
    TYPE_NULL = 1 << 6,
    TYPE_ANY = ~0,
};

static const struct schema_kind {
    const char *name, *expected;
    int types, item_types; /* of the value; of each item of a list or section, 0: not checked */
} kinds[] = {
    {"text", "a text", TYPE_TEXT},
    {"integer", "an integer", TYPE_INTEGER},
    {"number", "a number", TYPE_NUMBER},
    {"boolean", "true or false", TYPE_BOOLEAN},
    {"texts", "a list of texts", TYPE_LIST, TYPE_TEXT},
    {"map", "a section", TYPE_MAP},
    {"text-map", "a section of texts", TYPE_MAP, TYPE_TEXT},
    {"integers-or-text", "a list of integers, or a text such as \"4x8\"", TYPE_TEXT | TYPE_LIST,
     TYPE_INTEGER},
    {"numbers-or-text", "a list of numbers, or a text", TYPE_TEXT | TYPE_LIST, TYPE_NUMBER},
    {"text-or-integer", "a text or an integer", TYPE_TEXT | TYPE_INTEGER},
    {"boolean-or-map", "true, false or a section", TYPE_BOOLEAN | TYPE_MAP},
    {"any", "a value", TYPE_ANY},
    {"section", "a section", TYPE_MAP}, /* of all types that are not in this table */
};

/*
 * KEY:TYPE of each section. A type is one of those above, another section, or "backend", which is a section by its own
 * "type". "?": null is its absence. "~": only in recipes whose load is in profiling or in its phases.
 */
/* clang-format off */
static const struct schema_section {
    const char *name, *keys;
} sections[] = {
    {"model",
     "path:text container:text precision:text stage_dir:text?"},
    {"resources",
     "gpu_type:text gpus_per_node:integer prefill_nodes:integer? decode_nodes:integer? "
     "prefill_workers:integer? decode_workers:integer? agg_nodes:integer? agg_workers:integer? "
     "spread_workers:boolean het_jobs:boolean? gpus_per_prefill:integer? gpus_per_decode:integer? "
     "gpus_per_agg:integer?"},
    {"slurm",
     "account:text? partition:text? time_limit:text?"},
    {"frontend",
     "type:text enable_multiple_frontends:boolean num_additional_frontends:integer "
     "nginx_container:text nginx_raise_ulimit:boolean nginx_session_affinity:boolean "
     "nginx_session_affinity_header:text nginx_keepalive_timeout:text args:map? env:text-map? "
     "ctx_router:map? gen_router:map? server_config_extra:map? orchestrator_placement:text "
     "dedicated_node:boolean use_sglang_router:boolean~ sglang_router_args:map?~ "
     "dynamo_frontend_args:map?~"},
    {"dynamo",
     "install:boolean version:text? hash:text? top_of_tree:boolean wheel:text? request_plane:text "
     "event_plane:text? cargo_patches:texts?"},
    {"benchmark",
     "type:text isl:integer? osl:integer? concurrencies:integers-or-text? "
     "req_rate:text-or-integer? client_placement:text client_dedicated_node:boolean "
     "colocate_with_frontend:boolean sweep:map? num_examples:integer? max_tokens:integer? "
     "repeat:integer? num_threads:integer? max_context_length:integer? categories:texts? "
     "num_shots:integer? temperature:number? top_p:number? top_k:integer? num_requests:integer? "
     "concurrency:integer? prefix_ratios:numbers-or-text? mooncake_workload:text? "
     "ttft_threshold_ms:integer? itl_threshold_ms:integer? random_range_ratio:number? "
     "num_prompts_mult:integer? num_warmup_mult:integer? dataset_name:text? dataset_path:text? "
     "trace_file:text? custom_tokenizer:text? use_chat_template:boolean "
     "reuse_http_connections:boolean command:text? container_image:text? env:text-map "
     "aiperf_package:text? aiperf_args:map export_node_metrics:boolean "
     "slow_down_sleep_time:number? slow_down_wait_time:number?"},
    {"phase",
     "start_step:integer? stop_step:integer? isl:integer?~ osl:integer?~ concurrency:integer?~"},
    {"profiling",
     "type:text extra_nsys_args:texts? prefill:phase? decode:phase? aggregated:phase? "
     "delay_secs:integer? duration_secs:integer? benchmark_duration_secs:integer isl:integer?~ "
     "osl:integer?~ concurrency:integer?~ phases:any?~"},
    {"output",
     "log_dir:text"},
    {"health_check",
     "max_attempts:integer interval_seconds:integer"},
    {"infra",
     "etcd_nats_dedicated_node:boolean nats_max_payload_mb:integer?"},
    {"exporter",
     "container_image:text port:integer command:text?"},
    {"tachometer",
     "enabled:boolean binary_path:text default_frequency:number sync_interval_secs:integer "
     "compaction_threads:integer storage_subdir:text extra_metadata:text-map "
     "dcgm_exporter:exporter? node_exporter:exporter?"},
    {"observability",
     "enabled:boolean enable_otel:boolean otel_endpoint:text? scrape_metrics:boolean? "
     "scrape_interval_seconds:number scrape_output:text build_dashboard:boolean? "
     "tachometer:tachometer"},
    {"telemetry",
     "enabled:boolean dcgm_exporter:exporter? default_frequency:number storage_subdir:text "
     "required:boolean startup_timeout_seconds:number request_timeout_seconds:number "
     "collector_join_timeout_seconds:number?"},
    {"identity_model",
     "repo:text? revision:text?"},
    {"identity_container",
     "image:text?"},
    {"identity",
     "model:identity_model container:identity_container frameworks:text-map"},
    {"status",
     "endpoint:text? endpoints:texts?"},
    {"ai_analysis",
     "enabled:boolean openrouter_api_key:text? gh_token:text? repos_to_search:texts "
     "pr_search_days:integer prompt:text?"},
    {"s3",
     "bucket:text prefix:text? region:text? endpoint_url:text? access_key_id:text? "
     "secret_access_key:text?"},
    {"reporting",
     "status:status? ai_analysis:ai_analysis? s3:s3?"},
    {"modes",
     "prefill:map? decode:map? aggregated:map?"},
    {"mooncake",
     "container:text? env:text-map master_extra_args:texts"},
    {"vllm_mooncake",
     "container:text? env:text-map master_extra_args:texts store_config:map?"},
    {"sglang",
     "type:text prefill_environment:text-map decode_environment:text-map "
     "aggregated_environment:text-map gpu_type:text? sglang_config:modes? "
     "kv_events_config:boolean-or-map? mooncake_kv_store:mooncake? "
     "enable_multiple_frontends:boolean~ num_additional_frontends:integer~ "
     "use_sglang_router:boolean~ enable_config_dump:boolean~ sglang_router_args:map?~ "
     "script_variant:text?~"},
    {"trtllm",
     "type:text prefill_environment:text-map decode_environment:text-map "
     "aggregated_environment:text-map trtllm_config:modes? publish_events_and_metrics:boolean "
     "sequential_node_start:integer numa_memory_bind:boolean?"},
    {"vllm",
     "type:text prefill_environment:text-map decode_environment:text-map "
     "aggregated_environment:text-map vllm_config:modes? set_cuda_visible_devices:boolean "
     "connector:text? mooncake_kv_store:vllm_mooncake? kv_events_config:boolean-or-map? "
     "allow_prefill_decode_colocation:boolean allow_prefill_decode_colocation_across_nodes:boolean "
     "dp_launch_mode:text"},
    {"mocker",
     "type:text prefill_environment:text-map decode_environment:text-map "
     "aggregated_environment:text-map engine_type:text speedup_ratio:number "
     "decode_speedup_ratio:number num_gpu_blocks_override:integer max_num_seqs:integer "
     "max_num_batched_tokens:integer block_size:integer? data_parallel_size:integer "
     "num_workers:integer startup_time:number? kv_transfer_bandwidth:number? kv_cache_dtype:text? "
     "enable_prefix_caching:boolean enable_chunked_prefill:boolean preemption_mode:text? "
     "mocker_config:modes?"},
    {"root",
     "name:text model:model resources:resources slurm:slurm backend:backend frontend:frontend "
     "dynamo:dynamo benchmark:benchmark profiling:profiling output:output "
     "health_check:health_check infra:infra observability:observability telemetry:telemetry "
     "environment:text-map container_mounts:text-map extra_mount:texts? srun_options:text-map "
     "sbatch_directives:text-map enable_config_dump:boolean setup_script:text? identity:identity "
     "reporting:reporting? lock:any?"},
};
/* clang-format on */

static const char *const backends[] = {"sglang", "trtllm", "vllm", "mocker"};

struct schema_key {
    const char *name, *type;
    bool is_nullable;
};

struct schema_check {
    const struct recipe *recipe;
    bool old; /* a recipe whose load is in profiling or its phases */
    struct problem *p;
};

static int schema_types_of(const json_t *v)
{
    const char *text = json_string_value(v);
    double number = json_is_real(v) ? json_real_value(v) : 0;
    char *end = NULL;
    int types = json_is_string(v)    ? TYPE_TEXT
                : json_is_boolean(v) ? TYPE_BOOLEAN
                : json_is_array(v)   ? TYPE_LIST
                : json_is_object(v)  ? TYPE_MAP
                : json_is_null(v)    ? TYPE_NULL
                                     : TYPE_NUMBER;

    if (json_is_integer(v) ||
        (json_is_real(v) && number >= -1e15 && number <= 1e15 && (double)(int64_t)number == number))
        types |= TYPE_INTEGER;
    if (text && *text && (strtoll(text, &end, 10), !*end))
        types |= TYPE_INTEGER;
    if (text && *text && (strtod(text, &end), !*end))
        types |= TYPE_NUMBER;
    return types;
}

static bool schema_has_kind(const json_t *v, const struct schema_kind *kind, bool old)
{
    const char *key;
    size_t i;
    json_t *item;

    if (!(schema_types_of(v) & kind->types)) /* an old "concurrencies" may be one number */
        return old && kind->item_types == TYPE_INTEGER && json_is_integer(v);
    if (kind->item_types == 0)
        return true;
    json_array_foreach((json_t *)v, i, item)
        if (!(schema_types_of(item) & kind->item_types))
            return false;
    json_object_foreach((json_t *)v, key, item)
        if (!(schema_types_of(item) & kind->item_types) && !old)
            return false;
    return true;
}

static const struct schema_kind *schema_kind_of(const char *type)
{
    size_t i = 0;

    while (i + 1 < ARRAY_SIZE(kinds) && !streq(kinds[i].name, type))
        i++;
    return &kinds[i];
}

/* The keys of a section, which borrow from the text: a copy that the caller frees. */
static size_t schema_keys(const struct schema_check *c, const char *section,
                          struct schema_key keys[static SECTION_KEYS_MAX], char **ret_text)
{
    size_t n = 0, s = 0;
    char *rest = NULL;

    while (!streq(sections[s].name, section))
        s++;
    *ret_text = xstrdup(sections[s].keys);
    for (char *word = strtok_r(*ret_text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *type = strchr(word, ':') + 1, *flags = type + strcspn(type, "?~");
        bool is_nullable = strchr(flags, '?'), is_old = strchr(flags, '~');
        type[-1] = *flags = '\0';
        if (c->old || !is_old)
            keys[n++] = (struct schema_key){word, type, is_nullable};
    }
    return n;
}

static int schema_refuse_key(const struct schema_check *c, const struct schema_key *keys, size_t n,
                             const char *where, const char *name)
{
    const char *names[SECTION_KEYS_MAX];

    for (size_t i = 0; i < n; i++)
        names[i] = keys[i].name;
    const char *nearest = nearest_name(name, names, n);
    int r = recipe_refuse(c->recipe, where, c->p, "%s: srtctl has no such key", where);
    if (nearest)
        problem_remedy(c->p, "Did you mean %s?", nearest);
    else
        problem_remedy(c->p, "Remove it, or see docs/config-reference.md of srt-slurm for the keys.");
    return r;
}

static int schema_refuse_value(const struct schema_check *c, const struct schema_kind *kind, const json_t *v,
                               const char *where)
{
    const char *key;
    json_t *item;

    if (kind->types == TYPE_MAP) /* which entry of a section of texts is none */
        json_object_foreach((json_t *)v, key, item) {
            if (json_is_string(item))
                continue;
            _cleanup_(freep) char *path = xasprintf("%s.%s", where, key);
            _cleanup_(freep) char *text = json_dumps(item, JSON_ENCODE_ANY | JSON_COMPACT);
            int r = recipe_refuse(c->recipe, path, c->p, "%s must be a text", path);
            problem_remedy(c->p, "Quote it: %s: \"%.60s\".", key, text);
            return r;
        }
    int r = recipe_refuse(c->recipe, where, c->p, "%s must be %s", where, kind->expected);
    if (json_is_null(v))
        problem_remedy(c->p, "It is empty: remove it, or give it a value.");
    else if (kind->types == TYPE_TEXT && json_is_number(v))
        problem_remedy(c->p, "Quote it.");
    else
        problem_remedy(c->p, "docs/config-reference.md of srt-slurm describes it.");
    return r;
}

static int schema_check_section(const struct schema_check *c, const char *section, const json_t *v,
                                const char *where);

static int schema_check_backend(const struct schema_check *c, const json_t *v, const char *where)
{
    const char *type = json_get_str(v, "type");

    if (!type)
        type = json_is_object(json_object_get(v, "vllm_config")) && c->old ? "vllm" : "sglang";
    for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
        if (streq(type, backends[i]))
            return schema_check_section(c, type, v, where);
    const char *nearest = nearest_name(type, backends, ARRAY_SIZE(backends));
    int r = recipe_refuse(c->recipe, "backend.type", c->p,
                          "backend.type is '%s', but must be one of sglang, trtllm, vllm, mocker", type);
    problem_remedy(c->p, nearest ? "Did you mean %s?" : "profd knows srt-slurm's backends at c88ef73.",
                   nearest);
    return r;
}

static int schema_check_key(const struct schema_check *c, const struct schema_key *key, const json_t *v,
                            const char *where)
{
    const struct schema_kind *kind = schema_kind_of(key->type);

    if (json_is_null(v) && (key->is_nullable || c->old))
        return 0;
    if (!schema_has_kind(v, kind, c->old))
        return schema_refuse_value(c, kind, v, where);
    if (streq(key->type, "backend"))
        return schema_check_backend(c, v, where);
    return streq(kind->name, "section") ? schema_check_section(c, key->type, v, where) : 0;
}

static int schema_check_section(const struct schema_check *c, const char *section, const json_t *v,
                                const char *where)
{
    struct schema_key keys[SECTION_KEYS_MAX];
    _cleanup_(freep) char *text = NULL;
    size_t n = schema_keys(c, section, keys, &text), i;
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)v, name, value) {
        _cleanup_(freep) char *path = *where ? xasprintf("%s.%s", where, name) : xstrdup(name);
        for (i = 0; i < n && !streq(keys[i].name, name); i++)
            ;
        r = i < n ? schema_check_key(c, &keys[i], value, path) : schema_refuse_key(c, keys, n, path, name);
        if (r < 0)
            break;
    }
    return r;
}

int recipe_check_schema(const struct recipe *r, bool old, struct problem *p)
{
    return schema_check_section(&(struct schema_check){.recipe = r, .old = old, .p = p}, "root", r->root, "");
}
