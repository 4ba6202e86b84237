/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reports/report_text.h"

#include "base/alloc.h"
#include "client/reports/report_format.h"
#include "client/text/table.h"
#include "client/text/text.h"

/* What a text is cut to at least; and where there are several, or the screen is too narrow for it. */
#define TEXT_WIDTH_MIN   40u
#define TEXT_WIDTH_SHORT 24u
/* Columns beyond these may be left out where the terminal is narrow. */
#define COLUMNS_KEPT 4
#define GAP          2u

/* -- A table ------------------------------------------------------------------------------------------ */

struct layout {
    const struct report *report;
    const struct report_rows *rows;
    size_t n_rows;
    struct table_column *columns;
    const struct time_scale **scales;
    bool *hidden;
    unsigned least;      /* what a text is cut to at least */
    unsigned text_width; /* what a text may take */
};

static void layout_done(struct layout *l)
{
    for (size_t i = 0; i < l->report->n_columns; i++)
        free((char *)l->columns[i].name);
    free(l->columns);
    free(l->scales);
    free(l->hidden);
}

/* The widest of a column's cells, or of its heading. */
static unsigned widest_of(const struct layout *l, size_t column)
{
    const struct report_column *c = &l->report->columns[column];
    unsigned widest = text_columns(l->columns[column].name);
    char buf[CELL_TEXT_MAX];

    for (size_t row = 0; row < l->n_rows; row++) {
        const char *text = cell_format(buf, c->unit, l->scales[column], report_rows_at(l->rows, row, column));
        if (text)
            widest = MAX(widest, text_columns(text));
    }
    return widest;
}

/* Rows of several ranks make no sense without it. */
static bool tells_ranks_apart(const struct layout *l, size_t column)
{
    if (!streq(l->report->columns[column].name, "rank"))
        return false;
    for (size_t row = 1; row < l->n_rows; row++)
        if (report_rows_at(l->rows, row, column)->integer != report_rows_at(l->rows, 0, column)->integer)
            return true;
    return false;
}

static bool is_longer(const struct layout *l, size_t column, unsigned width)
{
    return !l->hidden[column] && l->report->columns[column].unit == UNIT_TEXT && widest_of(l, column) > width;
}

static bool shorten_texts(struct layout *l)
{
    bool longer = l->least > TEXT_WIDTH_SHORT;

    l->least = TEXT_WIDTH_SHORT;
    return longer;
}

enum giving_way { GIVES_EXTRA, GIVES_SPARE, GIVES_ANY };

static bool gives_way(const struct report_column *column, enum giving_way which)
{
    return which == GIVES_ANY || (which == GIVES_EXTRA ? column->is_extra : column->is_spare);
}

/* What else is left out where the line is short, the last one first; a long text is shortened before that. */
static bool leave_one_of(struct layout *l, enum giving_way which)
{
    size_t kept = which == GIVES_ANY ? COLUMNS_KEPT : 0;

    for (size_t i = l->report->n_columns; i > kept; i--)
        if (!l->hidden[i - 1] && gives_way(&l->report->columns[i - 1], which) &&
            !tells_ranks_apart(l, i - 1)) {
            if (is_longer(l, i - 1, TEXT_WIDTH_SHORT) && shorten_texts(l))
                return true;
            l->hidden[i - 1] = true;
            return true;
        }
    return false;
}

/* Before a column goes that people read first, texts become as short as they may. */
static bool leave_something_out(struct layout *l)
{
    return leave_one_of(l, GIVES_EXTRA) || leave_one_of(l, GIVES_SPARE) || shorten_texts(l) ||
           leave_one_of(l, GIVES_ANY);
}

static bool has_several_long(const struct layout *l)
{
    unsigned n = 0;

    for (size_t i = 0; i < l->report->n_columns; i++)
        n += is_longer(l, i, TEXT_WIDTH_MIN);
    return n > 1;
}

