/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/tables.h"

#include "trace/columns/schema.h"
#include "trace/sql/values.h"

#define FUNCTION(name, fn, type_)                                                                            \
    {                                                                                                        \
        name, VALUE_FUNCTION, .type = type_, .function = fn                                                  \
    }
#define ARG_SET                                                                                              \
    {                                                                                                        \
        "arg_set_id", VALUE_FUNCTION, SEEK_ARG_SET, .type = "integer", .function = value_arg_set_id          \
    }
#define INTEGER(name, fn) FUNCTION(name, fn, "integer")
#define TEXT(name, fn)    FUNCTION(name, fn, "text")
#define ABSENT(name)                                                                                         \
    {                                                                                                        \
        name, VALUE_NULL                                                                                     \
    }
#define ABSENT_TEXT(name)                                                                                    \
    {                                                                                                        \
        name, VALUE_NULL, .type = "text"                                                                     \
    }

/* clang-format off */

/* Perfetto's columns in its order; those after slice_id are added here. */
#define SLICE_COLUMNS                                                                                        \
    {"id", VALUE_ROW, SEEK_ROW},                                                                             \
    {"ts", COL_slice_ts, SEEK_TS},                                                                           \
    {"dur", COL_slice_dur},                                                                                  \
    {"track_id", COL_slice_track, SEEK_TRACK},                                                               \
    {"category", COL_slice_category, SEEK_CATEGORY},                                                         \
    {"name", COL_slice_name, SEEK_NAME},                                                                     \
    {"depth", COL_slice_depth},                                                                              \
    {"parent_id", COL_slice_parent},                                                                         \
    ARG_SET,                                                                 \
    ABSENT("thread_ts"), ABSENT("thread_dur"), ABSENT("thread_instruction_count"),                           \
    ABSENT("thread_instruction_delta"),                                                                      \
    {"cat", COL_slice_category, SEEK_CATEGORY},                                                              \
    {"slice_id", VALUE_ROW, SEEK_ROW},                                                                       \
    INTEGER("self_dur", value_self_dur),                                                                     \
    {"file_offset", COL_slice_offset}

/* The first columns of tables of one kind of slice. */
#define KIND_COLUMNS                                                                                         \
    {"id", VALUE_ROW, SEEK_ROW},                                                                             \
    {"ts", COL_slice_ts, SEEK_TS},                                                                           \
    {"dur", COL_slice_dur},                                                                                  \
    {"name", COL_slice_name, SEEK_NAME},                                                                     \
    {"category", COL_slice_category, SEEK_CATEGORY},                                                         \
    {"track_id", COL_slice_track, SEEK_TRACK},                                                               \
    {"depth", COL_slice_depth},                                                                              \
    {"parent_id", COL_slice_parent},                                                                         \
    ARG_SET

static const struct sql_column slice[] = {SLICE_COLUMNS};

static const struct sql_column descendant_slice[] = {
    SLICE_COLUMNS,
    {"start_id", VALUE_NULL, SEEK_DESCENDANTS, .hidden = true},
};

static const struct sql_column ancestor_slice[] = {
    SLICE_COLUMNS,
    {"start_id", VALUE_NULL, SEEK_ANCESTORS, .hidden = true},
};

static const struct sql_column track[] = {
    {"id", VALUE_ROW, SEEK_ROW},
    {"name", COL_track_name},
    TEXT("type", value_track_type),
    ABSENT("dimension_arg_set_id"), ABSENT("parent_id"), ABSENT("source_arg_set_id"),
    {"machine_id", VALUE_ZERO},
    ABSENT("track_group_id"),
    {"utid", COL_track_thread},
    {"upid", COL_track_process},
};

#define TRACK_COLUMNS                                                                                        \
    {"id", VALUE_ROW, SEEK_ROW},                                                                             \
    {"name", COL_track_name},                                                                                \
    TEXT("type", value_track_type),                                                                          \
    ABSENT("parent_id"), ABSENT("source_arg_set_id"),                                                        \
    {"machine_id", VALUE_ZERO}

static const struct sql_column thread_track[] = {
    TRACK_COLUMNS,
    {"utid", COL_track_thread},
};

static const struct sql_column process_track[] = {
    TRACK_COLUMNS,
    {"upid", COL_track_process},
};

static const struct sql_column counter_track[] = {
    {"id", VALUE_ROW, SEEK_ROW},
    {"name", COL_track_name},
    ABSENT("parent_id"),
    TEXT("type", value_track_type),
    ABSENT("dimension_arg_set_id"), ABSENT("source_arg_set_id"),
    {"machine_id", VALUE_ZERO},
    ABSENT_TEXT("unit"), ABSENT_TEXT("description"),
};

static const struct sql_column process_counter_track[] = {
    TRACK_COLUMNS,
    ABSENT_TEXT("unit"), ABSENT_TEXT("description"),
    {"upid", COL_track_process},
};

