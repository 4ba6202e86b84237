/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/merge-fixture.h"

static void test_slices_nest_by_time(void **state)
{
    struct trace *t = *state;

    /* out of order in the file, in two runs */
    add(t, EVENT_COMPLETE, 7, 40, 10, "op", "d");
    add(t, EVENT_COMPLETE, 7, 10, 100, "op", "a");
    end_run(t);
    add(t, EVENT_COMPLETE, 7, 10, 30, "op", "b");
    add(t, EVENT_COMPLETE, 7, 20, 5, NULL, "c");
    add(t, EVENT_COMPLETE, 8, 20, 5, "op", "other thread");
    add(t, EVENT_COMPLETE, 7, 110, 1, "op", "e");
    merge(t);

    ASSERT_COLUMN(t, COL_slice_ts, 10, 10, 20, 20, 40, 110);
    ASSERT_COLUMN(t, COL_slice_dur, 100, 30, 5, 5, 10, 1);
    ASSERT_COLUMN(t, COL_slice_depth, 0, 1, 2, 0, 1, 0);
    ASSERT_COLUMN(t, COL_slice_parent, COLUMN_NULL, 0, 1, COLUMN_NULL, 0, COLUMN_NULL);
    ASSERT_COLUMN(t, COL_slice_child, 40, 5, 0, 0, 0, 0);
    ASSERT_COLUMN(t, COL_slice_offset, 20, 30, 40, 50, 10, 60);
    ASSERT_COLUMN(t, COL_thread_tid, 7, 8);
    assert_text(t, COL_slice_name, 3, "other thread");
    assert_text(t, COL_slice_category, 0, "op");
    assert_int_equal(get(t, COL_slice_category, 2), COLUMN_NULL);
    assert_int_equal(t->summary.slices, 6);
    assert_int_equal(t->summary.threads, 2);
    assert_int_equal(t->summary.first_ns, 10);
    assert_int_equal(t->summary.last_ns, 111);
    assert_int_equal(columns_meta(t->columns, META_events), 6);
    assert_int_equal(columns_meta(t->columns, META_last_ns), 111);
}

static void test_overlapping_slices_get_tracks_of_their_own(void **state)
{
    struct trace *t = *state;

    add(t, EVENT_COMPLETE, 7, 0, 10, "k", "a");
    add(t, EVENT_COMPLETE, 7, 5, 10, "k", "overlaps a");
    add(t, EVENT_COMPLETE, 7, 6, 2, "k", "in a");
    add(t, EVENT_COMPLETE, 7, 7, 6, "k", "overlaps a, in the second");
    add(t, EVENT_COMPLETE, 7, 8, 6, "k", "overlaps all");
    add(t, EVENT_COMPLETE, 7, 20, 5, "k", "free again");
    merge(t);

    ASSERT_COLUMN(t, COL_slice_track, 0, 1, 0, 1, 2, 0);
    ASSERT_COLUMN(t, COL_slice_depth, 0, 0, 1, 1, 0, 0);
    ASSERT_COLUMN(t, COL_slice_child, 2, 6, 0, 0, 0, 0);
    ASSERT_COLUMN(t, COL_track_kind, TRACK_THREAD, TRACK_OVERFLOW, TRACK_OVERFLOW);
    ASSERT_COLUMN(t, COL_track_thread, 0, 0, 0);
    assert_int_equal(t->summary.defects[DEFECT_overlap], 3);
    ASSERT_COLUMN(t, COL_defect_kind, DEFECT_overlap);
    ASSERT_COLUMN(t, COL_defect_count, 3);
    ASSERT_COLUMN(t, COL_defect_offset, 20);
}

