/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a columnar file holds: its tables and their columns, and the known arguments of events, as one table
 * of macros. A new column or argument is one line here; docs/columns.md describes the file.
 *
 * A row is identified by its number. A value is a 64-bit integer or COLUMN_NULL; the kind of its column
 * defines its meaning. Columns are named TABLE_COLUMN.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a columnar file begins with, whatever its version, and the version of what follows. */
#define COLUMNS_MAGIC   "PROFD COLUMNS\n"
#define COLUMNS_VERSION 3

#define COLUMN_NULL     INT64_MIN

enum column_kind {
    KIND_INT,
    KIND_NS,    /* a time or a duration */
    KIND_TEXT,  /* number of a string in the dictionary */
    KIND_REAL,  /* number of a string that holds the decimal digits as they were written */
    KIND_FLOAT, /* bits of a double */
    KIND_ROW,   /* row of another table */
};

/*
 * slice     sorted by ts, ties as trace/read/run.h orders them; its row is trace_processor's slice.id
 *           dur: -1 for a B without E; category: COLUMN_NULL without one; parent: COLUMN_NULL at depth 0
 *           child: time of its direct children, so that self time is dur - child
 *           offset: of the event's text in the decompressed stream
 *           flags: enum slice_flags
 * track     what slices and counters lie on; kind: enum track_kind
 *           first, count: its part of by_track; name: of counters, async and global tracks
 * thread    unique threads in order of appearance; tid_text where the trace names it by text
 * process   the same; labels: "GPU 0", ...
 * flow      arrows between slices, as trace_processor makes them
 * counter   samples, sorted by ts
 * by_track  slices ordered by (track, row)
 * lane      the slices of a track at one depth, ordered by (track, depth); first, count: its part of by_lane
 *           mip: first row of its level 1 in lanemip, its higher levels follow; COLUMN_NULL without levels
 * by_lane   slices ordered by (lane, row), with their ts and dur
 * lanemip   level of detail of by_lane: a row for every LANE_FANOUT rows of the level below in the same lane, while
 *           these are more than LANE_FANOUT. longest: row of by_lane, the first of equal ones; busy: sum of
 *           durations. For both, unfinished slices last until the end of the trace
 * by_name   slices ordered by (category, name, row)
 * name      the groups of by_name, with their sums; unfinished slices are counted, not summed
 * defect    defects of the trace: kind is enum defect_kind, count, offset of the first
 * launch    GPU work and the runtime call that launched it, ordered by gpu
 * checkpoint  offsets from which decompression can begin, ordered by out
 * The others are arguments of events, ordered by slice: see COLUMN_ARGS.
 */
/* clang-format off */
#define COLUMN_TABLES(T)                                                                                     \
    T(slice) T(track) T(thread) T(process) T(flow) T(counter) T(by_track) T(lane) T(by_lane) T(lanemip)       \
    T(by_name) T(name) T(defect) T(launch) T(checkpoint) T(meta) T(gpu) T(runtime) T(op) T(python) T(memory) T(collective)

