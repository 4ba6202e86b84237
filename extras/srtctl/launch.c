/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After srt-slurm: src/srtctl/core/schema.py (get_nsys_prefix), cli/mixins/worker_stage.py and backends/ at
 * c88ef73, and src/srtctl/backends/sglang.py at a1a219a for recipes whose load stands in the phases.
 */
#include "extras/srtctl/launch.h"

#include "base/alloc.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#define PROFILES_DIR "/logs/profiles"

/* -- Words -------------------------------------------------------------------------------------------- */

void launch_put(struct launch *l, char *take_text, bool expands)
{
    VEC_GROW(l->words, l->n_words, l->cap_words);
    l->words[l->n_words++] = (struct launch_word){take_text, expands};
}

static void put_words(struct launch *l, const char *const *words)
{
    for (; *words; words++)
        launch_put(l, xstrdup(*words), false);
}

static void put_number(struct launch *l, const char *option, int64_t n)
{
    launch_put(l, xstrdup(option), false);
    launch_put(l, xasprintf("%" PRId64, n), false);
}

void launch_put_variable(struct launch *l, const char *name, char *take_value, bool expands)
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
    l->environment[i] = (struct launch_word){xasprintf("%s=%s", name, take_value), expands};
    free(take_value);
}

void launch_done(struct launch *l)
{
    for (size_t i = 0; i < l->n_environment; i++)
        free(l->environment[i].text);
    for (size_t i = 0; i < l->n_words; i++)
        free(l->words[i].text);
    free(l->environment);
    free(l->words);
    *l = (struct launch){0};
}

/* A value as Python's str() has it, since it was composed there. */
static char *value_text(const json_t *v)
{
    if (json_is_string(v))
        return xstrdup(json_string_value(v));
    if (json_is_boolean(v))
        return xstrdup(json_is_true(v) ? "True" : "False");
    return json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
}

static void put_flag(struct launch *l, const char *key, const json_t *value)
{
    char *flag = xasprintf("--%s", key);
    size_t i;
    json_t *item;

    for (char *c = flag; *c; c++)
        if (*c == '_')
            *c = '-';
    if (json_is_null(value) || json_is_false(value)) {
        free(flag);
        return;
    }
    launch_put(l, flag, false);
    if (json_is_array(value))
        json_array_foreach((json_t *)value, i, item)
            launch_put(l, value_text(item), false);
    else if (!json_is_true(value))
        launch_put(l, value_text(value), false);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In order of their names; those of `dropped` (with dashes) are left out. */
void launch_put_flags(struct launch *l, const json_t *config, const char *const *dropped)
{
    size_t n = 0;
    _cleanup_(freep) const char **keys = xcalloc(json_object_size(config) + 1, sizeof(*keys));
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)config, key, value)
        keys[n++] = key;
    qsort(keys, n, sizeof(*keys), compare_keys);
    for (size_t i = 0; i < n; i++) {
        _cleanup_(freep) char *name = xstrdup(keys[i]);
        bool leave = false;
        for (char *c = name; *c; c++)
            if (*c == '_')
                *c = '-';
        for (const char *const *d = dropped; *d; d++)
            leave = leave || streq(*d, name);
        if (!leave)
            put_flag(l, keys[i], json_object_get(config, keys[i]));
    }
}

/* -- nsys --------------------------------------------------------------------------------------------- */

static const char *const range[] = {"-c", "cudaProfilerApi", "--capture-range-end", "stop", NULL};
static const char *const plain_options[] = {"-t", "cuda,nvtx", "--cuda-graph-trace=node", NULL};
static const char *const trtllm_options[] = {"-t", "cuda,nvtx,ucx", "--sample=none",
                                             "--cuda-graph-trace=node", NULL};
static const char *const force[] = {"--force-overwrite", "true", NULL};
static const char *const trtllm_end[] = {"--kill", "none", "--wait", "all", "--force-overwrite",
                                         "true",   NULL};

static const char *short_name(enum recipe_mode mode)
{
    return mode == RECIPE_AGGREGATED ? "agg" : recipe_mode_name(mode);
}

