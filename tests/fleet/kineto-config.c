/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration text as libkineto's src/AbstractConfig.cpp and src/Config.cpp parse it: `#` begins a comment
 * anywhere, an unknown key is a warning, and a second `=` or a bad value ends parsing without taking back what was
 * read.
 */
#include "base/alloc.h"
#include "tests/fleet/kineto-client.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <strings.h>

#define DURATION_DEFAULT_MS 500
#define WARMUP_DEFAULT_MS   5000
#define REQUEST_AGE_MAX_MS  10000
#define MS_PER_S            1000
#define DEFAULT_TRACE_DIR   "/tmp/"

struct config_parser {
    const struct client_options *options;
    struct client_config *config;
    const char *allowed_dir; /* ends in '/' */
};

typedef bool config_take(struct config_parser *p, const char *key, const char *value);

static bool parse_number(const char *value, int64_t max, int64_t *ret)
{
    char *end;
    long long v = strtoll(value, &end, 10);

    if (!*value || *end || v < 0 || v > max) {
        client_log("Failed to parse config: Invalid integer: %s", value);
        return false;
    }
    *ret = v;
    return true;
}

static bool parse_bool(const char *value, bool *ret)
{
    static const char *const words[] = {"n", "y", "no", "yes", "f", "t", "false", "true", "0", "1"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcasecmp(value, words[i]) == 0) {
            *ret = i % 2 == 1;
            return true;
        }
    client_log("Failed to parse config: Invalid bool argument: %s", value);
    return false;
}

/* Puts "_PID" before the first `mark` of the path. */
static char *insert_pid(const char *path, const char *mark, int pid)
{
    const char *at = strstr(path, mark);
    return at ? xasprintf("%.*s_%d%s", (int)(at - path), path, pid, at) : NULL;
}

static bool take_log_file(struct config_parser *p, const char *key, const char *value)
{
    (void)key;
    if (p->options->release->restricts && (!starts_with(value, p->allowed_dir) || strstr(value, ".."))) {
        client_log(
            "Ignoring on-demand ACTIVITIES_LOG_FILE outside allowed directory %s: %s (trace will use the "
            "default path)",
            p->allowed_dir, value);
        return true;
    }
    free(p->config->log_file);
    p->config->log_file = insert_pid(value, ".pt.trace.json", p->options->pid);
    if (!p->config->log_file)
        p->config->log_file = insert_pid(value, ".json", p->options->pid);
    if (!p->config->log_file)
        p->config->log_file = xstrdup(value);
    return true;
}

static bool take_start_time(struct config_parser *p, const char *key, const char *value)
{
    int64_t start_ms, now_ms = wall_ns() / NS_PER_MS;

    (void)key;
    if (!parse_number(value, INT64_MAX, &start_ms))
        return false;
    if (start_ms != 0 && now_ms - start_ms > REQUEST_AGE_MAX_MS) {
        client_log("Failed to parse config: Invalid PROFILE_START_TIME: %s - start time is more than 10s in "
                   "the past",
                   value);
        return false;
    }
    p->config->start_ms = start_ms;
    return true;
}

static bool take_duration(struct config_parser *p, const char *key, const char *value)
{
    if (!parse_number(value, INT_MAX, &p->config->duration_ms))
        return false;
    if (streq(key, "ACTIVITIES_DURATION_SECS"))
        p->config->duration_ms *= MS_PER_S;
    return true;
}

static bool take_warmup(struct config_parser *p, const char *key, const char *value)
{
    (void)key;
    if (!parse_number(value, INT_MAX, &p->config->warmup_ms))
        return false;
    p->config->warmup_ms *= MS_PER_S;
    return true;
}

static bool take_start_iteration(struct config_parser *p, const char *key, const char *value)
{
    (void)key;
    return parse_number(value, INT_MAX, &p->config->start_iteration);
}

static bool take_iterations(struct config_parser *p, const char *key, const char *value)
{
    (void)key;
    return parse_number(value, INT_MAX, &p->config->iterations);
}

static bool take_enabled(struct config_parser *p, const char *key, const char *value)
{
    (void)key;
    return parse_bool(value, &p->config->enabled);
}

static bool take_stack(struct config_parser *p, const char *key, const char *value)
{
    (void)key;
    return parse_bool(value, &p->config->with_stack);
}

static bool take_shapes(struct config_parser *p, const char *key, const char *value)
{
    (void)key;
    return parse_bool(value, &p->config->with_shapes);
}

static bool take_trace_id(struct config_parser *p, const char *key, const char *value)
{
    (void)key;
    replace_str(&p->config->trace_id, value);
    return true;
}

