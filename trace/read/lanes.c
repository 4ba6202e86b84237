/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge_internal.h"

#include "trace/columns/lane_group.h"
#include "trace/read/sum.h"

struct lane_slice {
    int64_t ts, dur;
    uint32_t row;
};

/* Slices that ended, on their way to the writer's thread. */
#define LANE_BLOCK_SLICES 512

struct lane_block {
    struct lanes *owner;
    size_t n;
    struct lane_end {
        struct lane_slice slice;
        uint32_t track, depth;
    } ends[LANE_BLOCK_SLICES];
};

enum {
    LANE_ROW,
    LANE_TS,
    LANE_DUR,
    _LANE_MAX,
};

/* While a lane is written: its groups of level 1. */
struct lane_writing {
    struct columns_writer *writer;
    struct budget *budget;
    int64_t last_ns;
    uint32_t n_rows;   /* of by_lane */
    uint64_t n_groups; /* of lanemip */
    struct lane_group *groups;
    size_t cap;
};

static void lanes_begin_block(struct lanes *l)
{
    l->block = handover_buffer(&l->blocks);
    l->block->owner = l;
    l->block->n = 0;
}

void lanes_done(struct lanes *l)
{
    handover_done(&l->blocks);
    for (size_t i = 0; i < l->cap; i++) {
        struct track_lanes *t = &l->tracks[i];

        for (size_t k = 0; k < t->cap; k++) {
            BUDGET_FREE(l->budget, t->lanes[k].last, t->lanes[k].last_cap);
            BUDGET_FREE(l->budget, t->lanes[k].offsets, t->lanes[k].offsets_cap);
        }
        BUDGET_FREE(l->budget, t->lanes, t->cap);
    }
    BUDGET_FREE(l->budget, l->tracks, l->cap);
}

/* As columns of BLOCK_ROWS values. */
static void lane_slices_to_columns(const struct lane_slice *slices, size_t n, int64_t *ret)
{
    for (size_t i = 0; i < n; i++) {
        ret[LANE_ROW * BLOCK_ROWS + i] = slices[i].row;
        ret[LANE_TS * BLOCK_ROWS + i] = slices[i].ts;
        ret[LANE_DUR * BLOCK_ROWS + i] = slices[i].dur;
    }
}

/* Moves the last slices, BLOCK_ROWS of them, to the spill. */
static int lane_pack(struct lanes *l, struct lane *lane)
{
    int64_t columns[_LANE_MAX * BLOCK_ROWS];
    size_t block = lane->n / BLOCK_ROWS - 1;

    if (BUDGET_RESERVE(l->budget, lane->offsets, lane->offsets_cap, block + 1) < 0)
        return -ENOMEM;
    lane_slices_to_columns(lane->last, BLOCK_ROWS, columns);
    return packed_write(l->spill, columns, _LANE_MAX, BLOCK_ROWS, &lane->offsets[block]);
}

static int lanes_take_slice(struct lanes *l, const struct lane_end *e)
{
    struct track_lanes *t;
    struct lane *lane;
    size_t at;

    if (BUDGET_RESERVE(l->budget, l->tracks, l->cap, (size_t)e->track + 1) < 0)
        return -ENOMEM;
    t = &l->tracks[e->track];
    if (BUDGET_RESERVE(l->budget, t->lanes, t->cap, (size_t)e->depth + 1) < 0)
        return -ENOMEM;
    lane = &t->lanes[e->depth];
    at = lane->n % BLOCK_ROWS;
    if (BUDGET_RESERVE(l->budget, lane->last, lane->last_cap, at + 1) < 0)
        return -ENOMEM;
    lane->last[at] = e->slice;
    return ++lane->n % BLOCK_ROWS == 0 ? lane_pack(l, lane) : 0;
}

/* In the writer's thread. */
static void lanes_take_block(void *arg)
{
    const struct lane_block *b = arg;
    struct lanes *l = b->owner;

    for (size_t i = 0; l->error == 0 && i < b->n; i++)
        l->error = lanes_take_slice(l, &b->ends[i]);
}

