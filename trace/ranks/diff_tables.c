/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/ranks/diff_tables.h"

#include "base/alloc.h"
#include <math.h>

const struct diff_table diff_table_list[_DIFF_TABLE_MAX] = {
    [DIFF_MEASURES] = {"measures", &diff_measures, diff_make_measures},
    [DIFF_KERNELS] = {"kernels", &diff_kernels, diff_make_kernels},
    [DIFF_OPS] = {"ops", &diff_ops, diff_make_ops},
};

int diff_tables_make(struct diff_tables *ret, struct analysis *before, struct analysis *after)
{
    int r = diff_init(&ret->diff, before, after);

    for (size_t i = 0; i < _DIFF_TABLE_MAX && r >= 0; i++)
        r = diff_table_list[i].make(&ret->diff, &ret->rows[i]);
    return r;
}

void diff_tables_done(struct diff_tables *t)
{
    for (size_t i = 0; i < _DIFF_TABLE_MAX; i++)
        report_rows_done(&t->rows[i]);
    diff_done(&t->diff);
    *t = (struct diff_tables){0};
}

/* -- As JSON ------------------------------------------------------------------------------------------- */

static size_t report_rows_taken(const struct report_rows *rows, size_t top)
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
        /* Jansson takes UTF-8 only; the reader of the trace has replaced all other bytes. */
        return json_string(cell->text) ?: json_null();
    default:
        return json_null();
    }
}

json_t *report_rows_to_json(const struct report *report, const char *trace, const struct report_rows *rows,
                            size_t top)
{
    json_t *list = json_array(), *j = json_object();

    for (size_t row = 0; row < report_rows_taken(rows, top); row++) {
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

json_t *diff_tables_to_json(const struct diff_tables *t, const char *names, size_t top)
{
    json_t *j = json_object();

    for (size_t i = 0; i < _DIFF_TABLE_MAX; i++)
        json_object_set_new(j, diff_table_list[i].report->name,
                            report_rows_to_json(diff_table_list[i].report, names, &t->rows[i], top));
    return j;
}

static const struct estimate *diff_measure_of(const struct diff *d, const char *name, bool before)
{
    const char *other;

    for (size_t i = 0; i < DIFF_MEASURES_MAX && (other = diff_measure_name(i)); i++)
        if (streq(other, name))
            return before ? &d->measures[i].before : &d->measures[i].after;
    return NULL;
}

static json_t *diff_step_side(const struct diff *d, bool before)
{
    const struct estimate *p50 = diff_measure_of(d, "step.p50", before),
                          *p99 = diff_measure_of(d, "step.p99", before);
    json_t *j = json_object();

    json_object_set_new(j, "p50", json_number(p50 ? p50->value : NAN));
    json_object_set_new(j, "p99", json_number(p99 ? p99->value : NAN));
    json_put_int(j, "steps", (int64_t)(before ? d->before.sample.n : d->after.sample.n));
    json_put_int(j, "outliers", (int64_t)(before ? d->before.sample.n_outliers : d->after.sample.n_outliers));
    return j;
}

json_t *diff_tables_step(const struct diff_tables *t)
{
    const struct diff *d = &t->diff;

    if (!d->by_step)
        return json_null();
    const struct estimate *before = diff_measure_of(d, "step.p50", true),
                          *after = diff_measure_of(d, "step.p50", false);
    double change = before && after && before->value > 0 ? after->value / before->value - 1 : NAN;
    return json_pack("{s: o, s: o, s: o}", "a", diff_step_side(d, true), "b", diff_step_side(d, false),
                     "change", json_number(change));
}
