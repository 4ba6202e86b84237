/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge_internal.h"

#include "trace/read/sum.h"

/* -- Groups by category and name ------------------------------------------------------------------------ */

static int64_t name_groups_look_up(struct name_groups *n, uint16_t category, uint32_t name,
                                   int64_t category_string)
{
    uint32_t *group = number_map_put(&n->numbers, (uint64_t)category << 32 | name, 0, (uint32_t)n->n);

    if (!group)
        return -ENOMEM;
    if (*group == n->n) {
        int r = BUDGET_RESERVE(n->numbers.budget, n->groups, n->cap, n->n + 1);

        if (r < 0)
            return r;
        n->groups[n->n++] =
            (struct name_group){.category = category_string, .name = name, .min = INT64_MAX, .max = -1};
    }
    return *group;
}

/* Returns the number of the group, or -ENOMEM. category: a number for category_string. */
static int64_t name_groups_find(struct name_groups *n, uint16_t category, uint32_t name,
                                int64_t category_string)
{
    struct latest_group *latest;
    int64_t group;

    if (BUDGET_RESERVE(n->numbers.budget, n->latest, n->latest_cap, (size_t)name + 1) < 0)
        return -ENOMEM;
    latest = &n->latest[name];
    if (latest->group != 0 && latest->category == category)
        return latest->group - 1;
    group = name_groups_look_up(n, category, name, category_string);
    if (group >= 0)
        *latest = (struct latest_group){(uint32_t)group + 1, category};
    return group;
}

static void name_groups_add(struct name_groups *n, uint32_t group, int64_t dur)
{
    struct name_group *g = &n->groups[group];

    g->count++;
    if (dur == UNFINISHED)
        return;
    g->sum = sum_of(g->sum, dur);
    g->min = MIN(g->min, dur);
    g->max = MAX(g->max, dur);
}

static int name_groups_by_category_and_name(const void *pa, const void *pb, void *arg)
{
    const struct name_group *groups = arg;
    const struct name_group *a = &groups[*(const uint32_t *)pa], *b = &groups[*(const uint32_t *)pb];

    if (a->category != b->category)
        return a->category < b->category ? -1 : 1;
    return (a->name > b->name) - (a->name < b->name);
}

static void name_groups_put_group(struct columns_writer *w, const struct name_group *g)
{
    bool any = g->max >= 0;

    columns_put(w, COL_name_category, g->category);
    columns_put(w, COL_name_name, g->name);
    columns_put(w, COL_name_first, g->first);
    columns_put(w, COL_name_count, g->count);
    columns_put(w, COL_name_sum, g->sum);
    columns_put(w, COL_name_min, any ? g->min : COLUMN_NULL);
    columns_put(w, COL_name_max, any ? g->max : COLUMN_NULL);
}

/* Sets the beginning of each group. */
static int name_groups_put_groups(struct name_groups *n, struct columns_writer *w)
{
    struct budget *b = n->numbers.budget;
    uint32_t *order = budget_new(b, n->n, sizeof(*order));
    uint32_t first = 0;

    if (!order)
        return -ENOMEM;
    for (size_t i = 0; i < n->n; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, n->n, sizeof(*order), name_groups_by_category_and_name, n->groups);
    for (size_t i = 0; i < n->n; i++) {
        struct name_group *g = &n->groups[order[i]];

        g->first = first;
        first += g->count;
        name_groups_put_group(w, g);
    }
    BUDGET_FREE(b, order, n->n);
    return 0;
}

/* Writes the tables name and by_name after all slices were added. */
static int name_groups_write(struct name_groups *n, struct rows *rows, struct columns_writer *w)
{
    struct budget *b = n->numbers.budget;
    int64_t columns[_ROW_MAX * BLOCK_ROWS];
    size_t n_rows = (size_t)rows_count(rows), got = BLOCK_ROWS;
    uint32_t *by_name;
    int r = name_groups_put_groups(n, w);

    if (r < 0)
        return r;
    by_name = budget_new(b, n_rows, sizeof(*by_name));
    if (!by_name)
        return -ENOMEM;
    for (size_t first = 0; r == 0 && got == BLOCK_ROWS; first += got) {
        r = rows_read(rows, first, columns, &got);
        for (size_t i = 0; r == 0 && i < got; i++)
            by_name[n->groups[columns[ROW_GROUP * BLOCK_ROWS + i]].first++] = (uint32_t)(first + i);
    }
    if (r == 0)
        table_builder_put_rows(w, COL_by_name_slice, by_name, n_rows);
    BUDGET_FREE(b, by_name, n_rows);
    return r;
}

