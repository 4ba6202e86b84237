/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/report_data.h"

#include "base/alloc.h"
#include "client/views/listing.h"
#include "client/views/report_format.h"

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

static int select_columns(struct client *c, const struct report *report, size_t **ret, size_t *ret_n)
{
    _cleanup_(freep) const char **keys = xcalloc(report->n_columns, sizeof(*keys));

    for (size_t i = 0; i < report->n_columns; i++)
        keys[i] = report->columns[i].name;
    return listing_select(c, keys, report->n_columns, ret, ret_n);
}

int report_check_columns(struct client *c, const struct report *report)
{
    _cleanup_(freep) size_t *columns = NULL;
    size_t n;

    return select_columns(c, report, &columns, &n);
}

static const char *cell_text(char *buf, const struct cell *cell)
{
    switch (cell->type) {
    case CELL_INT:
        snprintf(buf, CELL_TEXT_MAX, "%" PRId64, cell->integer);
        return buf;
    case CELL_REAL:
        snprintf(buf, CELL_TEXT_MAX, "%.12g", cell->real);
        return buf;
    case CELL_TEXT:
        return cell->text;
    default:
        return NULL;
    }
}

int report_print_separated(struct client *c, const struct report *report, const struct report_rows *rows,
                           size_t top)
{
    _cleanup_(freep) size_t *columns = NULL;
    size_t n;
    int status = select_columns(c, report, &columns, &n);

    if (status != EXIT_DONE)
        return status;
    for (size_t i = 0; i < n && !c->no_legend; i++)
        separated_field(&c->out, c->format, i == 0, report->columns[columns[i]].name);
    if (!c->no_legend)
        separated_end(&c->out, c->format);
    for (size_t row = 0; row < shown(rows, top); row++) {
        char buf[CELL_TEXT_MAX];
        for (size_t i = 0; i < n; i++)
            separated_field(&c->out, c->format, i == 0,
                            cell_text(buf, report_rows_at(rows, row, columns[i])));
        separated_end(&c->out, c->format);
    }
    return EXIT_DONE;
}
