/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of ONNX Runtime's profiles by operator type and execution provider. */
#include "trace/reports/reports.h"
#include "trace/reports/slice_sums.h"
#include <errno.h>
#include <math.h>

static const struct report_column columns[] = {
    {"operator", UNIT_TEXT, "type of the node"},
    {"provider", UNIT_TEXT, "execution provider: CPUExecutionProvider, CUDAExecutionProvider, ..."},
    {"nodes", UNIT_COUNT, "of the graph, by name"},
    {"count", UNIT_COUNT, "how often they ran"},
    {"sum_ns", UNIT_NS, "of all of them"},
    {"share", UNIT_SHARE, "of the sum over all"},
    {"mean_ns", UNIT_NS, "of one"},
    {"median_ns", UNIT_NS, "half of them were as short"},
    {"min_ns", UNIT_NS, "of the shortest"},
    {"max_ns", UNIT_NS, "of the longest"},
    {"rank", UNIT_ID, "which trace"},
};

/* A node that ran once. */
struct run {
    int64_t op, provider, node; /* texts */
    int64_t dur;
};

/* Fences and the like are no runs: only those have this at the end of their name. */
static bool is_run(const struct columns *c, uint64_t slice)
{
    static const char suffix[] = "_kernel_time";
    struct text name = columns_text(c, columns_get(c, COL_slice_name, slice));
    size_t n = sizeof(suffix) - 1;

    return category_is_one_of(c, columns_get(c, COL_slice_category, slice),
                              (const char *const[]){"Node", NULL}) &&
           name.size > n && memcmp(name.p + name.size - n, suffix, n) == 0;
}

static int list_runs(struct analysis *a, size_t rank, struct run **ret, size_t *ret_n)
{
    const struct columns *c = a->ranks[rank].columns;
    uint64_t rows = columns_rows(c, TABLE_op);
    const struct intervals *times;
    int r = analysis_times(a, rank, &times);

    *ret_n = 0;
    *ret = calloc(rows + 1, sizeof(**ret));
    if (!*ret || r < 0)
        return -ENOMEM;
    for (uint64_t row = 0; row < rows; row++) {
        int64_t op = columns_get(c, COL_op_op_name, row), slice = columns_get(c, COL_op_slice, row);
        if (op == COLUMN_NULL || slice == COLUMN_NULL || !is_run(c, (uint64_t)slice) ||
            !intervals_find(times, columns_get(c, COL_slice_ts, (uint64_t)slice)))
            continue;
        (*ret)[(*ret_n)++] = (struct run){op, columns_get(c, COL_op_provider, row),
                                          columns_get(c, COL_slice_name, (uint64_t)slice),
                                          columns_get(c, COL_slice_dur, (uint64_t)slice)};
    }
    return 0;
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_kinds(const struct run *a, const struct run *b)
{
    int order = compare_numbers(a->op, b->op);
    return order ? order : compare_numbers(a->provider, b->provider);
}

static int compare(const void *x, const void *y)
{
    const struct run *a = x, *b = y;
    int order = compare_kinds(a, b);
    return order ? order : compare_numbers(a->node, b->node);
}

/* One kind; sums has one label for each. */
static void put_kind(const struct analysis *a, size_t rank, const struct run *runs, size_t n_nodes,
                     const struct slice_sum *s, int64_t total, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;

    put_text_or_null(ret, c, runs->op);
    put_text_or_null(ret, c, runs->provider);
    put_int(ret, (int64_t)n_nodes);
    put_int(ret, (int64_t)s->count);
    put_int(ret, s->sum);
    put_share(ret, s->sum, total);
    put_int(ret, llround(s->mean));
    put_int(ret, llround(s->median));
    put_int(ret, s->min);
    put_int(ret, s->max);
    put_int(ret, a->ranks[rank].number);
}

static int add_kind(const struct analysis *a, size_t rank, const struct run *runs, size_t n, int64_t total,
                    struct report_rows *ret)
{
    _cleanup_(slice_sums_done) struct slice_sums sums = {0};
    int64_t label = slice_sums_new(&sums, (struct text){0});
    size_t n_nodes = 0;
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++) {
        n_nodes += i == 0 || runs[i].node != runs[i - 1].node;
        r = slice_sums_add(&sums, label, MAX(runs[i].dur, INT64_C(0)));
    }
    if (r < 0)
        return r;
    slice_sums_finish(&sums);
    put_kind(a, rank, runs, n_nodes, &sums.items[0], total, ret);
    return 0;
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(freep) struct run *runs = NULL;
    int64_t total = 0;
    size_t n;
    int r = list_runs(a, rank, &runs, &n);

    if (r < 0 || n == 0)
        return r;
    qsort(runs, n, sizeof(*runs), compare);
    for (size_t i = 0; i < n; i++)
        if (__builtin_add_overflow(total, MAX(runs[i].dur, INT64_C(0)), &total))
            total = INT64_MAX;
    for (size_t i = 0, to; i < n && r >= 0; i = to) {
        for (to = i + 1; to < n && compare_kinds(&runs[i], &runs[to]) == 0;)
            to++;
        r = add_kind(a, rank, &runs[i], to - i, total, ret);
    }
    return r;
}

/* sum_ns */
#define COLUMN_SUM 4

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, ret);
    if (r >= 0 && report_rows_count(ret) == 0)
        return -ENODATA;
    return r < 0 ? r : report_rows_sort(ret, COLUMN_SUM, true);
}

const struct report report_ort = {
    .name = "ort",
    .title = "nodes of ONNX Runtime by operator type and provider",
    .how = "Events of category Node that end with _kernel_time; what runs before and behind them (fences) is "
           "left out.",
    .needs = NEEDS_OPS,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