/* "0-1-2-3": of one node. */
static char *gpu_label(const struct recipe *r, const struct launch_place *place)
{
    int64_t first, n;
    char *label = NULL;
    size_t size;
    FILE *out = xmemstream(&label, &size);

    worker_gpus(r, place, &first, &n);
    for (int64_t i = 0; i < n; i++)
        fprintf(out, "%s%" PRId64, i > 0 ? "-" : "", first + i);
    fclose(out);
    return label;
}

static void put_output(const struct recipe *r, const struct launch_place *place, struct launch *l)
{
    const char *mode = short_name(place->mode);
    _cleanup_(freep) char *gpus = gpu_label(r, place);

    launch_put(l, xstrdup("-o"), false);
    if (r->generation == RECIPE_LOAD_IN_PHASE)
        launch_put(l, xasprintf(PROFILES_DIR "/%s_%" PRId64, mode, place->rank), false);
    else
        launch_put(l,
                   xasprintf(PROFILES_DIR "/%s/%s_%s_w%" PRId64 "_profile_gpu%s", mode,
                             place->node ? place->node : "${SLURMD_NODENAME}", mode, place->worker, gpus),
                   place->node == NULL);
}

static void put_extra(const struct recipe *r, struct launch *l)
{
    size_t i;
    json_t *word;

    json_array_foreach((json_t *)r->extra_nsys_args, i, word)
        launch_put(l, value_text(word), false);
}

static void put_nsys(const struct recipe *r, const struct launch_place *place, struct launch *l)
{
    bool trtllm = streq(r->backend, "trtllm");

    launch_put(l, xstrdup("nsys"), false);
    launch_put(l, xstrdup("profile"), false);
    put_words(l, trtllm ? trtllm_options : plain_options);
    if (r->type != RECIPE_NSYS_TIME)
        put_words(l, range);
    if (!trtllm)
        put_words(l, force);
    if (r->type == RECIPE_NSYS_TIME) {
        put_number(l, "--delay", r->delay_secs);
        put_number(l, "--duration", r->duration_secs);
    }
    put_extra(r, l);
    if (trtllm)
        put_words(l, trtllm_end);
    else if (r->generation == RECIPE_LOAD_IN_BENCHMARK && streq(r->frontend, "dynamo"))
        launch_put(l, xstrdup("--trace-fork-before-exec=true"), false);
    put_output(r, place, l);
}

/* TensorRT-LLM's executor calls cudaProfilerStart and Stop at these steps; others do not know the variables.
 */
static void put_step_variables(const struct recipe_phase *phase, struct launch *l)
{
    _cleanup_(freep) char *steps = xasprintf("%" PRId64 "-%" PRId64, phase->start_step, phase->stop_step);
    launch_put_variable(l, "TLLM_PROFILE_START_STOP", TAKE_PTR(steps), false);
    launch_put_variable(l, "TLLM_LLMAPI_ENABLE_NVTX", xstrdup("1"), false);
}

/* -- The worker --------------------------------------------------------------------------------------- */

/* A line for a shell is made of it: a name that is none would be a command. */
static bool is_variable_name(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    while (isalnum((unsigned char)*name) || *name == '_')
        name++;
    return *name == '\0';
}

int launch_check_variable(const struct recipe *r, const char *where, const char *name, struct problem *p)
{
    if (is_variable_name(name))
        return 0;
    _cleanup_(freep) char *text = xasprintf("'%s' is not the name of an environment variable", name);
    return recipe_refuse(r, where, text, p);
}

/* Of a recipe until January 2026. */
static int put_old_environment(const struct recipe *r, const struct launch_place *place, struct launch *l,
                               struct problem *p)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)r->phases[place->mode].environment, name, value) {
        if (launch_check_variable(r, "backend", name, p) < 0)
            return -EINVAL;
        launch_put_variable(l, name, value_text(value), false);
    }
    if (r->type != RECIPE_NSYS_TIME && recipe_is_nsys(r) && streq(r->backend, "trtllm"))
        put_step_variables(&r->phases[place->mode], l);
    return 0;
}

