/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/ranks/report_parts.h"

#include "base/alloc.h"
#include <errno.h>
#include <inttypes.h>

/* More than any report has. */
#define COLUMNS_MAX 256
/* Digits that read back as the same number. */
#define REAL_DIGITS 17

static void report_part_write_text(FILE *out, const char *text)
{
    /* Jansson takes UTF-8 only; the reader of the trace has replaced all other bytes. */
    _cleanup_json_ value = json_string(text);

    if (value)
        json_dumpf(value, out, JSON_ENCODE_ANY | JSON_COMPACT);
    else
        fputs("null", out);
}

void report_part_write_cell(FILE *out, const struct cell *cell)
{
    char real[64];

    switch (cell->type) {
    case CELL_INT:
        fprintf(out, "%" PRId64, cell->integer);
        break;
    case CELL_REAL:
        snprintf(real, sizeof(real), "%.*g", REAL_DIGITS, cell->real);
        fputs(isfinite(cell->real) ? real : "null", out);
        /* A number without a fraction stays one that may have a fraction. */
        if (isfinite(cell->real) && !strpbrk(real, ".e"))
            fputs(".0", out);
        break;
    case CELL_TEXT:
        report_part_write_text(out, cell->text);
        break;
    default:
        fputs("null", out);
        break;
    }
}

void report_part_write(FILE *out, const struct report *report, const struct report_rows *rows, size_t top)
{
    size_t n = report_rows_count(rows);

    fprintf(out, "\"report\":");
    report_part_write_text(out, report->name);
    fputs(",\"columns\":[", out);
    for (size_t i = 0; i < report->n_columns; i++) {
        fputs(i > 0 ? "," : "", out);
        report_part_write_text(out, report->columns[i].name);
    }
    fputs("],\"rows\":[", out);
    for (size_t row = 0; row < n && (top == 0 || row < top); row++) {
        fputs(row > 0 ? ",\n[" : "\n[", out);
        for (size_t i = 0; i < report->n_columns; i++) {
            fputs(i > 0 ? "," : "", out);
            report_part_write_cell(out, report_rows_at(rows, row, i));
        }
        fputc(']', out);
    }
    fputc(']', out);
}

static void report_part_read_cell(const json_t *value, struct report_rows *ret)
{
    if (json_is_integer(value))
        emit_copy(ret, &(struct cell){.type = CELL_INT, .integer = json_integer_value(value)});
    else if (json_is_real(value))
        emit_real(ret, json_real_value(value));
    else
        emit_str(ret, json_string_value(value));
}

int report_part_read(const json_t *part, const struct report *report, const char *lead,
                     struct report_rows *ret)
{
    const json_t *names = json_object_get(part, "columns"), *rows = json_object_get(part, "rows");
    const char *name = json_get_str(part, "report");
    size_t places[COLUMNS_MAX], first = lead ? 1 : 0, i;
    json_t *row;

    if (!name || !streq(name, report->name) || !json_is_array(names) || !json_is_array(rows) ||
        report->n_columns > COLUMNS_MAX)
        return -EBADMSG;
    for (size_t k = first; k < report->n_columns; k++) {
        places[k] = json_array_size(names);
        for (size_t n = 0; n < json_array_size(names); n++) {
            const char *known = json_string_value(json_array_get(names, n));
            if (known && streq(known, report->columns[k].name))
                places[k] = n;
        }
    }
    json_array_foreach(rows, i, row) {
        if (!json_is_array(row))
            return -EBADMSG;
        if (lead)
            emit_str(ret, lead);
        for (size_t k = first; k < report->n_columns; k++)
            report_part_read_cell(json_array_get(row, places[k]), ret);
    }
    return report_rows_error(ret);
}
