/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that are worked out from a row rather than read.
 */
#pragma once

#include "trace/sql/plan.h"
#include "trace/sql/vtab.h"

sql_value_fn value_arg_set_id, value_self_dur;
sql_value_fn value_tid, value_pid, value_thread_name, value_process_name, value_is_main_thread,
    value_track_type;
sql_value_fn value_defect_name, value_defect_severity, value_defect_source, value_defect_text;
sql_value_fn value_meta_name, value_meta_type, value_meta_int, value_meta_text;
sql_value_fn value_delay, value_gap_name, value_gap, value_average;

/*
 * A row's number with its trace's above it: what is known by it is known in a whole catalog. Where there is
 * only one trace, whose number is 0, it is the row's. A slice's arguments are numbered so.
 */
#define ROW_BITS 40

static inline int64_t numbered_in(int64_t trace_id, uint64_t row)
{
    return (int64_t)((uint64_t)trace_id << ROW_BITS | row);
}

/* The rows of a trace that are numbered from range.min to range.max. */
static inline struct range rows_within(int64_t trace_id, struct range range)
{
    int64_t none = numbered_in(trace_id, 0), all = (INT64_C(1) << ROW_BITS) - 1;
    struct range rows = {range.min > none ? range.min - none : 0,
                         range.max < none + all ? range.max - none : all};

    return range.max < none || range.min > none + all ? (struct range){1, 0} : rows;
}
