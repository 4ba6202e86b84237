/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/srtctl/recipe.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include <errno.h>
#include <inttypes.h>

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

static const char *const worker_keys[_RECIPE_MODE_MAX] = {[RECIPE_PREFILL] = "prefill_workers",
                                                          [RECIPE_DECODE] = "decode_workers",
                                                          [RECIPE_AGGREGATED] = "agg_workers"};

/* A rule and its remedy; the message begins with the location of the key. */
static int rule_refuse(const struct recipe *r, const char *key, const char *remedy, struct problem *p,
                       const char *format, ...) _printf_(5, 6);
static int rule_refuse(const struct recipe *r, const char *key, const char *remedy, struct problem *p,
                       const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    recipe_refuse(r, key, p, "%s", text);
    problem_remedy(p, "%s", remedy);
    return -EINVAL;
}

/* nsys-time records no phases. */
static bool rule_has_phases(const struct recipe *r)
{
    return r->type != RECIPE_NONE && r->type != RECIPE_NSYS_TIME;
}

/* src/srtctl/core/schema.py, as of its commit c88ef73: the phases and the workers of each role. */
static int rules_check_roles(const struct recipe *r, struct problem *p)
{
    bool prefill = r->phases[RECIPE_PREFILL].present, decode = r->phases[RECIPE_DECODE].present,
         aggregated = r->phases[RECIPE_AGGREGATED].present;

    if (r->disaggregated && aggregated)
        return rule_refuse(
            r, "profiling.aggregated",
            "Remove profiling.aggregated, or prefill_nodes and decode_nodes of resources.", p,
            "Disaggregated mode only supports profiling.prefill/decode; profiling.aggregated is "
            "not allowed.");
    if (r->disaggregated && (!prefill || !decode))
        return rule_refuse(
            r, "profiling",
            "Add the missing one of profiling.prefill and profiling.decode; {} takes steps 0 to 50.", p,
            "Disaggregated mode requires both profiling.prefill and profiling.decode to be set when "
            "profiling "
            "is enabled.");
    if (!r->disaggregated && (prefill || decode))
        return rule_refuse(r, prefill ? "profiling.prefill" : "profiling.decode",
                           "Name the steps under profiling.aggregated, or set resources.prefill_nodes and "
                           "decode_nodes.",
                           p,
                           "Aggregated mode only supports profiling.aggregated; profiling.prefill/decode are "
                           "not allowed.");
    if (!r->disaggregated && !aggregated)
        return rule_refuse(
            r, "profiling", "Add profiling.aggregated; {} takes steps 0 to 50.", p,
            "Aggregated mode requires profiling.aggregated to be set when profiling is enabled.");
    bool has_workers = r->disaggregated
                           ? r->phases[RECIPE_PREFILL].workers > 0 && r->phases[RECIPE_DECODE].workers > 0
                           : r->phases[RECIPE_AGGREGATED].workers > 0;
    if (r->generation != RECIPE_LOAD_IN_PHASE && !has_workers)
        return rule_refuse(r, "resources", "Set the number of workers of each role in resources.", p,
                           r->disaggregated
                               ? "Disaggregated mode requires prefill_workers and decode_workers to be > 0."
                               : "Aggregated mode requires agg_workers to be > 0.");
    return 0;
}

/* The profiler: the same source; and as of December 2025 (a1a219a) and January 2026 (61d5b7c). */
static int rules_check_profiler(const struct recipe *r, unsigned lifted, struct problem *p)
{
    bool is_old = r->type != RECIPE_NONE && r->generation != RECIPE_LOAD_IN_BENCHMARK;
    const char *flag;
    json_t *value;

    for (int m = 0; m < _RECIPE_MODE_MAX && r->type == RECIPE_NSYS && streq(r->backend, "vllm"); m++)
        json_object_foreach((json_t *)r->phases[m].config, flag, value) {
            if (starts_with(flag, "profiler-config") || starts_with(flag, "profiler_config"))
                return rule_refuse(
                    r, "backend.vllm_config", "Set the steps in profiling.prefill, decode or aggregated.", p,
                    "vllm_config.%s sets ['%s'], but profiler-config.* is derived automatically from the "
                    "profiling: block when nsys profiling is enabled. Remove these keys.",
                    recipe_mode_name((enum recipe_mode)m), flag);
        }
    if (is_old && !streq(r->benchmark, "manual"))
        return rule_refuse(
            r, "benchmark.type",
            "Set benchmark.type to manual; the load of a phase is its isl, osl and concurrency.", p,
            "Cannot enable profiling with benchmark type '%s'. Profiling mode is mutually exclusive with "
            "benchmarking.",
            r->benchmark);
    for (int m = 0; m < _RECIPE_MODE_MAX && is_old && !(lifted & RECIPE_ANY_WORKERS); m++) {
        _cleanup_(freep) char *key = xasprintf("resources.%s", worker_keys[m]);
        if (r->phases[m].workers > 1)
            return rule_refuse(r, key,
                               "Set it to 1. profd records any number of workers: --no-single-worker-limit "
                               "lifts this rule.",
                               p, "Profiling mode requires single worker only. Got %s=%" PRId64,
                               worker_keys[m], r->phases[m].workers);
    }
    return 0;
}

