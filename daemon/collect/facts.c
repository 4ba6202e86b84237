/* SPDX-License-Identifier: Apache-2.0 */
/* What profd-ingest says of a file (proto/ingest.h), and what its name says, into its row. */
#include "base/alloc.h"
#include "daemon/collect/bringing.h"

static void take_columns(const json_t *facts, struct trace_record *row)
{
    const json_t *columns = json_object_get(facts, "columns"), *defects = json_object_get(facts, "defects");
    const struct {
        const char *key;
        int64_t *value;
    } numbers[] = {{"size", &row->columns_size},
                   {"slices", &row->slices},
                   {"gpu_slices", &row->gpu_slices},
                   {"threads", &row->threads},
                   {"flows", &row->flows}};

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        *numbers[i].value = json_get_int(columns, numbers[i].key, RECORD_NONE);
    free(row->defects);
    row->defects = json_array_size(defects) > 0 ? json_dumps(defects, JSON_COMPACT) : NULL;
}

void facts_to_row(const json_t *facts, struct trace_record *row)
{
    const struct {
        const char *key;
        int64_t *value;
    } numbers[] = {{"uncompressed", &row->uncompressed},
                   {"rank", &row->rank},
                   {"world_size", &row->world_size},
                   {"pid", &row->pid},
                   {"devices", &row->devices},
                   {"events", &row->events},
                   {"first_ts_ns", &row->first_event_at},
                   {"last_ts_ns", &row->last_event_at},
                   {"span_ns", &row->span_ns},
                   {"size", &row->size}};
    const struct {
        const char *key;
        char **value;
    } texts[] = {{"sha256", &row->sha256}, {"format", &row->format}, {"device_name", &row->device_name}};

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        *numbers[i].value = json_get_int(facts, numbers[i].key, *numbers[i].value);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (json_get_str(facts, texts[i].key))
            replace_str(texts[i].value, json_get_str(facts, texts[i].key));
    take_columns(facts, row);
}

void name_to_row(const struct trace_name *n, struct trace_record *row)
{
    const struct {
        int64_t from, *to;
    } numbers[] = {{n->dp, &row->dp}, {n->pp, &row->pp},     {n->tp, &row->tp},
                   {n->ep, &row->ep}, {n->rank, &row->rank}, {n->pid, &row->pid}};

    /* What the file says of itself goes before what its name says. */
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (numbers[i].from >= 0 && *numbers[i].to == RECORD_NONE)
            *numbers[i].to = numbers[i].from;
    if (n->stage != TRACE_STAGE_NONE)
        replace_str(&row->stage, trace_stage_name(n->stage));
    row->kind = n->kind == TRACE_NAME_FRONTEND ? TRACE_KIND_FRONTEND
                : n->kind == TRACE_NAME_RANK   ? TRACE_KIND_TRACE
                                               : TRACE_KIND_ATTACHMENT;
}
