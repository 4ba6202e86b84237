/* SPDX-License-Identifier: Apache-2.0 */
/* How vLLM's profiler was set at its launch: by --profiler-config, in any of its forms, or by its old variables. */
#include "base/alloc.h"
#include "base/units.h"
#include "base/yaml_json.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/engine_version.h"
#include "daemon/fleet/profiler_config.h"
#include <ctype.h>

/* From here on vLLM does not read its old variables (vllm#33536). */
static const struct version_change vllm_ignores_variables = {"0.16.0.dev0", "0.16.0.dev0"};
/* Names of activities that are kept; torch has four. */
#define ACTIVITIES_MAX 8

#define PROFILER_FLAG  "--profiler-config"

#define FIELD(f)       offsetof(struct profiler_setup, f)

/* Fields of vLLM's ProfilerConfig with their defaults, and the old variables that set some of them. */
static const struct {
    const char *key, *variable;
    size_t offset;
    int64_t fallback;
    bool is_switch;
} vllm_fields[] = {
    {"torch_profiler_with_stack", "VLLM_TORCH_PROFILER_WITH_STACK", FIELD(with_stack), 1, true},
    {"torch_profiler_record_shapes", "VLLM_TORCH_PROFILER_RECORD_SHAPES", FIELD(record_shapes), 0, true},
    {"torch_profiler_use_gzip", "VLLM_TORCH_PROFILER_USE_GZIP", FIELD(use_gzip), 1, true},
    {"ignore_frontend", "VLLM_TORCH_PROFILER_DISABLE_ASYNC_LLM", FIELD(ignore_frontend), 0, true},
    {"delay_iterations", "VLLM_PROFILER_DELAY_ITERS", FIELD(delay_iterations), 0, false},
    {"max_iterations", "VLLM_PROFILER_MAX_ITERS", FIELD(max_iterations), 0, false},
    {"wait_iterations", NULL, FIELD(wait_iterations), 0, false},
    {"warmup_iterations", NULL, FIELD(warmup_iterations), 0, false},
    {"active_iterations", NULL, FIELD(active_iterations), 5, false},
};

static void setup_defaults(struct profiler_setup *setup)
{
    for (size_t i = 0; i < ARRAY_SIZE(vllm_fields); i++)
        *setup_value(setup, vllm_fields[i].offset) = vllm_fields[i].fallback;
}

/*
 * vLLM's parser takes the pairs of the --config file before the command line, the last of equal options wins,
 * and all dotted ones together count as one option after all others.
 */
struct vllm_options {
    json_t *complete, *dotted;
    const char *complete_source, *dotted_source;
    char *error;
};

static void vllm_options_done(struct vllm_options *o)
{
    json_decref(o->complete);
    json_decref(o->dotted);
    free(o->error);
}

/*
 * The option's name as far as n bytes: true where it is the profiler's, with what follows its first dot
 * ("" for none) in ret_key. Underscores are dashes ahead of the dot.
 */
static bool is_profiler_option(const char *name, size_t n, const char **ret_key, size_t *ret_key_size)
{
    const char *flag = PROFILER_FLAG;
    size_t length = strlen(flag);

    if (n < length || (n > length && name[length] != '.'))
        return false;
    for (size_t i = 0; i < length; i++)
        if ((name[i] == '_' ? '-' : name[i]) != flag[i])
            return false;
    *ret_key = name + MIN(n, length + 1);
    *ret_key_size = n - (size_t)(*ret_key - name);
    return true;
}

/* Takes the value (and its reference), or the reason why there is none, of the complete option. */
static void take_complete(struct vllm_options *o, json_t *value, const char *reason, const char *source)
{
    json_decref(o->complete);
    free(o->error);
    o->complete = value;
    o->complete_source = source;
    o->error = json_is_object(value) ? NULL : xasprintf("%s is not understood: %s", source, reason);
}

static void take_text(struct vllm_options *o, const char *text, const char *source)
{
    char reason[200] = "no JSON object";
    json_t *value = json_parse(text, strlen(text), reason);
    take_complete(o, value, reason, source);
}

static void take_dotted(struct vllm_options *o, const char *key, size_t key_size, json_t *value,
                        const char *source)
{
    _cleanup_(freep) char *name = xstrndup(key, key_size);
    if (!o->dotted)
        o->dotted = json_object();
    o->dotted_source = source;
    json_object_set_new(o->dotted, name, value);
}

/* A dotted value is JSON where it can be, text where not. */
static json_t *dotted_value(const char *text)
{
    char reason[200];
    json_t *value = json_parse(text, strlen(text), reason);
    return value ? value : json_text(text);
}

static void take_arguments(struct vllm_options *o, const struct string_list *args)
{
    const char *key;
    size_t key_size;

    for (const char *arg = string_list_next(args, NULL); arg; arg = string_list_next(args, arg)) {
        size_t n = strcspn(arg, "=");
        if (!is_profiler_option(arg, n, &key, &key_size))
            continue;
        const char *value = arg[n] == '=' ? arg + n + 1 : string_list_next(args, arg);
        if (!value)
            return;
        if (key_size > 0)
            take_dotted(o, key, key_size, dotted_value(value), "--profiler-config.*");
        else
            take_text(o, value, PROFILER_FLAG);
        if (arg[n] != '=')
            arg = value;
    }
}