static const struct sql_column thread[] = {
    {"id", VALUE_ROW, SEEK_ROW},
    {"utid", VALUE_ROW, SEEK_ROW},
    INTEGER("tid", value_tid),
    TEXT("name", value_thread_name),
    ABSENT("start_ts"), ABSENT("end_ts"),
    {"upid", COL_thread_process},
    INTEGER("is_main_thread", value_is_main_thread),
    {"is_idle", VALUE_ZERO},
    {"machine_id", VALUE_ZERO},
    ABSENT("arg_set_id"),
    {"sort_index", COL_thread_sort_index},
};

static const struct sql_column process[] = {
    {"id", VALUE_ROW, SEEK_ROW},
    {"upid", VALUE_ROW, SEEK_ROW},
    INTEGER("pid", value_pid),
    TEXT("name", value_process_name),
    ABSENT("start_ts"), ABSENT("end_ts"), ABSENT("parent_upid"), ABSENT("uid"), ABSENT("android_appid"),
    ABSENT("android_user_id"),
    ABSENT_TEXT("cmdline"),
    ABSENT("arg_set_id"),
    {"machine_id", VALUE_ZERO},
    {"labels", COL_process_labels},
    {"sort_index", COL_process_sort_index},
};

static const struct sql_column flow[] = {
    {"id", VALUE_ROW, SEEK_ROW},
    {"slice_out", COL_flow_out},
    {"slice_in", COL_flow_in},
    {"trace_id", COL_flow_id},
    ABSENT("arg_set_id"),
    {"name", COL_flow_name},
    {"category", COL_flow_category},
};

static const struct sql_column counter[] = {
    {"id", VALUE_ROW, SEEK_ROW},
    {"ts", COL_counter_ts, SEEK_TS},
    {"track_id", COL_counter_track},
    {"value", COL_counter_value},
    ABSENT("arg_set_id"),
    {"file_offset", COL_counter_offset},
};

static const struct sql_column stats[] = {
    {"id", VALUE_ROW, SEEK_ROW},
    TEXT("name", value_defect_name),
    {"key", COL_defect_kind},
    ABSENT("idx"),
    TEXT("severity", value_defect_severity),
    TEXT("source", value_defect_source),
    {"value", COL_defect_count},
    TEXT("description", value_defect_text),
    ABSENT("machine_id"),
    {"file_offset", COL_defect_offset},
};

static const struct sql_column metadata[] = {
    {"id", VALUE_ROW, SEEK_ROW},
    TEXT("name", value_meta_name),
    TEXT("key_type", value_meta_type),
    INTEGER("int_value", value_meta_int),
    TEXT("str_value", value_meta_text),
    ABSENT("machine_id"),
};

static const struct sql_column kernel[] = {
    KIND_COLUMNS,
    {"stream", COL_gpu_stream},
    {"device", COL_gpu_device},
    {"context", COL_gpu_context},
    {"correlation", COL_gpu_correlation},
    {"external_id", COL_gpu_external_id},
    {"launch_id", COL_launch_runtime},
    {"grid_x", COL_gpu_grid_x}, {"grid_y", COL_gpu_grid_y}, {"grid_z", COL_gpu_grid_z},
    {"block_x", COL_gpu_block_x}, {"block_y", COL_gpu_block_y}, {"block_z", COL_gpu_block_z},
    {"registers", COL_gpu_registers},
    {"shared_memory", COL_gpu_shared_memory},
    {"blocks_per_sm", COL_gpu_blocks_per_sm},
    {"warps_per_sm", COL_gpu_warps_per_sm},
    {"occupancy", COL_gpu_occupancy},
    {"queued", COL_gpu_queued},
    {"priority", COL_gpu_priority},
    {"channel", COL_gpu_channel},
    {"graph_id", COL_gpu_graph_id},
    {"graph_node_id", COL_gpu_graph_node_id},
};

static const struct sql_column launch[] = {
    {"gpu_id", VALUE_SLICE, SEEK_SLICE},
    {"launch_id", COL_launch_runtime},
    {"name", COL_slice_name},
    {"category", COL_slice_category},
    {"launch_name", COL_slice_name, .through = COL_launch_runtime},
    {"launch_ts", COL_slice_ts, .through = COL_launch_runtime},
    {"launch_dur", COL_slice_dur, .through = COL_launch_runtime},
    {"launch_track_id", COL_slice_track, .through = COL_launch_runtime},
    {"gpu_ts", COL_slice_ts, SEEK_TS},
    {"gpu_dur", COL_slice_dur},
    {"gpu_track_id", COL_slice_track},
    INTEGER("delay", value_delay),
    {"correlation", COL_gpu_correlation},
    {"stream", COL_gpu_stream},
    {"device", COL_gpu_device},
};

static const struct sql_column op[] = {
    KIND_COLUMNS,
    INTEGER("self_dur", value_self_dur),
    {"external_id", COL_op_external_id},
    {"record_function_id", COL_op_record_function_id},
    {"sequence", COL_op_sequence},
    {"fwd_thread", COL_op_fwd_thread},
    {"ev_idx", COL_op_ev_idx},
    {"dims", COL_op_dims},
    {"types", COL_op_types},
    {"strides", COL_op_strides},
    {"concrete", COL_op_concrete},
    {"module", COL_op_module},
    {"flops", COL_op_flops},
    {"op_name", COL_op_op_name},
    {"provider", COL_op_provider},
};