/* Long texts share what the other columns leave of the line. */
static void fit(struct layout *l, unsigned line)
{
    unsigned n_long, others;

    l->least = TEXT_WIDTH_MIN;
    do {
        n_long = others = 0;
        if (has_several_long(l))
            shorten_texts(l);
        for (size_t i = 0; i < l->report->n_columns; i++) {
            bool is_long = is_longer(l, i, l->least);
            n_long += is_long;
            others += l->hidden[i] ? 0 : is_long ? GAP : widest_of(l, i) + GAP;
        }
    } while (others + n_long * l->least > line + GAP && leave_something_out(l));
    l->text_width = n_long && line + GAP > others ? MAX((line + GAP - others) / n_long, l->least) : l->least;
}

static void add_row(const struct layout *l, struct table *table, size_t row)
{
    size_t n = l->report->n_columns, shown = 0;
    _cleanup_(freep) const char **cells = xcalloc(n, sizeof(*cells));
    _cleanup_(freep) char *formatted = xcalloc(n, CELL_TEXT_MAX);
    char **fitted = xcalloc(n, sizeof(*fitted));

    for (size_t i = 0; i < n; i++) {
        const struct cell *cell = report_rows_at(l->rows, row, i);
        if (l->hidden[i])
            continue;
        if (cell->type == CELL_TEXT)
            fitted[i] = kernel_name_fit(cell->text, l->text_width);
        cells[shown++] = fitted[i] ? fitted[i]
                                   : cell_format(formatted + i * CELL_TEXT_MAX, l->report->columns[i].unit,
                                                 l->scales[i], cell);
    }
    table_add(table, cells);
    for (size_t i = 0; i < n; i++)
        free(fitted[i]);
    free(fitted);
}

static void print_title(struct client *c, const struct report *report)
{
    _cleanup_(freep) char *title =
        text_wrap(report->title, (unsigned)strlen(report->name) + GAP, screen_text_width(&c->out));

    fprintf(c->out.file, "%s%s%s%*s%s\n", screen_colour(&c->out, COLOUR_BOLD), report->name,
            screen_plain(&c->out), (int)GAP, "", title);
}

void report_print_text(struct client *c, const struct report *report, const struct report_rows *rows,
                       size_t top)
{
    size_t all = report_rows_count(rows), n = report->n_columns, shown = 0;
    unsigned width = screen_width(&c->out);
    _cleanup_(freep) struct table_column *columns = xcalloc(n, sizeof(*columns));
    _cleanup_(layout_done) struct layout l = {.report = report,
                                              .rows = rows,
                                              .n_rows = top > 0 ? MIN(all, top) : all,
                                              .columns = xcalloc(n, sizeof(*l.columns)),
                                              .scales = xcalloc(n, sizeof(*l.scales)),
                                              .hidden = xcalloc(n, sizeof(*l.hidden))};

    column_scales(report, rows, l.n_rows, l.scales);
    for (size_t i = 0; i < n; i++)
        l.columns[i] = (struct table_column){column_heading(&report->columns[i], l.scales[i]),
                                             report->columns[i].unit == UNIT_TEXT ? 0 : COLUMN_RIGHT};
    fit(&l, width ? width : SCREEN_WIDTH_MAX);
    for (size_t i = 0; i < n; i++)
        if (!l.hidden[i])
            columns[shown++] = l.columns[i];
    _cleanup_(table_freep) struct table *table = table_new(columns, shown, !c->no_legend);
    for (size_t row = 0; row < l.n_rows; row++)
        add_row(&l, table, row);
    if (!c->no_legend)
        print_title(c, report);
    table_print(table, &c->out);
    if (all == 0 && !c->no_legend)
        fputs("nothing\n", c->out.file);
    if (l.n_rows < all && !c->no_legend)
        fprintf(c->out.file, "... %zu more (--top 0)\n", all - l.n_rows);
}
