/* SPDX-License-Identifier: Apache-2.0 */
/* A trace, or a window of it, as a file for another program: what profctl export writes. */
#include "base/alloc.h"
#include "daemon/report/work_internal.h"
#include "trace/export/export.h"
#include <errno.h>

int work_export(const struct work *work, FILE *answer, struct problem *p)
{
    _cleanup_(work_analysis_done) struct work_analysis w = {0};
    const char *name = json_get_str(work->spec, "format");
    const struct export_format *format = name ? export_format_find(name) : NULL;
    struct export_options options = EXPORT_ALL;

    if (!format || !format->write)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "unknown format '%s'", name ? name : "");
    int r = work_analyse(work, &w, p);
    if (r < 0)
        return r;
    if (w.n != 1)
        return problem_set(p, -EINVAL, PROBLEM_INTERNAL, "an export is of one trace");
    if (w.analysis.view.from > 0 || w.analysis.view.to != VIEW_ALL.to) {
        options.relative = true;
        options.from = MAX(w.analysis.view.from, INT64_C(0));
        options.to = w.analysis.view.to;
    }
    const struct export_trace t = {.columns = w.traces[0].columns, .source_fd = work->source_fd};
    if (options.relative && export_count(&t, &options) == 0) {
        problem_remedy(p, "from and to count from the first slice of the trace.");
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "the selected part of the trace has no slices");
    }
    r = export_trace(format, &t, &options, answer);
    if (r == -EFBIG)
        return problem_set(p, r, PROBLEM_TOO_LARGE, "the file is too large: export a part, by from and to");
    return r < 0 ? work_failed(r, "the file", p) : 0;
}
