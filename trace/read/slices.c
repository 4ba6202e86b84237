/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/slices.h"

#include "trace/columns/schema.h"
#include "trace/read/order.h"
#include "trace/read/sum.h"

static const enum column slice_columns[] = {
    COL_slice_ts,    COL_slice_name,   COL_slice_category, COL_slice_track,
    COL_slice_depth, COL_slice_parent, COL_slice_place,    COL_slice_flags,
};

static int find_gpu_categories(struct slices *s)
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

int slices_init(struct slices *s, const struct intake *intake, struct spool *spool, struct budget *budget,
                struct columns_writer *w)
{
    int r;

    *s = (struct slices){.intake = intake, .first_ns = INT64_MAX, .last_ns = INT64_MIN};
    nest_init(&s->nest, budget, &s->rows);
    names_init(&s->names, budget);
    tracks_init(&s->tracks, budget);
    r = rows_init(&s->rows, spool, budget);
    if (r == 0)
        r = links_init(&s->links, spool, budget);
    if (r == 0)
        r = find_gpu_categories(s);
    if (r == 0)
        r = sheet_init(&s->out, w, slice_columns, ARRAY_SIZE(slice_columns));
    if (r == 0)
        r = args_init(&s->args, &s->links, w);
    return r;
}

void slices_done(struct slices *s)
{
    args_done(&s->args);
    sheet_done(&s->out);
    free(s->gpu_categories);
    nest_done(&s->nest);
    names_done(&s->names);
    tracks_done(&s->tracks);
    links_done(&s->links);
    rows_done(&s->rows);
}

int slices_put(struct slices *s, const struct event *e, uint32_t track, int64_t dur, unsigned flags,
               struct run_cursor *cursor, const struct numbers *from)
{
    const struct open_slice *parent = nest_top(&s->nest, track);
    size_t depth = nest_depth(&s->nest, track);
    int64_t category = category_string(s->intake, e->category), group;
    uint32_t row = (uint32_t)rows_count(&s->rows);
    struct open_slice open = {.ts = e->ts, .dur = dur, .row = row, .name = e->name, .category = e->category};
    int r;

    if (depth >= NEST_DEPTH_MAX)
        return 0;
    group = names_group(&s->names, e->category, e->name, category);
    if (group < 0)
        return (int)group;
    r = rows_add(&s->rows, e->ts, track, (uint32_t)group);
    if (r < 0)
        return r;

    *sheet_slot(&s->out, 0) = e->ts;
    *sheet_slot(&s->out, 1) = e->name;
    *sheet_slot(&s->out, 2) = category;
    *sheet_slot(&s->out, 3) = track;
    *sheet_slot(&s->out, 4) = (int64_t)depth;
    *sheet_slot(&s->out, 5) = parent ? parent->row : COLUMN_NULL;
    *sheet_slot(&s->out, 6) = (int64_t)e->place;
    *sheet_slot(&s->out, 7) = flags | (e->flags & SLICE_HAS_ARGS);
    sheet_next(&s->out);

    s->tracks.list[track].slices++;
    s->n_gpu += e->category != CATEGORY_NONE && s->gpu_categories[e->category];
    s->first_ns = MIN(s->first_ns, e->ts);
    s->last_ns = MAX(s->last_ns, sum_of(e->ts, dur == UNFINISHED ? 0 : dur));

    r = nest_push(&s->nest, track, &open);
    if (r == 0)
        r = args_put(&s->args, cursor, from->strings, row);
    return r < 0 ? r : 1;
}

int slices_finish(struct slices *s, struct columns_writer *w)
{
    int r = nest_finish(&s->nest);

    sheet_flush(&s->out);
    if (r == 0)
        r = args_finish(&s->args);
    if (r == 0)
        r = rows_flush(&s->rows);
    if (r == 0)
        r = links_write(&s->links, w);
    if (r == 0)
        r = order_by_track(&s->rows, &s->tracks, &s->names, s->last_ns, w);
    if (r == 0)
        r = names_write(&s->names, &s->rows, w);
    tracks_write(&s->tracks, w);
    return r;
}
