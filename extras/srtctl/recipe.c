/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/srtctl/recipe.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <time.h>

static const char *const types[_RECIPE_TYPE_MAX] = {
    [RECIPE_NONE] = "none",
    [RECIPE_TORCH] = "torch",
    [RECIPE_NSYS] = "nsys",
    [RECIPE_NSYS_TIME] = "nsys-time",
    [RECIPE_NSYS_MANUAL] = "nsys-manual",
};

/* What each role is called in the sections of a job file. */
static const struct {
    const char *name, *nodes, *workers, *gpus, *environment;
} modes[_RECIPE_MODE_MAX] = {
    [RECIPE_PREFILL] = {"prefill", "prefill_nodes", "prefill_workers", "gpus_per_prefill",
                        "prefill_environment"},
    [RECIPE_DECODE] = {"decode", "decode_nodes", "decode_workers", "gpus_per_decode", "decode_environment"},
    [RECIPE_AGGREGATED] = {"aggregated", "agg_nodes", "agg_workers", "gpus_per_agg",
                           "aggregated_environment"},
};

const char *recipe_type_name(enum recipe_type type)
{
    return types[type];
}

const char *recipe_mode_name(enum recipe_mode mode)
{
    return modes[mode].name;
}

const char *recipe_mode_short_name(enum recipe_mode mode)
{
    return mode == RECIPE_AGGREGATED ? "agg" : modes[mode].name;
}

int recipe_mode_from_name(const char *name)
{
    if (streq(name, "agg"))
        return RECIPE_AGGREGATED;
    for (int m = 0; m < _RECIPE_MODE_MAX; m++)
        if (streq(name, modes[m].name))
            return m;
    return -EINVAL;
}

/* Of a key's line or column. */
static int64_t recipe_location(const json_t *locations, const char *key)
{
    _cleanup_(freep) char *pointer = xasprintf("/%s", key);

    for (char *c = pointer; *c; c++)
        if (*c == '.')
            *c = '/';
    for (;;) {
        int64_t location = json_get_int(locations, pointer, 0);
        if (location > 0 || pointer[0] == '\0')
            return MAX(location, (int64_t)1);
        *strrchr(pointer, '/') = '\0';
    }
}

int recipe_refuse(const struct recipe *r, const char *key, struct problem *p, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s:%" PRId64 ":%" PRId64 ": %s", r->path,
                       recipe_location(r->lines, key), recipe_location(r->columns, key), text);
}

/* -- Numbers and texts of a section ------------------------------------------------------------------- */

/* A number, which may be written as a text; the schema was checked before. */
static int64_t number_of(const json_t *v)
{
    if (json_is_string(v))
        return strtoll(json_string_value(v), NULL, 10);
    return json_is_real(v) ? (int64_t)json_real_value(v) : json_integer_value(v);
}

static bool is_set(const json_t *section, const char *key)
{
    const json_t *v = json_object_get(section, key);
    return v && !json_is_null(v);
}

static int take_number(const struct recipe *r, const json_t *section, const char *where, const char *key,
                       int64_t *ret, struct problem *p)
{
    const json_t *v = json_object_get(section, key);
    _cleanup_(freep) char *path = xasprintf("%s.%s", where, key);

    if (!v || json_is_null(v))
        return 0;
    int64_t n = number_of(v);
    if (n < 0 || n > INT32_MAX)
        return recipe_refuse(r, path, p, "%s must be an integer from 0 to %d", path, INT32_MAX);
    *ret = n;
    return 0;
}

static const json_t *section_of(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_object(v) ? v : NULL;
}

static const char *text_of(const json_t *section, const char *key, const char *fallback)
{
    const char *text = json_get_str(section, key);
    return text ? text : fallback;
}

/* -- Sections ----------------------------------------------------------------------------------------- */

static int read_type(struct recipe *r, const json_t *profiling, struct problem *p)
{
    const json_t *v = json_object_get(profiling, "type");

    if (!v || json_is_null(v))
        return 0;
    for (int t = 0; t < _RECIPE_TYPE_MAX; t++)
        if (streq(json_string_value(v), types[t])) {
            r->type = (enum recipe_type)t;
            return 0;
        }
    return recipe_refuse(
        r, "profiling.type", p,
        "profiling.type is '%s', but must be one of none, torch, nsys, nsys-time, nsys-manual",
        json_is_string(v) ? json_string_value(v) : "no text");
}

static int read_phase(struct recipe *r, const json_t *profiling, const char *section, enum recipe_mode mode,
                      struct problem *p)
{
    struct recipe_phase *phase = &r->phases[mode];
    const json_t *o = json_object_get(profiling, modes[mode].name);
    _cleanup_(freep) char *where = xasprintf("%s.%s", section, modes[mode].name);

