/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/export.h"
#include "trace/columns/column_cursor.h"
#include "trace/export/selection.h"

#include <errno.h>

const struct export_format export_formats[] = {
    {"chrome", ".json", "Chrome's trace events, as profilers write them", export_chrome},
    {"perfetto", ".pftrace", "Perfetto's protobuf format", export_perfetto},
    {"speedscope", ".speedscope.json", "JSON for www.speedscope.app", export_speedscope},
    {"collapsed", ".collapsed", "stacks and nanoseconds, for flame graphs", export_collapsed},
    {"pprof", ".pb.gz", "a profile for pprof", export_pprof},
    {"csv", ".csv", "a table of slices", export_csv},
    {"parquet", ".parquet", "a table of slices, for DuckDB, ClickHouse and the like",
     .write_all = export_parquet},
};
const size_t export_formats_count = ARRAY_SIZE(export_formats);

const struct export_format *export_format_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(export_formats); i++) {
        if (streq(export_formats[i].name, name))
            return &export_formats[i];
    }
    return NULL;
}

static int select_slices(const struct export_trace *t, const struct export_options *options,
                         struct selection *ret)
{
    int64_t zero = options->relative ? MAX(columns_get(t->columns, COL_slice_ts, 0), -INT64_MAX) : 0;

    return selection_init(ret, t->columns, selection_bound(options->from, zero),
                          selection_bound(options->to, zero), options->only);
}

int64_t export_count(const struct export_trace *t, const struct export_options *options)
{
    _cleanup_(selection_done) struct selection s = {0};
    struct column_cursor ts = {.c = t->columns, .column = COL_slice_ts};
    int64_t n = 0;
    int r = select_slices(t, options, &s);

    for (uint64_t row = 0; r == 0 && row < s.end; row++)
        n += selection_has_all(&s) ? column_cursor_get(&ts, row) != COLUMN_NULL : selection_has(&s, row);
    return r < 0 ? r : n;
}

int export_trace(const struct export_format *format, const struct export_trace *t,
                 const struct export_options *options, FILE *out)
{
    return export_traces(format, t, 1, options, out);
}

int export_traces(const struct export_format *format, const struct export_trace *traces, size_t n,
                  const struct export_options *options, FILE *out)
{
    _cleanup_(freep) struct selection *s = calloc(n + 1, sizeof(*s));
    int r = s ? 0 : -ENOMEM;

    for (size_t i = 0; i < n && r == 0; i++)
        r = select_slices(&traces[i], options, &s[i]);
    if (r == 0)
        r = format->write_all ? format->write_all(traces, s, n, out) : format->write(traces, s, out);
    for (size_t i = 0; s && i < n; i++)
        selection_done(&s[i]);
    return export_outcome(r, traces, n, out);
}

int export_outcome(int error, const struct export_trace *traces, size_t n, FILE *out)
{
    errno = 0;
    if (error == 0 && (fflush(out) != 0 || ferror(out)))
        error = errno > 0 ? -errno : -EIO;
    for (size_t i = 0; i < n && error == 0; i++) {
        if (columns_damage(traces[i].columns) >= 0)
            error = -EBADMSG;
    }
    return error;
}