/* C(table, column, kind) */
#define COLUMN_CORE(C)                                                                                       \
    C(slice, ts, NS) C(slice, dur, NS) C(slice, name, TEXT) C(slice, category, TEXT) C(slice, track, ROW)    \
    C(slice, depth, INT) C(slice, parent, ROW) C(slice, child, NS) C(slice, offset, INT) C(slice, flags, INT) \
    C(track, kind, INT) C(track, name, TEXT) C(track, thread, ROW) C(track, process, ROW)                    \
    C(track, first, ROW) C(track, count, INT)                                                                \
    C(thread, tid, INT) C(thread, tid_text, TEXT) C(thread, name, TEXT) C(thread, process, ROW)              \
    C(thread, sort_index, INT)                                                                               \
    C(process, pid, INT) C(process, pid_text, TEXT) C(process, name, TEXT) C(process, labels, TEXT)          \
    C(process, sort_index, INT)                                                                              \
    C(flow, out, ROW) C(flow, in, ROW) C(flow, id, INT) C(flow, name, TEXT) C(flow, category, TEXT)          \
    C(counter, ts, NS) C(counter, track, ROW) C(counter, value, FLOAT) C(counter, offset, INT)                \
    C(by_track, slice, ROW)                                                                                  \
    C(lane, track, ROW) C(lane, depth, INT) C(lane, first, ROW) C(lane, count, INT) C(lane, mip, ROW)        \
    C(by_lane, slice, ROW) C(by_lane, ts, NS) C(by_lane, dur, NS)                                            \
    C(lanemip, longest, ROW) C(lanemip, busy, NS)                                                            \
    C(by_name, slice, ROW)                                                                                   \
    C(name, category, TEXT) C(name, name, TEXT) C(name, first, ROW) C(name, count, INT) C(name, sum, NS)     \
    C(name, min, NS) C(name, max, NS)                                                                        \
    C(defect, kind, INT) C(defect, count, INT) C(defect, offset, INT)                                         \
    C(launch, gpu, ROW) C(launch, runtime, ROW)                                                              \
    C(checkpoint, in_bit, INT) C(checkpoint, out, INT) C(checkpoint, window, INT)                            \
    C(checkpoint, window_size, INT)                                                                          \
    C(meta, key, INT) C(meta, value, INT)

/*
 * A(group, column, kind, array, keys...): the arguments that get a column of their own, in the group of rows
 * that their event belongs to. array: which element of a JSON array, -1 for the value itself. TEXT keeps a
 * string without its quotes and any other value as its JSON text. A key matches as it stands.
 */
#define COLUMN_ARGS(A)                                                                                       \
    A(gpu, correlation, INT, -1, "correlation", "Correlation") A(gpu, external_id, INT, -1, "External id", "external id")       \
    A(gpu, stream, INT, -1, "stream") A(gpu, device, INT, -1, "device") A(gpu, context, INT, -1, "context")  \
    A(gpu, queued, INT, -1, "queued") A(gpu, priority, INT, -1, "priority")                                  \
    A(gpu, registers, INT, -1, "registers per thread") A(gpu, shared_memory, INT, -1, "shared memory")       \
    A(gpu, blocks_per_sm, REAL, -1, "blocks per SM") A(gpu, warps_per_sm, REAL, -1, "warps per SM")          \
    A(gpu, occupancy, REAL, -1, "est. achieved occupancy %", "theoretical occupancy %")                     \
    A(gpu, grid_x, INT, 0, "grid") A(gpu, grid_y, INT, 1, "grid") A(gpu, grid_z, INT, 2, "grid")             \
    A(gpu, block_x, INT, 0, "block") A(gpu, block_y, INT, 1, "block") A(gpu, block_z, INT, 2, "block")       \
    A(gpu, graph_id, INT, -1, "graph id") A(gpu, graph_node_id, INT, -1, "graph node id")                    \
    A(gpu, channel, INT, -1, "channel") A(gpu, bytes, INT, -1, "bytes")                                      \
    A(gpu, bandwidth, REAL, -1, "memory bandwidth (GB/s)") A(gpu, kind, TEXT, -1, "kind")                    \
    A(gpu, sync_kind, TEXT, -1, "cuda_sync_kind") A(gpu, wait_on_stream, INT, -1, "wait_on_stream")          \
    A(gpu, wait_on_record, INT, -1, "wait_on_cuda_event_record_corr_id")                                     \
    A(runtime, correlation, INT, -1, "correlation", "Correlation") A(runtime, external_id, INT, -1, "External id", "external id") \
    A(runtime, cbid, INT, -1, "cbid", "cid")                                                                 \
    A(op, external_id, INT, -1, "External id", "external id")                                                \
    A(op, record_function_id, INT, -1, "Record function id")                                                 \
    A(op, sequence, INT, -1, "Sequence number") A(op, fwd_thread, INT, -1, "Fwd thread id")                  \
    A(op, ev_idx, INT, -1, "Ev Idx") A(op, dims, TEXT, -1, "Input Dims", "Input dims")                       \
    A(op, types, TEXT, -1, "Input type") A(op, strides, TEXT, -1, "Input Strides")                           \
    A(op, concrete, TEXT, -1, "Concrete Inputs") A(op, module, TEXT, -1, "Module Hierarchy")                 \
    A(op, flops, INT, -1, "FLOPs") A(op, op_name, TEXT, -1, "op_name")                                       \
    A(op, provider, TEXT, -1, "provider")                                                                    \
    A(python, id, INT, -1, "Python id") A(python, parent_id, INT, -1, "Python parent id")                    \
    A(python, module_id, INT, -1, "Python module id") A(python, ev_idx, INT, -1, "Ev Idx")                   \
    A(memory, address, INT, -1, "Addr") A(memory, bytes, INT, -1, "Bytes")                                   \
    A(memory, allocated, INT, -1, "Total Allocated") A(memory, reserved, INT, -1, "Total Reserved")          \
    A(memory, device_type, INT, -1, "Device Type") A(memory, device, INT, -1, "Device Id")                   \
    A(collective, name, TEXT, -1, "Collective name") A(collective, dtype, TEXT, -1, "dtype")                 \
    A(collective, in_elements, INT, -1, "In msg nelems") A(collective, out_elements, INT, -1, "Out msg nelems")                   \
    A(collective, in_split, TEXT, -1, "In split size") A(collective, out_split, TEXT, -1, "Out split size")  \
    A(collective, group_size, INT, -1, "Group size") A(collective, group_name, TEXT, -1, "Process Group Name")                    \
    A(collective, group_desc, TEXT, -1, "Process Group Description")                                         \
    A(collective, group_ranks, TEXT, -1, "Process Group Ranks")                                              \
    A(collective, src_rank, INT, -1, "Src Rank") A(collective, dst_rank, INT, -1, "Dst Rank")                \
    A(collective, seq, INT, -1, "Seq") A(collective, comms_id, TEXT, -1, "Comms Id")

