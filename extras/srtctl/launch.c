/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After srt-slurm: src/srtctl/core/schema.py (get_nsys_prefix), cli/mixins/worker_stage.py and backends/ at
 * c88ef73, and src/srtctl/backends/sglang.py at a1a219a for recipes whose load is in the phases.
 */
#include "extras/srtctl/launch.h"

#include "base/alloc.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#define PROFILES_DIR "/logs/profiles"

/* -- Words -------------------------------------------------------------------------------------------- */

static void launch_append(struct recipe_launch *l, char *take_text, bool expands)
{
    VEC_GROW(l->words, l->n_words, l->cap_words);
    l->words[l->n_words++] = (struct launch_word){take_text, expands};
}

void launch_add(struct recipe_launch *l, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    launch_append(l, xvasprintf(format, ap), false);
    va_end(ap);
}

void launch_add_expanding(struct recipe_launch *l, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    launch_append(l, xvasprintf(format, ap), true);
    va_end(ap);
}

void launch_add_option(struct recipe_launch *l, const char *option, const char *format, ...)
{
    va_list ap;

    launch_add(l, "%s", option);
    va_start(ap, format);
    launch_append(l, xvasprintf(format, ap), false);
    va_end(ap);
}

static void launch_add_all(struct recipe_launch *l, const char *const *words)
{
    for (; *words; words++)
        launch_add(l, "%s", *words);
}

void launch_set_value(struct recipe_launch *l, const char *name, const char *value, bool expands)
{
    size_t n = strlen(name), i = 0;

    while (i < l->n_environment &&
           !(strncmp(l->environment[i].text, name, n) == 0 && l->environment[i].text[n] == '='))
        i++;
    if (i == l->n_environment) {
        VEC_GROW(l->environment, l->n_environment, l->cap_environment);
        l->n_environment++;
    } else {
        free(l->environment[i].text);
    }
    l->environment[i] = (struct launch_word){xasprintf("%s=%s", name, value), expands};
}

void launch_set(struct recipe_launch *l, const char *name, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *value = xvasprintf(format, ap);
    va_end(ap);
    launch_set_value(l, name, value, false);
}

void launch_done(struct recipe_launch *l)
{
    for (size_t i = 0; i < l->n_environment; i++)
        free(l->environment[i].text);
    for (size_t i = 0; i < l->n_words; i++)
        free(l->words[i].text);
    free(l->environment);
    free(l->words);
    *l = (struct recipe_launch){0};
}

/* In order of their names; those of `dropped` (with dashes) are left out, and those that are null or false. */
void launch_add_flags(struct recipe_launch *l, const json_t *config, const char *const *dropped)
{
    size_t n = 0, k;
    _cleanup_(freep) const char **keys = recipe_sorted_keys(config, &n);
    json_t *item;

    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(config, keys[i]);
        _cleanup_(freep) char *name = xstrdup(keys[i]);
        bool leave = json_is_null(value) || json_is_false(value);
        for (char *c = name; *c; c++)
            if (*c == '_')
                *c = '-';
        for (const char *const *d = dropped; *d; d++)
            leave = leave || streq(*d, name);
        if (leave)
            continue;
        launch_add(l, "--%s", name);
        json_array_foreach((json_t *)value, k, item)
            launch_append(l, recipe_value_text(item), false);
        if (!json_is_array(value) && !json_is_true(value))
            launch_append(l, recipe_value_text(value), false);
    }
}

/* -- nsys --------------------------------------------------------------------------------------------- */

static const char *const nsys_range[] = {"-c", "cudaProfilerApi", "--capture-range-end", "stop", NULL};
static const char *const nsys_options[] = {"-t", "cuda,nvtx", "--cuda-graph-trace=node", NULL};
static const char *const nsys_trtllm_options[] = {"-t", "cuda,nvtx,ucx", "--sample=none",
                                                  "--cuda-graph-trace=node", NULL};
static const char *const nsys_force[] = {"--force-overwrite", "true", NULL};
static const char *const nsys_trtllm_end[] = {"--kill", "none", "--wait", "all", "--force-overwrite",
                                              "true",   NULL};

