/* SPDX-License-Identifier: Apache-2.0 */
/* Every gap of every stream, the longest first. */
#include "trace/reports/gap_calls.h"
#include "trace/reports/reports.h"

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"stream", UNIT_ID, "which stream"},
    {"start_ns", UNIT_NS, "when it began, counted from the rank's first slice"},
    {"dur_ns", UNIT_NS, "how long"},
    {"cause", UNIT_TEXT, "host_wait, kernel_wait, other"},
    {"idle_ns", UNIT_NS, "of it, with no stream of the rank at work"},
    {"call", UNIT_TEXT, "call with the most self time of the launching thread in the gap"},
    {"call_ns", UNIT_NS, "self time of these calls in the gap", IMPORTANCE_EXTRA},
    {"inside", UNIT_TEXT, "innermost slice of the launching thread around most of the gap", IMPORTANCE_EXTRA},
    {"inside_kind", UNIT_TEXT, "operator, annotation, python, runtime, other", IMPORTANCE_EXTRA},
    {"inside_ns", UNIT_NS, "time of the gap within that slice", IMPORTANCE_EXTRA},
    {"before", UNIT_TEXT, "the work that ended before it", IMPORTANCE_EXTRA},
    {"after", UNIT_TEXT, "the work that ended it"},
    {"inside_slice", UNIT_ID, "number of that slice", IMPORTANCE_EXTRA},
    {"after_slice", UNIT_ID, "the slice of the work that ended it", IMPORTANCE_EXTRA},
    {"device", UNIT_ID, "whose stream", IMPORTANCE_EXTRA},
};
#define COLUMN_DUR 3

static int64_t slice_or_null(uint64_t slice)
{
    return slice == SLICE_NONE ? COLUMN_NULL : (int64_t)slice;
}

static struct text name_of(const struct columns *c, uint64_t slice)
{
    return columns_text(c, columns_get(c, COL_slice_name, slice));
}

static void put_gap(const struct analysis *a, size_t rank, const struct gpu_stream *stream,
                    const struct gap *gap, const struct top_call *call, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;

    put_int(ret, a->ranks[rank].number);
    put_int(ret, stream->id);
    put_int(ret, analysis_since_first(a, rank, gap->from));
    put_int(ret, gap->to - gap->from);
    put_str(ret, gap_cause_name(gap->cause));
    put_int(ret, gap->idle);
    put_text_or_null(ret, c, call->name);
    put_int(ret, call->name == COLUMN_NULL ? COLUMN_NULL : call->ns);
    if (gap->culprit == SLICE_NONE) {
        put_null(ret);
        put_null(ret);
        put_null(ret);
    } else {
        put_text(ret, name_of(c, gap->culprit));
        put_str(ret, host_kind_name(gap->culprit_kind));
        put_int(ret, gap->covered);
    }
    put_text(ret, name_of(c, gap->before));
    put_text(ret, name_of(c, gap->after));
    put_int(ret, slice_or_null(gap->culprit));
    put_int(ret, slice_or_null(gap->after));
    put_int(ret, stream->device);
}

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        _cleanup_(gaps_done) struct gaps gaps = {0};
        _cleanup_(gap_calls_done) struct gap_call_list calls = {0};
        _cleanup_(call_sums_done) struct call_sums sums = {0};
        size_t first = 0;
        r = gaps_find(a, i, &gaps);
        if (r >= 0)
            r = gap_calls_of_all(a->ranks[i].columns, &gaps, &calls);
        if (r >= 0)
            r = call_sums_begin(&sums, a->ranks[i].columns);
        for (size_t k = 0; k < gaps.n && r >= 0; k++) {
            struct top_call call;
            size_t next = first;
            while (next < calls.n && calls.items[next].gap == k)
                next++;
            call = call_sums_top(&sums, &calls.items[first], next - first);
            put_gap(a, i, &gaps.streams[gaps.items[k].stream], &gaps.items[k], &call, ret);
            first = next;
        }
    }
    return r < 0 ? r : report_rows_sort(ret, COLUMN_DUR, true);
}

const struct report report_gap_list = {
    .name = "gap_list",
    .title = "every gap, with what the host did meanwhile",
    .how = "Gaps and causes as in the report gaps. Each nanosecond of a gap belongs to the innermost slice "
           "of the "
           "thread that launched the work that ends it: call is the name with the largest sum. inside is the "
           "innermost slice around more than half of the gap, else the one with the largest part of it; it "
           "is empty "
           "where the thread was in no slice for longer.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