/* clang-format on */

enum column_table {
#define T(table) TABLE_##table,
    COLUMN_TABLES(T)
#undef T
        _TABLE_MAX,
};

enum column {
#define C(table, column, kind) COL_##table##_##column,
    COLUMN_CORE(C)
#undef C
#define A(group, column, kind, array, ...) COL_##group##_##column,
        COLUMN_ARGS(A)
#undef A
    /* the event that a row of arguments belongs to */
    COL_gpu_slice,
    COL_runtime_slice,
    COL_op_slice,
    COL_python_slice,
    COL_memory_slice,
    COL_collective_slice,
    _COLUMN_MAX,
};

/* The tables of arguments are the last ones, in this order. */
#define TABLE_ARGS_FIRST TABLE_gpu
#define ARG_GROUPS       (_TABLE_MAX - TABLE_ARGS_FIRST)

enum slice_flags {
    SLICE_HAS_ARGS = 1, /* its text has an "args" object with something in it */
    SLICE_INSTANT = 2,
    SLICE_FROM_BEGIN = 4, /* B and E: offset is that of the B */
};

enum track_kind {
    TRACK_THREAD,
    TRACK_OVERFLOW, /* of a thread: events that overlap others without nesting */
    TRACK_ASYNC,    /* of a process: b, n, e */
    TRACK_PROCESS_INSTANTS,
    TRACK_GLOBAL_INSTANTS,
    TRACK_COUNTER,
    _TRACK_KIND_MAX,
};

