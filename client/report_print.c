/* SPDX-License-Identifier: Apache-2.0 */
#include "client/report_print.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/table.h"
#include "client/text.h"
#include <inttypes.h>

static const struct {
    const char *suffix, *heading; /* of a column's name, and what stands for it in a heading */
    double divisor;
} scales[] = {
    [UNIT_NS] = {"_ns", " ms", 1e6},
};

static double number_of(const struct cell *cell)
{
    return cell->type == CELL_REAL ? cell->real : (double)cell->integer;
}

const char *cell_format(char *buf, enum report_unit unit, const struct cell *cell)
{
    if (cell->type == CELL_NULL)
        return NULL;
    if (cell->type == CELL_TEXT)
        return cell->text;
    switch (unit) {
    case UNIT_NS:
        snprintf(buf, CELL_TEXT_MAX, "%.3f", number_of(cell) / scales[UNIT_NS].divisor);
        break;
    case UNIT_SHARE:
        snprintf(buf, CELL_TEXT_MAX, "%.1f %%", 100 * number_of(cell));
        break;
    case UNIT_BYTES:
        format_size(buf, (int64_t)number_of(cell));
        break;
    case UNIT_BYTES_PER_S:
        snprintf(buf, CELL_TEXT_MAX, "%.2f GB/s", number_of(cell) / 1e9);
        break;
    case UNIT_FACTOR:
        snprintf(buf, CELL_TEXT_MAX, "%.3g", number_of(cell));
        break;
    case UNIT_COUNT:
        text_number(buf, (int64_t)number_of(cell));
        break;
    default:
        snprintf(buf, CELL_TEXT_MAX, "%" PRId64, (int64_t)number_of(cell));
    }
    return buf;
}

/* "sum_ns" is SUM ms. */
static char *heading_of(const struct report_column *column)
{
    size_t n = strlen(column->name);
    const char *unit = "";

    if (column->unit == UNIT_NS && n > strlen(scales[UNIT_NS].suffix)) {
        n -= strlen(scales[UNIT_NS].suffix);
        unit = scales[UNIT_NS].heading;
    }
    char *heading = xasprintf("%.*s%s", (int)n, column->name, unit);
    for (size_t i = 0; i < n; i++)
        heading[i] = heading[i] == '_'
                         ? ' '
                         : (char)(heading[i] >= 'a' && heading[i] <= 'z' ? heading[i] - 32 : heading[i]);
    return heading;
}

static size_t shown(const struct report_rows *rows, size_t top)
{
    size_t n = report_rows_count(rows);

    return top > 0 ? MIN(n, top) : n;
}

void report_print_text(struct client *c, const struct report *report, const struct report_rows *rows,
                       size_t top)
{
    _cleanup_(freep) struct table_column *columns = xcalloc(report->n_columns, sizeof(*columns));
    _cleanup_(freep) const char **cells = xcalloc(report->n_columns, sizeof(*cells));
    _cleanup_(freep) char *formatted = xcalloc(report->n_columns, CELL_TEXT_MAX);
    size_t n = shown(rows, top), all = report_rows_count(rows);

    for (size_t i = 0; i < report->n_columns; i++)
        columns[i] =
            (struct table_column){heading_of(&report->columns[i]),
                                  report->columns[i].unit == UNIT_TEXT ? COLUMN_SHORTEN : COLUMN_RIGHT};
    _cleanup_(table_freep) struct table *table = table_new(columns, report->n_columns, !c->no_legend);
    for (size_t row = 0; row < n; row++) {
        for (size_t i = 0; i < report->n_columns; i++)
            cells[i] = cell_format(formatted + i * CELL_TEXT_MAX, report->columns[i].unit,
                                   report_rows_at(rows, row, i));
        table_add(table, cells);
    }
    if (!c->no_legend)
        fprintf(c->out.file, "%s%s%s  %s\n", screen_colour(&c->out, COLOUR_BOLD), report->name,
                screen_plain(&c->out), report->title);
    table_print(table, &c->out);
    if (n < all)
        fprintf(c->out.file, "... %zu more (--top 0)\n", all - n);
    for (size_t i = 0; i < report->n_columns; i++)
        free((char *)columns[i].name);
}

static json_t *cell_to_json(const struct cell *cell)
{
    switch (cell->type) {
    case CELL_INT:
        return json_integer(cell->integer);
    case CELL_REAL:
        return json_real(cell->real);
    case CELL_TEXT:
        /* Jansson takes UTF-8 only; what is none has been replaced when the trace was read. */
        return json_string(cell->text) ?: json_null();
    default:
        return json_null();
    }
}

json_t *report_to_json(const struct report *report, const char *trace, const struct report_rows *rows,
                       size_t top)
{
    json_t *list = json_array(), *j = json_object();

    for (size_t row = 0; row < shown(rows, top); row++) {
        json_t *one = json_object();
        for (size_t i = 0; i < report->n_columns; i++)
            json_object_set_new(one, report->columns[i].name, cell_to_json(report_rows_at(rows, row, i)));
        json_array_append_new(list, one);
    }
    json_put_str(j, "report", report->name);
    json_put_str(j, "trace", trace);
    json_object_set_new(j, "rows", list);
    return j;
}

static void print_csv_text(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n") && *text) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (const char *p = text; *p; p++) {
        if (*p == '"')
            fputc('"', out);
        fputc(*p, out);
    }
    fputc('"', out);
}

static void print_csv_cell(FILE *out, const struct cell *cell)
{
    switch (cell->type) {
    case CELL_INT:
        fprintf(out, "%" PRId64, cell->integer);
        break;
    case CELL_REAL:
        fprintf(out, "%.12g", cell->real);
        break;
    case CELL_TEXT:
        print_csv_text(out, cell->text);
        break;
    default:
        break;
    }
}

void report_print_csv(FILE *out, const struct report *report, const struct report_rows *rows, size_t top)
{
    for (size_t i = 0; i < report->n_columns; i++)
        fprintf(out, "%s%s", i ? "," : "", report->columns[i].name);
    fputs("\r\n", out);
    for (size_t row = 0; row < shown(rows, top); row++) {
        for (size_t i = 0; i < report->n_columns; i++) {
            if (i > 0)
                fputc(',', out);
            print_csv_cell(out, report_rows_at(rows, row, i));
        }
        fputs("\r\n", out);
    }
}
