/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/report_text.h"

#include "base/alloc.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "client/views/listing.h"
#include "client/views/report_data.h"
#include "client/views/report_format.h"

/* To what a text is shortened at least. */
#define TEXT_WIDTH_LEAST 24u
#define GAP              2u

/* Whose row it is: where rows differ in it, they make no sense without it. */
static bool is_identity(const struct report_column *column)
{
    static const char *const names[] = {"instance", "worker", "rank"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (streq(column->name, names[i]))
            return true;
    return false;
}

static bool is_same_in_all(const struct report_rows *rows, size_t n_rows, size_t column)
{
    for (size_t row = 1; row < n_rows; row++) {
        const struct cell *first = report_rows_at(rows, 0, column), *cell = report_rows_at(rows, row, column);
        if (cell->type != first->type ||
            (cell->type == CELL_TEXT ? !streq(cell->text, first->text) : cell->integer != first->integer))
            return false;
    }
    return true;
}

/* What names a row among those of the same rank: the first text or id after the columns of the identity. */
static size_t naming_column(const struct report *report)
{
    size_t i = 0;

    while (i < report->n_columns && is_identity(&report->columns[i]))
        i++;
    return i < report->n_columns && report->columns[i].unit <= UNIT_ID ? i : report->n_columns;
}

static int importance_of(const struct report *report, const struct report_rows *rows, size_t n_rows,
                         size_t column)
{
    const struct report_column *c = &report->columns[column];

    if (!is_identity(c))
        return column == naming_column(report) ? IMPORTANCE_KEY : c->importance;
    return is_same_in_all(rows, n_rows, column) ? IMPORTANCE_EXTRA : IMPORTANCE_KEY;
}

static void print_title(struct client *c, const struct report *report)
{
    _cleanup_(freep) char *title =
        text_wrap(report->title, (unsigned)strlen(report->name) + GAP, screen_text_width(&c->out));

    fprintf(c->out.file, "%s%s%s%*s%s\n", screen_colour(&c->out, COLOUR_BOLD), report->name,
            screen_plain(&c->out), (int)GAP, "", title);
}

static void add_row(struct table *table, const struct report *report, const struct report_rows *rows,
                    const struct time_scale *const *scales, size_t row)
{
    _cleanup_(freep) const char **cells = xcalloc(report->n_columns, sizeof(*cells));
    _cleanup_(freep) char *formatted = xcalloc(report->n_columns, CELL_TEXT_MAX);

    for (size_t i = 0; i < report->n_columns; i++)
        cells[i] = cell_format(formatted + i * CELL_TEXT_MAX, report->columns[i].unit, scales[i],
                               report_rows_at(rows, row, i));
    table_add(table, cells);
}

bool report_print_text(struct client *c, const struct report *report, const struct report_rows *rows,
                       size_t top, enum report_hint hint)
{
    size_t all = report_rows_count(rows), n = report->n_columns, n_rows = top > 0 ? MIN(all, top) : all;
    _cleanup_(freep) struct table_column *columns = xcalloc(n, sizeof(*columns));
    _cleanup_(freep) const struct time_scale **scales = xcalloc(n, sizeof(*scales));
    char **headings = xcalloc(n, sizeof(*headings));
    struct table *table;
    bool is_cut = false;

    column_scales(report, rows, n_rows, scales);
    for (size_t i = 0; i < n; i++) {
        const struct report_column *column = &report->columns[i];
        headings[i] = column_heading(column, scales[i]);
        columns[i] = (struct table_column){
            .name = headings[i],
            .flags = column->unit == UNIT_TEXT ? COLUMN_SHORTEN | COLUMN_URL : COLUMN_RIGHT,
            .importance = importance_of(report, rows, n_rows, i),
            .key = column->name,
            .least = TEXT_WIDTH_LEAST,
            .fit = kernel_name_fit,
        };
    }
    if (listing_table(c, columns, n, &table) == EXIT_DONE) {
        for (size_t row = 0; row < n_rows; row++)
            add_row(table, report, rows, scales, row);
        client_page(c);
        if (!c->no_legend)
            print_title(c, report);
        table_name_hidden(table, hint == REPORT_NAMES_HIDDEN);
        is_cut = table_print_as(table, &c->out, c->format);
        table_free(table);
    }
    for (size_t i = 0; i < n; i++)
        free(headings[i]);
    free(headings);
    if (all == 0 && !c->no_legend)
        fputs("nothing\n", c->out.file);
    if (n_rows < all && !c->no_legend)
        fprintf(c->out.file, "... %zu more (--top 0)\n", all - n_rows);
    return is_cut;
}

void report_print_made(struct client *c, const struct made_report *made, size_t top)
{
    struct report_rows rows;

    for (size_t at = 0; made_report_part(made, &at, &rows);) {
        report_print_text(c, made->report, &rows, top, REPORT_NAMES_HIDDEN);
        if (at < report_rows_count(&made->rows))
            fputc('\n', c->out.file);
    }
}