static int put_environment(const struct recipe *r, const struct launch_place *place, struct launch *l,
                           struct problem *p)
{
    return r->generation == RECIPE_LOAD_IN_BENCHMARK ? worker_put_environment(r, place, l, p)
                                                     : put_old_environment(r, place, l, p);
}

/* sglang.launch_server serves alone: it has no --disaggregation-mode of dynamo's, and dumps no configuration.
 */
static void put_sglang(const struct recipe *r, const struct launch_place *place, struct launch *l)
{
    static const char *const dropped[] = {"disaggregation-mode", "dump-config-to", NULL};
    const struct recipe_phase *phase = &r->phases[place->mode];
    int64_t nodes = MAX(phase->nodes, 1) / MAX(phase->workers, 1);

    put_words(l, (const char *const[]){"python3", "-m", "sglang.launch_server", NULL});
    launch_put_flags(l, phase->config, dropped);
    if (nodes > 1) {
        launch_put(l, xstrdup("--dist-init-addr"), false);
        launch_put(l, xstrdup("${HOST_IP_MACHINE}:${PORT}"), true);
        put_number(l, "--nnodes", nodes);
        put_number(l, "--node-rank", place->rank);
    }
}

static void put_vllm(const struct recipe *r, const struct launch_place *place, struct launch *l)
{
    static const char *const dropped[] = {"connector", NULL};
    const struct recipe_phase *phase = &r->phases[place->mode];

    put_words(l, (const char *const[]){"vllm", "serve", r->model_path ? r->model_path : "/model", NULL});
    launch_put_flags(l, phase->config, dropped);
    if (r->type != RECIPE_NSYS)
        return;
    launch_put(l, xstrdup("--profiler-config"), false);
    launch_put(l,
               xasprintf("{\"profiler\": \"cuda\", \"delay_iterations\": %" PRId64
                         ", \"max_iterations\": %" PRId64 "}",
                         phase->start_step, phase->stop_step - phase->start_step),
               false);
}

static const struct {
    const char *backend;
    void (*put)(const struct recipe *r, const struct launch_place *place, struct launch *l);
} workers[] = {
    {"sglang", put_sglang},
    {"vllm", put_vllm},
};

static int put_worker(const struct recipe *r, const struct launch_place *place, struct launch *l,
                      struct problem *p)
{
    if (r->generation == RECIPE_LOAD_IN_BENCHMARK)
        return worker_put_command(r, place, l, p);
    for (size_t i = 0; i < ARRAY_SIZE(workers); i++)
        if (streq(workers[i].backend, r->backend)) {
            workers[i].put(r, place, l);
            return 0;
        }
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s: the command of a worker of %s cannot be told from it",
                r->path, r->backend);
    problem_remedy(p, "Give it behind --: profctl nsys-command --recipe %s --mode %s -- trtllm-serve ...",
                   r->path, recipe_mode_name(place->mode));
    return -EINVAL;
}

static int check_place(const struct recipe *r, const struct launch_place *place, struct problem *p)
{
    bool exists = place->mode == RECIPE_AGGREGATED ? !r->disaggregated : r->disaggregated;

    if (exists)
        return r->generation == RECIPE_LOAD_IN_BENCHMARK ? worker_check_place(r, place, p) : 0;
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s has no %s workers", r->path,
                recipe_mode_name(place->mode));
    problem_remedy(p, "Its modes are %s.", r->disaggregated ? "prefill and decode" : "aggregated");
    return -EINVAL;
}

int launch_nsys(const struct recipe *r, const struct launch_place *place, int n_command, char *const *command,
                struct launch *ret, struct problem *p)
{
    _cleanup_(launch_done) struct launch l = {0};

