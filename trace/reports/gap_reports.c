/* SPDX-License-Identifier: Apache-2.0 */
/* Every gap of every stream, the longest first. */
#include "trace/reports/gap.h"

#include "base/array.h"
#include "trace/reports/grouping.h"
#include "trace/reports/hta.h"
#include "trace/reports/report.h"
#include <errno.h>

/* -- Gap list -------------------------------------------------------------------------------------------- */

#define GAP_LIST_COLUMNS(C)                                                                                  \
    RANK_COLUMN(C)                                                                                           \
    C(stream, ID, "stream number")                                                                           \
    C(start_ns, NS, "start of the gap, relative to the first slice of the rank")                             \
    C(dur_ns, NS, "duration of the gap")                                                                     \
    C(cause, TEXT, "cause: host_wait, kernel_wait or other")                                                 \
    C(idle_ns, NS, "part of the gap without activity on any stream of the rank")                             \
    C(call, TEXT, "call with the most self time of the launching thread during the gap")                     \
    C(call_ns, NS, "self time of that call during the gap", IMPORTANCE_EXTRA)                                \
    C(inside, TEXT, "innermost slice of the launching thread that covers most of the gap", IMPORTANCE_EXTRA) \
    C(inside_kind, TEXT, "kind of that slice: operator, annotation, python, runtime or other",               \
      IMPORTANCE_EXTRA)                                                                                      \
    C(inside_ns, NS, "part of the gap within that slice", IMPORTANCE_EXTRA)                                  \
    C(before, TEXT, "GPU event that ended before the gap", IMPORTANCE_EXTRA)                                 \
    C(after, TEXT, "GPU event that ended the gap")                                                           \
    C(inside_slice, ID, "slice number of that slice", IMPORTANCE_EXTRA)                                      \
    C(after_slice, ID, "slice number of the event that ended the gap", IMPORTANCE_EXTRA)                     \
    C(device, ID, "GPU of the stream", IMPORTANCE_EXTRA)
REPORT_ROW(gap_list, GAP_LIST_COLUMNS);

static int64_t slice_or_null(uint64_t slice)
{
    return slice == SLICE_NONE ? COLUMN_NULL : (int64_t)slice;
}

/* No text for SLICE_NONE. */
static struct text gap_list_name_of(const struct columns *c, uint64_t slice)
{
    struct text none = {0};

    return slice == SLICE_NONE ? none : columns_text(c, columns_get(c, COL_slice_name, slice));
}

static void emit_gap(const struct analysis *a, size_t rank, const struct gpu_stream *stream,
                     const struct gap *gap, const struct top_call *call, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    bool has_slice = gap->blamed != SLICE_NONE;

    EMIT_ROW(gap_list, ret, .rank = a->ranks[rank].number, .stream = stream->id,
             .start_ns = analysis_since_first(a, rank, gap->from), .dur_ns = gap->to - gap->from,
             .cause = row_str(hta_gap_class_name(gap->cause)), .idle_ns = gap->idle,
             .call = row_text(c, call->name), .call_ns = call->name == COLUMN_NULL ? COLUMN_NULL : call->ns,
             .inside = gap_list_name_of(c, gap->blamed),
             .inside_kind = row_str(has_slice ? host_kind_name(gap->blamed_kind) : NULL),
             .inside_ns = has_slice ? gap->covered : COLUMN_NULL, .before = gap_list_name_of(c, gap->before),
             .after = gap_list_name_of(c, gap->after), .inside_slice = slice_or_null(gap->blamed),
             .after_slice = slice_or_null(gap->after), .device = stream->device);
}

static int gap_list_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(gaps_done) struct gaps gaps = {0};
    _cleanup_(gap_walk_done) struct gap_walk walk = {0};
    _cleanup_(call_sums_done) struct call_sums sums = {0};
    int r = gaps_find(a, rank, &gaps);

    if (r >= 0)
        r = gap_walk_begin(a, rank, &walk);
    if (r >= 0)
        r = call_sums_begin(&sums, a->ranks[rank].columns, walk.slices);
    for (size_t i = 0; i < gaps.n && r >= 0; i++) {
        const struct gap *gap = &gaps.items[i];
        r = gap_walk_next(&walk, gap, gap->to);
        if (r >= 0)
            r = call_sums_add(&sums, walk.calls, walk.n);
        struct top_call call = call_sums_take(&sums);
        emit_gap(a, rank, &gaps.streams[gap->stream], gap, &call, ret);
    }
    return r;
}

const struct report report_gap_list = {
    .name = "gap_list",
    .title = "each gap, with the host activity",
    .method = "Gaps and causes as in the report gaps. Each nanosecond of a gap belongs to the innermost "
              "slice of the thread that launched the event that ends the gap: call is the name with the "
              "largest sum. inside is the innermost slice around more than half of the gap, otherwise the "
              "slice with the largest part of it; it is empty if the thread was outside any slice for "
              "longer.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .sort_by = "dur_ns",
    REPORT_COLUMNS(gap_list),
    .make_rank = gap_list_make_rank,
};