static void launch_add_nsys(const struct recipe *r, const struct launch_target *target,
                            struct recipe_launch *l)
{
    bool trtllm = streq(r->backend, "trtllm");
    const char *mode = recipe_mode_short_name(target->mode);
    size_t i;
    json_t *word;

    launch_add_option(l, "nsys", "profile");
    launch_add_all(l, trtllm ? nsys_trtllm_options : nsys_options);
    if (r->type != RECIPE_NSYS_TIME)
        launch_add_all(l, nsys_range);
    if (!trtllm)
        launch_add_all(l, nsys_force);
    if (r->type == RECIPE_NSYS_TIME) {
        launch_add_option(l, "--delay", "%" PRId64, r->delay_secs);
        launch_add_option(l, "--duration", "%" PRId64, r->duration_secs);
    }
    json_array_foreach((json_t *)r->extra_nsys_args, i, word)
        launch_append(l, recipe_value_text(word), false);
    if (trtllm)
        launch_add_all(l, nsys_trtllm_end);
    else if (r->generation == RECIPE_LOAD_IN_BENCHMARK && streq(r->frontend, "dynamo"))
        launch_add(l, "--trace-fork-before-exec=true");
    launch_add(l, "-o");
    if (r->generation == RECIPE_LOAD_IN_PHASE) {
        launch_add(l, PROFILES_DIR "/%s_%" PRId64, mode, target->rank);
        return;
    }
    _cleanup_(freep) char *gpus = worker_gpu_list(r, target, '-');
    char *base = xasprintf(PROFILES_DIR "/%s/%s_%s_w%" PRId64 "_profile_gpu%s", mode,
                           target->node ? target->node : "${SLURMD_NODENAME}", mode, target->worker, gpus);
    launch_append(l, base, target->node == NULL);
}

/* -- The worker --------------------------------------------------------------------------------------- */

/* A shell runs the line: what is no name of a variable would be a command. */
int launch_check_variable(const struct recipe *r, const char *where, const char *name, struct problem *p)
{
    const char *c = name;

    while (isalpha((unsigned char)*c) || *c == '_' || (c > name && isdigit((unsigned char)*c)))
        c++;
    if (c > name && *c == '\0')
        return 0;
    return recipe_refuse(r, where, p, "'%s' is not the name of an environment variable", name);
}

void launch_set_steps(const struct recipe_phase *phase, struct recipe_launch *l)
{
    launch_set(l, "TLLM_PROFILE_START_STOP", "%" PRId64 "-%" PRId64, phase->start_step, phase->stop_step);
    launch_set(l, "TLLM_LLMAPI_ENABLE_NVTX", "1");
}

static int launch_set_environment(const struct recipe *r, const struct launch_target *target,
                                  struct recipe_launch *l, struct problem *p)
{
    const char *name;
    json_t *value;

    if (r->generation == RECIPE_LOAD_IN_BENCHMARK)
        return worker_set_environment(r, target, l, p);
    json_object_foreach((json_t *)r->phases[target->mode].environment, name, value) {
        if (launch_check_variable(r, "backend", name, p) < 0)
            return -EINVAL;
        _cleanup_(freep) char *text = recipe_value_text(value);
        launch_set_value(l, name, text, false);
    }
    if (r->type != RECIPE_NSYS_TIME && recipe_is_nsys(r) && streq(r->backend, "trtllm"))
        launch_set_steps(&r->phases[target->mode], l);
    return 0;
}

/* Until January 2026: sglang.launch_server serves alone, so it has no --disaggregation-mode of dynamo's, and dumps no
 * configuration. */
static void launch_add_old_sglang(const struct recipe *r, const struct launch_target *target,
                                  struct recipe_launch *l)
{
    static const char *const dropped[] = {"disaggregation-mode", "dump-config-to", NULL};
    const struct recipe_phase *phase = &r->phases[target->mode];
    int64_t nodes = MAX(phase->nodes, 1) / MAX(phase->workers, 1);

