/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/report_rows.h"

#include "base/array.h"
#include "trace/reports/kernel_name.h"
#include "trace/reports/report.h"
#include <errno.h>

/* A name as long as the trace may be that of every row. */
#define TEXTS_MAX ((size_t)1 << 30)

struct report_text {
    struct report_text *next;
    char *demangled; /* what is shown instead of text; NULL: text itself */
    size_t size;
    char text[];
};

static const char *report_text_shown(const struct report_text *t)
{
    return t->demangled ? t->demangled : t->text;
}

void report_rows_init(struct report_rows *rows, size_t n_columns)
{
    *rows = (struct report_rows){.n_columns = n_columns};
}

void report_rows_done(struct report_rows *rows)
{
    while (rows->texts) {
        struct report_text *next = rows->texts->next;
        free(rows->texts->demangled);
        free(rows->texts);
        rows->texts = next;
    }
    free(rows->cells);
    *rows = (struct report_rows){0};
}

int report_rows_error(const struct report_rows *rows)
{
    return rows->error;
}

static void report_rows_add_cell(struct report_rows *rows, struct cell cell)
{
    if (!ARRAY_RESERVE(rows->cells, rows->cap, rows->n_cells + 1)) {
        rows->error = -ENOMEM;
        return;
    }
    rows->cells[rows->n_cells++] = cell;
}

void emit_null(struct report_rows *rows)
{
    report_rows_add_cell(rows, (struct cell){.type = CELL_NULL});
}

void emit_int(struct report_rows *rows, int64_t value)
{
    report_rows_add_cell(
        rows, (struct cell){.type = value == COLUMN_NULL ? CELL_NULL : CELL_INT, .integer = value});
}

void emit_real(struct report_rows *rows, double value)
{
    report_rows_add_cell(rows, (struct cell){.type = isfinite(value) ? CELL_REAL : CELL_NULL, .real = value});
}

void emit_text(struct report_rows *rows, struct text text)
{
    struct report_text **recent = &rows->recent[((uintptr_t)text.p >> 3 ^ text.size) % REPORT_TEXTS_RECENT],
                       *copy = *recent;

    if (copy && copy->size == text.size && memcmp(copy->text, text.p, text.size) == 0) {
        report_rows_add_cell(rows, (struct cell){.type = CELL_TEXT, .text = report_text_shown(copy)});
        return;
    }
    bool is_too_much = rows->text_bytes > TEXTS_MAX || text.size > TEXTS_MAX - rows->text_bytes;
    copy = is_too_much ? NULL : malloc(sizeof(*copy) + text.size + 1);
    if (!copy) {
        rows->error = is_too_much ? -E2BIG : -ENOMEM;
        return;
    }
    rows->text_bytes += text.size;
    copy->next = rows->texts;
    copy->size = text.size;
    rows->texts = *recent = copy;
    if (text.size > 0)
        memcpy(copy->text, text.p, text.size);
    copy->text[text.size] = '\0';
    copy->demangled = kernel_name_demangle(text);
    rows->text_bytes += copy->demangled ? strlen(copy->demangled) : 0;
    report_rows_add_cell(rows, (struct cell){.type = CELL_TEXT, .text = report_text_shown(copy)});
}

void emit_str(struct report_rows *rows, const char *text)
{
    if (text)
        emit_text(rows, (struct text){text, strlen(text)});
    else
        emit_null(rows);
}

void report_rows_emit(struct report_rows *rows, const struct report_column *columns, size_t n,
                      const void *row)
{
    const char *at = row;

    for (size_t i = 0; i < n; i++)
        switch (columns[i].unit) {
        case UNIT_TEXT: {
            const struct text *text = (const void *)at;
            if (text->p)
                emit_text(rows, *text);
            else
                emit_null(rows);
            at += sizeof(*text);
            break;
        }
        case UNIT_SHARE:
        case UNIT_FACTOR:
        case UNIT_BYTES_PER_S:
            emit_real(rows, *(const double *)(const void *)at);
            at += sizeof(double);
            break;
        default:
            emit_int(rows, *(const int64_t *)(const void *)at);
            at += sizeof(int64_t);
        }
}

void emit_copy(struct report_rows *rows, const struct cell *cell)
{
    if (cell->type == CELL_TEXT)
        emit_str(rows, cell->text);
    else
        report_rows_add_cell(rows, *cell);
}

void report_rows_append(struct report_rows *rows, const struct report_rows *from)
{
    for (size_t i = 0; i < from->n_cells; i++)
        emit_copy(rows, &from->cells[i]);
    if (from->error < 0)
        rows->error = from->error;
}

/* -- Order -------------------------------------------------------------------------------------------- */

struct report_rows_key {
    struct cell cell;
    size_t row;
};

static int compare_cells(const struct cell *a, const struct cell *b)
{
    if (a->type == CELL_TEXT && b->type == CELL_TEXT)
        return strcmp(a->text, b->text);
    if (a->type == CELL_INT && b->type == CELL_INT)
        return (a->integer > b->integer) - (a->integer < b->integer);
    double x = a->type == CELL_REAL ? a->real : (double)a->integer,
           y = b->type == CELL_REAL ? b->real : (double)b->integer;
    return (x > y) - (x < y);
}

static int report_rows_compare_keys(const void *x, const void *y, void *arg)
{
    const struct report_rows_key *a = x, *b = y;
    const bool *largest_first = arg;
    bool no_a = a->cell.type == CELL_NULL, no_b = b->cell.type == CELL_NULL;
    int order = no_a || no_b ? no_a - no_b : compare_cells(&a->cell, &b->cell);

    if (*largest_first && !no_a && !no_b)
        order = -order;
    return order ? order : (a->row > b->row) - (a->row < b->row);
}

int report_rows_sort(struct report_rows *rows, size_t column, bool largest_first)
{
    size_t n = report_rows_count(rows), width = rows->n_columns;
    _cleanup_(freep) struct report_rows_key *keys = calloc(n + 1, sizeof(*keys));
    struct cell *cells = calloc(rows->n_cells + 1, sizeof(*cells));

    if (!keys || !cells) {
        free(cells);
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        keys[i] = (struct report_rows_key){*report_rows_at(rows, i, column), i};
    qsort_r(keys, n, sizeof(*keys), report_rows_compare_keys, &largest_first);
    for (size_t i = 0; i < n; i++)
        memcpy(&cells[i * width], &rows->cells[keys[i].row * width], width * sizeof(*cells));
    free(rows->cells);
    rows->cells = cells;
    rows->cap = rows->n_cells + 1;
    return 0;
}
