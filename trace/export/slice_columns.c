/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/slice_columns.h"

#include "trace/columns/column_cursor.h"
#include "trace/export/merge_ranks.h"
#include "trace/parquet/rows.h"
#include "trace/read/sum.h"
#include <errno.h>
#include <math.h>

/* Columns of arguments from which one value comes: the first that the slice has. */
#define ALTERNATIVES_MAX 3
#define NS_PER_US        1000
#define ROW_NONE         UINT64_MAX

struct slice_column {
    struct parquet_column column;
    int (*put)(struct slice_writer *s, const struct slice_column *column);
    unsigned
        of[ALTERNATIVES_MAX]; /* offset in the identity, enum column or enum track_fact; 0 after the last */
};

/* Facts of a track that its slices share. */
enum track_fact { TRACK_PROCESS_NAME, TRACK_THREAD_NAME, TRACK_PID, TRACK_TID, _TRACK_FACT_MAX };

/* Tables whose rows belong to a slice, and the column with it. */
static const struct {
    enum column_table table;
    enum column key;
} slice_tables[] = {
    {TABLE_gpu, COL_gpu_slice},
    {TABLE_runtime, COL_runtime_slice},
    {TABLE_op, COL_op_slice},
    {TABLE_launch, COL_launch_gpu},
};

struct slice_writer {
    const struct export_trace *t;
    const struct columns *c;
    struct parquet_writer *w;
    int64_t *facts[_TRACK_FACT_MAX]; /* of each track */
    uint64_t tracks;
    uint64_t next[ARRAY_SIZE(slice_tables)]; /* row of the table at which the next slice is searched */
    /* The row group; values that are not present are undefined. */
    uint32_t n;
    uint64_t rows[PARQUET_GROUP_ROWS];
    uint64_t found[ARRAY_SIZE(slice_tables)][PARQUET_GROUP_ROWS]; /* row of the table for each slice */
    bool has[ARRAY_SIZE(slice_tables)];                           /* a row for any slice */
    int64_t values[PARQUET_GROUP_ROWS];
    double reals[PARQUET_GROUP_ROWS];
    uint32_t codes[PARQUET_GROUP_ROWS];
    uint8_t is_present[PARQUET_GROUP_ROWS];
};

/* -- Values ------------------------------------------------------------------------------------------------- */

static const char *slice_get_text(const void *columns, uint32_t number, size_t *ret_size)
{
    struct text t = columns_text(columns, number);

    *ret_size = t.size;
    return t.p ? t.p : "";
}

/* s->values as numbers of texts. */
static int slice_put_text_values(struct slice_writer *s)
{
    struct parquet_texts texts = {columns_texts(s->c), slice_get_text, s->c};

    for (uint32_t i = 0; i < s->n; i++)
        s->codes[i] = s->values[i] >= 0 && s->values[i] < texts.n ? (uint32_t)s->values[i] : PARQUET_NO_TEXT;
    return parquet_put_texts(s->w, s->codes, &texts);
}

/* s->values, COLUMN_NULL for a missing one. */
static int slice_put_values(struct slice_writer *s, const struct slice_column *column)
{
    bool all = true;

    if (column->column.type == PARQUET_TEXT)
        return slice_put_text_values(s);
    for (uint32_t i = 0; i < s->n; i++) {
        s->is_present[i] = s->values[i] != COLUMN_NULL;
        all = all && s->is_present[i];
    }
    return parquet_put_numbers(s->w, s->values, all || column->column.is_required ? NULL : s->is_present);
}

static int slice_put_same(struct slice_writer *s, const struct slice_column *column, int64_t value)
{
    for (uint32_t i = 0; i < s->n; i++)
        s->values[i] = value;
    return slice_put_values(s, column);
}

static const char *slice_get_identity(const void *text, uint32_t number _unused_, size_t *ret_size)
{
    *ret_size = strlen(text);
    return text;
}

static int slice_put_identity_text(struct slice_writer *s, const struct slice_column *column)
{
    const char *text = NULL;

    if (s->t->identity)
        memcpy(&text, (const char *)s->t->identity + column->of[0], sizeof(text));
    struct parquet_texts texts = {text ? 1 : 0, slice_get_identity, text};
    for (uint32_t i = 0; i < s->n; i++)
        s->codes[i] = text ? 0 : PARQUET_NO_TEXT;
    return parquet_put_texts(s->w, s->codes, &texts);
}

static int slice_put_identity_number(struct slice_writer *s, const struct slice_column *column)
{
    int64_t number = COLUMN_NULL;

    if (s->t->identity)
        memcpy(&number, (const char *)s->t->identity + column->of[0], sizeof(number));
    return slice_put_same(s, column, number);
}