    launch_add_all(l, (const char *const[]){"python3", "-m", "sglang.launch_server", NULL});
    launch_add_flags(l, phase->config, dropped);
    if (nodes > 1) {
        launch_add(l, "--dist-init-addr");
        launch_add_expanding(l, "${HOST_IP_MACHINE}:${PORT}");
        launch_add_option(l, "--nnodes", "%" PRId64, nodes);
        launch_add_option(l, "--node-rank", "%" PRId64, target->rank);
    }
}

static void launch_add_old_vllm(const struct recipe *r, const struct launch_target *target,
                                struct recipe_launch *l)
{
    static const char *const dropped[] = {"connector", NULL};
    const struct recipe_phase *phase = &r->phases[target->mode];

    launch_add_all(l, (const char *const[]){"vllm", "serve", r->model_path ? r->model_path : "/model", NULL});
    launch_add_flags(l, phase->config, dropped);
    if (r->type == RECIPE_NSYS)
        launch_add_option(l, "--profiler-config", RECIPE_VLLM_WINDOW, phase->start_step,
                          phase->stop_step - phase->start_step);
}

static int launch_add_worker(const struct recipe *r, const struct launch_target *target,
                             struct recipe_launch *l, struct problem *p)
{
    if (r->generation == RECIPE_LOAD_IN_BENCHMARK)
        return worker_add_command(r, target, l, p);
    if (streq(r->backend, "sglang"))
        launch_add_old_sglang(r, target, l);
    else if (streq(r->backend, "vllm"))
        launch_add_old_vllm(r, target, l);
    else
        return launch_refuse_command(r, target, "is not in the recipe", p);
    return 0;
}

int launch_refuse_command(const struct recipe *r, const struct launch_target *target, const char *why,
                          struct problem *p)
{
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s: the command of a worker of %s %s", r->path, r->backend,
                why);
    problem_remedy(
        p, "Append the command after --: profctl nsys-command --recipe %s --mode %s -- trtllm-serve ...",
        r->path, recipe_mode_name(target->mode));
    return -EINVAL;
}

/* What both commands begin with: the checks, and the environment. */
static int launch_begin(const struct recipe *r, const struct launch_target *target, bool fits_type,
                        const char *needed, const char *remedy, struct recipe_launch *l, struct problem *p)
{
    if (!fits_type) {
        recipe_refuse(r, "profiling.type", p, "profiling.type is %s, %s", recipe_type_name(r->type), needed);
        problem_remedy(p, "%s", remedy);
        return -EINVAL;
    }
    if (r->disaggregated == (target->mode == RECIPE_AGGREGATED)) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s has no %s workers", r->path,
                    recipe_mode_name(target->mode));
        problem_remedy(p, "Its modes are %s.", r->disaggregated ? "prefill and decode" : "aggregated");
        return -EINVAL;
    }
    if (r->generation == RECIPE_LOAD_IN_BENCHMARK && worker_check_target(r, target, p) < 0)
        return -EINVAL;
    return launch_set_environment(r, target, l, p);
}

int launch_nsys(const struct recipe *r, const struct launch_target *target, int n_command,
                char *const *command, struct recipe_launch *ret, struct problem *p)
{
    _cleanup_(launch_done) struct recipe_launch l = {0};

    if (launch_begin(r, target, recipe_is_nsys(r), "which needs no nsys",
                     "Set it to nsys or nsys-time; profctl torch-command is for torch.", &l, p) < 0)
        return -EINVAL;
    launch_add_nsys(r, target, &l);
    for (int i = 0; i < n_command; i++)
        launch_add(&l, "%s", command[i]);
    if (n_command == 0 && launch_add_worker(r, target, &l, p) < 0)
        return -EINVAL;
    *ret = l;
    l = (struct recipe_launch){0};
    return 0;
}

int launch_torch(const struct recipe *r, const struct launch_target *target, struct recipe_launch *ret,
                 struct problem *p)
{
    _cleanup_(launch_done) struct recipe_launch l = {0};
    _cleanup_(freep) char *directory = xasprintf(PROFILES_DIR "/%s", recipe_mode_short_name(target->mode));

