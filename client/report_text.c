/* SPDX-License-Identifier: Apache-2.0 */
#include "client/report_print.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/table.h"
#include "client/text.h"
#include <ctype.h>
#include <inttypes.h>

/* What a text is cut to at least, however narrow the screen is. */
#define TEXT_WIDTH_MIN 40u
/* Columns beyond these may be left out where the terminal is narrow. */
#define COLUMNS_KEPT 4
#define GAP          2u

/* In what a column of times is shown: the largest unit of which its largest value has ten. */
static const struct scale {
    const char *unit;
    double ns;
} scales[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};

static double number_of(const struct cell *cell)
{
    return cell->type == CELL_REAL ? cell->real : (double)cell->integer;
}

static const struct scale *scale_of(const struct report_rows *rows, size_t column, size_t n)
{
    double largest = 0;

    for (size_t row = 0; row < n; row++) {
        const struct cell *cell = report_rows_at(rows, row, column);
        if (cell->type == CELL_INT || cell->type == CELL_REAL)
            largest = MAX(largest, number_of(cell) < 0 ? -number_of(cell) : number_of(cell));
    }
    for (size_t i = 0; i + 1 < ARRAY_SIZE(scales); i++)
        if (largest >= 10 * scales[i].ns)
            return &scales[i];
    return &scales[largest > 0 ? ARRAY_SIZE(scales) - 1 : 1];
}

/* With separated thousands and so many digits behind the point. */
static void format_number(char *buf, double value, int digits)
{
    char whole[32];
    double rounded = digits ? (double)(int64_t)(value * 10 + (value < 0 ? -0.5 : 0.5)) / 10 : value;

    if (value > 1e15 || value < -1e15) {
        snprintf(buf, CELL_TEXT_MAX, "%.3e", value);
        return;
    }
    text_number(whole, (int64_t)rounded);
    if (digits == 0)
        snprintf(buf, CELL_TEXT_MAX, "%s", whole);
    else
        snprintf(buf, CELL_TEXT_MAX, "%s%s.%d", rounded < 0 && rounded > -1 ? "-" : "", whole,
                 abs((int)((int64_t)(rounded * 10 + (rounded < 0 ? -0.5 : 0.5)) % 10)));
}

static const char *format_cell(char *buf, enum report_unit unit, const struct scale *scale,
                               const struct cell *cell)
{
    if (cell->type == CELL_NULL || cell->type == CELL_TEXT)
        return cell->type == CELL_TEXT ? cell->text : NULL;
    double value = number_of(cell);
    switch (unit) {
    case UNIT_NS:
        format_number(buf, value / scale->ns, scale->ns > 1);
        break;
    case UNIT_SHARE:
        snprintf(buf, CELL_TEXT_MAX, "%.1f %%", 100 * value);
        break;
    case UNIT_BYTES:
        format_size(buf, (int64_t)value);
        break;
    case UNIT_BYTES_PER_S:
        snprintf(buf, CELL_TEXT_MAX, "%.1f GB/s", value / 1e9);
        break;
    case UNIT_FACTOR:
        snprintf(buf, CELL_TEXT_MAX, "%.3g", value);
        break;
    case UNIT_COUNT:
        format_number(buf, value, 0);
        break;
    default:
        snprintf(buf, CELL_TEXT_MAX, "%" PRId64, (int64_t)value);
    }
    return buf;
}

/* "sum_ns" is SUM ms, "busy_share" BUSY. */
static char *heading_of(const struct report_column *column, const struct scale *scale)
{
    static const char *const suffixes[] = {
        [UNIT_NS] = "_ns", [UNIT_SHARE] = "_share", [UNIT_BYTES] = "_bytes"};
    const char *suffix = column->unit < ARRAY_SIZE(suffixes) ? suffixes[column->unit] : NULL;
    size_t n = strlen(column->name);

    if (suffix && n > strlen(suffix) && streq(column->name + n - strlen(suffix), suffix))
        n -= strlen(suffix);
    char *heading = xasprintf("%.*s%s%s", (int)n, column->name, scale ? " " : "", scale ? scale->unit : "");
    for (size_t i = 0; i < n; i++)
        heading[i] = heading[i] == '_' ? ' ' : (char)toupper((unsigned char)heading[i]);
    return heading;
}

