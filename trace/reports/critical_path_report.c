/* SPDX-License-Identifier: Apache-2.0 */
/* The critical path: what bounds it, by event, and its parts in order. */
#include "trace/reports/critical_path.h"
#include "trace/reports/reports.h"

#include <errno.h>

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"bound", UNIT_TEXT,
     "cpu_bound, gpu_compute_bound, gpu_communication_bound, gpu_kernel_kernel_overhead, "
     "gpu_kernel_launch_overhead"},
    {"name", UNIT_TEXT, "of the event whose time it is; no value: all of this bound"},
    {"count", UNIT_COUNT, "parts of the path"},
    {"sum_ns", UNIT_NS, "time of them"},
    {"share", UNIT_SHARE, "of the path"},
};

static const struct report_column list_columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"start_ns", UNIT_NS, "when it began, counted from the rank's first slice"},
    {"dur_ns", UNIT_NS, "how long the path stays there"},
    {"bound", UNIT_TEXT, "as in critical_path"},
    {"name", UNIT_TEXT, "of the event whose time it is"},
    {"slice", UNIT_ID, "that event's slice"},
};

/* A part with what it is summed up by. */
struct sum {
    enum path_bound bound;
    int64_t name;
    int64_t count, ns;
};

static int compare_names(const void *x, const void *y)
{
    const struct sum *a = x, *b = y;

    return a->bound != b->bound ? (int)a->bound - (int)b->bound : (a->name > b->name) - (a->name < b->name);
}

static int compare_sums(const void *x, const void *y)
{
    const struct sum *a = x, *b = y;

    return (a->ns < b->ns) - (a->ns > b->ns);
}

static size_t merge_equal(struct sum *sums, size_t n)
{
    size_t kept = 0;

    qsort(sums, n, sizeof(*sums), compare_names);
    for (size_t i = 0; i < n; i++)
        if (kept > 0 && compare_names(&sums[kept - 1], &sums[i]) == 0) {
            sums[kept - 1].count += sums[i].count;
            sums[kept - 1].ns += sums[i].ns;
        } else {
            sums[kept++] = sums[i];
        }
    qsort(sums, kept, sizeof(*sums), compare_sums);
    return kept;
}

static void put_sum(struct analysis *a, size_t rank, const struct sum *s, bool is_total, int64_t length,
                    struct report_rows *ret)
{
    put_int(ret, a->ranks[rank].number);
    put_str(ret, path_bound_name(s->bound));
    if (is_total)
        put_null(ret);
    else
        put_text(ret, columns_text(a->ranks[rank].columns, s->name));
    put_int(ret, s->count);
    put_int(ret, s->ns);
    put_share(ret, s->ns, length);
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(critical_path_done) struct critical_path path = {0};
    struct sum totals[_PATH_BOUND_MAX] = {0};
    int r = critical_path_find(a, rank, &path);

    if (r == -ENODATA)
        return 0;
    _cleanup_(freep) struct sum *sums = r < 0 ? NULL : calloc(path.n + 1, sizeof(*sums));
    if (!sums)
        return r < 0 ? r : -ENOMEM;
    for (size_t i = 0; i < path.n; i++) {
        const struct path_part *part = &path.parts[i];
        sums[i] = (struct sum){part->bound, columns_get(a->ranks[rank].columns, COL_slice_name, part->slice),
                               1, part->dur};
        totals[part->bound].bound = part->bound;
        totals[part->bound].count++;
        totals[part->bound].ns += part->dur;
    }
    size_t n = merge_equal(sums, path.n);
    qsort(totals, _PATH_BOUND_MAX, sizeof(*totals), compare_sums);
    for (size_t i = 0; i < _PATH_BOUND_MAX && totals[i].ns > 0; i++)
        put_sum(a, rank, &totals[i], true, path.length, ret);
    for (size_t i = 0; i < n; i++)
        put_sum(a, rank, &sums[i], false, path.length, ret);
    return 0;
}

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, ret);
    return r;
}

static int make_list(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t rank = 0; rank < a->n && r >= 0; rank++) {
        _cleanup_(critical_path_done) struct critical_path path = {0};
        const struct columns *c = a->ranks[rank].columns;
        r = critical_path_find(a, rank, &path);
        for (size_t i = 0; i < path.n && r >= 0; i++) {
            put_int(ret, a->ranks[rank].number);
            put_int(ret, analysis_since_first(a, rank, path.parts[i].from));
            put_int(ret, path.parts[i].dur);
            put_str(ret, path_bound_name(path.parts[i].bound));
            put_text(ret, columns_text(c, columns_get(c, COL_slice_name, path.parts[i].slice)));
            put_int(ret, (int64_t)path.parts[i].slice);
        }
        r = r == -ENODATA ? 0 : r;
    }
    return r;
}

const struct report report_critical_path = {
    .name = "critical_path",
    .title = "what would have to become shorter for the whole to become shorter",
    .how = "The longest path through calls, launches, streams and synchronisation, after Holistic Trace "
           "Analysis' critical path. Rows "
           "without a name sum up a bound.",
    .needs = NEEDS_GPU | NEEDS_OPS,
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};

const struct report report_critical_path_list = {
    .name = "critical_path_list",
    .title = "the parts of the critical path in order",
    .how = "As in critical_path.",
    .needs = NEEDS_GPU | NEEDS_OPS,
    .is_detail = true,
    .columns = list_columns,
    .n_columns = ARRAY_SIZE(list_columns),
    .make = make_list,
};