static void test_instants(void **state)
{
    struct trace *t = *state;

    add(t, EVENT_COMPLETE, 7, 0, 10, NULL, "a");
    add(t, EVENT_INSTANT, 7, 5, 0, NULL, "in a");
    add(t, EVENT_INSTANT, 7, 5, 0, NULL, "at the same time");
    add(t, EVENT_COMPLETE, 7, 5, 2, NULL, "around both");
    add(t, EVENT_INSTANT, 7, 10, 0, NULL, "a has ended");
    add(t, EVENT_INSTANT_PROCESS, 0, 10, 0, NULL, "of the process");
    add(t, EVENT_INSTANT_GLOBAL, 7, 10, 0, NULL, "of all");
    merge(t);

    ASSERT_COLUMN(t, COL_slice_depth, 0, 1, 2, 3, 0, 0, 0);
    ASSERT_COLUMN(t, COL_slice_flags, 0, 0, SLICE_INSTANT, SLICE_INSTANT, SLICE_INSTANT, SLICE_INSTANT,
                  SLICE_INSTANT);
    ASSERT_COLUMN(t, COL_track_kind, TRACK_THREAD, TRACK_PROCESS_INSTANTS, TRACK_GLOBAL_INSTANTS);
    ASSERT_COLUMN(t, COL_track_process, 0, 0, COLUMN_NULL);
    ASSERT_COLUMN(t, COL_track_thread, 0, COLUMN_NULL, COLUMN_NULL);
}

static void test_begin_and_end(void **state)
{
    struct trace *t = *state;

    add(t, EVENT_END, 7, 0, 0, "c", "before any");
    add(t, EVENT_BEGIN, 7, 1, 0, "c", "a");
    add(t, EVENT_BEGIN, 7, 2, 0, "c", "b");
    add(t, EVENT_END, 7, 3, 0, "c", "not open");
    add(t, EVENT_BEGIN, 7, 4, 0, "c", "c");
    add(t, EVENT_END, 7, 5, 0, "c", "b"); /* the inner c stays open */
    add(t, EVENT_END, 7, 5, 0, NULL, NULL);
    add(t, EVENT_END, 7, 8, 0, NULL, NULL);
    add(t, EVENT_BEGIN, 7, 9, 0, "c", "never ends");
    merge(t);

    ASSERT_COLUMN(t, COL_slice_ts, 1, 2, 4, 9);
    ASSERT_COLUMN(t, COL_slice_dur, 7, 3, 1, -1);
    ASSERT_COLUMN(t, COL_slice_depth, 0, 1, 2, 0);
    ASSERT_COLUMN(t, COL_slice_child, 3, 1, 0, 0);
    ASSERT_COLUMN(t, COL_slice_flags, SLICE_FROM_BEGIN, SLICE_FROM_BEGIN, SLICE_FROM_BEGIN, SLICE_FROM_BEGIN);
    assert_int_equal(t->summary.defects[DEFECT_misplaced_end], 2);
    assert_int_equal(t->summary.last_ns, 9);
}

static void test_a_complete_slice_ends_what_is_unfinished_in_it(void **state)
{
    struct trace *t = *state;

    add(t, EVENT_COMPLETE, 7, 0, 10, "c", "a");
    add(t, EVENT_BEGIN, 7, 2, 0, "c", "b");
    add(t, EVENT_BEGIN, 7, 4, 0, "c", "c");
    add(t, EVENT_COMPLETE, 7, 20, 1, "c", "d");
    merge(t);

    ASSERT_COLUMN(t, COL_slice_dur, 10, 8, 6, 1);
    ASSERT_COLUMN(t, COL_slice_depth, 0, 1, 2, 0);
    ASSERT_COLUMN(t, COL_slice_child, 8, 6, 0, 0);
    assert_int_equal(t->summary.defects[DEFECT_misplaced_end], 1);
}