char *kernel_name_fit(const char *name, unsigned width)
{
    size_t n;
    int depth = 0;

    if (starts_with(name, "void "))
        name += strlen("void ");
    /* The arguments, which are types, say less than the template's. */
    for (n = 0; name[n] && !(name[n] == '(' && depth == 0 && n > 0 && !starts_with(name + n, "(anonymous"));
         n++)
        depth += (name[n] == '<') - (name[n] == '>');
    if (text_columns(name) <= width)
        return xstrdup(name);
    _cleanup_(freep) char *shorter = xstrndup(name, n);
    if (text_columns(shorter) <= width)
        return TAKE_PTR(shorter);
    return xasprintf("%.*s...", (int)text_fit(shorter, width - 3), shorter);
}

/* -- A table ------------------------------------------------------------------------------------------ */

struct layout {
    const struct report *report;
    const struct report_rows *rows;
    size_t n_rows;
    struct table_column *columns;
    const struct scale **scales;
    bool *hidden;
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
        const char *text = format_cell(buf, c->unit, l->scales[column], report_rows_at(l->rows, row, column));
        if (text)
            widest = MAX(widest, text_columns(text));
    }
    return widest;
}

/* What else is left out where the line is short, the last one first. */
static bool leave_one_out(struct layout *l, bool only_extra)
{
    for (size_t i = l->report->n_columns; i > COLUMNS_KEPT; i--)
        if (!l->hidden[i - 1] && (!only_extra || l->report->columns[i - 1].is_extra)) {
            l->hidden[i - 1] = true;
            return true;
        }
    return false;
}

/* Long texts share what the other columns leave of the line. */
static void fit(struct layout *l, unsigned line)
{
    unsigned n_long, others;

    do {
        n_long = others = 0;
        for (size_t i = 0; i < l->report->n_columns; i++) {
            unsigned widest = l->hidden[i] ? 0 : widest_of(l, i);
            bool is_long = l->report->columns[i].unit == UNIT_TEXT && widest > TEXT_WIDTH_MIN;
            n_long += is_long;
            others += l->hidden[i] ? 0 : is_long ? GAP : widest + GAP;
        }
    } while (others + n_long * TEXT_WIDTH_MIN > line + GAP &&
             (leave_one_out(l, true) || leave_one_out(l, false)));
    l->text_width =
        n_long && line + GAP > others ? MAX((line + GAP - others) / n_long, TEXT_WIDTH_MIN) : TEXT_WIDTH_MIN;
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
                                   : format_cell(formatted + i * CELL_TEXT_MAX, l->report->columns[i].unit,
                                                 l->scales[i], cell);
    }
    table_add(table, cells);
    for (size_t i = 0; i < n; i++)
        free(fitted[i]);
    free(fitted);
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

    for (size_t i = 0; i < n; i++) {
        if (report->columns[i].unit == UNIT_NS)
            l.scales[i] = scale_of(rows, i, l.n_rows);
        l.columns[i] = (struct table_column){heading_of(&report->columns[i], l.scales[i]),
                                             report->columns[i].unit == UNIT_TEXT ? 0 : COLUMN_RIGHT};
    }
    fit(&l, width ? width : SCREEN_WIDTH_MAX);
    for (size_t i = 0; i < n; i++)
        if (!l.hidden[i])
            columns[shown++] = l.columns[i];
    _cleanup_(table_freep) struct table *table = table_new(columns, shown, !c->no_legend);
    for (size_t row = 0; row < l.n_rows; row++)
        add_row(&l, table, row);
    if (!c->no_legend)
        fprintf(c->out.file, "%s%s%s  %s\n", screen_colour(&c->out, COLOUR_BOLD), report->name,
                screen_plain(&c->out), report->title);
    table_print(table, &c->out);
    if (l.n_rows < all && !c->no_legend)
        fprintf(c->out.file, "... %zu more (--top 0)\n", all - l.n_rows);
}
