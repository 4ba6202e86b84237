/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/profiler_config.h"

#include "base/alloc.h"
#include "base/units.h"
#include "base/yaml_json.h"
#include "daemon/fleet/engine.h"
#include <ctype.h>

/* vLLM reads its old variables up to 0.15. */
#define VLLM_VARIABLES_END_MINOR 16

#define PROFILER_FLAG            "--profiler-config"

/* Fields of vLLM's ProfilerConfig with their defaults, and the old variables that set some of them. */
static const struct {
    const char *key, *variable;
    size_t offset;
    int fallback;
} vllm_switches[] =
    {
        {"torch_profiler_with_stack", "VLLM_TORCH_PROFILER_WITH_STACK",
         offsetof(struct profiler_setup, with_stack), 1},
        {"torch_profiler_record_shapes", "VLLM_TORCH_PROFILER_RECORD_SHAPES",
         offsetof(struct profiler_setup, record_shapes), 0},
        {"torch_profiler_use_gzip", "VLLM_TORCH_PROFILER_USE_GZIP", offsetof(struct profiler_setup, use_gzip),
         1},
        {"ignore_frontend", "VLLM_TORCH_PROFILER_DISABLE_ASYNC_LLM",
         offsetof(struct profiler_setup, ignore_frontend), 0},
},
  sglang_switches[] = {
      {NULL, "SGLANG_PROFILE_WITH_STACK", offsetof(struct profiler_setup, with_stack), 1},
      {NULL, "SGLANG_PROFILE_RECORD_SHAPES", offsetof(struct profiler_setup, record_shapes), 1},
};

static const struct {
    const char *key, *variable;
    size_t offset;
    int64_t fallback;
} vllm_counts[] = {
    {"delay_iterations", "VLLM_PROFILER_DELAY_ITERS", offsetof(struct profiler_setup, delay_iterations), 0},
    {"max_iterations", "VLLM_PROFILER_MAX_ITERS", offsetof(struct profiler_setup, max_iterations), 0},
    {"wait_iterations", NULL, offsetof(struct profiler_setup, wait_iterations), 0},
    {"warmup_iterations", NULL, offsetof(struct profiler_setup, warmup_iterations), 0},
    {"active_iterations", NULL, offsetof(struct profiler_setup, active_iterations), 5},
};

static int *setup_switch(struct profiler_setup *setup, size_t offset)
{
    return (int *)((char *)setup + offset);
}

static int64_t *setup_count(struct profiler_setup *setup, size_t offset)
{
    return (int64_t *)((char *)setup + offset);
}

static void setup_defaults(struct profiler_setup *setup)
{
    for (size_t i = 0; i < ARRAY_SIZE(vllm_switches); i++)
        *setup_switch(setup, vllm_switches[i].offset) = vllm_switches[i].fallback;
    for (size_t i = 0; i < ARRAY_SIZE(vllm_counts); i++)
        *setup_count(setup, vllm_counts[i].offset) = vllm_counts[i].fallback;
}

void profiler_launch_done(struct profiler_launch *p)
{
    free(p->setup.kind);
    free(p->dir);
    free(p->server);
    free(p->error);
    *p = (struct profiler_launch){0};
}

/*
 * vLLM's parser takes the pairs of the --config file before the command line, the last of equal options wins,
 * and all dotted ones together count as one option after all others.
 */
struct vllm_options {
    json_t *whole, *dotted;
    const char *whole_source, *dotted_source;
    char *error;
};

