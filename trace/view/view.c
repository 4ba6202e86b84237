/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/view/view.h"

#include "base/alloc.h"
#include "trace/columns/schema.h"
#include "trace/reports/kernel_class.h"
#include "trace/view/tile_cache.h"
#include <errno.h>
#include <inttypes.h>

enum {
    VIEW_CLASS_NONE,     /* no GPU event has that name */
    VIEW_CLASS_TRANSFER, /* one has, and only as a copy or memset */
    VIEW_CLASS_ASK,      /* a kernel has: not asked yet */
    VIEW_CLASS_KNOWN,    /* + enum kernel_class */
};

/* -- Opening -- */

/* Indexes table `name` by text. */
static int view_read_groups(struct trace_view *v)
{
    const struct columns *c = v->c;
    int64_t names[BLOCK_ROWS], categories[BLOCK_ROWS];

    v->n_groups = MIN(columns_rows(c, TABLE_name), (uint64_t)COLUMN_NO_CODE);
    v->groups = malloc(((size_t)v->n_texts + 1) * sizeof(*v->groups));
    v->next_group = malloc((v->n_groups + 1) * sizeof(*v->next_group));
    v->group_categories = malloc((v->n_groups + 1) * sizeof(*v->group_categories));
    v->classes = calloc((size_t)v->n_texts + 1, 1);
    if (!v->groups || !v->next_group || !v->group_categories || !v->classes)
        return -ENOMEM;
    memset(v->groups, 0xff, ((size_t)v->n_texts + 1) * sizeof(*v->groups));
    for (uint64_t first = 0; first < v->n_groups; first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_name_name, first, BLOCK_ROWS, names);

        columns_block(c, COL_name_category, first, BLOCK_ROWS, categories);
        for (size_t i = 0; i < n; i++) {
            struct text category = columns_text(c, categories[i]);
            /* Slices without a name have the string after the last. */
            uint32_t name = names[i] < 0 || names[i] >= v->n_texts ? v->n_texts : (uint32_t)names[i];
            uint8_t *class = &v->classes[name];

            v->next_group[first + i] = v->groups[name];
            v->group_categories[first + i] = categories[i];
            v->groups[name] = (uint32_t)(first + i);
            if (category.size > 0 && category_is_gpu_work(category.p, category.size))
                *class =
                    MAX(*class, (uint8_t)(memmem(category.p, category.size, "em", 2) ? VIEW_CLASS_TRANSFER
                                                                                     : VIEW_CLASS_ASK));
        }
    }
    return 0;
}

static int view_read(struct trace_view *v)
{
    int64_t first = columns_meta(v->c, META_first_ns), last = columns_meta(v->c, META_last_ns);

    v->first_ns = first == COLUMN_NULL ? 0 : first;
    v->last_ns = last == COLUMN_NULL ? v->first_ns : MAX(last, v->first_ns);
    v->n_texts = columns_texts(v->c);
    v->heads.columns = v->c;
    v->tiles = tile_cache_new();
    snprintf(v->sum, sizeof(v->sum), "%x%08" PRIx32, VIEW_FORMAT, columns_sum(v->c));
    int r = lane_table_open(v->c, &v->lanes);
    if (r == 0)
        r = view_read_groups(v);
    if (r == 0)
        r = view_read_tracks(v);
    return r;
}

int trace_view_open(int columns_fd, int take_source_fd, struct trace_view **ret, char **ret_reason)
{
    _cleanup_(trace_view_freep) struct trace_view *v = xcalloc(1, sizeof(*v));

    v->heads.fd = take_source_fd;
    int r = columns_open(columns_fd, &v->c, ret_reason);
    if (r == 0)
        r = view_read(v);
    if (r == 0)
        *ret = TAKE_PTR(v);
    return r;
}

struct trace_view *trace_view_free(struct trace_view *v)
{
    if (!v)
        return NULL;
    heads_done(&v->heads);
    closep(&v->heads.fd);
    lane_table_done(&v->lanes);
    columns_close(v->c);
    free(v->groups);
    free(v->next_group);
    free(v->group_categories);
    free(v->classes);
    free(v->tracks);
    free(v->track_at);
    free(v->timeline);
    free(v->steps);
    tile_cache_free(v->tiles);
    free(v);
    return NULL;
}

/* -- Times -- */

