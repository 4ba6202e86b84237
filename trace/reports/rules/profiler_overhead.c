/* SPDX-License-Identifier: Apache-2.0 */
/* What the recording itself costs: Python frames, each of which is written down, and what Kineto says it did.
 */
#include "base/units.h"
#include "trace/columns/category.h"
#include "trace/reports/name_rows.h"
#include "trace/reports/rules/rules.h"

/* A recording always costs something. Beyond this, its figures of the host are not those of production. */
#define OVERHEAD_SHARE_MIN 0.05
/* What a frame costs the host, to enter and to leave: an assumption, of the order that a call and a return
 * with a C hook take on a server's core. Nothing in a trace tells it. */
#define FRAME_NS 500

struct overhead {
    int64_t frames_time, kineto_time;
    size_t frames;
    int64_t most;
    struct interval at;
    const struct scene_rank *rank;
};

static bool is_late(enum idle_cause cause)
{
    return cause != IDLE_DEVICE && cause != IDLE_UNKNOWN && cause != IDLE_NOTHING;
}

static void add_gap(const struct scene_rank *rank, const struct gap *gap, size_t frames, struct overhead *ret)
{
    int64_t cost = MIN((int64_t)frames * FRAME_NS, gap->idle);

    ret->frames += frames;
    ret->frames_time = add_time(ret->frames_time, cost);
    if (cost > ret->most) {
        ret->most = cost;
        ret->at = (struct interval){gap->from, gap->to};
        ret->rank = rank;
    }
}

/* Only frames that begin while the GPU waits for the host delay anything. */
static void add_frames(const struct scene_rank *rank, struct overhead *ret)
{
    const struct columns *c = rank->columns;
    int64_t python = columns_find_text(c, "python_function", sizeof("python_function") - 1);
    int64_t ts[BLOCK_ROWS], category[BLOCK_ROWS];
    size_t at = 0, frames = 0;

    if (python < 0)
        return;
    for (uint64_t first = 0; first < columns_rows(c, TABLE_slice) && at < rank->gaps.n; first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_slice_ts, first, BLOCK_ROWS, ts);
        columns_block(c, COL_slice_category, first, BLOCK_ROWS, category);
        for (size_t i = 0; i < n && at < rank->gaps.n; i++) {
            while (at < rank->gaps.n && ts[i] >= rank->gaps.items[at].to) {
                if (is_late(rank->causes[at]))
                    add_gap(rank, &rank->gaps.items[at], frames, ret);
                at++;
                frames = 0;
            }
            if (at < rank->gaps.n && category[i] == python && ts[i] >= rank->gaps.items[at].from)
                frames++;
        }
    }
}

/* What Kineto calls overhead, while the GPU waits for the host. A full buffer of commands is no overhead: the
 * GPU has enough to do. */
static int add_kineto(const struct scene_rank *rank, struct overhead *ret)
{
    _cleanup_(intervals_done) struct intervals overhead = {0}, idle = {0};
    const struct columns *c = rank->columns;
    int r = 0;

    for (uint64_t row = 0; row < columns_rows(c, TABLE_name) && r >= 0; row++) {
        struct text category = columns_text(c, columns_get(c, COL_name_category, row)),
                    name = columns_text(c, columns_get(c, COL_name_name, row));
        struct name_rows places = name_rows_of(c, row);
        if (!text_is(category, "overhead") || memmem(name.p, name.size, "Command Buffer Full", 19))
            continue;
        for (uint64_t i = places.first; i < places.end && r >= 0; i++) {
            int64_t slice = columns_get(c, COL_by_name_slice, i),
                    ts = slice == COLUMN_NULL ? COLUMN_NULL : columns_get(c, COL_slice_ts, (uint64_t)slice);
            if (ts != COLUMN_NULL)
                r = intervals_add(&overhead, ts,
                                  add_time(ts, MAX(columns_get(c, COL_slice_dur, (uint64_t)slice), 0)));
        }
    }
    for (size_t i = 0; i < rank->gaps.n && r >= 0; i++)
        if (is_late(rank->causes[i]))
            r = intervals_add(&idle, rank->gaps.items[i].from, rank->gaps.items[i].to);
    intervals_unite(&overhead);
    intervals_unite(&idle);
    ret->kineto_time = add_time(ret->kineto_time, intervals_common(&overhead, &idle));
    return r;
}

static int look(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    struct overhead o = {0};
    struct finding f = {.confidence = CONFIDENCE_LOW};
    char figures[FIGURES_MAX], place[PLACE_MAX], frames[UNIT_TEXT_MAX], kineto[UNIT_TEXT_MAX];
    int r = 0;

    for (size_t i = 0; i < scene->n && r >= 0; i++) {
        add_frames(&scene->ranks[i], &o);
        r = add_kineto(&scene->ranks[i], &o);
    }
    if (r < 0)
        return r;
    f.cost = add_time(o.frames_time, o.kineto_time);
    snprintf(f.what, sizeof(f.what),
             "The profiler slows down what it records: about %s of the GPU's waiting is its own",
             finding_figures(figures, scene, f.cost));
    if (o.rank)
        snprintf(f.where, sizeof(f.where), "most at %s",
                 finding_place(place, scene, o.rank->rank, o.at.from, o.at.to));
    snprintf(f.evidence, sizeof(f.evidence),
             "%zu Python frames while the GPU waited for the host, taken as %d ns each "
             "(%s), and %s that Kineto itself names overhead",
             o.frames, FRAME_NS, format_duration(frames, o.frames_time),
             format_duration(kineto, o.kineto_time));
    finding_put(scene, rule, &f, ret);
    return 0;
}

const struct rule rule_profiler_overhead = {
    .name = "profiler_overhead",
    .report = "gaps",
    .share_min = OVERHEAD_SHARE_MIN,
    .advice = "record without Python stacks before trusting idle times (profctl start does), and stacks in a "
              "session of "
              "their own; do not record shapes and memory at once",
    .vllm = "\"torch_profiler_with_stack\":false in --profiler-config",
    .sglang = "\"with_stack\":false in /start_profile, or SGLANG_PROFILE_WITH_STACK=false",
    .look = look,
};