    phase->stop_step = RECIPE_STOP_STEP;
    if (!o || json_is_null(o))
        return 0;
    if (!json_is_object(o))
        return recipe_refuse(r, where, p, "%s must be a section", where);
    phase->present = true;
    const struct {
        const char *key;
        int64_t *field;
    } numbers[] = {
        {"isl", &phase->isl},
        {"osl", &phase->osl},
        {"concurrency", &phase->concurrency},
        {"start_step", &phase->start_step},
        {"stop_step", &phase->stop_step},
    };
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (take_number(r, o, where, numbers[i].key, numbers[i].field, p) < 0)
            return -EINVAL;
    return 0;
}

static int read_resources(struct recipe *r, struct problem *p)
{
    const json_t *resources = section_of(r->root, "resources");

    r->gpus_per_node = RECIPE_GPUS_PER_NODE;
    if (take_number(r, resources, "resources", "gpus_per_node", &r->gpus_per_node, p) < 0)
        return -EINVAL;
    if (r->gpus_per_node > RECIPE_GPUS_PER_NODE_MAX)
        return recipe_refuse(r, "resources.gpus_per_node", p, "resources.gpus_per_node must be at most %d",
                             RECIPE_GPUS_PER_NODE_MAX);
    for (int m = 0; m < _RECIPE_MODE_MAX; m++) {
        struct recipe_phase *phase = &r->phases[m];
        if (take_number(r, resources, "resources", modes[m].nodes, &phase->nodes, p) < 0 ||
            take_number(r, resources, "resources", modes[m].workers, &phase->workers, p) < 0 ||
            take_number(r, resources, "resources", modes[m].gpus, &phase->gpus, p) < 0)
            return -EINVAL;
        if (phase->gpus == 0 && phase->workers > 0)
            phase->gpus = phase->nodes * r->gpus_per_node / phase->workers;
    }
    r->disaggregated = is_set(resources, "prefill_nodes") || is_set(resources, "decode_nodes");
    return 0;
}

static void read_backend(struct recipe *r)
{
    const json_t *backend = section_of(r->root, "backend");
    _cleanup_(freep) char *key = NULL;

    r->backend = text_of(backend, "type", section_of(backend, "vllm_config") ? "vllm" : "sglang");
    key = xasprintf("%s_config", r->backend);
    for (int m = 0; m < _RECIPE_MODE_MAX; m++) {
        r->phases[m].config = section_of(section_of(backend, key), modes[m].name);
        r->phases[m].environment = section_of(backend, modes[m].environment);
    }
}

/* A list, or "1x4x8". The steps to record come with the first. */
static int read_concurrencies(struct recipe *r, const json_t *benchmark, struct problem *p)
{
    const json_t *v = json_object_get(benchmark, "concurrencies");
    const char *text = json_string_value(v);
    size_t i;
    json_t *item;
    bool right = true;

    json_array_foreach((json_t *)v, i, item) {
        right = right && i < RECIPE_CONCURRENCIES_MAX && number_of(item) > 0;
        if (right)
            r->concurrencies[r->n_concurrencies++] = number_of(item);
    }
    while (text && right) {
        char *end;
        int64_t n = strtoll(text, &end, 10);
        right =
            end > text && (*end == 'x' || !*end) && n > 0 && r->n_concurrencies < RECIPE_CONCURRENCIES_MAX;
        if (right)
            r->concurrencies[r->n_concurrencies++] = n;
        text = *end == 'x' ? end + 1 : NULL;
    }
    if (right)
        return 0;
    return recipe_refuse(r, "benchmark.concurrencies", p,
                         "benchmark.concurrencies must be at most %d numbers above 0: [4, 8] or \"4x8\"",
                         RECIPE_CONCURRENCIES_MAX);
}

/* A phase's own load, else the one in "profiling", else the benchmark's. */
static int read_load(struct recipe *r, const json_t *profiling, struct problem *p)
{
    const json_t *benchmark = section_of(r->root, "benchmark");
    struct recipe_phase in_profiling = {0}, bench = {0};

    if (read_concurrencies(r, benchmark, p) < 0)
        return -EINVAL;
    bench.concurrency = r->n_concurrencies > 0 ? r->concurrencies[0] : 0;
    r->requests_of_each = 10;
    r->benchmark = text_of(benchmark, "type", "manual");
    r->generation = RECIPE_LOAD_IN_BENCHMARK;
    if (take_number(r, profiling, "profiling", "isl", &in_profiling.isl, p) < 0 ||
        take_number(r, profiling, "profiling", "osl", &in_profiling.osl, p) < 0 ||
        take_number(r, profiling, "profiling", "concurrency", &in_profiling.concurrency, p) < 0 ||
        take_number(r, benchmark, "benchmark", "num_prompts_mult", &r->requests_of_each, p) < 0 ||
        take_number(r, benchmark, "benchmark", "isl", &bench.isl, p) < 0 ||
        take_number(r, benchmark, "benchmark", "osl", &bench.osl, p) < 0)
        return -EINVAL;
    for (int m = 0; m < _RECIPE_MODE_MAX; m++)
        if (r->phases[m].isl || r->phases[m].osl || r->phases[m].concurrency)
            r->generation = RECIPE_LOAD_IN_PHASE;
    if (r->generation != RECIPE_LOAD_IN_PHASE &&
        (in_profiling.isl || in_profiling.osl || in_profiling.concurrency))
        r->generation = RECIPE_LOAD_IN_PROFILING;
    if (r->generation == RECIPE_LOAD_IN_PHASE)
        return 0;
    const struct recipe_phase *of = r->generation == RECIPE_LOAD_IN_PROFILING ? &in_profiling : &bench;
    for (int m = 0; m < _RECIPE_MODE_MAX; m++) {
        r->phases[m].isl = of->isl;
        r->phases[m].osl = of->osl;
        r->phases[m].concurrency = of->concurrency;
    }
    return 0;
}

