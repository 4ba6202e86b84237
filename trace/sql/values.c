/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/values.h"

#include "trace/read/sum.h"
#include "trace/sql/plan.h"

/* After this many steps from the last row, a search is faster. */
#define STEPS_MAX 8

void cells_use(struct cells *cells, const struct columns *columns)
{
    if (cells->columns == columns)
        return;
    cells->columns = columns;
    for (size_t i = 0; i < _COLUMN_MAX; i++) {
        if (cells->windows[i])
            cells->windows[i]->n = 0;
    }
    memset(cells->found, 0, sizeof(cells->found));
}

void cells_done(struct cells *cells)
{
    for (size_t i = 0; i < _COLUMN_MAX; i++)
        free(cells->windows[i]);
}

/* by_track and by_name are always walked; for tables that are looked up, decoding a block would be wasted. */
static bool cells_are_walked(const struct cells *cells, enum column column)
{
    switch (column_specs[column].table) {
    case TABLE_by_track:
    case TABLE_by_name:
        return true;
    case TABLE_track:
    case TABLE_thread:
    case TABLE_process:
        return false;
    default:
        return cells->dense;
    }
}

int64_t cells_read(struct cells *cells, enum column column, uint64_t row)
{
    struct window **w = &cells->windows[column];

    if (!cells_are_walked(cells, column))
        return columns_get(cells->columns, column, row);
    if (!*w)
        *w = calloc(1, sizeof(**w));
    if (!*w)
        return columns_get(cells->columns, column, row);
    (*w)->first = row - row % BLOCK_ROWS;
    (*w)->n = columns_block(cells->columns, column, (*w)->first, BLOCK_ROWS, (*w)->values);
    return row - (*w)->first < (*w)->n ? (*w)->values[row - (*w)->first] : COLUMN_NULL;
}

uint64_t cells_of_slice(struct cells *cells, enum column_table table, uint64_t slice)
{
    enum column key = table == TABLE_launch ? COL_launch_gpu : arg_group_slice(table);
    uint64_t rows = columns_rows(cells->columns, table), row = cells->found[table];
    int64_t wanted = (int64_t)slice;

    if (row >= rows || cells_get(cells, key, row) > wanted)
        row = 0;
    for (int i = 0; row < rows && cells_get(cells, key, row) < wanted; row++) {
        if (++i < STEPS_MAX)
            continue;
        row = columns_lower_bound(cells->columns, key, wanted);
        break;
    }
    cells->found[table] = row;
    return row < rows && cells_get(cells, key, row) == wanted ? row : ROW_NONE;
}

/* -- Values of columns ---------------------------------------------------------------------------------- */

uint64_t row_slice(const struct row *row)
{
    int64_t slice;

    if (row->table->rows == TABLE_slice)
        return row->number;
    slice = row->table->slice ? cells_get(row->cells, row->table->slice, row->number) : COLUMN_NULL;
    return slice < 0 ? ROW_NONE : (uint64_t)slice;
}

/* The row of the column's own table that has the value. */
uint64_t row_of_column(const struct row *row, const struct sql_column *column)
{
    enum column_table table = column_specs[column->column].table;
    uint64_t slice;

    if (column->through) {
        int64_t other = cells_get(row->cells, column->through, row->number);

        slice = other < 0 ? ROW_NONE : (uint64_t)other;
    } else if (table == row->table->rows) {
        return row->number;
    } else {
        slice = row_slice(row);
    }
    return table == TABLE_slice || slice == ROW_NONE ? slice : cells_of_slice(row->cells, table, slice);
}

bool result_text(const struct row *row, sqlite3_context *ctx, int64_t number)
{
    struct text text = columns_text(row->trace->columns, number);

    if (number == COLUMN_NULL)
        return false;
    sqlite3_result_text64(ctx, text.p ? text.p : "", text.size, row->text_lifetime, SQLITE_UTF8);
    return text.size > 0;
}

/* The digits of a number; a value that is not a finite number is NULL here, and a text in table args. */
static bool result_real(const struct row *row, sqlite3_context *ctx, int64_t number)
{
    struct text text = columns_text(row->trace->columns, number);
    char digits[64], *end;
    double value;

    if (text.size == 0 || text.size >= sizeof(digits))
        return false;
    memcpy(digits, text.p, text.size);
    digits[text.size] = '\0';
    value = strtod(digits, &end);
    if (end == digits + text.size && value - value == 0)
        sqlite3_result_double(ctx, value);
    return true;
}

/* The number of a row of any table. */
void result_row(const struct row *row, sqlite3_context *ctx, uint64_t number)
{
    sqlite3_result_int64(ctx, traces_are_one(row->trace->traces) ? numbered_in(row->trace->id, number)
                                                                 : (sqlite3_int64)number);
}

/* False if damage may be the reason for the result. */
bool result_value(const struct row *row, sqlite3_context *ctx, enum column column, int64_t value)
{
    double real;

    switch (column_specs[column].kind) {
    case KIND_TEXT:
        return result_text(row, ctx, value);
    case KIND_REAL:
        return result_real(row, ctx, value);
    case KIND_FLOAT:
        memcpy(&real, &value, sizeof(real));
        sqlite3_result_double(ctx, real);
        return true;
    case KIND_ROW:
        result_row(row, ctx, (uint64_t)value);
        return true;
    default:
        sqlite3_result_int64(ctx, value);
        return true;
    }
}

