/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/result.h"

#include "base/alloc.h"
#include "base/json.h"
#include "client/cli/screen.h"
#include "client/cli/text.h"
#include <math.h>

/* Rows that are aligned with each other, and held in memory until then. */
#define TABLE_ROWS  5000
#define TABLE_BYTES (16 << 20)
#define REAL_TEXT   40
/* To what a text is shortened at least. */
#define TEXT_LEAST 20

struct printer {
    const struct screen *out;
    const struct result_options *o;
    sqlite3_stmt *statement;
    int n_columns;
    int64_t rows;
    /* of a table */
    char **cells; /* of n_held rows; NULL is NULL */
    size_t n_held, n_held_bytes;
    bool *is_number; /* according to the rows held */
    /* of JSON */
    char **keys; /* as JSON text */
};

struct format {
    void (*begin)(struct printer *p);
    void (*row)(struct printer *p);
    void (*end)(struct printer *p); /* after the last row of a statement that succeeded */
    void (*leave)(struct printer *p);
};

static const char *column_text(const struct printer *p, int column)
{
    const char *text = (const char *)sqlite3_column_text(p->statement, column);
    return text ? text : "";
}

/* The fewest digits that read back as the same number. */
static void real_text(double value, char *ret)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(ret, REAL_TEXT, "%.*g", digits, value);
        if (strtod(ret, NULL) == value) // cppcheck-suppress invalidTestForOverflow
            break;
    }
    if (isinf(value))
        strcpy(ret, value < 0 ? "-1e999" : "1e999");
    else if (!strpbrk(ret, ".en"))
        strcat(ret, ".0");
}

static char *blob_text(const struct printer *p, int column)
{
    const unsigned char *blob = sqlite3_column_blob(p->statement, column);
    size_t n = (size_t)sqlite3_column_bytes(p->statement, column);
    char *text = xcalloc(2 * n + 1, 1);

    for (size_t i = 0; i < n; i++)
        sprintf(text + 2 * i, "%02x", blob[i]);
    return text;
}

/* NULL for NULL. */
static char *cell_text(const struct printer *p, int column)
{
    char real[REAL_TEXT];

    switch (sqlite3_column_type(p->statement, column)) {
    case SQLITE_NULL:
        return NULL;
    case SQLITE_BLOB:
        return blob_text(p, column);
    case SQLITE_FLOAT:
        real_text(sqlite3_column_double(p->statement, column), real);
        return xstrdup(real);
    default:
        return xstrdup(column_text(p, column));
    }
}

/* -- Table -------------------------------------------------------------------------------------------- */

static void table_begin(struct printer *p)
{
    p->cells = xcalloc((size_t)p->n_columns * TABLE_ROWS, sizeof(*p->cells));
    p->is_number = xcalloc((size_t)p->n_columns, sizeof(*p->is_number));
}

static void forget_rows(struct printer *p)
{
    for (size_t i = 0; i < p->n_held * (size_t)p->n_columns; i++)
        free(p->cells[i]);
    p->n_held = p->n_held_bytes = 0;
}

/* For rows that are wider than the terminal: a line for each value. */
static void print_records(struct printer *p)
{
    int64_t first = p->rows - (int64_t)p->n_held;
    unsigned column = 0;
    char number[32];

    for (int i = 0; i < p->n_columns; i++)
        column = MAX(column, text_columns(sqlite3_column_name(p->statement, i)) + 2);
    for (size_t row = 0; row < p->n_held; row++) {
        fprintf(p->out->file, "%srow %s%s\n", screen_colour(p->out, COLOUR_BOLD),
                text_number(number, first + (int64_t)row + 1), screen_plain(p->out));
        for (int i = 0; i < p->n_columns; i++) {
            const char *cell = p->cells[row * (size_t)p->n_columns + (size_t)i];
            field_print_at(p->out, column, sqlite3_column_name(p->statement, i), cell ? cell : "NULL");
        }
    }
}

static void print_table(struct printer *p)
{
    _cleanup_(freep) struct table_column *columns = xcalloc((size_t)p->n_columns, sizeof(*columns));
    _cleanup_(freep) const char **row = xcalloc((size_t)p->n_columns, sizeof(*row));

    for (int i = 0; i < p->n_columns; i++)
        columns[i] = (struct table_column){
            .name = p->o->with_heading ? sqlite3_column_name(p->statement, i) : "",
            .flags = COLUMN_VERBATIM | (p->is_number[i] ? COLUMN_RIGHT : COLUMN_SHORTEN),
            .least = TEXT_LEAST,
        };
    _cleanup_(table_freep) struct table *table = table_new(columns, (size_t)p->n_columns, p->o->with_heading);
    for (size_t i = 0; i < p->n_held; i++) {
        for (int k = 0; k < p->n_columns; k++)
            row[k] = p->cells[i * (size_t)p->n_columns + (size_t)k];
        table_add(table, row);
        for (int k = 0; k < p->n_columns; k++)
            if (!row[k])
                table_colour(table, (size_t)k, COLOUR_DIM);
    }
    if (p->o->format == TABLE_WIDE || table_fits(table, p->out))
        table_print_as(table, p->out, p->o->format);
    else
        print_records(p);
}

static void table_end(struct printer *p)
{
    if (p->n_held > 0 || p->rows == 0)
        print_table(p);
    forget_rows(p);
}

