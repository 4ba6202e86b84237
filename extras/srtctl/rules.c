/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/srtctl/recipe.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include <errno.h>
#include <inttypes.h>

/* A broken rule says what is wrong (the caller frees it) and where; NULL: it holds. */
struct recipe_rule {
    char *(*broken)(const struct recipe *r, const char **key);
    const char *remedy;
    unsigned lifted_by;
};

static char *wrong(const char **key, const char *where, const char *text)
{
    *key = where;
    return xstrdup(text);
}

static bool has(const struct recipe *r, enum recipe_mode mode)
{
    return r->phases[mode].present;
}

/* Phases are what all but nsys-time records. */
static bool has_phases(const struct recipe *r)
{
    return r->type != RECIPE_NONE && r->type != RECIPE_NSYS_TIME;
}

/* -- src/srtctl/core/schema.py, as of its commit c88ef73 ---------------------------------------------- */

static char *torch_on_trtllm(const struct recipe *r, const char **key)
{
    if (r->type == RECIPE_TORCH && streq(r->backend, "trtllm"))
        return wrong(key, "profiling.type",
                     "torch profiling is not supported for the trtllm backend; use nsys instead");
    return NULL;
}

static char *time_without_window(const struct recipe *r, const char **key)
{
    if (r->type == RECIPE_NSYS_TIME && (r->delay_secs < 0 || r->duration_secs < 0))
        return wrong(key, "profiling",
                     "profiling.delay_secs and profiling.duration_secs are required for nsys-time mode");
    return NULL;
}

static char *aggregated_in_disaggregated(const struct recipe *r, const char **key)
{
    if (has_phases(r) && r->disaggregated && has(r, RECIPE_AGGREGATED))
        return wrong(key, "profiling.aggregated",
                     "Disaggregated mode only supports profiling.prefill/decode; profiling.aggregated is not "
                     "allowed.");
    return NULL;
}

static char *disaggregated_incomplete(const struct recipe *r, const char **key)
{
    if (has_phases(r) && r->disaggregated && (!has(r, RECIPE_PREFILL) || !has(r, RECIPE_DECODE)))
        return wrong(key, "profiling",
                     "Disaggregated mode requires both profiling.prefill and profiling.decode to be set when "
                     "profiling is enabled.");
    return NULL;
}

static char *roles_in_aggregated(const struct recipe *r, const char **key)
{
    if (has_phases(r) && !r->disaggregated && (has(r, RECIPE_PREFILL) || has(r, RECIPE_DECODE)))
        return wrong(
            key, has(r, RECIPE_PREFILL) ? "profiling.prefill" : "profiling.decode",
            "Aggregated mode only supports profiling.aggregated; profiling.prefill/decode are not allowed.");
    return NULL;
}

static char *aggregated_incomplete(const struct recipe *r, const char **key)
{
    if (has_phases(r) && !r->disaggregated && !has(r, RECIPE_AGGREGATED))
        return wrong(key, "profiling",
                     "Aggregated mode requires profiling.aggregated to be set when profiling is enabled.");
    return NULL;
}

static char *no_workers(const struct recipe *r, const char **key)
{
    if (!has_phases(r) || r->generation == RECIPE_LOAD_IN_PHASE)
        return NULL;
    if (r->disaggregated && (r->phases[RECIPE_PREFILL].workers == 0 || r->phases[RECIPE_DECODE].workers == 0))
        return wrong(key, "resources",
                     "Disaggregated mode requires prefill_workers and decode_workers to be > 0.");
    if (!r->disaggregated && r->phases[RECIPE_AGGREGATED].workers == 0)
        return wrong(key, "resources", "Aggregated mode requires agg_workers to be > 0.");
    return NULL;
}

static char *profiler_config_twice(const struct recipe *r, const char **key)
{
    const char *flag;
    json_t *value;

    if (r->type != RECIPE_NSYS || !streq(r->backend, "vllm"))
        return NULL;
    for (int m = 0; m < _RECIPE_MODE_MAX; m++)
        json_object_foreach((json_t *)r->phases[m].config, flag, value) {
            if (!starts_with(flag, "profiler-config") && !starts_with(flag, "profiler_config"))
                continue;
            *key = "backend.vllm_config";
            return xasprintf(
                "vllm_config.%s sets ['%s'], but profiler-config.* is derived automatically from the "
                "profiling: block when nsys profiling is enabled. Remove these keys.",
                recipe_mode_name((enum recipe_mode)m), flag);
        }
    return NULL;
}