static int slice_put_id(struct slice_writer *s, const struct slice_column *column)
{
    for (uint32_t i = 0; i < s->n; i++)
        s->values[i] = (int64_t)s->rows[i];
    return slice_put_values(s, column);
}

static void slice_read(struct slice_writer *s, enum column column)
{
    struct column_cursor cursor = {.c = s->c, .column = column};

    for (uint32_t i = 0; i < s->n; i++)
        s->values[i] = column_cursor_get(&cursor, s->rows[i]);
}

static int slice_put_column(struct slice_writer *s, const struct slice_column *column)
{
    slice_read(s, column->of[0]);
    return slice_put_values(s, column);
}

/* In microseconds since 1970, rounded down. */
static int slice_put_started_at(struct slice_writer *s, const struct slice_column *column)
{
    int64_t shift = align_wall_shift(s->c), at;

    if (shift == COLUMN_NULL)
        return slice_put_same(s, column, COLUMN_NULL);
    slice_read(s, COL_slice_ts);
    for (uint32_t i = 0; i < s->n; i++) {
        bool is_known = s->values[i] != COLUMN_NULL && !__builtin_add_overflow(s->values[i], shift, &at);
        s->values[i] = is_known ? at / NS_PER_US - (at % NS_PER_US < 0) : COLUMN_NULL;
    }
    return slice_put_values(s, column);
}

/* Unknown for an unfinished slice. */
static int slice_put_self_dur(struct slice_writer *s, const struct slice_column *column)
{
    struct column_cursor child = {.c = s->c, .column = COL_slice_child};

    slice_read(s, COL_slice_dur);
    for (uint32_t i = 0; i < s->n; i++) {
        int64_t children = column_cursor_get(&child, s->rows[i]);
        bool is_known = s->values[i] >= 0 && children != COLUMN_NULL;
        s->values[i] = is_known ? difference_of(s->values[i], children) : COLUMN_NULL;
    }
    return slice_put_values(s, column);
}

static int slice_put_track(struct slice_writer *s, const struct slice_column *column)
{
    const int64_t *facts = s->facts[column->of[0]];

    slice_read(s, COL_slice_track);
    for (uint32_t i = 0; i < s->n; i++)
        s->values[i] = (uint64_t)s->values[i] < s->tracks ? facts[s->values[i]] : COLUMN_NULL;
    return slice_put_values(s, column);
}

static size_t slice_table_of(enum column column)
{
    size_t i = 0;

    while (slice_tables[i].table != column_specs[column].table)
        i++;
    return i;
}

/* Arguments: the values of s->values that are missing until now. */
static void slice_read_args(struct slice_writer *s, enum column column)
{
    struct column_cursor cursor = {.c = s->c, .column = column};
    size_t table = slice_table_of(column);

    for (uint32_t i = 0; i < s->n && s->has[table]; i++)
        if (s->values[i] == COLUMN_NULL && s->found[table][i] != ROW_NONE)
            s->values[i] = column_cursor_get(&cursor, s->found[table][i]);
}

static void slice_read_alternatives(struct slice_writer *s, const struct slice_column *column)
{
    for (uint32_t i = 0; i < s->n; i++)
        s->values[i] = COLUMN_NULL;
    for (size_t i = 0; i < ALTERNATIVES_MAX && column->of[i] > 0; i++)
        slice_read_args(s, column->of[i]);
}

static int slice_put_args(struct slice_writer *s, const struct slice_column *column)
{
    slice_read_alternatives(s, column);
    return slice_put_values(s, column);
}

/* NaN for digits that are no finite number. */
static double slice_parse_real(struct text text)
{
    char digits[64], *end;

    if (text.size == 0 || text.size >= sizeof(digits))
        return NAN;
    memcpy(digits, text.p, text.size);
    digits[text.size] = '\0';
    double value = strtod(digits, &end);
    return end == digits + text.size && isfinite(value) ? value : NAN;
}

static int slice_put_real(struct slice_writer *s, const struct slice_column *column)
{
    int64_t last = COLUMN_NULL;
    double value = NAN;

    slice_read_alternatives(s, column);
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->values[i] != last)
            value = slice_parse_real(columns_text(s->c, s->values[i]));
        last = s->values[i];
        s->reals[i] = value;
        s->is_present[i] = !isnan(value);
    }
    return parquet_put_reals(s->w, s->reals, s->is_present);
}

/* -- The table ---------------------------------------------------------------------------------------------- */

#define IDENTITY(id, name, member)                                                                           \
    {                                                                                                        \
        {name, id, PARQUET_TEXT, PARQUET_PLAIN, false}, slice_put_identity_text,                             \
        {                                                                                                    \
            offsetof(struct export_identity, member)                                                         \
        }                                                                                                    \
    }
