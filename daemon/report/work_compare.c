/* SPDX-License-Identifier: Apache-2.0 */
/* Two sides of traces compared: the tables of profctl diff --json, and how long their steps take. */
#include "base/alloc.h"
#include "daemon/report/work_internal.h"
#include "trace/ranks/diff_tables.h"
#include <errno.h>

/* The traces of one side as a specification of their own. */
static struct work compare_side(const struct work *work, const char *member, size_t first)
{
    struct work side = *work;

    side.spec = json_object();
    json_object_set(side.spec, "traces", json_object_get(work->spec, member));
    json_object_set(side.spec, "view", json_object_get(work->spec, "view"));
    side.n_traces = json_array_size(json_object_get(work->spec, member));
    side.columns_fd += (int)first;
    side.source_fd = -1;
    return side;
}

static int compare_write(const struct work *work, struct diff_tables *tables, const json_t *notes,
                         FILE *answer)
{
    size_t top = (size_t)MAX(json_get_int(work->spec, "top", 0), INT64_C(0));
    _cleanup_json_ j = diff_tables_to_json(tables, json_get_str(work->spec, "names"), top);

    json_put_str(j, "kind", "traces");
    json_object_set_new(j, "step", diff_tables_step(tables));
    json_object_set(j, "notes", (json_t *)notes);
    work_copy_lists(work->spec, j);
    return json_dumpf(j, answer, JSON_COMPACT) < 0 ? -EIO : 0;
}

int work_compare(const struct work *work, FILE *answer, struct problem *p)
{
    _cleanup_(work_analysis_done) struct work_analysis before = {0}, after = {0};
    _cleanup_(diff_tables_done) struct diff_tables tables = {0};
    size_t n_before = json_array_size(json_object_get(work->spec, "before"));
    struct work a = compare_side(work, "before", 0), b = compare_side(work, "after", n_before);
    int r = 0;

    if (a.n_traces + b.n_traces != work->n_traces)
        r = problem_set(p, -EINVAL, PROBLEM_INTERNAL, "the specification has another number of traces");
    if (r >= 0)
        r = work_analyse(&a, &before, p);
    if (r >= 0)
        r = work_analyse(&b, &after, p);
    if (r >= 0) {
        r = diff_tables_make(&tables, &before.analysis, &after.analysis);
        if (r < 0)
            work_failed(r, "the comparison", p);
    }
    if (r >= 0) {
        json_array_extend(before.notes, after.notes);
        r = compare_write(work, &tables, before.notes, answer);
        if (r < 0)
            problem_set(p, r, PROBLEM_INTERNAL, "cannot write the comparison");
    }
    diff_tables_done(&tables);
    work_analysis_done(&before);
    work_analysis_done(&after);
    before = after = (struct work_analysis){0};
    json_decref(a.spec);
    json_decref(b.spec);
    return r;
}
