/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/export.h"
#include "trace/export/selection.h"

#include <errno.h>

const struct export_format export_formats[] = {
    {"chrome", ".json", "Chrome's trace events, as profilers write them", export_chrome},
    {"perfetto", ".pftrace", "Perfetto's protobuf format", export_perfetto},
    {"speedscope", ".speedscope.json", "JSON for www.speedscope.app", export_speedscope},
    {"collapsed", ".collapsed", "stacks and nanoseconds, for flame graphs", export_collapsed},
    {"pprof", ".pb.gz", "a profile for pprof", export_pprof},
    {"csv", ".csv", "a table of slices", export_csv},
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
    int64_t n = 0;
    int r = select_slices(t, options, &s);

    for (uint64_t row = 0; r == 0 && row < s.end; row++)
        n += selection_has(&s, row);
    return r < 0 ? r : n;
}

int export_trace(const struct export_format *format, const struct export_trace *t,
                 const struct export_options *options, FILE *out)
{
    _cleanup_(selection_done) struct selection s = {0};
    int r = select_slices(t, options, &s);

    if (r == 0)
        r = format->write(t, &s, out);
    return export_outcome(r, t, 1, out);
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
