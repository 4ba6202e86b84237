/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of each source that is asked over HTTP, a file of targets, and a value as a client might name it. */
#include "base/alloc.h"
#include "base/target_files.h"
#include "daemon/fleet/router.h"
#include "daemon/fleet/source.h"

#define WORKERS_MAX 100
#define VALUE_SIZE  256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A well-formed value of each source, for its parser. */
static const struct {
    const char *key, *value;
} samples[] = {
    {"targets", "http://10.0.0.1/targets"},
    {"ray", "http://10.0.0.1:8265"},
    {"consul", "vllm"},
};

static const char *sample_value(const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
        if (streq(samples[i].key, key))
            return samples[i].value;
    return "a";
}

static void read_answer(const struct fleet_source *source, const char *data, size_t size)
{
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    struct source_config c = {.source = source, .value = xstrdup(sample_value(source->key))};
    char *next = NULL, why[SOURCE_WHY_MAX];

    if (source->parse(&c, data, size, WORKERS_MAX, f, &next, why) == 0) {
        if (f->n_workers > WORKERS_MAX)
            abort();
        listing_settle(f, size % 2);
        json_decref(fleet_to_json(f));
    }
    free(next);
    source_config_done(&c);
}

static void read_file_text(const char *name, const char *data, size_t size)
{
    json_t *list = NULL;
    char error[200];

    if (target_text_parse(name, data, size, &list, error) == 0 && !json_is_array(list))
        abort();
    json_decref(list);
}

/* look() of a source that asks nobody. */
static void look_pure(const struct source_config *c)
{
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    char why[SOURCE_WHY_MAX];

    c->source->look(c, WORKERS_MAX, f, why);
    if (f->n_workers > WORKERS_MAX)
        abort();
}

/* What is accepted can be asked for. */
static void take_value(const struct fleet_source *source, const char *value)
{
    struct source_config c = {.source = source, .value = xstrdup(value), .asked = true};
    struct source_request request = {0};
    char *reason = NULL, why[SOURCE_WHY_MAX];

    bool accepted = source_config_check(&c, &reason) == 0;
    if (accepted && source->request)
        source->request(&c, NULL, &request, why);
    if (accepted && source == &source_slurm)
        look_pure(&c);
    source_request_done(&request);
    free(reason);
    source_config_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char value[VALUE_SIZE] = "";

    memcpy(value, data, MIN(size, sizeof(value) - 1));
    for (size_t i = 0; source_at(i); i++) {
        if (source_at(i)->parse)
            read_answer(source_at(i), (const char *)data, size);
        take_value(source_at(i), value);
    }
    read_file_text("a.json", (const char *)data, size);
    read_file_text("a.yml", (const char *)data, size);
    read_file_text("a", (const char *)data, size);
    return 0;
}
