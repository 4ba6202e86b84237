/* SPDX-License-Identifier: Apache-2.0 */
#include "client/audit/facts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include <math.h>

/* -- Prompts ------------------------------------------------------------------------------------------ */

static const struct mean_key {
    const char *of, *name;
    double unit;
} mean_keys[] = {
    {"input_tokens", "input_tokens", 1}, {"output_tokens", "output_tokens", 1},
    {"ttft_ns", "ttft_ms", NS_PER_MS},   {"tpot_ns", "tpot_ms", NS_PER_MS},
    {"e2e_ns", "e2e_ms", NS_PER_MS},
};

struct prompt_sums {
    int64_t n;
    struct {
        double sum;
        int64_t n;
    } means[ARRAY_SIZE(mean_keys)];
};

static void add_request(struct prompt_sums *s, const json_t *row)
{
    s->n++;
    for (size_t i = 0; i < ARRAY_SIZE(mean_keys); i++) {
        const json_t *v = json_object_get(row, mean_keys[i].of);
        if (!json_is_number(v) || json_number_value(v) < 0)
            continue;
        s->means[i].sum += json_number_value(v) / mean_keys[i].unit;
        s->means[i].n++;
    }
}

static const char *prompt_text(const json_t *prompts, size_t i)
{
    const json_t *v = json_array_get(prompts, i);
    return json_is_string(v) ? json_string_value(v) : json_get_str(v, "prompt");
}

static json_t *prompt_json(const struct prompt_sums *s, size_t index, const json_t *prompts)
{
    json_t *j = json_object();

    json_put_int(j, "prompt", (int64_t)index);
    json_put_str(j, "text", prompt_text(prompts, index));
    json_put_int(j, "requests", s->n);
    for (size_t i = 0; i < ARRAY_SIZE(mean_keys); i++)
        if (s->means[i].n > 0)
            json_object_set_new(j, mean_keys[i].name, json_real(s->means[i].sum / (double)s->means[i].n));
    double tokens = json_number_value(json_object_get(j, "output_tokens")),
           e2e_ms = json_number_value(json_object_get(j, "e2e_ms"));
    if (tokens > 0 && e2e_ms > 0)
        json_object_set_new(j, "output_tokens_per_s", json_real(tokens / e2e_ms * 1e3));
    return j;
}

/* Synthetic prompts are one each: together they are one line. */
json_t *facts_prompts(const json_t *requests, const json_t *prompts)
{
    size_t n = MAX(json_array_size(prompts), (size_t)1), i;
    _cleanup_(freep) struct prompt_sums *sums = xcalloc(n, sizeof(*sums));
    json_t *list = json_array(), *row;

    json_array_foreach((json_t *)requests, i, row)
    {
        int64_t index = json_array_size(prompts) > 0 ? json_get_int(row, "prompt", -1) : 0;
        const char *outcome = json_get_str(row, "outcome");
        if (index >= 0 && (size_t)index < n && outcome && streq(outcome, "success"))
            add_request(&sums[index], row);
    }
    for (i = 0; i < n; i++)
        json_array_append_new(list, prompt_json(&sums[i], i, prompts));
    return list;
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

    json_array_foreach((json_t *)workers, i,
                       worker) if (streq(json_get_str(worker, "url"), url)) return worker;
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

/* A worker's process is seen only where it runs on this host. */
static bool is_here(const json_t *memory)
{
    size_t i;
    json_t *worker;

    json_array_foreach(json_object_get(memory, "workers"), i,
                       worker) if (json_is_integer(json_object_get(worker, "pid"))) return true;
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

    json_object_foreach((json_t *)goodput, name, limit)
    {
        _cleanup_(freep) char *key = xasprintf("%s_ms", name);
        int64_t ns;
        if (json_is_string(limit) && parse_duration(json_string_value(limit), &ns) == 0)
            json_object_set_new(j, key, json_real((double)ns / NS_PER_MS));
    }
    return j;
}
