/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/rules/idle.h"

#include "trace/reports/array.h"
#include "trace/reports/gap_culprit.h"
#include "trace/reports/glob.h"
#include "trace/reports/launch.h"
#include "trace/reports/name_rows.h"
#include "trace/reports/search.h"
#include "trace/reports/sync_call.h"
#include <errno.h>

/* Names are looked at so far. */
#define NAME_LOOK_MAX 256
/* Frames around a culprit that are asked for what they tell; a damaged file may nest without end. */
#define CLIMB_MAX 64

/* Functions of engines, torch and Triton, and annotations; the first that matches counts. What holds
 * everything else (a scheduler's event loop) must not be here. */
static const struct {
    const char *glob;
    enum idle_cause cause;
} names[] = {
    /* What runs compiled code is no compilation. */
    {"*torch/_dynamo/eval_frame.py*", IDLE_UNKNOWN},
    {"*(dynamo_timed)*", IDLE_COMPILE},
    {"*torch/_dynamo/convert_frame.py*", IDLE_COMPILE},
    {"*torch/_dynamo/symbolic_convert.py*", IDLE_COMPILE},
    {"*torch/_inductor/compile_fx.py*", IDLE_COMPILE},
    {"*torch/_inductor/codecache.py*: compile*", IDLE_COMPILE},
    {"*torch/_inductor/async_compile.py*", IDLE_COMPILE},
    {"*triton/compiler/compiler.py*: compile", IDLE_COMPILE},
    {"*triton/runtime/jit.py*: _do_compile", IDLE_COMPILE},
    {"*triton/runtime/autotuner.py*: _bench", IDLE_COMPILE},
    {"*triton_heuristics.py*: benchmark_all_configs", IDLE_COMPILE},
    {"*ModuleLoadData*", IDLE_COMPILE},
    {"*okenizer*: encode*", IDLE_TOKENIZER},
    {"*okenizer*: decode*", IDLE_TOKENIZER},
    {"*okenizer*: *encode_plus*", IDLE_TOKENIZER},
    {"*: *tokenize*", IDLE_TOKENIZER},
    {"*: *detokenize*", IDLE_TOKENIZER},
    {"*: batch_decode", IDLE_TOKENIZER},
    {"*tokenize_*", IDLE_TOKENIZER},
    {"tokenizer*", IDLE_TOKENIZER},
    {"detokeniz*", IDLE_TOKENIZER},
    {"*sched/scheduler.py*: schedule", IDLE_SCHEDULER}, /* vLLM */
    {"*sched/scheduler.py*: update_from_output", IDLE_SCHEDULER},
    {"*core/scheduler.py*: schedule", IDLE_SCHEDULER},
    {"*: get_next_batch_to_run", IDLE_SCHEDULER}, /* SGLang */
    {"*: get_new_batch_prefill", IDLE_SCHEDULER},
    {"*: process_batch_result*", IDLE_SCHEDULER},
    {"*: process_input_requests", IDLE_SCHEDULER},
    {"*: recv_requests", IDLE_SCHEDULER},
    {"*shm_broadcast.py*: dequeue", IDLE_SCHEDULER}, /* a worker waits for its engine's scheduler */
    {"*shm_broadcast.py*: acquire_read", IDLE_SCHEDULER},
    {"schedule", IDLE_SCHEDULER},
    {"scheduler*", IDLE_SCHEDULER},
    {"enumerate(DataLoader)*", IDLE_DATA},
    {"*torch/utils/data/dataloader.py*: __next__", IDLE_DATA},
    {"*torch/utils/data/dataloader.py*: _next_data", IDLE_DATA},
    {"cudaMalloc*", IDLE_ALLOCATION},
    {"cudaFree*", IDLE_ALLOCATION},
    {"cudaHostAlloc*", IDLE_ALLOCATION},
    {"cuMemCreate*", IDLE_ALLOCATION},
    {"cuMemMap*", IDLE_ALLOCATION},
    {"hipMalloc*", IDLE_ALLOCATION},
    {"hipFree*", IDLE_ALLOCATION},
    {"*built-in function collect*", IDLE_COLLECTOR},
    {"*Garbage*ollect*", IDLE_COLLECTOR},
};

enum idle_cause idle_cause_of_name(struct text name)
{
    char plain[NAME_LOOK_MAX];

    snprintf(plain, sizeof(plain), "%.*s", (int)MIN(name.size, sizeof(plain) - 1), name.p ? name.p : "");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (glob_matches(names[i].glob, plain))
            return names[i].cause;
    return IDLE_UNKNOWN;
}

/* -- Calls that waited -------------------------------------------------------------------------------- */