/* -- As of December 2025 (a1a219a) and January 2026 (61d5b7c) ----------------------------------------- */

static const struct {
    enum recipe_mode mode;
    const char *key, *name;
} counts[] = {
    {RECIPE_PREFILL, "resources.prefill_workers", "prefill_workers"},
    {RECIPE_DECODE, "resources.decode_workers", "decode_workers"},
    {RECIPE_AGGREGATED, "resources.agg_workers", "agg_workers"},
};

static char *many_workers(const struct recipe *r, const char **key)
{
    if (r->type == RECIPE_NONE || r->generation == RECIPE_LOAD_IN_BENCHMARK)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        if (r->phases[counts[i].mode].workers > 1) {
            *key = counts[i].key;
            return xasprintf("Profiling mode requires single worker only. Got %s=%" PRId64, counts[i].name,
                             r->phases[counts[i].mode].workers);
        }
    return NULL;
}

static char *benchmark_beside_load(const struct recipe *r, const char **key)
{
    if (r->type == RECIPE_NONE || r->generation == RECIPE_LOAD_IN_BENCHMARK || streq(r->benchmark, "manual"))
        return NULL;
    *key = "benchmark.type";
    return xasprintf(
        "Cannot enable profiling with benchmark type '%s'. Profiling mode is mutually exclusive with "
        "benchmarking.",
        r->benchmark);
}

static char *none_or(int64_t n)
{
    return n > 0 ? xasprintf("%" PRId64, n) : xstrdup("None");
}

static char *no_load(const struct recipe *r, const char **key)
{
    static const char *const places[] = {[RECIPE_PREFILL] = "profiling.prefill",
                                         [RECIPE_DECODE] = "profiling.decode",
                                         [RECIPE_AGGREGATED] = "profiling.aggregated"};
    for (int m = 0; m < _RECIPE_MODE_MAX; m++) {
        const struct recipe_phase *phase = &r->phases[m];
        if (!has_phases(r) || !phase->present || (phase->isl && phase->osl && phase->concurrency))
            continue;
        _cleanup_(freep) char *isl = none_or(phase->isl), *osl = none_or(phase->osl),
                              *concurrency = none_or(phase->concurrency);
        *key = r->generation == RECIPE_LOAD_IN_PHASE ? places[m] : "profiling";
        return xasprintf("%s.isl/osl/concurrency must be set when profiling is enabled. Got isl=%s, osl=%s, "
                         "concurrency=%s",
                         *key, isl, osl, concurrency);
    }
    return NULL;
}

/* -- What profd sends ---------------------------------------------------------------------------------- */

/* Benchmarks of srtctl that are not synthetic load, after src/srtctl/benchmarks/. */
static const struct {
    const char *type, *description, *script;
} evaluations[] = {
    {"gsm8k", "an accuracy evaluation", "gsm8k/sglang-bench.sh"},
    {"gpqa", "an accuracy evaluation", "gpqa/bench.sh"},
    {"mmlu", "an accuracy evaluation", "mmlu/bench.sh"},
    {"longbenchv2", "an accuracy evaluation", "longbenchv2/bench.sh"},
    {"lm-eval", "an accuracy evaluation", "lm-eval/bench.sh"},
    {"router", "a benchmark of prefix caching", "router/bench.sh"},
    {"mooncake-router", "a replay of a recorded trace", "mooncake-router/bench.sh"},
    {"trace-replay", "a replay of a recorded trace", "trace-replay/bench.sh"},
};
static const char *const loads[] = {"manual", "sa-bench", "sglang-bench"};

static char *not_a_load(const struct recipe *r, const char **key)
{
    *key = "benchmark.type";
    if (streq(r->benchmark, "custom"))
        return xstrdup(
            "benchmark.type is custom: srtctl runs benchmark.command in its container, and profd runs no "
            "commands of recipes");
    for (size_t i = 0; i < ARRAY_SIZE(evaluations); i++)
        if (streq(r->benchmark, evaluations[i].type))
            return xasprintf("benchmark.type is %s, %s that srtctl runs in its container by "
                             "/srtctl-benchmarks/%s, and that profd does not run",
                             r->benchmark, evaluations[i].description, evaluations[i].script);
    return NULL;
}