int64_t view_add(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

int64_t view_since(const struct trace_view *v, int64_t ns)
{
    int64_t since;

    return __builtin_sub_overflow(ns, v->first_ns, &since) ? (ns > 0 ? INT64_MAX : INT64_MIN) : since;
}

int64_t view_absolute(const struct trace_view *v, int64_t since)
{
    return view_add(since, v->first_ns);
}

int64_t view_shown_dur(const struct trace_view *v, int64_t ts, int64_t dur)
{
    if (dur < 0 && __builtin_sub_overflow(v->last_ns, ts, &dur))
        dur = INT64_MAX;
    return MAX(dur, INT64_C(0));
}

/* -- Names and slices -- */

json_t *view_text(const struct trace_view *v, int64_t number)
{
    struct text text = columns_text(v->c, number);
    _cleanup_(freep) char *copy = xstrndup(text.p, MIN(text.size, (size_t)VIEW_NAME_MAX));

    return json_text(copy);
}

const char *view_class(const struct trace_view *v, int64_t name)
{
    if (name < 0 || name >= v->n_texts || v->classes[name] == VIEW_CLASS_NONE)
        return "";
    if (v->classes[name] < VIEW_CLASS_KNOWN) {
        struct text text = columns_text(v->c, name);
        bool is_transfer = v->classes[name] == VIEW_CLASS_TRANSFER;
        enum kernel_class class = is_transfer ? CLASS_MEMORY : kernel_class_of(NULL, text.p, text.size);
        v->classes[name] = (uint8_t)(VIEW_CLASS_KNOWN + class);
    }
    return kernel_class_name((enum kernel_class)(v->classes[name] - VIEW_CLASS_KNOWN));
}

int64_t view_lane_of(const struct trace_view *v, uint64_t slice)
{
    return view_lane_at(v, columns_get(v->c, COL_slice_track, slice),
                        columns_get(v->c, COL_slice_depth, slice));
}

int64_t view_lane_at(const struct trace_view *v, int64_t track, int64_t depth)
{
    if (track < 0 || v->track_at[track] == COLUMN_NO_CODE)
        return COLUMN_NULL;
    const struct view_track *t = &v->tracks[v->track_at[track]];
    /* Each depth has a lane, unless the columns are defective. */
    if (depth >= 0 && (uint64_t)depth < t->n_lanes &&
        lane_table_rows(&v->lanes, t->lane + (uint64_t)depth).depth == depth)
        return (int64_t)(t->lane + (uint64_t)depth);
    for (uint64_t lane = t->lane; lane < t->lane + t->n_lanes; lane++)
        if (lane_table_rows(&v->lanes, lane).depth == depth)
            return (int64_t)lane;
    return COLUMN_NULL;
}

json_t *view_ref(const struct trace_view *v, uint64_t slice)
{
    json_t *ref = json_object();
    int64_t lane = view_lane_of(v, slice), dur = columns_get(v->c, COL_slice_dur, slice);

    json_put_int(ref, "slice", (int64_t)slice);
    json_object_set_new(ref, "name", view_text(v, columns_get(v->c, COL_slice_name, slice)));
    json_put_int(ref, "begin", view_since(v, columns_get(v->c, COL_slice_ts, slice)));
    json_put_int(ref, "dur", MAX(dur, INT64_C(-1)));
    if (lane != COLUMN_NULL)
        json_put_int(ref, "lane", lane);
    return ref;
}

struct view_group view_group_rows(const struct trace_view *v, uint32_t group)
{
    struct view_group g = {.category = columns_get(v->c, COL_name_category, group)};
    int64_t first = columns_get(v->c, COL_name_first, group),
            count = columns_get(v->c, COL_name_count, group);
    uint64_t rows = columns_rows(v->c, TABLE_by_name);

    if (first < 0 || (uint64_t)first >= rows || count <= 0)
        return g;
    g.first = (uint64_t)first;
    g.end = g.first + MIN((uint64_t)count, rows - g.first);
    return g;
}

uint32_t view_group_of(const struct trace_view *v, int64_t name, int64_t category)
{
    uint32_t group = v->groups[name < 0 || name >= v->n_texts ? v->n_texts : (uint32_t)name];

    while (group != COLUMN_NO_CODE && v->group_categories[group] != category)
        group = v->next_group[group];
    return group;
}

uint64_t view_group_find(const struct trace_view *v, uint64_t first, uint64_t end, uint64_t slice)
{
    while (first < end) {
        uint64_t middle = first + (end - first) / 2;
        int64_t found = columns_get(v->c, COL_by_name_slice, middle);

        if (found >= 0 && (uint64_t)found < slice)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* -- Questions -- */

int view_read_number(const json_t *request, const char *name, int64_t min, int64_t max, int64_t *ret,
                     struct problem *p)
{
    const json_t *value = json_object_get(request, name);
    int64_t number = json_integer_value(value);

    if (!value)
        return 0;
    if (!json_is_integer(value) || number < min || number > max)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "%s must be a number from %" PRId64 " to %" PRId64, name, min, max);
    *ret = number;
    return 0;
}

int view_read_part(const struct trace_view *v, const json_t *request, struct view_part *ret,
                   struct problem *p)
{
    int64_t from = 0, to = INT64_MAX;

    int r = view_read_number(request, "from", 0, INT64_MAX, &from, p);
    if (r == 0)
        r = view_read_number(request, "to", 0, INT64_MAX, &to, p);
    if (r == 0 && from >= to)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "from must be before to");
    *ret = (struct view_part){view_absolute(v, from), view_absolute(v, to)};
    return r;
}

int view_read_lanes(const struct trace_view *v, const json_t *request, uint64_t *ret_first, uint64_t *ret_end,
                    struct problem *p)
{
    int64_t first = 0, last = (int64_t)v->lanes.n - 1;

    int r = view_read_number(request, "first_lane", 0, INT64_MAX, &first, p);
    if (r == 0)
        r = view_read_number(request, "last_lane", 0, INT64_MAX, &last, p);
    if (r < 0)
        return r;
    *ret_first = *ret_end = 0;
    if (!json_object_get(request, "first_lane") && v->lanes.n == 0)
        return 0;
    if (first > last)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "lanes must be FIRST-LAST");
    if ((uint64_t)last >= v->lanes.n)
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "the trace has the lanes 0 to %" PRId64,
                           (int64_t)v->lanes.n - 1);
    *ret_first = (uint64_t)first;
    *ret_end = (uint64_t)last + 1;
    return 0;
}
