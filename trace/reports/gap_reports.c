/* SPDX-License-Identifier: Apache-2.0 */
/* Every gap of every stream, the longest first. */
#include "trace/reports/gap.h"
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
    _cleanup_(gap_calls_done) struct gap_call_list calls = {0};
    _cleanup_(call_sums_done) struct call_sums sums = {0};
    int r = gaps_find(a, rank, &gaps);

    if (r >= 0)
        r = gap_calls_of_all(a->ranks[rank].columns, &gaps, &calls);
    if (r >= 0)
        r = call_sums_begin(&sums, a->ranks[rank].columns);
    for (size_t i = 0, first = 0, next; i < gaps.n && r >= 0; i++, first = next) {
        for (next = first; next < calls.n && calls.items[next].gap == i;)
            next++;
        struct top_call call = call_sums_top(&sums, &calls.items[first], next - first);
        emit_gap(a, rank, &gaps.streams[gaps.items[i].stream], &gaps.items[i], &call, ret);
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
    size_t gap; /* its position in the list, of a single one */
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

/* Of the gaps of some shares, whose parts are gathered in parts. */
static struct top_call find_top_call(struct call_sums *sums, const struct gap_call_list *calls,
                                     const size_t *first, const struct share *shares, size_t n,
                                     struct gap_call *parts)
{
    size_t n_parts = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t k = first[shares[i].gap]; k < first[shares[i].gap + 1]; k++)
            parts[n_parts++] = calls->items[k];
    return call_sums_top(sums, parts, n_parts);
}

/* Shares are in order: those of a row follow each other, and in them those of a name. */
static int gaps_emit_rows(const struct rank *rank, const struct gaps *gaps, const struct share *shares,
                          struct report_rows *ret)
{
    _cleanup_(gap_calls_done) struct gap_call_list calls = {0};
    _cleanup_(freep) size_t *first_call = calloc(gaps->n + 2, sizeof(*first_call));
    _cleanup_(call_sums_done) struct call_sums sums = {0};
    int r = first_call ? gap_calls_of_all(rank->columns, gaps, &calls) : -ENOMEM;
    _cleanup_(freep) struct gap_call *parts = calloc(calls.n + 1, sizeof(*parts));

    if (r < 0 || !parts || call_sums_begin(&sums, rank->columns) < 0)
        return -ENOMEM;
    for (size_t i = 0, k = 0; i <= gaps->n; i++) {
        while (k < calls.n && calls.items[k].gap < i)
            k++;
        first_call[i] = k;
    }
    for (size_t i = 0, next; i < gaps->n; i = next) {
        struct share all = shares[i], worst = {0};
        all.count = 0, all.sum = all.idle = all.max = 0;
        for (next = i; next < gaps->n && is_of_one_row(&shares[i], &shares[next]);) {
            struct share one = shares[next];
            for (size_t first = next++; next < gaps->n && gaps_compare(&shares[first], &shares[next]) == 0;
                 next++)
                one.sum += shares[next].sum, one.idle += shares[next].idle, one.count++,
                    one.max = MAX(one.max, shares[next].max);
            all.count += one.count;
            all.sum += one.sum;
            all.idle += one.idle;
            all.max = MAX(all.max, one.max);
            if (one.name != COLUMN_NULL && one.sum > worst.sum)
                worst = one;
        }
        struct top_call call = find_top_call(&sums, &calls, first_call, &shares[i], next - i, parts);
        gaps_emit_row(rank, &gaps->streams[all.stream], &all, worst.count > 0 ? &worst : NULL, &call, ret);
    }
    return 0;
}

static int gaps_make_rank(struct analysis *a, size_t number, struct report_rows *ret)
{
    _cleanup_(gaps_done) struct gaps gaps = {0};
    const struct rank *rank = &a->ranks[number];
    int r = gaps_find(a, number, &gaps);

    if (r < 0)
        return r;
    _cleanup_(freep) struct share *shares = calloc(gaps.n + 1, sizeof(*shares));
    if (!shares)
        return -ENOMEM;
    for (size_t i = 0; i < gaps.n; i++) {
        const struct gap *gap = &gaps.items[i];
        int64_t ns = gap->to - gap->from;
        shares[i] =
            (struct share){gap->stream, gap->cause, gap->blamed_kind, COLUMN_NULL, 1, ns, gap->idle, ns, i};
        if (gap->blamed != SLICE_NONE)
            shares[i].name = columns_get(rank->columns, COL_slice_name, gap->blamed);
    }
    qsort(shares, gaps.n, sizeof(*shares), gaps_compare);
    return gaps_emit_rows(rank, &gaps, shares, ret);
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