struct wait {
    int64_t track, ts, end;
    uint64_t slice;
};

struct waits {
    struct wait *items; /* by track and time */
    size_t n, cap;
};

static void waits_done(struct waits *w)
{
    free(w->items);
}

static int add_wait(const struct columns *c, uint64_t slice, struct waits *ret)
{
    int64_t ts = columns_get(c, COL_slice_ts, slice), dur = columns_get(c, COL_slice_dur, slice);

    if (ts == COLUMN_NULL || dur <= 0)
        return 0;
    if (!ARRAY_ROOM(ret->items, ret->cap, ret->n + 1))
        return -ENOMEM;
    ret->items[ret->n++] =
        (struct wait){columns_get(c, COL_slice_track, slice), ts, add_time(ts, dur), slice};
    return 0;
}

static int compare_waits(const void *x, const void *y)
{
    const struct wait *a = x, *b = y;

    if (a->track != b->track)
        return (a->track > b->track) - (a->track < b->track);
    return (a->ts > b->ts) - (a->ts < b->ts);
}

static int add_waits_of_name(const struct columns *c, uint64_t row, struct waits *ret)
{
    struct name_rows places = name_rows_of(c, row);
    int r = 0;

    for (uint64_t i = places.first; i < places.end && r >= 0; i++) {
        int64_t slice = columns_get(c, COL_by_name_slice, i);
        if (slice != COLUMN_NULL)
            r = add_wait(c, (uint64_t)slice, ret);
    }
    return r;
}

/* Calls that wait by their name, and copies that returned only when they were done. */
static int find_waits(const struct scene_rank *rank, struct waits *ret)
{
    const struct columns *c = rank->columns;
    int r = 0;

    for (uint64_t row = 0; row < columns_rows(c, TABLE_name) && r >= 0; row++)
        if (host_kind_of(columns_text(c, columns_get(c, COL_name_category, row))) == HOST_RUNTIME &&
            sync_call_of(columns_text(c, columns_get(c, COL_name_name, row))) == SYNC_WAIT)
            r = add_waits_of_name(c, row, ret);
    for (size_t i = 0; i < rank->work->n && r >= 0; i++) {
        const struct gpu_event *e = &rank->work->events[i];
        if (e->class != CLASS_MEMORY || e->launch == SLICE_NONE)
            continue;
        int64_t ts = columns_get(c, COL_slice_ts, e->launch), dur = columns_get(c, COL_slice_dur, e->launch);
        if (ts != COLUMN_NULL && dur > 0 && add_time(ts, dur) >= e->end)
            r = add_wait(c, e->launch, ret);
    }
    if (ret->n > 1)
        qsort(ret->items, ret->n, sizeof(*ret->items), compare_waits);
    return r;
}

static bool is_behind(const struct wait *wait, int64_t track, int64_t at)
{
    return wait->track != track ? wait->track > track : wait->ts > at;
}

/* The call in which the thread waited at a time, or NULL. */
static const struct wait *wait_at(const struct waits *w, int64_t track, int64_t at)
{
    size_t behind = FIRST_THAT(i, 0, w->n, is_behind(&w->items[i], track, at));
    const struct wait *last = behind > 0 ? &w->items[behind - 1] : NULL;
    return last && last->track == track && last->end >= at ? last : NULL;
}

/* -- Gaps --------------------------------------------------------------------------------------------- */

static int add_gap(struct gaps *gaps, const struct gap *gap)
{
    if (!ARRAY_ROOM(gaps->items, gaps->cap, gaps->n + 1))
        return -ENOMEM;
    gaps->items[gaps->n++] = *gap;
    return 0;
}

/* Unlike those of the report gaps: of the whole GPU, not of a stream. */
static int find_gaps(struct scene_rank *rank)
{
    const struct gpu_work *work = rank->work;
    int64_t end = INT64_MIN;
    uint64_t before = SLICE_NONE;
    int r = 0;

    for (size_t i = 0; i < work->n && r >= 0; i++) {
        const struct gpu_event *e = &work->events[i];
        if (before != SLICE_NONE && e->ts > end) {
            const struct interval *in = intervals_find(&rank->scope, e->ts - 1);
            struct gap gap = {.from = in ? MAX(end, in->from) : e->ts,
                              .to = e->ts,
                              .before = before,
                              .after = e->slice,
                              .launch = e->launch,
                              .culprit = SLICE_NONE};
            gap.idle = gap.to - gap.from;
            if (gap.idle > 0)
                r = add_gap(&rank->gaps, &gap);
        }
        if (e->end > end || before == SLICE_NONE) {
            end = e->end;
            before = e->slice;
        }
    }
    return r;
}