/* Whether profd sends this benchmark as a load. */
static int rules_check_benchmark(const struct recipe *r, struct problem *p)
{
    static const char no_load_remedy[] = "profctl start --duration 30s records while srtctl runs it; "
                                         "benchmark.type sa-bench with isl, osl and "
                                         "concurrencies is a load that profd sends.";
    const char *names[1 + ARRAY_SIZE(evaluations) + ARRAY_SIZE(loads)] = {"custom"}, *nearest,
                                                    *data_set =
                                                        json_get_str(json_object_get(r->root, "benchmark"),
                                                                     "dataset_name");
    bool is_load = false;
    size_t n = 1;

    if (streq(r->benchmark, "custom"))
        return rule_refuse(
            r, "benchmark.type", no_load_remedy, p,
            "benchmark.type is custom: srtctl runs benchmark.command in its container, and profd "
            "runs no commands of recipes");
    for (size_t i = 0; i < ARRAY_SIZE(evaluations); i++) {
        names[n++] = evaluations[i].type;
        if (streq(r->benchmark, evaluations[i].type))
            return rule_refuse(r, "benchmark.type", no_load_remedy, p,
                               "benchmark.type is %s, %s that srtctl runs in its container by "
                               "/srtctl-benchmarks/%s, and that profd does not run",
                               r->benchmark, evaluations[i].description, evaluations[i].script);
    }
    for (size_t i = 0; i < ARRAY_SIZE(loads); i++) {
        names[n++] = loads[i];
        is_load |= streq(r->benchmark, loads[i]);
    }
    nearest = is_load ? NULL : nearest_name(r->benchmark, names, n);
    for (size_t i = 0; i < n; i++)
        if (starts_with(r->benchmark, names[i]))
            nearest = names[i];
    if (!is_load)
        return rule_refuse(r, "benchmark.type",
                           "The types of load that profd sends are sa-bench and sglang-bench.", p,
                           "benchmark.type is '%s', which srtctl does not have%s%s%s", r->benchmark,
                           nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    if (data_set && !streq(data_set, "random"))
        return rule_refuse(r, "benchmark.dataset_name",
                           "Set it to random, with isl and osl; or send the file by profctl bench --prompts.",
                           p,
                           "benchmark.dataset_name is %s: its file is in srtctl's container, and profd sends "
                           "synthetic prompts",
                           data_set);
    return 0;
}

static void rule_append_number(char **text, const char *name, int64_t n)
{
    append_str(text, n > 0 ? "%s=%" PRId64 : "%s=None", name, n);
}

/* Whether each phase, or without profiling the benchmark, has a load. */
static int rules_check_load(const struct recipe *r, struct problem *p)
{
    const struct recipe_phase *any = &r->phases[RECIPE_AGGREGATED];

    for (int m = 0; m < _RECIPE_MODE_MAX && rule_has_phases(r); m++) {
        const struct recipe_phase *phase = &r->phases[m];
        if (!phase->present || (phase->isl && phase->osl && phase->concurrency))
            continue;
        _cleanup_(freep) char *key = xstrdup("profiling"), *got = NULL;
        if (r->generation == RECIPE_LOAD_IN_PHASE)
            append_str(&key, ".%s", recipe_mode_name((enum recipe_mode)m));
        rule_append_number(&got, "isl", phase->isl);
        rule_append_number(&got, ", osl", phase->osl);
        rule_append_number(&got, ", concurrency", phase->concurrency);
        return rule_refuse(
            r, key,
            "Set isl, osl and concurrency in each phase, next to them in profiling, or isl, osl "
            "and concurrencies in benchmark.",
            p, "%s.isl/osl/concurrency must be set when profiling is enabled. Got %s", key, got);
    }
    if (r->type == RECIPE_NONE && !(any->isl && any->osl && any->concurrency))
        return rule_refuse(r, "benchmark", "Set isl, osl and concurrencies in benchmark, or profiling.type.",
                           p, "benchmark names no load, and profiling.type is none: there is nothing to do");
    return 0;
}

int recipe_check(const struct recipe *r, unsigned lifted, struct problem *p)
{
    if (r->type == RECIPE_TORCH && streq(r->backend, "trtllm"))
        return rule_refuse(r, "profiling.type", "Set profiling.type to nsys.", p,
                           "torch profiling is not supported for the trtllm backend; use nsys instead");
    if (r->type == RECIPE_NSYS_TIME && (r->delay_secs < 0 || r->duration_secs < 0))
        return rule_refuse(
            r, "profiling",
            "delay_secs is counted from the worker's launch, duration_secs is the length of the recording.",
            p, "profiling.delay_secs and profiling.duration_secs are required for nsys-time mode");
    if ((rule_has_phases(r) && rules_check_roles(r, p) < 0) || rules_check_profiler(r, lifted, p) < 0)
        return -EINVAL;
    if (!(lifted & RECIPE_ANY_LOAD) && (rules_check_benchmark(r, p) < 0 || rules_check_load(r, p) < 0))
        return -EINVAL;
    /* benchmarks/scripts/profiling/profile.sh */
    for (int m = 0; m < _RECIPE_MODE_MAX && rule_has_phases(r); m++) {
        const struct recipe_phase *phase = &r->phases[m];
        _cleanup_(freep) char *key =
            xasprintf("profiling.%s.stop_step", recipe_mode_name((enum recipe_mode)m));
        if (phase->present && phase->stop_step <= phase->start_step)
            return rule_refuse(r, key, "stop_step must be above start_step; 30 to 100 steps are usual.", p,
                               "invalid step range: start=%" PRId64 " stop=%" PRId64, phase->start_step,
                               phase->stop_step);
    }
    return 0;
}
