/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/lane_table.h"

#include "base/array.h"
#include "base/hash_table.h"
#include "trace/columns/lane_group.h"
#include <errno.h>

struct lane_memory {
    struct lane_rows *lanes;
    uint64_t n_slices, n_groups;
    int64_t *ts, *dur;
    uint32_t *slices; /* by row of by_lane */
    int64_t *busy;    /* by row of lanemip */
    uint32_t *longest;
};

/* -- Made in memory ------------------------------------------------------------------------------------- */

struct lane_making {
    const struct columns *c;
    struct lane_memory *m;
    struct hash_table numbers; /* lanes by track and depth, in order of appearance */
    size_t n, cap;
    uint32_t *lane_of; /* of each slice, then the position of that lane */
};

static void lane_making_done(struct lane_making *making)
{
    hash_table_done(&making->numbers);
    free(making->lane_of);
}

static void lane_memory_free(struct lane_memory *m)
{
    if (!m)
        return;
    free(m->lanes);
    free(m->ts);
    free(m->dur);
    free(m->slices);
    free(m->busy);
    free(m->longest);
    free(m);
}

static void lane_memory_freep(struct lane_memory **m)
{
    lane_memory_free(*m);
}

static bool lane_making_is_same(const void *owner, size_t number, const void *key)
{
    const struct lane_making *making = owner;
    const struct lane_rows *a = &making->m->lanes[number], *b = key;

    return a->track == b->track && a->depth == b->depth;
}

/* The lane's number, which it gets where it is new. */
static int64_t lane_making_number(struct lane_making *making, int64_t track, int64_t depth)
{
    const struct lane_rows key = {.track = track, .depth = depth};

    if (!ARRAY_RESERVE(making->m->lanes, making->cap, making->n + 1))
        return -ENOMEM;
    int64_t number = hash_table_number(&making->numbers, hash_words((uint64_t)track, (uint64_t)depth),
                                       lane_making_is_same, making, &key);
    if (number == (int64_t)making->n)
        making->m->lanes[making->n++] = key;
    return number;
}

/* Lanes in order of appearance; `end` counts their slices. */
static int lane_making_count(struct lane_making *making)
{
    int64_t tracks[BLOCK_ROWS], depths[BLOCK_ROWS];
    uint64_t n_slices = making->m->n_slices;

    for (uint64_t first = 0; first < n_slices; first += BLOCK_ROWS) {
        size_t n = columns_block(making->c, COL_slice_track, first, BLOCK_ROWS, tracks);

        columns_block(making->c, COL_slice_depth, first, BLOCK_ROWS, depths);
        for (size_t i = 0; i < n; i++) {
            int64_t number =
                tracks[i] == COLUMN_NULL ? COLUMN_NO_CODE : lane_making_number(making, tracks[i], depths[i]);

            if (number < 0)
                return (int)number;
            making->lane_of[first + i] = (uint32_t)number;
            if (number != COLUMN_NO_CODE)
                making->m->lanes[number].end++;
        }
    }
    return 0;
}

static int lane_compare(const void *x, const void *y)
{
    const struct lane_rows *a = x, *b = y;

    if (a->track != b->track)
        return (a->track > b->track) - (a->track < b->track);
    return (a->depth > b->depth) - (a->depth < b->depth);
}

/* By track and depth, with the rows of each. */
static int lane_making_order(struct lane_making *making)
{
    struct lane_rows *lanes = making->m->lanes;
    _cleanup_(freep) uint32_t *position = malloc((making->n + 1) * sizeof(*position));
    uint64_t row = 0, mip = 0;

    if (!position)
        return -ENOMEM;
    /* Its number is kept in `first` while they are sorted. */
    for (size_t i = 0; i < making->n; i++)
        lanes[i].first = i;
    if (making->n > 0)
        qsort(lanes, making->n, sizeof(*lanes), lane_compare);
    for (size_t i = 0; i < making->n; i++) {
        uint64_t count = lanes[i].end;

        position[lanes[i].first] = (uint32_t)i;
        lanes[i].first = lanes[i].end = row;
        lanes[i].mip = (int64_t)mip;
        row += count;
        for (uint64_t n = lane_groups(count); n > 0; n = lane_groups(n))
            mip += n;
    }
    making->m->n_groups = mip;
    for (uint64_t i = 0; i < making->m->n_slices; i++)
        if (making->lane_of[i] != COLUMN_NO_CODE)
            making->lane_of[i] = position[making->lane_of[i]];
    return 0;
}

/* Slices are in order of time, and so are those of each lane. */
static void lane_making_fill(struct lane_making *making)
{
    struct lane_memory *m = making->m;
    int64_t ts[BLOCK_ROWS], dur[BLOCK_ROWS];

    for (uint64_t first = 0; first < m->n_slices; first += BLOCK_ROWS) {
        size_t n = columns_block(making->c, COL_slice_ts, first, BLOCK_ROWS, ts);

        columns_block(making->c, COL_slice_dur, first, BLOCK_ROWS, dur);
        for (size_t i = 0; i < n; i++) {
            uint32_t lane = making->lane_of[first + i];

            if (lane == COLUMN_NO_CODE || !m->lanes)
                continue;
            uint64_t at = m->lanes[lane].end++;
            m->ts[at] = ts[i];
            m->dur[at] = dur[i];
            m->slices[at] = (uint32_t)(first + i);
        }
    }
}

