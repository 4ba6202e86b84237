/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: in which order streams got them, and how much waited there already. */
#include "trace/reports/path_graph.h"
#include "trace/reports/search.h"
#include <errno.h>

static int compare_launches(const void *x, const void *y)
{
    const struct path_launch *a = x, *b = y;

    return a->ts != b->ts ? (a->ts > b->ts) - (a->ts < b->ts)
                          : (a->gpu->slice > b->gpu->slice) - (a->gpu->slice < b->gpu->slice);
}

/* Launches are in order of time. */
static int compare_on_streams(const void *x, const void *y, void *arg)
{
    uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;
    const struct path_launch *launches = arg, *a = &launches[i], *b = &launches[k];

    return a->stream != b->stream ? (a->stream > b->stream) - (a->stream < b->stream) : (i > k) - (i < k);
}

static int compare_on_tracks(const void *x, const void *y, void *arg)
{
    uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;
    const struct path_launch *launches = arg, *a = &launches[i], *b = &launches[k];

    if (a->stream == b->stream && a->track != b->track)
        return a->track < b->track ? -1 : 1;
    return compare_on_streams(x, y, arg);
}

static int order_launches(struct path_graph *g)
{
    size_t n = g->n_launches;

    g->on_streams = malloc((n + 1) * sizeof(*g->on_streams));
    g->on_tracks = malloc((n + 1) * sizeof(*g->on_tracks));
    g->of_work = calloc(g->work->n + 1, sizeof(*g->of_work));
    if (!g->on_streams || !g->on_tracks || !g->of_work)
        return -ENOMEM;
    qsort(g->launches, n, sizeof(*g->launches), compare_launches);
    for (uint32_t i = 0; i < n; i++) {
        g->on_streams[i] = g->on_tracks[i] = i;
        g->of_work[g->launches[i].gpu - g->work->events] = i + 1;
    }
    qsort_r(g->on_streams, n, sizeof(*g->on_streams), compare_on_streams, g->launches);
    qsort_r(g->on_tracks, n, sizeof(*g->on_tracks), compare_on_tracks, g->launches);
    return 0;
}

/* A launch adds to its stream's queue, the beginning of the work takes it away. */
struct queue_step {
    int64_t stream, ts;
    uint32_t launch;
    int8_t by;
};

static int compare_steps(const void *x, const void *y)
{
    const struct queue_step *a = x, *b = y;

    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->ts != b->ts)
        return a->ts < b->ts ? -1 : 1;
    return a->launch != b->launch ? (a->launch > b->launch) - (a->launch < b->launch) : b->by - a->by;
}

static int measure_queues(struct path_graph *g)
{
    _cleanup_(freep) struct queue_step *steps = calloc(2 * g->n_launches + 1, sizeof(*steps));
    int64_t queued = 0;

    if (!steps)
        return -ENOMEM;
    for (uint32_t i = 0; i < g->n_launches; i++) {
        const struct path_launch *l = &g->launches[i];
        steps[2 * i] = (struct queue_step){l->stream, l->ts, i, 1};
        steps[2 * i + 1] = (struct queue_step){l->stream, l->gpu->ts, i, -1};
    }
    qsort(steps, 2 * g->n_launches, sizeof(*steps), compare_steps);
    for (size_t i = 0; i < 2 * g->n_launches; i++) {
        struct path_launch *l = &g->launches[steps[i].launch];
        if (i == 0 || steps[i].stream != steps[i - 1].stream)
            queued = 0;
        queued += steps[i].by;
        *(steps[i].by > 0 ? &l->queued : &l->queued_start) = queued;
    }
    return 0;
}

int path_gather_launches(struct path_graph *g)
{
    g->launches = calloc(g->work->n + 1, sizeof(*g->launches));
    if (!g->launches)
        return -ENOMEM;
    for (size_t i = 0; i < g->work->n; i++) {
        const struct gpu_event *e = &g->work->events[i];
        if (e->launch == SLICE_NONE ||
            !(path_call_flags(g, columns_get(g->c, COL_slice_name, e->launch)) & CALL_LAUNCHES))
            continue;
        uint32_t call = g->of_slice[e->launch];
        g->launches[g->n_launches++] =
            (struct path_launch){.ts = columns_get(g->c, COL_slice_ts, e->launch),
                                 .stream = e->stream,
                                 .device = e->device,
                                 .track = columns_get(g->c, COL_slice_track, e->launch),
                                 .call = call ? call - 1 : PATH_NONE,
                                 .gpu = e};
    }
    int r = order_launches(g);
    return r < 0 ? r : measure_queues(g);
}

/* -- Looking for one ---------------------------------------------------------------------------------- */

static bool is_later(const struct path_launch *l, int64_t stream, int64_t ts)
{
    return l->stream != stream ? l->stream > stream : l->ts > ts;
}

const struct path_launch *path_launch_before(const struct path_graph *g, int64_t stream, int64_t ts)
{
    size_t behind = FIRST_THAT(i, 0, g->n_launches, is_later(&g->launches[g->on_streams[i]], stream, ts));
    const struct path_launch *last = behind > 0 ? &g->launches[g->on_streams[behind - 1]] : NULL;
    return last && last->stream == stream ? last : NULL;
}

static bool is_before(const struct path_launch *l, int64_t stream, int64_t track, int64_t ts)
{
    if (l->stream != stream)
        return l->stream < stream;
    return l->track != track ? l->track < track : l->ts < ts;
}

const struct path_launch *path_launch_behind(const struct path_graph *g, int64_t stream, int64_t track,
                                             int64_t ts)
{
    size_t at = FIRST_THAT(i, 0, g->n_launches, !is_before(&g->launches[g->on_tracks[i]], stream, track, ts));
    const struct path_launch *next = at < g->n_launches ? &g->launches[g->on_tracks[at]] : NULL;
    return next && next->stream == stream && next->track == track ? next : NULL;
}

const struct path_launch *path_launch_of(const struct path_graph *g, const struct gpu_event *work)
{
    uint32_t number = g->of_work[work - g->work->events];

    return number ? &g->launches[number - 1] : NULL;
}
