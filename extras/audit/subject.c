/* SPDX-License-Identifier: Apache-2.0 */
/* The subject of the audit: the model, the machine, and the load. Tables of two columns; unknown values
 * have no line. */
#include "base/alloc.h"
#include "base/units.h"
#include "extras/audit/parts.h"
#include <inttypes.h>

/* Adds a line of two columns; takes ownership of the value. */
static void put_fact(struct table *t, const char *name, char *take_value)
{
    if (take_value)
        document_row(t, (char *const[]){xstrdup(name), take_value});
}

static struct table *fact_table(struct document *d)
{
    return document_table(d, (const char *const[]){"=", "="}, 2);
}

static void put_text(struct table *t, const char *name, const json_t *object, const char *key)
{
    const char *text = json_get_str(object, key);
    put_fact(t, name, text ? xstrdup(text) : NULL);
}

static void put_int(struct table *t, const char *name, const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    put_fact(t, name, json_is_integer(v) ? xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(v)) : NULL);
}

static void put_size(struct table *t, const char *name, const json_t *object, const char *key)
{
    char text[UNIT_TEXT_MAX];
    int64_t bytes = json_get_int(object, key, -1);
    put_fact(t, name, bytes >= 0 ? xstrdup(format_size(text, bytes)) : NULL);
}

void audit_model(const json_t *facts, struct document *d)
{
    const json_t *model = json_object_get(facts, "model");
    struct table *t = fact_table(d);

    put_text(t, "Model", model, "name");
    put_text(t, "Engine", model, "engine");
    put_text(t, "Version", model, "version");
    put_text(t, "Asked at", model, "url");
    put_int(t, "Workers", model, "workers");
    put_int(t, "Longest context", model, "max_model_len");
    put_size(t, "Model file", model, "file_bytes");
}

void audit_hardware(const json_t *facts, struct document *d)
{
    const json_t *h = json_object_get(facts, "hardware"), *gpus = json_object_get(h, "gpus");
    struct table *t;
    size_t i;
    json_t *gpu;

    if (!json_get_bool(h, "of_worker", false))
        document_text(d, "Of the machine that sent the requests; the worker's is another one.");
    t = fact_table(d);
    put_text(t, "CPU", h, "cpu");
    put_int(t, "Processors", h, "processors");
    put_size(t, "Memory", h, "memory_bytes");
    put_text(t, "Kernel", h, "kernel");
    put_text(t, "NVIDIA driver", h, "driver");
    json_array_foreach(gpus, i, gpu) {
        char size[UNIT_TEXT_MAX];
        const char *name = json_get_str(gpu, "name");
        put_fact(t, "GPU",
                 xasprintf("%s, %s", name ? name : "unknown",
                           format_size(size, json_get_int(gpu, "memory_total_bytes", 0))));
    }
    if (json_array_size(gpus) == 0)
        put_fact(t, "GPU",
                 xasprintf("not available%s%s", json_get_str(h, "gpu_note") ? ": " : "",
                           json_get_str(h, "gpu_note") ? json_get_str(h, "gpu_note") : ""));
}

/* Warm-up requests are not in any figure. */
static void put_warm_up(const json_t *run, struct document *d)
{
    int64_t most = 0, failed = 0;
    size_t i;
    json_t *worker;

    json_array_foreach(json_object_get(run, "warmed"), i, worker) {
        most = MAX(most, json_get_int(worker, "sent", 0));
        failed += json_get_int(worker, "failed", 0);
    }
    document_text(d, "Warm-up runs: %" PRId64 "%s%s", most,
                  most > 0 ? " to each worker, before each run and in none of its figures" : "",
                  failed > 0 ? "; some failed" : "");
}

void audit_configuration(const json_t *facts, struct document *d)
{
    static const struct {
        const char *key, *name;
    } keys[] = {
        {"api", "API"},           {"isl", "Input tokens"},   {"osl", "Output tokens"},
        {"requests", "Requests"}, {"duration", "Duration"},  {"arrival", "Arrival"},
        {"rate", "Requests/s"},   {"repeat", "Each prompt"}, {"seed", "Seed of chance"},
        {"stream", "Streamed"},
    };
    const json_t *w = json_object_get(audit_run(facts), "workload");
    struct table *t = fact_table(d);
    char when[UNIT_TEXT_MAX];

    put_fact(t, "Made", xstrdup(format_time(when, json_get_int(facts, "made_at", 0))));
    put_fact(t, "Run", xasprintf("r%" PRId64, json_get_int(audit_run(facts), "run", 0)));
    put_fact(t, "Prompts", xasprintf("%zu", json_array_size(json_object_get(facts, "prompts"))));
    if (run_places(audit_run(facts)) > 0)
        put_fact(t, "At a time", xasprintf("%" PRId64, run_places(audit_run(facts))));
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const json_t *v = json_object_get(w, keys[i].key);
        if (!v || json_is_null(v))
            continue;
        put_fact(t, keys[i].name,
                 json_is_string(v) ? xstrdup(json_string_value(v)) : json_dumps(v, JSON_ENCODE_ANY));
    }
    put_warm_up(audit_run(facts), d);
}
