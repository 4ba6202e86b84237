/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge_internal.h"

/*
 * The merging thread decides which slice an event of a flow is bound to. The rest, which only needs the bound events in
 * their order, is done in the writer's thread.
 */

#define FLOW_BLOCK_EVENTS 256

struct flow_block {
    struct flows *owner;
    size_t n;
    struct flow_bound {
        int64_t id, category; /* category: string */
        int64_t ts;           /* of the slice */
        uint64_t offset;      /* of the event */
        uint32_t kind, name, row;
        enum event_phase phase;
    } events[FLOW_BLOCK_EVENTS];
};

static const enum column flow_columns[] = {COL_flow_out, COL_flow_in, COL_flow_id, COL_flow_name,
                                           COL_flow_category};

/* -- In the writer's thread -- */

/* A flow that starts again keeps its first start. */
static int flows_start(struct flows *f, const struct flow_bound *e)
{
    uint32_t *number;

    if (BUDGET_RESERVE(f->budget, f->starts, f->starts_cap, f->n_starts + 1) < 0)
        return -ENOMEM;
    number = number_map_put(&f->start_numbers, (uint64_t)e->id, e->kind, (uint32_t)f->n_starts);
    if (!number)
        return -ENOMEM;
    if (*number == f->n_starts)
        f->starts[f->n_starts++] = (struct flow_start){e->ts, e->row};
    return 0;
}

static int flows_take_event(struct flows *f, const struct flow_bound *e)
{
    uint32_t *start, out, in;
    struct flow_start *s;

    if (e->phase == EVENT_FLOW_START)
        return flows_start(f, e);
    start = number_map_get(&f->start_numbers, (uint64_t)e->id, e->kind);
    if (!start) {
        count_defect(&f->late_defects, DEFECT_flow_without_start, 1, e->offset);
        return 0;
    }
    s = &f->starts[*start];
    out = s->row;
    in = e->row;
    if (e->phase != EVENT_FLOW_END && s->ts > e->ts) {
        out = e->row;
        in = s->row;
    }
    TABLE_BUILDER_ADD(&f->out, out, in, e->id, e->name, e->category);
    if (e->phase == EVENT_FLOW_STEP)
        *s = (struct flow_start){e->ts, e->row};
    return 0;
}

static void flows_take_block(void *arg)
{
    const struct flow_block *b = arg;
    struct flows *f = b->owner;

    for (size_t i = 0; f->error == 0 && i < b->n; i++)
        f->error = flows_take_event(f, &b->events[i]);
}

static void flows_end(void *arg)
{
    struct flows *f = arg;

    table_builder_flush(&f->out);
}

/* -- In the merging thread -- */

static void flows_begin_block(struct flows *f)
{
    f->block = handover_buffer(&f->blocks);
    f->block->owner = f;
    f->block->n = 0;
}

int flows_init(struct flows *f, struct budget *budget, struct columns_writer *w, struct defects *defects)
{
    int r;

    *f = (struct flows){.writer = w,
                        .budget = budget,
                        .defects = defects,
                        .kind_numbers.budget = budget,
                        .start_numbers.budget = budget};
    r = handover_init(&f->blocks, w, sizeof(*f->block), flows_take_block);
    if (r == 0)
        flows_begin_block(f);
    return r == 0 ? table_builder_init(&f->out, w, flow_columns, ARRAY_SIZE(flow_columns)) : r;
}

void flows_done(struct flows *f)
{
    if (f->writer)
        columns_wait_for(f->writer, f->end);
    handover_done(&f->blocks);
    number_map_done(&f->kind_numbers);
    number_map_done(&f->start_numbers);
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
        number_map_put(&f->kind_numbers, (uint64_t)category << 32 | name, 0, (uint32_t)f->n_kinds);

    if (!kind)
        return -ENOMEM;
    if (*kind == f->n_kinds) {
        if (BUDGET_RESERVE(f->budget, f->kinds, f->kinds_cap, f->n_kinds + 1) < 0)
            return -ENOMEM;
        f->kinds[f->n_kinds++] = (struct flow_kind){category_string, name};
    }
    return *kind;
}

static void flows_bind(struct flows *f, int64_t id, uint32_t kind, enum event_phase phase, uint64_t offset,
                       const struct open_slice *to)
{
    f->block->events[f->block->n++] = (struct flow_bound){.id = id,
                                                          .category = f->kinds[kind].category,
                                                          .ts = to->ts,
                                                          .offset = offset,
                                                          .kind = kind,
                                                          .name = f->kinds[kind].name,
                                                          .row = to->row,
                                                          .phase = phase};
    if (f->block->n == FLOW_BLOCK_EVENTS) {
        handover_give(&f->blocks);
        flows_begin_block(f);
    }
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

    if (kind < 0)
        return (int)kind;
    if (e->phase == EVENT_FLOW_END)
        return flows_wait_for_slice(f, e, (uint32_t)kind);
    if (top)
        flows_bind(f, e->dur, (uint32_t)kind, e->phase, e->offset, top);
    else
        count_defect(f->defects, DEFECT_flow_without_slice, 1, e->offset);
    return 0;
}

void flows_arrive(struct flows *f, uint32_t thread, const struct open_slice *slice)
{
    while (f->waiting[thread] != 0) {
        uint32_t end = flows_ring_take(f, &f->waiting[thread]);
        const struct flow_end *e = &f->ends[end];

        flows_bind(f, e->id, e->kind, EVENT_FLOW_END, e->offset, slice);
        flows_ring_append(f, &f->free_end, end);
    }
}

void flows_finish(struct flows *f)
{
    for (size_t i = 0; i < f->waiting_cap; i++)
        while (f->waiting[i] != 0)
            count_defect(f->defects, DEFECT_flow_without_slice, 1,
                         f->ends[flows_ring_take(f, &f->waiting[i])].offset);
    handover_give(&f->blocks);
    f->end = columns_call(f->writer, flows_end, f);
}

int flows_wait(struct flows *f)
{
    enum defect_kind late = DEFECT_flow_without_start;

    columns_wait_for(f->writer, f->end);
    count_defect(f->defects, late, f->late_defects.count[late], f->late_defects.first[late]);
    return f->error;
}
