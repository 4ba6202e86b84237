/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tile: what VIEW_TILE_PIXELS pixels of 2^level nanoseconds show of some lanes, as arrays that a client uses without
 * parsing (little endian):
 *
 *     u32 lanes; u32 runs; u32 start[lanes + 1]; u32 name[runs]; u16 x[runs]; u16 width[runs]; u8 fill[runs]
 *
 * start: the first run of each lane; name: the number of a string, 0xffffffff for none; fill: how busy the run is, 255 for all
 * of the time. The rules of what a pixel shows are those of trace/columns/lane_view.h.
 */
#include "base/alloc.h"
#include "trace/columns/lane_view.h"
#include "trace/view/view.h"
#include <errno.h>

#define TILE_FILL_ALL 255

_Static_assert(VIEW_TILE_PIXELS <= UINT16_MAX, "x and width have 16 bits");

struct tile {
    uint32_t n_lanes, n, *start;
    uint32_t *names;
    uint16_t *x, *widths;
    uint8_t *fills;
};

static void tile_done(struct tile *t)
{
    free(t->start);
    free(t->names);
    free(t->x);
    free(t->widths);
    free(t->fills);
}

/* Room for as many lanes as are asked for: their number is limited. */
static void tile_init(struct tile *t, uint64_t n_lanes)
{
    size_t n = (size_t)n_lanes * VIEW_TILE_PIXELS;

    *t = (struct tile){.n_lanes = (uint32_t)n_lanes,
                       .start = xcalloc(n_lanes + 1, sizeof(*t->start)),
                       .names = xcalloc(n + 1, sizeof(*t->names)),
                       .x = xcalloc(n + 1, sizeof(*t->x)),
                       .widths = xcalloc(n + 1, sizeof(*t->widths)),
                       .fills = xcalloc(n + 1, sizeof(*t->fills))};
}

/* A double is exact enough for 8 bits. */
static uint8_t tile_fill(const struct lane_run *run, int64_t step)
{
    double fill = (double)MAX(run->busy, INT64_C(0)) / ((double)run->width * (double)step);

    return (uint8_t)(MIN(fill, 1.0) * TILE_FILL_ALL + 0.5);
}

static void tile_add_lane(struct tile *t, const struct trace_view *v, uint64_t lane,
                          const struct lane_view *view)
{
    struct lane_run runs[VIEW_TILE_PIXELS];
    size_t n = lane_view_read(&v->lanes, lane, view, runs);

    for (size_t i = 0; i < n; i++, t->n++) {
        t->names[t->n] = runs[i].name < 0 ? COLUMN_NO_CODE : (uint32_t)runs[i].name;
        t->x[t->n] = (uint16_t)runs[i].x;
        t->widths[t->n] = (uint16_t)runs[i].width;
        t->fills[t->n] = tile_fill(&runs[i], view->step);
    }
}

static void tile_write(const struct tile *t, FILE *out)
{
    const uint32_t head[] = {t->n_lanes, t->n};

    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are written as they lie in memory");
    fwrite(head, sizeof(head), 1, out);
    fwrite(t->start, sizeof(*t->start), t->n_lanes + (size_t)1, out);
    fwrite(t->names, sizeof(*t->names), t->n, out);
    fwrite(t->x, sizeof(*t->x), t->n, out);
    fwrite(t->widths, sizeof(*t->widths), t->n, out);
    fwrite(t->fills, sizeof(*t->fills), t->n, out);
}

int view_answer_tile(struct trace_view *v, const json_t *request, FILE *out, struct problem *p)
{
    _cleanup_(tile_done) struct tile t = {0};
    int64_t level = -1, index = -1, begin;
    uint64_t first = 0, end = 0;

    int r = view_read_number(request, "level", 0, VIEW_TILE_LEVEL_MAX, &level, p);
    if (r == 0)
        r = view_read_number(request, "index", 0, INT64_MAX, &index, p);
    if (r == 0)
        r = view_read_lanes(v, request, &first, &end, p);
    if (r < 0)
        return r;
    if (level < 0 || index < 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "level and index are missing");
    if (end - first > VIEW_TILE_LANES_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "a tile has at most %d lanes",
                           VIEW_TILE_LANES_MAX);
    const struct lane_view view = {.step = INT64_C(1) << level, .pixels = VIEW_TILE_PIXELS};
    if (__builtin_mul_overflow(index, view.step, &begin) ||
        __builtin_mul_overflow(begin, (int64_t)VIEW_TILE_PIXELS, &begin))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the tile begins after the end of time");
    tile_init(&t, end - first);
    struct lane_view placed = view;
    placed.from = view_absolute(v, begin);
    for (uint64_t lane = first; lane < end; lane++) {
        t.start[lane - first] = t.n;
        /* A tile after the end is empty: a client may ask for neighbours. */
        if (placed.from <= v->last_ns)
            tile_add_lane(&t, v, lane, &placed);
    }
    t.start[t.n_lanes] = t.n;
    tile_write(&t, out);
    return 0;
}
