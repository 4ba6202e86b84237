/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a callgrind profile: what each cost itself, and with what it called. */
#include "trace/reports/report.h"
#include "trace/reports/slice_sums.h"
#include <errno.h>
#include <math.h>

/* -- Functions ------------------------------------------------------------------------------------------- */

static const struct report_column functions_columns[] = {
    {"function", UNIT_TEXT, "name of the function"},
    {"self_ns", UNIT_NS, "self cost"},
    {"self_share", UNIT_SHARE, "share of the entire profile"},
    {"inclusive_ns", UNIT_NS, "cost including callees; empty for functions in a call cycle"},
    {"inclusive_share", UNIT_SHARE, "share of the entire profile"},
    RANK_COLUMN,
};

struct functions_function {
    int64_t name, self, inclusive;
    bool in_circle; /* its inclusive cost is not known */
};

/* What callgraph.h draws: a thread of calls, and one of each function's own cost. Sums that are missing have
 * nothing that could be summed. */
static size_t list_sums(const struct columns *c, struct functions_function *ret)
{
    size_t n = 0;

    for (uint64_t group = 0; group < columns_rows(c, TABLE_name); group++) {
        struct text category = columns_text(c, columns_get(c, COL_name_category, group));
        int64_t sum = columns_get(c, COL_name_sum, group);
        bool is_self = text_is(category, "callgrind_self"), is_circle = text_is(category, "callgrind_circle");
        if (sum < 0 || (!is_self && !is_circle && !text_is(category, "callgrind")))
            continue;
        ret[n++] = (struct functions_function){.name = columns_get(c, COL_name_name, group),
                                               .self = is_self ? sum : 0,
                                               .inclusive = is_self ? 0 : sum,
                                               .in_circle = is_circle};
    }
    return n;
}

static int functions_compare_names(const void *x, const void *y)
{
    const struct functions_function *a = x, *b = y;
    return (a->name > b->name) - (a->name < b->name);
}

static int compare_costs(const void *x, const void *y)
{
    const struct functions_function *a = x, *b = y;

    if (a->self != b->self)
        return a->self > b->self ? -1 : 1;
    return (a->inclusive < b->inclusive) - (a->inclusive > b->inclusive);
}

static size_t functions_unite(struct functions_function *functions, size_t n)
{
    size_t kept = 0;

    qsort(functions, n, sizeof(*functions), functions_compare_names);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || functions[kept - 1].name != functions[i].name) {
            functions[kept++] = functions[i];
            continue;
        }
        functions[kept - 1].self = MAX(functions[kept - 1].self, functions[i].self);
        functions[kept - 1].inclusive = MAX(functions[kept - 1].inclusive, functions[i].inclusive);
        functions[kept - 1].in_circle |= functions[i].in_circle;
    }
    return kept;
}

static int functions_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    _cleanup_(freep) struct functions_function *functions =
        calloc(columns_rows(c, TABLE_name) + 1, sizeof(*functions));
    int64_t total = 0;

    if (!functions)
        return -ENOMEM;
    size_t n = list_sums(c, functions);
    if (n == 0)
        return 0;
    n = functions_unite(functions, n);
    qsort(functions, n, sizeof(*functions), compare_costs);
    for (size_t i = 0; i < n; i++)
        if (__builtin_add_overflow(total, functions[i].self, &total))
            total = INT64_MAX;
    /* Cost that no function's self cost contains counts as well. */
    for (size_t i = 0; i < n; i++)
        total = MAX(total, functions[i].inclusive);
    for (size_t i = 0; i < n; i++) {
        /* Calls that are too small are not drawn, but own costs always are. */
        int64_t inclusive = MAX(functions[i].inclusive, functions[i].self);
        emit_text_by_number(ret, c, functions[i].name);
        emit_int(ret, functions[i].self);
        emit_share(ret, functions[i].self, total);
        if (functions[i].in_circle) {
            emit_null(ret);
            emit_null(ret);
        } else {
            emit_int(ret, inclusive);
            emit_share(ret, inclusive, total);
        }
        emit_int(ret, a->ranks[rank].number);
    }
    return 0;
}

