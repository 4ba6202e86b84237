/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/audit/document.h"

#include "base/alloc.h"
#include <math.h>
#include <stdarg.h>

static struct block *add(struct document *d, enum block_kind kind, char *take_text)
{
    VEC_GROW(d->blocks, d->n, d->cap);
    d->blocks[d->n] = (struct block){.kind = kind, .text = take_text};
    return &d->blocks[d->n++];
}

static char *format_text(const char *format, va_list arguments)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    vfprintf(out, format, arguments);
    fclose(out);
    return text;
}

void document_heading(struct document *d, const char *text)
{
    add(d, BLOCK_HEADING, xstrdup(text));
}

void document_text(struct document *d, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add(d, BLOCK_TEXT, format_text(format, arguments));
    va_end(arguments);
}

void document_item(struct document *d, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add(d, BLOCK_ITEM, format_text(format, arguments));
    va_end(arguments);
}

struct table_block *document_table(struct document *d, const char *const *headings, size_t n)
{
    struct table_block *t = &add(d, BLOCK_TABLE, NULL)->table;

    t->n_columns = MIN(n, (size_t)TABLE_COLUMNS_MAX);
    for (size_t i = 0; i < t->n_columns; i++) {
        t->is_text[i] = headings[i][0] == '=';
        t->headings[i] = headings[i] + t->is_text[i];
    }
    return t;
}

void table_row(struct table_block *t, char *const *take_cells)
{
    if (t->n_rows == t->cap_rows) {
        t->cap_rows = t->cap_rows ? 2 * t->cap_rows : 8;
        t->cells = xrealloc(t->cells, t->cap_rows * t->n_columns, sizeof(*t->cells));
    }
    for (size_t i = 0; i < t->n_columns; i++)
        t->cells[t->n_rows * t->n_columns + i] = take_cells[i] ? take_cells[i] : xstrdup("-");
    t->n_rows++;
}

struct plot_block *document_plot(struct document *d, const char *caption, const char *x_label,
                                 const char *y_label)
{
    struct plot_block *p = &add(d, BLOCK_PLOT, xstrdup(caption))->plot;

    p->x_label = x_label;
    p->y_label = y_label;
    p->mark_x = NAN;
    return p;
}

void plot_point(struct plot_block *p, double x, double y)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        p->x = xrealloc(p->x, p->cap, sizeof(*p->x));
        p->y = xrealloc(p->y, p->cap, sizeof(*p->y));
    }
    p->x[p->n] = x;
    p->y[p->n++] = y;
}

void document_done(struct document *d)
{
    for (size_t i = 0; i < d->n; i++) {
        struct block *b = &d->blocks[i];
        free(b->text);
        if (b->kind == BLOCK_TABLE) {
            for (size_t k = 0; k < b->table.n_rows * b->table.n_columns; k++)
                free(b->table.cells[k]);
            free(b->table.cells);
        } else if (b->kind == BLOCK_PLOT) {
            free(b->plot.x);
            free(b->plot.y);
        }
    }
    free(d->blocks);
    free(d->title);
    *d = (struct document){0};
}