static int compare_call(const void *key, const void *item)
{
    const uint64_t *call = key;
    const struct launch *l = item;

    return (*call > l->call) - (*call < l->call);
}

/* What each text of the trace tells, + 1, once it was asked: few names recur in many gaps. */
struct meanings {
    const struct columns *c;
    uint8_t *known;
    uint32_t n;
};

static void meanings_done(struct meanings *m)
{
    free(m->known);
}

static enum idle_cause meaning_of(struct meanings *m, int64_t name)
{
    if (name < 0 || name >= m->n)
        return IDLE_UNKNOWN;
    if (m->known[name] == 0)
        m->known[name] = (uint8_t)(idle_cause_of_name(columns_text(m->c, name)) + 1);
    return (enum idle_cause)(m->known[name] - 1);
}

/* What the frames around the culprit tell, the innermost that tells anything. */
static enum idle_cause cause_around(struct meanings *m, uint64_t slice)
{
    for (int i = 0; i < CLIMB_MAX && slice != SLICE_NONE; i++) {
        enum idle_cause cause = meaning_of(m, columns_get(m->c, COL_slice_name, slice));
        int64_t parent = columns_get(m->c, COL_slice_parent, slice);
        if (cause != IDLE_UNKNOWN)
            return cause;
        slice = parent == COLUMN_NULL ? SLICE_NONE : (uint64_t)parent;
    }
    return IDLE_UNKNOWN;
}

/* The call in which the host waited for the GPU until it ran dry, or through most of the gap. */
static const struct wait *wait_before(const struct scene_rank *rank, const struct waits *waits,
                                      const struct gap *gap)
{
    const struct columns *c = rank->columns;
    const struct wait *wait = NULL;

    if (gap->culprit != SLICE_NONE && gap->culprit_kind == HOST_RUNTIME)
        wait = wait_at(waits, columns_get(c, COL_slice_track, gap->culprit),
                       columns_get(c, COL_slice_ts, gap->culprit));
    return wait ? wait : wait_at(waits, columns_get(c, COL_slice_track, gap->launch), gap->from);
}

static enum idle_cause cause_of(const struct scene_rank *rank, const struct launches *launches,
                                const struct waits *waits, struct meanings *meanings, struct gap *gap)
{
    const struct launch *l = gap->launch == SLICE_NONE ? NULL
                                                       : bsearch(&gap->launch, launches->items, launches->n,
                                                                 sizeof(*launches->items), compare_call);
    const struct step *step = scene_step(rank, gap->from);
    bool in_step = rank->n_steps < SCENE_STEPS_MIN || (step && gap->to <= step->end);
    const struct wait *wait;

    if (!l)
        return IDLE_UNKNOWN;
    /* What a graph brings after its first work was there already. */
    if (l->begin != gap->to || l->end <= gap->from)
        return IDLE_DEVICE;
    enum idle_cause cause = gap->culprit == SLICE_NONE ? IDLE_UNKNOWN : cause_around(meanings, gap->culprit);
    if (cause != IDLE_UNKNOWN)
        return cause;
    if (in_step && (wait = wait_before(rank, waits, gap))) {
        gap->culprit = wait->slice;
        gap->culprit_kind = HOST_RUNTIME;
        return IDLE_SYNC;
    }
    if (in_step && gap->to - gap->from <= IDLE_LAUNCH_MAX_NS)
        return IDLE_LAUNCH;
    return gap->culprit == SLICE_NONE && gap->to - gap->from >= IDLE_NOTHING_MIN_NS ? IDLE_NOTHING
                                                                                    : IDLE_HOST;
}

int idle_read(struct analysis *a, struct scene_rank *rank)
{
    _cleanup_(launches_done) struct launches launches = {0};
    _cleanup_(waits_done) struct waits waits = {0};
    _cleanup_(meanings_done) struct meanings meanings = {.c = rank->columns,
                                                         .n = columns_texts(rank->columns)};
    int r = launches_read(a, rank->rank, &launches);

    if (r >= 0)
        r = find_gaps(rank);
    if (r >= 0)
        r = gap_culprits(rank->columns, &rank->gaps);
    if (r >= 0)
        r = find_waits(rank, &waits);
    if (r < 0)
        return r;
    rank->causes = calloc(rank->gaps.n + 1, sizeof(*rank->causes));
    meanings.known = calloc((size_t)meanings.n + 1, 1);
    if (!rank->causes || !meanings.known)
        return -ENOMEM;
    for (size_t i = 0; i < rank->gaps.n; i++)
        rank->causes[i] = cause_of(rank, &launches, &waits, &meanings, &rank->gaps.items[i]);
    return 0;
}