static int64_t row_cell(const struct row *row, enum column column)
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

/* Unknown for an unfinished slice. */
void value_self_dur(struct row *row, sqlite3_context *ctx)
{
    uint64_t slice = row_slice(row);
    int64_t dur = slice == ROW_NONE ? COLUMN_NULL : cells_get(row->cells, COL_slice_dur, slice);
    int64_t child = slice == ROW_NONE ? COLUMN_NULL : cells_get(row->cells, COL_slice_child, slice);

    if (dur >= 0 && child != COLUMN_NULL)
        sqlite3_result_int64(ctx, difference_of(dur, child));
}

static void result_number_or_text(struct row *row, sqlite3_context *ctx, enum column number, enum column text)
{
    int64_t value = row_cell(row, number);

    if (value != COLUMN_NULL && row_cell(row, text) <= 0)
        sqlite3_result_int64(ctx, value);
    else
        result_text(row, ctx, row_cell(row, text));
}

void value_tid(struct row *row, sqlite3_context *ctx)
{
    result_number_or_text(row, ctx, COL_thread_tid, COL_thread_tid_text);
}

void value_pid(struct row *row, sqlite3_context *ctx)
{
    result_number_or_text(row, ctx, COL_process_pid, COL_process_pid_text);
}

/* As in Perfetto, a thread without a name has the text of its number as its name. */
static void result_name_or_text(struct row *row, sqlite3_context *ctx, enum column name, enum column text)
{
    if (!result_text(row, ctx, row_cell(row, name)))
        result_text(row, ctx, row_cell(row, text));
}

void value_thread_name(struct row *row, sqlite3_context *ctx)
{
    result_name_or_text(row, ctx, COL_thread_name, COL_thread_tid_text);
}

void value_process_name(struct row *row, sqlite3_context *ctx)
{
    result_name_or_text(row, ctx, COL_process_name, COL_process_pid_text);
}

void value_is_main_thread(struct row *row, sqlite3_context *ctx)
{
    int64_t tid = row_cell(row, COL_thread_tid), process = row_cell(row, COL_thread_process);

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
    int64_t kind = row_cell(row, COL_track_kind);

    if (kind >= 0 && kind < _TRACK_KIND_MAX)
        result_word(ctx, types[kind]);
}

/* -1 for a kind that this program does not know. */
static int row_defect_kind(const struct row *row)
{
    int64_t kind = row_cell(row, COL_defect_kind);

    return kind >= 0 && kind < _DEFECT_MAX ? (int)kind : -1;
}

void value_defect_name(struct row *row, sqlite3_context *ctx)
{
    if (row_defect_kind(row) >= 0)
        result_word(ctx, defect_name((enum defect_kind)row_defect_kind(row)));
}

void value_defect_severity(struct row *row, sqlite3_context *ctx)
{
    if (row_defect_kind(row) >= 0)
        result_word(ctx, defect_loses_data((enum defect_kind)row_defect_kind(row)) ? "data_loss" : "info");
}

void value_defect_source(struct row *row, sqlite3_context *ctx)
{
    result_word(ctx, "analysis");
}

void value_defect_text(struct row *row, sqlite3_context *ctx)
{
    if (row_defect_kind(row) >= 0)
        result_word(ctx, defect_text((enum defect_kind)row_defect_kind(row)));
}

static int row_meta_key(const struct row *row)
{
    int64_t key = row_cell(row, COL_meta_key);

    return key >= 0 && key < _META_MAX ? (int)key : -1;
}

void value_meta_name(struct row *row, sqlite3_context *ctx)
{
    if (row_meta_key(row) >= 0)
        result_word(ctx, meta_name((enum meta_key)row_meta_key(row)));
}

void value_meta_type(struct row *row, sqlite3_context *ctx)
{
    result_word(ctx, "single");
}

void value_meta_int(struct row *row, sqlite3_context *ctx)
{
    int64_t value = row_cell(row, COL_meta_value);

    if (row_meta_key(row) >= 0 && !meta_is_text((enum meta_key)row_meta_key(row)) && value != COLUMN_NULL)
        sqlite3_result_int64(ctx, value);
}

void value_meta_text(struct row *row, sqlite3_context *ctx)
{
    if (row_meta_key(row) >= 0 && meta_is_text((enum meta_key)row_meta_key(row)))
        result_text(row, ctx, row_cell(row, COL_meta_value));
}

/* From the end of the launching call to the beginning of the GPU event. */
void value_delay(struct row *row, sqlite3_context *ctx)
{
    int64_t gpu = row_cell(row, COL_launch_gpu), runtime = row_cell(row, COL_launch_runtime), begin, call,
            dur;

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
    int64_t begin = row_cell(row, COL_slice_ts), before, dur;

    if (row->before == ROW_NONE)
        return;
    before = cells_get(row->cells, COL_slice_ts, row->before);
    dur = cells_get(row->cells, COL_slice_dur, row->before);
    if (begin != COLUMN_NULL && before != COLUMN_NULL && dur != COLUMN_NULL)
        sqlite3_result_int64(ctx, difference_of(difference_of(begin, before), dur));
}

void value_average(struct row *row, sqlite3_context *ctx)
{
    int64_t sum = row_cell(row, COL_name_sum), count = row_cell(row, COL_name_count);

    if (sum != COLUMN_NULL && count > 0)
        sqlite3_result_double(ctx, (double)sum / (double)count);
}
