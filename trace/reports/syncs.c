/* SPDX-License-Identifier: Apache-2.0 */
/* Where the host waits for the GPU. */
#include "trace/reports/aggregation.h"
#include "trace/reports/host.h"
#include "trace/reports/ops.h"

static const struct report_column syncs_columns[] = {
    {"name", UNIT_TEXT, "name of the waiting call", .figure = {FIGURE_TEXT, 0}},
    {"op", UNIT_TEXT, "innermost operator or annotation around the call", .figure = {FIGURE_TEXT, 1}},
    {"frame", UNIT_TEXT, "innermost Python frame around the call", .figure = {FIGURE_TEXT, 2}},
    {"count", UNIT_COUNT, "number of calls", .figure = {FIGURE_COUNT}},
    {"sum_ns", UNIT_NS, "total duration", .figure = {FIGURE_SUM}},
    {"max_ns", UNIT_NS, "longest duration", .figure = {FIGURE_MAX}},
    {"max_slice", UNIT_ID, "slice number of the longest call", IMPORTANCE_EXTRA,
     .figure = {FIGURE_MAX_SLICE}},
};

static int64_t syncs_name_around(struct gathering *g, const struct host_calls *host, int64_t slice)
{
    return gathering_op(g, host, host_call_around(host, slice));
}

/* All calls of one name. */
static int syncs_gather_name(struct gathering *g, uint64_t row)
{
    const struct host_calls *ops, *frames;
    const struct intervals *times;
    struct name_rows positions = name_rows_of(g->c, row);
    int r = analysis_ops(g->analysis, g->rank, &ops);

    if (r >= 0)
        r = analysis_frames(g->analysis, g->rank, &frames);
    if (r >= 0)
        r = analysis_times(g->analysis, g->rank, &times);
    for (uint64_t i = positions.first; r >= 0 && i < positions.end; i++) {
        int64_t slice = columns_get(g->c, COL_by_name_slice, i), dur;
        if (slice == COLUMN_NULL || (dur = columns_get(g->c, COL_slice_dur, (uint64_t)slice)) < 0 ||
            !intervals_find(times, columns_get(g->c, COL_slice_ts, (uint64_t)slice)))
            continue;
        struct group_key key = {{gathering_text(g, columns_get(g->c, COL_name_name, row)),
                                 syncs_name_around(g, ops, slice), syncs_name_around(g, frames, slice)}};
        r = gathering_add(g, key, &dur, (uint64_t)slice);
    }
    return r;
}

static int syncs_gather(struct gathering *g)
{
    int r = 0;

    for (uint64_t row = 0; r >= 0 && row < columns_rows(g->c, TABLE_name); row++)
        if (host_kind_of(columns_text(g->c, columns_get(g->c, COL_name_category, row))) == HOST_RUNTIME &&
            sync_call_waits(sync_call_of(columns_text(g->c, columns_get(g->c, COL_name_name, row)))))
            r = syncs_gather_name(g, row);
    return r;
}

static const struct aggregation syncs = {.n_values = 1, .gather = syncs_gather};

const struct report report_syncs = {
    .name = "syncs",
    .title = "calls in which the host waits for the GPU, and their callers",
    .method = "Runtime calls that wait for an event, a stream or the device, blocking copies, and frees of "
              "memory, by the innermost operator and Python frame around them.",
    .is_detail = true,
    .sort_by = "sum_ns",
    .needs_rows = true,
    REPORT_COLUMNS(syncs),
    .aggregation = &syncs,
};