const struct report report_functions = {
    .name = "functions",
    .overview = {.place = 5, .of_host = true},
    .title = "functions of a callgrind profile by cost",
    .method = "The self cost of a function is exact. The inclusive cost is the sum over the flame graph of "
              "the profile, which omits calls of less than a 100,000th of the total. Functions in a call "
              "cycle have an inclusive cost only if the cycle was entered through one function alone, and "
              "then only that function.",
    .needs_rows = true,
    .columns = functions_columns,
    .n_columns = ARRAY_SIZE(functions_columns),
    .make_rank = functions_make_rank,
};

/* -- Ort ------------------------------------------------------------------------------------------------- */

/* Nodes of ONNX Runtime's profiles by operator type and execution provider. */

static const struct report_column ort_columns[] = {
    {"operator", UNIT_TEXT, "operator type of the node"},
    {"provider", UNIT_TEXT, "execution provider: CPUExecutionProvider, CUDAExecutionProvider, ..."},
    {"nodes", UNIT_COUNT, "number of distinct nodes of the graph"},
    {"count", UNIT_COUNT, "number of node executions"},
    {"sum_ns", UNIT_NS, "total duration"},
    {"share", UNIT_SHARE, "share of the total duration"},
    {"mean_ns", UNIT_NS, "mean duration"},
    {"median_ns", UNIT_NS, "median duration"},
    {"min_ns", UNIT_NS, "shortest duration"},
    {"max_ns", UNIT_NS, "longest duration"},
    RANK_COLUMN,
};

/* A node that ran once. */
struct ort_run {
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

static int list_runs(struct analysis *a, size_t rank, struct ort_run **ret, size_t *ret_n)
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
        (*ret)[(*ret_n)++] = (struct ort_run){op, columns_get(c, COL_op_provider, row),
                                              columns_get(c, COL_slice_name, (uint64_t)slice),
                                              columns_get(c, COL_slice_dur, (uint64_t)slice)};
    }
    return 0;
}

static int ort_compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int ort_compare_kinds(const struct ort_run *a, const struct ort_run *b)
{
    int order = ort_compare_numbers(a->op, b->op);
    return order ? order : ort_compare_numbers(a->provider, b->provider);
}

static int ort_compare(const void *x, const void *y)
{
    const struct ort_run *a = x, *b = y;
    int order = ort_compare_kinds(a, b);
    return order ? order : ort_compare_numbers(a->node, b->node);
}

/* One kind; sums has one label for each. */
static void ort_emit_kind(const struct analysis *a, size_t rank, const struct ort_run *runs, size_t n_nodes,
                          const struct slice_sum *s, int64_t total, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;

    emit_text_by_number(ret, c, runs->op);
    emit_text_by_number(ret, c, runs->provider);
    emit_int(ret, (int64_t)n_nodes);
    emit_int(ret, (int64_t)s->count);
    emit_int(ret, s->sum);
    emit_share(ret, s->sum, total);
    emit_int(ret, llround(s->mean));
    emit_int(ret, llround(s->median));
    emit_int(ret, s->min);
    emit_int(ret, s->max);
    emit_int(ret, a->ranks[rank].number);
}

static int add_kind(const struct analysis *a, size_t rank, const struct ort_run *runs, size_t n,
                    int64_t total, struct report_rows *ret)
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
    ort_emit_kind(a, rank, runs, n_nodes, &sums.items[0], total, ret);
    return 0;
}

static int ort_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(freep) struct ort_run *runs = NULL;
    int64_t total = 0;
    size_t n;
    int r = list_runs(a, rank, &runs, &n);

    if (r < 0 || n == 0)
        return r;
    qsort(runs, n, sizeof(*runs), ort_compare);
    for (size_t i = 0; i < n; i++)
        if (__builtin_add_overflow(total, MAX(runs[i].dur, INT64_C(0)), &total))
            total = INT64_MAX;
    for (size_t i = 0, to; i < n && r >= 0; i = to) {
        for (to = i + 1; to < n && ort_compare_kinds(&runs[i], &runs[to]) == 0;)
            to++;
        r = add_kind(a, rank, &runs[i], to - i, total, ret);
    }
    return r;
}

const struct report report_ort = {
    .name = "ort",
    .overview = {.place = 6, .of_host = true},
    .title = "nodes of ONNX Runtime by operator type and provider",
    .method = "Events of category Node whose names end with _kernel_time; fences before and after them are "
              "left out.",
    .needs = NEEDS_OPS,
    .sort_by = "sum_ns",
    .needs_rows = true,
    .columns = ort_columns,
    .n_columns = ARRAY_SIZE(ort_columns),
    .make_rank = ort_make_rank,
};