static void test_asynchronous_events(void **state)
{
    struct trace *t = *state;

    add(t, EVENT_ASYNC_END, 0, 0, 1, "net", "request");
    add(t, EVENT_ASYNC_BEGIN, 0, 1, 1, "net", "request");
    add(t, EVENT_ASYNC_BEGIN, 0, 2, 2, "net", "request");
    add(t, EVENT_ASYNC_BEGIN, 0, 3, 1, "net", "header");
    add(t, EVENT_ASYNC_INSTANT, 0, 4, 2, "net", "first byte");
    add(t, EVENT_ASYNC_END, 0, 5, 1, "net", "header");
    add(t, EVENT_ASYNC_END, 0, 6, 2, "net", "request");
    add(t, EVENT_ASYNC_BEGIN, 0, 7, 3, "net", "request"); /* takes the track of 2 */
    add(t, EVENT_ASYNC_END, 0, 8, 3, "net", "request");
    add(t, EVENT_ASYNC_END, 0, 9, 1, "net", "request");
    merge(t);

    ASSERT_COLUMN(t, COL_slice_ts, 1, 2, 3, 4, 7);
    ASSERT_COLUMN(t, COL_slice_dur, 8, 4, 2, 0, 1);
    ASSERT_COLUMN(t, COL_slice_track, 0, 1, 0, 1, 1);
    ASSERT_COLUMN(t, COL_slice_depth, 0, 0, 1, 1, 0);
    ASSERT_COLUMN(t, COL_track_kind, TRACK_ASYNC, TRACK_ASYNC);
    assert_text(t, COL_track_name, 1, "request");
    assert_int_equal(t->summary.defects[DEFECT_no_slice_for_async_end], 1);
}

static void test_flows(void **state)
{
    struct trace *t = *state;

    add(t, EVENT_FLOW_START, 7, 0, 99, "f", "x"); /* no slice */
    add(t, EVENT_COMPLETE, 7, 1, 10, "c", "a");
    add(t, EVENT_FLOW_START, 7, 1, 5, "f", "x");
    add(t, EVENT_FLOW_START, 7, 2, 6, "f", "x");
    add(t, EVENT_FLOW_END, 8, 3, 5, "f", "x");
    add(t, EVENT_FLOW_END, 8, 3, 98, "f", "x"); /* never began */
    add(t, EVENT_COMPLETE, 9, 3, 50, "c", "b");
    add(t, EVENT_COMPLETE, 8, 4, 1, "c", "c");
    add(t, EVENT_COMPLETE, 8, 6, 1, "c", "d");
    add(t, EVENT_FLOW_STEP, 8, 6, 6, "f", "x");
    add(t, EVENT_FLOW_END_ENCLOSING, 9, 7, 6, "f", "x"); /* b began before d */
    add(t, EVENT_FLOW_END_ENCLOSING, 9, 7, 6, "other", "x");
    add(t, EVENT_FLOW_START, 9, 8, 5, "f", "x"); /* keeps its first start */
    add(t, EVENT_FLOW_END_ENCLOSING, 8, 9, 5, "f", "x");
    add(t, EVENT_FLOW_END, 8, 9, 5, "f", "x"); /* nothing follows */
    merge(t);

    /* a b c d are the slices 0 1 2 3 */
    ASSERT_COLUMN(t, COL_flow_out, 0, 0, 1, 0);
    ASSERT_COLUMN(t, COL_flow_in, 2, 3, 3, 3);
    ASSERT_COLUMN(t, COL_flow_id, 5, 6, 6, 5);
    assert_text(t, COL_flow_name, 0, "x");
    assert_text(t, COL_flow_category, 0, "f");
    assert_int_equal(t->summary.flows, 4);
    assert_int_equal(t->summary.defects[DEFECT_flow_without_slice], 2);
    assert_int_equal(t->summary.defects[DEFECT_flow_without_start], 2);
}

static void test_a_thread_with_nothing_but_flows_has_no_track(void **state)
{
    struct trace *t = *state;

    add(t, EVENT_FLOW_START, 8, 0, 1, "f", "x");
    add(t, EVENT_FLOW_END, 8, 1, 1, "f", "x");
    add(t, EVENT_COMPLETE, 7, 2, 1, "c", "a");
    merge(t);
    ASSERT_COLUMN(t, COL_track_thread, 1);
    assert_int_equal(columns_rows(t->columns, TABLE_flow), 0);
}

static void test_counters(void **state)
{
    struct trace *t = *state;
    double one = 1.5;
    int64_t bits;

    memcpy(&bits, &one, sizeof(bits));
    add(t, EVENT_COUNTER, 7, 20, 0, NULL, "queue length");
    add(t, EVENT_COUNTER, 8, 10, bits, NULL, "queue length");
    add(t, EVENT_COUNTER, 8, 15, bits, NULL, "other");
    merge(t);
    ASSERT_COLUMN(t, COL_counter_ts, 10, 15, 20);
    ASSERT_COLUMN(t, COL_counter_track, 0, 1, 0);
    ASSERT_COLUMN(t, COL_counter_value, bits, bits, 0);
    ASSERT_COLUMN(t, COL_counter_offset, 20, 30, 10);
    ASSERT_COLUMN(t, COL_track_kind, TRACK_COUNTER, TRACK_COUNTER);
    assert_text(t, COL_track_name, 1, "other");
    assert_int_equal(t->summary.counters, 3);
}

