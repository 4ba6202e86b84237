/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After srt-slurm: src/srtctl/core/schema.py (get_nsys_prefix), cli/mixins/worker_stage.py and backends/ at
 * c88ef73, and src/srtctl/backends/sglang.py at a1a219a for recipes whose load stands in the phases.
 */
#include "client/recipe/launch.h"

#include "base/alloc.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#define PROFILES_DIR "/logs/profiles"

/* -- Words -------------------------------------------------------------------------------------------- */

static void put(struct launch *l, char *take_text, bool expands)
{
    VEC_GROW(l->words, l->n_words, l->cap_words);
    l->words[l->n_words++] = (struct launch_word){take_text, expands};
}

static void put_words(struct launch *l, const char *const *words)
{
    for (; *words; words++)
        put(l, xstrdup(*words), false);
}

static void put_number(struct launch *l, const char *option, int64_t n)
{
    put(l, xstrdup(option), false);
    put(l, xasprintf("%" PRId64, n), false);
}

static void put_variable(struct launch *l, const char *name, const char *value)
{
    VEC_GROW(l->environment, l->n_environment, l->cap_environment);
    l->environment[l->n_environment++] = (struct launch_word){xasprintf("%s=%s", name, value), false};
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
    put(l, flag, false);
    if (json_is_array(value))
        json_array_foreach((json_t *)value, i, item) put(l, value_text(item), false);
    else if (!json_is_true(value))
        put(l, value_text(value), false);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In order of their names; those of `dropped` (with dashes) are left out. */
static void put_flags(struct launch *l, const json_t *config, const char *const *dropped)
{
    size_t n = 0;
    _cleanup_(freep) const char **keys = xcalloc(json_object_size(config) + 1, sizeof(*keys));
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)config, key, value) keys[n++] = key;
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

/* "gpu0-1-2-3": of one node. */
static char *gpu_label(const struct recipe *r, const struct recipe_phase *phase)
{
    int64_t n = MIN(MAX(phase->gpus, 1), r->gpus_per_node);
    char *label = xstrdup("0");

    for (int64_t i = 1; i < n; i++) {
        char *longer = xasprintf("%s-%" PRId64, label, i);
        free(label);
        label = longer;
    }
    return label;
}

static void put_output(const struct recipe *r, const struct launch_place *place, struct launch *l)
{
    const char *mode = short_name(place->mode);
    _cleanup_(freep) char *gpus = gpu_label(r, &r->phases[place->mode]);

    put(l, xstrdup("-o"), false);
    if (r->generation == RECIPE_LOAD_IN_PHASE)
        put(l, xasprintf(PROFILES_DIR "/%s_%" PRId64, mode, place->rank), false);
    else
        put(l,
            xasprintf(PROFILES_DIR "/%s/%s_%s_w%" PRId64 "_profile_gpu%s", mode,
                      place->node ? place->node : "${SLURMD_NODENAME}", mode, place->worker, gpus),
            place->node == NULL);
}

static void put_extra(const struct recipe *r, struct launch *l)
{
    size_t i;
    json_t *word;

    json_array_foreach((json_t *)r->extra_nsys_args, i, word) put(l, value_text(word), false);
}

static void put_nsys(const struct recipe *r, const struct launch_place *place, struct launch *l)
{
    bool trtllm = streq(r->backend, "trtllm");

    put(l, xstrdup("nsys"), false);
    put(l, xstrdup("profile"), false);
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
        put(l, xstrdup("--trace-fork-before-exec=true"), false);
    put_output(r, place, l);
}

/* TensorRT-LLM's executor calls cudaProfilerStart and Stop at these steps; others do not know the variables.
 */
static void put_step_variables(const struct recipe_phase *phase, struct launch *l)
{
    _cleanup_(freep) char *steps = xasprintf("%" PRId64 "-%" PRId64, phase->start_step, phase->stop_step);
    put_variable(l, "TLLM_PROFILE_START_STOP", steps);
    put_variable(l, "TLLM_LLMAPI_ENABLE_NVTX", "1");
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

static int put_environment(const struct recipe *r, const struct recipe_phase *phase, struct launch *l,
                           struct problem *p)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)phase->environment, name, value)
    {
        _cleanup_(freep) char *text = value_text(value);
        if (!is_variable_name(name))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "%s:%" PRId64 ": '%s' is no name of an environment variable", r->path,
                               MAX(recipe_line(r, "backend"), 1), name);
        put_variable(l, name, text);
    }
    return 0;
}