/* -- Slices by track ------------------------------------------------------------------------------------ */

struct track_order {
    struct tracks *tracks;
    uint32_t *by_track;
    size_t n_rows;
    uint32_t *next; /* for each track: where its next slice goes */
};

static int track_order_init(struct track_order *o, struct tracks *tracks, size_t n_rows)
{
    uint32_t first = 0;

    *o = (struct track_order){.tracks = tracks, .n_rows = n_rows};
    o->next = budget_new(tracks->budget, tracks->n, sizeof(*o->next));
    if (!o->next)
        return -ENOMEM;
    for (size_t i = 0; i < tracks->n; i++) {
        tracks->list[i].first = o->next[i] = first;
        first += tracks->list[i].slices;
    }
    o->by_track = budget_new(tracks->budget, n_rows, sizeof(*o->by_track));
    return o->by_track ? 0 : -ENOMEM;
}

static void track_order_done(struct track_order *o)
{
    BUDGET_FREE(o->tracks->budget, o->next, o->tracks->n);
    BUDGET_FREE(o->tracks->budget, o->by_track, o->n_rows);
}

/* Called when all slices are finished. Writes slice.dur and slice.child, the sums of names, by_track, and the
 * beginning of each track's part of it. */
static int track_order_write(struct rows *rows, struct tracks *tracks, struct name_groups *names,
                             struct columns_writer *w)
{
    int64_t columns[_ROW_MAX * BLOCK_ROWS];
    const int64_t *dur = columns + ROW_DUR * BLOCK_ROWS, *track = columns + ROW_TRACK * BLOCK_ROWS,
                  *group = columns + ROW_GROUP * BLOCK_ROWS;
    size_t n = BLOCK_ROWS;
    struct track_order o;
    int r = track_order_init(&o, tracks, (size_t)rows_count(rows));

    for (size_t first = 0; r == 0 && n == BLOCK_ROWS; first += n) {
        r = rows_read(rows, first, columns, &n);
        if (r < 0 || n == 0)
            break;
        columns_put_many(w, COL_slice_dur, dur, n);
        columns_put_many(w, COL_slice_child, columns + ROW_CHILD * BLOCK_ROWS, n);
        for (size_t i = 0; i < n; i++) {
            name_groups_add(names, (uint32_t)group[i], dur[i]);
            o.by_track[o.next[track[i]]++] = (uint32_t)(first + i);
        }
    }
    if (r == 0)
        table_builder_put_rows(w, COL_by_track_slice, o.by_track, o.n_rows);
    track_order_done(&o);
    return r;
}

/* -- Slices --------------------------------------------------------------------------------------------- */

static const enum column slice_columns[] = {
    [SLICE_NAME] = COL_slice_name,     [SLICE_CATEGORY] = COL_slice_category, [SLICE_DEPTH] = COL_slice_depth,
    [SLICE_PARENT] = COL_slice_parent, [SLICE_OFFSET] = COL_slice_offset,     [SLICE_FLAGS] = COL_slice_flags,
    [SLICE_TS] = COL_slice_ts,         [SLICE_TRACK] = COL_slice_track,
};

/* In the writer's thread. */
static void slices_take_block(void *arg)
{
    struct slice_block *b = arg;
    struct slices *s = b->owner;

    for (size_t i = 0; i < ARRAY_SIZE(slice_columns); i++)
        columns_put_many(s->writer, slice_columns[i], b->columns[i], b->n);
    if (s->block_error == 0 && b->n > 0)
        s->block_error = rows_put_fixed(&s->rows, b->columns[SLICE_FIXED], b->n);
}

static void slices_begin_block(struct slices *s)
{
    s->block = handover_buffer(&s->blocks);
    s->block->owner = s;
    s->block->n = 0;
}

static int slices_find_gpu_categories(struct slices *s)
{
    s->gpu_categories = calloc(s->intake->n_categories + 1, sizeof(*s->gpu_categories));
    if (!s->gpu_categories)
        return -ENOMEM;
    for (size_t i = 0; i < s->intake->n_categories; i++) {
        size_t size;
        const char *p = strings_get(s->intake->strings, s->intake->categories[i], &size);

        s->gpu_categories[i] = category_is_gpu_work(p, size);
    }
    return 0;
}