static void take_config_file(struct vllm_options *o, const char *data, size_t size)
{
    static const char *const source = PROFILER_FLAG " in the --config file";
    char reason[200];
    _cleanup_json_ root = yaml_parse(data, size, reason);
    const char *name, *key;
    size_t key_size;
    json_t *value;

    if (!json_is_object(root)) {
        o->error = xasprintf("the --config file is not understood: %s", root ? "no mapping" : reason);
        return;
    }
    json_object_foreach(root, name, value) {
        _cleanup_(freep) char *option = xasprintf("--%s", name);
        if (!is_profiler_option(option, strlen(option), &key, &key_size))
            continue;
        if (key_size > 0)
            take_dotted(o, key, key_size, json_incref(value), source);
        else if (json_is_string(value))
            take_text(o, json_string_value(value), source);
        else
            take_complete(o, json_incref(value), "no mapping", source);
    }
}

/* pydantic takes booleans in many spellings; -1 for none of them. */
static int loose_bool(const json_t *v)
{
    int value;
    if (json_is_boolean(v))
        return json_is_true(v);
    if (json_is_integer(v))
        return json_integer_value(v) != 0;
    if (json_is_string(v)) {
        _cleanup_(freep) char *word = xstrdup(json_string_value(v));
        for (char *c = word; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        return parse_bool(word, &value) == 0 ? value : -1;
    }
    return -1;
}

static int64_t loose_count(const json_t *v)
{
    if (json_is_integer(v))
        return json_integer_value(v) >= 0 ? json_integer_value(v) : -1;
    if (!json_is_string(v))
        return -1;
    const char *text = json_string_value(v);
    return *text && strspn(text, "0123456789") == strlen(text) ? strtoll(text, NULL, 10) : -1;
}

const char *vllm_dir_key(const char *kind)
{
    return streq(kind, "proton") ? "proton_profiler_dir" : "torch_profiler_dir";
}

char *vllm_activities(const json_t *names)
{
    char *text = NULL;
    size_t i;
    json_t *name;

    json_array_foreach((json_t *)names, i, name) {
        if (!json_is_string(name) || i == ACTIVITIES_MAX)
            break;
        _cleanup_(freep) char *before = text;
        text = xasprintf("%s%s%s", before ? before : "", before ? "," : "", json_string_value(name));
    }
    return text;
}

static void vllm_from_json(const json_t *config, const char *source, struct profiler_launch *ret)
{
    const char *kind = json_get_str(config, "profiler");
    const char *dir = json_get_str(config, vllm_dir_key(kind));

    setup_defaults(&ret->setup);
    for (size_t i = 0; i < ARRAY_SIZE(vllm_fields); i++) {
        const json_t *v = json_object_get(config, vllm_fields[i].key);
        if (v)
            *setup_value(&ret->setup, vllm_fields[i].offset) =
                vllm_fields[i].is_switch ? loose_bool(v) : loose_count(v);
    }
    replace_str(&ret->setup.kind, kind);
    free(ret->setup.activities);
    ret->setup.activities = vllm_activities(json_object_get(config, VLLM_ACTIVITIES_KEY));
    replace_str(&ret->dir, dir && *dir ? dir : NULL);
    ret->source = source;
}

/* The old variables override the options. */
static void vllm_from_variables(const struct worker_launch *launch, struct profiler_launch *ret)
{
    static const char dir_variable[] = "VLLM_TORCH_PROFILER_DIR", cuda_variable[] = "VLLM_TORCH_CUDA_PROFILE";
    const char *dir = launch_variable(launch, dir_variable), *cuda = launch_variable(launch, cuda_variable);

    if (streq(cuda, "1")) {
        setup_defaults(&ret->setup);
        replace_str(&ret->setup.kind, "cuda");
        replace_str(&ret->dir, NULL);
        ret->source = cuda_variable;
        return;
    }
    if (!dir && !ret->source)
        return;
    if (dir) {
        if (!ret->source)
            setup_defaults(&ret->setup);
        replace_str(&ret->setup.kind, "torch");
        replace_str(&ret->dir, dir);
        ret->source = dir_variable;
    }
    for (size_t i = 0; i < ARRAY_SIZE(vllm_fields); i++) {
        const char *value = vllm_fields[i].variable ? launch_variable(launch, vllm_fields[i].variable) : NULL;
        if (value && vllm_fields[i].is_switch)
            *setup_value(&ret->setup, vllm_fields[i].offset) = !streq(value, "0");
        else if (value && strspn(value, "0123456789") == strlen(value))
            *setup_value(&ret->setup, vllm_fields[i].offset) = strtoll(value, NULL, 10);
    }
}

void vllm_read_launch(const char *version, const struct worker_launch *launch, struct profiler_launch *ret)
{
    _cleanup_(vllm_options_done) struct vllm_options options = {0};

    if (launch->config)
        take_config_file(&options, launch->config, launch->config_size);
    else
        options.error = xstrdup(launch->config_error);
    take_arguments(&options, &launch->args);
    if (options.dotted)
        vllm_from_json(options.dotted, options.dotted_source, ret);
    else if (json_is_object(options.complete))
        vllm_from_json(options.complete, options.complete_source, ret);
    else
        ret->error = TAKE_PTR(options.error);
    if (version_has(version, &vllm_ignores_variables) != VERSION_YES)
        vllm_from_variables(launch, ret);
}