/* What a slice lasts; an unfinished one until the end of the trace. */
static int64_t lane_memory_dur(const struct lane_memory *m, uint64_t at, int64_t last_ns)
{
    int64_t dur = m->dur[at];

    if (dur < 0 && __builtin_sub_overflow(last_ns, m->ts[at], &dur))
        dur = INT64_MAX;
    return MAX(dur, INT64_C(0));
}

/* A row of lanemip becomes the item of the level above. */
static struct lane_group lane_memory_group(const struct lane_memory *m, uint64_t row, int64_t last_ns)
{
    return (struct lane_group){lane_memory_dur(m, m->longest[row], last_ns), m->busy[row], m->longest[row]};
}

static void lane_making_groups(struct lane_memory *m, const struct lane_rows *lane, int64_t last_ns)
{
    uint64_t below = lane->first, n_below = lane->end - lane->first, at = (uint64_t)lane->mip;

    /* The level above the slices, then each above the one before. */
    for (uint64_t n; (n = lane_groups(n_below)) > 0; below = at, at += n, n_below = n) {
        for (uint64_t group = 0; group < n; group++) {
            uint64_t first = group * LANE_FANOUT, end = MIN(first + LANE_FANOUT, n_below);
            struct lane_group g = {0};

            for (uint64_t i = first; i < end; i++) {
                struct lane_group add;
                if (below == lane->first) {
                    int64_t dur = lane_memory_dur(m, below + i, last_ns);
                    add = (struct lane_group){dur, dur, (uint32_t)(below + i)};
                } else {
                    add = lane_memory_group(m, below + i, last_ns);
                }
                lane_group_add(&g, i == first, add);
            }
            m->longest[at + group] = g.longest;
            m->busy[at + group] = g.busy;
        }
    }
}

static int lane_table_make(const struct columns *c, struct lane_memory **ret, uint64_t *ret_n)
{
    uint64_t n = columns_rows(c, TABLE_slice);
    _cleanup_(lane_memory_freep) struct lane_memory *m = calloc(1, sizeof(*m));
    _cleanup_(lane_making_done) struct lane_making making = {.c = c, .m = m};

    /* Rows have 32 bits in other places as well; such columns have lanes. */
    if (!m || n >= COLUMN_NO_CODE)
        return -ENOMEM;
    m->n_slices = n;
    making.lane_of = array_alloc_pages((n + 1) * sizeof(*making.lane_of));
    m->ts = array_alloc_pages((n + 1) * sizeof(*m->ts));
    m->dur = array_alloc_pages((n + 1) * sizeof(*m->dur));
    m->slices = array_alloc_pages((n + 1) * sizeof(*m->slices));
    if (!making.lane_of || !m->ts || !m->dur || !m->slices)
        return -ENOMEM;
    int r = lane_making_count(&making);
    if (r == 0)
        r = lane_making_order(&making);
    if (r < 0)
        return r;
    lane_making_fill(&making);
    m->busy = array_alloc_pages((m->n_groups + 1) * sizeof(*m->busy));
    m->longest = array_alloc_pages((m->n_groups + 1) * sizeof(*m->longest));
    if (!m->busy || !m->longest)
        return -ENOMEM;
    for (size_t i = 0; i < making.n; i++)
        lane_making_groups(m, &m->lanes[i], columns_meta(c, META_last_ns));
    *ret_n = making.n;
    *ret = TAKE_PTR(m);
    return 0;
}

/* -- The table ------------------------------------------------------------------------------------------ */

static struct lane_rows lane_read(const struct columns *c, uint64_t lane)
{
    int64_t first = columns_get(c, COL_lane_first, lane), count = columns_get(c, COL_lane_count, lane);
    uint64_t n_rows = columns_rows(c, TABLE_by_lane);
    struct lane_rows rows = {.track = columns_get(c, COL_lane_track, lane),
                             .depth = columns_get(c, COL_lane_depth, lane),
                             .mip = columns_get(c, COL_lane_mip, lane)};

    if (first < 0 || (uint64_t)first >= n_rows || count <= 0)
        return rows;
    rows.first = (uint64_t)first;
    rows.end = rows.first + MIN((uint64_t)count, n_rows - rows.first);
    return rows;
}

