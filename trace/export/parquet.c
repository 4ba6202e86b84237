/* SPDX-License-Identifier: Apache-2.0 */
/* Slices of traces as one Parquet file: traces one after the other, no row group with slices of two. */
#include "trace/columns/column_cursor.h"
#include "trace/export/export.h"
#include "trace/export/selection.h"
#include "trace/export/slice_columns.h"
#include "version.h"

/* Readers find by them what the file is. The number changes when a column gets another meaning. */
static const struct parquet_fact export_facts[] = {{"profd.table", "slice"}, {"profd.schema", "1"}};

static int export_slices(const struct export_trace *t, const struct selection *s, struct parquet_writer *w)
{
    _cleanup_(slice_writer_freep) struct slice_writer *slices = NULL;
    struct column_cursor ts = {.c = t->columns, .column = COL_slice_ts};
    bool all = selection_has_all(s);
    int r = slice_writer_new(t, w, &slices);

    for (uint64_t row = 0; row < s->end && r == 0; row++)
        if (all ? column_cursor_get(&ts, row) != COLUMN_NULL : selection_has(s, row))
            r = slice_writer_add(slices, row);
    return r == 0 ? slice_writer_end(slices) : r;
}

int export_parquet(const struct export_trace *traces, const struct selection *s, size_t n, FILE *out)
{
    _cleanup_(freep) struct parquet_column *columns = NULL;
    struct parquet_schema schema = {.facts = export_facts,
                                    .n_facts = ARRAY_SIZE(export_facts),
                                    .created_by = "profd version " PROFD_VERSION};
    _cleanup_(parquet_closep) struct parquet_writer *w = NULL;
    int r = slice_columns_list(&columns, &schema.n_columns);

    schema.columns = columns;
    if (r == 0)
        r = parquet_open(&schema, parquet_file_sink, out, &w);
    for (size_t i = 0; i < n && r == 0; i++)
        r = export_slices(&traces[i], &s[i], w);
    if (r == 0)
        r = parquet_finish(w);
    return r;
}