int lanes_init(struct lanes *l, struct spill *spill, struct budget *budget, struct columns_writer *w)
{
    *l = (struct lanes){.budget = budget, .spill = spill};
    int r = handover_init(&l->blocks, w, sizeof(*l->block), lanes_take_block);

    if (r == 0)
        lanes_begin_block(l);
    return r;
}

void lanes_add(struct lanes *l, size_t track, size_t depth, const struct open_slice *s)
{
    l->block->ends[l->block->n++] =
        (struct lane_end){{s->ts, s->dur, s->row}, (uint32_t)track, (uint32_t)depth};
    if (l->block->n == LANE_BLOCK_SLICES) {
        handover_give(&l->blocks);
        lanes_begin_block(l);
    }
}

/* Writes all levels; each level above the first overwrites the level it was made from. */
static void lane_put_groups(struct lane_writing *w, size_t n)
{
    while (n > 0) {
        for (size_t i = 0; i < n; i++) {
            struct lane_group g = w->groups[i];

            columns_put(w->writer, COL_lanemip_longest, g.longest);
            columns_put(w->writer, COL_lanemip_busy, g.busy);
            lane_group_add(&w->groups[i / LANE_FANOUT], i % LANE_FANOUT == 0, g);
        }
        w->n_groups += n;
        n = lane_groups(n);
    }
}

static int lane_write(struct lanes *l, const struct lane *lane, struct lane_writing *w)
{
    int64_t columns[_LANE_MAX * BLOCK_ROWS];
    const int64_t *ts = columns + LANE_TS * BLOCK_ROWS, *dur = columns + LANE_DUR * BLOCK_ROWS;
    size_t n_groups = lane_groups(lane->n);

    if (BUDGET_RESERVE(w->budget, w->groups, w->cap, n_groups) < 0)
        return -ENOMEM;
    for (uint64_t first = 0; first < lane->n; first += BLOCK_ROWS) {
        size_t n = (size_t)MIN(lane->n - first, (uint64_t)BLOCK_ROWS);
        int r = 0;

        if (n < BLOCK_ROWS)
            lane_slices_to_columns(lane->last, n, columns);
        else
            r = packed_read(l->spill, lane->offsets[first / BLOCK_ROWS], _LANE_MAX, n, columns);
        if (r < 0)
            return r;
        columns_put_many(w->writer, COL_by_lane_slice, columns + LANE_ROW * BLOCK_ROWS, n);
        columns_put_many(w->writer, COL_by_lane_ts, ts, n);
        columns_put_many(w->writer, COL_by_lane_dur, dur, n);
        for (size_t i = 0; n_groups > 0 && i < n; i++) {
            int64_t shown = dur[i] == UNFINISHED ? difference_of(w->last_ns, ts[i]) : dur[i];

            lane_group_add(&w->groups[(first + i) / LANE_FANOUT], i % LANE_FANOUT == 0,
                           (struct lane_group){shown, shown, w->n_rows + (uint32_t)(first + i)});
        }
    }
    lane_put_groups(w, n_groups);
    return 0;
}

int lanes_write(struct lanes *l, int64_t last_ns, struct columns_writer *writer)
{
    struct lane_writing w = {.writer = writer, .budget = l->budget, .last_ns = last_ns};
    int r;

    handover_give(&l->blocks);
    columns_wait_for(writer, l->blocks.last);
    r = l->error;

    for (size_t track = 0; r == 0 && track < l->cap; track++) {
        for (size_t depth = 0; r == 0 && depth < l->tracks[track].cap; depth++) {
            const struct lane *lane = &l->tracks[track].lanes[depth];

            if (lane->n == 0)
                continue;
            columns_put(writer, COL_lane_track, (int64_t)track);
            columns_put(writer, COL_lane_depth, (int64_t)depth);
            columns_put(writer, COL_lane_first, w.n_rows);
            columns_put(writer, COL_lane_count, (int64_t)lane->n);
            columns_put(writer, COL_lane_mip, lane->n > LANE_FANOUT ? (int64_t)w.n_groups : COLUMN_NULL);
            r = lane_write(l, lane, &w);
            w.n_rows += (uint32_t)lane->n;
        }
    }
    BUDGET_FREE(w.budget, w.groups, w.cap);
    return r;
}