static void set_arg(struct trace *t, enum column column, int64_t value)
{
    int64_t *row = intake_args(t->intakes[t->at], column_specs[column].table - TABLE_ARGS_FIRST);

    row[arg_group_index(column)] = value;
}

static void test_gpu_work_is_linked_to_its_launch(void **state)
{
    struct trace *t = *state;

    add(t, EVENT_COMPLETE, 1, 0, 1, "cuda_runtime", "launch");
    set_arg(t, COL_runtime_correlation, 11);
    add(t, EVENT_COMPLETE, 1, 2, 1, "cuda_runtime", "launch");
    set_arg(t, COL_runtime_correlation, 12);
    add(t, EVENT_COMPLETE, 2, 3, 1, "kernel", "k");
    set_arg(t, COL_gpu_correlation, 12);
    add(t, EVENT_COMPLETE, 2, 4, 1, "kernel", "k");
    set_arg(t, COL_gpu_correlation, 77);
    add(t, EVENT_COMPLETE, 2, 5, 1, "gpu_memcpy", "m");
    add(t, EVENT_COMPLETE, 2, 6, 1, "kernel", "k");
    set_arg(t, COL_gpu_correlation, 11);
    add(t, EVENT_COMPLETE, 1, 9, 1, "cuda_runtime", "launched later, recorded earlier");
    set_arg(t, COL_runtime_correlation, 11);
    merge(t);
    ASSERT_COLUMN(t, COL_launch_gpu, 2, 5);
    ASSERT_COLUMN(t, COL_launch_runtime, 1, 6);
    ASSERT_COLUMN(t, COL_gpu_slice, 2, 3, 5);
    ASSERT_COLUMN(t, COL_gpu_correlation, 12, 77, 11);
    ASSERT_COLUMN(t, COL_gpu_stream, COLUMN_NULL, COLUMN_NULL, COLUMN_NULL);
    ASSERT_COLUMN(t, COL_runtime_slice, 0, 1, 6);
    assert_int_equal(t->summary.gpu_slices, 4);
}

static void test_arguments_of_dropped_events_are_dropped(void **state)
{
    struct trace *t = *state;

    add(t, EVENT_END, 1, 0, 0, "cuda_runtime", "launch");
    set_arg(t, COL_runtime_correlation, 1);
    add(t, EVENT_COMPLETE, 1, 1, 1, "cuda_runtime", "launch");
    set_arg(t, COL_runtime_correlation, 2);
    merge(t);
    ASSERT_COLUMN(t, COL_runtime_slice, 0);
    ASSERT_COLUMN(t, COL_runtime_correlation, 2);
}

/* However events of several runs and intakes alternate, and whatever is dropped between them. */
static void test_arguments_stay_with_their_events(void **state)
{
    struct trace *t = *state;
    uint64_t random = 11, n;

    for (int i = 0; i < 6000; i++) {
        int64_t ts = i / 100 % 2 == 0 ? i : (int64_t)(next_random(&random) % 6000);
        bool dropped = i % 7 == 0;

        t->at = (size_t)(i / 2000);
        if (i % 500 == 0)
            end_run(t);
        add(t, dropped ? EVENT_END : EVENT_COMPLETE, i % 5, ts, 0, "kernel", "k");
        if (i % 3 != 0)
            set_arg(t, COL_gpu_correlation, (int64_t)t->place);
        if (i % 4 == 0)
            set_arg(t, COL_collective_name, string(t, i % 8 == 0 ? "all_reduce" : "broadcast"));
    }
    merge(t);

    n = columns_rows(t->columns, TABLE_gpu);
    assert_int_equal(n, 6000 * 2 / 3 - 572);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(get(t, COL_gpu_correlation, i),
                         get(t, COL_slice_offset, (uint64_t)get(t, COL_gpu_slice, i)));
    for (uint64_t i = 0; i < columns_rows(t->columns, TABLE_collective); i++) {
        int64_t place = get(t, COL_slice_offset, (uint64_t)get(t, COL_collective_slice, i));

        assert_text(t, COL_collective_name, i, (place / 10 - 1) % 8 == 0 ? "all_reduce" : "broadcast");
    }
}

