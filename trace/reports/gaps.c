/* SPDX-License-Identifier: Apache-2.0 */
/* Why streams had nothing to do, summed up. */
#include "trace/reports/gap_calls.h"
#include "trace/reports/hta_gaps.h"
#include "trace/reports/reports.h"
#include <errno.h>

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"stream", UNIT_ID, "which stream"},
    {"cause", UNIT_TEXT, "host_wait, kernel_wait, other", IMPORTANCE_HIGH},
    {"count", UNIT_COUNT, "how many gaps"},
    {"sum_ns", UNIT_NS, "time of all of them", IMPORTANCE_HIGH},
    {"idle_ns", UNIT_NS, "of it, with no stream of the rank at work", IMPORTANCE_HIGH},
    {"max_ns", UNIT_NS, "of the longest", IMPORTANCE_EXTRA},
    {"call", UNIT_TEXT, "call with the most self time of the launching threads in these gaps"},
    {"call_ns", UNIT_NS, "self time of these calls in the gaps", IMPORTANCE_EXTRA},
    {"inside", UNIT_TEXT, "slices around most of each gap: the name with the most time", IMPORTANCE_EXTRA},
    {"inside_kind", UNIT_TEXT, "operator, annotation, python, runtime, other", IMPORTANCE_EXTRA},
    {"inside_ns", UNIT_NS, "time of the gaps inside these slices", IMPORTANCE_EXTRA},
    {"device", UNIT_ID, "whose stream", IMPORTANCE_EXTRA},
};
#define COLUMN_SUM 4

/* Gaps of one stream, cause and name of the slice around them. */
struct share {
    uint32_t stream;
    enum gap_cause cause;
    enum host_kind kind;
    int64_t name; /* COLUMN_NULL: nothing is known */
    uint64_t count;
    int64_t sum, idle, max;
    size_t gap; /* its place in the list, of a single one */
};

static int compare(const void *x, const void *y)
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

static void put_row(const struct rank *rank, const struct gpu_stream *stream, const struct share *all,
                    const struct share *worst, const struct top_call *call, struct report_rows *ret)
{
    put_int(ret, rank->number);
    put_int(ret, stream->id);
    put_str(ret, gap_cause_name(all->cause));
    put_int(ret, (int64_t)all->count);
    put_int(ret, all->sum);
    put_int(ret, all->idle);
    put_int(ret, all->max);
    put_text_or_null(ret, rank->columns, call->name);
    put_int(ret, call->name == COLUMN_NULL ? COLUMN_NULL : call->ns);
    if (worst) {
        put_text(ret, columns_text(rank->columns, worst->name));
        put_str(ret, host_kind_name(worst->kind));
        put_int(ret, worst->sum);
    } else {
        put_null(ret);
        put_null(ret);
        put_null(ret);
    }
    put_int(ret, stream->device);
}

/* Of the gaps of some shares, whose parts are put one after the other into room. */
static struct top_call find_top_call(struct call_sums *sums, const struct gap_call_list *calls,
                                     const size_t *first, const struct share *shares, size_t n,
                                     struct gap_call *room)
{
    size_t n_parts = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t k = first[shares[i].gap]; k < first[shares[i].gap + 1]; k++)
            room[n_parts++] = calls->items[k];
    return call_sums_top(sums, room, n_parts);
}

/* Shares are in order: those of a row follow each other, and in them those of a name. */
static int put_rows(const struct rank *rank, const struct gaps *gaps, const struct share *shares,
                    struct report_rows *ret)
{
    _cleanup_(gap_calls_done) struct gap_call_list calls = {0};
    _cleanup_(freep) size_t *first_call = calloc(gaps->n + 2, sizeof(*first_call));
    _cleanup_(call_sums_done) struct call_sums sums = {0};
    int r = first_call ? gap_calls_of_all(rank->columns, gaps, &calls) : -ENOMEM;
    _cleanup_(freep) struct gap_call *room = calloc(calls.n + 1, sizeof(*room));

    if (r < 0 || !room || call_sums_begin(&sums, rank->columns) < 0)
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
            for (size_t first = next++; next < gaps->n && compare(&shares[first], &shares[next]) == 0; next++)
                one.sum += shares[next].sum, one.idle += shares[next].idle, one.count++,
                    one.max = MAX(one.max, shares[next].max);
            all.count += one.count;
            all.sum += one.sum;
            all.idle += one.idle;
            all.max = MAX(all.max, one.max);
            if (one.name != COLUMN_NULL && one.sum > worst.sum)
                worst = one;
        }
        struct top_call call = find_top_call(&sums, &calls, first_call, &shares[i], next - i, room);
        put_row(rank, &gaps->streams[all.stream], &all, worst.count > 0 ? &worst : NULL, &call, ret);
    }
    return 0;
}

static int add_rank(struct analysis *a, size_t number, struct report_rows *ret)
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
            (struct share){gap->stream, gap->cause, gap->culprit_kind, COLUMN_NULL, 1, ns, gap->idle, ns, i};
        if (gap->culprit != SLICE_NONE)
            shares[i].name = columns_get(rank->columns, COL_slice_name, gap->culprit);
    }
    qsort(shares, gaps.n, sizeof(*shares), compare);
    return put_rows(rank, &gaps, shares, ret);
}

/* HTA knows the first columns alone. */
static int make_as_hta(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(report_rows_done) struct report_rows rows = {0};
    report_rows_init(&rows, COLUMN_SUM + 1);
    int r = hta_gaps(a, &rows);

    for (size_t row = 0; row < report_rows_count(&rows) && r >= 0; row++)
        for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
            const struct cell *cell = i <= COLUMN_SUM ? report_rows_at(&rows, row, i) : NULL;
            if (!cell || cell->type == CELL_NULL)
                put_null(ret);
            else if (cell->type == CELL_TEXT)
                put_str(ret, cell->text);
            else
                put_int(ret, cell->integer);
        }
    return r < 0 ? r : report_rows_error(&rows);
}

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    if (a->hta)
        return make_as_hta(a, ret);
    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, ret);
    return r < 0 ? r : report_rows_sort(ret, COLUMN_SUM, true);
}

const struct report report_gaps = {
    .name = "gaps",
    .title = "idle time of each stream by cause, and what the host did meanwhile",
    .how =
        "A gap is the time between the latest end of a stream's work so far and the beginning of its next. "
        "Causes after Holistic Trace Analysis: host_wait where the next was launched only in the gap, else "
        "kernel_wait where it is shorter than 30 us, else other. Each nanosecond belongs to the innermost "
        "slice of "
        "the launching thread: call is the name with the largest sum. gap_list has each gap.",
    .needs = NEEDS_GPU,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
