/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/values.h"

#include "trace/read/sum.h"

static int64_t own(const struct row *row, enum column column)
{
    return cells_get(row->cells, column, row->number);
}

static void result_word(sqlite3_context *ctx, const char *word)
{
    sqlite3_result_text(ctx, word, -1, SQLITE_STATIC);
}

void value_arg_set_id(struct row *row, sqlite3_context *ctx)
{
    uint64_t slice = row_slice(row);
    int64_t flags = slice == ROW_NONE ? COLUMN_NULL : cells_get(row->cells, COL_slice_flags, slice);

    if (flags != COLUMN_NULL && flags & SLICE_HAS_ARGS)
        sqlite3_result_int64(ctx, numbered_in(row->trace->id, slice));
}

/* Of an unfinished slice nobody knows it. */
void value_self_dur(struct row *row, sqlite3_context *ctx)
{
    uint64_t slice = row_slice(row);
    int64_t dur = slice == ROW_NONE ? COLUMN_NULL : cells_get(row->cells, COL_slice_dur, slice);
    int64_t child = slice == ROW_NONE ? COLUMN_NULL : cells_get(row->cells, COL_slice_child, slice);

    if (dur >= 0 && child != COLUMN_NULL)
        sqlite3_result_int64(ctx, difference_of(dur, child));
}

static void number_or_text(struct row *row, sqlite3_context *ctx, enum column number, enum column text)
{
    int64_t value = own(row, number);

    if (value != COLUMN_NULL && own(row, text) <= 0)
        sqlite3_result_int64(ctx, value);
    else
        result_text(row, ctx, own(row, text));
}

void value_tid(struct row *row, sqlite3_context *ctx)
{
    number_or_text(row, ctx, COL_thread_tid, COL_thread_tid_text);
}

void value_pid(struct row *row, sqlite3_context *ctx)
{
    number_or_text(row, ctx, COL_process_pid, COL_process_pid_text);
}

/* As Perfetto has it, one whose number is a text goes by that where nothing else names it. */
static void name_or_text(struct row *row, sqlite3_context *ctx, enum column name, enum column text)
{
    if (!result_text(row, ctx, own(row, name)))
        result_text(row, ctx, own(row, text));
}

void value_thread_name(struct row *row, sqlite3_context *ctx)
{
    name_or_text(row, ctx, COL_thread_name, COL_thread_tid_text);
}

void value_process_name(struct row *row, sqlite3_context *ctx)
{
    name_or_text(row, ctx, COL_process_name, COL_process_pid_text);
}

void value_is_main_thread(struct row *row, sqlite3_context *ctx)
{
    int64_t tid = own(row, COL_thread_tid), process = own(row, COL_thread_process);

    if (process >= 0 && tid != COLUMN_NULL)
        sqlite3_result_int(ctx, tid == cells_get(row->cells, COL_process_pid, (uint64_t)process));
}

void value_track_type(struct row *row, sqlite3_context *ctx)
{
    static const char *const types[_TRACK_KIND_MAX] = {
        [TRACK_THREAD] = "thread_execution",
        [TRACK_OVERFLOW] = "thread_overlapping_slice",
        [TRACK_ASYNC] = "legacy_async_process_slice",
        [TRACK_PROCESS_INSTANTS] = "chrome_process_instant",
        [TRACK_GLOBAL_INSTANTS] = "legacy_chrome_global_instants",
        [TRACK_COUNTER] = "json_counter",
    };
    int64_t kind = own(row, COL_track_kind);

    if (kind >= 0 && kind < _TRACK_KIND_MAX)
        result_word(ctx, types[kind]);
}

/* -1 for a kind that this program does not know. */
static int defect(const struct row *row)
{
    int64_t kind = own(row, COL_defect_kind);

    return kind >= 0 && kind < _DEFECT_MAX ? (int)kind : -1;
}

void value_defect_name(struct row *row, sqlite3_context *ctx)
{
    if (defect(row) >= 0)
        result_word(ctx, defect_name((enum defect_kind)defect(row)));
}

void value_defect_severity(struct row *row, sqlite3_context *ctx)
{
    if (defect(row) >= 0)
        result_word(ctx, defect_loses_data((enum defect_kind)defect(row)) ? "data_loss" : "info");
}

void value_defect_source(struct row *row, sqlite3_context *ctx)
{
    result_word(ctx, "analysis");
}

void value_defect_text(struct row *row, sqlite3_context *ctx)
{
    if (defect(row) >= 0)
        result_word(ctx, defect_text((enum defect_kind)defect(row)));
}

static int meta(const struct row *row)
{
    int64_t key = own(row, COL_meta_key);

    return key >= 0 && key < _META_MAX ? (int)key : -1;
}

void value_meta_name(struct row *row, sqlite3_context *ctx)
{
    if (meta(row) >= 0)
        result_word(ctx, meta_name((enum meta_key)meta(row)));
}

void value_meta_type(struct row *row, sqlite3_context *ctx)
{
    result_word(ctx, "single");
}

void value_meta_int(struct row *row, sqlite3_context *ctx)
{
    int64_t value = own(row, COL_meta_value);

    if (meta(row) >= 0 && !meta_is_text((enum meta_key)meta(row)) && value != COLUMN_NULL)
        sqlite3_result_int64(ctx, value);
}

void value_meta_text(struct row *row, sqlite3_context *ctx)
{
    if (meta(row) >= 0 && meta_is_text((enum meta_key)meta(row)))
        result_text(row, ctx, own(row, COL_meta_value));
}

/* From the end of the call that launched it to the beginning of the work. */
void value_delay(struct row *row, sqlite3_context *ctx)
{
    int64_t gpu = own(row, COL_launch_gpu), runtime = own(row, COL_launch_runtime), begin, call, dur;

    if (gpu < 0 || runtime < 0)
        return;
    begin = cells_get(row->cells, COL_slice_ts, (uint64_t)gpu);
    call = cells_get(row->cells, COL_slice_ts, (uint64_t)runtime);
    dur = cells_get(row->cells, COL_slice_dur, (uint64_t)runtime);
    if (begin != COLUMN_NULL && call != COLUMN_NULL && dur != COLUMN_NULL)
        sqlite3_result_int64(ctx, MAX(difference_of(difference_of(begin, call), dur), 0));
}

void value_gap_name(struct row *row, sqlite3_context *ctx)
{
    if (row->before != ROW_NONE)
        result_text(row, ctx, cells_get(row->cells, COL_slice_name, row->before));
}

void value_gap(struct row *row, sqlite3_context *ctx)
{
    int64_t begin = own(row, COL_slice_ts), before, dur;

    if (row->before == ROW_NONE)
        return;
    before = cells_get(row->cells, COL_slice_ts, row->before);
    dur = cells_get(row->cells, COL_slice_dur, row->before);
    if (begin != COLUMN_NULL && before != COLUMN_NULL && dur != COLUMN_NULL)
        sqlite3_result_int64(ctx, difference_of(difference_of(begin, before), dur));
}

void value_average(struct row *row, sqlite3_context *ctx)
{
    int64_t sum = own(row, COL_name_sum), count = own(row, COL_name_count);

    if (sum != COLUMN_NULL && count > 0)
        sqlite3_result_double(ctx, (double)sum / (double)count);
}