static void test_groups_of_names(void **state)
{
    struct trace *t = *state;

    add(t, EVENT_COMPLETE, 1, 0, 5, "b", "x");
    add(t, EVENT_COMPLETE, 2, 1, 7, "a", "x");
    add(t, EVENT_COMPLETE, 1, 10, 1, "b", "x");
    add(t, EVENT_COMPLETE, 1, 20, 2, NULL, "x");
    add(t, EVENT_BEGIN, 1, 30, 0, "b", "x");
    add(t, EVENT_BEGIN, 2, 30, 0, "a", "only unfinished");
    merge(t);

    /* in the order of the strings' numbers: x and b came before a */
    ASSERT_COLUMN(t, COL_name_count, 1, 3, 1, 1);
    ASSERT_COLUMN(t, COL_name_first, 0, 1, 4, 5);
    ASSERT_COLUMN(t, COL_name_sum, 2, 6, 7, 0);
    ASSERT_COLUMN(t, COL_name_min, 2, 1, 7, COLUMN_NULL);
    ASSERT_COLUMN(t, COL_name_max, 2, 5, 7, COLUMN_NULL);
    ASSERT_COLUMN(t, COL_by_name_slice, 3, 0, 2, 4, 1, 5);
    assert_text(t, COL_name_category, 1, "b");
    assert_text(t, COL_name_name, 3, "only unfinished");
}

static int64_t shown_dur(const struct trace *t, uint64_t at)
{
    int64_t dur = get(t, COL_by_lane_dur, at);

    return dur < 0 ? t->summary.last_ns - get(t, COL_by_lane_ts, at) : dur;
}

/* Each level names the longest slice of each group, and the sum of their durations. */
static uint64_t check_mips(const struct trace *t, uint64_t lane, uint64_t mip)
{
    uint64_t first = (uint64_t)get(t, COL_lane_first, lane), count = (uint64_t)get(t, COL_lane_count, lane);

    assert_true(get(t, COL_lane_mip, lane) == (count > LANE_FANOUT ? (int64_t)mip : COLUMN_NULL));
    for (uint64_t n = lane_groups(count), span = LANE_FANOUT; n > 0;
         n = lane_groups(n), span *= LANE_FANOUT) {
        for (uint64_t k = 0; k < n; k++, mip++) {
            int64_t busy = 0, longest = -1, row = -1;

            for (uint64_t at = first + k * span; at < first + MIN((k + 1) * span, count); at++) {
                busy += shown_dur(t, at);
                row = shown_dur(t, at) > longest ? (int64_t)at : row;
                longest = MAX(longest, shown_dur(t, at));
            }
            assert_int_equal(get(t, COL_lanemip_busy, mip), busy);
            assert_int_equal(get(t, COL_lanemip_longest, mip), row);
        }
    }
    return mip;
}

static void check_lanes(const struct trace *t)
{
    uint64_t at = 0, mip = 0;
    int64_t track = -1, depth = -1;

    for (uint64_t lane = 0; lane < columns_rows(t->columns, TABLE_lane); lane++) {
        int64_t before = -1;

        assert_int_equal(get(t, COL_lane_first, lane), at);
        assert_true(get(t, COL_lane_track, lane) > track ||
                    (get(t, COL_lane_track, lane) == track && get(t, COL_lane_depth, lane) > depth));
        track = get(t, COL_lane_track, lane);
        depth = get(t, COL_lane_depth, lane);
        for (int64_t i = 0; i < get(t, COL_lane_count, lane); i++, at++) {
            int64_t slice = get(t, COL_by_lane_slice, at);

            assert_true(slice > before);
            assert_int_equal(get(t, COL_slice_track, (uint64_t)slice), track);
            assert_int_equal(get(t, COL_slice_depth, (uint64_t)slice), depth);
            assert_int_equal(get(t, COL_slice_ts, (uint64_t)slice), get(t, COL_by_lane_ts, at));
            assert_int_equal(get(t, COL_slice_dur, (uint64_t)slice), get(t, COL_by_lane_dur, at));
            before = slice;
        }
        mip = check_mips(t, lane, mip);
    }
    assert_int_equal(at, t->summary.slices);
    assert_int_equal(at, columns_rows(t->columns, TABLE_by_lane));
    assert_int_equal(mip, columns_rows(t->columns, TABLE_lanemip));
}