/* sglang.launch_server serves alone: it has no --disaggregation-mode of dynamo's, and dumps no configuration.
 */
static void put_sglang(const struct recipe *r, const struct launch_place *place, struct launch *l)
{
    static const char *const dropped[] = {"disaggregation-mode", "dump-config-to", NULL};
    const struct recipe_phase *phase = &r->phases[place->mode];
    int64_t nodes = MAX(phase->nodes, 1) / MAX(phase->workers, 1);

    put_words(l, (const char *const[]){"python3", "-m", "sglang.launch_server", NULL});
    put_flags(l, phase->config, dropped);
    if (nodes > 1) {
        put(l, xstrdup("--dist-init-addr"), false);
        put(l, xstrdup("${HOST_IP_MACHINE}:${PORT}"), true);
        put_number(l, "--nnodes", nodes);
        put_number(l, "--node-rank", place->rank);
    }
}

static void put_vllm(const struct recipe *r, const struct launch_place *place, struct launch *l)
{
    static const char *const dropped[] = {"connector", NULL};
    const struct recipe_phase *phase = &r->phases[place->mode];

    put_words(l, (const char *const[]){"vllm", "serve", r->model_path ? r->model_path : "/model", NULL});
    put_flags(l, phase->config, dropped);
    if (r->type != RECIPE_NSYS)
        return;
    put(l, xstrdup("--profiler-config"), false);
    put(l,
        xasprintf("{\"profiler\": \"cuda\", \"delay_iterations\": %" PRId64 ", \"max_iterations\": %" PRId64
                  "}",
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
        return 0;
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
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                    "%s:%" PRId64 ": profiling.type is %s, which needs no nsys", r->path,
                    MAX(recipe_line(r, "profiling.type"), 1), recipe_type_name(r->type));
        problem_remedy(p, "Set it to nsys or nsys-time; profctl torch-command is for torch.");
        return -EINVAL;
    }
    if (check_place(r, place, p) < 0 || put_environment(r, &r->phases[place->mode], &l, p) < 0)
        return -EINVAL;
    if (r->type != RECIPE_NSYS_TIME && streq(r->backend, "trtllm"))
        put_step_variables(&r->phases[place->mode], &l);
    put_nsys(r, place, &l);
    for (int i = 0; i < n_command; i++)
        put(&l, xstrdup(command[i]), false);
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
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s:%" PRId64 ": profiling.type is %s, not torch",
                    r->path, MAX(recipe_line(r, "profiling.type"), 1), recipe_type_name(r->type));
        problem_remedy(p, "Set it to torch%s.",
                       recipe_is_nsys(r) ? "; profctl nsys-command is for nsys" : "");
        return -EINVAL;
    }
    if (check_place(r, place, p) < 0 || put_environment(r, &r->phases[place->mode], &l, p) < 0)
        return -EINVAL;
    if (streq(r->backend, "sglang"))
        put_variable(&l, "SGLANG_TORCH_PROFILER_DIR", directory);
    if (put_worker(r, place, &l, p) < 0)
        return -EINVAL;
    if (streq(r->backend, "vllm")) {
        put(&l, xstrdup("--profiler-config"), false);
        put(&l, xasprintf("{\"profiler\": \"torch\", \"torch_profiler_dir\": \"%s\"}", directory), false);
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

/* Of "NAME=VALUE" the name is no word of its own: what is quoted is the value. */
static void print_word(FILE *out, const struct launch_word *word)
{
    if (is_plain(word->text)) {
        fputs(word->text, out);
        return;
    }
    if (word->expands) {
        fprintf(out, "\"%s\"", word->text);
        return;
    }
    if (!is_printable(word->text)) {
        print_escaped(out, word->text);
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
