/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables: columns with an importance, rows of cells, printed for people or as comma or tab
 * separated values for programs.
 *
 * Cells are copied, and cleaned for terminals. An absent cell (NULL) or an empty one is shown as "-"; in a verbatim
 * column as "NULL" and as an empty text.
 *
 * On a terminal that is too narrow, addresses lose their "http://", the least important columns are left out,
 * with a line below that names them, and texts that may be shortened get an ellipsis; addresses, ids and
 * numbers are never cut. If not even the columns that identify a row fit, each row is printed as a list of its
 * values. Without a terminal, a table is complete.
 */
#pragma once

#include "base/importance.h"
#include "client/cli/screen.h"

/* What a list or a report can be printed as. TABLE_WIDE: complete, however narrow the terminal is. */
enum table_format { TABLE_FITTED, TABLE_WIDE, TABLE_CSV, TABLE_TSV, TABLE_JSON, _TABLE_FORMAT_MAX };

enum {
    COLUMN_RIGHT = 1 << 0,
    COLUMN_SHORTEN = 1 << 1, /* a text that is still useful when it is shortened */
    COLUMN_URL = 1 << 2,     /* addresses: never shortened, also in a column that otherwise may be */
    COLUMN_PATH = 1 << 3,    /* shortened at its beginning */
    COLUMN_VERBATIM = 1 << 4,
    COLUMN_OPTIONAL = 1 << 5,   /* hidden from people if all its cells are empty */
    COLUMN_PROSE = 1 << 6,      /* sentences: a page shows them complete */
    COLUMN_SHARE = 1 << 7,      /* a page draws the value, 0 to 1, as a bar */
    COLUMN_ON_REQUEST = 1 << 8, /* hidden from people unless they select it: table_select() */
};

struct table_column {
    const char *name; /* the heading */
    unsigned flags;
    int importance;  /* enum importance */
    const char *key; /* the name for --columns and CSV; NULL: made of the heading ("TTFT ms": "ttft_ms") */
    unsigned least;  /* width to which it may be shortened; 0: SHORTENED_LEAST */
    /* How a longer text is shortened; NULL: by the flags. The caller frees what it returns. */
    char *(*fit)(const char *text, unsigned width);
    const char *meaning; /* shown to the pointer on a page, or NULL */
};

/* Minimum width of a shortened text: a shorter one is not useful. */
#define SHORTENED_LEAST 10u

struct table;

/* All columns, in their order. The columns are borrowed. */
struct table *table_new(const struct table_column *columns, size_t n_columns, bool with_heading);
struct table *table_free(struct table *t);
DEFINE_CLEANUP(struct table *, table_free)
/* Makes the columns of the table, and their names, its own: both are freed with it. */
void table_take_columns(struct table *t, struct table_column *take);

/* Prints these columns only, in this order: indexes, copied. They are all as important as can be. */
void table_select(struct table *t, const size_t *columns, size_t n);
/* The index of the first row, 0 by default: where rows are printed as lists, each has its number. */
void table_set_first_row(struct table *t, size_t first);
/* Whether a line below the table names the columns that are left out; the default is that of headings. */
void table_name_hidden(struct table *t, bool names_hidden);
/* Prints it after an indent. */
void table_indent(struct table *t, unsigned indent);
/* One cell for each column. */
void table_add(struct table *t, const char *const *cells);
/* Of the row that was added last: the value of a cell for programs, where it is not the text that people
 * read; NULL for no value. */
void table_set_value(struct table *t, size_t column, const char *value);
void table_set_int(struct table *t, size_t column, int64_t value);
void table_set_real(struct table *t, size_t column, double value); /* not finite: no value */
/* What is in the table: all columns, also those that are not printed. A cell as people read it, and its value
 * for programs; both may be NULL. */
size_t table_rows(const struct table *t);
size_t table_columns(const struct table *t);
const struct table_column *table_column(const struct table *t, size_t column);
const char *table_cell(const struct table *t, size_t row, size_t column);
const char *table_value(const struct table *t, size_t row, size_t column);

/* Colours a cell of the row that was added last. */
void table_colour(struct table *t, size_t column, enum colour c);

void table_print(struct table *t, const struct screen *s);
/* As a format other than JSON. Returns whether columns were left out. */
bool table_print_as(struct table *t, const struct screen *s, enum table_format format);
/* The table as text, each line after an indent, without the line that names hidden columns. The caller frees it. */
char *table_text(struct table *t, const struct screen *s, unsigned indent);

/* The name of a column for --columns and CSV. The caller frees it. */
char *table_column_key(const struct table_column *column);

/* A line of separated values: fields with separators between them, then the end of the line. NULL is no
 * value. separated_field() replaces control characters, which RFC 4180 has no place for, by '?', except the
 * end of a line; separated_raw_field() does so only on a terminal. */
void separated_raw_field(const struct screen *s, enum table_format format, bool is_first, const char *text);
void separated_field(const struct screen *s, enum table_format format, bool is_first, const char *text);
void separated_end(const struct screen *s, enum table_format format);