int slices_init(struct slices *s, const struct intake *intake, struct spill *spill, struct budget *budget,
                struct columns_writer *w)
{
    int r;

    *s = (struct slices){
        .intake = intake,
        .writer = w,
        .rows = {.spill = spill, .budget = budget},
        .nest = {.budget = budget, .rows = &s->rows, .lanes = &s->lanes},
        .names.numbers.budget = budget,
        .tracks = {.budget = budget, .singles.budget = budget},
        .first_ns = INT64_MAX,
        .last_ns = INT64_MIN,
    };
    r = slices_find_gpu_categories(s);
    if (r == 0)
        r = handover_init(&s->blocks, w, sizeof(*s->block), slices_take_block);
    if (r == 0)
        slices_begin_block(s);
    if (r == 0)
        r = lanes_init(&s->lanes, spill, budget, w);
    return r == 0 ? args_init(&s->args, spill, budget, w) : r;
}

void slices_done(struct slices *s)
{
    args_done(&s->args);
    handover_done(&s->blocks);
    free(s->gpu_categories);
    nest_done(&s->nest);
    BUDGET_FREE(s->names.numbers.budget, s->names.groups, s->names.cap);
    BUDGET_FREE(s->names.numbers.budget, s->names.latest, s->names.latest_cap);
    number_map_done(&s->names.numbers);
    tracks_done(&s->tracks);
    lanes_done(&s->lanes);
    rows_done(&s->rows);
}

static void slices_fill(struct slices *s, const int64_t *row)
{
    struct slice_block *b = s->block;

    for (size_t i = 0; i < _SLICE_MAX; i++)
        b->columns[i][b->n] = row[i];
    if (++b->n == BLOCK_ROWS) {
        handover_give(&s->blocks);
        slices_begin_block(s);
    }
}

int slices_put(struct slices *s, const struct event *e, uint32_t track, int64_t dur, unsigned flags)
{
    const struct open_slice *parent = nest_top(&s->nest, track);
    size_t depth = nest_depth(&s->nest, track);
    int64_t category = category_string(s->intake, e->category), group;
    uint32_t row = (uint32_t)rows_count(&s->rows);
    struct open_slice open = {.ts = e->ts, .dur = dur, .row = row, .name = e->name, .category = e->category};
    int r;

    if (depth >= NEST_DEPTH_MAX)
        return 0;
    group = name_groups_find(&s->names, e->category, e->name, category);
    if (group < 0)
        return (int)group;
    r = rows_add(&s->rows);
    if (r < 0)
        return r;

    slices_fill(s, (const int64_t[_SLICE_MAX]){
                       [SLICE_NAME] = e->name,
                       [SLICE_CATEGORY] = category,
                       [SLICE_DEPTH] = (int64_t)depth,
                       [SLICE_PARENT] = parent ? parent->row : COLUMN_NULL,
                       [SLICE_OFFSET] = (int64_t)e->offset,
                       [SLICE_FLAGS] = flags | (e->flags & SLICE_HAS_ARGS),
                       [SLICE_TS] = e->ts,
                       [SLICE_TRACK] = track,
                       [SLICE_GROUP] = group,
                   });

    s->tracks.list[track].slices++;
    s->n_gpu += e->category != CATEGORY_NONE && s->gpu_categories[e->category];
    s->first_ns = MIN(s->first_ns, e->ts);
    s->last_ns = MAX(s->last_ns, sum_of(e->ts, dur == UNFINISHED ? 0 : dur));

    r = nest_push(&s->nest, track, &open);
    return r < 0 ? r : 1;
}

/* Meanwhile the writer's thread finishes the arguments. */
int slices_finish(struct slices *s, struct columns_writer *w)
{
    int r = nest_finish(&s->nest);

    handover_give(&s->blocks);
    args_finish(&s->args);
    columns_wait_for(w, s->blocks.last);
    if (r == 0)
        r = s->block_error;
    if (r == 0)
        r = rows_flush(&s->rows);
    if (r == 0)
        r = track_order_write(&s->rows, &s->tracks, &s->names, w);
    if (r == 0)
        r = lanes_write(&s->lanes, s->last_ns, w);
    if (r == 0)
        r = name_groups_write(&s->names, &s->rows, w);
    tracks_write(&s->tracks, w);
    return r < 0 ? r : args_wait(&s->args);
}
