/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report gives: rows of cells, in the order of importance. A report adds a row at a time, by the names of
 * its columns (EMIT_ROW); an aggregation adds one cell after the other, in the order of its figures.
 *
 * Texts are copied. An allocation that fails is remembered and returned by report_rows_error(), so that reports
 * do not look after each cell.
 */
#pragma once

#include "trace/columns/columns.h"
#include <math.h>

enum cell_type { CELL_NULL, CELL_INT, CELL_REAL, CELL_TEXT };

struct cell {
    enum cell_type type;
    union {
        int64_t integer;
        double real;
        const char *text; /* UTF-8, as the trace has it: whoever prints it cleans it */
    };
};

/* Texts recur: a copy of one that was added lately is shared. */
#define REPORT_TEXTS_RECENT 64

struct report_rows {
    size_t n_columns;
    struct cell *cells; /* row after row */
    size_t n_cells, cap;
    struct report_text *texts; /* private */
    struct report_text *recent[REPORT_TEXTS_RECENT];
    size_t text_bytes; /* private: of all texts */
    int error;
};

void report_rows_init(struct report_rows *rows, size_t n_columns);
void report_rows_done(struct report_rows *rows);
/* 0, -ENOMEM, or -E2BIG of too much text. */
int report_rows_error(const struct report_rows *rows);

static inline size_t report_rows_count(const struct report_rows *rows)
{
    return rows->n_columns ? rows->n_cells / rows->n_columns : 0;
}

static inline const struct cell *report_rows_at(const struct report_rows *rows, size_t row, size_t column)
{
    return &rows->cells[row * rows->n_columns + column];
}

void emit_null(struct report_rows *rows);
/* COLUMN_NULL becomes no value. */
void emit_int(struct report_rows *rows, int64_t value);
/* What is no number becomes no value. */
void emit_real(struct report_rows *rows, double value);
/* A C++ symbol is demangled (kernel_name_demangle()). */
void emit_text(struct report_rows *rows, struct text text);
/* NULL becomes no value. */
void emit_str(struct report_rows *rows, const char *text);
/* A copy of a cell of other rows. */
void emit_copy(struct report_rows *rows, const struct cell *cell);

/*
 * The columns of a report and its rows as a struct, from one list of C(name, unit, meaning, further members of struct
 * report_column):
 *
 *     #define LAUNCH_COLUMNS(C) C(name, TEXT, "name of the call") C(sum_ns, NS, "total duration")
 *     REPORT_ROW(launch, LAUNCH_COLUMNS);
 *
 * A member of struct launch_row is a text, a number with a fraction, or an integer, by the unit; it is set by the
 * name of its column: EMIT_ROW(launch, ret, .name = name, .sum_ns = sum).
 */
#define ROW_MEMBER_TEXT               struct text
#define ROW_MEMBER_ID                 int64_t
#define ROW_MEMBER_COUNT              int64_t
#define ROW_MEMBER_NS                 int64_t
#define ROW_MEMBER_BYTES              int64_t
#define ROW_MEMBER_BYTES_PER_S        double
#define ROW_MEMBER_SHARE              double
#define ROW_MEMBER_FACTOR             double
#define ROW_MEMBER(column, kind, ...) ROW_MEMBER_##kind column;
#define ROW_COLUMN(column, kind, text, ...)                                                                  \
    {.name = #column, .unit = UNIT_##kind, .meaning = text, __VA_ARGS__},
#define REPORT_ROW(report, COLUMNS)                                                                          \
    struct report##_row {                                                                                    \
        COLUMNS(ROW_MEMBER)                                                                                  \
    };                                                                                                       \
    static const struct report_column report##_columns[] = {COLUMNS(ROW_COLUMN)}
/* Members that are not set are 0, or no text. */
#define EMIT_ROW(report, rows, ...)                                                                          \
    report_rows_emit(rows, report##_columns, ARRAY_SIZE(report##_columns),                                   \
                     &(const struct report##_row){__VA_ARGS__})

struct report_column;
/* Adds a row, a struct of the columns' members. COLUMN_NULL, NAN and a text without address become no value. */
void report_rows_emit(struct report_rows *rows, const struct report_column *columns, size_t n,
                      const void *row);

/* Texts and shares as members of a row. No text: of NULL, of COLUMN_NULL, of an empty text. */
static inline struct text row_str(const char *text)
{
    return text ? (struct text){text, strlen(text)} : (struct text){0};
}

static inline struct text row_text(const struct columns *c, int64_t number)
{
    struct text none = {0};

    return number == COLUMN_NULL ? none : columns_text(c, number);
}

/* No value if the total is 0. */
static inline double row_share(int64_t part, int64_t total)
{
    return total == 0 ? NAN : (double)part / (double)total;
}

/* Adds the rows of another, which has as many columns. */
void report_rows_append(struct report_rows *rows, const struct report_rows *from);
/* Orders rows by a column, smallest or largest first, no value last; equal ones stay in their order. -ENOMEM.
 */
int report_rows_sort(struct report_rows *rows, size_t column, bool largest_first);
