/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/walk.h"

#include "trace/read/sum.h"
#include "trace/sql/values.h"

/* One wanted row in this many rows is enough to decode the block. */
#define DENSE_ONE_IN 16

/* Narrows to the rows of a sorted column with values in a range. */
static void narrow_by_column(struct walk *w, enum column column, struct range range)
{
    const struct columns *c = w->trace->columns;

    if (range.min > range.max) {
        w->end = w->first;
        return;
    }
    if (range.min > INT64_MIN)
        w->first = MAX(w->first, columns_lower_bound(c, column, range.min));
    if (range.max < INT64_MAX)
        w->end = MIN(w->end, columns_lower_bound(c, column, range.max + 1));
}

static void narrow_by_number(struct walk *w, struct range range)
{
    if (range.min > range.max || range.max < 0) {
        w->end = w->first;
        return;
    }
    w->first = MAX(w->first, range.min > 0 ? (uint64_t)range.min : 0);
    if (range.max < INT64_MAX)
        w->end = MIN(w->end, (uint64_t)range.max + 1);
}

/* A range of times as one of slices. */
static struct range slices_at(const struct columns *c, struct range ts)
{
    struct range slices = {1, 0};

    if (ts.min > ts.max)
        return slices;
    slices.min = ts.min > INT64_MIN ? (int64_t)columns_lower_bound(c, COL_slice_ts, ts.min) : 0;
    slices.max =
        ts.max < INT64_MAX ? (int64_t)columns_lower_bound(c, COL_slice_ts, ts.max + 1) - 1 : INT64_MAX;
    return slices;
}

static void narrow_rows(struct walk *w, const struct terms *terms)
{
    const struct sql_table *t = w->table;

    w->first = 0;
    w->end = columns_rows(w->trace->columns, t->rows);
    if (terms->given[SEEK_ROW])
        narrow_by_number(w, terms->numbers[SEEK_ROW]);
    if (terms->given[SEEK_ARG_SET])
        narrow_by_number(w, rows_within(w->trace->id, terms->numbers[SEEK_ARG_SET]));
    if (terms->given[SEEK_SLICE])
        narrow_by_column(w, t->slice, terms->numbers[SEEK_SLICE]);
    if (terms->given[SEEK_TS]) {
        if (t->time)
            narrow_by_column(w, t->time, terms->numbers[SEEK_TS]);
        else if (t->slice)
            narrow_by_column(w, t->slice, slices_at(w->trace->columns, terms->numbers[SEEK_TS]));
        else
            narrow_by_column(w, COL_slice_ts, terms->numbers[SEEK_TS]);
    }
    w->end = MAX(w->end, w->first);
}

/* The first of [at, stop) of by_track or by_name whose slice is not before `slice`. */
static uint64_t first_from(const struct columns *c, enum column column, uint64_t at, uint64_t stop,
                           uint64_t slice)
{
    while (at < stop) {
        uint64_t middle = at + (stop - at) / 2;
        int64_t value = columns_get(c, column, middle);

        if (value != COLUMN_NULL && (uint64_t)value < slice)
            at = middle + 1;
        else
            stop = middle;
    }
    return at;
}

/* Narrows [at, stop) to slices that fit, and determines whether they are close together. */
static void narrow_part(struct walk *w, enum column column)
{
    const struct columns *c = w->trace->columns;
    int64_t first, last;

    if (w->first > 0)
        w->at = first_from(c, column, w->at, w->stop, w->first);
    if (w->end < columns_rows(c, TABLE_slice))
        w->stop = first_from(c, column, w->at, w->stop, w->end);
    if (w->at >= w->stop)
        return;
    first = columns_get(c, column, w->at);
    last = columns_get(c, column, w->stop - 1);
    w->cells->dense = last >= first && (uint64_t)difference_of(last, first) / DENSE_ONE_IN < w->stop - w->at;
}

static uint64_t part_end(const struct columns *c, enum column first, enum column count, enum column_table of,
                         uint64_t row, uint64_t *ret_at)
{
    int64_t at = columns_get(c, first, row), n = columns_get(c, count, row);
    uint64_t rows = columns_rows(c, of);

    *ret_at = at < 0 ? rows : (uint64_t)at;
    return n < 0 || *ret_at > rows ? *ret_at : *ret_at + MIN((uint64_t)n, rows - *ret_at);
}

static void along_track(struct walk *w, int64_t track)
{
    w->way = WAY_TRACK;
    w->track = -1;
    w->at = w->stop = 0;
    if (track >= 0 && (uint64_t)track < columns_rows(w->trace->columns, TABLE_track))
        w->stop = part_end(w->trace->columns, COL_track_first, COL_track_count, TABLE_by_track,
                           (uint64_t)track, &w->at);
    narrow_part(w, COL_by_track_slice);
}

static int compare_with_name(const struct columns *c, uint32_t group, const char *p, size_t size)
{
    struct text name = columns_text(c, columns_get(c, COL_name_name, group));
    int r = memcmp(name.p, p, MIN(name.size, size));

    return r != 0 ? r : (name.size > size) - (name.size < size);
}