/* include/ActivityType.h */
static bool is_activity(const char *name)
{
    static const char *const names[] = {"cpu_op",
                                        "user_annotation",
                                        "gpu_user_annotation",
                                        "gpu_memcpy",
                                        "gpu_memset",
                                        "kernel",
                                        "external_correlation",
                                        "cuda_runtime",
                                        "cuda_driver",
                                        "cpu_instant_event",
                                        "python_function",
                                        "overhead",
                                        "mtia_runtime",
                                        "mtia_ccp_events",
                                        "mtia_insight",
                                        "cuda_sync",
                                        "cuda_event",
                                        "mtia_counters",
                                        "glow_runtime",
                                        "cuda_profiler_range",
                                        "hpu_op",
                                        "xpu_runtime",
                                        "xpu_driver",
                                        "collective_comm",
                                        "privateuse1_runtime",
                                        "privateuse1_driver",
                                        "xpu_scope_profiler",
                                        "xpu_sync",
                                        "hardware_counters"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool take_types(struct config_parser *p, const char *key, const char *value)
{
    _cleanup_(freep) char *list = xstrdup(value);
    char *rest = list, *word;

    (void)key;
    p->config->has_types = false;
    while ((word = strsep(&rest, ","))) {
        while (isspace((unsigned char)*word))
            word++;
        size_t n = strlen(word);
        while (n > 0 && isspace((unsigned char)word[n - 1]))
            word[--n] = '\0';
        if (n == 0)
            continue;
        if (!is_activity(word)) {
            client_log("Failed to parse config: Invalid activity type: %s", word);
            return false;
        }
        p->config->has_types = true;
    }
    return true;
}

static bool take_number(struct config_parser *p, const char *key, const char *value)
{
    int64_t ignored;

    (void)p, (void)key;
    return parse_number(value, INT_MAX, &ignored);
}

static bool take_bool(struct config_parser *p, const char *key, const char *value)
{
    bool ignored;

    (void)p, (void)key;
    return parse_bool(value, &ignored);
}

static bool take_text(struct config_parser *p, const char *key, const char *value)
{
    (void)p, (void)key, (void)value;
    return true;
}

static const struct {
    const char *key;
    config_take *take;
} keys[] = {
    {"ACTIVITIES_LOG_FILE", take_log_file},
    {"PROFILE_START_TIME", take_start_time},
    {"ACTIVITIES_DURATION_MSECS", take_duration},
    {"ACTIVITIES_DURATION_SECS", take_duration},
    {"ACTIVITIES_WARMUP_PERIOD_SECS", take_warmup},
    {"PROFILE_START_ITERATION", take_start_iteration},
    {"PROFILE_START_ITERATION_ROUNDUP", take_number},
    {"ACTIVITIES_ITERATIONS", take_iterations},
    {"ACTIVITIES_WARMUP_ITERATIONS", take_number},
    {"ACTIVITIES_ENABLED", take_enabled},
    {"ACTIVITY_TYPES", take_types},
    {"ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB", take_number},
    {"ACTIVITIES_DISPLAY_CUDA_SYNC_WAIT_EVENTS", take_bool},
    {"REQUEST_TRACE_ID", take_trace_id},
    {"REQUEST_GROUP_TRACE_ID", take_text},
    {"ROCTRACER_MAX_EVENTS", take_number},
    {"CLIENT_INTERFACE_ENABLE_OP_INPUTS_COLLECTION", take_shapes},
    {"PYTHON_STACK_TRACE", take_stack},
    {"PROFILE_REPORT_INPUT_SHAPES", take_shapes},
    {"PROFILE_PROFILE_MEMORY", take_bool},
    {"PROFILE_WITH_STACK", take_stack},
    {"PROFILE_WITH_FLOPS", take_bool},
    {"PROFILE_WITH_MODULES", take_bool},
    {"PROFILE_MEMORY", take_bool},
    {"PROFILE_MEMORY_DURATION_MSECS", take_number},
    {"CUPTI_PER_THREAD_BUFFER_ENABLED", take_bool},
    {"CUPTI_PM_SAMPLING_METRICS", take_text},
    {"CUPTI_PM_SAMPLING_DEVICE_ID", take_number},
    {"ENABLE_IPC_FABRIC", take_bool},
    {"ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS", take_number},
    {"VERBOSE_LOG_LEVEL", take_number},
    {"VERBOSE_LOG_MODULES", take_text},
    {"CUSTOM_CONFIG", take_text},
};

static bool is_white(char c)
{
    return c == '\t' || c == '\n' || c == ' '; /* kWhitespace: a carriage return is part of the value */
}

static char *trim(char *s)
{
    size_t n;

    while (is_white(*s))
        s++;
    for (n = strlen(s); n > 0 && is_white(s[n - 1]); n--)
        s[n - 1] = '\0';
    return s;
}

static bool take_line(struct config_parser *p, char *line)
{
    char *comment = strchr(line, '#');

    if (comment)
        *comment = '\0';
    if (!*trim(line))
        return true;
    char *value = strchr(line, '=');
    if (!value || strchr(value + 1, '=')) {
        client_log("Invalid config line: %s", line);
        return false;
    }
    *value++ = '\0';
    const char *key = trim(line);
    value = trim(value);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (streq(keys[i].key, key))
            return keys[i].take(p, key, value);
    client_log("Unrecognized config line: %s=%s", key, value);
    return true;
}

bool client_config_parse(const char *text, size_t size, const struct client_options *o,
                         struct client_config *ret)
{
    const char *environment = getenv("KINETO_ONDEMAND_TRACE_DIR");
    const char *dir = environment && *environment ? environment : DEFAULT_TRACE_DIR;
    _cleanup_(freep) char *allowed = xasprintf("%s%s", dir, ends_with(dir, "/") ? "" : "/");
    _cleanup_(freep) char *copy = xstrndup(text, size);
    struct config_parser parser = {.options = o, .config = ret, .allowed_dir = allowed};
    int64_t received_ms = wall_ns() / NS_PER_MS;
    char *rest = copy, *line;

    *ret = (struct client_config){.log_file = xasprintf("/tmp/libkineto_activities_%d.json", o->pid),
                                  .duration_ms = DURATION_DEFAULT_MS,
                                  .warmup_ms = WARMUP_DEFAULT_MS,
                                  .start_iteration = -1,
                                  .enabled = true};
    while ((line = strsep(&rest, "\n")))
        if (!take_line(&parser, line))
            return false;
    /* Config::validate(): not reached by a text that does not parse to its end. */
    if (ret->start_ms == 0)
        ret->start_ms = received_ms + ret->warmup_ms + 2 * MS_PER_S;
    ret->has_types = true;
    return true;
}

void client_config_done(struct client_config *c)
{
    free(c->log_file);
    free(c->trace_id);
    *c = (struct client_config){0};
}
