/* SPDX-License-Identifier: Apache-2.0 */
/* Every gap of every stream, the longest first. */
#include "trace/reports/gap.h"
#include "trace/reports/reports.h"

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"stream", UNIT_ID, "which stream"},
    {"start_ns", UNIT_NS, "when it began, counted from the rank's first slice"},
    {"dur_ns", UNIT_NS, "how long"},
    {"cause", UNIT_TEXT, "host_wait, kernel_wait, other"},
    {"idle_ns", UNIT_NS, "of it, with no stream of the rank at work"},
    {"culprit", UNIT_TEXT, "in what the host was for most of it"},
    {"culprit_kind", UNIT_TEXT, "operator, annotation, python, runtime, other", true},
    {"culprit_ns", UNIT_NS, "so much of the gap the culprit covers", true},
    {"before", UNIT_TEXT, "the work that ended before it", true},
    {"after", UNIT_TEXT, "the work that ended it"},
    {"culprit_slice", UNIT_ID, "the culprit's slice", true},
    {"after_slice", UNIT_ID, "the slice of the work that ended it", true},
    {"device", UNIT_ID, "whose stream", true},
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
                    const struct gap *gap, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;

    put_int(ret, a->ranks[rank].number);
    put_int(ret, stream->id);
    put_int(ret, analysis_since_first(a, rank, gap->from));
    put_int(ret, gap->to - gap->from);
    put_str(ret, gap_cause_name(gap->cause));
    put_int(ret, gap->idle);
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
        r = gaps_find(a, i, &gaps);
        for (size_t k = 0; k < gaps.n && r >= 0; k++)
            put_gap(a, i, &gaps.streams[gaps.items[k].stream], &gaps.items[k], ret);
    }
    return r < 0 ? r : report_rows_sort(ret, COLUMN_DUR, true);
}

const struct report report_gap_list = {
    .name = "gap_list",
    .title = "every gap, with what the host did meanwhile",
    .how = "Gaps and causes as in the report gaps. The culprit is the innermost slice that covers more than "
           "half of the gap, on the thread that launched the work that ends it; where there is none, the one "
           "that covers most, unless the thread was in no slice at all for longer.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
