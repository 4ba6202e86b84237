/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that had nothing to do for most of the recording: whatever else is said of it is of a few steps.
 */
#include "base/units.h"
#include "trace/reports/host.h"
#include "trace/reports/rules/idle.h"
#include "trace/reports/rules/rules.h"

#include <errno.h>

/* Recorded while it mostly rested, a trace says nothing of the load that is asked about. */
#define IDLE_SHARE_MIN 0.5
/* A shorter rest may be between two requests. */
#define REST_MIN_NS 100000000

struct rest {
    int64_t recorded, rested, longest;
    struct interval at;
    size_t rank;
};

/* When the host did something that a trace tells of but Python frames, which a waiting thread has too. */
static int find_doings(const struct columns *c, struct intervals *ret)
{
    int64_t ts[BLOCK_ROWS], dur[BLOCK_ROWS], category[BLOCK_ROWS], last = COLUMN_NULL;
    bool is_doing = false;
    int r = 0;

    for (uint64_t first = 0; first < columns_rows(c, TABLE_slice) && r >= 0; first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_slice_ts, first, BLOCK_ROWS, ts);
        columns_block(c, COL_slice_dur, first, BLOCK_ROWS, dur);
        columns_block(c, COL_slice_category, first, BLOCK_ROWS, category);
        for (size_t i = 0; i < n && r >= 0; i++) {
            if (category[i] != last || first + i == 0) {
                enum host_kind kind = host_kind_of(columns_text(c, category[i]));
                is_doing = kind == HOST_OP || kind == HOST_RUNTIME || kind == HOST_ANNOTATION;
                last = category[i];
            }
            if (is_doing && dur[i] > 0)
                r = intervals_add(ret, ts[i], add_time(ts[i], dur[i]));
        }
    }
    intervals_unite(ret);
    return r;
}

int rests_find(struct analysis *a, size_t rank, struct intervals *ret)
{
    _cleanup_(intervals_done) struct intervals doings = {0};
    const struct columns *c = a->ranks[rank].columns;
    const struct gpu_work *work;
    int64_t from = columns_meta(c, META_first_ns), to = columns_meta(c, META_last_ns);
    int r = analysis_all_gpu(a, rank, &work);

    if (r >= 0)
        r = find_doings(c, &doings);
    for (size_t i = 0; r >= 0 && i < work->n; i++)
        r = intervals_add(&doings, work->events[i].ts, work->events[i].end);
    intervals_unite(&doings);
    if (r < 0 || from == COLUMN_NULL || to == COLUMN_NULL)
        return r;
    int64_t at = from;
    for (size_t i = 0; i <= doings.n && r >= 0; i++) {
        int64_t until = i < doings.n ? MIN(doings.items[i].from, to) : to, length;
        if (!__builtin_sub_overflow(until, at, &length) && length >= REST_MIN_NS)
            r = intervals_add(ret, at, until);
        at = i < doings.n ? MAX(at, doings.items[i].to) : at;
    }
    intervals_unite(ret);
    return r;
}

/* Rests lie between what the host and the GPU did, also before the first and after the last. */
static int add_rank(struct analysis *a, size_t rank, struct rest *ret)
{
    _cleanup_(intervals_done) struct intervals rests = {0};
    const struct columns *c = a->ranks[rank].columns;
    int64_t from = columns_meta(c, META_first_ns), to = columns_meta(c, META_last_ns), recorded;
    int r = rests_find(a, rank, &rests);

    if (r < 0 || from == COLUMN_NULL || to == COLUMN_NULL || __builtin_sub_overflow(to, from, &recorded) ||
        recorded <= 0)
        return r;
    ret->recorded = recorded;
    ret->rested = intervals_length(&rests);
    for (size_t i = 0; i < rests.n; i++)
        if (rests.items[i].to - rests.items[i].from > ret->longest) {
            ret->longest = rests.items[i].to - rests.items[i].from;
            ret->at = rests.items[i];
            ret->rank = rank;
        }
    return 0;
}

/* Costs are of the whole recording, not of the steps in it. */
static struct scene whole_of(const struct scene *scene, const struct rest *all, size_t n)
{
    struct scene whole = *scene;

    whole.length = all->recorded;
    whole.units = (int64_t)n;
    whole.n = n;
    whole.is_by_step = false;
    return whole;
}

static int look(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    struct analysis *a = scene->analysis;
    struct rest all = {0};
    struct finding f = {.confidence = CONFIDENCE_INFERRED};
    char figures[FIGURES_MAX], place[PLACE_MAX], longest[UNIT_TEXT_MAX], who[64];
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        struct rest rest = {0};
        r = add_rank(a, i, &rest);
        if ((double)rest.rested < IDLE_SHARE_MIN * (double)rest.recorded || rest.rested == 0)
            continue;
        n++;
        all.recorded = add_time(all.recorded, rest.recorded);
        all.rested = add_time(all.rested, rest.rested);
        if (rest.longest > all.longest) {
            all.longest = rest.longest;
            all.at = rest.at;
            all.rank = rest.rank;
        }
    }
    if (r < 0 || n == 0)
        return r;
    struct scene whole = whole_of(scene, &all, n);
    snprintf(who, sizeof(who), "%zu of %zu workers", n, a->n);
    f.cost = all.rested;
    snprintf(f.what, sizeof(f.what), "%s had nothing to do for %s of the recording",
             a->n > 1 ? who : "The worker", finding_figures(figures, &whole, f.cost));
    snprintf(f.where, sizeof(f.where), "the longest rest, %s, at %s", format_duration(longest, all.longest),
             finding_place(place, scene, all.rank, all.at.from, all.at.to));
    snprintf(
        f.evidence, sizeof(f.evidence),
        "neither work on the GPU nor operators, annotations or calls of the runtime on the host, for 100 ms "
        "and more at a time; all else that is said is of the rest of the recording");
    finding_put(&whole, rule, &f, ret);
    return 0;
}

const struct rule rule_idle_worker = {
    .name = "idle_worker",
    .report = "temporal",
    .share_min = IDLE_SHARE_MIN,
    .ground = "threads that the profiler did not record may have been busy",
    .advice = "record while requests arrive (profctl bench sends some), check that the router sends this "
              "worker any, or "
              "look at the busy part with --from and --to",
    .look = look,
};