static void table_row(struct printer *p)
{
    for (int i = 0; i < p->n_columns; i++) {
        int type = sqlite3_column_type(p->statement, i);
        bool is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT || type == SQLITE_NULL;
        p->is_number[i] = is_number && (p->n_held == 0 || p->is_number[i]);
        char *cell = cell_text(p, i);
        p->cells[p->n_held * (size_t)p->n_columns + (size_t)i] = cell;
        p->n_held_bytes += cell ? strlen(cell) : 0;
    }
    if (++p->n_held == TABLE_ROWS || p->n_held_bytes > TABLE_BYTES)
        table_end(p);
}

/* Rows before an error are shown. */
static void table_leave(struct printer *p)
{
    if (p->n_held > 0)
        table_end(p);
    free(p->cells);
    free(p->is_number);
}

/* -- JSON --------------------------------------------------------------------------------------------- */

static bool has_key(const struct printer *p, int n, const char *key)
{
    for (int i = 0; i < n; i++)
        if (streq(p->keys[i], key))
            return true;
    return false;
}

static char *json_key(const struct printer *p, const char *name)
{
    _cleanup_json_ text = json_text(name);
    return p->out->is_tty ? text_json(text, 0) : json_dumps(text, JSON_ENCODE_ANY);
}

static void json_begin(struct printer *p)
{
    p->keys = xcalloc((size_t)p->n_columns, sizeof(*p->keys));
    for (int i = 0; i < p->n_columns; i++) {
        const char *name = sqlite3_column_name(p->statement, i);
        char *key = json_key(p, name);
        for (int k = 1; has_key(p, i, key); k++) {
            _cleanup_(freep) char *other = xasprintf("%s:%d", name, k);
            free(key);
            key = json_key(p, other);
        }
        p->keys[i] = key;
    }
    fputc('[', p->out->file);
}

static void json_cell(struct printer *p, int column)
{
    char real[REAL_TEXT];

    switch (sqlite3_column_type(p->statement, column)) {
    case SQLITE_NULL:
        fputs("null", p->out->file);
        return;
    case SQLITE_INTEGER:
        fputs(column_text(p, column), p->out->file);
        return;
    case SQLITE_FLOAT:
        real_text(sqlite3_column_double(p->statement, column), real);
        fputs(real, p->out->file);
        return;
    default:
        break;
    }
    _cleanup_(freep) char *text = cell_text(p, column);
    _cleanup_json_ value = json_text(text);
    screen_json(p->out, value, 0);
}

static void json_row(struct printer *p)
{
    fputs(p->rows > 1 ? ",\n" : "\n", p->out->file);
    for (int i = 0; i < p->n_columns; i++) {
        fprintf(p->out->file, "%c%s:", i == 0 ? '{' : ',', p->keys[i]);
        json_cell(p, i);
    }
    fputc('}', p->out->file);
}

static void json_end(struct printer *p)
{
    fputs(p->rows > 0 ? "\n]\n" : "]\n", p->out->file);
}

static void json_leave(struct printer *p)
{
    for (int i = 0; i < p->n_columns; i++)
        free(p->keys[i]);
    free(p->keys);
}

/* -- Separated values --------------------------------------------------------------------------------- */

static void separated_row(struct printer *p)
{
    for (int i = 0; i < p->n_columns; i++) {
        _cleanup_(freep) char *text = cell_text(p, i);
        separated_raw_field(p->out, p->o->format, i == 0, text);
    }
    separated_end(p->out, p->o->format);
}

static void separated_begin(struct printer *p)
{
    if (!p->o->with_heading)
        return;
    for (int i = 0; i < p->n_columns; i++)
        separated_raw_field(p->out, p->o->format, i == 0, sqlite3_column_name(p->statement, i));
    separated_end(p->out, p->o->format);
}

static void do_nothing(struct printer *p)
{
}

/* ----------------------------------------------------------------------------------------------------- */

static const struct format formats[_TABLE_FORMAT_MAX] = {
    [TABLE_FITTED] = {table_begin, table_row, table_end, table_leave},
    [TABLE_WIDE] = {table_begin, table_row, table_end, table_leave},
    [TABLE_JSON] = {json_begin, json_row, json_end, json_leave},
    [TABLE_CSV] = {separated_begin, separated_row, do_nothing, do_nothing},
    [TABLE_TSV] = {separated_begin, separated_row, do_nothing, do_nothing},
};

/* SQLite looks at the clock after some of its steps, of which a row may have few and slow ones. */
static int next_row(const struct printer *p)
{
    bool is_over = p->o->bounded && bounded_is_over(p->o->bounded);
    return is_over ? SQLITE_INTERRUPT : sqlite3_step(p->statement);
}

static void note_rows(const struct printer *p)
{
    if (p->o->bounded)
        bounded_put_rows(p->o->bounded, p->out->file, p->rows - (int64_t)p->n_held);
}

struct result_end result_print(const struct screen *out, const struct result_options *o,
                               sqlite3_stmt *statement)
{
    const struct format *f = &formats[o->format];
    struct printer p = {
        .out = out, .o = o, .statement = statement, .n_columns = sqlite3_column_count(statement)};
    int code = sqlite3_step(statement);

    if (p.n_columns == 0)
        return (struct result_end){.code = code};
    /* An error before the first row leaves stdout as it was. */
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return (struct result_end){.code = code};
    f->begin(&p);
    for (; code == SQLITE_ROW && p.rows < o->rows_max && !ferror(out->file); code = next_row(&p)) {
        p.rows++;
        f->row(&p);
        note_rows(&p);
    }
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        f->end(&p);
    f->leave(&p);
    note_rows(&p);
    return (struct result_end){.code = code, .rows = p.rows};
}