static char *unknown_benchmark(const struct recipe *r, const char **key)
{
    const char *names[ARRAY_SIZE(evaluations) + ARRAY_SIZE(loads) + 1] = {"custom"};
    size_t n = 1;

    for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
        names[n++] = loads[i];
    for (size_t i = 0; i < ARRAY_SIZE(evaluations); i++)
        names[n++] = evaluations[i].type;
    for (size_t i = 0; i < n; i++)
        if (streq(r->benchmark, names[i]))
            return NULL;
    const char *nearest = nearest_name(r->benchmark, names, n);
    for (size_t i = 0; i < n; i++)
        if (starts_with(r->benchmark, names[i]))
            nearest = names[i];
    *key = "benchmark.type";
    return xasprintf("benchmark.type is '%s', which srtctl does not have%s%s%s", r->benchmark,
                     nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static char *data_set(const struct recipe *r, const char **key)
{
    const json_t *benchmark = json_object_get(r->root, "benchmark");
    const char *name = json_get_str(benchmark, "dataset_name");

    if (!name || streq(name, "random"))
        return NULL;
    *key = "benchmark.dataset_name";
    return xasprintf(
        "benchmark.dataset_name is %s: its file is in srtctl's container, and profd sends synthetic "
        "prompts",
        name);
}

static char *nothing_to_do(const struct recipe *r, const char **key)
{
    const struct recipe_phase *any = &r->phases[RECIPE_AGGREGATED];

    if (r->type != RECIPE_NONE || (any->isl && any->osl && any->concurrency))
        return NULL;
    return wrong(key, "benchmark",
                 "benchmark names no load, and profiling.type is none: there is nothing to do");
}

/* benchmarks/scripts/profiling/profile.sh */
static char *no_steps(const struct recipe *r, const char **key)
{
    static const char *const places[] = {[RECIPE_PREFILL] = "profiling.prefill.stop_step",
                                         [RECIPE_DECODE] = "profiling.decode.stop_step",
                                         [RECIPE_AGGREGATED] = "profiling.aggregated.stop_step"};
    for (int m = 0; m < _RECIPE_MODE_MAX; m++) {
        const struct recipe_phase *phase = &r->phases[m];
        if (!has_phases(r) || !phase->present || phase->stop_step > phase->start_step)
            continue;
        *key = places[m];
        return xasprintf("invalid step range: start=%" PRId64 " stop=%" PRId64, phase->start_step,
                         phase->stop_step);
    }
    return NULL;
}

/* clang-format off */
static const struct recipe_rule rules[] = {
    {torch_on_trtllm, "Set profiling.type to nsys."},
    {time_without_window, "delay_secs counts from the worker's launch, duration_secs is how long it records."},
    {aggregated_in_disaggregated, "Remove profiling.aggregated, or prefill_nodes and decode_nodes of resources."},
    {disaggregated_incomplete, "Add the missing one of profiling.prefill and profiling.decode; {} takes steps 0 to 50."},
    {roles_in_aggregated, "Name the steps under profiling.aggregated, or set resources.prefill_nodes and decode_nodes."},
    {aggregated_incomplete, "Add profiling.aggregated; {} takes steps 0 to 50."},
    {no_workers, "Say in resources how many workers of each role there are."},
    {profiler_config_twice, "The steps stand in profiling.prefill, decode or aggregated."},
    {benchmark_beside_load, "Set benchmark.type to manual; the load of a phase is its isl, osl and concurrency."},
    {many_workers, "Set it to 1. profd records any number of workers: --no-single-worker-limit lifts this rule.", .lifted_by = RECIPE_ANY_WORKERS},
    {not_a_load, "profctl start --duration 30s records while srtctl runs it; benchmark.type sa-bench with isl, osl and concurrencies is a load that profd sends.", RECIPE_ANY_LOAD},
    {unknown_benchmark, "The types of load that profd sends are sa-bench and sglang-bench.", RECIPE_ANY_LOAD},
    {data_set, "Set it to random, with isl and osl; or send the file by profctl bench --prompts.", RECIPE_ANY_LOAD},
    {no_load, "Set isl, osl and concurrency in each phase, next to them in profiling, or isl, osl and concurrencies in benchmark.", RECIPE_ANY_LOAD},
    {nothing_to_do, "Set isl, osl and concurrencies in benchmark, or profiling.type.", RECIPE_ANY_LOAD},
    {no_steps, "stop_step must be above start_step; 30 to 100 steps are usual."},
};
/* clang-format on */

int recipe_check(const struct recipe *r, unsigned lifted, struct problem *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        const char *key = "";
        _cleanup_(freep) char *text = rules[i].lifted_by & lifted ? NULL : rules[i].broken(r, &key);
        if (!text)
            continue;
        recipe_refuse(r, key, text, p);
        problem_remedy(p, "%s", rules[i].remedy);
        return -EINVAL;
    }
    return 0;
}