static int read_sections(struct recipe *r, struct problem *p)
{
    const json_t *profiling = json_object_get(r->root, "profiling");

    r->name = text_of(r->root, "name", NULL);
    r->model_path = text_of(section_of(r->root, "model"), "path", NULL);
    r->frontend = text_of(section_of(r->root, "frontend"), "type", "dynamo");
    r->extra_nsys_args = json_object_get(profiling, "extra_nsys_args");
    r->delay_secs = r->duration_secs = -1;
    r->benchmark_duration_secs = 300;
    if (read_type(r, profiling, p) < 0 || read_resources(r, p) < 0)
        return -EINVAL;
    for (int m = 0; m < _RECIPE_MODE_MAX; m++)
        if (read_phase(r, profiling, "profiling", (enum recipe_mode)m, p) < 0)
            return -EINVAL;
    if (read_load(r, profiling, p) < 0 ||
        take_number(r, profiling, "profiling", "delay_secs", &r->delay_secs, p) < 0 ||
        take_number(r, profiling, "profiling", "duration_secs", &r->duration_secs, p) < 0 ||
        take_number(r, profiling, "profiling", "benchmark_duration_secs", &r->benchmark_duration_secs, p) < 0)
        return -EINVAL;
    read_backend(r);
    return 0;
}

/* Until January 2026 the load was in profiling or in its phases. */
static bool is_old(const json_t *root)
{
    static const char *const load[] = {"isl", "osl", "concurrency"};
    const json_t *profiling = json_object_get(root, "profiling");

    for (size_t i = 0; i < ARRAY_SIZE(load); i++) {
        if (is_set(profiling, load[i]))
            return true;
        for (int m = 0; m < _RECIPE_MODE_MAX; m++)
            if (is_set(json_object_get(profiling, modes[m].name), load[i]))
                return true;
    }
    return false;
}

int recipe_from_variant(const char *path, const struct recipe_variant *v, struct recipe *ret,
                        struct problem *p)
{
    _cleanup_(recipe_done) struct recipe r = {.path = xstrdup(path),
                                              .variant = v->name ? xstrdup(v->name) : NULL,
                                              .root = json_incref(v->root),
                                              .lines = json_incref(v->lines),
                                              .columns = json_incref(v->columns)};

    if (recipe_check_schema(&r, is_old(r.root), p) < 0 || read_sections(&r, p) < 0)
        return -EINVAL;
    *ret = r;
    r = (struct recipe){0};
    return 0;
}

int recipe_parse(const char *path, const char *data, size_t size, const char *variant, struct recipe *ret,
                 struct problem *p)
{
    _cleanup_(recipe_variants_done) struct recipe_variants variants = {0};
    int err = recipe_variants_read(path, data, size, &variants, p);
    const struct recipe_variant *v = err < 0 ? NULL : recipe_variants_find(&variants, path, variant, p);

    return v ? recipe_from_variant(path, v, ret, p) : -EINVAL;
}

int recipe_read(const char *path, const char *variant, unsigned lifted, struct recipe *ret, struct problem *p)
{
    _cleanup_(freep) char *data = NULL;
    size_t size;
    int err = read_file(AT_FDCWD, path, RECIPE_BYTES_MAX, &data, &size);

    if (err < 0)
        return problem_set(p, err, PROBLEM_BAD_REQUEST, "cannot read %s: %s", path, strerror(-err));
    err = recipe_parse(path, data, size, variant, ret, p);
    if (err == 0)
        err = recipe_check(ret, lifted, p);
    if (err < 0)
        recipe_done(ret);
    return err;
}

void recipe_done(struct recipe *r)
{
    free(r->path);
    free(r->variant);
    json_decref(r->root);
    json_decref(r->lines);
    json_decref(r->columns);
    *r = (struct recipe){0};
}

char *recipe_folder(const struct recipe *r, const char *job_id, int64_t wall_ns)
{
    const time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm tm;
    char stamp[32] = "";
    _cleanup_(freep) char *workers =
        r->disaggregated ? xasprintf("%" PRId64 "P_%" PRId64 "D", r->phases[RECIPE_PREFILL].workers,
                                     r->phases[RECIPE_DECODE].workers)
                         : xasprintf("%" PRId64 "A", r->phases[RECIPE_AGGREGATED].workers);

    strftime(stamp, sizeof(stamp), "%Y%m%d_%H%M%S", localtime_r(&seconds, &tm));
    return xasprintf("%s_%s_%s", job_id, workers, stamp);
}