/* -- Gaps ------------------------------------------------------------------------------------------------ */

#define GAPS_COLUMNS(C)                                                                                      \
    RANK_COLUMN(C)                                                                                           \
    C(stream, ID, "stream number")                                                                           \
    C(cause, TEXT, "cause: host_wait, kernel_wait or other", IMPORTANCE_HIGH)                                \
    C(count, COUNT, "number of gaps")                                                                        \
    C(sum_ns, NS, "total duration of the gaps", IMPORTANCE_HIGH)                                             \
    C(idle_ns, NS, "part of the gaps without activity on any stream of the rank", IMPORTANCE_HIGH)           \
    C(max_ns, NS, "longest gap", IMPORTANCE_EXTRA)                                                           \
    C(call, TEXT, "call with the most self time of the launching threads during the gaps")                   \
    C(call_ns, NS, "self time of that call during the gaps", IMPORTANCE_EXTRA)                               \
    C(inside, TEXT, "slices that cover most of each gap: the name with the most time", IMPORTANCE_EXTRA)     \
    C(inside_kind, TEXT, "kind of these slices: operator, annotation, python, runtime or other",             \
      IMPORTANCE_EXTRA)                                                                                      \
    C(inside_ns, NS, "part of the gaps within these slices", IMPORTANCE_EXTRA)                               \
    C(device, ID, "GPU of the stream", IMPORTANCE_EXTRA)
REPORT_ROW(gaps, GAPS_COLUMNS);

/* Gaps of one stream, cause and name of the slice around them. */
struct share {
    uint32_t stream;
    enum hta_gap_class cause;
    enum host_kind kind;
    int64_t name; /* COLUMN_NULL: nothing is known */
    uint64_t count;
    int64_t sum, idle, max;
    size_t number; /* in order of appearance */
};

static int gaps_compare(const void *x, const void *y)
{
    const struct share *a = x, *b = y;

    return a->stream != b->stream ? (a->stream > b->stream) - (a->stream < b->stream)
           : a->cause != b->cause ? (a->cause > b->cause) - (a->cause < b->cause)
           : a->name != b->name   ? (a->name > b->name) - (a->name < b->name)
                                  : (a->kind > b->kind) - (a->kind < b->kind);
}

static bool is_of_one_row(const struct share *a, const struct share *b)
{
    return a->stream == b->stream && a->cause == b->cause;
}

/* worst: NULL where nothing is known of what is around the gaps. */
static void gaps_emit_row(const struct rank *rank, const struct gpu_stream *stream, const struct share *all,
                          const struct share *worst, const struct top_call *call, struct report_rows *ret)
{
    EMIT_ROW(gaps, ret, .rank = rank->number, .stream = stream->id,
             .cause = row_str(hta_gap_class_name(all->cause)), .count = (int64_t)all->count,
             .sum_ns = all->sum, .idle_ns = all->idle, .max_ns = all->max,
             .call = row_text(rank->columns, call->name),
             .call_ns = call->name == COLUMN_NULL ? COLUMN_NULL : call->ns,
             .inside = worst ? columns_text(rank->columns, worst->name) : (struct text){0},
             .inside_kind = row_str(worst ? host_kind_name(worst->kind) : NULL),
             .inside_ns = worst ? worst->sum : COLUMN_NULL, .device = stream->device);
}

/* The gaps of a rank by their share. */
struct gaps_shares {
    struct share *items; /* in order: those of a row follow each other, and in them those of a name */
    size_t n, cap;
    uint32_t *of;     /* of each gap: the number of its share */
    size_t *gaps;     /* all gaps, by share and in their order */
    size_t *first_of; /* of each share by its number: where its gaps begin */
};

static void gaps_shares_done(struct gaps_shares *s)
{
    free(s->items);
    free(s->of);
    free(s->gaps);
    free(s->first_of);
}

static int gaps_sum_shares(const struct slice_table *slices, const struct gaps *gaps, struct gaps_shares *ret)
{
    _cleanup_(groups_done) struct groups keys = {0};

    for (size_t i = 0; i < gaps->n; i++) {
        const struct gap *gap = &gaps->items[i];
        int64_t ns = gap->to - gap->from, name = slice_name(slices, gap->blamed),
                number = groups_number(&keys,
                                       (struct group_key){{gap->stream, gap->cause, name, gap->blamed_kind}});
        if (number < 0 || !ARRAY_RESERVE(ret->items, ret->cap, keys.n))
            return -ENOMEM;
        struct share *share = &ret->items[number];
        if (keys.n > ret->n)
            *share = (struct share){.stream = gap->stream,
                                    .cause = gap->cause,
                                    .kind = gap->blamed_kind,
                                    .name = name,
                                    .number = ret->n++};
        share->count++;
        share->sum += ns;
        share->idle += gap->idle;
        share->max = MAX(share->max, ns);
        ret->of[i] = (uint32_t)number;
    }
    return 0;
}