static void test_order_by_track_and_lanes(void **state)
{
    struct trace *t = *state;
    uint64_t random = 3, at = 0;

    for (int i = 0; i < 9000; i++) {
        uint64_t tid = next_random(&random) % 5;

        /* one thread has few slices, one exactly as many as need no level */
        if (tid == 0 && i > 50)
            tid = 1;
        add(t, EVENT_COMPLETE, (int64_t)tid, (int64_t)(next_random(&random) % 100000),
            (int64_t)(next_random(&random) % 300), "c", i % 3 ? "x" : "y");
    }
    for (int i = 0; i < LANE_FANOUT; i++)
        add(t, EVENT_COMPLETE, 9, i * 10, 5, "c", "x");
    add(t, EVENT_BEGIN, 1, 100000, 0, "c", "unfinished");
    merge(t);

    assert_int_equal(columns_rows(t->columns, TABLE_by_track), t->summary.slices);
    for (uint64_t k = 0; k < columns_rows(t->columns, TABLE_track); k++) {
        int64_t last = -1, count = get(t, COL_track_count, k);

        assert_int_equal(get(t, COL_track_first, k), at);
        for (int64_t i = 0; i < count; i++, at++) {
            int64_t slice = get(t, COL_by_track_slice, at);

            assert_true(slice > last);
            assert_int_equal(get(t, COL_slice_track, (uint64_t)slice), k);
            last = slice;
        }
    }
    assert_int_equal(at, t->summary.slices);
    check_lanes(t);
}

static void test_intakes_become_one(void **state)
{
    struct trace *t = *state;
    struct intake *in;

    string(t, "only in the first");
    add(t, EVENT_COMPLETE, 7, 10, 5, "op", "a");
    intake_defect(t->intakes[0], DEFECT_bad_number, 500);
    t->intakes[0]->meta[META_rank] = 3;

    in = t->intakes[t->at = 1];
    add(t, EVENT_COMPLETE, 8, 10, 5, "kernel", "b");
    set_arg(t, COL_gpu_kind, string(t, "Dispatch"));
    set_arg(t, COL_gpu_correlation, 4);
    add(t, EVENT_COMPLETE, 7, 10, 5, "op", "a");
    in->threads[intake_thread(in, 1, 0, 7, 0)].name = string(t, "main");
    in->meta[META_rank] = 4;
    in->meta[META_trace_name] = string(t, "trace.json");
    intake_defect(in, DEFECT_bad_number, 400);

    t->at = 2;
    add(t, EVENT_COMPLETE, 7, 3, 5, NULL, "c");
    add(t, EVENT_INSTANT_PROCESS, 7, 4, 0, NULL, "i");
    merge(t);

    ASSERT_COLUMN(t, COL_slice_ts, 3, 4, 10, 10, 10);
    ASSERT_COLUMN(t, COL_thread_tid, 7, 8);
    ASSERT_COLUMN(t, COL_process_pid, 1);
    assert_text(t, COL_slice_name, 0, "c");
    assert_text(t, COL_slice_name, 2, "a");
    assert_text(t, COL_slice_name, 3, "b");
    assert_text(t, COL_slice_category, 3, "kernel");
    assert_int_equal(get(t, COL_slice_name, 2), get(t, COL_slice_name, 4));
    ASSERT_COLUMN(t, COL_slice_track, 0, 1, 0, 2, 0);
    ASSERT_COLUMN(t, COL_slice_depth, 0, 0, 0, 0, 1);
    assert_text(t, COL_gpu_kind, 0, "Dispatch");
    assert_text(t, COL_thread_name, 0, "main");
    assert_int_equal(get(t, COL_thread_name, 1), COLUMN_NULL);
    assert_int_equal(columns_meta(t->columns, META_rank), 3);
    assert_memory_equal(columns_meta_text(t->columns, META_trace_name).p, "trace.json", 10);
    ASSERT_COLUMN(t, COL_defect_kind, DEFECT_bad_number);
    ASSERT_COLUMN(t, COL_defect_count, 2);
    ASSERT_COLUMN(t, COL_defect_offset, 400);
    ASSERT_COLUMN(t, COL_name_count, 1, 1, 2, 1);
}