/* clang-format off */
/* D(kind, loses data, what it is, for people) */
#define TRACE_DEFECTS(D)                                                                                     \
    D(truncated, 1, "the text ends before its JSON closes")                                                  \
    D(corrupt_stream, 1, "the compressed data is damaged")                                                   \
    D(unreadable_event, 1, "an event cannot be read as JSON and was left out")                               \
    D(no_phase, 1, "an event without \"ph\" was left out")                                                   \
    D(unknown_phase, 1, "an event of a kind that is not known was left out")                                 \
    D(no_ts, 1, "an event without a usable \"ts\" was left out")                                             \
    D(no_dur, 1, "an event with a duration (ph X) but no usable \"dur\" was left out")                       \
    D(negative_dur, 0, "a duration below zero was taken as zero")                                            \
    D(bad_number, 0, "a value is no number (NaN, Infinity, -1.-500, ...) and was taken as absent")           \
    D(bad_escape, 0, "a string has an escape that JSON does not know; it was kept as written")               \
    D(control_char, 0, "a string has a control character; it was kept")                                      \
    D(bad_utf8, 0, "a string is not UTF-8; the bytes were replaced")                                         \
    D(duplicate_key, 0, "a key occurs twice in one event; the last one counts")                              \
    D(misplaced_end, 1, "an unmatched begin or end event was left out") \
    D(overlap, 0, "an event overlaps another of its thread without nesting; it has a track of its own")      \
    D(flow_without_slice, 0, "an arrow begins or ends outside any slice")                                    \
    D(flow_without_start, 0, "an arrow ends that never began")                                               \
    D(too_large_event, 1, "an event is larger than the limit and was left out")                              \
    D(too_deep, 1, "JSON, or slices on a track, are nested deeper than the limit")                           \
    D(bytes_behind_end, 0, "bytes follow the end of the trace")                                              \
    D(no_slice_for_async_end, 1, "an asynchronous e has no b")

/* clang-format on */

enum defect_kind {
#define D(kind, loses, text) DEFECT_##kind,
    TRACE_DEFECTS(D)
#undef D
        _DEFECT_MAX,
};

/* clang-format off */
/* M(key, is text): the facts about the trace. */
#define TRACE_META(M)                                                                                        \
    M(format, 1) M(source_bytes, 0) M(text_bytes, 0) M(coding, 1) M(events, 0) M(base_time_ns, 0)            \
    M(first_ns, 0) M(last_ns, 0) M(rank, 0) M(world_size, 0) M(backend, 1) M(device_name, 1) M(devices, 0)   \
    M(trace_name, 1) M(engine_version, 1) M(pid, 0) M(source_sha256, 1) M(display_unit, 1)                   \
    M(distributed_info, 1) M(device_properties, 1) M(sm_count, 0) M(cuda_runtime_version, 0)                 \
    M(cuda_driver_version, 0) M(hip_runtime_version, 0) M(hip_driver_version, 0) M(merged, 1)           \
    M(request_trace_id, 1)

/* clang-format on */

enum meta_key {
#define M(key, is_text) META_##key,
    TRACE_META(M)
#undef M
        _META_MAX,
};

#define LANE_FANOUT 16

/* Rows of lanemip for n rows of the level below, 0 if these are the highest level. */
static inline uint64_t lane_groups(uint64_t n)
{
    return n > LANE_FANOUT ? (n + LANE_FANOUT - 1) / LANE_FANOUT : 0;
}

struct column_spec {
    const char *name; /* without its table */
    enum column_table table;
    enum column_kind kind;
};

struct arg_spec {
    enum column column;
    int array;
    const char *keys[3]; /* NULL after the last */
};

extern const struct column_spec column_specs[_COLUMN_MAX];
extern const char *const column_table_names[_TABLE_MAX];
extern const struct arg_spec column_args[];
extern const size_t column_args_count;
/* The columns of a table are those of column_specs[] that name it; this is the one with the slices. */
enum column arg_group_slice(enum column_table group);
const char *defect_name(enum defect_kind kind);
const char *defect_text(enum defect_kind kind);
int defect_loses_data(enum defect_kind kind);
const char *meta_name(enum meta_key key);
int meta_is_text(enum meta_key key);

/*
 * Categories of events that have two names: torch renamed them after 1.9. Columns keep the name of the trace;
 * a query for a category means both names. The name, and its older one; items of an array of words.
 */
#define CATEGORY_KERNEL  "kernel", "Kernel"
#define CATEGORY_MEMCPY  "gpu_memcpy", "Memcpy"
#define CATEGORY_MEMSET  "gpu_memset", "Memset"
#define CATEGORY_OP      "cpu_op", "Operator"
#define CATEGORY_RUNTIME "cuda_runtime", "Runtime"

/* The older name of a category, NULL where it has none. */
const char *category_old_name(const char *name, size_t size);
/* By either name: what a GPU did itself. */
bool category_is_gpu_work(const char *name, size_t size);