/* The first group whose name is not before a text, or, with after set, is after it. */
static uint64_t find_group(const struct walk *w, const char *p, size_t size, bool after)
{
    uint64_t at = 0, stop = columns_rows(w->trace->columns, TABLE_name);

    while (at < stop) {
        uint64_t middle = at + (stop - at) / 2;
        int r = compare_with_name(w->trace->columns, w->groups[middle], p, size);

        if (r < 0 || (after && r == 0))
            at = middle + 1;
        else
            stop = middle;
    }
    return at;
}

static bool walk_next_name(struct walk *w)
{
    const struct texts *names = &w->terms->names;
    const char *p;
    size_t name;

    if (names->any || w->name == names->n)
        return false;
    name = w->terms->descending ? names->n - 1 - w->name : w->name;
    w->name++;
    p = names->text + names->items[name].at;
    w->group = find_group(w, p, names->items[name].size, false);
    w->groups_end = find_group(w, p, names->items[name].size, true);
    return true;
}

/* Called for each row and group, since none of them may fit. */
static bool walk_is_over(struct walk *w)
{
    w->over = w->over || trace_is_over(w->trace, w->steps++);
    return w->over;
}

static bool walk_next_group(struct walk *w)
{
    const struct columns *c = w->trace->columns;

    for (;;) {
        while (w->group < w->groups_end && !walk_is_over(w)) {
            uint64_t row = w->groups[w->terms->descending ? --w->groups_end : w->group++];

            w->group_category = columns_get(c, COL_name_category, row);
            if (!numbers_have(&w->categories, w->group_category))
                continue;
            w->group_name = columns_get(c, COL_name_name, row);
            w->stop = part_end(c, COL_name_first, COL_name_count, TABLE_by_name, row, &w->at);
            narrow_part(w, COL_by_name_slice);
            if (w->at < w->stop)
                return true;
        }
        if (w->over || !walk_next_name(w))
            return false;
    }
}

static int along_groups(struct walk *w, enum order order)
{
    w->way = WAY_GROUPS;
    w->at = w->stop = 0;
    w->group = w->name = 0;
    w->groups_end = w->terms->names.any ? columns_rows(w->trace->columns, TABLE_name) : 0;
    return trace_groups(w->trace,
                        order == ORDER_CATEGORY && w->terms->names.any ? GROUPS_BY_CATEGORY : GROUPS_BY_NAME,
                        &w->groups);
}

static void along_descendants(struct walk *w, struct range slice)
{
    const struct columns *c = w->trace->columns;
    uint64_t row = (uint64_t)slice.min;
    bool exists = slice.min == slice.max && slice.min >= 0 && row < columns_rows(c, TABLE_slice);

    if (exists) {
        w->first = row + 1;
        w->depth = columns_get(c, COL_slice_depth, row);
    }
    along_track(w, exists ? columns_get(c, COL_slice_track, row) : -1);
}

static void along_ancestors(struct walk *w, struct range slice)
{
    w->way = WAY_ANCESTORS;
    w->at = w->stop = 0;
    if (slice.min == slice.max && slice.min >= 0) {
        w->stop = columns_rows(w->trace->columns, TABLE_slice);
        w->at = (uint64_t)slice.min;
    }
}

static int choose_way(struct walk *w, const struct terms *terms)
{
    struct range track = terms->numbers[SEEK_TRACK];

    if (terms->given[SEEK_DESCENDANTS]) {
        along_descendants(w, terms->numbers[SEEK_DESCENDANTS]);
    } else if (terms->given[SEEK_ANCESTORS]) {
        along_ancestors(w, terms->numbers[SEEK_ANCESTORS]);
    } else if (terms->order == ORDER_NAME || terms->order == ORDER_CATEGORY) {
        return along_groups(w, terms->order);
    } else if (w->end - w->first <= 1) {
        w->way = WAY_ROWS;
    } else if (terms->given[SEEK_TRACK]) {
        along_track(w, track.min == track.max ? track.min : -1);
    } else if (!terms->names.any) {
        return along_groups(w, ORDER_NAME);
    } else {
        w->way = WAY_ROWS;
    }
    return SQLITE_OK;
}

int walk_start(struct walk *w, const struct sql_table *table, struct trace *trace, struct cells *cells,
               const struct terms *terms)
{
    struct range track = terms->numbers[SEEK_TRACK];
    int r;

    w->table = table;
    w->trace = trace;
    w->cells = cells;
    w->terms = terms;
    w->depth = -1;
    w->track = !terms->given[SEEK_TRACK] ? -1 : track.min == track.max ? track.min : -2;
    w->one_of_each = terms->one_of_each;
    w->over = false;
    narrow_rows(w, terms);
    cells->dense = w->end - w->first > BLOCK_ROWS / DENSE_ONE_IN;

    r = numbers_of_texts(&w->names, trace->columns, &terms->names);
    if (r == SQLITE_OK)
        r = numbers_of_texts(&w->categories, trace->columns, &terms->categories);
    if (r == SQLITE_OK)
        r = numbers_narrow(&w->categories, trace->columns, table->categories);
    if (r != SQLITE_OK)
        return r;
    r = choose_way(w, terms);
    if (w->way == WAY_ROWS) {
        w->at = w->first;
        w->stop = w->end;
    }
    return r;
}

