/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reports/report_data.h"

#include "base/alloc.h"
#include "base/csv.h"
#include "client/text/text.h"

#include <inttypes.h>

static size_t shown(const struct report_rows *rows, size_t top)
{
    size_t n = report_rows_count(rows);

    return top > 0 ? MIN(n, top) : n;
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

/* Texts come from traces: a spreadsheet would take one that begins so for a formula, and a terminal obeys
 * control characters. Whoever wants a text as it stands takes JSON. */
static bool looks_like_formula(const char *text)
{
    return *text && strchr("=+-@", *text);
}

static void print_csv_text(FILE *out, const char *raw)
{
    _cleanup_(freep) char *clean = text_clean(raw, false);
    _cleanup_(freep) char *text = xasprintf("%s%s", looks_like_formula(clean) ? "'" : "", clean);

    csv_write(out, text);
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