    if (!recipe_is_nsys(r)) {
        _cleanup_(freep) char *what =
            xasprintf("profiling.type is %s, which needs no nsys", recipe_type_name(r->type));
        recipe_refuse(r, "profiling.type", what, p);
        problem_remedy(p, "Set it to nsys or nsys-time; profctl torch-command is for torch.");
        return -EINVAL;
    }
    if (check_place(r, place, p) < 0 || put_environment(r, place, &l, p) < 0)
        return -EINVAL;
    put_nsys(r, place, &l);
    for (int i = 0; i < n_command; i++)
        launch_put(&l, xstrdup(command[i]), false);
    if (n_command == 0 && put_worker(r, place, &l, p) < 0)
        return -EINVAL;
    *ret = l;
    l = (struct launch){0};
    return 0;
}

int launch_torch(const struct recipe *r, const struct launch_place *place, struct launch *ret,
                 struct problem *p)
{
    _cleanup_(launch_done) struct launch l = {0};
    _cleanup_(freep) char *directory = xasprintf(PROFILES_DIR "/%s", short_name(place->mode));

    if (r->type != RECIPE_TORCH) {
        _cleanup_(freep) char *what = xasprintf("profiling.type is %s, not torch", recipe_type_name(r->type));
        recipe_refuse(r, "profiling.type", what, p);
        problem_remedy(p, "Set it to torch%s.",
                       recipe_is_nsys(r) ? "; profctl nsys-command is for nsys" : "");
        return -EINVAL;
    }
    if (check_place(r, place, p) < 0 || put_environment(r, place, &l, p) < 0)
        return -EINVAL;
    if (streq(r->backend, "sglang"))
        launch_put_variable(&l, "SGLANG_TORCH_PROFILER_DIR", xstrdup(directory), false);
    if (put_worker(r, place, &l, p) < 0)
        return -EINVAL;
    if (streq(r->backend, "vllm")) {
        launch_put(&l, xstrdup("--profiler-config"), false);
        launch_put(&l, xasprintf("{\"profiler\": \"torch\", \"torch_profiler_dir\": \"%s\"}", directory),
                   false);
    }
    *ret = l;
    l = (struct launch){0};
    return 0;
}

/* -- Out ---------------------------------------------------------------------------------------------- */

static bool is_plain(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("-_./:=,@%+", *text))
            return false;
    return true;
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

/* As bash and POSIX of 2024 read it: the line is shown by terminals, which would obey some of it. */
static void print_escaped(FILE *out, const char *text)
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

static size_t variable_at(const char *text)
{
    for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
        if (starts_with(text, variables[i]))
            return strlen(variables[i]);
    return 0;
}

/* In double quotes, in which nothing but these variables has a meaning. */
static void print_expanding(FILE *out, const char *text)
{
    putc('"', out);
    while (*text) {
        size_t n = variable_at(text);
        if (n == 0 && strchr("\"\\$`", *text))
            putc('\\', out);
        fprintf(out, "%.*s", n > 0 ? (int)n : 1, text);
        text += MAX(n, (size_t)1);
    }
    putc('"', out);
}

/* Of "NAME=VALUE" the name is no word of its own: what is quoted is the value. */
static void print_word(FILE *out, const struct launch_word *word)
{
    if (is_plain(word->text)) {
        fputs(word->text, out);
        return;
    }
    if (!is_printable(word->text)) {
        print_escaped(out, word->text);
        return;
    }
    if (word->expands) {
        print_expanding(out, word->text);
        return;
    }
    putc('\'', out);
    for (const char *c = word->text; *c; c++)
        if (*c == '\'')
            fputs("'\\''", out);
        else
            putc(*c, out);
    putc('\'', out);
}

static void print_variable(FILE *out, const struct launch_word *variable)
{
    const char *value = variable->text + strcspn(variable->text, "=") + 1;

    fprintf(out, "%.*s", (int)(value - variable->text), variable->text);
    if (*value)
        print_word(out, &(struct launch_word){(char *)value, variable->expands});
}

char *launch_text(const struct launch *l)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    for (size_t i = 0; i < l->n_environment; i++) {
        print_variable(out, &l->environment[i]);
        putc(' ', out);
    }
    for (size_t i = 0; i < l->n_words; i++) {
        if (i > 0)
            putc(' ', out);
        print_word(out, &l->words[i]);
    }
    fclose(out);
    return text;
}

json_t *launch_json(const struct launch *l)
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