static bool walk_row_fits(struct walk *w, uint64_t row)
{
    if (w->table->kinds) {
        int64_t kind = cells_get(w->cells, COL_track_kind, row);

        if (kind < 0 || kind >= _TRACK_KIND_MAX || !(w->table->kinds >> kind & 1))
            return false;
    }
    return numbers_have(&w->categories,
                        w->categories.any ? 0 : cells_get(w->cells, COL_slice_category, row)) &&
           numbers_have(&w->names, w->names.any ? 0 : cells_get(w->cells, COL_slice_name, row)) &&
           (w->track == -1 || w->track == cells_get(w->cells, COL_slice_track, row));
}

/* The next of [at, stop), from the end in reverse order. */
static uint64_t walk_step(struct walk *w)
{
    return w->terms->descending ? --w->stop : w->at++;
}

/* Skips the block that begins here if none of its rows has a requested category. */
static bool walk_skip_block(struct walk *w)
{
    bool descending = w->terms->descending;
    int64_t min, max;

    if (w->categories.any || (descending ? w->stop : w->at) % BLOCK_ROWS != 0)
        return false;
    if (w->categories.n == 0) {
        w->at = w->stop;
        return true;
    }
    if (!columns_block_range(w->trace->columns, COL_slice_category, descending ? w->stop - 1 : w->at, &min,
                             &max) ||
        (max >= w->categories.items[0] && min <= w->categories.items[w->categories.n - 1]))
        return false;
    if (descending)
        w->stop -= MIN(w->stop - w->at, (uint64_t)BLOCK_ROWS);
    else
        w->at += MIN(w->stop - w->at, (uint64_t)BLOCK_ROWS);
    return true;
}

static bool walk_next_row(struct walk *w, uint64_t *ret_row)
{
    while (w->at < w->stop && !walk_is_over(w)) {
        if (walk_skip_block(w))
            continue;
        *ret_row = walk_step(w);
        if (walk_row_fits(w, *ret_row))
            return true;
    }
    return false;
}

static bool walk_next_on_track(struct walk *w, uint64_t *ret_row)
{
    while (w->at < w->stop && !walk_is_over(w)) {
        int64_t row = cells_get(w->cells, COL_by_track_slice, walk_step(w));

        if (row < 0)
            continue;
        *ret_row = (uint64_t)row;
        if (w->depth >= 0 && cells_get(w->cells, COL_slice_depth, *ret_row) <= w->depth)
            return false;
        if (walk_row_fits(w, *ret_row))
            return true;
    }
    return false;
}

static bool walk_next_in_groups(struct walk *w, uint64_t *ret_row)
{
    for (;;) {
        while (w->at < w->stop && !walk_is_over(w)) {
            int64_t row = cells_get(w->cells, COL_by_name_slice, w->at++);

            if (row < 0)
                continue;
            *ret_row = (uint64_t)row;
            if (w->track != -1 && w->track != cells_get(w->cells, COL_slice_track, *ret_row))
                continue;
            if (w->one_of_each)
                w->at = w->stop;
            return true;
        }
        if (w->over || !walk_next_group(w))
            return false;
    }
}

static bool walk_next_ancestor(struct walk *w, uint64_t *ret_row)
{
    int64_t parent;

    /* A parent must come before its child, so that this ends with any file. */
    while (w->at < w->stop && !walk_is_over(w)) {
        parent = cells_get(w->cells, COL_slice_parent, w->at);
        w->stop = w->at;
        if (parent < 0 || (uint64_t)parent >= w->stop)
            return false;
        w->at = (uint64_t)parent;
        *ret_row = w->at;
        if (walk_row_fits(w, *ret_row))
            return true;
    }
    return false;
}

bool walk_next(struct walk *w, uint64_t *ret_row)
{
    static bool (*const next[])(struct walk *, uint64_t *) = {
        [WAY_ROWS] = walk_next_row,
        [WAY_TRACK] = walk_next_on_track,
        [WAY_GROUPS] = walk_next_in_groups,
        [WAY_ANCESTORS] = walk_next_ancestor,
    };

    return next[w->way](w, ret_row);
}

bool walk_knows(const struct walk *w, const struct sql_column *column, int64_t *ret)
{
    if (w->way != WAY_GROUPS || column->through ||
        (column->column != COL_slice_name && column->column != COL_slice_category))
        return false;
    *ret = column->column == COL_slice_name ? w->group_name : w->group_category;
    return true;
}

void walk_done(struct walk *w)
{
    free(w->names.items);
    free(w->categories.items);
}