static void vllm_options_done(struct vllm_options *o)
{
    json_decref(o->whole);
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
static void take_whole(struct vllm_options *o, json_t *value, const char *reason, const char *source)
{
    json_decref(o->whole);
    free(o->error);
    o->whole = value;
    o->whole_source = source;
    o->error = json_is_object(value) ? NULL : xasprintf("%s is not understood: %s", source, reason);
}

static void take_text(struct vllm_options *o, const char *text, const char *source)
{
    char reason[200] = "no JSON object";
    json_t *value = json_parse(text, strlen(text), reason);
    take_whole(o, value, reason, source);
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
            take_whole(o, json_incref(value), "no mapping", source);
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

static void vllm_from_json(const json_t *config, const char *source, struct profiler_launch *ret)
{
    const char *kind = json_get_str(config, "profiler");
    const char *dir =
        json_get_str(config, streq(kind, "proton") ? "proton_profiler_dir" : "torch_profiler_dir");

    setup_defaults(&ret->setup);
    for (size_t i = 0; i < ARRAY_SIZE(vllm_switches); i++) {
        json_t *v = json_object_get(config, vllm_switches[i].key);
        if (v)
            *setup_switch(&ret->setup, vllm_switches[i].offset) = loose_bool(v);
    }
    for (size_t i = 0; i < ARRAY_SIZE(vllm_counts); i++) {
        json_t *v = json_object_get(config, vllm_counts[i].key);
        if (v)
            *setup_count(&ret->setup, vllm_counts[i].offset) = loose_count(v);
    }
    replace_str(&ret->setup.kind, kind);
    replace_str(&ret->dir, dir && *dir ? dir : NULL);
    ret->source = source;
}

/* "0.15.1", "v0.16.0rc1"; what names no release is taken as old enough. */
static bool honours_variables(const char *version)
{
    unsigned major, minor;
    if (!version)
        return true;
    if (sscanf(version + (*version == 'v'), "%3u.%5u", &major, &minor) != 2)
        return true;
    return major == 0 && minor < VLLM_VARIABLES_END_MINOR;
}

static const char *env_set(const struct string_list *env, const char *name)
{
    const char *value = env_value(env, name);
    return value && *value ? value : NULL;
}

/* The old variables override the options. */
static void vllm_from_variables(const struct string_list *env, struct profiler_launch *ret)
{
    static const char *const dir_variable = "VLLM_TORCH_PROFILER_DIR", *const cuda_variable =
                                                                           "VLLM_TORCH_CUDA_PROFILE";
    const char *dir = env_set(env, dir_variable), *cuda = env_set(env, cuda_variable);

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
    for (size_t i = 0; i < ARRAY_SIZE(vllm_switches); i++) {
        const char *value = env_set(env, vllm_switches[i].variable);
        if (value)
            *setup_switch(&ret->setup, vllm_switches[i].offset) = !streq(value, "0");
    }
    for (size_t i = 0; i < ARRAY_SIZE(vllm_counts); i++) {
        const char *value = vllm_counts[i].variable ? env_set(env, vllm_counts[i].variable) : NULL;
        if (value && strspn(value, "0123456789") == strlen(value))
            *setup_count(&ret->setup, vllm_counts[i].offset) = strtoll(value, NULL, 10);
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
    else if (json_is_object(options.whole))
        vllm_from_json(options.whole, options.whole_source, ret);
    else
        ret->error = TAKE_PTR(options.error);
    if (honours_variables(version))
        vllm_from_variables(&launch->env, ret);
}

void sglang_read_launch(const char *version, const struct worker_launch *launch, struct profiler_launch *ret)
{
    static const char *const dir_variable = "SGLANG_TORCH_PROFILER_DIR";
    const char *dir = env_set(&launch->env, dir_variable);

    if (!launch->env.data)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(sglang_switches); i++) {
        const char *value = env_value(&launch->env, sglang_switches[i].variable);
        int on = sglang_switches[i].fallback;
        if (value)
            on = strcasecmp(value, "true") == 0 || streq(value, "1");
        *setup_switch(&ret->setup, sglang_switches[i].offset) = on;
    }
    ret->setup.use_gzip = 1;
    ret->setup.kind = xstrdup("torch");
    ret->dir = xstrdup(dir);
    ret->source = dir ? dir_variable : NULL;
}

/* A switch of its parser, which stands for itself or has a value; -1: it is not there. */
static int rtp_llm_switch(const struct worker_launch *launch, const char *flag, const char *variable)
{
    const char *value = flag_value(&launch->args, flag), *set = env_set(&launch->env, variable);
    int on;

    if (flag_is_there(&launch->args, flag))
        return value && parse_bool(value, &on) == 0 ? on : 1;
    return set && parse_bool(set, &on) == 0 ? on : -1;
}

/* An option beats its variable. */
void rtp_llm_read_launch(const char *version, const struct worker_launch *launch, struct profiler_launch *ret)
{
    static const char *const dir_flag = "--torch-cuda-profiler-dir", *const dir_variable =
                                                                         "TORCH_CUDA_PROFILER_DIR";
    const char *flag = flag_value(&launch->args, dir_flag), *variable = env_set(&launch->env, dir_variable);
    int each_request = rtp_llm_switch(launch, "--gen-timeline-sync", "GEN_TIMELINE_SYNC");

    if (!flag && !variable && each_request < 0)
        return;
    ret->setup.kind = xstrdup("torch");
    ret->setup.each_request = each_request;
    ret->dir = xstrdup(flag ? flag : variable);
    ret->source = flag ? dir_flag : dir_variable;
}

void profiler_launch_read(enum engine engine, const char *version, const struct worker_launch *launch,
                          struct profiler_launch *ret)
{
    const struct engine_ops *ops = engine_ops(engine);
    struct worker unknown;

    worker_init(&unknown);
    *ret = (struct profiler_launch){.setup = unknown.setup};
    if (ops && ops->read_launch)
        ops->read_launch(version, launch, ret);
}

bool path_is_uri(const char *path)
{
    const char *mark = strstr(path, "://");
    return mark && mark - path > 1 && !memchr(path, '/', (size_t)(mark - path));
}

/* Takes ".", ".." and doubled slashes out of an absolute path, in place. */
static void path_squeeze(char *path)
{
    char *out = path;
    for (const char *in = path; *in;) {
        const char *part = in + strspn(in, "/");
        size_t n = strcspn(part, "/");
        in = part + n;
        if (n == 0 || (n == 1 && part[0] == '.'))
            continue;
        if (n == 2 && part[0] == '.' && part[1] == '.') {
            while (out > path && *--out != '/')
                ;
            continue;
        }
        *out++ = '/';
        memmove(out, part, n);
        out += n;
    }
    if (out == path)
        *out++ = '/';
    *out = '\0';
}

char *path_absolute(const char *path, const char *cwd, const char *home)
{
    char *absolute;
    if (path[0] == '/')
        absolute = xstrdup(path);
    else if (path[0] == '~' && (path[1] == '/' || path[1] == '\0'))
        absolute = home && home[0] == '/' ? xasprintf("%s/%s", home, path + 1) : NULL;
    else
        absolute = cwd && cwd[0] == '/' ? xasprintf("%s/%s", cwd, path) : NULL;
    if (absolute)
        path_squeeze(absolute);
    return absolute;
}