static int gaps_shares_read(const struct slice_table *slices, const struct gaps *gaps,
                            struct gaps_shares *ret)
{
    *ret = (struct gaps_shares){.of = malloc((gaps->n + 1) * sizeof(*ret->of)),
                                .gaps = malloc((gaps->n + 1) * sizeof(*ret->gaps))};
    int r = ret->of && ret->gaps ? gaps_sum_shares(slices, gaps, ret) : -ENOMEM;
    if (r < 0)
        return r;
    ret->first_of = malloc((ret->n + 1) * sizeof(*ret->first_of));
    if (!ret->first_of)
        return -ENOMEM;
    if (ret->n > 0)
        qsort(ret->items, ret->n, sizeof(*ret->items), gaps_compare);
    for (size_t i = 0, first = 0; i < ret->n; first += ret->items[i++].count)
        ret->first_of[ret->items[i].number] = first;
    for (size_t i = 0; i < gaps->n; i++)
        ret->gaps[ret->first_of[ret->of[i]]++] = i;
    return 0;
}

/* Of some gaps. */
static int find_top_call(struct gap_walk *walk, struct call_sums *sums, const struct gaps *gaps,
                         const size_t *of, size_t n, struct top_call *ret)
{
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++) {
        const struct gap *gap = &gaps->items[of[i]];
        r = gap_walk_next(walk, gap, gap->to);
        if (r >= 0)
            r = call_sums_add(sums, walk->calls, walk->n);
    }
    *ret = call_sums_take(sums);
    return r;
}

static int gaps_emit_rows(struct analysis *a, size_t number, const struct gaps *gaps,
                          const struct gaps_shares *shares, struct report_rows *ret)
{
    _cleanup_(gap_walk_done) struct gap_walk walk = {0};
    _cleanup_(call_sums_done) struct call_sums sums = {0};
    const struct rank *rank = &a->ranks[number];
    int r = gap_walk_begin(a, number, &walk);

    if (r >= 0)
        r = call_sums_begin(&sums, rank->columns, walk.slices);
    size_t gap = 0;
    for (size_t i = 0, next; i < shares->n && r >= 0; i = next) {
        struct share all = shares->items[i], worst = {0};
        struct top_call call;
        all.count = 0, all.sum = all.idle = all.max = 0;
        for (next = i; next < shares->n && is_of_one_row(&shares->items[i], &shares->items[next]); next++) {
            const struct share *one = &shares->items[next];
            all.count += one->count;
            all.sum += one->sum;
            all.idle += one->idle;
            all.max = MAX(all.max, one->max);
            if (one->name != COLUMN_NULL && one->sum > worst.sum)
                worst = *one;
        }
        r = find_top_call(&walk, &sums, gaps, &shares->gaps[gap], all.count, &call);
        gaps_emit_row(rank, &gaps->streams[all.stream], &all, worst.count > 0 ? &worst : NULL, &call, ret);
        gap += all.count;
    }
    return r;
}

static int gaps_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(gaps_done) struct gaps gaps = {0};
    _cleanup_(gaps_shares_done) struct gaps_shares shares = {0};
    const struct slice_table *slices;
    int r = gaps_find(a, rank, &gaps);

    if (r >= 0)
        r = analysis_slices(a, rank, &slices);
    if (r >= 0)
        r = gaps_shares_read(slices, &gaps, &shares);
    return r < 0 ? r : gaps_emit_rows(a, rank, &gaps, &shares, ret);
}

/* HTA has nothing else of a gap. */
static void hta_emit_gaps(const struct rank *rank, int64_t stream, enum hta_gap_class cause, int64_t count,
                          int64_t sum, struct report_rows *ret)
{
    EMIT_ROW(gaps, ret, .rank = rank->number, .stream = stream, .cause = row_str(hta_gap_class_name(cause)),
             .count = count, .sum_ns = sum, .idle_ns = COLUMN_NULL, .max_ns = COLUMN_NULL,
             .call_ns = COLUMN_NULL, .inside_ns = COLUMN_NULL, .device = COLUMN_NULL);
}

static int gaps_make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = a->hta ? hta_gaps(a, i, hta_emit_gaps, ret) : gaps_make_rank(a, i, ret);
    return r < 0 || a->hta ? r : report_rows_sort(ret, report_column_find(&report_gaps, "sum_ns"), true);
}

const struct report report_gaps = {
    .name = "gaps",
    .overview = {.position = 2, .rows = 5},
    .title = "idle time of each stream by cause, with the host activity",
    .method = "A gap is the time between the latest end of the events of a stream so far and the start of "
              "its next event. Causes after Holistic Trace Analysis: host_wait if the next event was "
              "launched only in the gap, otherwise kernel_wait if the gap is shorter than 30 us, otherwise "
              "other. Each nanosecond belongs to the innermost slice of the launching thread: call is the "
              "name with the largest sum. gap_list contains each gap.",
    .needs = NEEDS_GPU,
    REPORT_COLUMNS(gaps),
    .make = gaps_make,
};