static void test_depth_is_bounded(void **state)
{
    struct trace *t = *state;

    for (int64_t i = 0; i < DEPTH_MOST + 10; i++)
        add(t, EVENT_COMPLETE, 7, i, 100000 - 2 * i, "c", "deeper");
    merge(t);
    assert_int_equal(t->summary.slices, DEPTH_MOST);
    assert_int_equal(t->summary.defects[DEFECT_too_deep], 10);
    assert_int_equal(get(t, COL_slice_depth, DEPTH_MOST - 1), DEPTH_MOST - 1);
}

static void test_tracks_of_overlapping_slices_are_bounded(void **state)
{
    struct trace *t = *state;

    for (int64_t i = 0; i < DEPTH_MOST + 10; i++)
        add(t, EVENT_COMPLETE, 7, i, 100000, "c", "overlaps all before");
    merge(t);
    assert_int_equal(t->summary.slices, DEPTH_MOST + 1);
    assert_int_equal(t->summary.defects[DEFECT_too_deep], 9);
}

static void test_extreme_times_do_not_wrap(void **state)
{
    struct trace *t = *state;

    add(t, EVENT_COMPLETE, 7, INT64_MIN + 1, INT64_MAX, "c", "a");
    add(t, EVENT_COMPLETE, 7, INT64_MAX - 1, INT64_MAX, "c", "a");
    add(t, EVENT_BEGIN, 8, INT64_MIN + 1, 0, "c", "b");
    add(t, EVENT_END, 8, INT64_MAX, 0, "c", "b");
    merge(t);
    ASSERT_COLUMN(t, COL_slice_dur, INT64_MAX, INT64_MAX, INT64_MAX);
    ASSERT_COLUMN(t, COL_name_sum, INT64_MAX, INT64_MAX);
    assert_int_equal(t->summary.last_ns, INT64_MAX);
}

static void test_nothing_at_all(void **state)
{
    struct trace *t = *state;

    merge(t);
    assert_int_equal(t->summary.slices, 0);
    assert_int_equal(columns_rows(t->columns, TABLE_slice), 0);
    assert_int_equal(columns_meta(t->columns, META_first_ns), COLUMN_NULL);
}

static void test_memory_is_bounded(void **state)
{
    struct trace *t = *state;

    for (int64_t i = 0; i < 200000; i++)
        add(t, EVENT_FLOW_END, 7, i, i, "f", "x");
    assert_int_equal(try_merge(t, 1 << 20, false), -ENOMEM);
    assert_int_equal(try_merge(t, MEMORY, true), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_slices_nest_by_time),
        TEST(test_overlapping_slices_get_tracks_of_their_own),
        TEST(test_instants),
        TEST(test_begin_and_end),
        TEST(test_a_complete_slice_ends_what_is_unfinished_in_it),
        TEST(test_asynchronous_events),
        TEST(test_flows),
        TEST(test_a_thread_with_nothing_but_flows_has_no_track),
        TEST(test_counters),
        TEST(test_gpu_work_is_linked_to_its_launch),
        TEST(test_arguments_of_dropped_events_are_dropped),
        TEST(test_arguments_stay_with_their_events),
        TEST(test_groups_of_names),
        TEST(test_order_by_track_and_lanes),
        TEST(test_intakes_become_one),
        TEST(test_depth_is_bounded),
        TEST(test_tracks_of_overlapping_slices_are_bounded),
        TEST(test_extreme_times_do_not_wrap),
        TEST(test_nothing_at_all),
        TEST(test_memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
