/* SPDX-License-Identifier: Apache-2.0 */
/* Every launch of a graph. */
#include "trace/reports/graph_run.h"
#include "trace/reports/reports.h"
#include <errno.h>

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"graph", UNIT_ID, "its id, where the trace tells"},
    {"start_ns", UNIT_NS, "when its first work began, counted from the rank's first slice"},
    {"dur_ns", UNIT_NS, "until the end of its last"},
    {"kernels", UNIT_COUNT, "how much GPU work"},
    {"busy_ns", UNIT_NS, "with any of it under way"},
    {"gap_ns", UNIT_NS, "since the end of the graphs before"},
    {"call_ns", UNIT_NS, "time of the call that launched it"},
    {"delay_ns", UNIT_NS, "from the end of the call to the first work, 0 where that began before"},
    {"slice", UNIT_ID, "the call's slice", IMPORTANCE_EXTRA},
};

static void put_launch(const struct analysis *a, size_t rank, const struct graph_run *l,
                       struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    int64_t ts = columns_get(c, COL_slice_ts, l->call), dur = MAX(columns_get(c, COL_slice_dur, l->call), 0);

    put_int(ret, a->ranks[rank].number);
    put_int(ret, l->graph_id);
    put_int(ret, analysis_since_first(a, rank, l->from));
    put_int(ret, l->to - l->from);
    put_int(ret, (int64_t)l->n);
    put_int(ret, l->busy);
    put_int(ret, l->gap);
    put_int(ret, dur);
    put_int(ret, MAX(l->from - ts - dur, 0));
    put_int(ret, (int64_t)l->call);
}

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        _cleanup_(graph_runs_done) struct graph_runs launches = {0};
        r = graph_runs_read(a, i, &launches);
        for (size_t k = 0; k < launches.n && r >= 0; k++)
            put_launch(a, i, &launches.items[k], ret);
    }
    return r < 0 ? r : report_rows_count(ret) == 0 ? -ENODATA : 0;
}

const struct report report_graph_list = {
    .name = "graph_list",
    .title = "every launch of a CUDA or HIP graph, in order of time",
    .how = "As graphs, one row a launch.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
