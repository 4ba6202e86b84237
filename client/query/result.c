/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/result.h"

#include "base/alloc.h"
#include "base/json.h"
#include "client/cli/text.h"
#include "client/views/document.h"
#include <math.h>

/* Rows that are aligned with each other and held in memory. */
#define TABLE_ROWS  5000
#define TABLE_BYTES (16 << 20)
/* Minimum width of a shortened text. */
#define TEXT_LEAST 20

struct printer {
    const struct screen *out;
    const struct result_options *o;
    const struct result_source *source;
    int n_columns;
    int64_t rows;
    /* of a table */
    struct table *table; /* of the rows that are not printed yet; NULL: none */
    struct table_column *columns;
    size_t table_bytes;
    /* of JSON */
    char **keys; /* as JSON text */
};

struct format {
    void (*begin)(struct printer *p);
    void (*row)(struct printer *p);
    void (*end)(struct printer *p); /* after the last row of a statement that succeeded */
    void (*leave)(struct printer *p);
};

void result_real_text(double value, char *ret)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(ret, RESULT_REAL_TEXT, "%.*g", digits, value);
        if (strtod(ret, NULL) == value) // cppcheck-suppress invalidTestForOverflow
            break;
    }
    if (isinf(value))
        strcpy(ret, value < 0 ? "-1e999" : "1e999");
    else if (!strpbrk(ret, ".en"))
        strcat(ret, ".0");
}

static const char *result_name(const struct printer *p, int column)
{
    return p->source->name(p->source->arg, column);
}

static enum result_type result_type(const struct printer *p, int column)
{
    return p->source->type(p->source->arg, column);
}

/* NULL for NULL. */
static char *result_text(const struct printer *p, int column)
{
    return p->source->text(p->source->arg, column);
}

/* -- Table -------------------------------------------------------------------------------------------- */

static void table_begin(struct printer *p)
{
    p->columns = xcalloc((size_t)p->n_columns, sizeof(*p->columns));
}

/* Begins a table of the rows from here on. */
static void table_begin_part(struct printer *p, size_t first_row)
{
    size_t n = (size_t)p->n_columns;
    _cleanup_(freep) size_t *all = xcalloc(n, sizeof(*all));

    for (size_t i = 0; i < n; i++) {
        all[i] = i;
        p->columns[i] = (struct table_column){
            .name = p->o->with_heading ? result_name(p, (int)i) : "",
            .flags = COLUMN_VERBATIM | COLUMN_RIGHT,
            .least = TEXT_LEAST,
        };
    }
    p->table = table_new(p->columns, n, p->o->with_heading);
    /* No column of a statement is less important than another. */
    table_select(p->table, all, n);
    table_set_first_row(p->table, first_row);
    p->table_bytes = 0;
}

static void table_end(struct printer *p)
{
    _cleanup_(document_done) struct document d = {0};

    if (!p->table && p->rows == 0)
        table_begin_part(p, 0);
    if (!p->table)
        return;
    document_take_table(&d, TAKE_PTR(p->table));
    document_print(&d, p->out, p->o->format);
}

static void table_row(struct printer *p)
{
    _cleanup_(freep) char **cells = xcalloc((size_t)p->n_columns, sizeof(*cells));

    if (!p->table)
        table_begin_part(p, (size_t)p->rows - 1);
    for (int i = 0; i < p->n_columns; i++) {
        cells[i] = result_text(p, i);
        p->table_bytes += cells[i] ? strlen(cells[i]) : 0;
        if (cells[i] && result_type(p, i) == RESULT_TEXT)
            p->columns[i].flags = COLUMN_VERBATIM | COLUMN_SHORTEN;
    }
    table_add(p->table, (const char *const *)cells);
    for (int i = 0; i < p->n_columns; i++) {
        if (!cells[i])
            table_colour(p->table, (size_t)i, COLOUR_DIM);
        free(cells[i]);
    }
    if (table_rows(p->table) == TABLE_ROWS || p->table_bytes > TABLE_BYTES)
        table_end(p);
}

/* Rows before an error are shown. */
static void table_leave(struct printer *p)
{
    if (p->table)
        table_end(p);
    free(p->columns);
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
        const char *name = result_name(p, i);
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
    _cleanup_(freep) char *text = result_text(p, column);

    if (!text) {
        fputs("null", p->out->file);
    } else if (result_type(p, column) == RESULT_NUMBER) {
        fputs(text, p->out->file);
    } else {
        _cleanup_json_ value = json_text(text);
        screen_json(p->out, value, 0);
    }
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
        _cleanup_(freep) char *text = result_text(p, i);
        separated_raw_field(p->out, p->o->format, i == 0, text);
    }
    separated_end(p->out, p->o->format);
}

static void separated_begin(struct printer *p)
{
    if (!p->o->with_heading)
        return;
    for (int i = 0; i < p->n_columns; i++)
        separated_raw_field(p->out, p->o->format, i == 0, result_name(p, i));
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

/* SQLite calls its progress handler after a number of steps; a row may have few and slow ones. */
static int next_row(const struct printer *p)
{
    bool is_over = p->o->bounded && bounded_is_over(p->o->bounded);
    return is_over ? SQLITE_INTERRUPT : p->source->step(p->source->arg);
}

static void note_rows(const struct printer *p)
{
    int64_t held = p->table ? (int64_t)table_rows(p->table) : 0;

    if (p->o->bounded)
        bounded_put_rows(p->o->bounded, p->out->file, p->rows - held);
}

struct result_end result_print_source(const struct screen *out, const struct result_options *o,
                                      const struct result_source *source)
{
    const struct format *f = &formats[o->format];
    struct printer p = {.out = out, .o = o, .source = source};
    int code = source->step(source->arg);

    p.n_columns = source->count(source->arg);
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

/* -- Statements of SQLite ----------------------------------------------------------------------------- */

static int statement_step(void *arg)
{
    return sqlite3_step(arg);
}

static int statement_count(void *arg)
{
    return sqlite3_column_count(arg);
}

static const char *statement_name(void *arg, int column)
{
    return sqlite3_column_name(arg, column);
}

static enum result_type statement_type(void *arg, int column)
{
    int type = sqlite3_column_type(arg, column);
    return type == SQLITE_INTEGER || type == SQLITE_FLOAT ? RESULT_NUMBER : RESULT_TEXT;
}

static char *statement_blob_text(sqlite3_stmt *statement, int column)
{
    const unsigned char *blob = sqlite3_column_blob(statement, column);
    size_t n = (size_t)sqlite3_column_bytes(statement, column);
    char *text = xcalloc(2 * n + 1, 1);

    for (size_t i = 0; i < n; i++)
        sprintf(text + 2 * i, "%02x", blob[i]);
    return text;
}

static char *statement_text(void *arg, int column)
{
    char real[RESULT_REAL_TEXT];
    const char *text;

    switch (sqlite3_column_type(arg, column)) {
    case SQLITE_NULL:
        return NULL;
    case SQLITE_BLOB:
        return statement_blob_text(arg, column);
    case SQLITE_FLOAT:
        result_real_text(sqlite3_column_double(arg, column), real);
        return xstrdup(real);
    default:
        text = (const char *)sqlite3_column_text(arg, column);
        return xstrdup(text ? text : "");
    }
}

struct result_end result_print(const struct screen *out, const struct result_options *o,
                               sqlite3_stmt *statement)
{
    const struct result_source source = {.step = statement_step,
                                         .count = statement_count,
                                         .name = statement_name,
                                         .type = statement_type,
                                         .text = statement_text,
                                         .arg = statement};
    return result_print_source(out, o, &source);
}