#define IDENTITY_NUMBER(id, name, member)                                                                    \
    {                                                                                                        \
        {name, id, PARQUET_INT64, PARQUET_PLAIN, false}, slice_put_identity_number,                          \
        {                                                                                                    \
            offsetof(struct export_identity, member)                                                         \
        }                                                                                                    \
    }
#define NUMBER(id, name, encoding, is_required, put, ...)                                                    \
    {                                                                                                        \
        {name, id, PARQUET_INT64, encoding, is_required}, put,                                               \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define TEXT(id, name, put, of_)                                                                             \
    {                                                                                                        \
        {name, id, PARQUET_TEXT, PARQUET_PLAIN, false}, put,                                                 \
        {                                                                                                    \
            of_                                                                                              \
        }                                                                                                    \
    }
#define ARG(id, name, ...)                                                                                   \
    {                                                                                                        \
        {name, id, PARQUET_INT64, PARQUET_PLAIN, false}, slice_put_args,                                     \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define REAL(id, name, of_)                                                                                  \
    {                                                                                                        \
        {name, id, PARQUET_DOUBLE, PARQUET_PLAIN, false}, slice_put_real,                                    \
        {                                                                                                    \
            of_                                                                                              \
        }                                                                                                    \
    }

/* clang-format off */
static const struct slice_column slice_columns[] = {
    IDENTITY(1, "catalog", catalog),
    IDENTITY(2, "session", session),
    IDENTITY(3, "trace", trace),
    IDENTITY(4, "host", host),
    IDENTITY(5, "worker", worker),
    IDENTITY(6, "instance", instance),
    IDENTITY_NUMBER(7, "rank", rank),
    IDENTITY_NUMBER(8, "trace_id", trace_id),
    NUMBER(9, "id", PARQUET_DIFFERENCE, true, slice_put_id, 0),
    NUMBER(10, "ts", PARQUET_DIFFERENCE, true, slice_put_column, COL_slice_ts),
    NUMBER(11, "dur", PARQUET_PLAIN, false, slice_put_column, COL_slice_dur),
    {{"started_at", 12, PARQUET_MICROS, PARQUET_DIFFERENCE, false}, slice_put_started_at, {0}},
    TEXT(13, "category", slice_put_column, COL_slice_category),
    TEXT(14, "name", slice_put_column, COL_slice_name),
    TEXT(15, "process", slice_put_track, TRACK_PROCESS_NAME),
    TEXT(16, "thread", slice_put_track, TRACK_THREAD_NAME),
    NUMBER(17, "pid", PARQUET_PLAIN, false, slice_put_track, TRACK_PID),
    NUMBER(18, "tid", PARQUET_PLAIN, false, slice_put_track, TRACK_TID),
    NUMBER(19, "track_id", PARQUET_PLAIN, false, slice_put_column, COL_slice_track),
    NUMBER(20, "depth", PARQUET_PLAIN, false, slice_put_column, COL_slice_depth),
    NUMBER(21, "parent_id", PARQUET_DIFFERENCE, false, slice_put_column, COL_slice_parent),
    NUMBER(22, "self_dur", PARQUET_PLAIN, false, slice_put_self_dur, 0),
    ARG(23, "device", COL_gpu_device),
    ARG(24, "stream", COL_gpu_stream),
    ARG(25, "context", COL_gpu_context),
    {{"correlation", 26, PARQUET_INT64, PARQUET_DIFFERENCE, false}, slice_put_args, {COL_gpu_correlation, COL_runtime_correlation}},
    {{"external_id", 27, PARQUET_INT64, PARQUET_DIFFERENCE, false}, slice_put_args, {COL_gpu_external_id, COL_runtime_external_id, COL_op_external_id}},
    {{"launch_id", 28, PARQUET_INT64, PARQUET_DIFFERENCE, false}, slice_put_args, {COL_launch_runtime}},
    ARG(29, "grid_x", COL_gpu_grid_x),
    ARG(30, "grid_y", COL_gpu_grid_y),
    ARG(31, "grid_z", COL_gpu_grid_z),
    ARG(32, "block_x", COL_gpu_block_x),
    ARG(33, "block_y", COL_gpu_block_y),
    ARG(34, "block_z", COL_gpu_block_z),
    ARG(35, "registers", COL_gpu_registers),
    ARG(36, "shared_memory", COL_gpu_shared_memory),
    REAL(37, "blocks_per_sm", COL_gpu_blocks_per_sm),
    REAL(38, "warps_per_sm", COL_gpu_warps_per_sm),
    REAL(39, "occupancy", COL_gpu_occupancy),
    ARG(40, "graph_id", COL_gpu_graph_id),
    ARG(41, "graph_node_id", COL_gpu_graph_node_id),
    ARG(42, "bytes", COL_gpu_bytes),
    REAL(43, "bandwidth", COL_gpu_bandwidth),
};
/* clang-format on */

int slice_columns_list(struct parquet_column **ret, size_t *ret_n)
{
    struct parquet_column *columns = calloc(ARRAY_SIZE(slice_columns), sizeof(*columns));

    if (!columns)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(slice_columns); i++)
        columns[i] = slice_columns[i].column;
    *ret = columns;
    *ret_n = ARRAY_SIZE(slice_columns);
    return 0;
}

/* -- Row groups --------------------------------------------------------------------------------------------- */

/* As in SQL: without a name, or with an empty one, the text of the number. */
static int64_t slice_name_or_text(const struct columns *c, enum column name, enum column text, int64_t row)
{
    int64_t named = row < 0 ? COLUMN_NULL : columns_get(c, name, (uint64_t)row),
            number = row < 0 ? COLUMN_NULL : columns_get(c, text, (uint64_t)row);

    return columns_text(c, named).size == 0 && number != COLUMN_NULL ? number : named;
}

/* A number that is not a text in the trace. */
static int64_t slice_number(const struct columns *c, enum column number, enum column text, int64_t row)
{
    return row < 0 || columns_get(c, text, (uint64_t)row) > 0 ? COLUMN_NULL
                                                              : columns_get(c, number, (uint64_t)row);
}

static void slice_read_track(struct slice_writer *s, uint64_t track)
{
    int64_t process = columns_get(s->c, COL_track_process, track),
            thread = columns_get(s->c, COL_track_thread, track);

    s->facts[TRACK_PROCESS_NAME][track] =
        slice_name_or_text(s->c, COL_process_name, COL_process_pid_text, process);
    s->facts[TRACK_THREAD_NAME][track] =
        slice_name_or_text(s->c, COL_thread_name, COL_thread_tid_text, thread);
    s->facts[TRACK_PID][track] = slice_number(s->c, COL_process_pid, COL_process_pid_text, process);
    s->facts[TRACK_TID][track] = slice_number(s->c, COL_thread_tid, COL_thread_tid_text, thread);
}

int slice_writer_new(const struct export_trace *t, struct parquet_writer *w, struct slice_writer **ret)
{
    _cleanup_(slice_writer_freep) struct slice_writer *s = malloc(sizeof(*s));

    if (!s)
        return -ENOMEM;
    /* Not the values of a row group, which are megabytes and are set before they are read. */
    memset(s, 0, offsetof(struct slice_writer, rows));
    s->t = t;
    s->c = t->columns;
    s->w = w;
    s->tracks = columns_rows(s->c, TABLE_track);
    for (size_t i = 0; i < _TRACK_FACT_MAX; i++) {
        s->facts[i] = calloc(s->tracks + 1, sizeof(*s->facts[i]));
        if (!s->facts[i])
            return -ENOMEM;
    }
    for (uint64_t track = 0; track < s->tracks; track++)
        slice_read_track(s, track);
    *ret = TAKE_PTR(s);
    return 0;
}

struct slice_writer *slice_writer_free(struct slice_writer *s)
{
    for (size_t i = 0; s && i < _TRACK_FACT_MAX; i++)
        free(s->facts[i]);
    free(s);
    return NULL;
}

/* Rows of the row group and of the table both ascend. */
static void slice_find_rows(struct slice_writer *s, size_t table)
{
    struct column_cursor keys = {.c = s->c, .column = slice_tables[table].key};
    uint64_t end = columns_rows(s->c, slice_tables[table].table), row = s->next[table];

    s->has[table] = false;
    for (uint32_t i = 0; i < s->n; i++) {
        while (row < end && column_cursor_get(&keys, row) < (int64_t)s->rows[i])
            row++;
        bool is_found = row < end && column_cursor_get(&keys, row) == (int64_t)s->rows[i];
        s->found[table][i] = is_found ? row : ROW_NONE;
        s->has[table] = s->has[table] || is_found;
    }
    s->next[table] = row;
}

int slice_writer_end(struct slice_writer *s)
{
    int r = s->n > 0 ? parquet_begin_group(s->w, s->n) : 0;

    for (size_t i = 0; i < ARRAY_SIZE(slice_tables); i++)
        slice_find_rows(s, i);
    for (size_t i = 0; i < ARRAY_SIZE(slice_columns) && r == 0 && s->n > 0; i++)
        r = slice_columns[i].put(s, &slice_columns[i]);
    s->n = 0;
    return r;
}

int slice_writer_add(struct slice_writer *s, uint64_t row)
{
    s->rows[s->n++] = row;
    return s->n == PARQUET_GROUP_ROWS ? slice_writer_end(s) : 0;
}
