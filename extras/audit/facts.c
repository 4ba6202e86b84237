/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/audit/facts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include <math.h>

/* -- Prompts ------------------------------------------------------------------------------------------ */

static const char *prompt_text(const json_t *prompts, size_t i)
{
    const json_t *v = json_array_get(prompts, i), *messages = json_object_get(v, "messages");
    if (json_array_size(messages) > 0)
        return json_get_str(json_array_get(messages, json_array_size(messages) - 1), "content");
    return json_is_string(v) ? json_string_value(v) : json_get_str(v, "prompt");
}

/* Synthetic prompts differ from each other: together they are one line. */
static json_t *synthetic(const json_t *run)
{
    static const char *const metrics[] = {"ttft_ms", "tpot_ms", "e2e_ms"};
    const json_t *tokens = json_object_get(run, "tokens");
    int64_t n = json_get_int(json_object_get(run, "requests"), "success", 0);
    json_t *j = json_pack("{s: i, s: I}", "prompt", 0, "requests", (json_int_t)n);

    for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
        json_object_set(j, metrics[i], json_object_get(json_object_get(run, "metrics"), metrics[i]));
    if (n > 0) {
        json_object_set_new(j, "input_tokens",
                            json_real((double)json_get_int(tokens, "input", 0) / (double)n));
        json_object_set_new(j, "output_tokens",
                            json_real((double)json_get_int(tokens, "output", 0) / (double)n));
    }
    return j;
}

json_t *facts_prompts(const json_t *run, const json_t *prompts)
{
    json_t *list = json_array(), *one;
    size_t i;

    json_array_foreach(json_object_get(run, "prompts"), i, one) {
        json_t *copy = json_copy(one);
        json_put_str(copy, "text", prompt_text(prompts, (size_t)json_get_int(one, "prompt", 0)));
        json_array_append_new(list, copy);
    }
    if (i == 0)
        json_array_append_new(list, synthetic(run));
    return list;
}

/* -- Tokens a second ---------------------------------------------------------------------------------- */

static int compare_values(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

static json_t *rate_distribution(double *values, size_t n)
{
    double mean = 0, squares = 0;

    if (n == 0)
        return json_null();
    qsort(values, n, sizeof(*values), compare_values);
    for (size_t i = 0; i < n; i++)
        mean += values[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return json_pack("{s: I, s: f, s: f, s: f, s: f, s: f}", "n", (json_int_t)n, "mean", mean, "std",
                     sqrt(squares / (double)n), "min", values[0], "p50",
                     (values[(n - 1) / 2] + values[n / 2]) / 2, "max", values[n - 1]);
}

json_t *facts_rates(const json_t *requests)
{
    static const struct {
        const char *key;
        bool input, output;
    } rates[] = {{"input_tokens_per_s", true, false},
                 {"output_tokens_per_s", false, true},
                 {"total_tokens_per_s", true, true}};
    _cleanup_(freep) double *values = xcalloc(json_array_size(requests) + 1, sizeof(*values));
    json_t *j = json_object();

    for (size_t k = 0; k < ARRAY_SIZE(rates); k++) {
        size_t i, n = 0;
        json_t *r;
        json_array_foreach((json_t *)requests, i, r) {
            const char *outcome = json_get_str(r, "outcome");
            double input = json_get_number(r, "input_tokens", NAN),
                   output = json_get_number(r, "output_tokens", NAN),
                   seconds = json_get_number(r, "e2e_ns", 0) / NS_PER_S,
                   tokens = (rates[k].input ? input : 0) + (rates[k].output ? output : 0);
            if (outcome && streq(outcome, "success") && !json_get_bool(r, "cold", false) && seconds > 0 &&
                isfinite(tokens))
                values[n++] = tokens / seconds;
        }
        json_object_set_new(j, rates[k].key, rate_distribution(values, n));
    }
    return j;
}

/* -- Model and machine -------------------------------------------------------------------------------- */

static const char *target_url(const json_t *target)
{
    return json_is_string(target) ? json_string_value(target) : json_get_str(target, "url");
}

static const json_t *worker_of(const json_t *workers, const char *url)
{
    size_t i;
    json_t *worker;

    json_array_foreach((json_t *)workers, i, worker)
        if (streq(json_get_str(worker, "url"), url))
            return worker;
    return json_array_get(workers, 0);
}

json_t *facts_model(const json_t *run, const json_t *workers)
{
    const json_t *targets = json_object_get(run, "targets");
    const char *url = target_url(json_array_get(targets, 0));
    const json_t *worker = url ? worker_of(workers, url) : json_array_get(workers, 0);
    json_t *j = json_object();

    json_put_str(j, "name", json_get_str(run, "model"));
    json_put_str(j, "engine", json_get_str(worker, "engine"));
    json_put_str(j, "version", json_get_str(worker, "version"));
    json_put_str(j, "url", url);
    json_put_int(j, "workers", (int64_t)MAX(json_array_size(workers), json_array_size(targets)));
    return j;
}

/* The process of a worker is visible only if it runs on this host. */
static bool is_here(const json_t *memory)
{
    size_t i;
    json_t *worker;

    json_array_foreach(json_object_get(memory, "workers"), i, worker)
        if (json_is_integer(json_object_get(worker, "pid")))
            return true;
    return false;
}

json_t *facts_hardware(json_t *take_machine, const json_t *run)
{
    const json_t *memory = json_object_get(run, "memory");
    json_t *gpus = json_object_get(memory, "gpus");

    json_put_bool(take_machine, "of_worker", is_here(memory));
    json_object_set_new(take_machine, "gpus", json_is_array(gpus) ? json_incref(gpus) : json_array());
    json_put_str(take_machine, "gpu_note", json_get_str(memory, "gpus_reason"));
    return take_machine;
}

json_t *facts_goal(const json_t *goodput)
{
    json_t *j = json_object(), *limit;
    const char *name;

    json_object_foreach((json_t *)goodput, name, limit) {
        _cleanup_(freep) char *key = xasprintf("%s_ms", name);
        int64_t ns;
        if (json_is_string(limit) && parse_duration(json_string_value(limit), &ns) == 0)
            json_object_set_new(j, key, json_real((double)ns / NS_PER_MS));
    }
    return j;
}
