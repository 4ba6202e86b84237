/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a callgrind profile: what each cost itself, and with what it called. */
#include "trace/columns/column_cursor.h"
#include "trace/reports/aggregation.h"
#include <errno.h>

/* -- Functions ------------------------------------------------------------------------------------------- */

#define FUNCTIONS_COLUMNS(C)                                                                                 \
    C(function, TEXT, "name of the function")                                                                \
    C(self_ns, NS, "self cost")                                                                              \
    C(self_share, SHARE, "share of the entire profile")                                                      \
    C(inclusive_ns, NS, "cost including callees; empty for functions in a call cycle")                       \
    C(inclusive_share, SHARE, "share of the entire profile")                                                 \
    RANK_COLUMN(C)
REPORT_ROW(functions, FUNCTIONS_COLUMNS);

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
        bool is_known = !functions[i].in_circle;
        EMIT_ROW(functions, ret, .function = row_text(c, functions[i].name), .self_ns = functions[i].self,
                 .self_share = row_share(functions[i].self, total),
                 .inclusive_ns = is_known ? inclusive : COLUMN_NULL,
                 .inclusive_share = is_known ? row_share(inclusive, total) : NAN,
                 .rank = a->ranks[rank].number);
    }
    return 0;
}

const struct report report_functions = {
    .name = "functions",
    .overview = {.position = 5, .of_host = true},
    .title = "functions of a callgrind profile by cost",
    .method = "The self cost of a function is exact. The inclusive cost is the sum over the flame graph of "
              "the profile, which omits calls of less than a 100,000th of the total. Functions in a call "
              "cycle have an inclusive cost only if the cycle was entered through one function alone, and "
              "then only that function.",
    .needs_rows = true,
    REPORT_COLUMNS(functions),
    .make_rank = functions_make_rank,
};

/* -- Ort ------------------------------------------------------------------------------------------------- */

enum { DUR, NODES, _VALUE_MAX };

static const struct report_column ort_columns[] = {
    {"operator", UNIT_TEXT, "operator type of the node", .figure = {FIGURE_TEXT, 0}},
    {"provider", UNIT_TEXT, "execution provider: CPUExecutionProvider, CUDAExecutionProvider, ...",
     .figure = {FIGURE_TEXT, 1}},
    {"nodes", UNIT_COUNT, "number of distinct nodes of the graph", .figure = {FIGURE_SUM, NODES}},
    {"count", UNIT_COUNT, "number of node executions", .figure = {FIGURE_COUNT}},
    {"sum_ns", UNIT_NS, "total duration", .figure = {FIGURE_SUM}},
    {"share", UNIT_SHARE, "share of the total duration", .figure = {FIGURE_SHARE}},
    {"mean_ns", UNIT_NS, "mean duration", .figure = {FIGURE_MEAN}},
    {"median_ns", UNIT_NS, "median duration", .figure = {FIGURE_MEDIAN}},
    {"min_ns", UNIT_NS, "shortest duration", .figure = {FIGURE_MIN}},
    {"max_ns", UNIT_NS, "longest duration", .figure = {FIGURE_MAX}},
    RANK_FIGURE,
};

/* Fences and the like are no runs: only those have this at the end of their name. */
static bool is_run(const struct columns *c, uint64_t slice)
{
    static const char suffix[] = "_kernel_time";
    struct text name = columns_text(c, columns_get(c, COL_slice_name, slice));
    size_t n = sizeof(suffix) - 1;

    return text_is(columns_text(c, columns_get(c, COL_slice_category, slice)), "Node") && name.size > n &&
           memcmp(name.p + name.size - n, suffix, n) == 0;
}

static int ort_gather(struct gathering *g)
{
    const struct columns *c = g->c;
    const struct intervals *times;
    int r = analysis_times(g->analysis, g->rank, &times);

    struct column_cursor ops = {.c = c, .column = COL_op_op_name};

    for (uint64_t row = 0; row < columns_rows(c, TABLE_op) && r >= 0; row++) {
        int64_t op = column_cursor_get(&ops, row),
                slice = op == COLUMN_NULL ? COLUMN_NULL : columns_get(c, COL_op_slice, row);
        if (slice == COLUMN_NULL || !is_run(c, (uint64_t)slice) ||
            !intervals_find(times, columns_get(c, COL_slice_ts, (uint64_t)slice)))
            continue;
        struct group_key key = {{gathering_text(g, op),
                                 gathering_nonempty(g,
                                                    columns_text(c, columns_get(c, COL_op_provider, row)))}},
                         node = key;
        node.part[2] = gathering_text(g, columns_get(c, COL_slice_name, (uint64_t)slice));
        node.part[3] = (int64_t)g->rank;
        int64_t values[] = {[DUR] = MAX(columns_get(c, COL_slice_dur, (uint64_t)slice), 0),
                            [NODES] = gathering_is_new(g, node)};
        r = gathering_add(g, key, values, (uint64_t)slice);
    }
    return r;
}

static const struct aggregation ort = {.n_values = _VALUE_MAX, .by_rank = true, .gather = ort_gather};

const struct report report_ort = {
    .name = "ort",
    .overview = {.position = 6, .of_host = true},
    .title = "nodes of ONNX Runtime by operator type and provider",
    .method = "Events of category Node whose names end with _kernel_time; fences before and after them are "
              "left out.",
    .needs = NEEDS_OPS,
    .sort_by = "sum_ns",
    .needs_rows = true,
    REPORT_COLUMNS(ort),
    .aggregation = &ort,
};