    if (launch_begin(r, target, r->type == RECIPE_TORCH, "not torch",
                     recipe_is_nsys(r) ? "Set it to torch; profctl nsys-command is for nsys."
                                       : "Set it to torch.",
                     &l, p) < 0)
        return -EINVAL;
    if (streq(r->backend, "sglang"))
        launch_set(&l, "SGLANG_TORCH_PROFILER_DIR", "%s", directory);
    if (launch_add_worker(r, target, &l, p) < 0)
        return -EINVAL;
    if (streq(r->backend, "vllm"))
        launch_add_option(&l, "--profiler-config",
                          "{\"profiler\": \"torch\", \"torch_profiler_dir\": \"%s\"}", directory);
    *ret = l;
    l = (struct recipe_launch){0};
    return 0;
}

/* -- As a line for a shell ---------------------------------------------------------------------------- */

/* Characters that need no quotes. */
#define PLAIN_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@%+"

static bool launch_is_printable(const char *text)
{
    while (*text >= ' ' && *text <= '~')
        text++;
    return *text == '\0';
}

/* As bash and POSIX of 2024 read it: the line is shown by terminals, which would obey some of it. */
static void launch_print_escaped(FILE *out, const char *text)
{
    fputs("$'", out);
    for (; *text; text++)
        if (*text < ' ' || *text > '~' || *text == '\'' || *text == '\\')
            fprintf(out, "\\%03o", (unsigned char)*text);
        else
            putc(*text, out);
    putc('\'', out);
}

/* What a worker's node or its job knows, and a recipe does not. */
static const char *const variables[] = {"${SLURMD_NODENAME}", "${LEADER_IP}", "${HEAD_NODE_IP}",
                                        "${HOST_IP_MACHINE}", "${PORT}"};

static size_t launch_variable_at(const char *text)
{
    for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
        if (starts_with(text, variables[i]))
            return strlen(variables[i]);
    return 0;
}

/* In double quotes, in which nothing but these variables has a meaning. */
static void launch_print_expanding(FILE *out, const char *text)
{
    putc('"', out);
    while (*text) {
        size_t n = launch_variable_at(text);
        if (n == 0 && strchr("\"\\$`", *text))
            putc('\\', out);
        fprintf(out, "%.*s", n > 0 ? (int)n : 1, text);
        text += MAX(n, (size_t)1);
    }
    putc('"', out);
}

static void launch_print_word(FILE *out, const char *text, bool expands)
{
    if (*text && !text[strspn(text, PLAIN_CHARACTERS)]) {
        fputs(text, out);
    } else if (!launch_is_printable(text)) {
        launch_print_escaped(out, text);
    } else if (expands) {
        launch_print_expanding(out, text);
    } else {
        putc('\'', out);
        for (; *text; text++)
            fprintf(out, *text == '\'' ? "'\\''" : "%c", *text);
        putc('\'', out);
    }
}

char *launch_text(const struct recipe_launch *l)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    for (size_t i = 0; i < l->n_environment; i++) {
        const char *variable = l->environment[i].text, *value = strchr(variable, '=') + 1;
        fprintf(out, "%.*s", (int)(value - variable), variable);
        if (*value)
            launch_print_word(out, value, l->environment[i].expands);
        putc(' ', out);
    }
    for (size_t i = 0; i < l->n_words; i++) {
        if (i > 0)
            putc(' ', out);
        launch_print_word(out, l->words[i].text, l->words[i].expands);
    }
    fclose(out);
    return text;
}

json_t *launch_json(const struct recipe_launch *l)
{
    json_t *environment = json_object(), *command = json_array();

    for (size_t i = 0; i < l->n_environment; i++) {
        const char *equals = l->environment[i].text + strcspn(l->environment[i].text, "=");
        _cleanup_(freep) char *name =
            xstrndup(l->environment[i].text, (size_t)(equals - l->environment[i].text));
        json_object_set_new(environment, name, json_text(equals + 1));
    }
    for (size_t i = 0; i < l->n_words; i++)
        json_array_append_new(command, json_text(l->words[i].text));
    return json_pack("{s:o, s:o}", "environment", environment, "command", command);
}
