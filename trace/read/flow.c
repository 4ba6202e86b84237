/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge_internal.h"

/* Key of the map: the number of the kind follows the id. */
enum {
    FLOW_KEY_KIND,
    FLOW_KEY_IDS,
};

static const enum column flow_columns[] = {COL_flow_out, COL_flow_in, COL_flow_id, COL_flow_name,
                                           COL_flow_category};

int flows_init(struct flows *f, struct budget *budget, struct columns_writer *w, struct defects *defects)
{
    *f = (struct flows){.budget = budget, .defects = defects, .numbers.budget = budget};
    return table_builder_init(&f->out, w, flow_columns, ARRAY_SIZE(flow_columns));
}

void flows_done(struct flows *f)
{
    number_map_done(&f->numbers);
    BUDGET_FREE(f->budget, f->kinds, f->kinds_cap);
    BUDGET_FREE(f->budget, f->starts, f->starts_cap);
    BUDGET_FREE(f->budget, f->ends, f->ends_cap);
    BUDGET_FREE(f->budget, f->waiting, f->waiting_cap);
    table_builder_done(&f->out);
}

/* Returns the number of the kind, or -ENOMEM. */
static int64_t flows_kind_of(struct flows *f, uint16_t category, uint32_t name, int64_t category_string)
{
    uint32_t *kind =
        number_map_put(&f->numbers, (uint64_t)category << 32 | name, FLOW_KEY_KIND, (uint32_t)f->n_kinds);

    if (!kind || *kind == NUMBER_MAP_SUB_MAX - FLOW_KEY_IDS)
        return -ENOMEM;
    if (*kind == f->n_kinds) {
        if (BUDGET_RESERVE(f->budget, f->kinds, f->kinds_cap, f->n_kinds + 1) < 0)
            return -ENOMEM;
        f->kinds[f->n_kinds++] = (struct flow_kind){category_string, name};
    }
    return *kind;
}

static struct flow_start *flows_find_start(struct flows *f, int64_t id, uint32_t kind)
{
    uint32_t *start = number_map_get(&f->numbers, (uint64_t)id, FLOW_KEY_IDS + kind);

    return start ? &f->starts[*start] : NULL;
}

static void flows_put(struct flows *f, uint32_t out, uint32_t in, int64_t id, uint32_t kind)
{
    TABLE_BUILDER_ADD(&f->out, out, in, id, f->kinds[kind].name, f->kinds[kind].category);
}

/* A flow that starts again keeps its first start. */
static int flows_start(struct flows *f, int64_t id, uint32_t kind, const struct open_slice *top)
{
    uint32_t *number;

    if (BUDGET_RESERVE(f->budget, f->starts, f->starts_cap, f->n_starts + 1) < 0)
        return -ENOMEM;
    number = number_map_put(&f->numbers, (uint64_t)id, FLOW_KEY_IDS + kind, (uint32_t)f->n_starts);
    if (!number)
        return -ENOMEM;
    if (*number == f->n_starts)
        f->starts[f->n_starts++] = (struct flow_start){top->ts, top->row};
    return 0;
}

/* Rings of flow ends: each ring is identified by its last end, whose successor is the first. */
static void flows_ring_append(struct flows *f, uint32_t *last, uint32_t end)
{
    if (*last == 0) {
        f->ends[end].next = end;
    } else {
        f->ends[end].next = f->ends[*last - 1].next;
        f->ends[*last - 1].next = end;
    }
    *last = end + 1;
}

static uint32_t flows_ring_take(struct flows *f, uint32_t *last)
{
    uint32_t first = f->ends[*last - 1].next;

    if (first == *last - 1)
        *last = 0;
    else
        f->ends[*last - 1].next = f->ends[first].next;
    return first;
}

static int flows_wait_for_slice(struct flows *f, const struct event *e, uint32_t kind)
{
    uint32_t end;

    if (BUDGET_RESERVE(f->budget, f->waiting, f->waiting_cap, (size_t)e->thread + 1) < 0)
        return -ENOMEM;
    if (f->free_end != 0) {
        end = flows_ring_take(f, &f->free_end);
    } else {
        if (f->n_ends == UINT32_MAX || BUDGET_RESERVE(f->budget, f->ends, f->ends_cap, f->n_ends + 1) < 0)
            return -ENOMEM;
        end = (uint32_t)f->n_ends++;
    }
    f->ends[end] = (struct flow_end){.id = e->dur, .offset = e->offset, .kind = kind};
    flows_ring_append(f, &f->waiting[e->thread], end);
    return 0;
}

int flows_event(struct flows *f, const struct event *e, int64_t category, const struct open_slice *top)
{
    int64_t kind = flows_kind_of(f, e->category, e->name, category);
    struct flow_start *s;

    if (kind < 0)
        return (int)kind;
    if (e->phase == EVENT_FLOW_END)
        return flows_wait_for_slice(f, e, (uint32_t)kind);
    if (!top) {
        count_defect(f->defects, DEFECT_flow_without_slice, 1, e->offset);
        return 0;
    }
    if (e->phase == EVENT_FLOW_START)
        return flows_start(f, e->dur, (uint32_t)kind, top);

    s = flows_find_start(f, e->dur, (uint32_t)kind);
    if (!s) {
        count_defect(f->defects, DEFECT_flow_without_start, 1, e->offset);
        return 0;
    }
    if (s->ts > top->ts)
        flows_put(f, top->row, s->row, e->dur, (uint32_t)kind);
    else
        flows_put(f, s->row, top->row, e->dur, (uint32_t)kind);
    if (e->phase == EVENT_FLOW_STEP)
        *s = (struct flow_start){top->ts, top->row};
    return 0;
}

void flows_arrive(struct flows *f, uint32_t thread, const struct open_slice *slice)
{
    while (f->waiting[thread] != 0) {
        uint32_t end = flows_ring_take(f, &f->waiting[thread]);
        const struct flow_end *e = &f->ends[end];
        const struct flow_start *s = flows_find_start(f, e->id, e->kind);

        if (s)
            flows_put(f, s->row, slice->row, e->id, e->kind);
        else
            count_defect(f->defects, DEFECT_flow_without_start, 1, e->offset);
        flows_ring_append(f, &f->free_end, end);
    }
}

void flows_finish(struct flows *f)
{
    for (size_t i = 0; i < f->waiting_cap; i++)
        while (f->waiting[i] != 0)
            count_defect(f->defects, DEFECT_flow_without_slice, 1,
                         f->ends[flows_ring_take(f, &f->waiting[i])].offset);
    table_builder_flush(&f->out);
}
