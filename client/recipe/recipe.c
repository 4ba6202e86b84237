/* SPDX-License-Identifier: Apache-2.0 */
#include "client/recipe/recipe.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/yaml_json.h"
#include "client/recipe/rules.h"
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

int recipe_mode_from_name(const char *name)
{
    if (streq(name, "agg"))
        return RECIPE_AGGREGATED;
    for (int m = 0; m < _RECIPE_MODE_MAX; m++)
        if (streq(name, modes[m].name))
            return m;
    return -EINVAL;
}

int64_t recipe_line(const struct recipe *r, const char *key)
{
    _cleanup_(freep) char *place = xasprintf("/%s", key);

    for (char *c = place; *c; c++)
        if (*c == '.')
            *c = '/';
    for (;;) {
        int64_t line = json_get_int(r->lines, place, 0);
        if (line > 0 || place[0] == '\0')
            return line;
        *strrchr(place, '/') = '\0';
    }
}

static int fail(const struct recipe *r, struct problem *p, const char *key, const char *text)
{
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s:%" PRId64 ": %s", r->path,
                       MAX(recipe_line(r, key), 1), text);
}

/* -- Numbers and texts of a section ------------------------------------------------------------------- */

static int take_number(const struct recipe *r, const json_t *section, const char *where, const char *key,
                       int64_t *ret, struct problem *p)
{
    const json_t *v = json_object_get(section, key);
    _cleanup_(freep) char *path = xasprintf("%s.%s", where, key);

    if (!v || json_is_null(v))
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX) {
        _cleanup_(freep) char *text = xasprintf("%s must be a whole number, at least 0", path);
        return fail(r, p, path, text);
    }
    *ret = json_integer_value(v);
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
    _cleanup_(freep) char *text = NULL;

    if (!v || json_is_null(v))
        return 0;
    for (int t = 0; t < _RECIPE_TYPE_MAX; t++)
        if (streq(json_string_value(v), types[t])) {
            r->type = (enum recipe_type)t;
            return 0;
        }
    text = xasprintf("profiling.type is '%s', but must be one of none, torch, nsys, nsys-time, nsys-manual",
                     json_is_string(v) ? json_string_value(v) : "no text");
    return fail(r, p, "profiling.type", text);
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
    if (!json_is_object(o)) {
        _cleanup_(freep) char *text = xasprintf("%s must be a section", where);
        return fail(r, p, where, text);
    }
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
        return fail(r, p, "resources.gpus_per_node", "resources.gpus_per_node must be at most 1024");
    for (int m = 0; m < _RECIPE_MODE_MAX; m++) {
        struct recipe_phase *phase = &r->phases[m];
        if (take_number(r, resources, "resources", modes[m].nodes, &phase->nodes, p) < 0 ||
            take_number(r, resources, "resources", modes[m].workers, &phase->workers, p) < 0 ||
            take_number(r, resources, "resources", modes[m].gpus, &phase->gpus, p) < 0)
            return -EINVAL;
        if (phase->gpus == 0 && phase->workers > 0)
            phase->gpus = phase->nodes * r->gpus_per_node / phase->workers;
    }
    r->disaggregated = json_is_integer(json_object_get(resources, "prefill_nodes")) ||
                       json_is_integer(json_object_get(resources, "decode_nodes"));
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

/* Several are one after another (list or "1x4x8"); the steps to record come with the first. */
static int64_t first_concurrency(const json_t *benchmark)
{
    const json_t *v = json_object_get(benchmark, "concurrencies");

    if (json_is_array(v))
        v = json_array_get(v, 0);
    if (json_is_integer(v))
        return json_integer_value(v);
    return json_is_string(v) ? strtoll(json_string_value(v), NULL, 10) : 0;
}

/* A phase's own load, else that beside the phases, else the benchmark's. */
static int read_load(struct recipe *r, const json_t *profiling, struct problem *p)
{
    const json_t *benchmark = section_of(r->root, "benchmark");
    struct recipe_phase beside = {0}, bench = {.concurrency = first_concurrency(benchmark)};

    r->benchmark = text_of(benchmark, "type", "manual");
    r->generation = RECIPE_LOAD_IN_BENCHMARK;
    if (take_number(r, profiling, "profiling", "isl", &beside.isl, p) < 0 ||
        take_number(r, profiling, "profiling", "osl", &beside.osl, p) < 0 ||
        take_number(r, profiling, "profiling", "concurrency", &beside.concurrency, p) < 0 ||
        take_number(r, benchmark, "benchmark", "isl", &bench.isl, p) < 0 ||
        take_number(r, benchmark, "benchmark", "osl", &bench.osl, p) < 0)
        return -EINVAL;
    for (int m = 0; m < _RECIPE_MODE_MAX; m++)
        if (r->phases[m].isl || r->phases[m].osl || r->phases[m].concurrency)
            r->generation = RECIPE_LOAD_IN_PHASE;
    if (r->generation != RECIPE_LOAD_IN_PHASE && (beside.isl || beside.osl || beside.concurrency))
        r->generation = RECIPE_LOAD_IN_PROFILING;
    if (r->generation == RECIPE_LOAD_IN_PHASE)
        return 0;
    const struct recipe_phase *of = r->generation == RECIPE_LOAD_IN_PROFILING ? &beside : &bench;
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

    if (!json_is_object(r->root))
        return fail(r, p, "", "this is no job of srtctl: its sections are missing");
    if (profiling && !json_is_object(profiling))
        return fail(r, p, "profiling", "profiling must be a section");
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

int recipe_parse(const char *path, const char *data, size_t size, struct recipe *ret, struct problem *p)
{
    char error[200];
    _cleanup_(recipe_done) struct recipe r = {.path = xstrdup(path)};

    r.root = yaml_parse_with_lines(data, size, error, &r.lines);
    if (!r.root) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s: %s", path, error);
        return -EINVAL;
    }
    if (read_sections(&r, p) < 0)
        return -EINVAL;
    *ret = r;
    r = (struct recipe){0};
    return 0;
}

int recipe_read(const char *path, bool any_workers, struct recipe *ret, struct problem *p)
{
    _cleanup_(freep) char *data = NULL;
    size_t size;
    int err = read_file(AT_FDCWD, path, RECIPE_BYTES_MAX, &data, &size);

    if (err < 0)
        return problem_set(p, err, PROBLEM_BAD_REQUEST, "cannot read %s: %s", path, strerror(-err));
    err = recipe_parse(path, data, size, ret, p);
    if (err == 0)
        err = recipe_check(ret, any_workers, p);
    if (err < 0)
        recipe_done(ret);
    return err;
}

void recipe_done(struct recipe *r)
{
    free(r->path);
    json_decref(r->root);
    json_decref(r->lines);
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