int lane_table_open(const struct columns *c, struct lane_table *ret)
{
    *ret = (struct lane_table){.c = c, .n = columns_rows(c, TABLE_lane)};
    if (ret->n == 0 && columns_rows(c, TABLE_slice) > 0) {
        int r = lane_table_make(c, &ret->made, &ret->n);
        if (r < 0)
            return r;
        ret->lanes = TAKE_PTR(ret->made->lanes);
        ret->ts = ret->made->ts;
        ret->dur = ret->made->dur;
        return 0;
    }
    ret->lanes = calloc(ret->n + 1, sizeof(*ret->lanes));
    ret->begins = malloc((columns_rows(c, TABLE_by_lane) / BLOCK_ROWS + 1) * sizeof(*ret->begins));
    if (!ret->lanes || !ret->begins) {
        lane_table_done(ret);
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < ret->n; i++)
        ret->lanes[i] = lane_read(c, i);
    for (uint64_t row = 0; row < columns_rows(c, TABLE_by_lane); row += BLOCK_ROWS) {
        int64_t max;
        columns_block_range(c, COL_by_lane_ts, row, &ret->begins[row / BLOCK_ROWS], &max);
    }
    return 0;
}

void lane_table_done(struct lane_table *t)
{
    lane_memory_free(t->made);
    free(t->lanes);
    free(t->begins);
    *t = (struct lane_table){0};
}

int64_t lane_table_slice(const struct lane_table *t, uint64_t at)
{
    if (!t->made)
        return columns_get(t->c, COL_by_lane_slice, at);
    return at < t->made->n_slices ? (int64_t)t->made->slices[at] : COLUMN_NULL;
}

int64_t lane_table_ts(const struct lane_table *t, uint64_t at)
{
    return t->ts ? t->ts[at] : columns_get(t->c, COL_by_lane_ts, at);
}

int64_t lane_table_dur(const struct lane_table *t, uint64_t at)
{
    return t->dur ? t->dur[at] : columns_get(t->c, COL_by_lane_dur, at);
}

int64_t lane_group_cursor_longest(struct lane_group_cursor *cursor, uint64_t row)
{
    const struct lane_memory *m = cursor->t->made;

    if (!m)
        return column_part_cursor_get(&cursor->longest, row);
    return row < m->n_groups ? (int64_t)m->longest[row] : COLUMN_NULL;
}

const int64_t *lane_group_cursor_busy(struct lane_group_cursor *cursor, uint64_t row, uint64_t end,
                                      size_t *ret_n)
{
    const struct lane_memory *m = cursor->t->made;

    if (!m)
        return column_part_cursor_span(&cursor->busy, row, end, ret_n);
    *ret_n = (size_t)(end - row);
    return m->busy + row;
}

/* -- Finding a time ------------------------------------------------------------------------------------- */

/* By halves. */
static uint64_t lane_search(struct lane_cursor *cursor, uint64_t low, uint64_t high, int64_t ns)
{
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (lane_cursor_ts(cursor, middle) < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The time of a row that begins a block or a part of one, which is cheap without the others. A block of one lane is sorted: its
 * smallest value is the first. */
static inline int64_t lane_begin(const struct lane_table *t, uint64_t row, uint64_t end)
{
    if (row % BLOCK_ROWS != 0 || end - row < BLOCK_ROWS)
        return columns_get(t->c, COL_by_lane_ts, row);
    return t->begins[row / BLOCK_ROWS];
}

/* Of the blocks from `first` on, the begin of the last one that begins before ns; the block at `first` does. */
static uint64_t lane_search_block(const struct lane_table *t, uint64_t first, uint64_t end, int64_t ns)
{
    uint64_t step = BLOCK_ROWS, low = first, high;

    for (; step < end - low && lane_begin(t, low + step, end) < ns; step *= 2)
        low += step;
    high = MIN(step, end - low) + low;
    while (high - low > BLOCK_ROWS) {
        uint64_t middle = low + MAX((high - low) / 2 / BLOCK_ROWS, UINT64_C(1)) * BLOCK_ROWS;

        if (lane_begin(t, middle, end) < ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint64_t lane_next(uint64_t row, uint64_t rows, uint64_t end)
{
    return MIN(row - row % rows + rows, end);
}

uint64_t lane_cursor_find(struct lane_cursor *cursor, uint64_t at, uint64_t end, int64_t ns)
{
    const struct lane_table *t = cursor->t;
    uint64_t low = lane_next(at, COLUMNS_PART_ROWS, end), block = lane_next(at, BLOCK_ROWS, end);

    if (t->ts || at >= end || lane_cursor_ts(cursor, low - 1) >= ns)
        return lane_search(cursor, at, t->ts ? end : low, ns);
    if (low == end || lane_begin(t, low, end) >= ns)
        return low;
    if (block < end && lane_begin(t, block, end) < ns)
        low = lane_search_block(t, block, end, ns);
    /* Of the parts of that block, the last one that begins before ns. */
    for (block = lane_next(low, BLOCK_ROWS, end);
         block - low > COLUMNS_PART_ROWS && lane_begin(t, low + COLUMNS_PART_ROWS, end) < ns;
         low += COLUMNS_PART_ROWS)
        ;
    return lane_search(cursor, low, lane_next(low, COLUMNS_PART_ROWS, end), ns);
}