static const struct sql_column annotation[] = {
    KIND_COLUMNS,
    INTEGER("self_dur", value_self_dur),
};

static const struct sql_column collective[] = {
    {"id", VALUE_SLICE, SEEK_SLICE},
    {"ts", COL_slice_ts, SEEK_TS},
    {"dur", COL_slice_dur},
    {"name", COL_slice_name},
    {"category", COL_slice_category},
    {"track_id", COL_slice_track},
    INTEGER("arg_set_id", value_arg_set_id),
    {"collective", COL_collective_name},
    {"dtype", COL_collective_dtype},
    {"in_elements", COL_collective_in_elements},
    {"out_elements", COL_collective_out_elements},
    {"in_split", COL_collective_in_split},
    {"out_split", COL_collective_out_split},
    {"group_size", COL_collective_group_size},
    {"group_name", COL_collective_group_name},
    {"group_desc", COL_collective_group_desc},
    {"group_ranks", COL_collective_group_ranks},
    {"src_rank", COL_collective_src_rank},
    {"dst_rank", COL_collective_dst_rank},
    {"seq", COL_collective_seq},
    {"comms_id", COL_collective_comms_id},
    {"stream", COL_gpu_stream},
    {"device", COL_gpu_device},
    {"correlation", COL_gpu_correlation},
};

static const struct sql_column memory[] = {
    {"id", VALUE_SLICE, SEEK_SLICE},
    {"ts", COL_slice_ts, SEEK_TS},
    {"name", COL_slice_name},
    {"track_id", COL_slice_track},
    INTEGER("arg_set_id", value_arg_set_id),
    {"address", COL_memory_address},
    {"bytes", COL_memory_bytes},
    {"total_allocated", COL_memory_allocated},
    {"total_reserved", COL_memory_reserved},
    {"device_type", COL_memory_device_type},
    {"device", COL_memory_device},
};

static const struct sql_column gap[] = {
    {"ts", COL_slice_ts, SEEK_TS},
    {"name", COL_slice_name},
    TEXT("prev_name", value_gap_name),
    INTEGER("diff", value_gap),
    {"id", VALUE_ROW, SEEK_ROW},
    {"dur", COL_slice_dur},
    {"track_id", COL_slice_track},
};

static const struct sql_column name_stat[] = {
    {"category", COL_name_category},
    {"name", COL_name_name},
    {"count", COL_name_count},
    {"sum_dur", COL_name_sum},
    {"min_dur", COL_name_min},
    {"max_dur", COL_name_max},
    FUNCTION("avg_dur", value_average, "real"),
};

/* clang-format on */

static const char *const of_kernels[] = {CATEGORY_KERNEL, NULL};
static const char *const of_ops[] = {CATEGORY_OP, NULL};
static const char *const of_annotations[] = {"user_annotation", "gpu_user_annotation", NULL};
static const char *const of_gaps[] = {CATEGORY_KERNEL, CATEGORY_MEMCPY, NULL};

#define TABLE(table, rows_, ...)                                                                             \
    {                                                                                                        \
        .name = #table, .rows = TABLE_##rows_, .columns = table, .n_columns = ARRAY_SIZE(table), __VA_ARGS__ \
    }
#define KIND(kind) (1u << TRACK_##kind)

const struct sql_table sql_tables[] = {
    TABLE(slice, slice),
    {.name = "slices", .rows = TABLE_slice, .columns = slice, .n_columns = ARRAY_SIZE(slice)},
    TABLE(descendant_slice, slice, .walks_all = true),
    TABLE(ancestor_slice, slice, .walks_all = true),
    TABLE(track, track),
    TABLE(thread_track, track, .kinds = KIND(THREAD) | KIND(OVERFLOW)),
    TABLE(process_track, track, .kinds = KIND(ASYNC) | KIND(PROCESS_INSTANTS)),
    TABLE(counter_track, track, .kinds = KIND(COUNTER)),
    TABLE(process_counter_track, track, .kinds = KIND(COUNTER)),
    TABLE(thread, thread),
    TABLE(process, process),
    TABLE(flow, flow),
    TABLE(counter, counter, .time = COL_counter_ts),
    TABLE(stats, defect),
    TABLE(metadata, meta),
    TABLE(kernel, slice, .categories = of_kernels),
    TABLE(launch, launch, .slice = COL_launch_gpu),
    TABLE(op, slice, .categories = of_ops),
    TABLE(annotation, slice, .categories = of_annotations),
    TABLE(collective, collective, .slice = COL_collective_slice),
    TABLE(memory, memory, .slice = COL_memory_slice),
    TABLE(gap, slice, .categories = of_gaps, .walks_all = true),
    TABLE(name_stat, name),
};
const size_t sql_tables_count = ARRAY_SIZE(sql_tables);
